"""Operators, members and subscripts of Python values, with Python's meaning and within the budget."""

from __future__ import annotations

import datetime
import operator
import re
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from .evaluation import BuiltinFunction, Evaluation, Members
from .failures import ToolError
from .method_table import STATIC_METHODS, method_of
from .values import Approval, Refused

Operation = Callable[[Evaluation, Any, Any], Any]

_NUMBERS: Final = frozenset((int, float, bool))
_SEQUENCES: Final = (str, list, tuple)
_WIDE: Final = re.compile(r"%[^%a-zA-Z]*(?:\d{5}|\*)")
MAX_WIDTH: Final = 10_000
"""The widest field that a format may ask for, in characters."""


def add(evaluation: Evaluation, left: Any, right: Any) -> Any:
    """Return `left + right`."""
    if type(left) in _NUMBERS and type(right) in _NUMBERS:
        return evaluation.integer(left + right)
    if isinstance(left, _SEQUENCES) and isinstance(right, _SEQUENCES):
        _make_room(evaluation, left, len(left) + len(right))
    return left + right


def _make_room(evaluation: Evaluation, like: Any, length: int) -> None:
    """Reserve room for a sequence of this length; of a string only its own size must be allowed, as names hold few."""
    if type(like) is str:
        evaluation.step(1 + length // 4096)
        if length > 1_000_000:
            evaluation.reserve(length)
    else:
        evaluation.step(1 + length // 64)
        evaluation.reserve(16 * length)


def subtract(evaluation: Evaluation, left: Any, right: Any) -> Any:
    """Return `left - right`."""
    _pay_for_sets(evaluation, left, right)
    return evaluation.integer(left - right)


def multiply(evaluation: Evaluation, left: Any, right: Any) -> Any:
    """Return `left * right`."""
    if isinstance(left, (*_SEQUENCES, deque)) and isinstance(right, int):
        _make_room(evaluation, left, len(left) * max(0, right))
    elif isinstance(right, (*_SEQUENCES, deque)) and isinstance(left, int):
        _make_room(evaluation, right, len(right) * max(0, left))
    return evaluation.integer(left * right)


def modulo(evaluation: Evaluation, left: Any, right: Any) -> Any:
    """Return `left % right`, for strings the formatted text."""
    if type(left) is str:
        if _WIDE.search(left):
            raise Refused(f"a format wider than {MAX_WIDTH:,} characters; write fewer digits")
        values = right if isinstance(right, tuple) else (right,)
        if isinstance(right, dict):
            values = tuple(right.values())
        evaluation.reserve(sum(text_size(value) for value in values) + len(left))
    return left % right


def divide(evaluation: Evaluation, left: Any, right: Any) -> Any:
    """Return `left / right`, of numbers or paths."""
    own = None if type(left) in _NUMBERS else method_of(type(left), "__truediv__")
    return left / right if own is None or own is divide else own(evaluation, left, right)


def power(evaluation: Evaluation, left: Any, right: Any) -> Any:
    """Return `left ** right`."""
    if isinstance(left, int) and isinstance(right, int) and right > 0 and left.bit_length() * right > 8192:
        raise Refused("the power has too many digits; integers beyond 64 bits cannot be kept")
    return evaluation.integer(left**right)


def shift_left(evaluation: Evaluation, left: Any, right: Any) -> Any:
    """Return `left << right`."""
    if isinstance(left, int) and isinstance(right, int) and right > 4096:
        raise Refused("the shifted integer has too many digits; integers beyond 64 bits cannot be kept")
    return evaluation.integer(left << right)


def _pay_for_sets(evaluation: Evaluation, left: Any, right: Any) -> None:
    for value in (left, right):
        if isinstance(value, (set, frozenset, dict)):
            evaluation.step(len(value))
            evaluation.reserve(32 * len(value))


def _on_sets(run: Callable[[Any, Any], Any]) -> Operation:
    def operate(evaluation: Evaluation, left: Any, right: Any) -> Any:
        _pay_for_sets(evaluation, left, right)
        return run(left, right)

    return operate


def _plain(run: Callable[[Any, Any], Any]) -> Operation:
    return lambda evaluation, left, right: run(left, right)


BINARY: Final[dict[str, Operation]] = {
    "Add": add,
    "Sub": subtract,
    "Mult": multiply,
    "Div": divide,
    "FloorDiv": _plain(operator.floordiv),
    "Mod": modulo,
    "Pow": power,
    "LShift": shift_left,
    "RShift": _plain(operator.rshift),
    "BitOr": _on_sets(operator.or_),
    "BitAnd": _on_sets(operator.and_),
    "BitXor": _on_sets(operator.xor),
    "MatMult": lambda evaluation, left, right: operator.matmul(left, right),
}


def _in_place(name: str) -> Operation:
    """Return the augmented form: lists, sets and dicts change in place, as other names may hold them."""
    native: Any = {"Add": operator.iadd, "Mult": operator.imul, "Sub": operator.isub}.get(name)
    native = native or {"BitOr": operator.ior, "BitAnd": operator.iand, "BitXor": operator.ixor}.get(name)
    binary, symbol = BINARY[name], _SYMBOLS[name]

    def general(evaluation: Evaluation, left: Any, right: Any) -> Any:
        try:
            return binary(evaluation, left, right)
        except TypeError as error:
            words, _, kinds = str(error).partition(": ")
            if not words.startswith("unsupported operand"):
                raise
            raise TypeError(f"unsupported operand type(s) for {symbol}=: {kinds}") from None

    if native is None:
        return general

    def operate(evaluation: Evaluation, left: Any, right: Any) -> Any:
        if type(left) is list and name == "Add":
            items = evaluation.collect(right)
            left += items
            return left
        if isinstance(left, (list, deque)) and name == "Mult" and isinstance(right, int):
            _make_room(evaluation, left, len(left) * max(0, right))
            return native(left, right)
        if isinstance(left, (set, dict, deque)):
            _pay_for_sets(evaluation, left, right)
            return native(left, right)
        return general(evaluation, left, right)

    return operate


_SYMBOLS: Final = {
    "Add": "+",
    "Sub": "-",
    "Mult": "*",
    "Div": "/",
    "FloorDiv": "//",
    "Mod": "%",
    "Pow": "**",
    "LShift": "<<",
    "RShift": ">>",
    "BitOr": "|",
    "BitAnd": "&",
    "BitXor": "^",
    "MatMult": "@",
}


IN_PLACE: Final[dict[str, Operation]] = {name: _in_place(name) for name in BINARY}

UNARY: Final[dict[str, Callable[[Any], Any]]] = {
    "UAdd": operator.pos,
    "USub": operator.neg,
    "Invert": operator.invert,
    "Not": operator.not_,
}


def _comparison(run: Callable[[Any, Any], Any]) -> Operation:
    def compare(evaluation: Evaluation, left: Any, right: Any) -> Any:
        if type(left) in _NUMBERS:
            return run(left, right)
        if type(left) is str:
            evaluation.step(1 + (len(left) >> 12))
        elif isinstance(left, (list, tuple, dict, set, frozenset, deque)):
            evaluation.step(1 + len(left))
            evaluation.walk(left, right)  # a comparison of nested containers may take long
        return run(left, right)

    return compare


def contains(evaluation: Evaluation, left: Any, right: Any) -> bool:
    """Return `left in right`."""
    if isinstance(right, (list, tuple, deque)):
        evaluation.step(1 + len(right) // 8)
        if isinstance(left, (list, tuple, dict)):
            evaluation.walk(left)
    elif type(right) is str:
        evaluation.step(1 + (len(right) >> 10))
    elif type(right) is type:
        raise TypeError("argument of type 'type' is not iterable")
    elif type(right) is range and not isinstance(left, int):
        evaluation.step(len(right))  # Python compares one element after the other
    elif not isinstance(right, (dict, set, frozenset, range)):
        right = evaluation.iterate(right) if hasattr(right, "__next__") else right
    return left in right


COMPARISONS: Final[dict[str, Operation]] = {
    "Eq": _comparison(operator.eq),
    "NotEq": _comparison(operator.ne),
    "Lt": _comparison(operator.lt),
    "LtE": _comparison(operator.le),
    "Gt": _comparison(operator.gt),
    "GtE": _comparison(operator.ge),
    "In": contains,
    "NotIn": lambda evaluation, left, right: not contains(evaluation, left, right),
    "Is": lambda evaluation, left, right: left is right,
    "IsNot": lambda evaluation, left, right: left is not right,
}


def text_size(value: Any) -> int:
    """Return about how many characters `str(value)` has, from the outermost two levels."""
    if type(value) is str:
        return len(value)
    if isinstance(value, dict):
        return 8 * len(value) + sum(len(item) if type(item) is str else 16 for item in value.values())
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return sum(len(item) + 4 if type(item) is str else 16 for item in value)
    return 24


# --- members and subscripts --------------------------------------------------------------------

FIELDS: Final[dict[type[Any], frozenset[str]]] = {
    datetime.datetime: frozenset(["year", "month", "day", "hour", "minute", "second", "microsecond", "tzinfo", "fold"]),
    datetime.date: frozenset(("year", "month", "day")),
    datetime.time: frozenset(("hour", "minute", "second", "microsecond", "tzinfo")),
    datetime.timedelta: frozenset(("days", "seconds", "microseconds")),
    range: frozenset(("start", "stop", "step")),
    deque: frozenset(("maxlen",)),
    int: frozenset(("real", "imag", "numerator", "denominator")),
    float: frozenset(("real", "imag")),
}


def member(evaluation: Evaluation, value: Any, name: str) -> Any:
    """Return `value.name`: the entry of an object, a field, or a method as a function."""
    if isinstance(value, Members):
        return value.get_member(evaluation, name)
    if isinstance(value, dict):
        if name in value or (type(value) is dict and method_of(dict, name) is None):
            return value[name]
    elif isinstance(value, Approval):
        if name in ("approved", "by", "note"):
            return value.answer.get(name)
    elif isinstance(value, BaseException):
        return exception_field(evaluation, value, name)
    elif isinstance(value, type):
        if issubclass(value, Members):
            return value.class_member(evaluation, name)
        return type_member(evaluation, value, name)
    elif name in FIELDS.get(type(value), ()):
        return getattr(value, name)
    return bound_method(evaluation, value, name)


def exception_field(evaluation: Any, error: BaseException, name: str) -> Any:
    """Return a member of an exception."""
    if isinstance(error, ToolError) and name in ("tool", "message", "kind"):
        return getattr(error, name)
    if name in _EXCEPTION_FIELDS:
        return getattr(error, name)
    return bound_method(evaluation, error, name)


_EXCEPTION_FIELDS: Final = frozenset(
    (
        *("args", "exceptions", "message", "msg", "doc", "pos", "lineno", "colno", "name", "errno", "strerror"),
        *("filename", "value", "__cause__", "__context__", "__notes__"),
    )
)


def type_member(evaluation: Any, kind: type[Any], name: str) -> Any:
    """Return a member of a class of the language."""
    if name in ("__name__", "__qualname__"):
        return kind.__name__
    static = STATIC_METHODS.get(kind, {}).get(name)
    if static is not None:
        return BuiltinFunction(name, static, evaluation) if callable(static) else static
    method = method_of(kind, name)
    if method is None:
        raise AttributeError(f"type object '{kind.__name__}' has no attribute '{name}'")
    return BuiltinFunction(name, method, evaluation)


def bound_method(evaluation: Any, value: Any, name: str) -> Any:
    """Return the method of a value as a function."""

    # Raises AttributeError if there is none.
    if name == "__class__":
        return type(value)
    method = method_of(type(value), name)
    if method is None:
        raise AttributeError(f"'{type(value).__name__}' object has no attribute '{name}'")
    return BuiltinFunction(name, lambda state, *args, **kwargs: method(state, value, *args, **kwargs), evaluation)


def subscript(evaluation: Evaluation, value: Any, key: Any) -> Any:
    """Return `value[key]`."""

    # Raises KeyError, IndexError or TypeError as Python does.
    if type(value) is type and not hasattr(value, "__class_getitem__"):  # `dict[str, int]` is a hint
        raise TypeError(f"type '{value.__name__}' is not subscriptable")
    if type(key) is slice and isinstance(value, _SEQUENCES):
        _make_room(evaluation, value, len(range(*key.indices(len(value)))))
    return value[key]


def set_item(evaluation: Evaluation, value: Any, key: Any, item: Any) -> None:
    """Do `value[key] = item`."""
    if isinstance(value, dict):
        evaluation.reserve(64 + (len(key) if type(key) is str else 0))
        if type(item) is str:
            evaluation.reserve(len(item))
    elif type(key) is slice:
        item = evaluation.collect(item)
    elif isinstance(value, type):
        raise TypeError(f"'{type(value).__name__}' object does not support item assignment")
    else:
        evaluation.stored(item)
    value[key] = item


def set_member(evaluation: Evaluation, value: Any, name: str, item: Any) -> None:
    """Do `value.name = item`, which sets the entry of an object."""
    if isinstance(value, Members):
        value.set_member(evaluation, name, item)
        return
    if isinstance(value, type) and issubclass(value, Members):
        value.set_class_member(evaluation, name, item)
        return
    if not isinstance(value, dict):
        raise AttributeError(f"'{type(value).__name__}' object has no attribute '{name}'")
    set_item(evaluation, value, name, item)


def delete_item(value: Any, key: Any) -> None:
    """Do `del value[key]`."""
    if isinstance(value, type):
        raise TypeError(f"'{type(value).__name__}' object doesn't support item deletion")
    del value[key]


def delete_member(value: Any, name: str) -> None:
    """Do `del value.name`, which deletes the entry of an object."""
    if isinstance(value, Members):
        value.delete_member(name)
        return
    if not isinstance(value, dict):
        raise AttributeError(f"'{type(value).__name__}' object has no attribute '{name}'")
    del value[name]
