"""Drawings: everything is shown, nothing in a name is markup, large flows are quick."""

from __future__ import annotations

import re
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk import App
from ropewalk.draw import mermaid, svg, text
from ropewalk.draw.layout import place
from ropewalk.expr.ast import Expr, Fn, Lit, Obj, Ref
from ropewalk.ir import Flow, Graph, Meta, Node, OnError, Policy, Retry
from ropewalk.ops import Block, Branch, Call, Compute, Loop, Map, Sleep

SVG = "{http://www.w3.org/2000/svg}"


def call(id: str, tool: str = "tool", **more: Any) -> Node:
    return Node(id=id, op=Call(tool=tool, args=more.pop("args", Obj(()))), **more)


def drawn_flow() -> Flow:
    each = Graph(ordered=True, nodes=(call("fetch", "http.get", args=Obj((("url", Ref("item")),))), call("sum", "llm")))
    choice = Branch(
        arms=((Fn(">", (Ref("prev"), Lit(3))), Graph(nodes=(call("mail"),))),), default=Graph(nodes=(call("log"),))
    )
    policy = Policy(retry=Retry(attempts=3), timeout=2.5, on_error=OnError(value=Lit("none")))
    nodes = (
        call("search", "web.search", args=Obj((("q", Ref("input", ("q",))),))),
        Node(id="glue", op=Compute(value=Ref("out", ("search",))), meta=Meta(hidden=True)),
        Node(id="each", op=Map(items=Ref("out", ("glue",)), body=each, limit=4)),
        Node(id="decide", op=choice, after=frozenset({"each"}), when=Ref("input", ("go",))),
        Node(id="poll", op=Loop(body=Graph(nodes=(Node(id="nap", op=Sleep(seconds=Lit(5))),)), limit=9)),
        call(
            "report", after=frozenset({"decide", "poll"}), policy=policy, writes=Obj((("n", Ref("out", ("report",))),))
        ),
    )
    return Flow(name="research", body=Graph(nodes=nodes, result=Ref("out", ("report",))))


def test_the_tree_shows_every_node_with_what_matters() -> None:
    assert (
        text(drawn_flow())
        == """\
research
├─ search  Call web.search · args: {"q": $input.q}
├─ each  Map · limit: 4 · items: $out.glue · after search
│  ├─ fetch  Call http.get · args: {"url": $item}
│  └─ sum  Call llm
├─ decide  Branch · when $input.go · after each
│  ├─ if $prev > 3
│  │  └─ mail  Call tool
│  └─ else
│     └─ log  Call tool
├─ poll  Loop · limit: 9
│  └─ nap  Sleep · seconds: 5
├─ report  Call tool · attempts: 3 · timeout: 2.5 s · on error: "none" · writes: {"n": $out.report} · after decide, poll
└─ = $out.report
"""
    )


def test_mermaid_has_groups_edges_and_numbers_for_marks() -> None:
    assert (
        mermaid(drawn_flow())
        == """\
flowchart TD
  n0["search<br/>Call web.search"]
  subgraph n1["each<br/>Map"]
    n1_0_0["fetch<br/>Call http.get"]
    n1_0_1["sum<br/>Call llm"]
    n1_0_0 --> n1_0_1
  end
  subgraph n2["decide<br/>Branch<br/>when #36;input.go"]
    subgraph n2_0g["if #36;prev #62; 3"]
      n2_0_0["mail<br/>Call tool"]
    end
    subgraph n2_1g["else"]
      n2_1_0["log<br/>Call tool"]
    end
  end
  subgraph n3["poll<br/>Loop"]
    n3_0_0["nap<br/>Sleep"]
  end
  n4["report<br/>Call tool"]
  n0 --> n1
  n1 --> n2
  n2 --> n4
  n3 --> n4
"""
    )


