"""What the macros do: one builder per kind of Each, in RUNNERS.

A body runs on the activation with its element added at the end: `frame + (item,)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..errors import ExpressionError
from ..values import Json
from .ast import Arr, Each, Expr, Fn, Lit, Obj, Path, Ref, Var, children
from .budget import ERROR, LIST_ELEMENT, OverBudget, weigh
from .functions import descending, rank
from .getters import Getter
from .operators import MISSING, complain, json_text, kind_of
from .scope import BOOLEAN, BUDGET, Scope
from .table import FUNCTIONS

_SCALAR: Final = frozenset(("boolean", "number", "integer"))


def _elements(expr: Each, scope: Scope) -> Callable[[Any], list[Any]]:
    """The frames of the body, one per element, paid for. Null and missing have no elements; the
    elements of an object are its keys."""
    get = scope.operand(expr.source)
    indexed = len(expr.names) > 1

    def frames(frame: Any) -> list[Any]:
        value = get(frame)
        if type(value) is not list:
            if value is None or value is MISSING:
                return []
            if type(value) is not dict:
                raise complain(f"{expr.kind} needs a list, not {kind_of(value)}", expr.source)
            value = list(value)
        frame[BUDGET].spend(len(value) + 1)
        if indexed:
            return [(*frame, item, i) for i, item in enumerate(value)]
        return [(*frame, item) for item in value]

    return frames


def _item(expr: Each, scope: Scope) -> int:
    return scope.size


def _all(expr: Each, scope: Scope) -> Getter:
    """True unless some element fails; an error counts only if no element fails (as in CEL)."""
    return _searching(expr, scope, stop=False)


def _exists(expr: Each, scope: Scope) -> Getter:
    return _searching(expr, scope, stop=True)


def _searching(expr: Each, scope: Scope, *, stop: bool) -> Getter:
    frames, test = _elements(expr, scope), scope.bind(expr.names).test(expr.body)

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
    frames, test = _elements(expr, scope), scope.bind(expr.names).test(expr.body)

    def get(frame: Any) -> Json:
        return sum(map(test, frames(frame))) == 1

    return get


def _filter(expr: Each, scope: Scope) -> Getter:
    frames, test, at = _elements(expr, scope), scope.bind(expr.names).test(expr.body), scope.size
    return lambda frame: [inner[at] for inner in frames(frame) if test(inner)]


def _map(expr: Each, scope: Scope) -> Getter:
    frames, body = _elements(expr, scope), scope.bind(expr.names).value(expr.body)
    if not multiplies(expr):
        return lambda frame: [body(inner) for inner in frames(frame)]

    def get(frame: Any) -> Json:
        found = [body(inner) for inner in frames(frame)]
        weigh(found, frame[BUDGET])
        return found

    return get


def _flat_map(expr: Each, scope: Scope) -> Getter:
    frames, body, weighty = _elements(expr, scope), scope.bind(expr.names).value(expr.body), multiplies(expr)

    def get(frame: Any) -> Json:
        out: list[Json] = []
        for inner in frames(frame):
            found = body(inner)
            if type(found) is list:
                frame[BUDGET].spend(len(found) >> 2)
                out += found
            elif found is not None:
                out.append(found)
        if weighty:
            weigh(out, frame[BUDGET])
        return out

    return get


def _group_by(expr: Each, scope: Scope) -> Getter:
    frames, body, at = _elements(expr, scope), scope.bind(expr.names).value(expr.body), scope.size

    def get(frame: Any) -> Json:
        groups: dict[str, Json] = {}
        for inner in frames(frame):
            key = body(inner)
            if type(key) is not str:
                if type(key) is list or type(key) is dict:
                    raise complain(f"group_by needs a string, a number or a boolean, not {kind_of(key)}", expr.body)
                if type(key) is float and key.is_integer() and -(2**63) <= key < 2**63:
                    key = int(key)  # 1.0 equals 1
                key = json_text(key, frame[BUDGET])
            groups.setdefault(key, []).append(inner[at])
        return groups

    return get


def _sort(expr: Each, scope: Scope) -> Getter:
    frames, at = _elements(expr, scope), scope.size
    inside = scope.bind(expr.names)
    keys = expr.body.items if isinstance(expr.body, Arr) else (expr.body,)
    gets = [inside.value(key) for key in keys]
    order = scope.value(expr.extra[0]) if expr.extra else None

    def get(frame: Any) -> Json:
        direction = order(frame) if order is not None else "asc"
        try:
            reverse = descending(direction)
        except ExpressionError as error:
            raise complain(error.message, expr) from error
        inner = frames(frame)
        inner.sort(key=lambda one: [rank(key(one)) for key in gets], reverse=reverse)
        return [one[at] for one in inner]

    return get


def _reduce(expr: Each, scope: Scope) -> Getter:
    item, acc, *index = expr.names
    plain = Each(expr.kind, expr.source, (item, *index), expr.body)
    frames = _elements(plain, scope)
    inside = scope.bind((item, *index)).bind((acc,))
    body = inside.value(expr.body)
    initial = scope.value(expr.extra[0]) if expr.extra else (lambda frame: None)
    weighty = multiplies(expr)

    def get(frame: Any) -> Json:
        total = initial(frame)
        budget = frame[BUDGET]
        for inner in frames(frame):
            before = budget.room
            old = total
            total = body((*inner, old))
            # What a round built is dead after it, but for the new value: give the old one's room back.
            used = before - budget.room
            if used:
                budget.room += min(used, _shallow(old))
            if weighty:
                weigh(total, budget)
        if type(total) is list or type(total) is dict:
            weigh(total, budget)
        return total

    return get


def _shallow(value: Json) -> int:
    kind = type(value)
    if kind is str:
        return len(value)
    return LIST_ELEMENT * len(value) if kind is list else 0


# --- can the result be larger than what it was made from? ------------------------------------


def multiplies(expr: Each) -> bool:
    """Whether the body may put one value into its result more than once, or bring in values from
    outside for each element; then the result is weighed."""
    flows = list(_flows(expr.body))
    seen: list[tuple[str, Path]] = []
    for name, path in flows:
        if name not in expr.names:
            return True
        for other, known in seen:
            shorter = min(len(path), len(known))
            if other == name and path[:shorter] == known[:shorter]:
                return True
        seen.append((name, path))
    return False


def _flows(expr: Expr) -> list[tuple[str, Path]]:
    """What may flow by reference into the value of `expr`."""
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
            return _flows(expr.args[1]) + _flows(expr.args[2])
    if isinstance(expr, Each):
        if expr.kind in ("all", "exists", "exists_one"):
            return []
        inner = [(name, path) for name, path in _flows(expr.body) if name not in expr.names]
        return _flows(expr.source) + inner + [flow for one in expr.extra for flow in _flows(one)]
    assert isinstance(expr, Fn | Obj | Arr | Each)
    return [flow for inner in children(expr) for flow in _flows(inner)]


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
"""Every kind of Each."""
