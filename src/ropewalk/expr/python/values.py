"""Values of Python programs, and the JSON that they become: arguments of calls, and the result of a program."""

from __future__ import annotations

import datetime
import math
import numbers
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

from ...errors import ExpressionError
from ...values import MAX_DEPTH, Json
from .ordered_set import OrderedFrozenSet, OrderedSet

MAX_INT: Final = 2**63


class Refused(ExpressionError):
    """The program does something that Ropewalk cannot represent."""

    # No `except` of the program catches it.


class Unbound:
    """The value of a name that has none yet."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<unbound>"


UNBOUND: Final = Unbound()


class Approval:
    """The answer to `approve(...)`: true only when approved, with `by` and `note`."""

    __slots__ = ("answer",)

    def __init__(self, answer: dict[str, Json]) -> None:
        self.answer = answer

    def __bool__(self) -> bool:
        return self.answer.get("approved") is True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Approval) and self.answer == other.answer

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Approval({self.answer!r})"


_SCALARS: Final = frozenset((type(None), bool, str))


def to_json(value: Any, depth: int = MAX_DEPTH) -> Json:
    """Return `value` as JSON, for the arguments of a call and the result of a program."""

    # Tuples, ranges and deques become lists.
    kind = type(value)
    if kind in _SCALARS:
        return value
    # Refuse a larger integer: many JSON readers would silently round it.
    if kind is int:
        if -MAX_INT <= value < MAX_INT:
            return value
        raise Refused("an integer of more than 64 bits is not JSON here; use a float or str(...)")
    if kind is float:
        if math.isfinite(value):
            return value
        raise Refused(f"{value!r} is not JSON; use None or a string")
    if depth <= 0:
        raise Refused("the value is nested too deeply")
    if kind in _AS_LIST:
        return [to_json(item, depth - 1) for item in value]
    if isinstance(value, dict):
        # JSON would turn another key into a string, and a lookup by the original key would fail.
        for key in value:
            if type(key) is not str:
                raise Refused(f"a dict with the key {key!r} is not JSON; write str(key)")
        return {key: to_json(item, depth - 1) for key, item in value.items()}
    if kind is Approval:
        return value.answer
    raise Refused(f"{_kind_name(value)} is not JSON; {_advice(value)}")


_AS_LIST: Final = frozenset((list, tuple, range, deque))


def in_stable_order(values: Iterable[Any]) -> list[Any]:
    """Return the elements of a set in an order that is the same in every process."""

    # Python orders sets of numbers the same way each time, and those with strings by a hash that differs between
    # processes.
    items = list(values)
    if isinstance(values, (OrderedSet, OrderedFrozenSet)):
        return items
    if any(_holds_text(item) for item in items):
        items.sort(key=lambda item: (type(item).__name__, repr(item)))
    return items


def _holds_text(value: Any) -> bool:
    return type(value) is str or (type(value) in (tuple, frozenset) and any(_holds_text(item) for item in value))


def _kind_name(value: Any) -> str:
    if isinstance(value, (set, frozenset)):
        return "a set"
    if isinstance(value, BaseException):
        return "an exception"
    if callable(value):
        return "a function"
    name = type(value).__name__
    if isinstance(value, Iterator):
        return "an iterator"
    return f"{'an' if name[:1] in 'aeiou' else 'a'} {name}"


def _advice(value: Any) -> str:
    """Return what to write instead of a value that cannot be represented."""
    if isinstance(value, (set, frozenset)):
        return "write sorted(...) or list(...)"
    if isinstance(value, BaseException):
        return "write str(...)"
    if isinstance(value, (datetime.date, datetime.time)):
        return "write .isoformat()"
    if isinstance(value, datetime.timedelta):
        return "write .total_seconds()"
    if callable(value):
        return "call it, or define it with def"
    if isinstance(value, numbers.Number):
        return "write float(...) or str(...)"
    return "write list(...)"
