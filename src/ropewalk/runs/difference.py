"""Two runs side by side: what they were given, what they did node by node, what came of it. Pure, and bounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from ..journal.journal import Entry, RunRow
from ..values import Json
from .changes import Change
from .instances import without_attempts
from .steps import step

MOST: Final = 20
"""Differences told of one value."""
MOST_NODES: Final = 1000
_LONG: Final = 200
_GONE: Final = object()


def difference(
    a: tuple[RunRow, Iterable[Entry]], b: tuple[RunRow, Iterable[Entry]], definition: list[Change]
) -> dict[str, Json]:
    """What `runs diff` tells: of each run its status and times, then everything that differs."""
    (one, facts), (other, more) = a, b
    nodes, same = _nodes(_last(facts), _last(more))
    return {
        "a": _head(one),
        "b": _head(other),
        "definition": [{"path": c.place, "what": c.what, "fields": list(c.fields)} for c in definition],
        "input": values(one.input, other.input),
        "nodes": nodes[:MOST_NODES],
        "nodesLeftOff": max(0, len(nodes) - MOST_NODES),
        "same": same,
        "result": values(_plain(one.result), _plain(other.result)),
        "error": None if one.error == other.error else [_message(one.error), _message(other.error)],
    }


def values(a: Json, b: Json) -> list[dict[str, Json]]:
    """Where two values differ, place by place (`rows[3].price`); what is missing on one side is left out there. After
    MOST of them the last one says how many more there are."""
    found: list[dict[str, Json]] = []
    more = 0
    for path, x, y in _walk(a, b, ""):
        if len(found) == MOST:
            more += 1
            continue
        told: dict[str, Json] = {"path": path}
        if x is not _GONE:
            told["a"] = _cut(x)
        if y is not _GONE:
            told["b"] = _cut(y)
        found.append(told)
    return [*found, {"path": "", "more": more}] if more else found


def _walk(a: Any, b: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    waiting = [(path, a, b)]
    while waiting:
        path, a, b = waiting.pop()
        if type(a) is dict and type(b) is dict:
            keys = [*a, *(key for key in b if key not in a)]
            inner = [(_join(path, key), a.get(key, _GONE), b.get(key, _GONE)) for key in keys]
        elif type(a) is list and type(b) is list:
            longest = range(max(len(a), len(b)))
            inner = [(f"{path}[{i}]", _at(a, i), _at(b, i)) for i in longest]
        else:
            if a is _GONE or b is _GONE or a != b or type(a) is not type(b):
                yield path, a, b
            continue
        waiting += reversed(inner)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _at(items: list[Any], index: int) -> Any:
    return items[index] if index < len(items) else _GONE


def _cut(value: Json, depth: int = 3) -> Json:
    """A value short enough to be told."""
    if isinstance(value, str):
        return value if len(value) <= _LONG else f"{value[:_LONG]}… ({len(value)} characters)"
    if isinstance(value, list):
        if not depth or len(value) > MOST:
            return f"a list of {len(value)}"
        return [_cut(item, depth - 1) for item in value]
    if isinstance(value, dict):
        if not depth or len(value) > MOST:
            return f"an object of {len(value)}"
        return {key: _cut(item, depth - 1) for key, item in value.items()}
    return value


def _head(row: RunRow) -> dict[str, Json]:
    took = None if row.ended_at is None else round((row.spent or row.ended_at - row.started_at) * 1000, 3)
    return {"id": row.id, "name": row.name, "status": row.status, "fingerprint": row.fingerprint, "ms": took}


def _plain(result: Json) -> Json:
    """A result without what differs in any two runs."""
    if not isinstance(result, dict):
        return result
    return {key: value for key, value in result.items() if key not in ("executionId", "duration", "runId")}


def _message(error: Json) -> Json:
    return error.get("message") if isinstance(error, dict) else error


def _last(facts: Iterable[Entry]) -> dict[str, dict[str, Json]]:
    """What came of each node instance in the end, in order."""
    found: dict[str, dict[str, Json]] = {}
    for entry in facts:
        if entry.kind not in ("ending", "offer"):
            told, key = step(entry), without_attempts(entry.path)
            if told["status"] != "decided" or key not in found:
                found[key] = told
    return found


def _nodes(a: dict[str, dict[str, Json]], b: dict[str, dict[str, Json]]) -> tuple[list[Json], int]:
    found: list[Json] = []
    same = 0
    for path in [*a, *(path for path in b if path not in a)]:
        one, other = a.get(path), b.get(path)
        if one is None or other is None:
            what = "added" if one is None else "removed"
            told: Any = one or other
            found.append({"path": path, "what": what, "status": told["status"], "ms": told["ms"]})
            continue
        value = values(_said(one), _said(other))
        error = [_message(one["error"]), _message(other["error"])]
        if one["status"] == other["status"] and not value and error[0] == error[1]:
            same += 1
            continue
        found.append(
            {
                "path": path,
                "what": "changed",
                "status": [one["status"], other["status"]],
                "value": value,
                "error": error if error[0] != error[1] else None,
                "ms": [one["ms"], other["ms"]],
            }
        )
    return found, same


def _said(told: dict[str, Json]) -> Json:
    return told["decision"] if told["status"] == "decided" else told["value"]
