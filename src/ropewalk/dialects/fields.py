"""Reading a document: known keys in either spelling, right types, every problem with its place."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from ..errors import Problem
from ..values import NOT_JSON, Json, closest, is_json
from ..values import own as own_value

Report = list[Problem]


@lru_cache(maxsize=1024)
def camel(key: str) -> str:
    """`error_strategy` -> `errorStrategy`; anything else as it is."""
    head, *rest = key.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest) if head and rest else key


@lru_cache(maxsize=1024)
def snake(key: str) -> str:
    """`errorStrategy` -> `error_strategy`."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in key)


def say(report: Report, path: str, message: str, suggestion: str | None = None) -> None:
    report.append(Problem(path=path, message=message, suggestion=suggestion))


def known_keys(
    doc: Mapping[str, Json], known: Mapping[str, Any], path: str, report: Report, here: Collection[str] | None = None
) -> dict[str, Json]:
    """The document with its keys in the documented spelling; unknown and repeated ones reported. Of all
    that are `known`, those `here` are named where nothing is near to an unknown one."""
    found: dict[str, Json] = {}
    for key, value in doc.items():
        name = key if key in known or not isinstance(key, str) else camel(key)
        if name not in known and isinstance(key, str) and snake(key) in known:
            name = snake(key)
        if name not in known:
            where = f"{path}.{key}" if path else str(key)
            near = _meant(str(name), known)
            say(report, where, "unknown key" if near else f"unknown key; known here: {', '.join(here or known)}", near)
        elif name in found:
            other = next(one for one in doc if isinstance(one, str) and name in (one, camel(one), snake(one)))
            say(report, f"{path}.{key}" if path else str(key), f"given twice, also as {other}")
        else:
            found[name] = value
    return found


def _meant(key: str, known: Mapping[str, Any]) -> str | None:
    """The key that was probably meant: the same in another letter case, or the closest."""
    folded = {name.lower(): name for name in known}
    other = _OF_OTHERS.get(key)
    if other in known:
        return other
    return folded.get(key.lower()) or closest(key, known)


_OF_OTHERS = {"needs": "dependsOn", "after": "dependsOn", "else": "otherwise", "if": "condition", "when": "condition"}
"""Words of other notations for keys of ours, which are not spelt alike."""


def join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


MAX_DEPTH = 200  # of a document; its nodes and its values have tighter limits of their own


def own(value: Json, path: str, report: Report, depth: int = MAX_DEPTH) -> Json:
    """A deep copy in plain JSON, so that later changes to the original change nothing here.

    Tuples become lists and enum members their words; what is no JSON is reported with its place
    and null stands in.
    """
    taken = own_value(value, depth)  # nearly every document is plain JSON, whose places nobody asks for
    return _own(value, path, report, depth) if taken is NOT_JSON else taken


def _own(value: Json, path: str, report: Report, depth: int) -> Json:
    """The same, looking at each part by itself."""
    if isinstance(value, str):
        text = str.__str__(value)
        if is_json(text):
            return text
        say(report, path, "a string with a NUL character or a lone surrogate")
        return None
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (Mapping, list, tuple)):
        if not depth:
            say(report, path, f"nested deeper than {MAX_DEPTH}")
            return None
        if not isinstance(value, Mapping):
            return [_own(item, f"{path}[{i}]", report, depth - 1) for i, item in enumerate(value)]
        found: dict[str, Json] = {}
        for key, item in value.items():
            if isinstance(key, str) and is_json(str.__str__(key)):
                name = str.__str__(key)
                found[name] = _own(item, f"{path}.{name}" if path else name, report, depth - 1)
            else:
                say(report, path, f"the key {key!r} is no string that JSON can hold")
        return found
    if type(value) in (int, float) and is_json(value):
        return value
    say(report, path, f"{value} is no number that JSON can hold" if isinstance(value, (int, float)) else
        f"{kind(value)} is not JSON")  # fmt: skip
    return None


# --- one checker per kind of value: (value, path, report) -> the value to use ------------------
#
# The value to use is always of the kind that was asked for, so that whoever reads a document with problems need not
# look at types again.

Checker = Callable[[Json, str, Report], Json]


def text(value: Json, path: str, report: Report) -> Json:
    if not isinstance(value, str):
        say(report, path, f"must be a string, not {kind(value)}")
        return ""
    return value


def name(value: Json, path: str, report: Report) -> Json:
    if isinstance(value, (bool, int, float)):  # which YAML makes of words that look like one
        written = json.dumps(value)
        say(report, path, f'must be a string, not {kind(value)}: write "{written}" in quotes')
        return written
    if not isinstance(value, str) or not value.strip():
        say(report, path, "must be a non-empty string")
        return ""
    return value


