"""Values on a command line (`--input JSON|@FILE`, `--var name=value`, prompts) and files that commands write.

Every value that cannot be read is a UsageError with its place. To add a kind of value, write a
`read_...` function here.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from ...errors import InvalidFlow, UnsupportedSchema
from ...schema import compile_schema
from ...source.load import decoded, load, replace_file
from ...source.locations import SYNTAX, Limits
from ...values import MAX_BYTES, MAX_DEPTH, Json, did_you_mean
from .dispatch import UsageError

_LIMITS: Final = Limits(size=MAX_BYTES, nesting=MAX_DEPTH)
"""The limits of values, which are higher than those of definitions."""
_NON_JSON_NUMBERS: Final = ("NaN", "Infinity", "-Infinity")  # Python's JSON reader knows them, JSON does not


def option_of(text: str | None) -> str:
    """Return the name that the command line gave the option of an input: `--input`, `--args` or `-i`."""
    name: str = getattr(text, "option", "--input")
    return name


def read_input(text: str | None, option: str | None = None) -> Any:
    """Read the JSON value of an option: JSON, or @FILE, or @- for standard input."""
    if text is None:
        return None
    option = option or option_of(text)
    try:
        if text == "@-":
            return load(decoded(sys.stdin.buffer.read(), "<stdin>"), name="<stdin>", form="yaml", limits=_LIMITS).data
        if text.startswith("@"):
            return load(Path(text[1:]), limits=_LIMITS).data
        return load(text, name=option, form="json", limits=_LIMITS).data
    except InvalidFlow as error:
        if text[:1] == "@":
            raise UsageError(f"cannot read {option} {text}", error.problems) from None
        raise _json_error(text, option, f"{option} ", error) from None


def _json_error(text: str, subject: str, prefix: str, error: InvalidFlow) -> UsageError:
    """Return the error for a value that is not JSON or exceeds the limits; `prefix` precedes it on the command line."""
    kind = "is not JSON" if _is_syntax(error) else "cannot be used"
    hint = "" if text[:1] in '[{"' else f"; text needs quotes: {prefix}'\"...\"'"
    return UsageError(f"{subject} {kind}{hint}", error.problems)


def _is_syntax(error: InvalidFlow) -> bool:
    return all(problem.keyword == SYNTAX for problem in error.problems)


def some_words(_: object, text: str | None) -> None:
    """Reject an empty prompt before a model is paid for it."""
    if text is not None and not text.strip():
        raise ValueError("It is empty: say what to do.")


def read_state(file: Path | None) -> dict[str, Any] | None:
    """Read the JSON or YAML object in a file."""
    if file is None:
        return None
    try:
        state = load(file, limits=_LIMITS).data
    except InvalidFlow as error:
        raise UsageError(f"cannot read --state {file}", error.problems) from None
    if not isinstance(state, dict):
        raise UsageError(f"--state {file}: must hold an object of state fields")
    return state


def split_pairs(pairs: Iterable[str], option: str) -> dict[str, str]:
    """Split `name=value` words."""
    texts: dict[str, str] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if pair.startswith("-") and option == "argument":
            raise UsageError(f"{pair} comes after `--`, where nothing is an option; put it before `--`")
        if not separator or not name:
            raise UsageError(f"{option} {pair!r}: must be name=value")
        if name in texts:
            raise UsageError(f"{option} {pair!r}: {name} is given twice")
        texts[name] = text
    return texts


def read_pairs(pairs: Iterable[str], option: str = "--var") -> dict[str, Any]:
    """Read `name=value` pairs; a value that is not JSON is text."""
    return {name: _read_value(name, text, option) for name, text in split_pairs(pairs, option).items()}


def _read_value(name: str, text: str, option: str) -> Any:
    try:
        return load(text, name=f"{option} {name}", form="json", limits=_LIMITS).data
    except InvalidFlow as error:
        if not _is_syntax(error) and text.strip() not in _NON_JSON_NUMBERS:
            raise _json_error(text, f"{option} {name}", f"{name}=", error) from None
        return text


def with_arguments(values: Any, texts: Mapping[str, str], schema: Json, option: str = "--input") -> Any:
    """Add `name=value` words to an input; a value is text if the JSON Schema of the input wants text there."""

    # `a.b=1` sets `b` in the object `a`, unless the schema has a property `a.b`.
    if not texts:
        return values
    if values is not None and not isinstance(values, dict):
        raise UsageError(f"{option} must be a JSON object: NAME=VALUE adds to it")
    result: dict[str, Any] = copy.deepcopy(values or {})
    for name, text in texts.items():
        inner, key, properties = result, name, _properties_of(schema)
        while "." in key and key not in properties:
            first, _, key = key.partition(".")
            inner, properties = inner.setdefault(first, {}), _properties_of(properties.get(first))
            if not isinstance(inner, dict):
                raise UsageError(f"argument {name}: {first} is not an object")
        if properties and key not in properties and (near := did_you_mean(key, properties)):
            raise UsageError(f"argument {name}: unknown name {key!r}; did you mean {near}?")
        if inside := next((other for other in texts if other.startswith(f"{name}.")), None):
            raise UsageError(f"argument {name}: excludes {inside}; write one of them")
        if not all(name.split(".")) and key not in properties:
            raise UsageError(f"argument {name}: a name is missing at a dot")
        inner[key] = _read_argument(name, text, properties.get(key), schema)
    return result


def _properties_of(schema: Json) -> dict[str, Any]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties if isinstance(properties, dict) else {}


def _read_argument(name: str, text: str, declared: Json, root: Json) -> Any:
    """Return the JSON value of a text, or the text if only that fits the schema of its property."""
    if isinstance(declared, dict) and declared.get("type") == "string":
        return text  # also digits that are no valid number
    value = _read_value(name, text, "argument")
    if not isinstance(declared, dict) or not isinstance(root, dict):
        return value
    try:
        schema = compile_schema({**{key: root[key] for key in ("$defs", "definitions") if key in root}, **declared})
    except UnsupportedSchema:
        return value
    if not isinstance(value, str) and schema.is_valid(value):
        return value
    types = declared.get("type")
    is_text = schema.is_valid(text) or "string" in (types if isinstance(types, list) else [types])
    return text if is_text else value


def saved(file: Path, text: str) -> str:
    """Write a file and return a message with its path."""
    try:
        write_atomically(file, text)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror or error}") from error
    return f"wrote {file}"


def write_atomically(file: Path, text: str) -> None:
    """Replace a file atomically, so that its old content stays if the disk is full."""

    # A link, a pipe, a device, or a file in a read-only directory is written in place: /dev/stdout, for example, is a
    # link to an open file.
    exists, is_regular = file.exists(), file.is_file() and not file.is_symlink()
    if file.is_symlink() or (
        exists and not (is_regular and os.access(file, os.W_OK) and os.access(file.parent, os.W_OK))
    ):
        file.write_text(text, encoding="utf-8")
        return
    replace_file(file, text.encode("utf-8"))
