"""Tests and handlers of a program, and the names whose types they ask about."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import Final

from ...expr.python.tree import walk

_MAY_TEST: Final = (ast.Call, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.NamedExpr)
_TESTS: Final = frozenset(("isinstance", "type", "callable", "hasattr"))
_EXPECTED: Final = frozenset(
    "AttributeError IndexError KeyError LookupError NameError TypeError UnboundLocalError".split()  # noqa: SIM905
)
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


def tested_names(test: ast.expr, flat: Collection[ast.AST]) -> set[str]:
    """Return the names about whose type or members a test asks; what is `flat` has no members."""
    names: set[str] = set()
    for node in walk(test) if isinstance(test, _MAY_TEST) else ():
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in _TESTS:
                names |= names_in(node)
            case ast.Call(func=ast.Attribute(value=holder, attr="get" | "keys")):
                names |= names_in(holder)
            case ast.Compare() if any(isinstance(operator, (ast.In, ast.NotIn)) for operator in node.ops):
                for part in node.comparators:
                    names |= names_in(part) if part not in flat else set()
    return names


def names_in(node: ast.AST) -> set[str]:
    """Return the names that occur in a node."""
    return {part.id for part in walk(node) if isinstance(part, ast.Name)}


def expects_failure(node: ast.Try | ast.TryStar) -> bool:
    """Return True if a handler shows that the program expects a wrong member or operand."""
    types = [handler.type for handler in node.handlers]
    if any(kind is not None and labels_in(kind) & _EXPECTED for kind in types):
        return True
    # A handler of everything around calls of tools is there for the calls.
    takes_all = any(kind is None or "Exception" in labels_in(kind) for kind in types)
    return takes_all and not any(isinstance(part, ast.Await) for statement in node.body for part in walk(statement))


def suppresses(item: ast.expr) -> bool:
    """Return True for `suppress(KeyError)` and the like."""
    return isinstance(item, ast.Call) and "suppress" in labels_in(item.func) and any(map(labels_in, item.args))


def labels_in(node: ast.AST) -> set[str]:
    """Return the names and the names of members that occur in a node."""
    return names_in(node) | {part.attr for part in walk(node) if isinstance(part, ast.Attribute)}
