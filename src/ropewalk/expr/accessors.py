"""Build closures that follow a path into a value, the most common thing an expression does.

Values are plain JSON (`type` is exact), so a string key fails on all but an object, and a
position is looked up only where `type(value) is list`.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final, TypeAlias

from ..values import Json, fresh
from .ast import Path
from .operators import MISSING

Getter: TypeAlias = Callable[[Any], Json]

ABSENT: Final = (KeyError, TypeError, IndexError)
"""The exceptions of subscripting plain JSON with a key that does not exist."""


def path_getter(base: Getter, path: Path, absent: Json, *, elide: bool = False) -> Getter:
    """Return a closure that gets the value at a path."""
    if elide and path[:1] == ("output",):
        return _eliding_getter(base, path, absent)
    # The common shapes have closures of their own, because this runs for every reference.
    if not path:
        # Slots of a frame always hold a value; only other bases can be missing.
        return base if absent is MISSING or type(base) is itemgetter else _base_getter(base, absent)
    if len(path) == 1:
        return _key_getter(base, path[0], absent) if type(path[0]) is str else _position_getter(base, path[0], absent)
    if all(type(step) is str for step in path):
        return _two_keys_getter(base, path, absent) if len(path) == 2 else _keys_getter(base, path, absent)
    return _steps_getter(base, path, absent)


def descend(value: Json, path: Path) -> Json:
    """Return the value at a path, or MISSING."""
    try:
        for step in path:
            if type(step) is str or type(value) is list:
                value = value[step]
            else:
                return MISSING
    except ABSENT:
        return MISSING
    return value


def _base_getter(base: Getter, absent: Json) -> Getter:
    def get(frame: Any) -> Json:
        value = base(frame)
        return absent if value is MISSING else value

    return get


def _key_getter(base: Getter, key: Any, absent: Json) -> Getter:
    def get(frame: Any) -> Json:
        value = base(frame)
        try:
            return value[key]
        except ABSENT:
            return absent

    return get


def _position_getter(base: Getter, index: Any, absent: Json) -> Getter:
    def get(frame: Any) -> Json:
        value = base(frame)
        if type(value) is list:
            try:
                return value[index]
            except IndexError:
                return absent
        return absent

    return get


def _two_keys_getter(base: Getter, path: Path, absent: Json) -> Getter:
    first, second = path
    if type(first) is not str:
        return _steps_getter(base, path, absent)

    def get(frame: Any) -> Json:
        value = base(frame)
        try:
            return value[first][second]
        except ABSENT:
            return absent

    return get


def _keys_getter(base: Getter, path: Path, absent: Json) -> Getter:
    def get(frame: Any) -> Json:
        value = base(frame)
        try:
            for key in path:
                value = value[key]
        except ABSENT:
            return absent
        return value

    return get


def _steps_getter(base: Getter, path: Path, absent: Json) -> Getter:
    def get(frame: Any) -> Json:
        value = descend(base(frame), path)
        return absent if value is MISSING else value

    return get


def _eliding_getter(base: Getter, path: Path, absent: Json) -> Getter:
    short = path[1:]

    def get(frame: Any) -> Json:
        value = base(frame)
        value = descend(value, path if type(value) is dict and "output" in value else short)
        return absent if value is MISSING else value

    return get


def constant_getter(value: Json) -> Getter:
    """Return a closure that gives a constant."""

    # Containers are copied, so that callers may change them.
    if type(value) is not dict and type(value) is not list:
        return lambda frame: value
    inside = value.values() if type(value) is dict else value
    if any(type(item) is dict or type(item) is list for item in inside):
        return lambda frame: fresh(value)
    return lambda frame: value.copy()
