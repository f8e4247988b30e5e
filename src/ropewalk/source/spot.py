"""Where each value of a document stands in its text, and which character of the text a
character of a value came from.

Everything counts characters (code points) from the start of the text; lines and columns are made
from that only when somebody asks, by the line breaks that editors count: LF, CR LF and CR.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import field
from functools import cached_property
from typing import Literal, TypeAlias

from ..errors import Place
from ..frozen import dataclass

_BREAK = re.compile(r"\r\n|\n|\r")
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}"  # one character, in JSON
    r"|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|\r\n|[\s\S])"
)
_WHITE_ESCAPES = frozenset("nrt \tN_LPvf")
Sort: TypeAlias = Literal["visible", "space", "break"]


@dataclass(slots=True)
class Spot:
    """One value: `start` and `end` in the text, its scalar `style` ('"', "'", "|", ">", "" for
    plain, None for a collection), where its `key` stands (-1 without), what is in it, where keys stand in it
    `again`, and, of an alias, what it `names`."""

    start: int
    end: int
    style: str | None = None
    key: int = -1
    fields: dict[str, Spot] = field(default_factory=dict)
    items: list[Spot] = field(default_factory=list)
    again: dict[str, int] = field(default_factory=dict)
    names: Spot | None = None


@dataclass(frozen=True)
class Lines:
    """The lines of a text: turns an offset into a Place."""

    file: str
    text: str

    @cached_property
    def _read(self) -> dict[int, str]:
        return {}

    @cached_property
    def starts(self) -> list[int]:
        return [0, *(found.end() for found in _BREAK.finditer(self.text))]

    def place(self, offset: int) -> Place:
        """The place of the character at `offset`; past the end it is the end."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self.starts, offset) - 1
        return Place(self.file, line + 1, offset - self.starts[line] + 1, self._line(line))

    def _line(self, line: int) -> str:
        """The text of a line, one copy however many places are in it: a line may have megabytes."""
        known = self._read.get(line)
        if known is None:
            end = self.starts[line + 1] if line + 1 < len(self.starts) else len(self.text)
            known = self._read[line] = self.text[self.starts[line] : end].rstrip("\r\n")
        return known


def inside(text: str, spot: Spot, value: str, column: int) -> int:
    """The offset in `text` of the character that became `value[column - 1]`.

    White space is folded and escapes shorten, so the visible characters are counted: the n-th of
    the value is the n-th of the text. What stands between two of them, or after the last, is found
    from the one before, on its line.
    """
    before = value[: max(0, column - 1)]
    count = sum(not c.isspace() for c in before)
    on_visible = column <= len(value) and not value[column - 1].isspace()
    further = 0 if on_visible else len(before) - len(before.rstrip())
    begin, stop = _content(text, spot)
    last = begin
    for start, end, sort in _characters(text, begin, stop, spot.style):
        if sort == "visible":
            if count == 0:
                return start if on_visible else last
            count -= 1
            last = end
        elif count == 0 and further:
            if sort == "break":
                return last
            further -= 1
            last = end
    return last


def _content(text: str, spot: Spot) -> tuple[int, int]:
    """Where the characters of a scalar begin and end: without quotes, without the line of `|`."""
    if spot.style in ("|", ">"):
        found = _BREAK.search(text, spot.start, spot.end)
        return (found.end() if found else spot.end), spot.end
    return (spot.start + 1, spot.end - 1) if spot.style else (spot.start, spot.end)


def _characters(text: str, at: int, stop: int, style: str | None) -> Iterator[tuple[int, int, Sort]]:
    """Begin, end and sort of what each character of a scalar is written as."""
    while at < stop:
        char, end, sort = text[at], at + 1, _sort(text[at])
        if style == '"' and char == "\\":
            found = _ESCAPE.match(text, at, stop)
            end = found.end() if found else end
            sort = _sort_of_escape(text[at + 1 : end])
        elif style == "'" and char == "'":
            end = at + 2
        elif char in "\r\n":
            found = _BREAK.match(text, at, stop)
            end, sort = (found.end() if found else end), "break"
        yield at, end, sort
        at = end


def _sort(char: str) -> Sort:
    return "space" if char.isspace() else "visible"


def _sort_of_escape(said: str) -> Sort:
    """What follows a backslash."""
    if said[:1] in "\r\n":
        return "break"  # which is left out, with the spaces at the beginning of the next line
    if said[0] in "xuU" and len(said) > 1:
        return _sort(chr(int(said[1:5] if said[0] == "u" else said[1:], 16)))
    return "space" if said in _WHITE_ESCAPES else "visible"
