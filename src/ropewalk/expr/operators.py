"""What the operators do with values: strict by JSON type, missing as the language says.

Refused: mixing types in arithmetic and order, integers past 64 bits, numbers that are not finite.
To add an operator, add its meaning here, its binding power in `parse`, its closure in `compile`.
"""

from __future__ import annotations

import math
from typing import Any, Final

import orjson

from ..errors import ExpressionError
from ..values import MAX_DEPTH, Json
from .ast import Expr
from .budget import LIST_ELEMENT, LONG_TEXT, Budget, OverBudget, grow, weigh
from .show import brief


class _Missing:
    """What a path that does not exist gives: no JSON value, never seen outside an expression."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = _Missing()

_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_KINDS: Final[dict[type[Any], str]] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "list",
    dict: "object",
    _Missing: "nothing",
}


def kind_of(value: Json) -> str:
    """The JSON type of a value in the user's words."""
    return _KINDS.get(type(value), type(value).__name__)


def complain(message: str, at: Expr | None = None) -> ExpressionError:
    """The error of an evaluation, naming the part of the expression that failed."""
    if at is None:
        return ExpressionError(message)
    return ExpressionError(f"{message}, in `{brief(at)}`", column=getattr(at, "column", 1))


def whole(value: int) -> int:
    """`value` itself when it fits in 64 bits; raises ExpressionError otherwise."""
    if _INT_MIN <= value <= _INT_MAX:
        return value
    raise ExpressionError("integer past 64 bits")


def finite(value: float) -> float:
    """`value` itself when it is a number JSON has; raises ExpressionError otherwise."""
    if math.isfinite(value):
        return value
    raise ExpressionError("the result is not a finite number")


def number(value: int | float) -> int | float:
    return whole(value) if type(value) is int else finite(value)


def is_number(value: Json) -> bool:
    return type(value) is int or type(value) is float


def same(a: Json, b: Json, budget: Budget | None = None, depth: int = MAX_DEPTH) -> bool:
    """Whether two values are equal, strict by JSON type: 1 == 1.0, true != 1, at every depth.
    Missing is equal to nothing, itself included."""
    left, right = type(a), type(b)
    if left is not right:
        return bool(a == b) if is_number(a) and is_number(b) else False
    if left is str:
        if budget is not None and len(a) == len(b):
            budget.spend(len(a) >> LONG_TEXT)
        return bool(a == b)
    if left is not list and left is not dict:
        return bool(a == b) and a is not MISSING
    if len(a) != len(b):
        return False
    if budget is not None:
        budget.spend(1 + (len(a) >> 2))
    if not depth:
        raise OverBudget(f"values nested deeper than {MAX_DEPTH} cannot be compared")
    if left is list:
        return all(same(x, y, budget, depth - 1) for x, y in zip(a, b, strict=True))
    return all(key in b and same(item, b[key], budget, depth - 1) for key, item in a.items())


def less(a: Json, b: Json, op: str, at: Expr, budget: Budget | None = None) -> bool:
    """`a op b` for an order operator: false with missing or null, an error across types."""
    if a is MISSING or b is MISSING or a is None or b is None:
        return False
    left, right = type(a), type(b)
    if not (is_number(a) and is_number(b)) and (left is not right or (left is not str and left is not bool)):
        raise complain(f"`{op}` cannot order {kind_of(a)} and {kind_of(b)}", at)
    if budget is not None and left is str:
        budget.spend(min(len(a), len(b)) >> LONG_TEXT)
    if op == "<":
        return bool(a < b)
    if op == "<=":
        return bool(a <= b)
    if op == ">":
        return bool(a > b)
    return bool(a >= b)


