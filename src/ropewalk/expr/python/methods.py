"""The methods that values have in a program, by type.

Methods that only read and whose work is bounded by their arguments are Python's own; the others pay for what they
build.
"""

from __future__ import annotations

import datetime
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, Final

from .builtins import sort_items, to_set
from .evaluation import Evaluation
from .formatting import check_date_form, format_template, format_value, representation, text
from .method_table import METHODS, STATIC_METHODS, Method
from .operations import BINARY, COMPARISONS, MAX_WIDTH, contains, delete_item, set_item, subscript
from .ordered_set import OrderedFrozenSet, OrderedSet
from .values import Refused


def _native(kind: type[Any], names: str) -> dict[str, Method]:
    """Return methods that call Python's own."""
    return {name: _forward(getattr(kind, name)) for name in names.split()}


def _forward(native: Callable[..., Any]) -> Method:
    return lambda evaluation, value, *args, **kwargs: native(value, *args, **kwargs)


# --- str -----------------------------------------------------------------------------------------


def _join(evaluation: Evaluation, separator: str, values: Any, /) -> str:
    items = evaluation.collect(values)
    evaluation.reserve(sum(len(item) for item in items if type(item) is str) + len(separator) * len(items))
    return separator.join(items)


def _replace(evaluation: Evaluation, value: str, old: str, new: str, count: int = -1, /) -> str:
    if isinstance(old, str) and isinstance(new, str) and len(new) > len(old):
        evaluation.reserve(len(value) + value.count(old) * len(new) if old else (len(value) + 1) * (len(new) + 1))
    evaluation.step(1 + len(value) // 1024)
    return value.replace(old, new, count)


def _padded(native: Callable[..., str]) -> Method:
    def pad(evaluation: Evaluation, value: str, width: int, *fill: str) -> str:
        if isinstance(width, int) and width > MAX_WIDTH:
            raise Refused(f"a width over {MAX_WIDTH:,} characters; write a smaller width")
        return native(value, width, *fill)

    return pad


def _split(native: Callable[..., list[str]]) -> Method:
    def split(evaluation: Evaluation, value: str, *args: Any, **kwargs: Any) -> list[str]:
        evaluation.step(1 + len(value) // 64)
        evaluation.reserve(4 * len(value))
        return native(value, *args, **kwargs)

    return split


def _long(native: Callable[..., Any]) -> Method:
    """Return a method whose work grows with the text."""

    def run(evaluation: Evaluation, value: str, *args: Any, **kwargs: Any) -> Any:
        evaluation.step(1 + len(value) // 1024)
        return native(value, *args, **kwargs)

    return run


def _translate(evaluation: Evaluation, value: str, table: Any) -> str:
    longest = max((len(item) for item in table.values() if isinstance(item, str)), default=1)
    evaluation.reserve(len(value) * longest)
    evaluation.step(1 + len(value) // 1024)
    return value.translate(table)


def _expandtabs(evaluation: Evaluation, value: str, tabsize: int = 8) -> str:
    if isinstance(tabsize, int) and tabsize > 100:
        raise Refused("tabs wider than 100 characters; write a smaller width")
    evaluation.reserve(len(value) + value.count("\t") * 100)
    return value.expandtabs(tabsize)


_STR: Final[dict[str, Method]] = {
    **_native(
        str,
        "startswith endswith isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable "
        "isspace istitle isupper",
    ),
    **{
        name: _long(getattr(str, name))
        for name in [
            "capitalize",
            "casefold",
            "count",
            "find",
            "index",
            "lower",
            "lstrip",
            "partition",
            "removeprefix",
            "removesuffix",
            "rfind",
            "rindex",
            "rpartition",
            "rstrip",
            "strip",
            "swapcase",
            "title",
            "upper",
        ]
    },
    **{name: _split(getattr(str, name)) for name in ("split", "rsplit", "splitlines")},
    **{name: _padded(getattr(str, name)) for name in ("ljust", "rjust", "center", "zfill")},
    "join": _join,
    "translate": _translate,
    "replace": _replace,
    "expandtabs": _expandtabs,
    "format": lambda evaluation, value, *args, **kwargs: format_template(evaluation, value, args, kwargs),
    "format_map": lambda evaluation, value, mapping: format_template(evaluation, value, (), mapping),
}


# --- list, tuple, deque ----------------------------------------------------------------------------


def _append(evaluation: Evaluation, items: Any, value: Any, /) -> None:
    items.append(evaluation.stored(value))


def _extend(evaluation: Evaluation, items: Any, values: Any, /) -> None:
    items.extend(evaluation.collect(values))


def _insert(evaluation: Evaluation, items: Any, index: Any, value: Any, /) -> None:
    evaluation.step(1 + len(items) // 256)
    items.insert(index, evaluation.stored(value))


def _searching(native: Callable[..., Any]) -> Method:
    def search(evaluation: Evaluation, items: Any, value: Any, *bounds: Any) -> Any:
        evaluation.step(1 + len(items) // 8)
        if isinstance(value, (list, tuple, dict)):
            evaluation.walk(value)
        return native(items, value, *bounds)

    return search


def _copy(native: Callable[..., Any], size: int) -> Method:
    def copy(evaluation: Evaluation, value: Any) -> Any:
        evaluation.reserve(size * len(value))
        return native(value)

    return copy


def _sort(evaluation: Evaluation, items: list[Any], /, *, key: Any = None, reverse: Any = False) -> None:
    sort_items(evaluation, items, key, reverse)


def _pop(evaluation: Evaluation, items: Any, *index: Any) -> Any:
    if index and isinstance(items, list):
        evaluation.step(1 + len(items) // 256)
    return items.pop(*index)


_LIST: Final[dict[str, Method]] = {
    **_native(list, "reverse clear"),
    **{name: _searching(getattr(list, name)) for name in ("index", "count", "remove")},
    "append": _append,
    "extend": _extend,
    "insert": _insert,
    "pop": _pop,
    "sort": _sort,
    "copy": _copy(list.copy, 16),
}
_TUPLE: Final[dict[str, Method]] = {name: _searching(getattr(tuple, name)) for name in ("index", "count")}
_DEQUE: Final[dict[str, Method]] = {
    **_native(deque, "reverse clear popleft pop"),
    **{name: _searching(getattr(deque, name)) for name in ("index", "count", "remove")},
    "append": _append,
    "appendleft": lambda evaluation, items, value: items.appendleft(evaluation.stored(value)),
    "extend": _extend,
    "extendleft": lambda evaluation, items, values: items.extendleft(evaluation.collect(values)),
    "insert": _insert,
    "rotate": lambda evaluation, items, count=1: items.rotate(count % len(items) if items else 0),
    "copy": _copy(deque.copy, 16),
}


# --- dict ----------------------------------------------------------------------------------------


def _update(evaluation: Evaluation, fields: Any, /, *values: Any, **named: Any) -> None:
    if values and not isinstance(values[0], dict):
        values = (evaluation.collect(values[0]), *values[1:])
    evaluation.reserve(64 * (len(named) + sum(len(value) for value in values)))
    fields.update(*values, **named)


def _setdefault(evaluation: Evaluation, fields: Any, key: Any, default: Any = None, /) -> Any:
    if key not in fields:
        evaluation.reserve(64)
        evaluation.stored(default)
    return fields.setdefault(key, default)


_DICT: Final[dict[str, Method]] = {
    **_native(dict, "get items keys values pop popitem clear"),
    "update": _update,
    "setdefault": _setdefault,
    "copy": lambda evaluation, fields: _copied_fields(evaluation, fields),
}


def _copied_fields(evaluation: Evaluation, fields: Any) -> Any:
    evaluation.reserve(64 * len(fields))
    return fields.copy()


def _count_in(evaluation: Evaluation, counts: Counter[Any], values: Any = (), /, **named: int) -> None:
    counts.update(values if isinstance(values, dict) else evaluation.collect(values), **named)


_COUNTER: Final[dict[str, Method]] = {
    **_DICT,
    **_native(Counter, "most_common elements total"),
    "update": _count_in,
    "subtract": lambda evaluation, counts, values=(), **named: counts.subtract(values, **named),
}
_ORDERED: Final[dict[str, Method]] = {**_DICT, **_native(OrderedDict, "move_to_end popitem")}


# --- set -----------------------------------------------------------------------------------------


def _with_sets(native: Callable[..., Any]) -> Method:
    def run(evaluation: Evaluation, items: Any, *others: Any) -> Any:
        sets = [other if isinstance(other, (set, frozenset)) else to_set(evaluation, other) for other in others]
        evaluation.step(1 + len(items) // 8)
        evaluation.reserve(32 * (len(items) + sum(map(len, sets))))
        return native(items, *sets)

    return run


def _pop_any(evaluation: Evaluation, items: set[Any]) -> Any:
    if any(type(item) is not int for item in items):
        raise Refused("pop() of a set gives an arbitrary element; write min(...) and remove it")
    return items.pop()


_READ_SETS: Final = "union intersection difference symmetric_difference issubset issuperset isdisjoint"
_CHANGE_SETS: Final = "update intersection_update difference_update symmetric_difference_update"


def _frozenset_methods(kind: Any) -> dict[str, Method]:
    return {**{name: _with_sets(getattr(kind, name)) for name in _READ_SETS.split()}, "copy": _copy(kind.copy, 32)}


def _set_methods(kind: Any) -> dict[str, Method]:
    return {
        **_frozenset_methods(kind),
        **{name: _with_sets(getattr(kind, name)) for name in _CHANGE_SETS.split()},
        **_native(kind, "discard remove clear"),
        "add": lambda evaluation, items, value: items.add(evaluation.stored(value)),
    }


# --- dates ---------------------------------------------------------------------------------------


def _strftime(evaluation: Evaluation, value: Any, form: str) -> str:
    if len(form) > MAX_WIDTH:
        raise Refused(f"a format text that is longer than {MAX_WIDTH:,} characters")
    check_date_form(form)
    text: str = value.strftime(form)
    return text


def _in_utc(moment: datetime.datetime) -> datetime.datetime:
    """Return a moment with its time zone, which is UTC unless it names one."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)


def _astimezone(evaluation: Evaluation, value: Any, tz: Any = None) -> datetime.datetime:
    return _in_utc(value).astimezone(datetime.UTC if tz is None else tz)


_DATE_NAMES: Final = "isoformat weekday isoweekday replace toordinal ctime isocalendar"
_DATE: Final[dict[str, Method]] = {**_native(datetime.date, _DATE_NAMES), "strftime": _strftime}
_DATETIME: Final[dict[str, Method]] = {
    **_native(datetime.datetime, f"{_DATE_NAMES} date time timetz utcoffset tzname"),
    "astimezone": _astimezone,
    "strftime": _strftime,
    "timestamp": lambda evaluation, value: _in_utc(value).timestamp(),
}

_METHODS: Final[dict[type[Any], dict[str, Method]]] = {
    str: _STR,
    list: _LIST,
    tuple: _TUPLE,
    deque: _DEQUE,
    dict: _DICT,
    defaultdict: _DICT,
    Counter: _COUNTER,
    OrderedDict: _ORDERED,
    set: {**_set_methods(set), "pop": _pop_any},
    frozenset: _frozenset_methods(frozenset),
    OrderedSet: {**_set_methods(OrderedSet), **_native(OrderedSet, "pop")},
    OrderedFrozenSet: _frozenset_methods(OrderedFrozenSet),
    int: _native(int, "bit_length bit_count conjugate"),
    float: _native(float, "is_integer as_integer_ratio conjugate hex"),
    range: {name: _searching(getattr(range, name)) for name in ("index", "count")},
    datetime.datetime: _DATETIME,
    datetime.date: _DATE,
    datetime.time: {**_native(datetime.time, "isoformat replace utcoffset tzname"), "strftime": _strftime},
    datetime.timedelta: _native(datetime.timedelta, "total_seconds"),
    datetime.timezone: _native(datetime.timezone, "utcoffset tzname"),
}


def _static(kind: type[Any], names: str) -> dict[str, Any]:
    """Return functions of a type that take no value before their arguments."""

    def forward(native: Callable[..., Any]) -> Method:
        return lambda evaluation, *args, **kwargs: native(*args, **kwargs)

    return {name: forward(getattr(kind, name)) for name in names.split()}


def _limits(kind: Any) -> dict[str, Any]:
    return {name: getattr(kind, name) for name in ("min", "max", "resolution")}


def _fromkeys(evaluation: Evaluation, keys: Any, value: Any = None, /) -> dict[Any, Any]:
    return dict.fromkeys(evaluation.collect(keys), value)


_STATIC_METHODS: Final[dict[type[Any], dict[str, Any]]] = {
    dict: {"fromkeys": _fromkeys},
    str: _static(str, "maketrans"),
    float: _static(float, "fromhex"),
    datetime.datetime: {
        **_static(datetime.datetime, "fromisoformat strptime combine fromordinal fromisocalendar"),
        **_limits(datetime.datetime),
    },
    datetime.date: {**_static(datetime.date, "fromisoformat fromordinal fromisocalendar"), **_limits(datetime.date)},
    datetime.time: {**_static(datetime.time, "fromisoformat"), **_limits(datetime.time)},
    datetime.timedelta: _limits(datetime.timedelta),
    OrderedDict: {"fromkeys": lambda evaluation, *values: OrderedDict(_fromkeys(evaluation, *values))},
    datetime.timezone: {"utc": datetime.UTC},
}
METHODS.update(_METHODS)
METHODS[BaseException] = {
    "add_note": lambda evaluation, error, note: error.add_note(evaluation.stored(note)),
    "with_traceback": lambda evaluation, error, traceback: error,
    "__init__": lambda evaluation, error, *values: BaseException.__init__(error, *values),
}
METHODS[BaseExceptionGroup] = _native(BaseExceptionGroup, "derive split subgroup")
_OPERATORS: Final[dict[str, str]] = {
    "BitAnd": "and",
    "BitOr": "or",
    "BitXor": "xor",
    "Div": "truediv",
    "Mult": "mul",
    "NotEq": "ne",
    "LtE": "le",
    "GtE": "ge",
}
"""The special methods of operators whose names differ from those of the syntax tree."""
METHODS[object] = {
    **{
        f"__{_OPERATORS.get(name, name.lower())}__": run
        for name, run in {**BINARY, **COMPARISONS}.items()
        if name not in ("Is", "IsNot", "In", "NotIn")
    },
    "__abs__": lambda evaluation, value: abs(value),
    "__bool__": lambda evaluation, value: bool(value),
    "__call__": lambda evaluation, value, *values, **named: evaluation.call(value, [*values], named),
    "__contains__": lambda evaluation, values, item: contains(evaluation, item, values),
    "__delitem__": lambda evaluation, values, key: delete_item(values, key),
    "__format__": format_value,
    "__getitem__": subscript,
    "__iter__": lambda evaluation, values: evaluation.iterate(values),
    "__len__": lambda evaluation, values: len(values),
    "__neg__": lambda evaluation, value: -value,
    "__next__": lambda evaluation, values: next(values),
    "__repr__": representation,
    "__setitem__": set_item,
    "__str__": text,
}
"""The special methods, of every value that has them."""
STATIC_METHODS.update(_STATIC_METHODS)
