"""What a run waits for, read from its journal: the waits that nothing has come for and that are not over."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from ..values import Json
from .journal import Entry

_OVER = frozenset(("attempt", "call", "call_failed", "node", "skip"))
"""What is recorded of a node instance that has ended: nothing inside of it, or of the flow that it calls, waits any
more."""


def open_waits(history: Iterable[Entry]) -> list[Entry]:
    """The waits that are under way, in the order in which they began."""
    entries = list(history)
    if not any(entry.kind == "wait" for entry in entries):
        return []
    over = {entry.path for entry in entries if entry.kind in _OVER}
    come = {entry.path for entry in entries if entry.kind == "signal"}
    return [
        entry
        for entry in entries
        if entry.kind == "wait" and entry.path not in come and over.isdisjoint(_around(entry.path))
    ]


def _around(path: str) -> list[str]:
    """The node instances that a path is in, itself included: `each[3]/w` is in `each`."""
    parts = path.split("/")
    return [path, *(_owner(parts[:i]) for i in range(1, len(parts)))]


def _owner(parts: list[str]) -> str:
    return "/".join((*parts[:-1], parts[-1].partition("[")[0]))


def shown(entry: Entry) -> dict[str, Json]:
    """A wait as people read it."""
    what = "approval" if "approval" in entry.data else "event"
    return {
        "path": entry.path,
        "node": entry.data.get("node", entry.node),
        what: entry.data[what],
        "since": iso(entry.started),
        "due": iso(entry.data["due"]),
    }


def iso(at: float | None) -> str | None:
    """Seconds since the epoch as ISO 8601 in UTC."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def worded(wait: dict[str, Json]) -> str:
    """A wait, as `shown`, in a few words."""
    if "event" in wait:
        return f"the event {wait['event']!r} ({wait['path']})"
    return f"an approval ({wait['path']}: {wait['approval']})"
