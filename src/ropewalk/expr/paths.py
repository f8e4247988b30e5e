"""The paths of references: `.name`, `.0`, `[0]`, `["any key"]`, and where a JSONPath query ends.

Refused: JSONPath on any other root than the state, negative positions elsewhere.
"""

from __future__ import annotations

import re
from typing import Final

from .ast import Path
from .faults import fault

ROOTS: Final = frozenset(
    ("input", "prev", "steps", "output", "var", "state", "item", "index", "iteration", "error", "secret", "acc")
)
"""Every name that may follow `$`; a notation allows some of them."""

_NAME: Final = re.compile(r"\.([^\W\d]\w*)")
_LOOSE_NAME: Final = re.compile(r"\.([\w-]+)")
_POSITION: Final = re.compile(r"\.([0-9]{1,15})(?!\w)|\[\s*(-?[0-9]{1,15})\s*\]")
_DIGITS: Final = re.compile(r"[0-9]{1,15}")
_KEY: Final = re.compile(r"""\[\s*("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')\s*\]""")
_CALL: Final = re.compile(r"\s*\(")
_QUERY_SEGMENT: Final = re.compile(r"\.\.|\.\*|\[\s*(?:\*|\?|:|-?[0-9]+\s*[:,]|(?:\"[^\"]*\"|'[^']*')\s*,)")
_SEGMENT: Final = re.compile(r"\.\.(?:\*|[^\W\d]\w*)?|\.\*|\.[^\W\d]\w*")
_QUOTED_OR_BRACKET: Final = re.compile(r"""\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[\[\]]""", re.DOTALL)


def walk(text: str, at: int, *, state: bool, loose: bool = False) -> tuple[Path, int]:
    """The constant steps of a path from `at` on, and the position after them.

    Stops before a method call, a computed index and a JSONPath segment. `loose` is for references
    outside expressions: a name may hold a hyphen there, and nothing is a call.
    """
    steps: list[str | int] = []
    name_of = _LOOSE_NAME if loose else _NAME
    while True:
        if found := name_of.match(text, at):
            if not loose and _CALL.match(text, found.end()):
                break
            name = found.group(1)
            steps.append(int(name) if loose and _DIGITS.fullmatch(name) else name)
        elif found := _POSITION.match(text, at):
            step = int(found.group(1) or found.group(2))
            if step < 0 and not state:
                raise fault(text, at, "a position in a list is 0 or more; only $state counts from the end")
            steps.append(step)
        elif found := _KEY.match(text, at):
            from .tokens import Token, string_value  # most references name no such key

            steps.append(string_value(text, Token("string", found.group(1), found.start(1))))
        else:
            return tuple(steps), at
        at = found.end()
    return tuple(steps), at


def is_query(text: str, at: int) -> bool:
    """Whether a JSONPath segment with many results begins at `at`."""
    return _QUERY_SEGMENT.match(text, at) is not None


def query_end(text: str, at: int) -> int:
    """The position after the JSONPath segments that begin at `at`; a method call is left out."""
    while True:
        if text.startswith("[", at):
            at = _closing(text, at)
        else:
            found = _SEGMENT.match(text, at)
            if found is None or (not found.group().startswith("..") and _CALL.match(text, found.end())):
                return at
            at = found.end()


def _closing(text: str, at: int) -> int:
    start, depth = at, 0
    for found in _QUOTED_OR_BRACKET.finditer(text, at):
        char = found.group()
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if not depth:
                return found.end()
    raise fault(text, start, "the bracket is not closed")
