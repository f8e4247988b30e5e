"""Tests and handlers of a program, and the names whose types they ask about."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from .facts import facts_of, parts_of

_TESTS: Final = frozenset(("isinstance", "type", "callable", "hasattr"))
_EXPECTED: Final = frozenset(("KeyError", "LookupError", "AttributeError", "TypeError", "IndexError"))
"""Exceptions by which a program shows that it expects a member to be missing."""
_LEAVES: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def always_leaves(body: Sequence[ast.stmt]) -> bool:
    """Return True if no statement after a block follows it."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.If):
        return always_leaves(last.body) and always_leaves(last.orelse)
    return isinstance(last, _LEAVES)


def tested_names(test: ast.expr) -> set[str]:
    """Return the names about whose type or members a test asks."""
    if not facts_of(test).calls and not _has_membership(test):
        return set()
    names: set[str] = set()
    stack: list[ast.AST] = [test]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _TESTS:
            names |= facts_of(node).names
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "keys"):
            names |= facts_of(node.func.value).names
        elif isinstance(node, ast.Compare) and any(isinstance(one, (ast.In, ast.NotIn)) for one in node.ops):
            for part in node.comparators:
                names |= facts_of(part).names
        stack += parts_of(node)
    return names


def _has_membership(test: ast.expr) -> bool:
    if isinstance(test, ast.Compare):
        return any(isinstance(one, (ast.In, ast.NotIn)) for one in test.ops)
    return isinstance(test, (ast.BoolOp, ast.UnaryOp)) and any(
        _has_membership(part) for part in parts_of(test) if isinstance(part, ast.expr)
    )


def expects_failure(node: ast.Try) -> bool:
    """Return True if a handler shows that the program expects a wrong member or operand."""
    return any(handler.type is not None and facts_of(handler.type).names & _EXPECTED for handler in node.handlers)
