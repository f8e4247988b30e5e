"""Rows from the text of a file or an answer: CSV, JSON, JSON lines. What is wrong is told with its line.

CSV values stay strings; the first row names the columns. To add a format, add its reader to `FORMATS`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Final

import orjson

from ..errors import InvalidValue
from ..values import Json, check_json, closest, parsed

_SUFFIXES: Final = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_TYPES: Final = {
    "text/csv": "csv", "application/json": "json", "application/jsonl": "jsonl", "application/x-ndjson": "jsonl",
    "application/x-jsonlines": "jsonl",
}  # fmt: skip


class DatasetFailed(Exception):
    """A dataset cannot be read; the text begins with what was read."""

    def __init__(self, text: str, *, retryable: bool = False) -> None:
        self.retryable = retryable
        super().__init__(text)


def format_of(name: str, given: Json = None, kind: str = "") -> str | None:
    """The format: the one given, else that of a content type, else that of a file's name; None when none tells."""
    if given is not None:
        if given not in FORMATS:
            near = closest(str(given), FORMATS)
            hint = f"; did you mean {near}?" if near else ""
            raise DatasetFailed(f"{name}: unknown format {given!r}; there are: {', '.join(FORMATS)}{hint}")
        return str(given)
    kind = kind.partition(";")[0].strip().lower()
    return _TYPES.get(kind) or ("json" if kind.endswith("+json") else None) or _SUFFIXES.get(PurePosixPath(name).suffix)


def rows_of(data: bytes, format: str, shown: str) -> Json:
    """The value that `data` holds: a list of rows (of JSON, whatever it is); DatasetFailed says where it is wrong."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DatasetFailed(f"{shown}:{line}: this is not UTF-8 ({error.reason})") from error
    value = FORMATS[format](text, shown)
    try:
        return check_json(value, shown)
    except InvalidValue as error:
        raise DatasetFailed(str(error)) from error


def _csv(text: str, shown: str) -> Json:
    # newline="" keeps line breaks inside quotes as they are.
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    names: list[str] | None = None
    rows: list[Json] = []
    line = 1
    try:
        for fields in reader:
            if not fields:
                pass  # an empty line
            elif names is None:
                names = _header(fields, f"{shown}:{line}")
            elif len(fields) != len(names):
                said = f"this row has {_fields(len(fields))}, the header has {len(names)}"
                raise DatasetFailed(f"{shown}:{line}: {said}")
            else:
                rows.append(dict(zip(names, fields, strict=True)))
            line = reader.line_num + 1
    except csv.Error as error:
        raise DatasetFailed(f"{shown}:{line}: {error}") from error  # where its row begins
    if names is None:
        raise DatasetFailed(f"{shown}: no header row; the first row of a CSV file names its columns")
    return rows


def _header(names: list[str], place: str) -> list[str]:
    for i, name in enumerate(names):
        if not name.strip():
            raise DatasetFailed(f"{place}: column {i + 1} has no name")
        if name in names[:i]:
            raise DatasetFailed(f"{place}: two columns are named {name!r}")
    return names


def _fields(count: int) -> str:
    return f"{count} field" if count == 1 else f"{count} fields"


def _json(text: str, shown: str) -> Json:
    try:
        return parsed(text)
    except InvalidValue as error:
        raise DatasetFailed(f"{shown}: {error}") from error
    except orjson.JSONDecodeError as error:
        raise DatasetFailed(f"{shown}:{error.lineno}:{error.colno}: {error.msg}") from error


def _json_lines(text: str, shown: str) -> Json:
    rows: list[Json] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                rows.append(parsed(line))
            except InvalidValue as error:
                raise DatasetFailed(f"{shown}:{number}: {error}") from error
            except orjson.JSONDecodeError as error:
                raise DatasetFailed(f"{shown}:{number}:{error.colno}: {error.msg}") from error
    return rows


FORMATS: Final[dict[str, Callable[[str, str], Json]]] = {"csv": _csv, "json": _json, "jsonl": _json_lines}
