"""The built-in functions and types of the language.

To add one, write a function that takes the evaluation first, and name it in FUNCTIONS or TYPES.
"""

from __future__ import annotations

import datetime
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from .evaluation import CALLABLE_TYPES, Evaluation
from .failures import is_instance, kind_of
from .formatting import format_value, representation, text
from .operations import add
from .ordered_set import OrderedFrozenSet, OrderedSet
from .values import Refused

_NOTHING: Final = object()


def _len(evaluation: Evaluation, value: Any, /) -> int:
    if type(value) is type:
        raise TypeError(f"object of type '{type(value).__name__}' has no len()")
    return len(value)


def _sum(evaluation: Evaluation, values: Any, /, start: Any = 0) -> Any:
    if isinstance(start, str):
        raise TypeError("sum() can't sum strings [use ''.join(seq) instead]")
    items = list(evaluation.iterate(values))
    if type(start) in (int, float) and all(type(item) in (int, float, bool) for item in items):
        return evaluation.integer(sum(items, start))
    total = start
    for item in items:
        total = add(evaluation, total, item)
    return total


def _extreme(native: Callable[..., Any]) -> Callable[..., Any]:
    def choose(evaluation: Evaluation, *values: Any, key: Any = None, default: Any = _NOTHING) -> Any:
        options: dict[str, Any] = {} if key is None else {"key": evaluation.callable(key)}
        if len(values) == 1:
            if default is not _NOTHING:
                options["default"] = default
            return native(evaluation.iterate(values[0]), **options)
        if default is not _NOTHING:
            options["default"] = default
        return native(*values, **options)

    return choose


def sort_items(evaluation: Evaluation, items: list[Any], key: Any, reverse: Any) -> None:
    """Sort a list in place, stable, with a key function of the program."""
    evaluation.step(len(items) * max(1, len(items).bit_length()) // 8)
    function = None if key is None else evaluation.callable(key)
    items.sort(key=function, reverse=bool(reverse))
    evaluation.walk()


def _sorted(evaluation: Evaluation, values: Any, /, *, key: Any = None, reverse: Any = False) -> list[Any]:
    items = evaluation.collect(values)
    sort_items(evaluation, items, key, reverse)
    return items


def _reversed(evaluation: Evaluation, values: Any, /) -> Iterator[Any]:
    if isinstance(values, (set, frozenset)):
        raise TypeError(f"'{type(values).__name__}' object is not reversible")
    backwards: Iterator[Any] = reversed(values)
    return backwards


def _enumerate(evaluation: Evaluation, iterable: Any, start: Any = 0) -> Iterator[Any]:
    return enumerate(evaluation.iterate(iterable), start)


def _zip(evaluation: Evaluation, *iterables: Any, strict: Any = False) -> Iterator[Any]:
    return zip(*[evaluation.iterate(values) for values in iterables], strict=bool(strict))


def _map(evaluation: Evaluation, function: Any, /, *iterables: Any) -> Iterator[Any]:
    run = evaluation.callable(function)
    return map(run, *[evaluation.iterate(values) for values in iterables])


def _filter(evaluation: Evaluation, function: Any, values: Any, /) -> Iterator[Any]:
    return filter(None if function is None else evaluation.callable(function), evaluation.iterate(values))


def _any(evaluation: Evaluation, values: Any, /) -> bool:
    return any(evaluation.iterate(values))


def _all(evaluation: Evaluation, values: Any, /) -> bool:
    return all(evaluation.iterate(values))


def _round(evaluation: Evaluation, number: Any, ndigits: Any = None) -> Any:
    if isinstance(ndigits, int) and abs(ndigits) > 400:
        raise Refused("round to more than 400 digits; write fewer")
    return round(number) if ndigits is None else round(number, ndigits)


def _divmod(evaluation: Evaluation, left: Any, right: Any, /) -> Any:
    return divmod(left, right)


def _pow(evaluation: Evaluation, base: Any, exp: Any, mod: Any = None) -> Any:
    from .operations import power

    return power(evaluation, base, exp) if mod is None else pow(base, exp, mod)


def _isinstance(evaluation: Evaluation, value: Any, kinds: Any, /) -> bool:
    if isinstance(value, BaseException) and isinstance(kinds, (type, tuple)):
        return is_instance(value, kinds)
    return isinstance(value, kinds)


def _next(evaluation: Evaluation, iterator: Any, /, *default: Any) -> Any:
    evaluation.step()
    if not isinstance(iterator, Iterator):
        raise TypeError(f"'{type(iterator).__name__}' object is not an iterator")
    return next(iterator, *default)


def _iter(evaluation: Evaluation, values: Any, /) -> Iterator[Any]:
    return evaluation.iterate(values)


def _print(evaluation: Evaluation, *values: Any, sep: Any = " ", end: Any = "\n", flush: Any = None) -> None:
    parts = [text(evaluation, value) for value in values]
    line = (" " if sep is None else sep).join(parts) + ("\n" if end is None else end)
    evaluation.reserve(len(line))
    evaluation.printed.append(line)


def _callable(evaluation: Evaluation, value: Any, /) -> bool:
    return callable(value)


_PUBLIC_TYPES: Final[dict[type[Any], type[Any]]] = {OrderedSet: set, OrderedFrozenSet: frozenset}


def _type(evaluation: Evaluation, value: Any, /) -> type[Any]:
    kind = kind_of(value) if isinstance(value, BaseException) else type(value)
    return _PUBLIC_TYPES.get(kind, kind)


def _plain(native: Callable[..., Any]) -> Callable[..., Any]:
    return lambda evaluation, *args: native(*args)


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "abs": _plain(abs),
    "all": _all,
    "any": _any,
    "bin": _plain(bin),
    "callable": _callable,
    "chr": _plain(chr),
    "divmod": _divmod,
    "filter": _filter,
    "format": lambda evaluation, value, spec="": format_value(evaluation, value, spec),
    "hex": _plain(hex),
    "isinstance": _isinstance,
    "issubclass": _plain(issubclass),
    "iter": _iter,
    "len": _len,
    "map": _map,
    "max": _extreme(max),
    "min": _extreme(min),
    "next": _next,
    "oct": _plain(oct),
    "ord": _plain(ord),
    "pow": _pow,
    "print": _print,
    "repr": representation,
    "reversed": _reversed,
    "round": _round,
    "sorted": _sorted,
    "sum": _sum,
    "type": _type,
    "zip": _zip,
    "enumerate": _enumerate,
}
"""The built-in functions, by name. Each takes the evaluation first."""