def within(item: Json, holder: Json, at: Expr, budget: Budget | None = None) -> bool:
    """`item in holder`: an element of a list, a key of an object."""
    kind = type(holder)
    if kind is dict:
        return type(item) is str and item in holder
    if kind is list:
        if budget is not None:
            budget.spend(len(holder) >> 3)
        if type(item) is str:
            if budget is not None:
                budget.spend(len(holder) * (len(item) >> LONG_TEXT))
            return item in holder  # a string equals only a string: the C loop will do
        return any(same(item, other, budget) for other in holder)
    if holder is None or holder is MISSING:
        return False
    hint = "; for text write contains(text, part)" if kind is str else ""
    raise complain(f"`in` needs a list or an object on its right, not {kind_of(holder)}{hint}", at)


def at_index(holder: Json, key: Json) -> Json:
    """`holder[key]`, missing where there is no such element."""
    kind = type(holder)
    if kind is dict:
        return holder.get(key, MISSING) if type(key) is str else MISSING
    if kind is list:
        if type(key) is float and key.is_integer():
            key = int(key)
        if type(key) is int and 0 <= key < len(holder):
            return holder[key]
    return MISSING


def add(a: Json, b: Json, at: Expr, budget: Budget | None) -> Json:
    """The sum of two numbers, or two strings or two lists one after the other."""
    if is_number(a) and is_number(b):
        return _checked(a + b, at)
    kind = type(a)
    if kind is type(b) and (kind is str or kind is list):
        grow(budget, (len(a) + len(b)) * (1 if kind is str else LIST_ELEMENT))
        return a + b
    raise complain(f"`+` needs two numbers, two strings or two lists, not {kind_of(a)} and {kind_of(b)}", at)


def subtract(a: Json, b: Json, at: Expr) -> Json:
    return _checked(a - b, at) if is_number(a) and is_number(b) else _refuse("-", a, b, at)


def multiply(a: Json, b: Json, at: Expr) -> Json:
    return _checked(a * b, at) if is_number(a) and is_number(b) else _refuse("*", a, b, at)


def divide(a: Json, b: Json, at: Expr) -> Json:
    """The quotient as in JSON's one number type: 7 / 2 is 3.5, 6 / 2 is 3."""
    if not (is_number(a) and is_number(b)):
        return _refuse("/", a, b, at)
    if b == 0:
        raise complain("division by zero", at)
    if type(a) is int and type(b) is int and a % b == 0:
        return _checked(a // b, at)
    try:
        return _checked(a / b, at)
    except OverflowError:
        raise complain("the result is not a finite number", at) from None


def remainder(a: Json, b: Json, at: Expr) -> Json:
    """What is left of `a`, with the sign of `a` (as in CEL, C and JavaScript)."""
    if not (is_number(a) and is_number(b)):
        return _refuse("%", a, b, at)
    if b == 0:
        raise complain("remainder by zero", at)
    if type(a) is int and type(b) is int:
        rest = abs(a) % abs(b)
        return -rest if a < 0 else rest
    return math.fmod(a, b)


def negate(a: Json, at: Expr) -> Json:
    if not is_number(a):
        raise complain(f"`-` needs a number, not {kind_of(a)}", at)
    return _checked(-a, at)


def _refuse(op: str, a: Json, b: Json, at: Expr) -> Json:
    raise complain(f"`{op}` needs two numbers, not {kind_of(a)} and {kind_of(b)}", at)


def _checked(value: int | float, at: Expr) -> int | float:
    try:
        return number(value)
    except ExpressionError as error:
        raise complain(error.message, at) from None


def text_of(value: Json, budget: Budget | None) -> str:
    """A value inside a longer text: strings as they are, null as nothing, the rest as JSON."""
    if value is None or value is MISSING:
        return ""
    return json_text(value, budget) if type(value) is not str else _paid(value, budget)


def json_text(value: Json, budget: Budget | None) -> str:
    """The compact JSON of a value, paid for before it is written."""
    if type(value) is list or type(value) is dict:
        grow(budget, weigh(value, budget))
    try:
        return _paid(orjson.dumps(value).decode(), budget)
    except (orjson.JSONEncodeError, RecursionError) as error:
        raise ExpressionError(f"cannot be written as JSON: {error}") from error


def _paid(text: str, budget: Budget | None) -> str:
    grow(budget, len(text))
    return text
