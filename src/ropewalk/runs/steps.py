"""Rows and journals as people read them: lines, steps, events."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import replace
from typing import Any

from ..events import Event, bounded
from ..journal.journal import Entry, RunRow
from ..journal.waiting import iso
from ..values import Json
from .instances import without_attempts

EVENT_OF = {
    "call": "node.finished",
    "node": "node.finished",
    "call_failed": "node.failed",
    "attempt": "attempt.failed",
    "skip": "node.skipped",
    "timer": "timer.set",
    "wait": "wait.started",
    "signal": "signal.received",
    "items": "items.listed",
    "branch": "branch.taken",
    "ending": "run.retried",
}

RECORDED = ("call", "call_failed", "attempt", "node", "skip")
"""What the record of a node is called that has ended, or has been tried."""
_ARM = re.compile(r"\[\w+\]$")
DECIDED = ("items", "branch", "timer", "wait", "signal")


def summary(row: RunRow, current: str | None = None) -> dict[str, Json]:
    """A run in a line of a list; `duration` is the time of its execution alone."""
    return {
        "id": row.id,
        "name": row.name,
        "kind": row.kind,
        "status": row.status,
        "startTime": iso(row.started_at),
        "endTime": iso(row.ended_at),
        "duration": round((row.spent or row.ended_at - row.started_at) * 1000, 3) if row.ended_at else None,
        "currentNode": current,
        "resultCount": row.result_count,
        "errorCount": row.error_count,
    }


def taken_over(history: Iterable[Entry], run: RunRow | None = None) -> float:
    """Until when what is recorded is from before: before a fork was made, or a run was last set running again. What is
    older was not done again but `replayed`. Of no other run is its start asked: that may be by another host's clock."""
    made = run.started_at if run is not None and run.forked_from is not None else 0.0
    return max((entry.ended for entry in history if entry.kind == "ending"), default=made)


def too_late(history: Iterable[Entry]) -> dict[str, Entry]:
    """What is recorded of the calls that did not end within the own timeout of their node, by path. Beside it there
    may be a result, which came when the time was over: that is none."""
    listed = list(history)
    failed = {entry.path for entry in listed if entry.kind == "call_failed"}
    return {
        entry.path: entry
        for entry in listed
        if entry.kind == "attempt" and entry.path not in failed and _is_late(entry.path, entry.data)
    }


def _is_late(path: str, failed: Any) -> bool:
    return failed.get("kind") == "ToolTimeout" and failed.get("tool") is not None and failed.get("path") == path


def steps(
    history: Iterable[Entry],
    run: RunRow | None = None,
    beside: Iterable[Entry] = (),
    blocks: Container[str] = (),
    *,
    is_last: bool = True,
) -> list[dict[str, Json]]:
    """A journal as the steps that people read, each once: what is recorded of a failed attempt beside
    its call, or beside the block that it ended, is one step with it. One with nodes inside whose value is not
    kept has none.

    Of one page of a journal `beside` are the entries elsewhere that belong to its steps, and `blocks` the nodes with
    nodes inside. Failures that are no entry are in the last page.
    """
    listed = list(history)
    known = [*listed, *beside]
    before = taken_over(known, run)
    failed = {entry.path: entry for entry in known if entry.kind == "attempt"}
    told = {entry.path for entry in known if entry.kind in ("call_failed", "node")}
    late = too_late(known)
    around = _around(known)
    found = []
    for entry in listed:
        if entry.kind in ("ending", "offer") or (entry.kind == "attempt" and entry.path in told):
            continue
        if entry.kind == "call" and entry.path in late:
            continue
        row = {**step(entry), "replayed": entry.ended < before}
        gave_up = failed.get(entry.path)
        if gave_up is not None and entry.kind in ("node", "call_failed"):
            row |= _gave_up(entry, gave_up)
        elif (
            entry.kind == "node"
            and entry.data is None
            and (entry.path in blocks or without_attempts(entry.path) in around)
        ):
            del row["value"]
        found.append(row)
    return found + (_unrecorded(run, known, found) if is_last else [])


def _gave_up(entry: Entry, attempt: Entry) -> dict[str, Json]:
    """What the last attempt of a node says of its step: it failed, or something took over and it recovered."""
    if _handled(attempt):
        value = entry.data if entry.kind == "node" else None
        return {"status": "recovered", "value": value, "error": attempt.data}
    return {"status": "failed", "value": None, "error": attempt.data} if entry.kind == "node" else {}


def _handled(entry: Entry) -> bool:
    """Return True for a failed attempt after which a fallback, `onError` or skip took over."""
    return entry.kind == "attempt" and isinstance(entry.data, dict) and bool(entry.data.get("handled"))


