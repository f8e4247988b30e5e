"""Answers of tools as JSON values: conversion by type, and a warning for everything that is not kept exactly.

A call that was made must not fail because of the form of its answer. `to_value` converts what a tool has returned by
the table in `docs/tools-reference.md`. `values.copy_json` comes first, and refuses only what needs this.
To convert another type, add a line to `_SCALARS` or a branch to `_Conversion`.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import ipaddress
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import PurePath
from typing import Any, Final

import orjson

from ..content import content
from ..values import BIG_INTEGER, MAX_DEPTH, Json, StandIn, check_json, is_64_bit, kept_text

_PLACE: Final = 60  # characters of the place of a deep value
MOST_WARNINGS: Final = 20
"""Warnings that are kept about one answer."""


def to_value(answer: Any, place: str = "result") -> tuple[Json, tuple[str, ...]]:
    """Convert an answer to a JSON value, and return it with the warnings about what is not kept exactly."""

    # Raises InvalidValue for an object without a JSON form, and for a value that is nested too deep.
    conversion = _Conversion()
    try:
        converted = conversion.value(answer, place, MAX_DEPTH)
    except Exception:  # noqa: BLE001 - code of the tool's own classes; the check reports the answer as it is
        converted = answer
    return check_json(converted, place), conversion.said()


def to_json(value: Any) -> Any:
    """Convert a Python object to JSON by its type; an object without a JSON form stays as it is."""
    try:
        return _Conversion(exact=True).value(value, "", MAX_DEPTH)
    except Exception:  # noqa: BLE001 - nested too deep, or code of the object's own class; the check says where
        return value


_ADDRESSES: Final = (
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    ipaddress.IPv4Network,
    ipaddress.IPv6Network,
    ipaddress.IPv4Interface,
    ipaddress.IPv6Interface,
)
_SCALARS: Final[tuple[tuple[Any, Callable[[Any], Any]], ...]] = (
    ((datetime.datetime, datetime.date, datetime.time), lambda value: value.isoformat()),
    (datetime.timedelta, lambda value: value.total_seconds()),
    ((uuid.UUID, Decimal, PurePath, *_ADDRESSES), str),
    ((bytes, bytearray, memoryview), lambda value: content(bytes(value), "application/octet-stream")),
)
"""Types of values, with their conversion."""
_LISTS: Final = (list, tuple, deque)
_SETS: Final = (set, frozenset)


class _Conversion:
    """One conversion, and its warnings by place; one that is `exact` leaves every text and number as it is."""

    def __init__(self, exact: bool = False) -> None:
        self._exact = exact
        self._warnings: dict[str, None] = {}
        self._count = 0
        self._outer: set[int] = set()  # the ids of the containers around the current value

    def said(self) -> tuple[str, ...]:
        """Return the warnings, each once."""
        more = self._count - len(self._warnings)
        return (*self._warnings, f"{more:,} more values were changed") if more > 0 else tuple(self._warnings)

    def value(self, value: Any, place: str, depth: int) -> Any:
        """Convert a value; return an object without a JSON form as it is, for the check to report."""
        kind = type(value)
        if value is None or kind is bool:
            return value
        if isinstance(value, enum.Enum):
            return self.value(value.value, place, depth)
        if isinstance(value, (str, int, float)):
            return value if self._exact and kind in (str, int, float) else self._plain(value, place)
        for types, convert in _SCALARS:
            if isinstance(value, types):
                return convert(value)
        if id(value) in self._outer:
            raise RecursionError  # the check of the answer itself says where
        if depth == 0 and isinstance(value, (dict, list)):
            if self._exact:
                raise RecursionError  # text without a warning would be another value
            text = orjson.dumps(value).decode()
            return self._changed(place[:_PLACE], f"what is nested deeper than {MAX_DEPTH} is kept as JSON text", text)
        self._outer.add(id(value))
        try:
            return self._container(value, place, depth)
        finally:
            self._outer.discard(id(value))

    def _container(self, value: Any, place: str, depth: int) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            members = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
            return self._object(members, place, depth)
        if isinstance(value, Mapping):
            return self._object(value, place, depth)
        if isinstance(value, _LISTS):
            return [self.value(item, f"{place}[{index}]", depth - 1) for index, item in enumerate(value)]
        if isinstance(value, _SETS):
            # Sorted, because the order of a set differs between processes.
            items = sorted(value, key=lambda item: (type(item).__name__, str(item)))
            return [self.value(item, f"{place}[{index}]", depth - 1) for index, item in enumerate(items)]
        # A pydantic model, or a number or an array of NumPy.
        kind = type(value)
        if dump := getattr(kind, "model_dump", None):
            return self.value(dump(value, mode="json"), place, depth)
        if to_list := getattr(kind, "tolist", None):
            return self.value(to_list(value), place, depth)
        return value

    def _object(self, value: Mapping[Any, Any], place: str, depth: int) -> Any:
        members = {}
        for key, item in value.items():
            name = self._key(key, place, depth)
            members[name] = self.value(item, f"{place}.{name}", depth - 1)
        return value if len(members) < len(value) else members  # two keys became one, which would lose a value

    def _key(self, key: Any, place: str, depth: int) -> Any:
        name = self.value(key, place, depth)
        if type(name) is bool or name is None:
            return {True: "true", False: "false", None: "null"}[name]
        return str(name) if isinstance(name, (int, float)) else name

    def _plain(self, value: Any, place: str) -> Any:
        if isinstance(value, str):
            return self._text(value, place)
        if isinstance(value, float):
            plain = float(value)
            return plain if plain - plain == 0 else self._changed(place, f"{plain} is not JSON and became null", None)
        number = int(value)
        if is_64_bit(number):
            return number
        # Decimal has no limit on digits, as str has.
        text = str(number) if number.bit_length() < 10_000 else str(Decimal(number))
        return self._changed(place, f"{BIG_INTEGER} is kept as text", text)

    def _text(self, value: str, place: str) -> str:
        if type(value) is StandIn:
            return str(self._changed(place, f"{value.why} is kept as text", str.__str__(value)))
        plain = str.__str__(value) if type(value) is not str else value
        kept = kept_text(plain)
        if kept is not plain:
            self._changed(place, "a NUL character or a lone surrogate became U+FFFD", kept)
        return kept

    def _changed(self, place: str, what: str, instead: Any) -> Any:
        self._count += 1
        if len(self._warnings) < MOST_WARNINGS:
            self._warnings[f"{place}: {what}"] = None
        return instead
