"""Programs made from Python's grammar do in the machine what they do in Python."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from tiers import Scale

from .grammar import PARAMETERS, Grammar, constructs, constructs_of
from .virtual_loop import compared

_PARAMETERS = ("posonlyargs", "args", "kwonlyargs")
NEVER = {
    **{f"Lambda.args.{name}[0].annotation": "lambdas have no annotations" for name in _PARAMETERS},
    **{f"Lambda.args.{name}[1].annotation": "lambdas have no annotations" for name in _PARAMETERS},
    "Lambda.args.vararg": "lambdas have no annotations",
    "Lambda.args.kwarg": "lambdas have no annotations",
    "Lambda.body": "a syntax error",
    "NamedExpr.target": "always a name",
    "YieldFrom.value": "a syntax error in an async function",
}
"""Positions that cannot hold an await, with the reason."""

CASES = {
    "del takes the target, not a copy": "xs = [1, 2, 3]\ndel xs[await same(value=0)]\nreturn xs",
    "each target is deleted in turn": "xs = [1, 2, 3]\ndel xs[await same(value=0)], xs[await same(value=0)]\nreturn xs",
    "a default that waits": (
        "def f(x, y=await same(value=2), *, z=await same(value=3)):\n    return x + y + z\nreturn f(1)"
    ),
    "a shared default that waits": (
        "async def f(x, known=await same(value=[])):\n    known.append(x)\n    return known\n"
        "await f(1)\nreturn await f(2)"
    ),
    "a task begins and is cancelled by the end": 't = asyncio.create_task(save("k", 1))\nreturn 1',
    "a task begins and is cancelled at once": (
        't = asyncio.create_task(save("k", 1))\nawait asyncio.sleep(0)\nt.cancel()\nreturn await same(value=2)'
    ),
    "a default that waits, in a block": "if True:\n    def f(x=await same(2)):\n        return x\nreturn f()",
    "a default of a lambda that waits": "f = lambda x, y=await same(2): x + y\nreturn f(1)",
    "a task that awaits itself": (
        "ts = []\nasync def f():\n    await same(1)\n    try:\n        await ts[0]\n    except RuntimeError:\n"
        "        return 5\nts.append(asyncio.create_task(f()))\nreturn await ts[0]"
    ),
    "a function cannot be unpacked": "x, *y = lambda x: x",
    "a built-in function cannot be unpacked": "x, y = abs",
    "a method cannot be unpacked": "for x, *y in [[].append]:\n    pass",
    "an event cannot be unpacked after an await": "x, y = await same(0) or asyncio.Event()",
    "a match has no elements": "import re\nreturn [*re.match('a', 'a')]",
    "a match cannot be unpacked": "import re\nx, *y = re.match('a', 'a')",
    "an annotation left of an await reads a name that is not bound yet": (
        "async def f():\n    def g(x: a, y: (await same(1))):\n        return 1\n    a = 2\n    return g(1, 2)\n"
        "return await f()"
    ),
    "none spread in a list": "return [1, *None]",
    "none spread in a tuple": "return (*None, 1)",
    "none spread in a set": "return {*None}",
    "none spread in a call": "return await same(1, *None)",
    "none spread alone in a call": "def f(*xs):\n    return 1\nreturn f(*None)",
    "none spread after an await": "return [await same(1), *(await same(None))]",
}


def world() -> Callable[[str, dict[str, Any]], Any]:
    """Return tools that count what they save."""
    saved: list[Any] = []

    def answer(tool: str, arguments: dict[str, Any]) -> Any:
        if tool == "save":
            saved.append(arguments)
            return len(saved)
        if tool == "fail" and arguments["value"] % 2:
            raise ValueError(f"bad {arguments['value']}")
        return arguments["value"]

    return answer


@pytest.mark.parametrize("name", CASES)
def test_a_program_that_once_differed_does_what_python_does(name: str) -> None:
    assert compared(CASES[name], PARAMETERS, None, fresh=world) == []


@pytest.mark.campaign("plans")
def test_programs_of_the_grammar_do_what_python_does(scale: Scale, seed: int) -> None:
    counts = {"equal": 0, "refused": 0, "different": 0}
    different = []
    for number in range(seed * 100_000, seed * 100_000 + scale(60, 20_000)):
        text = Grammar(number).program()
        found = compared(text, PARAMETERS, None, fresh=world)
        counts["refused" if found is None else "different" if found else "equal"] += 1
        if found:
            different.append((number, found))
    print(counts)
    assert different == []


@pytest.mark.campaign("plans", only=True)
def test_the_grammar_makes_every_construct_with_an_await_in_every_place() -> None:
    seen: set[str] = set()
    for number in range(2_000):
        text = Grammar(number).program()
        seen |= constructs_of(ast.parse("async def main():\n" + textwrap.indent(text, "    ")))
    never = {construct for construct in constructs() if construct.startswith(tuple(NEVER))}
    assert sorted(constructs() - seen - never) == []
    assert not seen & never
