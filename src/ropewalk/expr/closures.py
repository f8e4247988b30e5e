"""Build the closures of the operators, with the most common shapes written out by hand.

`calls.py` looks up an operator of an expression in SPECIAL, calls its builder once, when the program is built, and gets
the closure that evaluates it in a frame. A `Test` gives True or False, a `Getter` any JSON value. Conditions run at
every node that has one, so comparisons with a constant, the shapes of almost all conditions, have closures of their own
that do nothing but compare.

To add an operator, add its builder to SPECIAL.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from ..errors import ExpressionError
from ..values import Json
from . import operators as ops
from .accessors import ABSENT, Getter
from .ast import Expr, Fn, Lit, Ref
from .operators import ERROR, MISSING, Budget, OverBudget, charge, get_element, is_equal, is_in, is_ordered
from .scope import Scope, Test

_ORDER: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


# --- logic -----------------------------------------------------------------------------------


def _logical_test(expr: Fn, scope: Scope) -> Test:
    """Build `&&` and `||`."""

    # As in CEL, an error on one side is dropped if another side alone decides.
    tests = [scope.test(arg) for arg in expr.args]
    decides = expr.name == "||"
    if len(tests) == 2:
        return _two_tests(tests[0], tests[1], decides, scope.budget)
    return _many_tests(tests, decides, scope.budget)


def _two_tests(left: Test, right: Test, decides: bool, budget: Callable[[Any], Budget | None]) -> Test:
    """Build `left && right` (`decides` is False) or `left || right` (True): the value of a side that ends the test."""

    def test(frame: Any) -> bool:
        try:
            holds = left(frame)
        except OverBudget:
            raise
        except ExpressionError as error:
            charge(budget(frame), ERROR)
            failure = error
        else:
            return decides if holds is decides else right(frame)
        if right(frame) is decides:
            return decides
        raise failure

    return test


def _many_tests(tests: list[Test], decides: bool, budget: Callable[[Any], Budget | None]) -> Test:
    def test(frame: Any) -> bool:
        failure: ExpressionError | None = None
        for operand in tests:
            try:
                if operand(frame) is decides:
                    return decides
            except OverBudget:
                raise
            except ExpressionError as error:
                charge(budget(frame), ERROR)
                failure = failure or error
        if failure is not None:
            raise failure
        return not decides

    return test


def _not_test(expr: Fn, scope: Scope) -> Test:
    test = scope.test(expr.args[0])
    return lambda frame: not test(frame)


def _choice_getter(expr: Fn, scope: Scope) -> Getter:
    test = scope.test(expr.args[0])
    yes, no = scope.operand(expr.args[1]), scope.operand(expr.args[2])
    return lambda frame: yes(frame) if test(frame) else no(frame)


# --- comparisons -----------------------------------------------------------------------------


def _order_test(expr: Fn, scope: Scope) -> Test:
    """Build `<`, `<=`, `>` and `>=`."""

    # A constant on the left changes sides.
    left, right = expr.args
    name = expr.name
    if isinstance(left, Lit) and not isinstance(right, Lit):
        left, right, name = right, left, _MIRRORED[name]
    if isinstance(right, Lit) and (type(right.value) is int or type(right.value) is float):
        return _number_order_test(name, left, right.value, expr, scope)
    get_left, get_right, budget = scope.operand(left), scope.operand(right), scope.budget
    return lambda frame: is_ordered(get_left(frame), get_right(frame), name, expr, budget(frame))


def _number_order_test(name: str, left: Expr, limit: float, expr: Fn, scope: Scope) -> Test:
    """Build the comparison of an expression with a constant number."""
    compare = _ORDER[name]
    # A key of a reference compared with a number is the most common condition.
    if isinstance(left, Ref) and not scope.active and not left.elide:
        base, path = scope.resolve(left)
        if len(path) == 1 and type(path[0]) is str:
            key: Any = path[0]

            def test_key(frame: Any) -> bool:
                value = base(frame)
                try:
                    value = value[key]
                except ABSENT:
                    return False
                kind = type(value)
                if kind is int or kind is float:
                    return compare(value, limit)  # type: ignore[no-any-return]
                return is_ordered(value, limit, name, expr)

            return test_key
    # Other operands take the general closure.
    get = scope.operand(left)

    def test(frame: Any) -> bool:
        value = get(frame)
        kind = type(value)
        if kind is int or kind is float:
            return compare(value, limit)  # type: ignore[no-any-return]
        return is_ordered(value, limit, name, expr)

    return test


def _equality_test(expr: Fn, scope: Scope) -> Test:
    left, right = expr.args
    if isinstance(left, Lit):
        left, right = right, left
    if isinstance(right, Lit) and not isinstance(right.value, list | dict):
        return _constant_equality_test(right.value, scope.operand(left))
    get_left, get_right, budget = scope.operand(left), scope.operand(right), scope.budget
    return lambda frame: is_equal(get_left(frame), get_right(frame), budget(frame))


def _constant_equality_test(constant: Json, get: Getter) -> Test:
    """Build the comparison with a constant scalar: Python's `==`, except that booleans are not numbers."""
    if constant is None or type(constant) is bool:
        return lambda frame: get(frame) is constant
    if type(constant) is str:
        return lambda frame: get(frame) == constant

    def test(frame: Any) -> bool:
        value = get(frame)
        return bool(value == constant) and type(value) is not bool

    return test


