"""The waits of runs: which are open, which signal each of them gets, and how people read them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ..values import Json
from .protocol import APPROVAL, Entry, OpenWait, Signal, iso


def signal_name(wait: Entry) -> str:
    """Return the name of the signal that a `wait` entry waits for."""
    return str(wait.data["event"]) if "event" in wait.data else APPROVAL + wait.path


def match_signals(waits: Sequence[OpenWait], signals: Iterable[Signal]) -> list[tuple[OpenWait, Signal]]:
    """Return which wait gets which signal."""

    # Signals are delivered in the order of sending, each to the first wait for its name that had not ended by then.
    by_name: dict[str, deque[OpenWait]] = {}
    for wait in waits:
        by_name.setdefault(wait.name, deque()).append(wait)
    matches = []
    for signal in signals:
        queue = by_name.get(signal.name, ())
        for wait in queue:
            if wait.due is None or signal.sent <= wait.due:
                by_name[signal.name].remove(wait)
                matches.append((wait, signal))
                break
    return matches


_ENDED_KINDS: Final = frozenset(("attempt", "call", "call_failed", "node", "skip"))
"""Kinds recorded for a node instance that has ended. Nothing inside it, or in the flow that it calls, still waits."""


def open_waits(history: Iterable[Entry]) -> list[Entry]:
    """Return the `wait` entries of a run that are still open, in the order in which they began."""
    entries = list(history)
    waits = [entry for entry in entries if entry.kind == "wait"]
    if not waits:
        return []
    ended_paths = {entry.path for entry in entries if entry.kind in _ENDED_KINDS}
    signalled = {entry.path for entry in entries if entry.kind == "signal"}
    return [wait for wait in waits if wait.path not in signalled and ended_paths.isdisjoint(_enclosing(wait.path))]


def _enclosing(path: str) -> list[str]:
    """Return the node instances that a path is in, itself included: `each[3]/w` is in `each`."""
    paths = [path]
    parts = path.split("/")
    for depth in range(1, len(parts)):
        owner = parts[depth - 1].partition("[")[0]
        paths.append("/".join((*parts[: depth - 1], owner)))
    return paths


def wait_to_json(entry: Entry) -> dict[str, Json]:
    """Return a `wait` entry as JSON for people, with times in ISO 8601."""
    kind = "approval" if "approval" in entry.data else "event"
    question = {name: entry.data[name] for name in ("question", "call") if name in entry.data}
    return {
        "path": entry.path,
        "node": entry.data.get("node", entry.node),
        kind: entry.data[kind],
        **question,
        "since": iso(entry.started),
        "due": iso(entry.data["due"]),
    }


def describe_wait(wait: dict[str, Json]) -> str:
    """Describe a wait in a few words."""
    question: Any = wait.get("question")
    if question is not None:
        return f"the event {wait['event']!r} ({question['server']} asks: {question['message']})"
    if "event" in wait:
        return f"the event {wait['event']!r}" + (f" ({wait['path']})" if wait["path"] != wait["event"] else "")
    return f"an approval ({wait['path']}: {wait['approval']})"
