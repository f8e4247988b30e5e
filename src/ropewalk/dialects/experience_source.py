"""The `source` of a dataset, in either of two forms.

`{file: x.csv, format: csv}` names the kind by its key. `{type: file, uri: x.csv, format: csv}` names it by `type`;
it is read into the first form, so that only this file knows both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..values import Json, closest
from . import fields as f
from .fields import Checker, Report, join, object_of, say

SOURCES: Final[dict[str, tuple[str, ...]]] = {
    "file": ("format",),
    "sqlite": ("query",),
    "http": ("format", "method", "body"),
    "mcp-resource": ("server",),
}
"""The kinds of source, and the fields that each may have besides its own."""
NEEDS: Final = {"sqlite": "query", "mcp-resource": "server"}
METHODS: Final = ("GET", "POST")


def _method(value: Json, path: str, report: Report) -> Json:
    word = value.strip().upper() if isinstance(value, str) else value
    if word not in METHODS:
        say(report, path, f"must be {' or '.join(METHODS)}, not {value!r}")
        return METHODS[0]
    return word


_MORE: Final[dict[str, Checker]] = {
    "query": f.name,
    "server": f.name,
    "format": f.one_of(("csv", "json", "jsonl")),
    "method": _method,
    "body": f.anything,
}
SOURCE: Final[dict[str, Checker]] = {**dict.fromkeys(SOURCES, f.name), **_MORE}
TYPED: Final[dict[str, Checker]] = {"type": f.one_of(tuple(SOURCES)), "uri": f.name, "url": f.name, **_MORE}


def source_of(value: Json, path: str, report: Report) -> dict[str, Json]:
    """Read a source in either form; the result names its kind by a key of `SOURCES`."""
    if isinstance(value, Mapping) and "type" in value:
        return _typed(value, path, report)
    given = object_of(value, SOURCE, path, report)
    if not isinstance(value, Mapping):
        return given
    places = [key for key in SOURCES if key in given]
    if len(places) != 1:
        named = ", ".join(SOURCES)
        said = f"not both {' and '.join(places)}" if places else "and there is none"
        say(report, path, f"a dataset comes from one of {named}; {said}")
        return given
    _fits(places[0], given, path, report)
    return given


def _typed(value: Mapping[str, Json], path: str, report: Report) -> dict[str, Json]:
    """`{type: sqlite, uri: x.db, query: ...}` -> `{sqlite: x.db, query: ...}`."""
    given = object_of(value, TYPED, path, report, required=("type",))
    kind = str(given.pop("type", "") or "")
    if kind not in SOURCES:
        return {}
    where = "url" if kind == "http" else "uri"
    other = "uri" if kind == "http" else "url"
    if where not in given and other in given:
        given[where] = given.pop(other)
    elif other in given:
        say(report, join(path, other), f"this {kind} source has its {where} already; give one of them")
        del given[other]
    if where not in given:
        say(report, join(path, where), f"required for a source of the type {kind}")
        return {}
    if kind == "http":
        given.setdefault("format", "json")  # as the runtime that this form comes from reads every answer
    found = {kind: given.pop(where), **given}
    _fits(kind, found, path, report)
    return found


def _fits(kind: str, given: Mapping[str, Json], path: str, report: Report) -> None:
    for key in given:
        if key != kind and key not in SOURCES[kind]:
            near = closest(key, SOURCES[kind])
            say(report, join(path, key), f"a {kind} source has no {key}", near)
    needed = NEEDS.get(kind)
    if needed is not None and needed not in given:
        say(report, join(path, needed), f"required for a {kind} source")