def test_mermaid_stays_below_its_limit_and_says_what_is_left_out() -> None:
    inner = Graph(ordered=True, nodes=tuple(call(f"i{i}") for i in range(30)))
    body = Graph(ordered=True, nodes=(call("a"), Node(id="b", op=Block(body=inner)), call("c")))
    assert mermaid(Flow(name="f", body=body)).count("-->") == 31
    short = mermaid(Flow(name="f", body=body), limit=20)
    assert short.count("-->") == 2
    assert "(30 nodes inside)" in short
    long = mermaid(Flow(name="f", body=Graph(ordered=True, nodes=tuple(call(f"n{i}") for i in range(2_000)))))
    assert long.count("-->") == 500
    assert "1,499 more nodes" in long


def _texts(drawing: str) -> list[str]:
    return [t.text or "" for t in ET.fromstring(drawing).iter(f"{SVG}text")]


def test_the_picture_shows_every_node_and_edge() -> None:
    drawing = svg(drawn_flow())
    shown = _texts(drawing)
    for id in ("search", "each", "fetch", "sum", "decide", "mail", "log", "poll", "nap", "report"):
        assert id in shown
    assert "glue" not in shown
    assert {"Call web.search", "if $prev > 3", "else", "when $input.go"} <= set(shown)
    assert drawing.count('class="e"') == 5  # four outside, one inside each
    assert drawing.count('class="g"') == 3


