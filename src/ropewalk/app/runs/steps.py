"""Present the journal of a run to people: a line of a list, the steps with their results, and events.

`run_summary` makes the line, `steps` the list that pages and interfaces show, and `events_of` the events that a watcher
of the running run would have received. `export_run` returns everything that the store holds of a run and its parts as
one JSON object; secrets appear in it only by name. `queries.py` (the service `app.runs`) and `pages.py` call this file.

A path names the instance of a node in a run, such as `each[3]/fetch@2`: iteration 3 of `each`, attempt 2 of `fetch`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from ...content import contents, hashes_of
from ...events import Event, bounded
from ...journal.protocol import BEGUN, LOG, NO_STEPS, Entry, RunRow, Store, iso
from ...values import Json
from ..recorded_run import MOST_PARTS, require_run
from .instances import without_attempts
from .numbered_lines import new_lines

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
    "row": "node.printed",
    "warning": "node.warned",
    "log": "node.log",
}

RESULT_KINDS = ("call", "call_failed", "attempt", "node", "skip")
"""The kinds of entries that record the result or the failure of a node."""
_REGION_SUFFIX = re.compile(r"\[[\w.:-]+\]$")
DECISION_KINDS = ("items", "branch", "timer", "wait", "signal")
"""The kinds of entries that record a decision of a node, made before the node does anything."""


def run_summary(row: RunRow, current: str | None = None) -> dict[str, Json]:
    """Present a run as one line of a list."""
    return {
        "runId": row.id,
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


def reuse_cutoff(history: Iterable[Entry], run: RunRow | None = None) -> float:
    """Return the time before which the recorded steps are reused: when a fork was created, or a run was last
    retried."""

    # Other runs have no such time. Their start is not used, because another host's clock may have set it.
    created = run.started_at if run is not None and run.forked_from is not None else 0.0
    return max((entry.ended for entry in history if entry.kind == "ending"), default=created)


def late_attempts(history: Iterable[Entry]) -> dict[str, Entry]:
    """Return the entries of calls that exceeded the timeout of their own node, by path."""

    # A result that is recorded next to such an entry came too late and does not count.
    listed = list(history)
    failed = {entry.path for entry in listed if entry.kind == "call_failed"}
    return {
        entry.path: entry
        for entry in listed
        if entry.kind == "attempt" and entry.path not in failed and _is_own_timeout(entry.path, entry.data)
    }


def _is_own_timeout(path: str, failed: Any) -> bool:
    return failed.get("kind") == "ToolTimeout" and failed.get("tool") is not None and failed.get("path") == path


def steps(
    history: Iterable[Entry],
    run: RunRow | None = None,
    related: Iterable[Entry] = (),
    blocks: Container[str] = (),
    *,
    is_last: bool = True,
) -> list[dict[str, Json]]:
    """Present a journal as the steps that people read, each once."""

    # A failed attempt is one step with its call, or with the block that it ended. A block whose value is not recorded
    # has no `value`.
    related = list(related)
    listed = _with_answers(history, related)
    known = [*listed, *related]
    cutoff = reuse_cutoff(known, run)
    attempts = {entry.path: entry for entry in known if entry.kind == "attempt"}
    logs = {entry.path: entry for entry in known if entry.kind == LOG}
    reported = {entry.path for entry in known if entry.kind in ("call_failed", "node")}
    valued = {entry.path for entry in known if entry.kind == "node"}
    late = late_attempts(known)
    enclosing = _enclosing_paths(known)
    result = []
    for entry in listed:
        # A failed attempt is shown by the entry of its node; a result that came too late by its failure. Only a run
        # without a journal has the value after a handled call, and shows that.
        if entry.kind in NO_STEPS or (entry.kind == "attempt" and entry.path in reported):
            continue
        if (entry.kind == "call" and entry.path in late) or (entry.kind == "call_failed" and entry.path in valued):
            continue
        row = {**step(entry), "replayed": entry.ended < cutoff}
        if entry.path in logs and (began := _earlier_start(logs[entry.path], entry.started, cutoff)) is not None:
            row["earlierStart"] = iso(began)
        # A block that failed has two entries, and so has a call whose result was rejected: they are one step.
        failed_attempt = attempts.get(entry.path)
        if failed_attempt is not None and entry.kind in ("node", "call_failed"):
            row |= _fields_of_failure(entry, failed_attempt)
        elif _lacks_value(entry, blocks, enclosing):
            del row["value"]
        result.append(row)
    return result + (_unrecorded_failures(run, known, result) if is_last else [])


def _earlier_start(log: Entry, started: float, cutoff: float) -> float | None:
    """Return when a step printed a line before it started: it had begun before, and its result was not recorded."""

    # Lines from before a retry are of an execution that ended. The times of lines are rounded to milliseconds.
    times = [line["at"] for line in log.data["lines"]] if isinstance(log.data, dict) else []
    return min((at for at in times if cutoff <= at < started - 0.001), default=None)


def _lacks_value(entry: Entry, blocks: Container[str], enclosing: Container[str]) -> bool:
    """Return True for the entry of a block without a recorded value, which must not look like null."""
    if entry.kind != "node" or entry.data is not None:
        return False
    return entry.path in blocks or without_attempts(entry.path) in enclosing


def _fields_of_failure(entry: Entry, attempt: Entry) -> dict[str, Json]:
    """Return the fields of a step whose last attempt failed: it failed, or a fallback recovered it."""
    if _was_handled(attempt):
        value = entry.data if entry.kind == "node" else None
        return {"status": "recovered", "value": value, "error": attempt.data}
    return {"status": "failed", "value": None, "error": attempt.data} if entry.kind == "node" else {}


def _was_handled(entry: Entry) -> bool:
    """Return True for a failed attempt after which a fallback, `onError` or skip took over."""
    return entry.kind == "attempt" and isinstance(entry.data, dict) and bool(entry.data.get("handled"))


def _unrecorded_failures(run: RunRow | None, listed: list[Entry], rows: list[dict[str, Json]]) -> list[dict[str, Json]]:
    """Return the failures without an entry that ended a run, such as a rejected approval or a failed expression."""

    # Each is a failed step of its node, from the time when the node started to wait.
    if run is None or run.ended_at is None or not isinstance(run.result, dict):
        return []
    reported = {without_attempts(str(row["path"])) for row in rows if row["status"] in ("failed", "recovered")}
    reported |= {without_attempts(entry.path) for entry in listed if entry.kind in ("attempt", "call_failed")}
    first_entries = {entry.path: entry for entry in reversed(listed)}
    errors: Any = run.result.get("errors")
    failures: list[dict[str, Json]] = []
    for error in errors if isinstance(errors, list) else ():
        path = error.get("path") if isinstance(error, dict) else None
        if not path or without_attempts(path) in reported:
            continue
        names = ("message", "kind", *(name for name in ("at", "stack") if name in error))
        data = {name: error.get(name) for name in names}
        first_entry = first_entries.get(path)
        if first_entry is None:
            node, since = error.get("nodeId") or path, run.ended_at
        else:
            node, since = first_entry.node, first_entry.started
        failures.append({**step(Entry(path, "attempt", node, data, "", since, run.ended_at)), "replayed": False})
    return failures


def _enclosing_paths(entries: Iterable[Entry]) -> set[str]:
    """Return the paths, without attempts, of the nodes with a decision or an entry inside them."""
    result: set[str] = set()
    for entry in entries:
        path = without_attempts(entry.path)
        if entry.kind in ("items", "branch"):
            result.add(path)
        # Go up from node to node until one is known, and with it all above.
        while "/" in path:
            path = _REGION_SUFFIX.sub("", path.rpartition("/")[0])
            if path in result:
                break
            result.add(path)
    return result


def earlier_endings(history: Iterable[Entry]) -> list[dict[str, Json]]:
    """Return how a run had ended before each retry, the earliest first, with the failed steps that were repeated."""
    listed = list(history)
    # A process that died within a retry may have left its failed steps both here and in the journal.
    reported = [_failure_of(step(entry)) for entry in listed if entry.kind in ("attempt", "call_failed")]
    endings: list[dict[str, Json]] = []
    for entry in sorted((item for item in listed if item.kind == "ending"), key=lambda item: item.ended):
        failed = [step for step in entry.data.get("failed", ()) if _failure_of(step) not in reported]
        reported += map(_failure_of, failed)
        data = {"failedCount": 0, **entry.data, "failed": failed, "endTime": iso(entry.ended)}
        endings.append(data)
    return endings


def _failure_of(step: Mapping[str, Json]) -> tuple[Json, ...]:
    """Return which failure a step shows; the times alone do not say it, because they are in milliseconds."""
    return step["path"], step["started"], step["ended"], step["error"]


def step(entry: Entry) -> dict[str, Json]:
    """Present a journal entry as a step."""

    # A decision of a node (its items, its branch, its deadline) is made before the node does anything. Its status is
    # `decided`.
    failed = entry.kind in ("call_failed", "attempt")
    status = "failed" if failed else "skipped" if entry.kind == "skip" else "ok"
    if _was_handled(entry):
        status = "recovered"
    if entry.kind in DECISION_KINDS:
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


def events_of(run_id: str, history: Iterable[Entry], cutoff: float = 0.0) -> Iterable[tuple[Entry, Event]]:
    """Pair each journal entry with its event."""

    # A failed call that was retried or handled is a failed attempt, because the node did not fail.
    listed = _with_answers(history)
    handled = {entry.path for entry in listed if _was_handled(entry)}
    retried = {entry.path for entry in listed if entry.kind == "attempt" and entry.data.get("due") is not None}
    failed = {entry.path for entry in listed if entry.kind == "call_failed"}
    for entry in listed:
        if entry.kind in (BEGUN, "undo") or (entry.kind == "row" and not _is_printed(entry)):
            continue
        is_node_shown = entry.kind == "node" and (entry.path in handled or entry.path in failed)
        if is_node_shown or (entry.kind == "call_failed" and entry.path in retried):
            continue  # the entry of its attempt says it
        event = event_of(run_id, entry, cutoff)
        if entry.kind == "call_failed" and entry.path in handled:
            event = replace(event, kind="attempt.failed")
        yield entry, event


def _with_answers(history: Iterable[Entry], related: Iterable[Entry] = ()) -> list[Entry]:
    from .program_rows import with_answers  # only runs of programs have rows

    return with_answers(history, related)


def _is_printed(entry: Entry) -> bool:
    return isinstance(entry.data, list) and _row(entry).kind == "printed"


def _row(entry: Entry) -> Any:
    from .program_rows import row_of  # only runs of programs have rows

    return row_of(entry)


def event_of(run_id: str, entry: Entry, cutoff: float = 0.0) -> Event:
    """Return the event of a journal entry."""
    kind = EVENT_OF.get(entry.kind, entry.kind) if not _was_handled(entry) else "node.recovered"
    data: Any = entry.data
    if kind == "run.retried":
        data = {name: value for name, value in data.items() if name not in ("failed", "failedCount")}
    if kind == "node.log":
        data = new_lines(entry)
    if kind == "node.printed":
        data = {"text": json.loads(_row(entry).value)}
    if kind == "node.finished":
        data = {"ms": round((entry.ended - entry.started) * 1000, 3)}
        if entry.kind == "call" or entry.data is not None:  # the value of a node with a block is not recorded
            data |= bounded("output", entry.data)
    if entry.ended < cutoff and entry.kind in (*RESULT_KINDS, "wait") and (data is None or isinstance(data, dict)):
        data = {**(data or {}), "replayed": True}
    return Event(run_id=run_id, kind=kind, at=entry.ended, path=entry.path, node=entry.node, data=data)


EXPORT_VERSION = 1


def export_run(store: Store, run_id: str) -> dict[str, Json]:
    """Export everything that is recorded of a run and its parts."""

    # Secrets appear only by name.
    result: dict[str, Any] = _run_with_parts(store, run_id)
    bytes_by_hash = {hash: base64.b64encode(data).decode() for hash, data in _content_of(result)}
    return {**result, "contents": bytes_by_hash} if bytes_by_hash else result


def _run_with_parts(store: Store, run_id: str) -> dict[str, Json]:
    row = require_run(store, run_id)
    return {
        "ropewalkRun": EXPORT_VERSION,
        "run": asdict(row),
        "entries": [asdict(entry) for entry in store.history(run_id)],
        "signals": [asdict(signal) for signal in store.signals(run_id)],
        "parts": [
            _run_with_parts(store, part.id) for part in reversed(store.list_runs(parent=run_id, limit=MOST_PARTS))
        ],
    }


def _content_of(exported: dict[str, Json]) -> Iterable[tuple[str, bytes]]:
    for hash in dict.fromkeys(hashes_of(exported)):
        data = contents.find(hash)
        if data is not None:
            yield hash, data
