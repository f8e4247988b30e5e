"""Trees to closures: everything that can be decided once is decided here.

A closure takes the engine's opaque frame (see `scope` for what it becomes inside macros). Refused:
looking into the frame, calling anything but the functions of the table.
"""

from __future__ import annotations

from typing import Any, Final

from ..errors import ExpressionError
from ..values import Json
from .ast import Arr, Each, Expr, Fn, Lit, Obj, Ref, Var, children
from .budget import Budget
from .getters import ABSENT, Getter, constant, getter
from .operators import MISSING
from .scope import FRAME, Resolve, Scope, SecretsOf, Test


def compile_expr(expr: Expr, resolve: Resolve, secrets: SecretsOf | None = None) -> Getter:
    """The closure that gives the value of `expr` in a frame, missing as null; thread-safe.

    `resolve(ref)` gives a getter of the base value and the path left to walk below it. What it
    returns shares data with the frame; containers that are constants of the text are new each time.
    `secrets(frame)` gives the secrets that no function may make another text of.
    """
    if type(expr) is Ref:  # most are, and need nothing more
        base, path = resolve(expr)
        return getter(base, path, None, elide=expr.elide)
    if not needs_budget(expr):
        return _result(expr, Scope(resolve, _operand, secrets=secrets))
    run = _result(expr, Scope(resolve, _operand, active=True, secrets=secrets))
    return lambda frame: run((frame, Budget()))


def compile_condition(expr: Expr, resolve: Resolve, secrets: SecretsOf | None = None) -> Test:
    """The closure that decides `expr`: true is True; false, null and missing are False; anything
    else raises ExpressionError."""
    if not needs_budget(expr):
        return Scope(resolve, _operand, secrets=secrets).test(expr)
    run = Scope(resolve, _operand, active=True, secrets=secrets).test(expr)
    return lambda frame: run((frame, Budget()))


def needs_budget(expr: Expr) -> bool:
    """Whether one evaluation needs a common budget: macros, or several growing values."""
    growing = 0
    stack = [expr]
    while stack:
        part = stack.pop()
        if type(part) is Ref or type(part) is Lit:  # of which there may be thousands
            continue
        if isinstance(part, Each):
            return True
        if isinstance(part, Fn):
            growing += _growth(part)
            if growing > 1:
                return True
        stack.extend(children(part))
    return False


def _growth(part: Fn) -> int:
    """How many growing values an operator or a function makes."""
    if part.name == "+":
        return max(1, len(part.args) - 1)
    from .calls import FUNCTIONS

    known = FUNCTIONS.get(part.name)
    return 1 if known is not None and known.budget and known.returns != "boolean" else 0


def _result(expr: Expr, scope: Scope) -> Getter:
    if isinstance(expr, (Ref, Var)):
        return _reference(expr, scope, None)
    return scope.value(expr)


def _operand(expr: Expr, scope: Scope) -> Getter:
    if isinstance(expr, (Ref, Var)):
        return _reference(expr, scope, MISSING)
    if isinstance(expr, Lit):
        return constant(expr.value)
    if isinstance(expr, Obj):
        return _object(expr, scope)
    if isinstance(expr, Arr):
        return _array(expr, scope)
    from .calls import call  # flows that only pass values on do without the functions

    return call(expr, scope)


def _reference(expr: Ref | Var, scope: Scope, absent: Json) -> Getter:
    if isinstance(expr, Var):
        if expr.name not in scope.slots:
            raise ExpressionError(f"{expr.name!r} is not bound here")
        return getter(_slot(scope.slots[expr.name]), expr.path, absent)
    base, path = scope.resolve(expr)
    if scope.active:
        base = _outer(base)
    return getter(base, path, absent, elide=expr.elide)


def _slot(slot: int) -> Getter:
    return lambda frame: frame[slot]


def _outer(base: Getter) -> Getter:
    return lambda frame: base(frame[FRAME])


# --- objects and arrays ----------------------------------------------------------------------


def _object(expr: Obj, scope: Scope) -> Getter:
    fields = expr.fields
    if len(fields) == 1:
        return _one_field(*fields[0], scope)
    keys = [key for key, _ in fields]
    gets = [_result(value, scope) for _, value in fields]
    if len(fields) == 2:
        (key0, key1), (get0, get1) = keys, gets
        return lambda frame: {key0: get0(frame), key1: get1(frame)}
    if len(fields) == 3:
        k0, k1, k2 = keys
        g0, g1, g2 = gets
        return lambda frame: {k0: g0(frame), k1: g1(frame), k2: g2(frame)}
    pairs = tuple(zip(keys, gets, strict=True))
    return lambda frame: {key: get(frame) for key, get in pairs}


def _one_field(key: str, value: Expr, scope: Scope) -> Getter:
    """The commonest arguments, `{"x": "$prev.y"}`, in a single closure."""
    if isinstance(value, Ref) and not scope.active and not value.elide:
        base, path = scope.resolve(value)
        if len(path) == 1 and type(path[0]) is str:
            step: Any = path[0]

            def get(frame: Any) -> Json:
                found = base(frame)
                try:
                    return {key: found[step]}
                except ABSENT:
                    return {key: None}

            return get
    inner = _result(value, scope)
    return lambda frame: {key: inner(frame)}


def _array(expr: Arr, scope: Scope) -> Getter:
    gets = tuple(_result(item, scope) for item in expr.items)
    if len(gets) == 1:
        (only,) = gets
        return lambda frame: [only(frame)]
    return lambda frame: [get(frame) for get in gets]


__all__: Final = ["MISSING", "SecretsOf", "compile_condition", "compile_expr"]
