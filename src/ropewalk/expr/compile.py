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
from .closures import SPECIAL
from .getters import ABSENT, Getter, getter
from .operators import MISSING, complain
from .runners import each
from .scope import FRAME, Resolve, Scope, Test
from .table import FUNCTIONS


def compile_expr(expr: Expr, resolve: Resolve) -> Getter:
    """The closure that gives the value of `expr` in a frame, missing as null; thread-safe.

    `resolve(ref)` gives a getter of the base value and the path left to walk below it. What it
    returns shares data with the frame; containers that are constants of the text are new each time.
    """
    if not _needs_activation(expr):
        return _result(expr, Scope(resolve, _operand))
    run = _result(expr, Scope(resolve, _operand, active=True))
    return lambda frame: run((frame, Budget()))


def compile_condition(expr: Expr, resolve: Resolve) -> Test:
    """The closure that decides `expr`: true is True; false, null and missing are False; anything
    else raises ExpressionError."""
    if not _needs_activation(expr):
        return Scope(resolve, _operand).test(expr)
    run = Scope(resolve, _operand, active=True).test(expr)
    return lambda frame: run((frame, Budget()))


def _needs_activation(expr: Expr) -> bool:
    """Whether one evaluation needs a common budget: macros, or several growing values."""
    growing = 0
    stack = [expr]
    while stack:
        part = stack.pop()
        if isinstance(part, Each):
            return True
        if isinstance(part, Fn) and (part.name == "+" or (part.name in FUNCTIONS and FUNCTIONS[part.name].budget)):
            growing += max(1, len(part.args) - 1) if part.name == "+" else 1
            if growing > 1:
                return True
        stack.extend(children(part))
    return False


def _result(expr: Expr, scope: Scope) -> Getter:
    if isinstance(expr, Ref | Var):
        return _reference(expr, scope, None)
    return scope.value(expr)


def _operand(expr: Expr, scope: Scope) -> Getter:
    if isinstance(expr, Ref | Var):
        return _reference(expr, scope, MISSING)
    if isinstance(expr, Lit):
        return _constant(expr.value)
    if isinstance(expr, Obj):
        return _object(expr, scope)
    if isinstance(expr, Arr):
        return _array(expr, scope)
    if isinstance(expr, Each):
        return each(expr, scope)
    special = SPECIAL.get(expr.name)
    return _folded(expr, special(expr, scope) if special is not None else _call(expr, scope), scope)


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


def _constant(value: Json) -> Getter:
    """A constant; containers are copied, so that whoever gets one may change it."""
    if type(value) is not dict and type(value) is not list:
        return lambda frame: value
    inside = value.values() if type(value) is dict else value
    if any(type(item) is dict or type(item) is list for item in inside):
        return lambda frame: _fresh(value)
    return lambda frame: value.copy()


def _fresh(value: Json) -> Json:
    if type(value) is dict:
        return {key: _fresh(item) for key, item in value.items()}
    if type(value) is list:
        return [_fresh(item) for item in value]
    return value


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


# --- functions -------------------------------------------------------------------------------


def _call(expr: Fn, scope: Scope) -> Getter:
    known = FUNCTIONS.get(expr.name)
    if known is None:
        raise complain(f"unknown function {expr.name!r}", expr)
    gets = tuple((scope.operand if known.raw else scope.value)(arg) for arg in expr.args)
    run, wants_budget, in_body, budget_of = known.run, known.budget, scope.in_body, scope.budget

    def call(frame: Any) -> Json:
        args = [get(frame) for get in gets]
        try:
            if in_body:
                _charge(args, budget_of(frame))
            return run(budget_of(frame), *args) if wants_budget else run(*args)
        except ExpressionError as error:
            raise _placed(error, expr) from error

    if len(gets) != 1 or in_body or wants_budget:
        return call
    (only,) = gets

    def call_one(frame: Any) -> Json:
        arg = only(frame)
        try:
            return run(arg)
        except ExpressionError as error:
            raise _placed(error, expr) from error

    return call_one


def _charge(args: list[Json], budget: Budget | None) -> None:
    """Inside a macro a function of large values costs steps: otherwise a list of a thousand
    elements and a text of a megabyte keep one evaluation busy for minutes."""
    assert budget is not None
    for arg in args:
        kind = type(arg)
        if kind is str:
            budget.spend(len(arg) >> 9)
        elif kind is list or kind is dict:
            budget.spend(len(arg) >> 2)


def _placed(error: ExpressionError, expr: Fn) -> ExpressionError:
    """A function's own error with the place in the expression, of the same class."""
    named = complain(error.message, expr)
    return type(error)(named.message, column=named.column, suggestion=error.suggestion)


def _folded(expr: Fn, get: Getter, scope: Scope) -> Getter:
    """The constant itself, where nothing in `expr` can change; an error is left for the run."""
    if scope.active or expr.name == "custom" or not all(isinstance(arg, Lit) for arg in expr.args):
        return get
    try:
        return _constant(get(None))
    except ExpressionError:
        return get


__all__: Final = ["MISSING", "compile_condition", "compile_expr"]
