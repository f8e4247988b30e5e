"""The codec: a flow written as JSON reads back equal; the fingerprint names what it does."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from ropewalk.codec import fingerprint, flow_from_json, flow_to_json
from ropewalk.errors import InvalidFlow
from ropewalk.expr.ast import NULL, Arr, Expr, Lit, Obj, Ref
from ropewalk.ir import Channel, Flow, Graph, Meta, Node
from ropewalk.ops import OPS, Branch, Call


def a_flow(**changes: Any) -> Flow:
    node = Node(
        id="a",
        op=Call(tool="t", args=Obj((("q", Ref("input", ("q",))), ("n", Lit({"x": 1, "y": 2}))))),
        meta=Meta(source="nodes[0]", description="look"),
    )
    return Flow(name="f", body=Graph(nodes=(node,), result=Ref("out", ("a",))), **changes)


def test_the_document_is_readable_and_leaves_defaults_out() -> None:
    assert flow_to_json(a_flow()) == {
        "ropewalk": 1,
        "name": "f",
        "body": 0,
        "regions": [
            {
                "nodes": [
                    {
                        "id": "a",
                        "op": {
                            "kind": "Call",
                            "tool": "t",
                            "args": {"obj": [["q", {"ref": ["input", "q"]}], ["n", {"lit": {"x": 1, "y": 2}}]]},
                        },
                        "meta": {"source": "nodes[0]", "description": "look"},
                    }
                ],
                "result": {"ref": ["out", "a"]},
            }
        ],
    }


def test_the_fingerprint_ignores_meta_columns_and_key_order_and_nothing_else() -> None:
    flow = a_flow(state={"a": Channel(initial={"p": 1, "q": 2}), "b": Channel()})
    same = Node(
        id="a", op=Call(tool="t", args=Obj((("n", Lit({"y": 2, "x": 1})), ("q", Ref("input", ("q",), column=7)))))
    )
    state = {"b": Channel(), "a": Channel(initial={"q": 2, "p": 1})}
    body = dataclasses.replace(flow.body, nodes=(same,))
    assert fingerprint(dataclasses.replace(flow, body=body, state=state)) == fingerprint(flow)
    for other in (
        dataclasses.replace(flow, timeout=1.0),
        dataclasses.replace(flow, state={}),
        dataclasses.replace(flow, input_schema={"type": "object"}),
        dataclasses.replace(flow, body=dataclasses.replace(flow.body, ordered=True)),
        dataclasses.replace(flow, body=dataclasses.replace(flow.body, result=NULL)),
        dataclasses.replace(
            flow, body=dataclasses.replace(body, nodes=(dataclasses.replace(same, after=frozenset("b")),))
        ),
    ):
        assert fingerprint(other) != fingerprint(flow)


def test_true_and_one_have_different_fingerprints() -> None:
    def prints(value: Any) -> str:
        return fingerprint(Flow(name="f", body=Graph(nodes=(), result=Lit(value))))

    assert len({prints(v) for v in (True, 1, "1", None, [], {}, 1.5)}) == 7


def test_nesting_never_makes_the_document_deep() -> None:
    graph = Graph(nodes=())
    for i in range(64):
        graph = Graph(nodes=(Node(id=f"n{i}", op=Branch(arms=((Lit(True), graph),))),))
    flow = Flow(name="deep", body=graph)
    assert flow_from_json(orjson.loads(orjson.dumps(flow_to_json(flow)))) == flow
    assert len(fingerprint(flow)) == 32


def test_an_expression_nested_too_deep_is_refused() -> None:
    expr: Expr = NULL
    for _ in range(300):
        expr = Arr((expr,))
    flow = Flow(name="f", body=Graph(nodes=(), result=expr))
    with pytest.raises(InvalidFlow, match="nested deeper than 100"):
        flow_to_json(flow)
    doc: Any = {"lit": None}
    for _ in range(900):
        doc = {"arr": [doc]}
    with pytest.raises(InvalidFlow, match="nested deeper than 100"):
        flow_from_json({"ropewalk": 1, "name": "f", "body": 0, "regions": [{"nodes": [], "result": doc}]})


def _broken(where: str, value: Any) -> Any:
    doc = json.loads(json.dumps(flow_to_json(a_flow(state={"s": Channel(reduce="sum")}))))
    at: Any = doc
    *path, last = [int(key) if key.isdigit() else key for key in where.split("/")]
    for key in path:
        at = at[key]
    if value is KeyError:
        del at[last]
    else:
        at[last] = value
    return doc


@pytest.mark.parametrize(
    ("where", "value", "problem"),
    [
        ("ropewalk", 2, "ropewalk: only documents of version 1 are supported, not 2"),
        (
            "regions/0/nodes/0/op/kind",
            "Cal",
            "regions[0].nodes[0].op.kind: unknown kind of node 'Cal'; did you mean Call?",
        ),
        ("regions/0/nodes/0/op/arg", 1, "regions[0].nodes[0].op.arg: unknown key for Call; did you mean args?"),
        ("regions/0/nodes/0/op/tool", KeyError, "regions[0].nodes[0].op: Call needs tool"),
        ("regions/0/nodes/0/id", 3, "regions[0].nodes[0].id: must be a string, not 3"),
        ("regions/0/ordered", 1, "regions[0].ordered: must be true or false, not 1"),
        ("regions/0/result", {"reff": []}, "must have one of the keys"),
        ("regions/0/result/ref", [], "regions[0].result.ref: must be a list of a name"),
        ("regions/0/result/elid", True, "regions[0].result.elid: unknown key next to 'ref'; did you mean elide?"),
        ("regions/0/result", {"lit": float("nan")}, "regions[0].result.lit: nan is not JSON"),
        ("regions/0/result", {"obj": [["a"]]}, "regions[0].result.obj[0]: must be a pair"),
        ("body", 1, "body: must be the position of an earlier region"),
        ("body", -1, "body: must be the position of an earlier region"),
        ("state/s", [], "state.s: must be an object, not a list"),
        ("state/s/reduc", "x", "state.s.reduc: unknown key for Channel; did you mean reduce?"),
        ("regions", None, "regions: must be a list"),
    ],
)
def test_a_broken_document_is_refused_with_its_place(where: str, value: Any, problem: str) -> None:
    with pytest.raises(InvalidFlow) as caught:
        flow_from_json(_broken(where, value))
    assert problem in str(caught.value)


def test_a_region_has_one_place() -> None:
    node = {"id": "b", "op": {"kind": "Branch", "arms": [], "default": 0}}
    doc = {"ropewalk": 1, "name": "f", "body": 1, "regions": [{"nodes": []}, {"nodes": [node, {**node, "id": "c"}]}]}
    with pytest.raises(InvalidFlow, match="is used twice"):
        flow_from_json(doc)


def test_a_new_op_needs_no_edit(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Race:
        bodies: tuple[Graph, ...]
        names: tuple[str, ...] = ()
        quorum: int | None = None

        def compile(self, site: Any, /) -> Any:
            raise NotImplementedError

    monkeypatch.setitem(OPS, "Race", Race)
    op = Race(bodies=(Graph(nodes=()), Graph(nodes=(), result=Lit(1))), names=("a", "b"), quorum=1)
    flow = Flow(name="f", body=Graph(nodes=(Node(id="r", op=op),)))
    assert flow_from_json(flow_to_json(flow)) == flow