def variable(value: Json, path: str, report: Report) -> Json:
    """The name of a variable, as it stands after `$var.`."""
    if isinstance(value, str) and not _NO_NAME.isdisjoint(value):
        plain = re.sub(r"[\W_]+", "_", re.sub(_READ, "", value)).strip("_")
        say(
            report, path, f"must be the plain name of a variable, not {value!r}: it is read as $var.NAME", plain or None
        )
        return value
    return name(value, path, report)


_NO_NAME = frozenset("$.[]{}")
_READ = r"^\s*\$?\{?\s*\$?(?:var\b)?"


def condition(value: Json, path: str, report: Report) -> Json:
    """The text of an expression, or a boolean."""
    return value if isinstance(value, bool) else name(value, path, report)


def truth(value: Json, path: str, report: Report) -> Json:
    if not isinstance(value, bool):
        say(report, path, f"must be true or false, not {kind(value)}")
        return False
    return value


def mapping(value: Json, path: str, report: Report) -> Json:
    if not isinstance(value, Mapping):
        say(report, path, f"must be an object, not {kind(value)}")
        return {}
    return value


def names(value: Json, path: str, report: Report) -> Json:
    """A name or a list of names -> a list of names."""
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list):
        say(report, path, f"must be an id or a list of ids, not {kind(value)}")
        return []
    for i, item in enumerate(found):
        if not isinstance(item, str):
            say(report, f"{path}[{i}]", f"must be an id, not {kind(item)}")
    return [item for item in found if isinstance(item, str)]


def number(value: Json, path: str, report: Report) -> Json:
    """A finite number of 0 or more."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        say(report, path, f"must be a number, not {kind(value)}")
        return 0
    if not math.isfinite(value) or value < 0:
        say(report, path, f"must be 0 or more, not {value}")
        return 0
    return value


def count(value: Json, path: str, report: Report) -> Json:
    """A whole number of 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int):
        say(report, path, f"must be a whole number, not {value if type(value) is float else kind(value)}")
        return 0
    if value < 0:
        say(report, path, f"must be 0 or more, not {value}")
        return 0
    return value


def positive(value: Json, path: str, report: Report) -> Json:
    """A whole number of 1 or more."""
    if not isinstance(value, bool) and isinstance(value, int) and value < 1:
        say(report, path, f"must be 1 or more, not {value}")
        return 1
    return count(value, path, report) or 1


def anything(value: Json, path: str, report: Report) -> Json:
    return value


def object_of(
    value: Json,
    known: Mapping[str, Checker],
    path: str,
    report: Report,
    *,
    required: tuple[str, ...] = (),
    nulls: tuple[str, ...] = (),
    what: str = "an object",
) -> dict[str, Json]:
    """Read the fields of an object, each with its checker; null counts as absent except for the keys in `nulls`."""
    if not isinstance(value, Mapping):
        say(report, path, f"must be {what}, not {kind(value)}")
        return {}
    given = {k: v for k, v in known_keys(value, known, path, report).items() if v is not None or k in nulls}
    for key, item in given.items():
        given[key] = known[key](item, join(path, key), report)
    for key in required:
        if key not in given:
            say(report, join(path, key), "required")
    return given


class OneOf:
    """The checker of one of some words, in any letter case; for another one what was probably meant, or "". `meant`
    are words of other notations, with ours."""

    __slots__ = ("meant", "words")

    def __init__(self, words: tuple[str, ...], meant: Mapping[str, str]) -> None:
        self.words, self.meant = words, meant

    def __call__(self, value: Json, path: str, report: Report) -> Json:
        written = str(getattr(value, "value", value)).strip().lower()
        word = written if written in self.words else written.replace("-", "_")
        if not isinstance(value, str) or word not in self.words:
            near = self.meant.get(word) or closest(word, self.words)
            say(report, path, f"unknown value {value!r}; it is one of {', '.join(self.words)}", near)
            return near or ""
        return word


def one_of(words: tuple[str, ...], meant: Mapping[str, str] = MappingProxyType({})) -> Checker:
    """One of some words; see OneOf."""
    return OneOf(words, meant)


def word_of(enum: type[StrEnum], meant: Mapping[str, str] = MappingProxyType({})) -> Checker:
    """One of the words of an enumeration."""
    return one_of(tuple(str(member.value) for member in enum), meant)


def kind(value: Json) -> str:
    """The JSON name of a value's type, or the Python one where it is no JSON."""
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "a string",
             list: "a list", dict: "an object"}  # fmt: skip
    return names.get(type(value), type(value).__name__)


def closest_attribute(owner: str, name: str, data: Mapping[str, Any]) -> str:
    """The text of an AttributeError, with what was probably meant."""
    hint = closest(camel(name), data)
    return f"{owner} has no {name!r}" + (f"; did you mean {snake(hint)!r}?" if hint else "")
