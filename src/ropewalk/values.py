"""JSON values: what may flow through a graph, how it is written down, how it is named.

Values are null, bool, int (64 bits), float (finite), string (no lone surrogate, no NUL),
list, and object with string keys. Anything else is refused at the boundary with the place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import orjson

from .errors import InvalidValue

Json: TypeAlias = Any
"""None | bool | int | float | str | list[Json] | dict[str, Json]; the boundary checks it."""

MAX_DEPTH: Final = 200
MAX_BYTES: Final = 100_000_000
_MOST_COMPLAINTS: Final = 50
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_INFINITY = float("inf")
_SHOWN: Final = 60  # characters of a place that is too deep
_LONGEST_NAME: Final = 120  # characters of a name that is compared with others
_MOST_NAMES: Final = 500  # that one misspelt name is compared with


_DIGITS: Final = bytes(48 if 48 <= code <= 57 else 32 for code in range(256))
_MANY_DIGITS: Final = b"0" * 20


def parsed(text: str | bytes) -> Any:
    """The value of JSON text that somebody sends us, still to be checked; a JSONDecodeError where it is none.

    The reader makes a float of an integer past 64 bits, which nobody would notice: where there are as many digits in
    a row, a second one reads it again that leaves the integer to the check. Of a key that stands twice the last
    holds, as JSON parsers have it; what people write is read by `source`, which refuses it.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if "limit" in error.msg:
            raise InvalidValue("", f"nested deeper than {MAX_DEPTH}") from error
        raise
    data = text.encode() if isinstance(text, str) else text
    if _MANY_DIGITS not in data.translate(_DIGITS):
        return value
    import json

    try:
        return json.loads(data, parse_int=integer)
    except RecursionError:
        return value  # it is too deep, too, which is what the check then says


def integer(digits: str) -> int:
    """The number that digits with a sign write; one past 64 bits where there are more than can be within, so that
    Python is spared a conversion whose time grows with the square of the length."""
    return int(digits) if len(digits) <= 20 else _INT_MAX + 1


def check_json(value: Any, place: str = "value") -> Any:
    """A copy of `value` when it is JSON within the limits; raises InvalidValue otherwise.

    Tuples, subclasses of the JSON types, NaN, infinities, integers past 64 bits, NUL, lone
    surrogates and other keys than strings are refused: a value is the same in every store.
    """
    try:
        taken = own(value)
    except RecursionError:
        taken = NOT_JSON
    if taken is NOT_JSON:
        raise complaints(value, place)[0]
    return taken


_good_keys: set[str] = set()
"""Object keys found to be good, bounded: keys repeat, and a look here is a third of the check."""


