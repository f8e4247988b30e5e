"""What has happened in a run since one last looked: `runs watch`, and whoever waits for a run that workers execute."""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Final

from ..errors import RopewalkError
from ..events import Event
from ..ir import Graph, bodies
from ..journal.journal import RunRow
from ..journal.offloop import off_loop
from ..values import Json
from .pinned import pinned
from .standing import LEFT
from .steps import events_of, taken_over

if TYPE_CHECKING:
    from .seen import Runs

_POLL: Final = 0.1
_SHARE: Final = 5.0  # times as long as a look takes: of a long run it is the whole journal


class Following:
    """One run, look by look: each of its events once. `pause` is how long, in seconds, to wait for the next look;
    `over` when nothing comes any more. With `begins` run.started is told when somebody has the run."""

    def __init__(self, runs: Runs, run_id: str, *, poll: float = _POLL, begins: bool = False) -> None:
        self._runs, self._run_id, self._poll = runs, run_id, poll
        self._seen: set[tuple[str, str]] = set()
        self._to_begin, self._queued = begins, False
        self.pause, self.over = poll, False

    async def look(self) -> list[Event]:
        """What is new. The last event is run.finished when it has ended, run.waiting when it waits without a process,
        has got what it waited for, and run.interrupted when its process is gone: then it is over for now."""
        before = time.monotonic()
        runs, id = self._runs, self._run_id
        row = await off_loop(runs.store, lambda: runs.store.get_run(id))
        if row is None:
            self.over = True
            return []
        standing = None
        if row.status == "running":
            standing = (await off_loop(runs.store, functools.partial(runs.standing, [row]))).get(id)
        found = self._begun(row) if standing is None else []
        history = await off_loop(runs.store, lambda: runs.history(id))
        recorded = taken_over(history, row)
        for entry, event in events_of(id, history, recorded):
            if (entry.path, entry.kind) not in self._seen:
                self._seen.add((entry.path, entry.kind))
                found.append(event)
        self.pause = max(self._poll, _SHARE * (time.monotonic() - before))
        return found + self._ends(row, standing)

    def _begun(self, row: RunRow) -> list[Event]:
        if not self._to_begin:
            return []
        self._to_begin = False
        try:
            nodes = _count(pinned(self._runs.app, row).flow.body)
        except RopewalkError:  # what this process cannot read a worker may: only the count is missing
            nodes = 0
        return [self._of_run("run.started", row.started_at, {"nodes": nodes, "name": row.name, "kind": row.kind})]

    def _ends(self, row: RunRow, standing: str | None) -> list[Event]:
        self.over = row.status != "running" or standing in LEFT
        if row.status == "waiting":
            return [self._of_run("run.waiting", time.time(), {"status": row.status})]
        if row.status != "running":
            return [self._of_run("run.finished", row.ended_at or row.started_at, {"status": row.status})]
        if standing == "answered":
            return [self._of_run("run.waiting", time.time(), {"status": row.status, "answered": True})]
        if standing == "interrupted":
            return [self._of_run("run.interrupted", time.time())]
        if standing == "queued" and not self._queued:
            self._queued = True
            return [self._of_run("run.queued", time.time(), {"queue": (row.context or {}).get("queue")})]
        return []

    def _of_run(self, kind: str, at: float, data: Json = None) -> Event:
        return Event(run_id=self._run_id, kind=kind, at=at, data=data)


def _count(body: Graph) -> int:
    """How many nodes are declared, at every level."""
    return sum(1 + sum(map(_count, bodies(node))) for node in body.nodes)
