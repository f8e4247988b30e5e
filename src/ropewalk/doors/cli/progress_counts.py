"""Counts of a run's events, and the line of text for each: both displays of `progress` and `runs watch` use them.

The work per event is constant, whatever the size of the graph. To show another kind of event, add a function that
returns its line.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from shlex import quote
from typing import Any, Final

from ...errors import raised_at
from ...events import Event
from ...source.document import escape_invisible
from ..remedies import given_options
from .output import duration, first_line

REUSED: Final = "reused"
MARKS: Final = {"finished": "✓", REUSED: "↺", "recovered": "~", "failed": "✗", "skipped": "-"}
"""The sign of each way in which a step ends."""
NODE_ENDS: Final = {
    "node.finished": "finished",
    "node.recovered": "recovered",
    "node.failed": "failed",
    "node.skipped": "skipped",
}
MAX_PATH: Final = 200  # characters of the path of a node
_KEPT: Final = 12  # steps that are remembered


@dataclass(slots=True)
class EndedNode:
    """A step that has ended."""

    # The path of its node.
    path: str
    # A key of `MARKS`.
    how: str
    # Its duration, its error, or why it was skipped.
    note: str
    # The phase of its node, "" if it has none.
    phase: str = ""


@dataclass(slots=True)
class RunCounts:
    """Counts over the events of a run."""

    # The nodes that the definition declares. Loops and maps may add more while they run.
    total: int = 0
    # How many steps ended in each way.
    counts: Counter[str] = field(default_factory=Counter)
    # When each running step started, in seconds since the epoch.
    running: dict[str, float] = field(default_factory=dict)
    # The phase of each running step that has one.
    phases: dict[str, str] = field(default_factory=dict)
    # The steps that ended last.
    last: deque[EndedNode] = field(default_factory=lambda: deque(maxlen=_KEPT))
    # The first steps that failed.
    failures: list[EndedNode] = field(default_factory=list)
    # The steps that were recorded and not executed now, failed ones included.
    reused: int = 0
    # The first steps that were executed now, not reused.
    executed: list[EndedNode] = field(default_factory=list)
    started: float = 0.0
    run_id: str = ""
    name: str = ""

    @property
    def done(self) -> int:
        """The number of steps that have ended."""
        return sum(self.counts.values())

    def take(self, event: Event) -> EndedNode | None:
        """Add one event, and return the step that ended with it, if one did."""
        kind = event.kind
        self.run_id = self.run_id or event.run_id
        if kind == "node.started":
            self.running[event.path] = event.at
            phase = (event.data or {}).get("phase")
            if phase:
                self.phases[event.path] = str(phase)
        elif kind in NODE_ENDS:
            return self._end(event)
        elif kind in ("run.started", "run.resumed"):
            data: dict[str, Any] = event.data or {}
            self.total = int(data.get("nodes") or self.total)
            self.started = self.started or event.at
        return None

    def _end(self, event: Event) -> EndedNode:
        data: dict[str, Any] = event.data or {}
        began = self.running.pop(event.path, None)
        how = REUSED if event.kind == "node.finished" and data.get("replayed") else NODE_ENDS[event.kind]
        phase = self.phases.pop(event.path, "") or str(data.get("phase") or "")
        ended = EndedNode(event.path or event.node, how, _note(event, began), phase)
        self.counts[how] += 1
        self.last.append(ended)
        if how == "failed" and len(self.failures) < _KEPT:
            self.failures.append(ended)
        if how != "skipped" and data.get("replayed"):
            self.reused += 1
        elif how != "skipped" and len(self.executed) < _KEPT:
            self.executed.append(ended)
        return ended


def changes(counts: RunCounts) -> list[str]:
    """Say which steps were executed now, if any step was reused from an earlier execution."""
    reused = counts.reused
    if not reused:
        return []
    executed = sum(counts.counts[how] for how in MARKS if how != "skipped") - reused
    names = [escape_invisible(f"{MARKS[step.how]} {first_line(step.path, MAX_PATH)}") for step in counts.executed]
    more = [f"and {executed - len(names):,} more"] if executed > len(names) else []
    steps = "step" if reused == 1 else "steps"
    return [f"  executed  {', '.join([*names, *more]) or 'no step'}", f"  reused    {MARKS[REUSED]} {reused:,} {steps}"]


def repeats_message(event: Event) -> str:
    """Say that a tool is called again that took effect before; of a retry also how to use its result instead."""
    data: dict[str, Any] = event.data or {}
    tool, node = data.get("tool"), data.get("accept", event.node)
    if "of" in data:
        return escape_invisible(f"{event.path}: {tool} ran in run {data['of']} and is called again")
    command = f"ropewalk runs retry {quote(event.run_id)} --accept {quote(str(node))}{given_options()}"
    return escape_invisible(
        f"{event.path}: {tool} ran before and is called again; to use its result instead: {command}"
    )


def _note(event: Event, began: float | None) -> str:
    data: dict[str, Any] = event.data or {}
    if event.kind in ("node.failed", "node.recovered"):
        recorded = "recorded: " if data.get("replayed") else ""
        message = first_line(str(data.get("message") or "failed"), 200)
        if event.kind == "node.recovered":  # no result has the place of a failure that was handled
            message = f"recovered from: {message}{raised_at(data)}"
        return recorded + message
    if event.kind == "node.skipped":
        return str(data.get("reason") or "")
    if data.get("replayed"):
        return "recorded"
    if "ms" in data:
        return duration(data["ms"] / 1000)
    return duration(event.at - began) if began is not None else ""


def node_line(ended: EndedNode) -> str:
    """Render a step that has ended: its sign, its phase if it has one, its path and its note."""
    phase = f"{ended.phase}: " if ended.phase else ""
    return escape_invisible(f"{MARKS[ended.how]} {phase}{first_line(ended.path, MAX_PATH)}  {ended.note}".rstrip())


def attempt_failed_line(event: Event) -> str:
    """Say why an attempt failed, and whether it is a recorded one."""
    data: dict[str, Any] = event.data or {}
    recorded = "recorded: " if data.get("replayed") else ""
    message = first_line(str(data.get("message", "")), 200)
    return escape_invisible(f"! {first_line(event.path, MAX_PATH)}  attempt failed: {recorded}{message}")


def is_new_wait(event: Event) -> bool:
    """Return True if a node starts to wait now; False for a wait that was answered before the run was resumed."""
    return event.kind == "wait.started" and not (event.data or {}).get("replayed")


def wait_line(event: Event) -> str:
    """Say what a node waits for."""
    data: dict[str, Any] = event.data or {}
    return escape_invisible(f"… {first_line(event.path, MAX_PATH)}  waits for {awaited(data)}")


def awaited(wait: Mapping[str, Any]) -> str:
    """Say what a wait is for: the approval, the answer to a question of an MCP server, or the event."""
    if "approval" in wait:
        return f"an approval: {wait['approval']}"
    question = wait.get("question")
    if question is not None:
        return f"an answer: {question['server']} asks: {first_line(question['message'], MAX_PATH)}"
    return f"the event {wait.get('event')!r}"


def unattended_message(event: Event) -> str:
    """Say that no worker executes a queued run."""
    return escape_invisible(f"… run {event.run_id} is {(event.data or {}).get('message')}")


def printed_lines(event: Event) -> Iterator[str]:
    """Yield the new lines of a step for a terminal."""
    data: Any = event.data
    if data.get("leftOut"):
        yield f"… {data['leftOut']:,} lines are left out"
    for line in data["lines"]:
        if line["stream"] != "log":  # the handlers of the process have shown it, if its level is shown
            yield escape_invisible(line["text"])