# --- types ---------------------------------------------------------------------------------------


def _to_list(evaluation: Evaluation, values: Any = (), /) -> list[Any]:
    return evaluation.collect(values)


def _to_tuple(evaluation: Evaluation, values: Any = (), /) -> tuple[Any, ...]:
    return evaluation.new_tuple(evaluation.collect(values))


def to_set(evaluation: Evaluation, values: Any = (), /) -> set[Any]:
    """Return the set of the elements of `values`, looking at the clock, as equal hashes of data may make it slow."""
    items = evaluation.new_set()
    for count, value in enumerate(evaluation.iterate(values)):
        items.add(value)
        if type(value) is tuple and count % 64 == 0:
            evaluation.walk(value)
    evaluation.reserve(32 * len(items))
    return items


def _to_dict(evaluation: Evaluation, /, *values: Any, **fields: Any) -> dict[Any, Any]:
    if len(values) > 1:
        raise TypeError(f"dict expected at most 1 argument, got {len(values)}")
    source = values[0] if values else ()
    if not isinstance(source, dict):
        keys = evaluation.iterate(source.keys()) if hasattr(source, "keys") else None
        source = evaluation.collect(source) if keys is None else [(key, source[key]) for key in keys]
    evaluation.reserve(64 * (len(source) + len(fields)))
    return dict(source, **fields)


def _to_int(evaluation: Evaluation, /, *values: Any, **options: Any) -> int:
    return int(*values, **options)


def _to_float(evaluation: Evaluation, /, *values: Any) -> float:
    return float(*values)


def _to_bool(evaluation: Evaluation, value: Any = False, /) -> bool:
    return bool(value)


def _to_str(evaluation: Evaluation, value: Any = "", /) -> str:
    return text(evaluation, value)


def _to_range(evaluation: Evaluation, /, *values: Any) -> range:
    return range(*values)


def _to_counter(evaluation: Evaluation, values: Any = (), /, **fields: Any) -> Counter[Any]:
    counts: Counter[Any] = Counter(**fields)
    if isinstance(values, dict):
        counts.update(values)
    else:
        counts.update(evaluation.iterate(values))
    evaluation.reserve(64 * len(counts))
    return counts


def _to_defaultdict(evaluation: Evaluation, factory: Any = None, /, *values: Any, **fields: Any) -> Any:
    if factory is not None and not isinstance(factory, type):
        factory = evaluation.callable(factory)
    return defaultdict(factory, *values, **fields)


def _to_deque(evaluation: Evaluation, values: Any = (), maxlen: Any = None) -> deque[Any]:
    return deque(evaluation.collect(values), maxlen)


def _to_ordered(evaluation: Evaluation, /, *values: Any, **fields: Any) -> OrderedDict[Any, Any]:
    return OrderedDict(_to_dict(evaluation, *values, **fields))


TYPES: Final[dict[type[Any], Callable[..., Any]]] = {
    bool: _to_bool,
    dict: _to_dict,
    enumerate: _enumerate,
    filter: _filter,
    float: _to_float,
    frozenset: lambda evaluation, values=(): evaluation.new_frozenset(to_set(evaluation, values)),
    int: _to_int,
    list: _to_list,
    map: _map,
    range: _to_range,
    reversed: _reversed,
    set: to_set,
    str: _to_str,
    tuple: _to_tuple,
    zip: _zip,
    Counter: _to_counter,
    OrderedDict: _to_ordered,
    defaultdict: _to_defaultdict,
    deque: _to_deque,
    datetime.date: lambda evaluation, *args, **kwargs: datetime.date(*args, **kwargs),
    datetime.datetime: lambda evaluation, *args, **kwargs: datetime.datetime(*args, **kwargs),
    datetime.time: lambda evaluation, *args, **kwargs: datetime.time(*args, **kwargs),
    datetime.timedelta: lambda evaluation, *args, **kwargs: datetime.timedelta(*args, **kwargs),
    datetime.timezone: lambda evaluation, *args, **kwargs: datetime.timezone(*args, **kwargs),
}
"""The types that a program may call, with what a call does."""
CALLABLE_TYPES.update(TYPES)

TYPE_NAMES: Final[dict[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (bool, dict, float, frozenset, int, list, range, set, str, tuple, type(None), object)
}
"""The types that a program knows by name without an import."""


def bounded(evaluation: Evaluation, iterator: Iterator[Any]) -> Iterator[Any]:
    """Return an iterator of the standard library whose elements spend steps and room."""
    for value in iterator:
        evaluation.step(1 + (len(value) if type(value) is tuple else 0))
        yield value


def check_count(name: str, count: Any, limit: int = 10_000) -> None:
    """Raise Refused if a numeric function would make a number with too many digits."""
    if isinstance(count, int) and count > limit:
        raise Refused(f"{name} of {count} has too many digits; integers beyond 64 bits cannot be kept")
