"""State: named channels, and the reducers that fold updates into them.

There is no mutable store. A run has writes in a fixed order, and `fold` makes values of them; the
same writes give the same values whatever finished first. Null is "nothing to say": only
`last_wins` takes it over, every other reducer leaves the channel as it is.

Refused here: a channel nobody declared, an update of the wrong type, a second `set_once`.

To add a reducer, write one function from (current value, updates in order) to the new value and
put `@reducer` above it. It must change neither the current value nor an update.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from .errors import InvalidValue
from .expr.identity import identity
from .frozen import dataclass
from .ir import Channel, Writes
from .values import Json, canonical, closest

Fold: TypeAlias = Callable[[str, Channel, Json, list[Json]], Json]


@dataclass(frozen=True, slots=True)
class Reducer:
    """One way to fold updates: `fold(name, channel, current, updates)` gives the new value.

    `takes` is the JSON type every update must have, None where any will do. A `total` reducer
    refuses nothing else, so that updates can be judged without the current value.
    """

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
    """The values after `writes`, in their order; `base` and every value in it stay as they are.

    Linear in the writes and in the channels they touch: hand over all writes at once, since
    appending to one array in n separate folds copies it n times. Untouched values are shared.
    InvalidValue, placed at `state.<channel>`, for a channel or an update that does not fit.
    """
    touched: dict[str, list[Json]] = {}
    for name, update in writes:
        if name in touched:
            touched[name].append(update)
        else:
            touched[name] = [update]
    done = dict(base)
    for name, updates in touched.items():
        channel = channels.get(name)
        if channel is None:
            raise undeclared(name, channels)
        chosen = REDUCERS.get(channel.reduce)
        if chosen is None:
            raise InvalidValue(f"state.{name}", f"unknown reducer {channel.reduce!r}; there are {', '.join(REDUCERS)}")
        done[name] = chosen.fold(name, channel, done.get(name), updates)
    return done


def fold_into(channels: Mapping[str, Channel], values: dict[str, Json], writes: Writes) -> None:
    """Fold updates into `values` itself; the plain case (last wins) is a store."""
    for name, _ in writes:
        channel = channels.get(name)
        if channel is None or channel.reduce != "last_wins":
            values.update(fold(channels, values, writes))  # all of them or, when one is refused, none
            return
    values.update(writes)


def check_fold(
    channels: Mapping[str, Channel], seen: Mapping[str, Json], base: Mapping[str, Json], writes: Writes
) -> None:
    """Raise what `fold` would raise, without folding where the types decide it. The values are those
    of `seen`, and of `base` for the channels it does not have."""
    hard: list[tuple[str, Json]] = []
    for write in writes:
        name, update = write
        channel = channels.get(name)
        chosen = None if channel is None else REDUCERS.get(channel.reduce)
        if channel is None or chosen is None or not chosen.total:
            hard.append(write)
        elif chosen.takes is not None and update is not None:
            if not has_type(update, chosen.takes):
                raise _wrong(name, channel, update, chosen.takes)
            _current(name, channel, seen[name] if name in seen else base.get(name), None)
    if hard:
        values = {name: of[name] for name, _ in hard for of in (base, seen) if name in of}
        fold(channels, values, hard)


def start(channels: Mapping[str, Channel], given: Mapping[str, Json] | None = None) -> dict[str, Json]:
    """The values a run begins with: what was declared, and over it what was `given`."""
    values = {name: channel.initial for name, channel in channels.items() if channel.present}
    for name, value in (given or {}).items():
        if name not in channels:
            raise undeclared(name, channels)
        values[name] = value
    return values


def check_writes(channels: Mapping[str, Channel], writes: Iterable[tuple[str, Json]], node: str = "") -> None:
    """Raise InvalidValue unless every channel is declared and every update has a type it takes: what its
    reducer asks for, and the `type` in its schema. Null always fits. `node` is who writes."""
    for name, update in writes:
        channel = channels.get(name)
        if channel is None:
            raise undeclared(name, channels, node)
        if update is None:
            continue
        takes = _takes(channel)
        if takes is not None and not has_type(update, takes):
            raise _wrong(name, channel, update, takes)
        names = _declared_types(channel)
        if names and not any(has_type(update, n) for n in names):
            said = " or ".join(names)
            raise InvalidValue(f"state.{name}", f"got {json_type(update)}; declared as type {said} in state.schema")


def write_check(
    channels: Mapping[str, Channel], names: Iterable[str] | None, node: str = ""
) -> Callable[[Iterable[tuple[str, Json]]], None] | None:
    """`check_writes` for who writes only to `names` (None: to any), None where nothing can be wrong."""
    if names is not None:
        written = [channels.get(name) for name in names]
        if all(c is not None and _takes(c) is None and not _declared_types(c) for c in written):
            return None
    return lambda writes: check_writes(channels, writes, node)


def fitting_types(channel: Channel) -> frozenset[type] | None:
    """The Python types whose values are sure to fit the type that a channel declares; None: all are."""
    names = _declared_types(channel)
    return frozenset((type(None), *(kind for name in names for kind in _PLAIN_TYPES.get(name, ())))) if names else None


def _takes(channel: Channel) -> str | None:
    chosen = REDUCERS.get(channel.reduce)
    return None if chosen is None else chosen.takes


def _declared_types(channel: Channel) -> list[Any]:
    allowed = channel.schema.get("type") if type(channel.schema) is dict else None
    return [allowed] if isinstance(allowed, str) else allowed or []


def undeclared(name: str, channels: Mapping[str, Channel], node: str = "") -> InvalidValue:
    """The error for a write, of `node`, to a channel that does not exist, with what was probably meant."""
    near = closest(name, channels)
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
    """The JSON Schema name of a value's type (`integer` for a float without a fraction too)."""
    if value is None:
        return "null"
    kind = type(value)
    if kind is bool:
        return "boolean"
    if kind is float:
        return "integer" if value.is_integer() else "number"
    return {int: "integer", str: "string", list: "array", dict: "object"}[kind]


