"""What the tests of expressions share: evaluation over a plain object of roots."""

from __future__ import annotations

from typing import Any

from ropewalk.expr import MISSING, Expr, Ref, compile_condition, compile_expr, lift, parse


def resolve(ref: Ref) -> tuple[Any, tuple[str | int, ...]]:
    """Roots are keys of the frame, which is a dict here."""
    root = ref.root
    return (lambda frame: frame.get(root, MISSING)), ref.path


def run(expr: Expr, scope: dict[str, Any]) -> Any:
    return compile_expr(expr, resolve)(scope)


def value(text: str, **scope: Any) -> Any:
    return run(parse(text), scope)


def holds(text: str, **scope: Any) -> bool:
    return compile_condition(parse(text), resolve)(scope)


ALL = frozenset(("input", "prev", "steps", "output", "var", "state", "item", "index", "iteration", "error", "secret"))


def lifted(document: Any, **scope: Any) -> Any:
    return run(lift(document, ALL), scope)