def _inequality_test(expr: Fn, scope: Scope) -> Test:
    test = _equality_test(expr, scope)
    return lambda frame: not test(frame)


def _membership_test(expr: Fn, scope: Scope) -> Test:
    """Build `in`; a constant list of texts becomes a set."""
    get_item, get_holder, budget = scope.operand(expr.args[0]), scope.operand(expr.args[1]), scope.budget
    constant = expr.args[1]
    if isinstance(constant, Lit) and type(constant.value) is list and all(type(item) is str for item in constant.value):
        words = frozenset(constant.value)

        def is_one_of_words(frame: Any) -> bool:
            value = get_item(frame)
            return type(value) is str and value in words

        return is_one_of_words
    if isinstance(constant, Lit):
        fixed = constant.value
        return lambda frame: is_in(get_item(frame), fixed, expr, budget(frame))
    return lambda frame: is_in(get_item(frame), get_holder(frame), expr, budget(frame))


# --- arithmetic ------------------------------------------------------------------------------


def _sum_getter(expr: Fn, scope: Scope) -> Getter:
    """Build `+`."""

    # Two integers are added here; everything else, such as texts and lists, in `operators.add`.
    budget = scope.budget
    first, second, *more = [scope.operand(arg) for arg in expr.args]
    if more:
        rest = (second, *more)

        def add_all(frame: Any) -> Json:
            total, room = first(frame), budget(frame)
            for get in rest:
                total = ops.add(total, get(frame), expr, room)
            return total

        return add_all

    def add_two(frame: Any) -> Json:
        left, right = first(frame), second(frame)
        if type(left) is int and type(right) is int and _INT_MIN <= (total := left + right) <= _INT_MAX:
            return total
        return ops.add(left, right, expr, budget(frame))

    return add_two


def _product_getter(expr: Fn, scope: Scope) -> Getter:
    first, *rest = [scope.operand(arg) for arg in expr.args]

    def multiply_all(frame: Any) -> Json:
        total = first(frame)
        for get in rest:
            total = ops.multiply(total, get(frame), expr)
        return total

    return multiply_all


def _arithmetic_builder(run: Callable[[Json, Json, Expr], Json]) -> Callable[[Fn, Scope], Getter]:
    def build(expr: Fn, scope: Scope) -> Getter:
        left, right = scope.operand(expr.args[0]), scope.operand(expr.args[1])
        return lambda frame: run(left(frame), right(frame), expr)

    return build


def _negation_getter(expr: Fn, scope: Scope) -> Getter:
    get = scope.operand(expr.args[0])
    return lambda frame: ops.negate(get(frame), expr)


def _index_getter(expr: Fn, scope: Scope) -> Getter:
    holder, key = expr.args
    get = scope.operand(holder)
    if isinstance(key, Lit) and type(key.value) is str:
        name = key.value

        def get_member(frame: Any) -> Json:
            value = get(frame)
            return value.get(name, MISSING) if type(value) is dict else MISSING

        return get_member
    get_key = scope.operand(key)
    return lambda frame: get_element(get(frame), get_key(frame))


SPECIAL: Final[dict[str, Callable[[Fn, Scope], Getter]]] = {
    "&&": _logical_test,
    "||": _logical_test,
    "!": _not_test,
    "?:": _choice_getter,
    "==": _equality_test,
    "!=": _inequality_test,
    "<": _order_test,
    "<=": _order_test,
    ">": _order_test,
    ">=": _order_test,
    "in": _membership_test,
    "+": _sum_getter,
    "-": _arithmetic_builder(ops.subtract),
    "*": _product_getter,
    "/": _arithmetic_builder(ops.divide),
    "%": _arithmetic_builder(ops.remainder),
    "neg": _negation_getter,
    "[]": _index_getter,
}
"""By name of an operator in the tree: the function that builds its closure."""
