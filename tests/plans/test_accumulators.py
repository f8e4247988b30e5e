"""Lists that a loop only appends to are put together after it, and programs do what Python does."""

from __future__ import annotations

import pytest
from ropewalk.notations.plan.compile import compile_program
from ropewalk.notations.plan.program import PlanTool

from ropewalk.ir import Graph, node_parts
from ropewalk.ops import Loop

from .oracle import differences, run_plan

TOOLS = {
    name: PlanTool(id=name, parameters=("n",), required=("n",)) for name in ("get_item", "get_numbers", "risky")
} | {"save": PlanTool(id="save", parameters=("key", "value"))}

COLLECTED = {
    "append": "out = []\nfor n in range(4):\n    out.append((await get_item(n)).name)\nreturn out",
    "a list that is not empty": "out = [7]\nfor n in range(3):\n    out.append(await risky(n * 3))\nreturn out",
    "no round": "out = [7]\nfor n in []:\n    out.append(await risky(n))\nreturn out",
    "in a branch": "out = []\nfor n in (1, 2):\n    if (await get_item(n)).id % 2:\n        out.append(n)\nreturn out",
    "extend": "out = []\nfor n in range(5):\n    out.extend(await get_numbers(n))\nreturn out",
    "nested loops": """
out = []
for n in range(3):
    out.append("begin")
    for m in await get_numbers(n + 1):
        out.append((await get_item(m)).id + n)
    out.append("end")
return out
""",
    "break and continue": """
out = []
for n in range(9):
    if n == 1:
        continue
    out.append((await get_item(n)).id)
    if n == 4:
        break
return out
""",
    "while": "out = []\ni = 0\nwhile i < 3:\n    i += 1\n    out.append((await get_item(i)).id)\nreturn [out, i]",
    "a failing call that is caught": """
out = []
for n in range(6):
    try:
        out.append("try")
        out.append(await risky(n))
    except ToolError as error:
        out.append(str(error))
return out
""",
    "a raise out of the loop": """
out = []
try:
    for n in range(6):
        out.append(n)
        await risky(n)
except ToolError:
    pass
return out
""",
    "tuples": "out = []\nfor n in range(3):\n    out.append((n, await get_item(n)))\nreturn [x[1].id for x in out]",
    "a comprehension": "return [(await get_item(n)).id for n in range(4) for m in range(n) if m]",
    "in a function": """
async def names(count):
    out = []
    for n in range(count):
        out.append((await get_item(n)).name)
    return out
return [await names(2), await names(3)]
""",
    "two lists": """
low, high = 0, 0
small = []
large = []
for n in range(5):
    item = await get_item(n)
    if item.price > 3:
        large.append(item.id)
        high += 1
    else:
        small.append(item.id)
        low += 1
return [small, large, low, high]
""",
}
CARRIED = {
    "its length is read": "out = []\nfor n in range(3):\n    out.append(await risky(n * 3 + len(out) * 0))\nreturn out",
    "it is returned": "out = []\nfor n in range(3):\n    out.append(await risky(0))\n    if n:\n        return out",
    "it is no list": "out = set()\nfor n in range(3):\n    out.add((await get_item(n)).id)\nreturn sorted(out)",
    "it may be another list": "a = [1]\nout = a\nfor n in range(2):\n    out.append(await risky(n * 3))\nreturn out",
    "another method": "out = []\nfor n in range(3):\n    out.insert(0, await risky(n * 3))\nreturn out",
    "a function reads it": """
out = []
def count():
    return len(out)
for n in range(3):
    await get_item(count())
    out.append(n)
return out
""",
}


def loops(code: str) -> list[Loop]:
    """Return the loops of a compiled program."""
    found: list[Loop] = []

    def visit(graph: Graph) -> None:
        for node in graph.nodes:
            if isinstance(node.op, Loop):
                found.append(node.op)
            for _, part in node_parts(node):
                if isinstance(part, Graph):
                    visit(part)

    visit(compile_program("plan", code, TOOLS, (), inside=True).body)
    return found


@pytest.mark.parametrize("name", COLLECTED)
def test_a_list_that_is_only_appended_to_is_put_together_after_the_loop(name: str) -> None:
    code = COLLECTED[name].strip("\n")
    assert all(loop.collect for loop in loops(code))
    assert "refused" not in run_plan(code, {})
    assert differences(code) == []


@pytest.mark.parametrize("name", CARRIED)
def test_any_other_list_goes_from_round_to_round(name: str) -> None:
    code = CARRIED[name].strip("\n")
    assert not any(loop.collect for loop in loops(code))
    assert "refused" not in run_plan(code, {})
    assert differences(code) == []
