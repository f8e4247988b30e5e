"""Runs as people look at them: lists, details, events as they happen, stopping."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..engine.waits import APPROVAL
from ..errors import JournalConflict, NotFound, NotWaiting, RunEnded
from ..events import Event
from ..journal.journal import ENDS, Entry, RunRow
from ..journal.waiting import iso, open_waits, shown, worded
from ..values import Json

if TYPE_CHECKING:
    from ..app import App, Outcome
    from ..jobs import Executor

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

DECIDED = ("items", "branch", "timer", "wait", "signal")
MOST = 100_000


Waiting = list[dict[str, Json]]
Listed = list[RunRow]
History = list[Entry]


class Runs:
    """`app.runs`: every run in the store, whoever executes it."""

    def __init__(self, app: App) -> None:
        self.app, self.engine, self.store = app, app.engine, app.store

    def list(
        self,
        *,
        status: str | None = None,
        kind: str | None = None,
        definition_id: str | None = None,
        text: str | None = None,
        since: float | None = None,
        all: bool = False,
        limit: int = 50,
    ) -> Listed:
        """The newest runs first, without their large values; with `all` also those that are part of
        another: flows that it called as tools."""
        return self.store.list_runs(
            status=status, kind=kind, definition_id=definition_id, text=text, since=since, top=not all, limit=limit
        )

    def row(self, run_id: str) -> RunRow | None:
        return self.store.get_run(run_id)

    def history(self, run_id: str) -> History:
        """Everything recorded so far, in order."""
        live = self.engine.live.get(run_id)
        if live is not None and not self.store.durable:
            return live.entries()
        return self.store.history(run_id)

    def get(self, run_id: str) -> dict[str, Json] | None:
        """One run with every recorded step; None when there is no such run."""
        row = self.store.get_run(run_id)
        if row is None:
            return None
        history = self.history(run_id)
        return {
            **summary(row, self.current(row)),
            "interrupted": row.status == "running" and run_id in self.interrupted(),
            "definitionId": row.definition_id,
            "parent": row.parent,
            "owner": row.owner,
            "input": row.input,
            "result": row.result,
            "error": row.error,
            "endings": endings(history),
            "waitingFor": [] if row.status in ENDS else [shown(wait) for wait in open_waits(history)],
            "nodes": steps(history),
            "events": [event_of(run_id, entry).to_dict() for entry in history],
        }

    def current(self, row: RunRow) -> str | None:
        """The node a live run is at."""
        if row.status in ENDS:
            return None
        live = self.engine.live.get(row.id)
        return (live.position() if live is not None else None) or row.current_node or None

    def interrupted(self) -> set[str]:
        """The ids of runs whose process is gone before they ended: `resume` goes on with them."""
        return {row.id for row in self.store.orphans() if row.status == "running"}

    def stop(self, run_id: str) -> bool:
        """Stop a run that is running or waiting, in whatever process; True when it was."""
        return self.engine.stop(run_id)

    async def retry(
        self,
        run_id: str,
        from_nodes: Sequence[str] = (),
        *,
        executor: Executor | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Outcome:
        """Go on with a run that has ended: what failed runs again, of a for_each only the items that failed. With
        `from_nodes` (ids, names or paths such as `each[3]/fetch`) those and everything that depends on them.

        Everything else keeps its recorded result. Raises NothingToRetry where that would do nothing, NotFound for a
        run or node that is not there, RunBusy while the run is being executed.
        """
        from .rerun import retry

        return self.app.outcome(await retry(self.app, run_id, from_nodes, executor, on_event))

    def waiting(self, run_id: str | None = None) -> Waiting:
        """What a run waits for, or what all runs that are running or waiting do: events and approvals, each with
        its run, its path and its node. Raises NotFound for an unknown run."""
        if run_id is None:
            rows = [row for status in ("running", "waiting") for row in self.store.list_runs(status=status, limit=MOST)]
            ids = sorted(row.id for row in rows)
        else:
            ids = [run_id] if self._known(run_id).status not in ENDS else []
        return [{"runId": id, **shown(wait)} for id in ids for wait in open_waits(self.history(id))]

    def send(self, run_id: str, event: str, payload: Json = None, *, id: str | None = None, early: bool = True) -> bool:
        """Send an event to a run; it is kept until a wait for it takes it. The same `id` is sent once: False when
        it was there. Not `early` it is refused (NotWaiting) unless the run waits for it now."""
        if not early:
            waits = self.waiting(run_id) if self._open(run_id) else []
            if not any(wait.get("event") == event for wait in waits):
                raise NotWaiting(run_id, f"the event {event!r}", map(worded, waits))
        return self.store.send(run_id, event, payload, id=id)

    def approve(
        self,
        run_id: str,
        name: str | None = None,
        *,
        approved: bool = True,
        by: str | None = None,
        note: str | None = None,
    ) -> dict[str, Json]:
        """Answer an approval that the run waits for: the one at this path or of this node, the only one without a
        `name`. Gives what was answered; raises NotWaiting when there is none, or more than one."""
        self._open(run_id)
        waits = self.waiting(run_id)
        asked = [wait for wait in waits if "approval" in wait and name in (None, wait["path"], wait["node"])]
        what = "an approval" if name is None else f"an approval at {name!r}"
        if len(asked) != 1:
            why = f"there are {len(asked)}, name one: {', '.join(wait['path'] for wait in asked)}" if asked else ""
            raise NotWaiting(run_id, what if not asked else "one approval only", map(worded, waits), why)
        [wait] = asked
        if wait["due"] is not None and wait["due"] < (iso(time.time()) or ""):
            raise NotWaiting(run_id, what, why=f"its time was over at {wait['due']}")
        answer = {"approved": approved, "by": by, "note": note}
        try:
            sent = self.store.send(run_id, APPROVAL + wait["path"], answer, id=f"{wait['path']} {wait['since']}")
        except JournalConflict:
            sent = False
        if not sent:
            raise NotWaiting(run_id, what, why=f"{wait['path']} has been answered already")
        return {**wait, **answer}

    def _known(self, run_id: str) -> RunRow:
        row = self.store.get_run(run_id)
        if row is None:
            raise NotFound("run", run_id)
        return row

    def _open(self, run_id: str) -> RunRow:
        row = self._known(run_id)
        if row.status in ENDS:
            raise RunEnded(run_id, row.status)
        return row

    async def watch(self, run_id: str, *, poll: float = 0.1) -> AsyncIterator[Event]:
        """Its events so far and as they are recorded, until the run has ended, or waits without a process, or its
        process is gone: the last event is run.finished, run.waiting or run.interrupted."""
        seen: set[tuple[str, str]] = set()
        while True:
            row = self.store.get_run(run_id)
            for entry in self.history(run_id):
                if (entry.path, entry.kind) not in seen:
                    seen.add((entry.path, entry.kind))
                    yield event_of(run_id, entry)
            if row is not None and row.status == "waiting":
                yield Event(run_id=run_id, kind="run.waiting", at=time.time(), data={"status": row.status})
                return
            if row is None or row.status != "running":
                if row is not None:
                    at = row.ended_at or row.started_at
                    yield Event(run_id=run_id, kind="run.finished", at=at, data={"status": row.status})
                return
            if run_id in self.interrupted():
                yield Event(run_id=run_id, kind="run.interrupted", at=time.time())
                return
            await asyncio.sleep(poll)


def summary(row: RunRow, current: str | None = None) -> dict[str, Json]:
    """A run in a line of a list."""
    return {
        "id": row.id,
        "name": row.name,
        "kind": row.kind,
        "status": row.status,
        "startTime": iso(row.started_at),
        "endTime": iso(row.ended_at),
        "currentNode": current,
        "resultCount": row.result_count,
        "errorCount": row.error_count,
    }


def steps(history: Iterable[Entry]) -> list[dict[str, Json]]:
    """A journal as the steps that people read, each once: what is recorded of a failed attempt beside
    its call, or beside the block that it ended, is one step with it."""
    listed = list(history)
    failed = {entry.path: entry for entry in listed if entry.kind == "attempt"}
    told = {entry.path for entry in listed if entry.kind in ("call_failed", "node")}
    found = []
    for entry in listed:
        if entry.kind == "ending" or (entry.kind == "attempt" and entry.path in told):
            continue
        row = step(entry)
        if entry.kind == "node" and entry.path in failed:
            row |= {"status": "failed", "value": None, "error": failed[entry.path].data}
        found.append(row)
    return found


def endings(history: Iterable[Entry]) -> list[dict[str, Json]]:
    """How a run had ended before it was set running again, the earliest first."""
    return [{**entry.data, "endTime": iso(entry.ended)} for entry in history if entry.kind == "ending"]


def step(entry: Entry) -> dict[str, Json]:
    """A journal entry as a step. A decision of a node (what it goes over, which branch it takes, until
    when it waits) is made before the node does anything: `decided` is neither an end nor a value."""
    failed = entry.kind in ("call_failed", "attempt")
    status = "failed" if failed else "skipped" if entry.kind == "skip" else "ok"
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


def event_of(run_id: str, entry: Entry) -> Event:
    """A journal entry as the event it was."""
    kind = EVENT_OF.get(entry.kind, entry.kind)
    data: Any = entry.data
    if kind == "node.finished":
        data = {"ms": round((entry.ended - entry.started) * 1000, 3)}
    return Event(run_id=run_id, kind=kind, at=entry.ended, path=entry.path, node=entry.node, data=data)
