"""Compile trees to closures; everything that can be decided once is decided here.

A closure takes the engine's opaque frame; `scope` describes its form inside macros. Refused:
looking into the frame, calling anything but the functions of the table.
"""

from __future__ import annotations

from typing import Any, Final

from ..errors import ExpressionError
from ..values import Json
from .accessors import ABSENT, Getter, constant_getter, path_getter
from .ast import Arr, Each, Expr, Fn, Lit, Obj, Ref, Var, children
from .operators import MISSING, Budget
from .scope import FRAME, Resolve, Scope, SecretsOf, Test


def compile_expr(expr: Expr, resolve: Resolve, secrets: SecretsOf | None = None) -> Getter:
    """Compile an expression to a thread-safe closure that takes a frame and returns the value."""

    # `secrets`: Returns the secrets of a frame, which functions must not change.
    if type(expr) is Ref:  # the most common case
        base, path = resolve(expr)
        return path_getter(base, path, None, elide=expr.elide)
    if type(expr) is Lit:
        return constant_getter(expr.value)
    if not needs_budget(expr):
        return _result_getter(expr, Scope(resolve, _operand_getter, secrets=secrets))
    run = _result_getter(expr, Scope(resolve, _operand_getter, active=True, secrets=secrets))
    return lambda frame: run((frame, Budget()))


def compile_condition(expr: Expr, resolve: Resolve, secrets: SecretsOf | None = None) -> Test:
    """Compile a condition to a closure that takes a frame and returns True or False."""

    # Null and missing are False. A value that is not a boolean raises ExpressionError.
    #
    # `secrets`: Returns the secrets of a frame, which functions must not change.
    if not needs_budget(expr):
        return Scope(resolve, _operand_getter, secrets=secrets).test(expr)
    run = Scope(resolve, _operand_getter, active=True, secrets=secrets).test(expr)
    return lambda frame: run((frame, Budget()))


def needs_budget(expr: Expr) -> bool:
    """Return True if an evaluation needs a shared budget: it has macros, or makes several growing values."""
    growing = 0
    stack = [expr]
    while stack:
        part = stack.pop()
        if type(part) in _LEAVES:
            continue
        if type(part) is Obj:  # the arguments of a call; most are references and constants
            stack.extend([value for _, value in part.fields if type(value) not in _LEAVES])
            continue
        if isinstance(part, Each):
            return True
        if isinstance(part, Fn):
            growing += _count_growing(part)
            if growing > 1:
                return True
        stack.extend(children(part))
    return False


_LEAVES: Final = (Ref, Lit, Var)


def _count_growing(part: Fn) -> int:
    """Return how many growing values an operator or a function makes."""
    if part.name == "+":
        return max(1, len(part.args) - 1)
    from .function_registry import FUNCTIONS

    known = FUNCTIONS.get(part.name)
    return 1 if known is not None and known.budget and known.returns != "boolean" else 0


def _result_getter(expr: Expr, scope: Scope) -> Getter:
    if isinstance(expr, (Ref, Var)):
        return _reference_getter(expr, scope, None)
    return scope.value(expr)


def _operand_getter(expr: Expr, scope: Scope) -> Getter:
    if isinstance(expr, (Ref, Var)):
        return _reference_getter(expr, scope, MISSING)
    if isinstance(expr, Lit):
        return constant_getter(expr.value)
    if isinstance(expr, Obj):
        return _object_getter(expr, scope)
    if isinstance(expr, Arr):
        return _array_getter(expr, scope)
    from .calls import call_getter  # loaded late: flows that only pass values on need no functions

    return call_getter(expr, scope)


def _reference_getter(expr: Ref | Var, scope: Scope, absent: Json) -> Getter:
    if isinstance(expr, Var):
        if expr.name not in scope.slots:
            raise ExpressionError(f"{expr.name!r} is not bound here")
        return path_getter(_slot_getter(scope.slots[expr.name]), expr.path, absent)
    base, path = scope.resolve(expr)
    if scope.active:
        base = _frame_getter(base)
    return path_getter(base, path, absent, elide=expr.elide)


def _slot_getter(slot: int) -> Getter:
    return lambda frame: frame[slot]


def _frame_getter(base: Getter) -> Getter:
    return lambda frame: base(frame[FRAME])


# --- objects and arrays ----------------------------------------------------------------------


def _object_getter(expr: Obj, scope: Scope) -> Getter:
    fields = expr.fields
    if len(fields) == 1:
        return _one_field_getter(*fields[0], scope)
    keys = [key for key, _ in fields]
    gets = [_result_getter(value, scope) for _, value in fields]
    if len(fields) == 2:
        (key0, key1), (get0, get1) = keys, gets
        return lambda frame: {key0: get0(frame), key1: get1(frame)}
    if len(fields) == 3:
        k0, k1, k2 = keys
        g0, g1, g2 = gets
        return lambda frame: {k0: g0(frame), k1: g1(frame), k2: g2(frame)}
    pairs = tuple(zip(keys, gets, strict=True))
    return lambda frame: {key: get(frame) for key, get in pairs}


def _one_field_getter(key: str, value: Expr, scope: Scope) -> Getter:
    """Build `{"x": "$prev.y"}`, the most common arguments, as a single closure."""
    if isinstance(value, Ref) and not scope.active and not value.elide:
        base, path = scope.resolve(value)
        if len(path) == 1 and type(path[0]) is str:
            step: Any = path[0]

            def get(frame: Any) -> Json:
                value_of_base = base(frame)
                try:
                    return {key: value_of_base[step]}
                except ABSENT:
                    return {key: None}

            return get
    inner = _result_getter(value, scope)
    return lambda frame: {key: inner(frame)}


def _array_getter(expr: Arr, scope: Scope) -> Getter:
    gets = tuple(_result_getter(item, scope) for item in expr.items)
    if len(gets) == 1:
        (only,) = gets
        return lambda frame: [only(frame)]
    return lambda frame: [get(frame) for get in gets]


__all__: Final = ["MISSING", "SecretsOf", "compile_condition", "compile_expr"]
