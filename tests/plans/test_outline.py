"""The outline of a program: bounds of its calls, which are never too small, its drawings, and its form as data."""

from __future__ import annotations

import ast
import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from ropewalk import App, tool
from ropewalk.check.facts import Facts, ToolFacts, facts_of
from ropewalk.check.program_facts import calls_of_outline
from ropewalk.codec import fingerprint, flow_from_json, flow_to_json
from ropewalk.draw import draw, graph_data
from ropewalk.errors import InvalidFlow
from ropewalk.ir import Flow
from ropewalk.notations.plan.readers import compiled_from
from ropewalk.notations.plan.render import compile_document
from ropewalk.outline import MOST, Outline, from_json, to_json
from ropewalk.plans.check.outline import outline_of
from tiers import Scale

from .grammar import PARAMETERS as GRAMMAR_PARAMETERS
from .grammar import Grammar
from .oracle import PARAMETERS
from .test_grammar import world
from .virtual_loop import run_machine

TOOLS = {name: name for name in PARAMETERS} | {"crm.find": "crm:find", "crm.drop": "crm:drop"}


def outline(code: str) -> Outline:
    return outline_of(ast.parse(code), code, TOOLS)


def bounds(code: str) -> dict[str, int | None]:
    return calls_of_outline(outline(code), lambda tool: {tool: 1})


def plan(code: str, asks: str = "") -> Flow:
    tools: Any = {name: {"id": id, "approve": name == asks} for name, id in TOOLS.items()}
    return compile_document({"kind": "plan", "code": code, "tools": tools, "inputs": ["a"]}).flow


def facts(code: str, asks: str = "") -> Facts:
    return facts_of(plan(code, asks), lambda tool: ToolFacts())