def test_boxes_do_not_overlap_and_groups_hold_what_is_theirs() -> None:
    root = ET.fromstring(svg(drawn_flow()))
    boxes = {}
    for group in root.iter(f"{SVG}g"):
        rect, title = group.find(f"{SVG}rect"), group.find(f"{SVG}title")
        assert rect is not None
        assert title is not None
        x, y, w, h = (float(rect.get(key, "0")) for key in ("x", "y", "width", "height"))
        boxes[(title.text or "").split("\n")[0]] = (x, y, x + w, y + h)

    def inside(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
        return a[0] >= b[0] and a[1] >= b[1] and a[2] <= b[2] and a[3] <= b[3]

    for inner, outer in (("fetch", "each"), ("sum", "each"), ("mail", "decide"), ("log", "decide"), ("nap", "poll")):
        assert inside(boxes[inner], boxes[outer])
    assert not _overlaps([boxes[id] for id in ("search", "each", "decide", "poll", "report")])
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    assert all(inside(box, (0, 0, width, height)) for box in boxes.values())
    assert boxes["search"][3] < boxes["each"][1] < boxes["decide"][1] < boxes["report"][1]


HOSTILE = [
    "<script>alert(1)</script>", '"]; click n0 call x()', "a\x1b[31mred\x07", "end", "--> b", "`x`", "&amp;",
    "日本語 🎉", "\u202egnp.exe", "x" * 500, "]]>", "</title></svg>", "%%{init}%%", "a\nb", "\ud800", "#quot;", "",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_names_are_never_markup(name: str) -> None:
    inner = Graph(nodes=(call(name, name),))
    legal = name.encode("utf-8", "replace").decode()  # a value is always valid text, a name may be anything
    condition: Expr = Fn("==", (Ref("input", (legal,)), Lit(legal)))
    nodes = (
        call(name, name, when=condition),
        Node(id=name + "2", op=Branch(arms=((condition, inner),), default=inner)),
    )
    flow = Flow(name=name, body=Graph(nodes=nodes))
    tags = {e.tag.removeprefix(SVG) for e in ET.fromstring(svg(flow)).iter()}
    assert tags <= {"svg", "title", "style", "g", "rect", "text", "path"}
    chart = mermaid(flow)
    line = re.compile(
        r"flowchart TD| +end| +n[\d_]+ --> n[\d_]+"
        r'| +(subgraph )?n[\d_]+g?\["(?:[^"<>`\[\]{}|#;&\\\x00-\x1f]|<br/>|#\d+;)*"\]'
    )
    assert all(line.fullmatch(part) for part in chart.splitlines()), chart
    tree = text(flow)
    assert all(c.isprintable() or c == "\n" for c in tree)
    assert len(tree.splitlines()) == 7


def test_wrong_flows_can_be_drawn_too() -> None:
    twice = (call("a", after=frozenset({"b", "gone"})), call("b", after=frozenset({"a"})), call("a"), call("c"))
    empty = Flow(name="", body=Graph(nodes=()))
    deep = Graph(nodes=(call("x"),))
    for i in range(150):
        deep = Graph(nodes=(Node(id=f"n{i}", op=Block(body=deep)),))
    for flow in (Flow(name="f", body=Graph(nodes=twice)), empty, Flow(name="deep", body=deep)):
        ET.fromstring(svg(flow))
        assert mermaid(flow).startswith("flowchart TD")
        assert text(flow).startswith(flow.name)


def test_a_new_kind_of_node_is_drawn_by_its_fields() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Race:
        prize: str
        first: Graph
        second: Graph
        quorum: int = 1
        until: Expr | None = None

        def compile(self, site: Any, /) -> Any:
            raise NotImplementedError

    op = Race(
        prize="gold", first=Graph(nodes=(call("x"),)), second=Graph(nodes=(call("y"),)), quorum=2, until=Ref("input")
    )
    flow = Flow(name="f", body=Graph(nodes=(Node(id="race", op=op),)))
    assert "└─ race  Race gold · quorum: 2 · until: $input\n   ├─ first\n" in text(flow)
    assert {"Race gold", "first", "second", "x", "y"} <= set(_texts(svg(flow)))
    assert "race<br/>Race gold" in mermaid(flow)


def test_two_thousand_nodes_take_about_a_second() -> None:
    web = tuple(call(f"n{i}", after=frozenset(f"n{i - j}" for j in (1, 7, 33) if i >= j)) for i in range(2_000))
    wide = (*(call(f"n{i}") for i in range(1_999)), call("z", after=frozenset(f"n{i}" for i in range(1_999))))
    for nodes in (web, wide):
        flow = Flow(name="large", body=Graph(nodes=nodes))
        began = time.process_time()
        assert svg(flow).count("<g>") == 2_000
        assert time.process_time() - began < 4  # 0.3 s on an idle machine


def _overlaps(boxes: list[tuple[float, ...]]) -> bool:
    return any(
        a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3] for i, a in enumerate(boxes) for b in boxes[:i]
    )


@given(st.data())
def test_layouts_never_overlap_and_edges_go_down(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.tuples(st.floats(20, 200), st.floats(20, 90)), min_size=1, max_size=20))
    node = st.integers(0, len(sizes) - 1)
    pairs = data.draw(st.lists(st.tuples(node, node), max_size=30))
    edges = sorted({(min(a, b), max(a, b)) for a, b in pairs if a != b})
    placed = place(sizes, edges)
    boxes = [(x, y, x + w - 0.01, y + h - 0.01) for (x, y), (w, h) in zip(placed.corners, sizes, strict=True)]
    assert not _overlaps(boxes)
    assert all(x >= -0.01 and y >= 0 and r <= placed.width + 0.01 and b <= placed.height for x, y, r, b in boxes)
    for (a, b), route in zip(edges, placed.routes, strict=True):
        assert placed.corners[a][1] + sizes[a][1] <= placed.corners[b][1]
        assert all(one[1] <= two[1] for one, two in pairwise(route))


def test_the_other_branch_has_the_name_of_the_document() -> None:
    tool = {"id": "t", "type": "tool", "tool": "t"}
    choice = {
        "id": "c",
        "type": "condition",
        "condition": "$input.a",
        "then": [tool],
        "otherwise": [{**tool, "id": "u"}],
    }
    with App("memory") as app:
        drawing = text(app.load({"kind": "chain", "name": "x", "nodes": [choice]}).flow)
    assert "└─ otherwise\n" in drawing
    assert "default" not in drawing
