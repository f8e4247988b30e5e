"""Values of Python programs, and the JSON in which they travel between nodes.

Inside a piece of a program values are Python's own. A value that is plain JSON travels as it is. Any other value (a
tuple, a set, a dict with integer keys, an exception, a date) travels as `{TAG: encoded}`. At a tool call, a wait and
the result of a program values must be JSON again: `to_json` converts tuples to lists and refuses what JSON cannot
represent.
"""

from __future__ import annotations

import datetime
import math
import numbers
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from ...errors import ExpressionError
from ...values import MAX_DEPTH, Json
from .failures import exception_from, exception_record
from .ordered_set import OrderedFrozenSet, OrderedSet

TAG: Final = "\ufdd0"
"""The only key of an object that holds an encoded value. A noncharacter, which no honest JSON text contains."""

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
FACTORIES: Final[dict[str, type[Any]]] = {
    kind.__name__: kind for kind in (list, dict, set, int, float, str, bool, tuple)
}
"""The factories that a `defaultdict` may have."""


def is_plain(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Return True if `value` is JSON with only string keys, finite floats and integers of 64 bits."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        return bool(-MAX_INT <= value < MAX_INT)
    if kind is float:
        return math.isfinite(value)
    if depth <= 0:
        raise Refused("the value is nested too deeply")
    if kind is list:
        return all(type(item) is str or is_plain(item, depth - 1) for item in value)
    if kind is dict:
        return TAG not in value and all(
            type(key) is str and (type(item) is str or is_plain(item, depth - 1)) for key, item in value.items()
        )
    return False


def pack(value: Any) -> Json:
    """Return the JSON in which a value of a program travels to another node."""
    if is_plain(value):
        return value
    return {TAG: _encode(value, MAX_DEPTH)}


def unpack(value: Json) -> Any:
    """Return the value that `pack` made `value` of."""

    # Plain JSON is returned itself, not a copy.
    if type(value) is dict and len(value) == 1 and TAG in value:
        return _decode(value[TAG])
    return value


def guard_raw(value: Json) -> Json:
    """Return `value`, which comes from outside, so that `unpack` gives exactly it."""
    if type(value) is dict and TAG in value:
        return {TAG: ["dict", [[key, _encode(item, MAX_DEPTH)] for key, item in value.items()]]}
    return value


def copied(value: Any) -> Any:
    """Return a deep copy of the lists and dicts of plain JSON, which a program may change."""
    kind = type(value)
    if kind is list:
        return [item if type(item) in _SCALARS else copied(item) for item in value]
    if kind is dict:
        return {key: item if type(item) in _SCALARS else copied(item) for key, item in value.items()}
    return value


def _pairs(value: Any, depth: int) -> list[Json]:
    return [[_encode(key, depth), _encode(item, depth)] for key, item in value.items()]


def _items(value: Iterable[Any], depth: int) -> list[Json]:
    return [_encode(item, depth) for item in value]


_ENCODERS: Final[dict[type[Any], Callable[[Any, int], Json]]] = {
    list: lambda value, depth: ["list", _items(value, depth)],
    tuple: lambda value, depth: ["tuple", _items(value, depth)],
    set: lambda value, depth: ["set", _items(in_stable_order(value), depth)],
    frozenset: lambda value, depth: ["frozenset", _items(in_stable_order(value), depth)],
    dict: lambda value, depth: ["dict", _pairs(value, depth)],
    OrderedDict: lambda value, depth: ["OrderedDict", _pairs(value, depth)],
    Counter: lambda value, depth: ["Counter", _pairs(value, depth)],
    deque: lambda value, depth: ["deque", [value.maxlen, _items(value, depth)]],
    range: lambda value, depth: ["range", [value.start, value.stop, value.step]],
    Approval: lambda value, depth: ["approval", value.answer],
    Unbound: lambda value, depth: ["unbound", None],
    datetime.datetime: lambda value, depth: ["datetime", value.isoformat()],
    datetime.date: lambda value, depth: ["date", value.isoformat()],
    datetime.time: lambda value, depth: ["time", value.isoformat()],
    datetime.timedelta: lambda value, depth: ["timedelta", [value.days, value.seconds, value.microseconds]],
    datetime.timezone: lambda value, depth: ["timezone", value.utcoffset(None).total_seconds()],
}


def _encode(value: Any, depth: int) -> Json:
    """Encode a value; containers become `[kind, content]`, so that no data looks like an encoding."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is int:
        if -MAX_INT <= value < MAX_INT:
            return value
        raise Refused("an integer of more than 64 bits cannot be kept; use a float or a string")
    # JSON has no infinity and no NaN.
    if kind is float:
        return value if math.isfinite(value) else ["float", repr(value)]
    if depth <= 0:
        raise Refused("the value is nested too deeply")
    encoder = _ENCODERS.get(kind)
    if encoder is not None:
        return encoder(value, depth - 1)
    # A factory is kept by its name, so it must be one that the decoder knows.
    if kind is defaultdict:
        factory = value.default_factory
        name = None if factory is None else getattr(factory, "__name__", "")
        if name is None or FACTORIES.get(name) is factory:
            return ["defaultdict", [name, _pairs(value, depth - 1)]]
        raise Refused("a defaultdict is kept only with a type such as list or int as its factory")
    if isinstance(value, BaseException):
        record = exception_record(value)
        return ["exception", {**record, "args": _items(record["args"], depth - 1)}]
    raise Refused(f"{_kind_name(value)} cannot be kept across a call; {_advice(value)}")


def _decode_pairs(pairs: Any) -> Iterator[tuple[Any, Any]]:
    return ((_decode(key), _decode(item)) for key, item in pairs)


_DECODERS: Final[dict[str, Callable[[Any], Any]]] = {
    "list": lambda content: [_decode(item) for item in content],
    "tuple": lambda content: tuple(_decode(item) for item in content),
    "set": lambda content: {_decode(item) for item in content},
    "frozenset": lambda content: frozenset(_decode(item) for item in content),
    "dict": lambda content: dict(_decode_pairs(content)),
    "OrderedDict": lambda content: OrderedDict(_decode_pairs(content)),
    "Counter": lambda content: Counter(dict(_decode_pairs(content))),
    "deque": lambda content: deque((_decode(item) for item in content[1]), content[0]),
    "defaultdict": lambda content: defaultdict(FACTORIES.get(content[0] or ""), _decode_pairs(content[1])),
    "range": lambda content: range(*content),
    "float": float,
    "approval": Approval,
    "unbound": lambda content: UNBOUND,
    "exception": lambda content: exception_from({**content, "args": [_decode(item) for item in content["args"]]}),
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "timedelta": lambda content: datetime.timedelta(*content),
    "timezone": lambda content: datetime.timezone(datetime.timedelta(seconds=content)),
}


def register_kind(kind: type[Any], name: str, encode: Callable[[Any], Json], decode: Callable[[Any], Any]) -> None:
    """Let values of a type travel between nodes."""
    _ENCODERS[kind] = lambda value, depth: [name, encode(value)]
    _DECODERS[name] = decode


def _decode(value: Json) -> Any:
    if type(value) is list:
        return _DECODERS[value[0]](value[1])
    return value


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