def has_type(value: Json, name: str) -> bool:
    """Whether a value is of the JSON Schema type `name`."""
    found = json_type(value)
    return found == name or (name == "number" and found == "integer")


def _wrong(name: str, channel: Channel, update: Json, takes: str) -> InvalidValue:
    a = "an" if takes[0] in "aeiou" else "a"
    return InvalidValue(f"state.{name}", f"got {json_type(update)}; {channel.reduce} takes {a} {takes}")


def _given(name: str, channel: Channel, updates: list[Json]) -> list[Json]:
    """The updates without nulls, all of the type that the channel's reducer takes."""
    takes = REDUCERS[channel.reduce].takes
    given = [update for update in updates if update is not None]
    if takes is not None:
        for update in given:
            if not has_type(update, takes):
                raise _wrong(name, channel, update, takes)
    return given


def _current(name: str, channel: Channel, current: Json, empty: Json) -> Json:
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
    # A channel that still holds what it was declared with counts as not yet set.
    given = _given(name, channel, updates)
    if not given:
        return current
    if len(given) > 1 or (current is not None and not _same(current, channel.initial)):
        raise InvalidValue(f"state.{name}", "set_once was already set; a second write is refused")
    return given[0]


@reducer("array_append", takes="array", total=True)
def _array_append(name: str, channel: Channel, current: Json, updates: list[Json]) -> Json:
    grown = list(_current(name, channel, current, ()))
    for update in _given(name, channel, updates):
        grown.extend(update)
    return grown


@reducer("union", takes="array", total=True)
def _union(name: str, channel: Channel, current: Json, updates: list[Json]) -> Json:
    # A dict keeps the order of first sight.
    seen: dict[str | bytes, Json] = {}
    for items in (_current(name, channel, current, ()), *_given(name, channel, updates)):
        for item in items:
            seen.setdefault(identity(item, None), item)
    return list(seen.values())


@reducer("object_merge", takes="object", total=True)
def _object_merge(name: str, channel: Channel, current: Json, updates: list[Json]) -> Json:
    merged = dict(_current(name, channel, current, {}))
    for update in _given(name, channel, updates):
        merged.update(update)
    return merged


@reducer("sum", takes="number")
def _sum(name: str, channel: Channel, current: Json, updates: list[Json]) -> Json:
    given = _given(name, channel, updates)
    if not given:
        return current
    total = _current(name, channel, current, 0)
    for update in given:
        total = total + update
    if type(total) is int and not _INT_MIN <= total <= _INT_MAX:
        raise InvalidValue(f"state.{name}", "sum is past 64 bits")
    if type(total) is float and not math.isfinite(total):
        raise InvalidValue(f"state.{name}", "sum is past what a float holds")
    return total


def _extreme(pick: Callable[[list[Json]], Json]) -> Fold:
    def chosen(name: str, channel: Channel, current: Json, updates: list[Json]) -> Json:
        given = _given(name, channel, updates)
        first = _current(name, channel, current, None)
        return pick([*([] if first is None else [first]), *given]) if given else current

    return chosen


reducer("max", takes="number", total=True)(_extreme(max))
reducer("min", takes="number", total=True)(_extreme(min))


def _same(a: Json, b: Json) -> bool:
    return a is b or canonical(a) == canonical(b)