def _unrecorded(run: RunRow | None, listed: list[Entry], found: list[dict[str, Json]]) -> list[dict[str, Json]]:
    """The failures that ended a run and are no entry of their own, as they come of what is recorded: of a refused
    approval, of an expression. Their nodes are failed like any other, since they began to wait."""
    if run is None or run.ended_at is None or not isinstance(run.result, dict):
        return []
    told = {without_attempts(str(row["path"])) for row in found if row["status"] in ("failed", "recovered")}
    told |= {without_attempts(entry.path) for entry in listed if entry.kind in ("attempt", "call_failed")}
    begun = {entry.path: entry for entry in reversed(listed)}
    errors: Any = run.result.get("errors")
    made: list[dict[str, Json]] = []
    for error in errors if isinstance(errors, list) else ():
        path = error.get("path") if isinstance(error, dict) else None
        if not path or without_attempts(path) in told:
            continue
        data = {"message": error.get("message"), "kind": error.get("kind")}
        before = begun.get(path)
        node, since = (error.get("nodeId") or path, run.ended_at) if before is None else (before.node, before.started)
        made.append({**step(Entry(path, "attempt", node, data, "", since, run.ended_at)), "replayed": False})
    return made


def _around(entries: Iterable[Entry]) -> set[str]:
    """The paths, without attempts, of the nodes that have decided what is inside of them, or have begun it."""
    found: set[str] = set()
    for entry in entries:
        path = without_attempts(entry.path)
        if entry.kind in ("items", "branch"):
            found.add(path)
        while "/" in path:
            path = _ARM.sub("", path.rpartition("/")[0])
            if path in found:
                break
            found.add(path)
    return found


def endings(history: Iterable[Entry]) -> list[dict[str, Json]]:
    """How a run had ended before it was set running again, the earliest first."""
    return [{**entry.data, "endTime": iso(entry.ended)} for entry in history if entry.kind == "ending"]


def step(entry: Entry) -> dict[str, Json]:
    """A journal entry as a step. A decision of a node (what it goes over, which branch it takes, until
    when it waits) is made before the node does anything: `decided` is neither an end nor a value."""
    failed = entry.kind in ("call_failed", "attempt")
    status = "failed" if failed else "skipped" if entry.kind == "skip" else "ok"
    if _handled(entry):
        status = "recovered"
    if entry.kind in DECIDED:
        status = "decided"
    return {
        "path": entry.path,
        "node": entry.node,
        "kind": entry.kind,
        "status": status,
        "started": iso(entry.started),
        "ended": iso(entry.ended),
        "ms": round((entry.ended - entry.started) * 1000, 3),
        "value": entry.data if status == "ok" else None,
        "error": entry.data if failed else None,
        "reason": entry.data.get("reason") if status == "skipped" and isinstance(entry.data, dict) else None,
        "decision": entry.data if status == "decided" else None,
    }


def events_of(run_id: str, history: Iterable[Entry], before: float = 0.0) -> Iterable[tuple[Entry, Event]]:
    """Each journal entry with the event it was. A call that failed and was tried again, or was handled, is a failed
    attempt: the node did not fail with it."""
    listed = list(history)
    handled = {entry.path for entry in listed if _handled(entry)}
    again = {entry.path for entry in listed if entry.kind == "attempt" and entry.data.get("due") is not None}
    for entry in listed:
        if (entry.kind == "node" and entry.path in handled) or (entry.kind == "call_failed" and entry.path in again):
            continue  # the entry of its attempt says it
        event = event_of(run_id, entry, before)
        if entry.kind == "call_failed" and entry.path in handled:
            event = replace(event, kind="attempt.failed")
        yield entry, event


def event_of(run_id: str, entry: Entry, before: float = 0.0) -> Event:
    """A journal entry as the event it was; one from `before` that is marked as live ones are."""
    kind = EVENT_OF.get(entry.kind, entry.kind) if not _handled(entry) else "node.recovered"
    data: Any = entry.data
    if kind == "node.finished":
        data = {"ms": round((entry.ended - entry.started) * 1000, 3)}
        if entry.kind == "call" or entry.data is not None:  # the value of a node with a block is not recorded
            data |= bounded("output", entry.data)
    if entry.ended < before and entry.kind in (*RECORDED, "wait") and (data is None or isinstance(data, dict)):
        data = {**(data or {}), "replayed": True}
    return Event(run_id=run_id, kind=kind, at=entry.ended, path=entry.path, node=entry.node, data=data)
