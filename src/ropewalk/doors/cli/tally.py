"""What a run's events add up to: counts, what is running, what ended last.

Constant work per event, whatever the size of the graph; both displays read it.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from shlex import quote
from typing import Any

from ...events import Event
from ...source import visible
from .table import duration, first_line

MARKS = {"finished": "✓", "recovered": "~", "failed": "✗", "skipped": "-"}

_KEPT = 12
ENDS = {
    "node.finished": "finished",
    "node.recovered": "recovered",
    "node.failed": "failed",
    "node.skipped": "skipped",
}


@dataclass(slots=True)
class Ended:
    """A node that is done: how it ended, and what to say beside its name."""

    path: str
    how: str
    note: str
    phase: str = ""


@dataclass(slots=True)
class Tally:
    """`total` is what the definition declares; loops and maps may add more as they go."""

    total: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    running: dict[str, float] = field(default_factory=dict)
    phases: dict[str, str] = field(default_factory=dict)
    """The phase of each node that runs, where it has one."""
    last: deque[Ended] = field(default_factory=lambda: deque(maxlen=_KEPT))
    failures: list[Ended] = field(default_factory=list)
    started: float = 0.0
    run_id: str = ""
    name: str = ""

    @property
    def done(self) -> int:
        return sum(self.counts.values())

    def take(self, event: Event) -> Ended | None:
        """Add one event; what has just ended is returned."""
        kind = event.kind
        self.run_id = self.run_id or event.run_id
        if kind == "node.started":
            self.running[event.path] = event.at
            phase = (event.data or {}).get("phase")
            if phase:
                self.phases[event.path] = str(phase)
        elif kind in ENDS:
            began = self.running.pop(event.path, None)
            self.counts[ENDS[kind]] += 1
            phase = self.phases.pop(event.path, "") or str((event.data or {}).get("phase") or "")
            ended = Ended(event.path or event.node, ENDS[kind], _note(event, began), phase)
            self.last.append(ended)
            if ended.how == "failed" and len(self.failures) < _KEPT:
                self.failures.append(ended)
            return ended
        elif kind in ("run.started", "run.resumed"):
            data: dict[str, Any] = event.data or {}
            self.total = int(data.get("nodes") or self.total)
            self.started = self.started or event.at
        return None


def repeats(event: Event) -> str:
    """Say that a retry calls a tool again that took effect before, and how to use its result instead."""
    tool = (event.data or {}).get("tool")
    command = f"ropewalk runs retry {quote(event.run_id)} --accept {quote(event.node)}"
    return visible(f"{event.path}: {tool} ran before and is called again; to use its result instead: {command}")


def _note(event: Event, began: float | None) -> str:
    data: dict[str, Any] = event.data or {}
    if event.kind in ("node.failed", "node.recovered"):
        recorded = "recorded: " if data.get("replayed") else ""
        handled = "recovered from: " if event.kind == "node.recovered" else ""
        return recorded + handled + first_line(str(data.get("message") or "failed"), 200)
    if event.kind == "node.skipped":
        return str(data.get("reason") or "")
    if data.get("replayed"):
        return "recorded"
    if "ms" in data:
        return duration(data["ms"] / 1000)
    return duration(event.at - began) if began is not None else ""


LONGEST = 200  # characters of the path of a node


def line(ended: Ended) -> str:
    """`✓ path  note`, with the phase before the path where there is one."""
    phase = f"{ended.phase}: " if ended.phase else ""
    return visible(f"{MARKS[ended.how]} {phase}{first_line(ended.path, LONGEST)}  {ended.note}".rstrip())


def attempt_failed(event: Event) -> str:
    """What an attempt failed of, and whether that was before."""
    data: dict[str, Any] = event.data or {}
    recorded = "recorded: " if data.get("replayed") else ""
    said = first_line(str(data.get("message", "")), 200)
    return visible(f"! {first_line(event.path, 200)}  attempt failed: {recorded}{said}")


def is_new_wait(event: Event) -> bool:
    """Whether a node begins to wait, or goes on with it: not where it was answered before the run went on."""
    return event.kind == "wait.started" and not (event.data or {}).get("replayed")


def waits_for(event: Event) -> str:
    """What a node waits for, from its wait.started."""
    data: dict[str, Any] = event.data or {}
    what = f"an approval: {data['approval']}" if "approval" in data else f"the event {data.get('event')!r}"
    return visible(f"… {first_line(event.path, LONGEST)}  waits for {what}")


def unattended(event: Event) -> str:
    """That no worker takes a run."""
    return visible(f"… run {event.run_id} is {(event.data or {}).get('message')}")
