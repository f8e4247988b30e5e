"""The outline of a program, and the bounds of its calls, which are never too small."""

from __future__ import annotations

import ast
import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App
from ropewalk.check.facts import Facts, ToolFacts
from ropewalk.plans.check.drawing import outline_mermaid, outline_text
from ropewalk.plans.check.facts import facts_of_outline
from ropewalk.plans.check.outline import Outline, outline_of

from .oracle import PARAMETERS, run_python
from .programs import Writer

BENCH = Path(__file__).parents[2] / "bench"
TOOLS = {name: name for name in PARAMETERS} | {"crm.find": "crm:find", "crm.drop": "crm:drop"}


def outline(code: str) -> Outline:
    return outline_of(ast.parse(code), code, TOOLS)


def facts(code: str) -> Facts:
    return facts_of_outline(outline(code), lambda tool: ToolFacts())


def bounds(code: str) -> dict[str, Any]:
    return {row["tool"]: row["calls"] for row in facts(code).tools}  # type: ignore[misc]


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
    assert found["loops"] == [{"node": "while a", "at": "1:1", "limit": None}]
    assert found["waits"] == [{"node": "line 3", "approval": "Go?"}, {"node": "line 4", "event": "paid"}]
    asked = facts_of_outline(outline("await risky(1)"), lambda tool: ToolFacts(), asks=["risky"])
    assert asked.waits == ({"node": "line 1", "approval": "before each call of risky, with its arguments"},)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_make_no_more_calls_than_their_bound(seed: int) -> None:
    code = Writer(seed).program()
    made = Counter(name for name, _ in run_python(code, {})["calls"])
    known = bounds(code)
    for tool, count in made.items():
        limit = known[tool]
        assert limit is None or count <= limit, (tool, count, limit, code)


def _old_facts(numbers: set[str]) -> dict[str, Any]:
    import plans_corpus

    async def check() -> dict[str, Any]:
        async with App("memory", tools=plans_corpus.tools()) as app:
            return {n: await app.plans.check_plan(code) for n, code in plans_corpus.programs() if n in numbers}

    return asyncio.run(check())


def test_the_facts_of_the_corpus_are_those_of_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both name the same tools, and the outline knows a bound wherever the graph does."""
    monkeypatch.syspath_prepend(str(BENCH))
    import plans_corpus

    programs = dict(plans_corpus.programs())
    numbers = set(sorted(programs)[::10])
    tools = {tool.id: tool.id for tool in plans_corpus.tools()}
    compared = 0
    for number, old in _old_facts(numbers).items():
        if not old["ok"]:
            continue
        compared += 1
        code = programs[number]
        new = facts_of_outline(outline_of(ast.parse(code), code, tools), lambda tool: ToolFacts()).to_dict()
        # The graph counts reads of the clock as calls.
        rows = [row for row in old["facts"]["tools"] if not row["tool"].startswith("ropewalk:")]
        left = {row["tool"]: row["calls"] for row in rows}
        right = {row["tool"]: row["calls"] for row in new["tools"]}  # type: ignore[index, call-overload, union-attr]
        assert left.keys() == right.keys(), number
        for tool, count in left.items():
            # The graph gives `while` 1,000 iterations; the machine has no such limit.
            assert count is None or right[tool] is not None or "while " in code, (number, tool, count)
    assert compared > 20


def test_functions_that_call_each_other_twice_are_counted_once_each() -> None:
    lines = ["async def f0():\n    await risky(1)"]
    lines += [f"async def f{n}():\n    await f{n - 1}()\n    await f{n - 1}()" for n in range(1, 60)]
    assert bounds("\n".join([*lines, "await f59()"])) == {"risky": 2**59}
    assert len(outline_text(outline("\n".join([*lines, "await f59()"]))).splitlines()) < 200


def test_a_long_chain_of_elif_is_one_branch() -> None:
    code = "if a == 0:\n    await risky(0)\n" + "".join(
        f"elif a == {n}:\n    await risky({n})\n" for n in range(1, 900)
    )
    assert bounds(code) == {"risky": 1}


def test_the_drawings_show_calls_branches_loops_and_waits() -> None:
    code = (
        "async def pay(n):\n    await save('p', n)\n"
        "for n in [1, 2]:\n    if n > 1:\n        await pay(n)\n    else:\n        x = 1\n"
        "await asyncio.gather(risky(1), risky(2))\nawait approve('Go?')\n"
    )
    assert outline_text(outline(code)) == (
        "for n in [1, 2]: at most 2 times  # line 3\n"
        "  if n > 1  # line 4\n"
        "    if\n"
        "      pay()  # line 5\n"
        "        save  # line 2\n"
        "at the same time  # line 8\n"
        "  risky  # line 8\n"
        "  risky  # line 8\n"
        "wait for approval: Go?  # line 9\n"
    )
    chart = outline_mermaid(outline(code))
    assert chart.startswith("flowchart TD\n")
    assert "risky" in chart
    assert chart.count("subgraph") == chart.count("end\n")
    assert "<" not in outline_mermaid(outline("await approve('<script>')"))
    assert len(outline_mermaid(outline("await risky(1)\n" * 2000)).splitlines()) < 1100
