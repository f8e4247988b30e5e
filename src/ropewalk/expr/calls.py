"""Build the closures of calls: operators, functions and macros.

Importing this module fills the table of functions. `compile` imports it at the first call, because most
flows only pass values on.

Each macro has a builder in RUNNERS. Its body runs on the activation with the element added at the end:
`frame + (item,)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..errors import ExpressionError
from ..values import Json
from . import (
    functions,  # noqa: F401 - they fill the table
    reshape,  # noqa: F401 - they fill the table
)
from .accessors import Getter, constant_getter
from .ast import Arr, Each, Expr, Fn, Lit, Obj, Path, Ref, Var, children
from .closures import SPECIAL
from .function_registry import FUNCTIONS, Function, secret_change_message
from .functions import is_descending, rank
from .operators import ERROR, LIST_ELEMENT, MISSING, Budget, OverBudget, evaluation_error, json_text, kind_of, weigh
from .scope import BOOLEAN, BUDGET, Scope

_SCALAR: Final = frozenset(("boolean", "number", "integer"))


def _element_frames(expr: Each, scope: Scope) -> Callable[[Any], list[Any]]:
    """Return a closure that gives the frames of the body, one per element, and charges for them."""

    # Null and missing have no elements; the elements of an object are its keys.
    get = scope.operand(expr.source)
    indexed = len(expr.names) > 1

    def frames(frame: Any) -> list[Any]:
        value = get(frame)
        if type(value) is not list:
            if value is None or value is MISSING:
                return []
            if type(value) is not dict:
                raise evaluation_error(f"{expr.kind} needs a list, not {kind_of(value)}", expr.source)
            value = list(value)
        frame[BUDGET].spend(len(value) + 1)
        if indexed:
            return [(*frame, item, i) for i, item in enumerate(value)]
        return [(*frame, item) for item in value]

    return frames


def _item(expr: Each, scope: Scope) -> int:
    return scope.size


def _all(expr: Each, scope: Scope) -> Getter:
    """Build `all`: false if an element fails."""

    # As in CEL, an error counts only if no element fails.
    return _search(expr, scope, stop=False)


def _exists(expr: Each, scope: Scope) -> Getter:
    return _search(expr, scope, stop=True)


def _search(expr: Each, scope: Scope, *, stop: bool) -> Getter:
    frames, test = _element_frames(expr, scope), scope.bind(expr.names).test(expr.body)

    def get(frame: Any) -> Json:
        failed: ExpressionError | None = None
        for inner in frames(frame):
            try:
                if test(inner) is stop:
                    return stop
            except OverBudget:
                raise
            except ExpressionError as error:
                frame[BUDGET].spend(ERROR)
                failed = failed or error
        if failed is not None:
            raise failed
        return not stop

    return get


def _exists_one(expr: Each, scope: Scope) -> Getter:
    frames, test = _element_frames(expr, scope), scope.bind(expr.names).test(expr.body)

    def get(frame: Any) -> Json:
        return sum(map(test, frames(frame))) == 1

    return get


def _filter(expr: Each, scope: Scope) -> Getter:
    frames, test, at = _element_frames(expr, scope), scope.bind(expr.names).test(expr.body), scope.size
    return lambda frame: [inner[at] for inner in frames(frame) if test(inner)]


def _map(expr: Each, scope: Scope) -> Getter:
    frames, body = _element_frames(expr, scope), scope.bind(expr.names).value(expr.body)
    if not may_multiply(expr):
        return lambda frame: [body(inner) for inner in frames(frame)]

    def get(frame: Any) -> Json:
        values = [body(inner) for inner in frames(frame)]
        weigh(values, frame[BUDGET])
        return values

    return get


def _flat_map(expr: Each, scope: Scope) -> Getter:
    frames, body, is_weighed = _element_frames(expr, scope), scope.bind(expr.names).value(expr.body), may_multiply(expr)

    def get(frame: Any) -> Json:
        out: list[Json] = []
        for inner in frames(frame):
            value = body(inner)
            if type(value) is list:
                frame[BUDGET].spend(len(value) >> 2)
                out += value
            elif value is not None:
                out.append(value)
        if is_weighed:
            weigh(out, frame[BUDGET])
        return out

    return get


def _group_by(expr: Each, scope: Scope) -> Getter:
    frames, body, at = _element_frames(expr, scope), scope.bind(expr.names).value(expr.body), scope.size

    def get(frame: Any) -> Json:
        groups: dict[str, Json] = {}
        for inner in frames(frame):
            key = body(inner)
            if type(key) is not str:
                if type(key) is list or type(key) is dict:
                    raise evaluation_error(
                        f"the key of group_by must be a string, a number or a boolean, not {kind_of(key)}", expr.body
                    )
                if type(key) is float and key.is_integer() and -(2**63) <= key < 2**63:
                    key = int(key)  # 1.0 equals 1
                key = json_text(key, frame[BUDGET])
            groups.setdefault(key, []).append(inner[at])
        return groups

    return get


def _sort(expr: Each, scope: Scope) -> Getter:
    frames, at = _element_frames(expr, scope), scope.size
    inside = scope.bind(expr.names)
    keys = expr.body.items if isinstance(expr.body, Arr) else (expr.body,)
    gets = [inside.value(key) for key in keys]
    order = scope.value(expr.extra[0]) if expr.extra else None

    def get(frame: Any) -> Json:
        direction = order(frame) if order is not None else "asc"
        try:
            reverse = is_descending(direction)
        except ExpressionError as error:
            raise evaluation_error(error.message, expr) from error
        inner = frames(frame)
        inner.sort(key=lambda frame_of_item: [rank(key(frame_of_item)) for key in gets], reverse=reverse)
        return [frame_of_item[at] for frame_of_item in inner]

    return get


def _reduce(expr: Each, scope: Scope) -> Getter:
    item, acc, *index = expr.names
    over_items = Each(expr.kind, expr.source, (item, *index), expr.body)
    frames = _element_frames(over_items, scope)
    inside = scope.bind((item, *index)).bind((acc,))
    body = inside.value(expr.body)
    initial = scope.value(expr.extra[0]) if expr.extra else (lambda frame: None)
    is_weighed = may_multiply(expr)

    def get(frame: Any) -> Json:
        total = initial(frame)
        budget = frame[BUDGET]
        # The old total is garbage after each iteration, so its room is given back.
        for inner in frames(frame):
            before = budget.room
            old = total
            total = body((*inner, old))
            # Only the new total stays alive.
            used = before - budget.room
            if used:
                budget.room += min(used, _shallow_size(old))
            if is_weighed:
                weigh(total, budget)
        if type(total) is list or type(total) is dict:
            weigh(total, budget)
        return total

    return get


def _shallow_size(value: Json) -> int:
    kind = type(value)
    if kind is str:
        return len(value)
    return LIST_ELEMENT * len(value) if kind is list else 0


# --- can the result be larger than what it was made from? ------------------------------------


def may_multiply(expr: Each) -> bool:
    """Return True if the body may put a value into its result more than once, or add outer values per element."""

    # The size of such a result is checked, because it can be far larger than its inputs.
    flows = list(_value_sources(expr.body))
    earlier: list[tuple[str, Path]] = []
    for name, path in flows:
        if name not in expr.names:
            return True
        for earlier_name, earlier_path in earlier:
            shorter = min(len(path), len(earlier_path))
            if earlier_name == name and path[:shorter] == earlier_path[:shorter]:
                return True
        earlier.append((name, path))
    return False


def _value_sources(expr: Expr) -> list[tuple[str, Path]]:
    """Return the values that may be part of the value of an expression, by reference."""
    if isinstance(expr, Lit):
        return []
    if isinstance(expr, Ref):
        return [(f"${expr.root}", expr.path)]
    if isinstance(expr, Var):
        return [(expr.name, expr.path)]
    if isinstance(expr, Fn):
        known = FUNCTIONS.get(expr.name)
        if expr.name in BOOLEAN or expr.name in ("-", "*", "/", "%", "neg"):
            return []
        if known is not None and known.returns in _SCALAR:
            return []
        if expr.name == "?:":
            return _value_sources(expr.args[1]) + _value_sources(expr.args[2])
    # A macro passes on its source and what its body takes from outside.
    if isinstance(expr, Each):
        if expr.kind in ("all", "exists", "exists_one"):
            return []
        inner = [(name, path) for name, path in _value_sources(expr.body) if name not in expr.names]
        return _value_sources(expr.source) + inner + [flow for extra in expr.extra for flow in _value_sources(extra)]
    assert isinstance(expr, Fn | Obj | Arr | Each)
    return [flow for inner in children(expr) for flow in _value_sources(inner)]


RUNNERS: Final[dict[str, Callable[[Each, Scope], Getter]]] = {
    "all": _all,
    "exists": _exists,
    "exists_one": _exists_one,
    "map": _map,
    "filter": _filter,
    "flat_map": _flat_map,
    "group_by": _group_by,
    "sort": _sort,
    "reduce": _reduce,
}
"""The builder of each kind of Each."""


def call_getter(expr: Fn | Each, scope: Scope) -> Getter:
    """Build the closure of an operator, a function or a macro."""
    if isinstance(expr, Each):
        return RUNNERS[expr.kind](expr, scope)
    special = SPECIAL.get(expr.name)
    return _fold_constant(expr, special(expr, scope) if special is not None else _function_getter(expr, scope), scope)


def _function_getter(expr: Fn, scope: Scope) -> Getter:
    known = FUNCTIONS.get(expr.name)
    if known is None:
        raise evaluation_error(f"unknown function {expr.name!r}", expr)
    gets = tuple((scope.operand if known.raw else scope.value)(arg) for arg in expr.args)
    guard = _secret_guard(expr, known, scope)
    run, wants_budget, in_body, budget_of = known.run, known.budget, scope.in_body, scope.budget

    def call(frame: Any) -> Json:
        args = [get(frame) for get in gets]
        if guard is not None:
            guard(frame, args)
        try:
            if in_body:
                _charge_arguments(args, budget_of(frame))
            return run(budget_of(frame), *args) if wants_budget else run(*args)
        except ExpressionError as error:
            raise _with_place(error, expr) from error

    # Most calls have one argument and need no checks, so they get a shorter closure.
    if len(gets) != 1 or in_body or wants_budget or guard is not None:
        return call
    (only,) = gets

    def call_one(frame: Any) -> Json:
        arg = only(frame)
        try:
            return run(arg)
        except ExpressionError as error:
            raise _with_place(error, expr) from error

    return call_one


def _secret_guard(expr: Fn, known: Function, scope: Scope) -> Callable[[Any, list[Json]], None] | None:
    """Return a closure that refuses secrets that the function would change; None if there can be none."""
    refused_positions = [i for i in range(len(expr.args)) if i in known.refuses]
    if (
        scope.secrets is None
        or not (refused_positions or known.writes_json)
        or all(isinstance(arg, Lit) for arg in expr.args)
    ):
        return None

    def guard(frame: Any, args: list[Json]) -> None:
        secrets = scope.secrets_of(frame)
        if not secrets:
            return
        secret = next(filter(None, (secrets.secret_in(args[i]) for i in refused_positions)), None)
        if secret is None and known.writes_json:
            secret = next(filter(None, (secrets.escaped_in(arg) for arg in args if type(arg) in (list, dict))), None)
        if secret is not None:
            raise evaluation_error(secret_change_message(expr.name, secret), expr)

    return guard


def _charge_arguments(args: list[Json], budget: Budget | None) -> None:
    """Charge a function inside a macro for the size of its arguments."""

    # Otherwise a list of a thousand elements and a text of a megabyte would keep one evaluation busy for minutes.
    assert budget is not None
    for arg in args:
        kind = type(arg)
        if kind is str:
            budget.spend(len(arg) >> 9)
        elif kind is list or kind is dict:
            budget.spend(len(arg) >> 2)


def _with_place(error: ExpressionError, expr: Fn) -> ExpressionError:
    """Return a function's own error with its place in the expression, as the same class."""
    placed = evaluation_error(error.message, expr)
    return type(error)(placed.message, column=placed.column, suggestion=error.suggestion)


def _fold_constant(expr: Fn, get: Getter, scope: Scope) -> Getter:
    """Return the constant value of a call whose arguments are constants; errors are left for the run."""
    if scope.active or expr.name == "custom" or not all(isinstance(arg, Lit) for arg in expr.args):
        return get
    try:
        return constant_getter(get(None))
    except ExpressionError:
        return get


__all__: Final = ["FUNCTIONS", "RUNNERS", "call_getter"]
