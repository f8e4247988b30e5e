"""Parse rows of CSV, JSON and JSON lines, and convert call arguments to the types of a Python function.

`parse_rows` names the line in its errors. CSV values stay strings, and the first row names the columns. To add a
format, add its parser to `FORMATS`.

`argument_reader` converts the arguments of a call to the types of a function's hints (`type_schemas.py`). All wrong
arguments are reported at once, each with its place, like violations of a schema.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from posixpath import splitext
from typing import Any, Final

import orjson

from ...errors import InvalidValue, Problem, ValidationFailed, describe_exception, exception_text
from ...problems import join_problems
from ...schema import place_step
from ...values import Json, check_json, did_you_mean, parse_json
from ..type_schemas import Convert

_FORMAT_BY_SUFFIX: Final = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_FORMAT_BY_TYPE: Final = {
    "text/csv": "csv", "application/json": "json", "application/jsonl": "jsonl", "application/x-ndjson": "jsonl",
    "application/x-jsonlines": "jsonl",
}  # fmt: skip


class DatasetFailed(Exception):
    """A dataset cannot be read; the message begins with its file, address or source."""

    def __init__(self, text: str, *, retryable: bool = False) -> None:
        self.retryable = retryable
        super().__init__(text)


def choose_format(name: str, requested: Json = None, content_type: str = "") -> str | None:
    """Return the format of a dataset; None if nothing shows it."""
    if requested is not None:
        if requested not in FORMATS:
            suggestion = did_you_mean(str(requested), FORMATS)
            hint = f"; did you mean {suggestion}?" if suggestion else ""
            raise DatasetFailed(f"{name}: unknown format {requested!r}; use {', '.join(FORMATS)}{hint}")
        return str(requested)
    content_type = content_type.partition(";")[0].strip().lower()
    return (
        _FORMAT_BY_TYPE.get(content_type)
        or ("json" if content_type.endswith("+json") else None)
        or _FORMAT_BY_SUFFIX.get(splitext(name)[1])
    )


def parse_rows(data: bytes, format: str, display: str) -> Json:
    """Parse the content of a file or response: a list of rows, or any value for JSON."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DatasetFailed(f"{display}:{line}: this is not UTF-8 ({error.reason})") from error
    value = FORMATS[format](text, display)
    try:
        return check_json(value, display)
    except InvalidValue as error:
        raise DatasetFailed(str(error)) from error


def _csv(text: str, display: str) -> Json:
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
                names = _header(fields, f"{display}:{line}")
            elif len(fields) != len(names):
                message = f"this row has {_count_fields(len(fields))}, the header has {len(names)}"
                raise DatasetFailed(f"{display}:{line}: {message}")
            else:
                rows.append(dict(zip(names, fields, strict=True)))
            line = reader.line_num + 1
    except csv.Error as error:
        raise DatasetFailed(f"{display}:{line}: {error}") from error  # the line where the row begins
    if names is None:
        raise DatasetFailed(f"{display}: no header row; the first row of a CSV file names its columns")
    return rows


def _header(names: list[str], place: str) -> list[str]:
    for i, name in enumerate(names):
        if not name.strip():
            raise DatasetFailed(f"{place}: column {i + 1} has no name")
        if name in names[:i]:
            raise DatasetFailed(f"{place}: two columns are named {name!r}")
    return names


def _count_fields(count: int) -> str:
    return f"{count} field" if count == 1 else f"{count} fields"


def _json(text: str, display: str) -> Json:
    try:
        return parse_json(text)
    except InvalidValue as error:
        raise DatasetFailed(f"{display}: {error}") from error
    except orjson.JSONDecodeError as error:
        raise DatasetFailed(f"{display}:{error.lineno}:{error.colno}: {error.msg}") from error


def _json_lines(text: str, display: str) -> Json:
    rows: list[Json] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                rows.append(parse_json(line))
            except InvalidValue as error:
                raise DatasetFailed(f"{display}:{number}: {error}") from error
            except orjson.JSONDecodeError as error:
                raise DatasetFailed(f"{display}:{number}:{error.colno}: {error.msg}") from error
    return rows


FORMATS: Final[dict[str, Callable[[str, str], Json]]] = {"csv": _csv, "json": _json, "jsonl": _json_lines}


def argument_reader(
    tool: str, reads: Mapping[str, Convert], read_other: Convert | None, own_names: Collection[str]
) -> Callable[[dict[str, Json]], dict[str, Any]]:
    """Make a function that converts call arguments to the types of a tool's function."""

    def reader_of(name: str) -> Convert | None:
        return reads.get(name) if name in own_names else read_other

    def refusal(args: dict[str, Json]) -> ValidationFailed | None:
        problems: list[Problem] = []
        cause: Exception | None = None
        for name, value in args.items():
            read = reader_of(name)
            try:
                if read is not None:
                    read(value)
            except Exception as error:  # noqa: BLE001 - any exception of a type means that it refuses the value
                cause = cause or error
                problems += _type_problems(f"args{place_step(name)}", value, error)
        if cause is None:
            return None
        failed = ValidationFailed(tool, "validate_input", join_problems(problems), problems=problems)
        failed.__cause__ = cause
        return failed

    def read_arguments(args: dict[str, Json]) -> dict[str, Any]:
        try:
            if read_other is None:
                return {name: reads[name](value) if name in reads else value for name, value in args.items()}
            return {name: value if (read := reader_of(name)) is None else read(value) for name, value in args.items()}
        except Exception as error:
            failed = refusal(args)
            if failed is None:
                raise  # the type refuses a value only sometimes: a failure of its own
            raise failed from error

    return read_arguments


def _type_problems(place: str, value: Json, error: Exception) -> Iterator[Problem]:
    """Yield the problems of one argument, each with the first line of its message."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is None or not isinstance(error, pydantic.ValidationError):
        message = exception_text(error)
        needs_type = isinstance(error, LookupError) or not message
        yield Problem(path=place, message=_first_line(describe_exception(error) if needs_type else message))
        return
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        yield Problem(
            path=place + _place_inside(value, detail["loc"], detail["type"] == "missing"),
            message=_first_line(detail["msg"]),
        )


def _place_inside(value: Any, steps: tuple[str | int, ...], missing: bool) -> str:
    """Return the place within a value, without the steps of pydantic that are not members (alternatives of a union)."""
    place = ""
    for number, step in enumerate(steps, 1):
        is_member = step in value if isinstance(value, dict) else isinstance(value, list) and step in range(len(value))
        if is_member:
            value = value[step]
        elif not (missing and number == len(steps)):
            continue
        place += place_step(step)
    return place


def _first_line(text: str) -> str:
    return (text.splitlines() or [""])[0]
