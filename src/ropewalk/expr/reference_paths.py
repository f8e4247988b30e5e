"""Read the paths of references (`.name`, `.0`, `[0]`, `["any key"]`), and find the bounds of JSONPath queries.

Negative positions are allowed only on the state. `jsonpath.py` evaluates the queries.
"""

from __future__ import annotations

import re
from typing import Final

from .ast import Path
from .faults import fault

ROOTS: Final = frozenset(
    ("input", "prev", "steps", "output", "var", "state", "item", "index", "iteration", "error", "secret", "acc")
) | {"args", "result"}
"""Every name that may follow `$`; a notation allows some of them."""

_NAME: Final = re.compile(r"\.([^\W\d]\w*)")
_LOOSE_NAME: Final = re.compile(r"\.([\w-]+)")
_POSITION: Final = re.compile(r"\.([0-9]{1,15})(?!\w)|\[\s*(-?[0-9]{1,15})\s*\]")
_DIGITS: Final = re.compile(r"[0-9]{1,15}")
_KEY: Final = re.compile(r"""\[\s*("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')\s*\]""")
CALL: Final = re.compile(r"\s*\(")
"""The start of a method call, after its name."""


def read_path(text: str, at: int, *, state: bool, loose: bool = False) -> tuple[Path, int]:
    """Read the constant steps of a path."""

    # It stops before a method call, a computed index and a JSONPath segment.
    steps: list[str | int] = []
    name_of = _LOOSE_NAME if loose else _NAME
    while True:
        if match := name_of.match(text, at):
            if not loose and CALL.match(text, match.end()):
                break
            name = match.group(1)
            steps.append(int(name) if loose and _DIGITS.fullmatch(name) else name)
        elif match := _POSITION.match(text, at):
            step = int(match.group(1) or match.group(2))
            if step < 0 and not state:
                raise fault(text, at, "a position in a list is 0 or more; only $state counts from the end")
            steps.append(step)
        elif match := _KEY.match(text, at):
            from .lexer import Token, string_value  # loaded late: few references have quoted keys

            steps.append(string_value(text, Token("string", match.group(1), match.start(1))))
        else:
            return tuple(steps), at
        at = match.end()
    return tuple(steps), at


_QUERY_SEGMENT: Final = re.compile(r"\.\.|\.\*|\[\s*(?:\*|\?|:|-?[0-9]+\s*[:,]|(?:\"[^\"]*\"|'[^']*')\s*,)")
_SEGMENT: Final = re.compile(r"\.\.(?:\*|[^\W\d]\w*)?|\.\*|\.[^\W\d]\w*")
# An unclosed quotation extends to the end of the text, so that the scan stays linear.
_QUOTED_OR_BRACKET: Final = re.compile(r"""\"(?:[^\"\\]|\\.)*+(\"?)|'(?:[^'\\]|\\.)*+('?)|[\[\]]""", re.DOTALL)


def is_query(text: str, at: int) -> bool:
    """Return True if a JSONPath segment with possibly many results begins at a position."""
    return _QUERY_SEGMENT.match(text, at) is not None


def query_end(text: str, at: int) -> int:
    """Return the position after the JSONPath segments that begin at `at`, without a method call."""
    while True:
        if text.startswith("[", at):
            at = _closing_bracket(text, at)
        else:
            match = _SEGMENT.match(text, at)
            if match is None or (not match.group().startswith("..") and CALL.match(text, match.end())):
                return at
            at = match.end()


def _closing_bracket(text: str, at: int) -> int:
    start, depth = at, 0
    for match in _QUOTED_OR_BRACKET.finditer(text, at):
        char = match.group()
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if not depth:
                return match.end()
        elif "" in match.groups():
            raise fault(text, match.start(), "the quoted key is not closed")
    raise fault(text, start, "the bracket is not closed")
