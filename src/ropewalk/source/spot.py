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

from ..errors import Place
from ..frozen import dataclass

_BREAK = re.compile(r"\r\n|\n|\r")
_ESCAPE = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|\r\n|[\s\S])")
_LOW_SURROGATE = re.compile(r"\\u[dD][c-fC-F][0-9A-Fa-f]{2}")
QUOTES = ('"', "'")
_WHITE_ESCAPES = frozenset("nrt \t\n\rN_LPvf")


@dataclass(slots=True)
class Spot:
    """One value: `start` and `end` in the text, its scalar `style` ('"', "'", "|", ">", "" for
    plain, None for a collection), where its `key` stands (-1 without), and what is in it."""

    start: int
    end: int
    style: str | None = None
    key: int = -1
    fields: dict[str, Spot] = field(default_factory=dict)
    items: list[Spot] = field(default_factory=list)


@dataclass(frozen=True)
class Lines:
    """The lines of a text: turns an offset into a Place."""

    file: str
    text: str

    @cached_property
    def starts(self) -> list[int]:
        return [0, *(found.end() for found in _BREAK.finditer(self.text))]

    def place(self, offset: int) -> Place:
        """The place of the character at `offset`; past the end it is the end."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self.starts, offset) - 1
        begin = self.starts[line]
        end = self.starts[line + 1] if line + 1 < len(self.starts) else len(self.text)
        return Place(self.file, line + 1, offset - begin + 1, self.text[begin:end].rstrip("\r\n"))


def inside(text: str, spot: Spot, value: str, column: int) -> int:
    """The offset in `text` of the character that became `value[column - 1]`.

    White space is folded and escapes shorten, so the visible characters are counted: the n-th of
    the value is the n-th of the text. Between two of them it is the one before that decides.
    """
    before = value[: max(0, column - 1)]
    count = sum(not c.isspace() for c in before)
    on_visible = column <= len(value) and not value[column - 1].isspace()
    last_end = spot.start
    for begin, end in _visible(text, spot):
        if count == 0 and on_visible:
            return begin
        if count == 0:
            break
        count -= 1
        last_end = end
    trailing = len(before) - len(before.rstrip()) if before.strip() else 0
    # Past the last character: beside it, or on the closing quote.
    return min(last_end + trailing, spot.end - 1 if spot.style in QUOTES else spot.end)


def _visible(text: str, spot: Spot) -> Iterator[tuple[int, int]]:
    """Begin and end in the text of each visible character of a scalar."""
    at, end, style = spot.start, spot.end, spot.style
    if style in ("|", ">"):
        found = _BREAK.search(text, at, end)
        at = found.end() if found else end
    elif style:
        at, end = at + 1, end - 1
    while at < end:
        char = text[at]
        if style == '"' and char == "\\":
            found = _ESCAPE.match(text, at, end)
            stop = found.end() if found else at + 1
            if text[at + 1 : at + 2] == "u" and text[at + 2 : at + 3] in ("d", "D"):
                low = _LOW_SURROGATE.match(text, stop, end)
                stop = low.end() if low else stop
            if text[at + 1 : at + 2] not in _WHITE_ESCAPES:
                yield at, stop
            at = stop
        elif style == "'" and char == "'":
            yield at, at + 2
            at += 2
        else:
            if not char.isspace():
                yield at, at + 1
            at += 1
