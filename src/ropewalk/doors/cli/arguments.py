"""Values on a command line (`--input JSON|@FILE`, `--var name=value`, prompts) and files that commands write.

Every value that cannot be read is a UsageError with its place. To add a kind of value, write a
`read_...` function here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from ...errors import InvalidFlow
from ...source.load import decoded, load, replace_file
from ...source.locations import SYNTAX, Limits
from ...values import MAX_BYTES, MAX_DEPTH
from .dispatch import UsageError

_LIMITS: Final = Limits(size=MAX_BYTES, nesting=MAX_DEPTH)
"""The limits of values, which are higher than those of definitions."""
_NON_JSON_NUMBERS: Final = ("NaN", "Infinity", "-Infinity")  # Python's JSON reader knows them, JSON does not


def read_input(text: str | None, option: str = "--input") -> Any:
    """Read the JSON value of an option: JSON, or @FILE, or @- for standard input."""
    if text is None:
        return None
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


def read_pairs(pairs: Iterable[str], option: str = "--var") -> dict[str, Any]:
    """Read `name=value` pairs; a value that is not JSON is text."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise UsageError(f"{option} {pair!r}: must be name=value")
        if name in values:
            raise UsageError(f"{option} {pair!r}: {name} is given twice")
        try:
            values[name] = load(value, name=f"{option} {name}", form="json", limits=_LIMITS).data
        except InvalidFlow as error:
            if not _is_syntax(error) and value.strip() not in _NON_JSON_NUMBERS:
                raise _json_error(value, f"{option} {name}", f"{name}=", error) from None
            values[name] = value
    return values


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
