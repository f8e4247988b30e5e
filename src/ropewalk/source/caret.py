"""A problem for people: where, what, the line itself, and a caret under the place.

Text from a file goes to a terminal only through `visible`: control characters and those that
turn the writing direction are replaced, so a document cannot drive the terminal.
"""

from __future__ import annotations

import unicodedata
from dataclasses import replace

from ..errors import Problem

_WIDEST = 120
_BEFORE = 80
_LONGEST_PATH = 300


def render(problem: Problem) -> str:
    """`file:line:column: path: message`, then the source line with a caret under the column."""
    place = problem.place
    if len(problem.path) > _LONGEST_PATH:
        problem = replace(problem, path=f"{problem.path[:_LONGEST_PATH]}…")
    said = visible(shortened(str(problem)))
    if place is None:
        return said
    head = f"{visible(place.file)}:{place.line}:{place.column}: {said}"
    if not place.text.strip():
        return head
    at = min(place.column - 1, len(place.text))
    begin = max(0, at - _BEFORE) if len(place.text) > _WIDEST else 0
    before = place.text[begin:at]
    line = place.text[begin : begin + _WIDEST]
    lead, tail = ("…" if begin else ""), ("…" if begin + _WIDEST < len(place.text) else "")
    pad = " " * len(lead) + "".join("\t" if c == "\t" else " " * _cells(c) for c in before)
    return f"{head}\n    {lead}{visible(line)}{tail}\n    {pad}^"


def shortened(text: str, most: int = 2000) -> str:
    """A text of whatever length as an error shows it: its beginning, and how much more there is."""
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({len(text) - most:,} more characters; --json tells all)"


def visible(text: str) -> str:
    """`text` with every control, direction and surrogate character but tab and newline replaced."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in "\t\n" or unicodedata.category(c) not in _HIDDEN else "�" for c in text)


_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def _cells(char: str) -> int:
    """How many cells of a terminal a character takes."""
    if unicodedata.combining(char) or unicodedata.category(char) == "Mn":
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
