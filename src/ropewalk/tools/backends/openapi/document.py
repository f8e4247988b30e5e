"""Reads the text of an OpenAPI document: JSON or YAML, from a file, an answer or an object.

It is somebody else's document, so its limits are wide: 64 MB, repeated keys as other readers take them. A number that
does not fit into 64 bits becomes the nearest float.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Final

import orjson

from ....errors import ConfigError, InvalidFlow, NotFound, Problem
from ....source.locations import Limits
from ....values import Json

MAX_BYTES: Final = 64_000_000
_LARGEST: Final = 2**63 - 1
_INFINITY: Final = float("inf")


def read_document(source: Json | Path, place: str) -> dict[str, Json]:
    """Return a document from an object, a JSON or YAML file, or its text."""

    # Raises ConfigError if it is not readable.
    if isinstance(source, (str, Path)):
        if isinstance(source, Path) or not _is_text(source):
            return _require_object(read_file(Path(source), str(source), place), place)
        return _require_object(_load(source, place), place)
    try:
        orjson.dumps(source)
    except TypeError:  # it has a number that no value may have, and it belongs to the caller
        source = _fitting(copy.deepcopy(source))
    return _require_object(source, place)


def read_file(path: Path, name: str, place: str = "") -> Any:
    """Read one JSON or YAML file."""

    # Raises ConfigError with the place of the error.
    try:
        if path.is_file() and path.stat().st_size <= MAX_BYTES:
            return _fitting(orjson.loads(path.read_bytes()))
    except (OSError, orjson.JSONDecodeError):
        pass  # YAML, or invalid JSON, which is read again for the place of the error
    return _load(path, place or name, name)


def parse_fetched(body: bytes, address: str, place: str) -> dict[str, Json]:
    """Parse a fetched JSON or YAML document."""

    # Raises ConfigError with the place of the error.
    from ....source.load import decoded

    try:
        return _require_object(_fitting(orjson.loads(body)), place)
    except orjson.JSONDecodeError:
        pass
    try:
        text = decoded(body, address)
    except InvalidFlow as error:
        raise _reading_error(error, place) from error
    form = "json" if text.lstrip("\ufeff \t\r\n").startswith("{") else "yaml"
    return _require_object(_load(text, place, address, form), place)


def _load(source: str | Path, place: str, name: str | None = None, form: str | None = None) -> Any:
    from ....source.load import load

    limits = Limits(size=MAX_BYTES, nesting=200, aliases=100_000, repeats=True, any_number=True)
    try:
        return _fitting(load(source, name=name, form=form, limits=limits).data)
    except (InvalidFlow, NotFound) as error:
        raise _reading_error(error, place) from error


def _is_text(source: str) -> bool:
    return "\n" in source or ": " in source or source.lstrip()[:1] == "{"


def _fitting(value: Any) -> Any:
    """Replace the numbers that no value may have, in place: integers past 64 bits and infinities."""
    stack = [value]
    while stack:
        node = stack.pop()
        for key, item in node.items() if isinstance(node, dict) else enumerate(node if isinstance(node, list) else ()):
            kind = type(item)
            if kind is dict or kind is list:
                stack.append(item)
            elif kind is int and not -_LARGEST - 1 <= item <= _LARGEST:
                node[key] = _nearest_float(item)
            elif kind is float and not -_INFINITY < item < _INFINITY:
                node[key] = None
    return value


def _nearest_float(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return 1.7976931348623157e308 if number > 0 else -1.7976931348623157e308


def _reading_error(error: InvalidFlow | NotFound, place: str) -> ConfigError:
    if isinstance(error, NotFound):
        return ConfigError(f"{place}: {error}")
    return ConfigError(
        [Problem(path="", message=f"{place}: {problem}", place=problem.place) for problem in error.problems]
    )


def _require_object(document: Json, place: str) -> dict[str, Json]:
    if not isinstance(document, dict):
        raise ConfigError(f"{place}: the document is {type(document).__name__}, not an object")
    return document
