"""What people type as values: `--input JSON|@FILE`, `--var name=value`, prompts."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from ...errors import InvalidFlow
from ...source import SYNTAX, decoded, load
from ...source.limits import Limits
from ...values import MAX_BYTES, MAX_DEPTH
from .exits import UsageError

_LIMITS: Final = Limits(size=MAX_BYTES, nesting=MAX_DEPTH)
"""Those of values: what a definition may be at most is less."""
_WORDS: Final = ("NaN", "Infinity", "-Infinity")  # numbers for Python's reader of JSON, not for JSON


def read_input(text: str | None, option: str = "--input") -> Any:
    """The JSON value of an option; what cannot be read is a UsageError with its place."""
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
            raise UsageError(f"{option} {text} cannot be read", error.problems) from None
        raise _refused(text, option, f"{option} ", error) from None


def _refused(text: str, what: str, before: str, error: InvalidFlow) -> UsageError:
    """JSON of a command line that is none, or is past what values may be; `before` stands before it there."""
    kind = "is not JSON" if _is_syntax(error) else "cannot be used"
    hint = "" if text[:1] in '[{"' else f"; text stands in quotes: {before}'\"...\"'"
    return UsageError(f"{what} {kind}{hint}", error.problems)


def _is_syntax(error: InvalidFlow) -> bool:
    return all(problem.keyword == SYNTAX for problem in error.problems)


def some_words(_: object, text: str | None) -> None:
    """Refuse a prompt that says nothing, before a model is paid for it."""
    if text is not None and not text.strip():
        raise ValueError("It is empty: say what is to be done.")


def read_state(file: Path | None) -> dict[str, Any] | None:
    """The object in a file; what cannot be read, or is no object, is a UsageError."""
    if file is None:
        return None
    try:
        found = load(file, limits=_LIMITS).data
    except InvalidFlow as error:
        raise UsageError(f"--state {file} cannot be read", error.problems) from None
    if not isinstance(found, dict):
        raise UsageError(f"--state {file}: must hold an object of state fields")
    return found


def read_pairs(pairs: Iterable[str], option: str = "--var") -> dict[str, Any]:
    """`name=value` pairs, each name once; a value that is JSON is that, any other is text. JSON past what values may
    be, or with a key twice, is a UsageError with its place: as text it would be another value."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise UsageError(f"{option} {pair!r}: must be name=value")
        if name in found:
            raise UsageError(f"{option} {pair!r}: {name} is given twice")
        try:
            found[name] = load(value, name=f"{option} {name}", form="json", limits=_LIMITS).data
        except InvalidFlow as error:
            if not _is_syntax(error) and value.strip() not in _WORDS:
                raise _refused(value, f"{option} {name}", f"{name}=", error) from None
            found[name] = value
    return found
