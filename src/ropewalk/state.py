"""State: named channels, and the reducers that fold updates into them.

No store is changed in place. A run has writes in a fixed order, and `fold` makes values from them: the same writes give
the same values, whatever finished first. Null means no update: only `last_wins` takes it as a value, and every other
reducer ignores it. An undeclared channel, an update of the wrong type and a second `set_once` are refused.

To add a reducer, write a function from the current value and the updates, in order, to the new value, and put
`@reducer` above it. It must change neither the current value nor an update.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from .errors import InvalidValue
from .expr.operators import identity_key
from .fast_dataclass import dataclass
from .ir import Channel, Writes
from .values import Json, canonical, did_you_mean

Fold: TypeAlias = Callable[[str, Channel, Json, list[Json]], Json]


@dataclass(frozen=True, slots=True)
class Reducer:
    """One way to fold updates: `fold(name, channel, current, updates)` returns the new value."""

    # `takes` is the JSON type that every update must have, None for any type. A `total` reducer refuses nothing else,
    # so updates can be checked without the current value.

    name: str
    takes: str | None
    fold: Fold
    total: bool = False


REDUCERS: Final[dict[str, Reducer]] = {}

_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1


def reducer(name: str, takes: str | None = None, total: bool = False) -> Callable[[Fold], Fold]:
    """Register a reducer under the name that `Channel.reduce` uses."""

    def register(fold: Fold) -> Fold:
        REDUCERS[name] = Reducer(name, takes, fold, total)
        return fold

    return register


def fold(
    channels: Mapping[str, Channel], base: Mapping[str, Json], writes: Iterable[tuple[str, Json]]
) -> dict[str, Json]:
    """Fold writes into a copy of the values."""

    # It takes time linear in the writes and the channels that they touch. Pass all writes at once, because appending to
    # an array in n separate folds copies it n times. Unchanged values are shared.
    touched: dict[str, list[Json]] = {}
    for name, update in writes:
        if name in touched:
            touched[name].append(update)
        else:
            touched[name] = [update]
    values = dict(base)
    for name, updates in touched.items():
        channel = channels.get(name)
        if channel is None:
            raise undeclared(name, channels)
        reducer_of_channel = REDUCERS.get(channel.reduce)
        if reducer_of_channel is None:
            raise InvalidValue(
                f"state.{name}", f"unknown reducer {channel.reduce!r}; use one of: {', '.join(REDUCERS)}"
            )
        values[name] = reducer_of_channel.fold(name, channel, values.get(name), updates)
    return values


def fold_into(channels: Mapping[str, Channel], values: dict[str, Json], writes: Writes) -> None:
    """Fold updates into `values` itself."""

    # If one is refused, none is stored.
    for name, _ in writes:
        channel = channels.get(name)
        if channel is None or channel.reduce != "last_wins":
            values.update(fold(channels, values, writes))  # if one is refused, none is stored
            return
    values.update(writes)


def check_fold(
    channels: Mapping[str, Channel], view: Mapping[str, Json], base: Mapping[str, Json], writes: Writes
) -> None:
    """Raise the error that `fold` would raise, without folding if the types decide it."""

    # The current values are those of `view`, and of `base` for channels that `view` does not have.
    undecided: list[tuple[str, Json]] = []
    for write in writes:
        name, update = write
        channel = channels.get(name)
        reducer_of_channel = None if channel is None else REDUCERS.get(channel.reduce)
        if channel is None or reducer_of_channel is None or not reducer_of_channel.total:
            undecided.append(write)
        elif reducer_of_channel.takes is not None and update is not None:
            if not has_type(update, reducer_of_channel.takes):
                raise _type_error(name, channel, update, reducer_of_channel.takes)
            _current(name, channel, view[name] if name in view else base.get(name), None)
    if undecided:
        values = {name: of[name] for name, _ in undecided for of in (base, view) if name in of}
        fold(channels, values, undecided)


def start(channels: Mapping[str, Channel], overrides: Mapping[str, Json] | None = None) -> dict[str, Json]:
    """Return the initial values of a run: the declared ones, replaced by the overrides."""
    values = {name: channel.initial for name, channel in channels.items() if channel.present}
    for name, value in (overrides or {}).items():
        if name not in channels:
            raise undeclared(name, channels)
        values[name] = value
    return values


def check_writes(channels: Mapping[str, Channel], writes: Iterable[tuple[str, Json]], node: str = "") -> None:
    """Check that every channel is declared and every update has a type that fits."""

    # The types are that of the channel's reducer and the `type` in its schema; null always fits.
    for name, update in writes:
        channel = channels.get(name)
        if channel is None:
            raise undeclared(name, channels, node)
        if update is None:
            continue
        takes = _takes(channel)
        if takes is not None and not has_type(update, takes):
            raise _type_error(name, channel, update, takes)
        names = _declared_types(channel)
        if names and not any(has_type(update, n) for n in names):
            declared = " or ".join(names)
            raise InvalidValue(f"state.{name}", f"got {json_type(update)}; declared as type {declared} in state.schema")


def write_check(
    channels: Mapping[str, Channel], names: Iterable[str] | None, node: str = ""
) -> Callable[[Iterable[tuple[str, Json]]], None] | None:
    """Make `check_writes` for one writer."""
    if names is not None:
        channels_written = [channels.get(name) for name in names]
        if all(c is not None and _takes(c) is None and not _declared_types(c) for c in channels_written):
            return None
    return lambda writes: check_writes(channels, writes, node)


def fitting_types(channel: Channel) -> frozenset[type] | None:
    """Return the Python types that are certain to fit the declared type of a channel; None for all types."""
    names = _declared_types(channel)
    return frozenset((type(None), *(kind for name in names for kind in _PLAIN_TYPES.get(name, ())))) if names else None


def _takes(channel: Channel) -> str | None:
    reducer_of_channel = REDUCERS.get(channel.reduce)
    return None if reducer_of_channel is None else reducer_of_channel.takes


def _declared_types(channel: Channel) -> list[Any]:
    allowed = channel.schema.get("type") if type(channel.schema) is dict else None
    return [allowed] if isinstance(allowed, str) else allowed or []


def undeclared(name: str, channels: Mapping[str, Channel], node: str = "") -> InvalidValue:
    """Return the error for a write to a channel that does not exist, with the closest name."""
    near = did_you_mean(name, channels)
    hint = f"; did you mean {near}?" if near else ""
    if node:
        return InvalidValue("", f'Node "{node}" wrote to undeclared state field "{name}"{hint}')
    return InvalidValue(f"state.{name}", f'undeclared state field "{name}"{hint}')


_PLAIN_TYPES: dict[str, tuple[type, ...]] = {
    "null": (),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}


def json_type(value: Json) -> str:
    """Name the JSON Schema type of a value."""
    if value is None:
        return "null"
    kind = type(value)
    if kind is bool:
        return "boolean"
    if kind is float:
        return "integer" if value.is_integer() else "number"
    return {int: "integer", str: "string", list: "array", dict: "object"}[kind]


def has_type(value: Json, name: str) -> bool:
    """Return True if a value has the JSON Schema type `name`."""
    kind = json_type(value)
    return kind == name or (name == "number" and kind == "integer")


def _type_error(name: str, channel: Channel, update: Json, takes: str) -> InvalidValue:
    a = "an" if takes[0] in "aeiou" else "a"
    return InvalidValue(f"state.{name}", f"got {json_type(update)}; {channel.reduce} takes {a} {takes}")


def _checked_updates(name: str, channel: Channel, updates: list[Json]) -> list[Json]:
    """Return the updates without nulls; raise unless all have the type that the channel's reducer takes."""
    takes = REDUCERS[channel.reduce].takes
    checked = [update for update in updates if update is not None]
    if takes is not None:
        for update in checked:
            if not has_type(update, takes):
                raise _type_error(name, channel, update, takes)
    return checked


