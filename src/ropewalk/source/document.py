"""A document with the places of its values, and problems as text for people.

`Document.locate` finds the place of a path, `with_places` gives problems their places, and `render_problem`
writes a problem with the source line and a caret under the column. Text from a file reaches a
terminal only through `escape_invisible`: it escapes control characters and those that turn the writing
direction, so that a document cannot control the terminal.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property

import orjson

from ..deadline import look_at_clock
from ..errors import Place, Problem, display_path
from ..fast_dataclass import dataclass
from ..values import KEY_SPELLINGS, Json, camel, snake
from .locations import Lines, Spot, inside

_INDEX_OR_QUOTED_KEY = re.compile(r"""\.?\[(\d+)\]|\.?\[("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\]|\.(\d+)(?=[.\[]|$)""")
_NAME = re.compile(r"[^.\[]+")
_KEY_KEYWORDS = frozenset({"additionalProperties", "unevaluatedProperties", "propertyNames", "unknown"})


@dataclass(frozen=True, kw_only=True)
class Document:
    """A document that was read."""

    # Plain JSON within the limits.
    data: Json
    # The file name in messages.
    file: str
    text: str
    form: str = "yaml"
    # The directory of the file; None for a text, whatever its name says.
    directory: str | None = None

    @cached_property
    def lines(self) -> Lines:
        """The lines of the text, for places."""
        return Lines(self.file, self.text)

    @cached_property
    def _root(self) -> Spot:
        # The text is read a second time only when something is wrong: a valid document pays nothing.
        if self.form == "json":
            from . import json_reader

            return json_reader.spots(self.text)
        from . import yaml_reader

        return yaml_reader.spots(self.text)

    @cached_property
    def repeated(self) -> dict[tuple[str, ...], Place]:
        """The place of each repeated definition of a JSON key, by its path (indices as texts)."""
        places: dict[tuple[str, ...], Place] = {}
        stack: list[tuple[tuple[str, ...], Spot]] = [((), self._root)]
        while stack:
            path, spot = stack.pop()
            for key, offset in spot.repeats.items():
                places[*path, key] = self.lines.place(offset)
            children = [*spot.fields.items(), *((str(i), item) for i, item in enumerate(spot.items))]
            # Reversed, so that the first child is popped first.
            stack += [((*path, key), child) for key, child in reversed(children)]
        return places

    def locate(self, path: str, column: int | None = None, *, at_key: bool = False) -> Place:
        """Return the place of the longest part of a path that exists."""
        return self._find(path, column, at_key)[0]

    def with_place(self, problem: Problem) -> Problem:
        """Return the problem with its place; the message names the alias through which it was found, if any."""
        look_at_clock()
        is_about_key = problem.keyword in _KEY_KEYWORDS or problem.message.startswith("unknown key")
        place, alias = self._find(problem.path, problem.column, is_about_key)
        if alias is None:
            return replace(problem, place=place)
        alias_place = self.lines.place(alias.start)
        name = self.text[alias.start : alias.end]
        message = f"{problem.message} (through the alias {name} at {alias_place.line}:{alias_place.column})"
        return replace(problem, message=message, place=place)

    @cached_property
    def _key_lengths(self) -> dict[int, list[int]]:
        return {}

    def _key_lengths_of(self, value: dict[str, Json]) -> list[int]:
        """Return the lengths of an object's keys, the longest first; thousands of problems may be in one object."""
        lengths = self._key_lengths.get(id(value))
        if lengths is None:
            lengths = self._key_lengths[id(value)] = sorted(set(map(len, value)), reverse=True)
        return lengths

    def _find(self, path: str, column: int | None, at_key: bool) -> tuple[Place, Spot | None]:
        """Return the place of a path, and the first alias on the way to it."""
        spot, value, remaining = self._root, self.data, path
        alias: Spot | None = None

        # Follow the path as far as it exists: `spot` and `value` move together.
        while True:
            if spot.names is not None and (remaining or not at_key):
                alias, spot = alias or spot, spot.names
            if not remaining:
                break
            if isinstance(value, dict):
                key, next_remaining = _next_key(value, remaining, self._key_lengths_of(value))
                if key is None or key not in spot.fields:
                    break
                spot, value, remaining = spot.fields[key], value[key], next_remaining
            elif isinstance(value, list):
                match = _INDEX_OR_QUOTED_KEY.match(remaining)
                if match is None or match[2]:
                    break
                index = int(match[1] or match[3])
                if index >= len(spot.items):
                    break
                spot, value, remaining = spot.items[index], value[index], remaining[match.end() :]
            else:
                break

        is_scalar = spot.style is not None
        if isinstance(value, str) and column is not None and is_scalar and not remaining:
            return self.lines.place(inside(self.text, spot, value, column)), alias
        use_key = spot.key >= 0 and (not is_scalar or (at_key and not remaining))
        return self.lines.place(spot.key if use_key else spot.start), alias


def _next_key(value: dict[str, Json], remaining: str, lengths: Iterable[int]) -> tuple[str | None, str]:
    """Return the longest key of an object that a path begins with (keys may contain dots), and the rest of the path."""
    quoted = _INDEX_OR_QUOTED_KEY.match(remaining)
    if quoted and quoted[2] is not None:
        key = _unquote(quoted[2])
        return (key if key in value else None), remaining[quoted.end() :]
    bare = remaining.removeprefix(".")
    # There are few lengths. A look at each key, for each problem, would take quadratic time.
    for length in lengths:
        if length <= len(bare) and bare[length : length + 1] in ("", ".", "[") and bare[:length] in value:
            return bare[:length], bare[length:]
    # A reader may know the key by another name.
    name = _NAME.match(bare)
    names = (name[0], *KEY_SPELLINGS.get(name[0], ())) if name else ()
    key = next((key for each in names for key in (each, camel(each), snake(each)) if key in value), None)
    return (key, bare[name.end() :]) if name and key else (None, remaining)


def _unquote(text: str) -> str | None:
    """Return the text of a key in quotes, as `repr` and JSON write it."""
    from ast import literal_eval

    try:
        return str(literal_eval(text))
    except (ValueError, SyntaxError):
        return None


def with_places(problems: Iterable[Problem], document: Document | None) -> list[Problem]:
    """Return the problems, each with its place in the document; those that have a place keep it."""
    if document is None:
        return list(problems)
    return [problem if problem.place is not None else document.with_place(problem) for problem in problems]


def doubtful_numbers(document: object) -> list[Problem]:
    """Return a warning for each number of a YAML text that may be meant as an octal number or as text."""
    if not isinstance(document, Document) or document.form == "json":
        return []
    from .yaml_reader import leading_zeros

    return [
        Problem(path=path, message=message, place=document.lines.place(offset))
        for path, offset, message in leading_zeros(document.text, lambda: document._root)
    ]


_MAX_SOURCE_LINE = 120  # characters of a source line under a problem
_MAX_BEFORE_CARET = 80  # the same, before the caret, where the line is longer
_MAX_PATH = 300  # characters


def render_problem(problem: Problem) -> str:
    """Return `file:line:column: path: message`, and below it the source line with a caret under the column."""
    place = problem.place
    if len(problem.path) > _MAX_PATH:
        problem = replace(problem, path=f"{problem.path[:_MAX_PATH]}…")
    if place is not None and problem.path.startswith(place.spot):  # a flow in Python, whose path has the place too
        problem = replace(problem, path=problem.path.removeprefix(place.spot).removeprefix(": "))
    message = escape_invisible(shorten(str(problem)))
    if place is None:
        return message
    head = f"{escape_invisible(display_path(place.file))}:{place.line}:{place.column}: {message}"
    if not place.text.strip():
        return head

    # Cut a long source line around the column.
    caret = min(place.column - 1, len(place.text))
    is_long = len(place.text) > _MAX_SOURCE_LINE
    start = max(0, caret - _MAX_BEFORE_CARET) if is_long else 0
    line = escape_invisible(place.text[start : start + _MAX_SOURCE_LINE])
    if start:
        line = "…" + line
    if start + _MAX_SOURCE_LINE < len(place.text):
        line += "…"

    # Tabs stay tabs above the caret, and wide characters take two cells.
    padding = " " if start else ""
    for char in place.text[start:caret]:
        padding += "\t" if char == "\t" else " " * _width(char)
    return f"{head}\n    {line}\n    {padding}^"


def shorten(text: str, limit: int = 2000, hint: str = "") -> str:
    """Return the first `limit` characters of a text, the number of characters left out, and a hint where they are."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit:,} more characters{hint})"


def escape_invisible(text: str) -> str:
    """Write every control, direction and surrogate character of a text as an escape, except tab and newline."""

    # The escapes are those of YAML and JSON: in a quoted string of a document they mean the character.
    return _escaped(text, lambda code: f"\\U{code:08x}")


def json_text(value: Json) -> str:
    """Return indented JSON in which invisible characters are escapes."""
    return escape_json(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def escape_json(text: str) -> str:
    """Write every invisible character of JSON as an escape, except newlines between its parts."""
    return _escaped(text, lambda code: f"\\u{0xD7C0 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}")


def _escaped(text: str, beyond: Callable[[int], str]) -> str:
    """Escape the invisible characters of a text; `beyond` writes those beyond U+FFFF."""
    if text.isascii() and text.isprintable():
        return text
    hidden = {c for c in set(text) - _SHOWN if unicodedata.category(c) in _HIDDEN_CATEGORIES}
    return text.translate({ord(c): f"\\u{ord(c):04x}" if c < "\U00010000" else beyond(ord(c)) for c in hidden})


_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_SHOWN = frozenset("\t\n\u200c\u200d")
"""The joiners belong to the writing of some languages and to pictures of several characters."""


def _width(char: str) -> int:
    """Return how many cells of a terminal a character takes."""
    if unicodedata.combining(char) or unicodedata.category(char) == "Mn":
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
