"""A document that knows where everything in it stands."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from ..deadline import look_at_clock
from ..errors import Place, Problem
from ..frozen import dataclass
from ..values import Json
from .spot import Lines, Spot, inside

_STEP = re.compile(r"""\.?\[(\d+)\]|\.?\[("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\]|\.(\d+)(?=[.\[]|$)""")
_ABOUT_KEYS = frozenset({"additionalProperties", "unevaluatedProperties", "propertyNames", "unknown"})


@dataclass(frozen=True, kw_only=True)
class Document:
    """A read document: `data` is plain JSON within the limits; `file` is the name in messages."""

    data: Json
    file: str
    text: str
    form: str = "yaml"

    @cached_property
    def lines(self) -> Lines:
        return Lines(self.file, self.text)

    @cached_property
    def _root(self) -> Spot:
        # Read a second time, and only when something is wrong: a good document pays nothing.
        if self.form == "json":
            from . import json_text

            return json_text.spots(self.text)
        from . import yaml_text

        return yaml_text.spots(self.text)

    @cached_property
    def repeated(self) -> dict[tuple[str, ...], Place]:
        """The paths of keys of JSON that stand more than once (indices as texts), each with where it stands again."""
        found: dict[tuple[str, ...], Place] = {}
        rest: list[tuple[tuple[str, ...], Spot]] = [((), self._root)]
        while rest:
            at, spot = rest.pop()
            found |= {(*at, key): self.lines.place(offset) for key, offset in spot.again.items()}
            inner = [*spot.fields.items(), *((str(i), item) for i, item in enumerate(spot.items))]
            rest += [((*at, key), one) for key, one in reversed(inner)]
        return found

    def locate(self, path: str, column: int | None = None, *, at_key: bool = False) -> Place:
        """The place of the longest part of `path` (`nodes[2].params.q`) that exists.

        For text it is where the value begins, plus `column` (1-based in the value, escapes and
        folding undone); for an object or a list, or with `at_key`, it is where its key stands. Of what an
        alias names it is the place where it is written.
        """
        return self._found(path, column, at_key)[0]

    def told(self, problem: Problem) -> Problem:
        """The problem with its place; one that is found through an alias says where that stands."""
        look_at_clock()
        place, alias = self._found(problem.path, problem.column, _about_key(problem))
        if alias is None:
            return replace(problem, place=place)
        at = self.lines.place(alias.start)
        name = self.text[alias.start : alias.end]
        said = f"{problem.message} (through the alias {name} at {at.line}:{at.column})"
        return replace(problem, message=said, place=place)

    def _lengths_of(self, value: dict[str, Json]) -> list[int]:
        """How long the keys of an object are, the longest first; read once, as thousands of problems may be in it."""
        known = self._lengths.get(id(value))
        if known is None:
            known = self._lengths[id(value)] = sorted(set(map(len, value)), reverse=True)
        return known

    @cached_property
    def _lengths(self) -> dict[int, list[int]]:
        return {}

    def _found(self, path: str, column: int | None, at_key: bool) -> tuple[Place, Spot | None]:
        """The place, and the first alias on the way to it."""
        spot, value, rest = self._root, self.data, path
        alias: Spot | None = None
        while True:
            if spot.names is not None and (rest or not at_key):
                alias, spot = alias or spot, spot.names
            if not rest:
                break
            if isinstance(value, dict):
                key, after = _field(value, rest, self._lengths_of(value))
                if key is None or key not in spot.fields:
                    break
                spot, value, rest = spot.fields[key], value[key], after
            elif isinstance(value, list):
                found = _STEP.match(rest)
                index = int(found[1] or found[3] or -1) if found and not found[2] else -1
                if found is None or not 0 <= index < len(spot.items):
                    break
                spot, value, rest = spot.items[index], value[index], rest[found.end() :]
            else:
                break
        if isinstance(value, str) and column is not None and spot.style is not None and not rest:
            return self.lines.place(inside(self.text, spot, value, column)), alias
        by_key = spot.key >= 0 and (spot.style is None or (at_key and not rest))
        return self.lines.place(spot.key if by_key else spot.start), alias


def _field(value: dict[str, Json], rest: str, lengths: Iterable[int]) -> tuple[str | None, str]:
    """The longest key that `rest` begins with (keys may hold dots), and what follows it."""
    quoted = _STEP.match(rest)
    if quoted and quoted[2] is not None:
        key = _unquoted(quoted[2])
        return (key if key in value else None), rest[quoted.end() :]
    bare = rest.removeprefix(".")
    for length in lengths:  # of which there are few, where a look at each key would take the square of their number
        if length <= len(bare) and bare[length : length + 1] in ("", ".", "[") and bare[:length] in value:
            return bare[:length], bare[length:]
    return None, rest


def _unquoted(text: str) -> str | None:
    """The key that stands in quotes, as `repr` and JSON write it."""
    from ast import literal_eval

    try:
        return str(literal_eval(text))
    except (ValueError, SyntaxError):
        return None


def attach(problems: Iterable[Problem], document: Document | None) -> list[Problem]:
    """The same problems, each with its place in the file; those that have one keep it."""
    if document is None:
        return list(problems)
    return [p if p.place is not None else document.told(p) for p in problems]


def _about_key(problem: Problem) -> bool:
    return problem.keyword in _ABOUT_KEYS or problem.message.startswith("unknown key")