def _current(name: str, channel: Channel, current: Json, empty: Json) -> Json:
    """Return the current value, or `empty` for none; raise unless it has the type that the reducer takes."""
    takes = REDUCERS[channel.reduce].takes
    if current is None:
        return empty
    if takes is not None and not has_type(current, takes):
        raise InvalidValue(f"state.{name}", f"holds {json_type(current)}; {channel.reduce} takes {takes}")
    return current


@reducer("last_wins", total=True)
def _last_wins(name: str, channel: Channel, current: Json, updates: list[Json]) -> Json:
    return updates[-1]


@reducer("set_once")
def _set_once(name: str, channel: Channel, current: Json, updates: list[Json]) -> Json:
    # A channel that still has its declared value counts as not set.
    values = _checked_updates(name, channel, updates)
    if not values:
        return current
    if len(values) > 1 or (current is not None and not _same(current, channel.initial)):
        raise InvalidValue(f"state.{name}", "set_once was already set; a second write is refused")
    return values[0]


@reducer("array_append", takes="array", total=True)
def _array_append(name: str, channel: Channel, current: Json, updates: list[Json]) -> Json:
    grown = list(_current(name, channel, current, ()))
    for update in _checked_updates(name, channel, updates):
        grown.extend(update)
    return grown


@reducer("union", takes="array", total=True)
def _union(name: str, channel: Channel, current: Json, updates: list[Json]) -> Json:
    # A dict keeps the order of first occurrence.
    items_by_key: dict[str | bytes, Json] = {}
    for items in (_current(name, channel, current, ()), *_checked_updates(name, channel, updates)):
        for item in items:
            items_by_key.setdefault(identity_key(item, None), item)
    return list(items_by_key.values())


@reducer("object_merge", takes="object", total=True)
def _object_merge(name: str, channel: Channel, current: Json, updates: list[Json]) -> Json:
    merged = dict(_current(name, channel, current, {}))
    for update in _checked_updates(name, channel, updates):
        merged.update(update)
    return merged


@reducer("sum", takes="number")
def _sum(name: str, channel: Channel, current: Json, updates: list[Json]) -> Json:
    numbers = _checked_updates(name, channel, updates)
    if not numbers:
        return current
    total = _current(name, channel, current, 0)
    for update in numbers:
        total = total + update
    if type(total) is int and not _INT_MIN <= total <= _INT_MAX:
        raise InvalidValue(f"state.{name}", "the sum exceeds 64 bits")
    if type(total) is float and not math.isfinite(total):
        raise InvalidValue(f"state.{name}", "the sum exceeds the range of a float")
    return total


def _extreme(pick: Callable[[list[Json]], Json]) -> Fold:
    def fold_extreme(name: str, channel: Channel, current: Json, updates: list[Json]) -> Json:
        numbers = _checked_updates(name, channel, updates)
        first = _current(name, channel, current, None)
        return pick([*([] if first is None else [first]), *numbers]) if numbers else current

    return fold_extreme


reducer("max", takes="number", total=True)(_extreme(max))
reducer("min", takes="number", total=True)(_extreme(min))


def _same(a: Json, b: Json) -> bool:
    return a is b or canonical(a) == canonical(b)