BOUNDED = {
    "a call": ("await risky(1)", 1),
    "the longer arm": ("if a:\n    await risky(1)\nelse:\n    await risky(2)\n    await risky(3)", 2),
    "the test of an elif": ("if await risky(1):\n    pass\nelif await risky(2):\n    await risky(3)", 3),
    "arms of a match": ("match a:\n    case 1:\n        await risky(1)\n    case _:\n        await risky(2)", 1),
    "a list": ("for n in [1, 2, 3]:\n    await risky(n)", 3),
    "a range": ("for n in range(2, 10, 3):\n    await risky(n)", 3),
    "a name": ("ids = [1, 2]\nfor n in ids:\n    await risky(n)", 2),
    "a slice": ("for n in (await get_numbers(5))[:4]:\n    await risky(n)", 4),
    "the last of a slice": ("for n in (await get_numbers(5))[-4:]:\n    await risky(n)", 4),
    "a smaller range": ("xs = await get_numbers(5)\nfor n in range(min(len(xs), 3)):\n    await risky(n)", 3),
    "nested loops": ("for n in [1, 2]:\n    for m in range(3):\n        await risky(n)", 6),
    "a comprehension": ("x = [await risky(n) for n in [1, 2] for m in (1, 2, 3)]", 6),
    "a later iterable": ("x = [n for m in [1, 2] for n in [await risky(m)]]", 2),
    "gather over map": ("async def f(n):\n    return await risky(n)\nawait asyncio.gather(*map(f, [1, 2, 3]))", 3),
    "tools over map": ("await asyncio.gather(*map(risky, [1, 2, 3]))", 3),
    "results of a gather": (
        "got = await asyncio.gather(*[get_item(n) for n in [1, 2]])\nfor item in got:\n    await risky(1)",
        2,
    ),
    "functions": (
        "async def f():\n    await risky(1)\n    await g()\nasync def g():\n    await risky(2)\nawait f()",
        2,
    ),
    "a function nobody calls": ("async def f():\n    await risky(1)", None),
    "handlers": (
        "try:\n    await risky(1)\nexcept ValueError:\n    await risky(2)\nexcept KeyError:\n    await risky(3)",
        2,
    ),
    "while": ("while True:\n    await risky(1)", ...),
    "a list of a tool": ("for n in await get_numbers(3):\n    await risky(n)", ...),
    "recursion": ("async def f(n):\n    await risky(n)\n    await f(n - 1)\nawait f(3)", ...),
    "mutual recursion": (
        "async def f(n):\n    await g(n)\nasync def g(n):\n    await risky(n)\n    await f(n)\nawait f(3)",
        ...,
    ),
    "a list that grows": ("xs = [1]\nfor x in xs:\n    await risky(x)\n    xs.append(2)", ...),
    "a list with another name": ("xs = [1]\nys = xs\nys.append(2)\nfor x in xs:\n    await risky(x)", ...),
    "a list that a function changes": (
        "def more(a):\n    a += [1]\nxs = [1]\nmore(xs)\nfor x in xs:\n    await risky(x)",
        ...,
    ),
    "a dict that grows": ("d = {1: 1}\nd[2] = 2\nfor x in d:\n    await risky(x)", ...),
    "a name assigned twice": ("xs = [1]\nxs = [1, 2]\nfor x in xs:\n    await risky(x)", ...),
    "a hidden range": ("def range(n):\n    return [1] * 99\nfor x in range(1):\n    await risky(x)", ...),
    "a function as a value": ("async def f():\n    await risky(1)\ng = f\nawait g()", ...),
    "a function in a dict": ("async def f():\n    await risky(1)\nd = {'f': f}\nawait d['f']()", ...),
    "a tool as a value": ("g = risky\nawait g(1)", ...),
    "a lambda": ("f = lambda n: risky(n)\nawait f(1)", ...),
    "a decorated function": ("@twice\nasync def f():\n    await risky(1)\nawait f()", ...),
    "a method": ("class C:\n    async def go(self):\n        await risky(1)\nc = C()\nawait c.go()\nawait c.go()", 2),
    "a method as a value": ("class C:\n    async def go(self):\n        await risky(1)\ng = C().go\nawait g()", ...),
    "a method that Python calls": ("class C:\n    def __init__(self):\n        self.t = risky(1)\nawait C().t", ...),
    "a slice of a class": (
        "class C:\n    def __getitem__(self, k):\n        return [1] * 9\nfor x in C()[:1]:\n    await risky(x)",
        ...,
    ),
    "call_tool": ('await call_tool("risky", {"n": 1})', 1),
    "call_tool with a keyword": ('await call_tool(name="risky", args={"n": 1})', 1),
    "call_tool with a computed name": ("await call_tool(n, {})", 1),
    "default arguments": ("def f(x=risky(1)):\n    return x\nawait f()", 1),
    "two awaits in a line": ("x = [await risky(1), await risky(2)]", 2),
    "the target of a with": ("with c as xs[await risky(1)], d as xs[await risky(2)]:\n    pass", 2),
    "the target of a loop": ("for xs[await risky(1)] in [1, 2, 3]:\n    pass", 3),
    "the class of a handler": ("try:\n    pass\nexcept (await risky(1)):\n    await risky(2)", 2),
    "annotations": ("def f(a: (await risky(1)), *b: (await risky(2))) -> (await risky(3)):\n    pass", 3),
    "and": ("x = await risky(1) and await risky(2)", 2),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_bounds(name: str) -> None:
    code, most = BOUNDED[name]
    assert bounds(code).get("risky", "absent") == ("absent" if most is None else None if most is ... else most)


def test_calls_of_servers_count_by_id_and_a_server_as_a_value_is_unbounded() -> None:
    assert bounds("await crm.find(1)\nawait crm.find(2)") == {"crm:find": 2}
    assert bounds("c = crm\nawait c.find(1)") == {"crm:find": None, "crm:drop": None}


def test_loops_and_waits_have_their_places() -> None:
    found = facts('while a:\n    await risky(1)\nx = await approve("Go?")\nawait wait_for("paid")').to_dict()
    assert found["loops"] == [{"node": "while a", "at": "code:1:1", "limit": None}]
    assert found["waits"] == [{"node": "line 3", "approval": "Go?"}, {"node": "line 4", "event": "paid"}]
    asked = facts("await risky(1)\nawait save('a')", asks="risky")
    assert asked.waits == ({"node": "line 1", "approval": "before each call of risky, with its arguments"},)


def test_bounds_that_no_reader_of_json_can_hold_are_none() -> None:
    code = "for n in range(10**9):\n    for m in range(10**9):\n        await risky(n)"
    assert bounds(code) == {"risky": None}
    assert bounds(f"for n in range({MOST + 1}):\n    await risky(n)") == {"risky": None}
    assert facts("for n in range(10**15):\n    await risky(n)\n" * 20).max_calls is None


@pytest.mark.parametrize("calls", [1, 2])
def test_long_chains_of_functions_are_counted_once_each(calls: int) -> None:
    lines = ["async def f0():\n    await risky(1)"]
    body = "\n".join("    await f{}()" for _ in range(calls))
    lines += [f"async def f{n}():\n{body.replace('{}', str(n - 1))}" for n in range(1, 1500)]
    code = "\n".join([*lines, "await f1499()"])
    assert bounds(code) == {"risky": 1 if calls == 1 else None}
    assert len(draw(plan(code), "text").splitlines()) < 200


def test_a_function_on_a_cycle_has_no_bound_and_its_caller_keeps_that_of_its_other_calls() -> None:
    code = (
        "async def f(n):\n    await risky(n)\n    await g(n)\n"
        "async def g(n):\n    await f(n)\n    await h()\n"
        "async def h():\n    await save('a')\n"
        "async def start():\n    await get_item(1)\n    await f(1)\n"
        "await start()"
    )
    assert bounds(code) == {"get_item": 1, "risky": None, "save": None}


def test_a_long_chain_of_elif_is_one_branch() -> None:
    code = "if a == 0:\n    await risky(0)\n" + "".join(
        f"elif a == {n}:\n    await risky({n})\n" for n in range(1, 900)
    )
    assert bounds(code) == {"risky": 1}


@pytest.mark.campaign("plans")
def test_random_programs_make_no_more_calls_than_check_plan_says(scale: Scale, seed: int) -> None:
    @tool
    async def same(value: Any) -> Any:
        """Give the value back."""

    @tool
    async def fail(value: Any) -> Any:
        """Fail for odd numbers."""

    @tool
    async def save(key: Any, value: Any = None) -> int:
        """Count what is saved."""
        return 0

    async def check() -> int:
        compared = 0
        async with App("memory", tools=[same, fail, save]) as app:
            for number in range(seed * 100_000, seed * 100_000 + scale(30, 5_000)):
                code = Grammar(number).program()
                answer: Any = await app.plans.check_plan(code)
                ran = run_machine(code, {}, GRAMMAR_PARAMETERS, world())
                if not answer["ok"] or "refused" in ran:
                    continue
                compared += 1
                known = {row["tool"]: row["calls"] for row in answer["facts"]["tools"]}
                for name, count in Counter(name for name, _ in ran["calls"]).items():
                    assert known[name] is None or count <= known[name], (number, name, count, known)
        return compared

    assert asyncio.run(check()) > 10


DRAWN = (
    "async def pay(n):\n    await save('p', n)\n"
    "for n in [1, 2]:\n    if n > 1:\n        await pay(n)\n    else:\n        x = 1\n"
    "await asyncio.gather(risky(1), risky(2))\nif a:\n    pass\nelse:\n    await approve('Go?')\nawait pay(3)\n"
)


def test_the_text_shows_calls_branches_loops_and_waits() -> None:
    assert draw(plan(DRAWN), "text") == (
        "plan\n"
        "├─ program  Program\n"
        "│  ├─ 3:1  Loop for n in [1, 2] · at most 2 times\n"
        "│  │  └─ 4:5  Branch if n > 1\n"
        "│  │     └─ if\n"
        "│  │        └─ 5:15  Function pay()\n"
        "│  │           └─ 2:11  Call save\n"
        "│  ├─ 8:7  Block at the same time\n"
        "│  │  ├─ 8:22  Call risky\n"
        "│  │  └─ 8:32  Call risky\n"
        "│  ├─ 9:1  Branch if a · else\n"
        "│  │  └─ else\n"
        "│  │     └─ 12:11  Wait for approval: Go?\n"
        "│  └─ 13:7  Function pay()\n"
        "└─ = $out.program\n"
    )


def test_the_drawing_shows_reads_that_begin_together() -> None:
    code = "a = await get_item(1)\nb = await get_item(a.id)\nc = await get_item(3)\nreturn await save('x', [a, b, c])"
    tools: Any = {"get_item": {"id": "get_item", "reads": True}, "save": {"id": "save"}}
    shown = {}
    for mode in ("reads", "none"):
        document: Any = {"kind": "plan", "code": code, "tools": tools, "parallel": mode}
        flow = compile_document(document).flow
        shown[mode] = draw(flow, "text").splitlines()[2:-1]
        assert {row["tool"]: row["calls"] for row in facts_of(flow, lambda tool: ToolFacts()).tools} == {
            "get_item": 3,
            "save": 1,
        }
    assert shown["reads"] == [
        "│  ├─ 1:11-2  Block at the same time",
        "│  │  ├─ 1:11  Call get_item",
        "│  │  └─ 3:11  Call get_item",
        "│  ├─ 2:11  Call get_item",
        "│  └─ 4:14  Call save",
    ]
    assert len(shown["none"]) == 4


def test_mermaid_shows_blocks_as_frames_and_escapes_words() -> None:
    chart = draw(plan(DRAWN), "mermaid")
    assert chart.startswith("flowchart TD\n")
    assert chart.count("subgraph") == chart.count("end\n") > 4
    assert [line for line in chart.splitlines() if "risky" in line and "-->" in line] == []
    assert "<script>" not in draw(plan("await approve('<script>')"), "mermaid")
    assert len(draw(plan("await risky(1)\n" * 2000), "mermaid").splitlines()) < 1100
    svg = draw(plan(DRAWN), "svg")
    assert "Call save" in svg
    assert "Wait for approval" in svg


def test_the_data_names_calls_by_the_places_that_steps_of_a_run_have() -> None:
    def paths(region: Any) -> list[str]:
        groups = [group for node in region["nodes"] for group in node["groups"]]
        return [*(node["path"] for node in region["nodes"]), *(path for group in groups for path in paths(group))]

    found = paths(graph_data(plan(DRAWN)))
    assert len(found) == len(set(found))
    assert {"program/8:22", "program/8:32", "program/2:11", "program/12:11"} <= set(found)
    # A conditional expression begins where its call does; the step is that of the call.
    both = graph_data(plan("await (risky(1) if a else save('a'))"))["nodes"][0]["groups"][0]["nodes"]  # type: ignore[index,call-overload]
    assert [(node["path"], node["kind"]) for node in both] == [("program/1:8-2", "Branch")]
    assert paths(both[0]["groups"][0]) == ["program/1:8"]


def test_an_outline_passes_as_json_and_is_no_part_of_the_document_or_the_fingerprint() -> None:
    flow = plan(DRAWN)
    own: Any = flow.body.nodes[0].op
    assert from_json(to_json(own.outline)) == own.outline
    document = flow_to_json(flow)
    assert "outline" not in str(document)
    again = flow_from_json(document)
    assert (again.body, fingerprint(again)) == (flow.body, fingerprint(flow))
    unread = facts_of(again, lambda tool: ToolFacts())
    assert {row["calls"] for row in unread.tools} == {None}
    assert "tools: get_item" in draw(again, "text")


def test_a_value_of_any_other_form_is_no_outline() -> None:
    rng = random.Random(1)
    good: Any = to_json(outline(DRAWN))
    wrong = [
        None,
        [],
        [[], []],
        [{}, {}],
        [["call"], {}],
        [[["call", 1, 1, 2]], {}],
        [[["loop", 1, 1, "x", -1, []]], {}],
    ]
    deep: Any = []
    for _ in range(500):
        deep = [["group", 1, 1, "t", False, deep]]
    for value in [*wrong, [deep, {}]]:
        with pytest.raises(ValueError, match="outline"):
            from_json(value)
    for _ in range(300):  # one part of a good outline replaced
        try:
            from_json(_spoiled(good, rng))
        except ValueError:
            continue


@pytest.mark.parametrize("outline", [None, [], [[["call"]], {}], [[["loop", 1, 1, "x", "y", []]], {}]])
def test_the_malformed_outline_of_a_child_is_a_problem_of_the_program(outline: Any) -> None:
    document = {"kind": "plan", "code": "await risky(1)", "origin": "model"}
    for answer in ({"input": None, "outline": outline}, {"input": None}):
        with pytest.raises(InvalidFlow, match="its process sent what no program can ask for"):
            compiled_from(document, answer)


def _spoiled(value: Any, rng: random.Random) -> Any:
    parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if not parts or rng.random() < 0.2:
        return rng.choice([None, 1, -1, "x", [], {}, True, 2**70])
    if isinstance(value, dict):
        name = rng.choice([*value])
        return {**value, name: _spoiled(value[name], rng)}
    at = rng.randrange(len(value))
    return [*value[:at], _spoiled(value[at], rng), *value[at + 1 :]]