class _NotJson:
    """The type of NOT_JSON."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NOT_JSON"


NOT_JSON: Final = _NotJson()
"""What `own` gives for a value that is not JSON."""


def own(value: Any, depth: int = MAX_DEPTH) -> Any:
    """`value` in lists and objects of our own when it is JSON within the limits, else NOT_JSON.

    Checked and copied in one walk: what a tool does to its result afterwards must not reach us.
    Every result of every tool comes through here, so it is ordered by what is common and leaves
    are looked at inline: a call per leaf would be half the cost of the walk.
    """
    kind = type(value)
    if kind is dict:
        if not depth:
            return NOT_JSON
        taken = value.copy()
        for key, item in value.items():
            if type(key) is not str or (key not in _good_keys and not _is_key(key)):
                return NOT_JSON
            kind = type(item)
            if kind is int:
                if not _INT_MIN <= item <= _INT_MAX:
                    return NOT_JSON
            elif kind is str:
                if (not item.isascii() or "\0" in item) and not _is_text(item):
                    return NOT_JSON
            elif item is not None and kind is not bool:
                item = own(item, depth - 1)
                if item is NOT_JSON:
                    return NOT_JSON
                taken[key] = item
        return taken
    if kind is list:
        if not depth:
            return NOT_JSON
        taken = value.copy()
        for index, item in enumerate(value):
            kind = type(item)
            if kind is int:
                if not _INT_MIN <= item <= _INT_MAX:
                    return NOT_JSON
            elif kind is str:
                if (not item.isascii() or "\0" in item) and not _is_text(item):
                    return NOT_JSON
            elif item is not None and kind is not bool:
                item = own(item, depth - 1)
                if item is NOT_JSON:
                    return NOT_JSON
                taken[index] = item
        return taken
    if kind is str:
        return value if _is_text(value) else NOT_JSON
    if kind is int:
        return value if _INT_MIN <= value <= _INT_MAX else NOT_JSON
    if kind is float:
        return value if -_INFINITY < value < _INFINITY else NOT_JSON  # neither holds for NaN
    return value if value is None or kind is bool else NOT_JSON


def fresh(value: Json) -> Json:
    """A copy of a JSON value that shares no list and no object with it."""
    kind = type(value)
    if kind is dict:
        return {k: fresh(v) if type(v) is dict or type(v) is list else v for k, v in value.items()}
    if kind is list:
        return [fresh(v) if type(v) is dict or type(v) is list else v for v in value]
    return value


def is_json(value: Any) -> bool:
    """Whether `value` is JSON within the limits: `check_json` without the complaint."""
    try:
        return own(value) is not NOT_JSON
    except RecursionError:
        return False


def _is_key(key: str) -> bool:
    if not _is_text(key):
        return False
    if len(_good_keys) >= 4096:
        _good_keys.clear()
    if len(key) <= 64:
        _good_keys.add(key)
    return True


def _is_text(text: str) -> bool:
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def complaints(value: Any, place: str = "value") -> list[InvalidValue]:
    """Why `value` is not JSON within the limits, in its order, at most 50 times: [] where it is. An explicit stack,
    so depth cannot hurt."""
    found: list[InvalidValue] = []
    stack: list[tuple[Any, str, int, Any]] = [(value, place, MAX_DEPTH, None)]
    while stack and len(found) < _MOST_COMPLAINTS:
        item, where, depth, above = stack.pop()
        kind = type(item)
        if item is None or kind is bool:
            continue
        if kind is str:
            if not _is_text(item):
                what = "NUL character" if "\0" in item else "lone surrogate"
                found.append(InvalidValue(where, f"string with a {what}"))
        elif kind is int:
            if not _INT_MIN <= item <= _INT_MAX:
                found.append(InvalidValue(where, "integer past 64 bits; send it as a string"))
        elif kind is float:
            if not -_INFINITY < item < _INFINITY:
                reach = "" if item != item else ", whose numbers reach 1.8e308"
                found.append(InvalidValue(where, f"{item} is not JSON{reach}; use null"))
        elif not depth:
            found.append(_too_deep(item, where, above))
            break  # what holds itself would be told again and again
        elif kind is dict:
            above = (item, where, above)
            for key in item:
                if type(key) is not str:
                    found.append(InvalidValue(where, f"object key {key!r} is {_name(key)}, not a string"))
                elif not _is_text(key):
                    found.append(InvalidValue(where, "object key with a NUL character or a lone surrogate"))
            stack += [(item[key], f"{where}.{key}", depth - 1, above) for key in reversed(item)]
        elif kind is list:
            above = (item, where, above)
            stack += [(item[i], f"{where}[{i}]", depth - 1, above) for i in range(len(item) - 1, -1, -1)]
        else:
            found.append(InvalidValue(where, f"{_name(item)} is not JSON{_instead(item)}"))
    return found


def _instead(item: Any) -> str:
    """What would be right instead of some values that are not JSON."""
    kind = type(item)
    if hasattr(kind, "__dataclass_fields__"):
        return "; use dataclasses.asdict, or name its type in the hint of what the tool returns"
    if hasattr(kind, "model_dump"):
        return "; use its model_dump(mode='json'), or name its type in the hint of what the tool returns"
    if hasattr(kind, "isoformat"):
        return "; use its isoformat()"
    return "; use a list" if kind in (tuple, set, frozenset) else ""


def _too_deep(item: Any, where: str, above: Any) -> InvalidValue:
    """What is nested too deep, or holds itself: `above` are the ones it stands in, each with its place."""
    way = [(item, where)]
    while above is not None:
        way.append(above[:2])
        above = above[2]
    first: dict[int, str] = {}
    for one, at in reversed(way):
        if id(one) in first:
            return InvalidValue(at, f"holds what it stands in ({first[id(one)]}); a value of JSON has an end")
        first[id(one)] = at
    return InvalidValue(where if len(where) <= _SHOWN else f"{where[:_SHOWN]}…", f"nested deeper than {MAX_DEPTH}")


def _name(value: Any) -> str:
    return type(value).__qualname__


def canonical(value: Json) -> bytes:
    """Canonical JSON of a checked value: sorted keys, no white space, UTF-8."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as exc:
        # A value checked part by part can still be too deep as a whole, past what can be written.
        raise InvalidValue("value", f"cannot be written as JSON: {exc}") from exc


def digest(value: Json) -> str:
    """A short, stable name of a JSON value: 128 bits of BLAKE2b over its canonical form, in hex."""
    return hashlib.blake2b(canonical(value), digest_size=16).hexdigest()


def closest(word: object, known: Iterable[str]) -> str | None:
    """The known name nearest to a misspelt one, for "did you mean"; None when nothing is near, or it is no name.

    Of very many names only some are compared, those that begin or end alike first, and names of hundreds of
    characters never: the comparison takes time with the product of two lengths.
    """
    if not isinstance(word, str) or not word or len(word) > _LONGEST_NAME:
        return None
    import difflib  # only for a message

    names = [name for name in known if name and len(name) <= _LONGEST_NAME]
    if len(names) > _MOST_NAMES:
        first, last = word[0], word[-1]
        names.sort(key=lambda name: (name[0] != first) + (name[-1] != last) + abs(len(name) - len(word)))
        del names[_MOST_NAMES:]
    found = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return found[0] if found else None
