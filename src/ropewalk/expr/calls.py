"""Whatever calls: operators, functions and macros, each built by what knows it.

Importing this fills the table of functions. `compile` imports it at the first call it meets: most
flows only pass values on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..errors import ExpressionError
from ..values import Json
from . import encoding, functions, reshape  # noqa: F401 - they fill the table
from .ast import Each, Fn, Lit
from .budget import Budget
from .closures import SPECIAL
from .getters import Getter, constant
from .operators import complain
from .runners import RUNNERS
from .scope import Scope
from .table import FUNCTIONS, Function, makes_another


def call(expr: Fn | Each, scope: Scope) -> Getter:
    """The closure of an operator, a function or a macro."""
    if isinstance(expr, Each):
        return RUNNERS[expr.kind](expr, scope)
    special = SPECIAL.get(expr.name)
    return _folded(expr, special(expr, scope) if special is not None else _function(expr, scope), scope)


def _function(expr: Fn, scope: Scope) -> Getter:
    known = FUNCTIONS.get(expr.name)
    if known is None:
        raise complain(f"unknown function {expr.name!r}", expr)
    gets = tuple((scope.operand if known.raw else scope.value)(arg) for arg in expr.args)
    guard = _guard(expr, known, scope)
    run, wants_budget, in_body, budget_of = known.run, known.budget, scope.in_body, scope.budget

    def call(frame: Any) -> Json:
        args = [get(frame) for get in gets]
        if guard is not None:
            guard(frame, args)
        try:
            if in_body:
                _charge(args, budget_of(frame))
            return run(budget_of(frame), *args) if wants_budget else run(*args)
        except ExpressionError as error:
            raise _placed(error, expr) from error

    if len(gets) != 1 or in_body or wants_budget or guard is not None:
        return call
    (only,) = gets

    def call_one(frame: Any) -> Json:
        arg = only(frame)
        try:
            return run(arg)
        except ExpressionError as error:
            raise _placed(error, expr) from error

    return call_one


def _guard(expr: Fn, known: Function, scope: Scope) -> Callable[[Any, list[Json]], None] | None:
    """What refuses the arguments of a function that would make another text of a secret; None where none can."""
    refused = [i for i in range(len(expr.args)) if i in known.refuses]
    if scope.secrets is None or not (refused or known.writes_json) or all(isinstance(arg, Lit) for arg in expr.args):
        return None

    def guard(frame: Any, args: list[Json]) -> None:
        secrets = scope.secrets_of(frame)
        if not secrets:
            return
        found = next(filter(None, (secrets.secret_in(args[i]) for i in refused)), None)
        if found is None and known.writes_json:
            found = next(filter(None, (secrets.escaped_in(arg) for arg in args if type(arg) in (list, dict))), None)
        if found is not None:
            raise complain(makes_another(expr.name, found), expr)

    return guard


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
        return constant(get(None))
    except ExpressionError:
        return get


__all__: Final = ["FUNCTIONS", "RUNNERS", "call"]
