"""Random programs against Python itself: how many agree, and how often each row of the language table occurred."""

from __future__ import annotations

import ast
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from plans.oracle import compared_with_python
from plans.programs import Writer


def rows_of(code: str) -> set[str]:
    """Return the rows of the language table that a program uses."""
    rows: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        rows.add(_KINDS.get(type(node), ""))
        check = _FURTHER.get(type(node))
        if check is not None:
            rows |= set(check(node))
    return rows - {""}


_KINDS: dict[type[ast.AST], str] = {
    ast.Assign: "assignment",
    ast.AugAssign: "augmented assignment",
    ast.Return: "return",
    ast.If: "if",
    ast.While: "while",
    ast.Break: "break",
    ast.Continue: "continue",
    ast.Raise: "raise",
    ast.Assert: "assert",
    ast.Match: "match",
    ast.FunctionDef: "def",
    ast.AsyncFunctionDef: "async def",
    ast.Lambda: "lambda",
    ast.ListComp: "list comprehension",
    ast.DictComp: "dict comprehension",
    ast.SetComp: "set comprehension",
    ast.GeneratorExp: "generator expression",
    ast.IfExp: "conditional expression",
    ast.BoolOp: "and, or",
    ast.JoinedStr: "f-string",
    ast.Slice: "slice",
    ast.NamedExpr: "walrus",
    ast.Delete: "del",
    ast.Starred: "starred",
    ast.BinOp: "arithmetic",
    ast.Dict: "dict",
    ast.Attribute: "member",
    ast.Subscript: "subscript",
    ast.AsyncWith: "async with",
}


def _loop(node: Any) -> Iterator[str]:
    yield "for"
    if node.orelse:
        yield "for else"


def _try(node: ast.Try) -> Iterator[str]:
    yield "try"
    if node.orelse:
        yield "try else"
    if node.finalbody:
        yield "finally"


def _call(node: ast.Call) -> Iterator[str]:
    name = ast.unparse(node.func)
    if name.startswith(("asyncio.", "json.", "math.")):
        yield name
    elif name in _BUILTINS:
        yield f"{name}()"
    if any(keyword.arg == "return_exceptions" for keyword in node.keywords):
        yield "return_exceptions"


def _compare(node: ast.Compare) -> Iterator[str]:
    yield "comparison chain" if len(node.ops) > 1 else "comparison"


_NAMES = "len sum min max sorted enumerate zip range any all round abs str isinstance divmod map list print"
_BUILTINS = frozenset(_NAMES.split())
_FURTHER: dict[type[ast.AST], Callable[[Any], Iterator[str]]] = {
    ast.For: _loop,
    ast.Try: _try,
    ast.Call: _call,
    ast.Compare: _compare,
}


def has_call_in_loop(code: str) -> bool:
    """Return True if a call is made in a loop or comprehension."""
    loops = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp)
    return any(
        isinstance(part, ast.Await)
        for loop in ast.walk(ast.parse(code))
        if isinstance(loop, loops)
        for part in ast.walk(loop)
    )


def compare(count: int, seed: int, seconds: float, parallel: str) -> int:
    """Compare random programs with Python, and print what was found.

    Args:
        count: The number of programs.
        seed: The seed of the first one.
        seconds: When to stop before all programs are compared.
        parallel: Which calls overlap; see `compile_program`.

    Returns:
        The number of programs that differ.
    """
    rows: Counter[str] = Counter()
    refused = different = in_loops = failing = compared = 0
    ends = time.monotonic() + seconds
    for number in range(seed, seed + count):
        if time.monotonic() > ends:
            break
        code = Writer(number).program()
        compared += 1
        rows.update(rows_of(code))
        in_loops += has_call_in_loop(code)
        failing += "risky(" in code
        found = compared_with_python(code, unordered="gather" in code, parallel=parallel)
        if found is None:
            refused += 1
        elif found:
            different += 1
            print(f"seed {number}: {found[0]}")
    print(f"{compared} programs: {compared - refused - different} equal, {refused} refused, {different} different")
    print(f"with a call in a loop: {in_loops}; with a call that may fail: {failing}")
    print("programs with each row of the language:")
    print("  ".join(f"{name} {times}" for name, times in rows.most_common()))
    return different
