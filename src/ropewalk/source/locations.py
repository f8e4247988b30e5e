"""Where each value of a document is in its text, what a reader finds wrong, and the limits.

Offsets count characters (code points) from the start of the text. Lines and columns are computed
only for a place that somebody asks for, by the line breaks that editors count: LF, CR LF and CR.
A reader reports a `Fault` by its offset; `load` turns it into a problem with a place. To add a
limit, add a field to `Limits` and check it where the text is read.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import field
from functools import cached_property
from typing import Final, Literal, TypeAlias

from ..errors import Place
from ..fast_dataclass import dataclass

_LINE_BREAK = re.compile(r"\r\n|\n|\r")
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}"  # one character, in JSON
    r"|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|\r\n|[\s\S])"
)
_WHITE_ESCAPES = frozenset("nrt \tN_LPvf")
CharKind: TypeAlias = Literal["visible", "space", "break"]


@dataclass(slots=True)
class Spot:
    """The position of one value in the text."""

    # `again`: Offsets of keys that are defined a second time in this object.

    # Offset of the first character.
    start: int
    # Offset after the last character.
    end: int
    # The style of a scalar: '"', "'", "|", ">" or "" (plain); None for a collection.
    style: str | None = None
    # Offset of its key, or -1.
    key: int = -1
    # The values of an object.
    fields: dict[str, Spot] = field(default_factory=dict)
    # The items of a list.
    items: list[Spot] = field(default_factory=list)
    repeats: dict[str, int] = field(default_factory=dict)
    # What an alias refers to.
    names: Spot | None = None


@dataclass(frozen=True)
class Lines:
    """The lines of a text; turns an offset into a Place."""

    file: str
    text: str

    @cached_property
    def _texts(self) -> dict[int, str]:
        return {}

    @cached_property
    def starts(self) -> list[int]:
        """The offset at which each line begins."""
        return [0, *(match.end() for match in _LINE_BREAK.finditer(self.text))]

    def place(self, offset: int) -> Place:
        """Return the place of the character at an offset; an offset past the end counts as the end."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self.starts, offset) - 1
        return Place(self.file, line + 1, offset - self.starts[line] + 1, self._line(line))

    def _line(self, line: int) -> str:
        """Return the text of a line; all places in it share one copy, as a line may have megabytes."""
        text = self._texts.get(line)
        if text is None:
            end = self.starts[line + 1] if line + 1 < len(self.starts) else len(self.text)
            text = self._texts[line] = self.text[self.starts[line] : end].rstrip("\r\n")
        return text


def inside(text: str, spot: Spot, value: str, column: int) -> int:
    """Return the offset of the character of the text that became `value[column - 1]`."""

    # White space is folded and escapes are shorter in the value, so visible characters are counted: the n-th of the
    # value is the n-th of the text. White space between two of them, or after the last, is found from the visible
    # character before it, on the same line.
    before = value[: max(0, column - 1)]
    visible_before = sum(not c.isspace() for c in before)
    on_visible = column <= len(value) and not value[column - 1].isspace()
    spaces_left = 0 if on_visible else len(before) - len(before.rstrip())

    begin, stop = _content_range(text, spot)
    last_end = begin
    for start, end, kind in _characters(text, begin, stop, spot.style):
        if kind == "visible":
            if visible_before == 0:
                return start if on_visible else last_end
            visible_before -= 1
            last_end = end
        elif visible_before == 0 and spaces_left:
            if kind == "break":
                return last_end
            spaces_left -= 1
            last_end = end
    return last_end


def _content_range(text: str, spot: Spot) -> tuple[int, int]:
    """Return where the characters of a scalar begin and end: without quotes, without the line of `|`."""
    if spot.style in ("|", ">"):
        line_break = _LINE_BREAK.search(text, spot.start, spot.end)
        return (line_break.end() if line_break else spot.end), spot.end
    return (spot.start + 1, spot.end - 1) if spot.style else (spot.start, spot.end)


def _characters(text: str, at: int, stop: int, style: str | None) -> Iterator[tuple[int, int, CharKind]]:
    """Yield begin, end and kind of the text that stands for each character of a scalar."""
    while at < stop:
        char, end, kind = text[at], at + 1, _kind(text[at])
        if style == '"' and char == "\\":
            escape = _ESCAPE.match(text, at, stop)
            end = escape.end() if escape else end
            kind = _kind_of_escape(text[at + 1 : end])
        elif style == "'" and char == "'":
            end = at + 2  # a quote is doubled
        elif char in "\r\n":
            line_break = _LINE_BREAK.match(text, at, stop)
            end, kind = (line_break.end() if line_break else end), "break"
        yield at, end, kind
        at = end


def _kind(char: str) -> CharKind:
    return "space" if char.isspace() else "visible"


def _kind_of_escape(escape: str) -> CharKind:
    """Return the kind of the text after a backslash."""
    if escape[:1] in "\r\n":
        return "break"  # left out of the value, with the spaces at the beginning of the next line
    if escape[0] in "xuU" and len(escape) > 1:
        return _kind(chr(int(escape[1:5] if escape[0] == "u" else escape[1:], 16)))
    return "space" if escape in _WHITE_ESCAPES else "visible"


SYNTAX: Final = "syntax"
"""The `keyword` of a problem which means that the text has another form altogether."""
MOST_FAULTS: Final = 50
"""A reader stops after this many: nobody reads more, and a bomb may have millions."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong in a text."""

    # Where it is in the text.
    offset: int
    message: str
    # The offset of the first definition, for something that is defined again.
    first: int | None = None
    # What was probably meant.
    suggestion: str | None = None
    keyword: str | None = None


class Refused(Exception):
    """The text is not a document; `faults` are all that a reader found."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = faults
        super().__init__("; ".join(fault.message for fault in faults))


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a document."""

    # Bytes, aliases written out included.
    size: int = 10_000_000
    nesting: int = 64
    # Number of YAML aliases.
    aliases: int = 1_000
    # A JSON object may define a key twice. The last definition holds, as in other readers, and `Document.repeated` has
    # all of them.
    repeats: bool = False
    # Numbers past 64 bits stay as they are, for the caller to replace.
    any_number: bool = False
