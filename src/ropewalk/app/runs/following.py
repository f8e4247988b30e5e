"""The reader of the events of one run that another process executes.

The store is read again and again, the less often the longer a read takes. Refused here: changing the run.
"""

from __future__ import annotations

import functools
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ...errors import RopewalkError
from ...events import Event
from ...ir import Graph, bodies
from ...journal.address import run_sync_in_thread
from ...journal.protocol import LOG, RunRow
from ...values import Json
from .liveness import RESUMABLE
from .numbered_lines import new_lines
from .steps import events_of, reuse_cutoff

if TYPE_CHECKING:
    from .queries import RunService

_POLL: Final = 0.1
_PAUSE_SHARE: Final = 5.0  # times as long as a look takes: of a long run it is the whole journal


class Following:
    """Reads the events of one run, each once, from the store."""

    # `poll`: Minimum number of seconds between two reads.
    # `pause`: Seconds to wait before the next `look`.
    # `over`: True when no more events will come.

    def __init__(self, runs: RunService, run_id: str, *, poll: float = _POLL, begins: bool = False) -> None:
        self._runs, self._run_id, self._poll = runs, run_id, poll
        self._reported: set[tuple[str, str]] = set()
        self._lines: dict[str, int] = {}  # the number of the last reported line, by path
        self._to_begin, self._queued = begins, False
        self.pause, self.over = poll, False

    async def look(self) -> list[Event]:
        """Return the new events."""

        # The last event is `run.finished` for a run that has ended, `run.waiting` for one that waits or was answered,
        # and `run.interrupted` for one that lost its process.
        before = time.monotonic()
        runs, id = self._runs, self._run_id
        row = await run_sync_in_thread(runs.store, lambda: runs.store.get_run(id))
        if row is None:
            self.over = True
            return []
        liveness = None
        if row.status == "running":
            liveness = (await run_sync_in_thread(runs.store, functools.partial(runs.liveness_of, [row]))).get(id)
        result = self._started(row) if liveness is None else []
        history = await run_sync_in_thread(runs.store, lambda: runs.history(id))
        recorded = reuse_cutoff(history, row)
        for entry, event in events_of(id, history, recorded):
            if entry.kind == LOG:  # the entry of a step that runs is written again and again
                data = new_lines(entry, self._lines.get(entry.path, 0))
                if data["lines"]:
                    self._lines[entry.path] = data["lines"][-1]["number"]
                    result.append(replace(event, data=data))
            elif (entry.path, entry.kind) not in self._reported:
                self._reported.add((entry.path, entry.kind))
                result.append(event)
        self.pause = max(self._poll, _PAUSE_SHARE * (time.monotonic() - before))
        return result + self._ends(row, liveness)

    def _started(self, row: RunRow) -> list[Event]:
        if not self._to_begin:
            return []
        self._to_begin = False
        try:
            nodes = _count(self._runs.context.definitions.get(row).flow.body)
        except RopewalkError:  # what this process cannot read a worker may: only the count is missing
            nodes = 0
        return [self._of_run("run.started", row.started_at, {"nodes": nodes, "name": row.name, "kind": row.kind})]

    def _ends(self, row: RunRow, liveness: str | None) -> list[Event]:
        self.over = row.status != "running" or liveness in RESUMABLE
        if row.status == "waiting":
            return [self._of_run("run.waiting", time.time(), {"status": row.status})]
        if row.status != "running":
            return [self._of_run("run.finished", row.ended_at or row.started_at, {"status": row.status})]
        if liveness == "answered":
            return [self._of_run("run.waiting", time.time(), {"status": row.status, "answered": True})]
        if liveness == "interrupted":
            return [self._of_run("run.interrupted", time.time())]
        if liveness == "queued" and not self._queued:
            self._queued = True
            return [self._of_run("run.queued", time.time(), {"queue": (row.context or {}).get("queue")})]
        return []

    def _of_run(self, kind: str, at: float, data: Json = None) -> Event:
        return Event(run_id=self._run_id, kind=kind, at=at, data=data)


def _count(body: Graph) -> int:
    """Return the number of declared nodes, at every level."""
    return sum(1 + sum(map(_count, bodies(node))) for node in body.nodes)
