"""Lists that a loop only appends to: `out.append(x)`.

Such a list is not carried from round to round, which would copy it in every round. Each round gives what it appends,
and the list is put together once, after the loop.
"""

from __future__ import annotations

import ast
import re
from typing import Final

from .facts import facts_of, facts_of_all, parts_of
from .program import FUNCTIONS_OF_PROGRAMS, Program

_ADDS: Final = frozenset(("append", "extend"))
_LISTS: Final = (ast.List, ast.ListComp)
_INLINED: Final = re.compile("_.*·[0-9]+_(.+)")
_COMPREHENSION: Final = "_items·"


def collected_lists(program: Program, loop: ast.For | ast.While) -> set[str]:
    """Return the names of lists that a loop only appends to."""
    facts = facts_of_all(loop.body)
    candidates = set(facts.changes) - facts.bound - facts_of_all(_heads(loop)).names
    # A function of the program that reads a name sees the whole list.
    used = facts.names & program.functions.keys()
    if used:
        candidates -= facts_of_all(program.all(*FUNCTIONS_OF_PROGRAMS)).names
    candidates = {name for name in candidates if _is_list(program, name)}
    return _only_appended(loop.body, candidates) if candidates else candidates


def _heads(loop: ast.For | ast.While) -> list[ast.AST]:
    """Return the parts of a loop outside of its body."""
    return [loop.test, *loop.orelse][:1] if isinstance(loop, ast.While) else [loop.target]


def _is_list(program: Program, name: str) -> bool:
    """Return True if every assignment of a name in the program gives it a new list."""
    if name.startswith(_COMPREHENSION):
        return True
    inlined = _INLINED.fullmatch(name)
    name = inlined[1] if inlined else name
    if name in program.inputs or name not in program.names:
        return False
    assigned = 0
    for node in program.all(ast.Assign):
        if isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            if len(node.targets) > 1 or not isinstance(node.value, _LISTS):
                return False
            assigned += 1
    bound = sum(node.id == name and not isinstance(node.ctx, ast.Load) for node in program.all(ast.Name))
    others = [node.arg for node in program.all(ast.arg)]
    others += [str(node.name) for node in program.all(ast.ExceptHandler, ast.MatchAs, ast.MatchStar)]
    others += [str(node.rest) for node in program.all(ast.MatchMapping)]
    return bound == assigned and name not in others


def _only_appended(body: list[ast.stmt], names: set[str]) -> set[str]:
    """Return those names that occur only in statements that append to them."""
    left = set(names)
    stack: list[ast.AST] = list(body)
    while stack and left:
        node = stack.pop()
        if isinstance(node, ast.stmt) and left.isdisjoint(facts_of(node).names):
            continue
        name = _appended(node)
        if name is not None:
            assert isinstance(node, ast.Expr)
            assert isinstance(node.value, ast.Call)
            stack += [*node.value.args, *node.value.keywords]
        elif isinstance(node, ast.Name):
            left.discard(node.id)
        else:
            stack += parts_of(node)
    return left


def _appended(node: ast.AST) -> str | None:
    """Return the name of the list to which a statement appends."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr not in _ADDS:
        return None
    return call.func.value.id if isinstance(call.func.value, ast.Name) else None
