"""The queued runs of a store in SQLite: which wait, which may begin, and which processes execute them.

A queued run is one with a row in `queue` that has not ended. Its lease says who executes it, as for every run: a run
without an owner waits, and the process that claims the lease executes it. So a process that dies loses nothing, and two
processes never execute one run. The limits of a queue are checked in the transaction that claims the lease.

Every process that executes queued runs has a row in `worker`. The clock is that of the machine.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import orjson

from ..config.settings import Queue
from ..errors import RunBusy, StoreError
from ..journal.protocol import Log
from ..journal.sql.leases import Owner, owner_state, this_process
from ..journal.sql.log import SqlLog
from ..journal.sql.recovery import is_suspect, park_run
from ..journal.sql.rows import Connection, fetch
from ..journal.sql.worker_row import WorkerRow
from ..journal.sqlite.store import QUEUED, SqliteStore
from .quarantine import quarantine_of

log = logging.getLogger("ropewalk.workers")
T = TypeVar("T")
_SILENT: Final = 15.0  # seconds without a heartbeat after which a process in another container counts as dead

_PUT: Final = "INSERT INTO queue (run, name, priority, project) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_IS_DUE: Final = "owner IS NULL AND (status = 'running' OR (status = 'waiting' AND due <= ?1))"
_DUE: Final = f"""
    SELECT priority, queue.run, run.id {QUEUED} WHERE {_IS_DUE} AND queue.name = ?2 AND project IS ?3
    AND run.id NOT IN (SELECT value FROM json_each(?5)) ORDER BY priority, queue.run LIMIT ?4
"""
_QUEUE_OF: Final = f"SELECT queue.name {QUEUED} WHERE {_IS_DUE} AND run.id = ?2"
_EXECUTING: Final = f"""
    SELECT count(*), coalesce(sum(owner = ?2), 0) {QUEUED}
    WHERE queue.name = ?1 AND status = 'running' AND owner IS NOT NULL
"""
_RUNS_OF: Final = f"SELECT run.id {QUEUED} WHERE owner = ? AND status = 'running'"
# A start in the future is one from before the clock was set back.
_COUNT_STARTS: Final = "SELECT count(*) FROM queue_start WHERE queue = ? AND at > ? AND at <= ?"
_FORGET_STARTS: Final = "DELETE FROM queue_start WHERE queue = ? AND NOT (at > ? AND at <= ?)"
_COUNT_DUE: Final = f"SELECT queue.name, count(*) {QUEUED} WHERE {_IS_DUE} GROUP BY 1"
_DELETE_ENDED: Final = """
    DELETE FROM queue WHERE run IN (
        SELECT queue.run FROM queue LEFT JOIN run ON run.seq = queue.run
        WHERE seq IS NULL OR status NOT IN ('running', 'waiting', 'parked'))
"""
_HEARTBEAT: Final = """
    INSERT INTO worker (id, owner, began, beat, about) VALUES (?1, ?2, ?3, ?3, ?4)
    ON CONFLICT (id) DO UPDATE SET beat = excluded.beat
"""


class RunQueue:
    """The queued runs of one store, and the processes that execute them."""

    # The plain methods block, and are safe from any thread.

    failures: tuple[type[Exception], ...] = (StoreError,)
    """The errors of a store that is away."""

    def __init__(self, store: SqliteStore, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self.quarantine = quarantine_of(store)
        """Where this process executes the runs that may kill it."""
        self._on_put: list[Callable[[], None]] = []

    def run_in_transaction(self, work: Callable[[Connection], T]) -> T:
        """Call `work` in one transaction."""
        return self._store.run_in_transaction(work)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Call `work`, which only reads."""
        return self._store.read(work)

    @property
    def registry(self) -> RunQueue:
        """This queue, which knows the processes."""
        return self

    def now(self, _: Connection) -> float:
        """Return the time, in seconds since the epoch."""
        return self._clock()

    def close(self) -> None:
        """Do nothing: the store has the connections."""

    # --- processes ------------------------------------------------------------------------

    def record_heartbeat(self, id: str, about: Mapping[str, Any]) -> None:
        """Record that a process is alive, and forget ended runs and dead processes."""

        def work(connection: Connection) -> None:
            values = (id, this_process().dump(), self._clock(), orjson.dumps(about).decode())
            connection.execute(_HEARTBEAT, values)
            connection.execute(_DELETE_ENDED)
            dead = [(worker.id,) for worker in self._workers(connection) if not _is_alive(worker)]
            connection.executemany("DELETE FROM worker WHERE id = ?", dead)

        self.run_in_transaction(work)

    def remove_worker(self, id: str) -> None:
        """Remove a process that executes no more runs."""
        self.run_in_transaction(lambda c: c.execute("DELETE FROM worker WHERE id = ?", (id,)))

    def live_workers(self) -> list[WorkerRow]:
        """Return the processes that execute queued runs, the oldest first."""
        return list(filter(_is_alive, self.read(self._workers)))

    list_workers = live_workers

    def _workers(self, connection: Connection) -> list[WorkerRow]:
        now = self._clock()
        return [
            WorkerRow(id=id, owner=owner, silent=now - beat, began=began, about=orjson.loads(about), beat=beat)
            for id, owner, began, beat, about in fetch(
                connection, "SELECT id, owner, began, beat, about FROM worker ORDER BY began, id"
            )
        ]

    # --- runs -----------------------------------------------------------------------------

    async def dispatch(self, opened: Log, queue: str, priority: int) -> None:
        """Queue a run that this process owns, and release it."""
        assert isinstance(opened, SqlLog)
        values = (opened.seq, queue, priority, (opened.run.context or {}).get("project"))
        # In this order: if the process dies between the two, the run has an owner that is dead, and is taken over.
        try:
            await asyncio.to_thread(self.run_in_transaction, lambda c: c.execute(_PUT, values))
        finally:
            await opened.release()
        for on_put in list(self._on_put):
            on_put()

    def subscribe(self, on_put: Callable[[], None]) -> Callable[[], None]:
        """Call `on_put` when this process has queued a run; return what ends that."""
        self._on_put.append(on_put)
        return lambda: self._on_put.remove(on_put)

    def due_runs(
        self, queues: Mapping[str, Queue], project: str | None, limit: int, without: Iterable[str] = ()
    ) -> list[str]:
        """Return the ids of runs that may begin now, the most urgent first."""

        # `without`: Ids of runs that are left alone. They take no places of a queue from the others.
        excluded = orjson.dumps(list(without)).decode()

        def work(connection: Connection) -> list[str]:
            now, rows = self._clock(), []
            for name, queue in queues.items():
                places = min(limit, self._places(connection, name, queue, now))
                if places > 0:
                    rows += fetch(connection, _DUE, (now, name, project, places, excluded))
            return [id for _, _, id in sorted(rows)[:limit]]

        return self.read(work)

    async def claim(self, run_id: str, queues: Mapping[str, Queue]) -> SqlLog:
        """Own a run that is due, if the limits of its queue allow it now."""

        def check(connection: Connection) -> None:
            now = self._clock()
            names = fetch(connection, _QUEUE_OF, (now, run_id))
            if not names:
                raise RunBusy(run_id, "another process")
            name = names[0][0]
            queue = queues[name]
            if self._places(connection, name, queue, now) <= 0:
                raise RunBusy(run_id, f"nobody, because of the limits of the queue {name}")
            if queue.limit is not None:
                connection.execute(_FORGET_STARTS, (name, now - queue.period, now))
                connection.execute("INSERT INTO queue_start (queue, at) VALUES (?, ?)", (name, now))

        return await self._store.reopen_if(run_id, check)

    def _places(self, connection: Connection, name: str, queue: Queue, now: float) -> int:
        """Return how many runs of a queue may begin now."""
        places = [2**31]
        if queue.concurrency is not None or queue.worker_concurrency is not None:
            executing, own = fetch(connection, _EXECUTING, (name, this_process().dump()))[0]
            places += [
                most - count
                for most, count in ((queue.concurrency, executing), (queue.worker_concurrency, own))
                if most is not None
            ]
        if queue.limit is not None:
            begun = fetch(connection, _COUNT_STARTS, (name, now - queue.period, now))[0][0]
            places.append(queue.limit - begun)
        return min(places)

    def release_dead(self, recoveries: int) -> None:
        """Take the runs of dead processes that have queued ones from them; park those that have killed too many."""
        released = set[str]()
        for row in self._store.dead_queued_runs():
            runs = [] if row.id in released else self._store.hand_back_dead_process(row, recoveries)
            released |= {run.id for run in runs}
            for run in runs:
                log.log(logging.ERROR if run.is_parked else logging.WARNING, "%s", run)

    def suspects(self, ids: Iterable[str], recoveries: int) -> set[str]:
        """Return the runs among these that may have killed their processes."""
        return self.read(lambda c: {id for id in ids if is_suspect(c, id, recoveries)})

    def is_served_elsewhere(self, worker_id: str, project: str | None, recoveries: int) -> bool:
        """Return True if a process other than this worker's takes the queued runs of a project, and has no suspect."""

        def work(connection: Connection) -> bool:
            others = [
                worker.owner
                for worker in self._workers(connection)
                if worker.id != worker_id and worker.about.get("project") == project and _is_alive(worker)
            ]
            return any(
                not any(is_suspect(connection, id, recoveries) for (id,) in fetch(connection, _RUNS_OF, (owner,)))
                for owner in others
            )

        return self.read(work)

    def park(self, run_id: str, error: str) -> None:
        """Stop retrying a run that cannot continue."""
        self.run_in_transaction(lambda c: park_run(c, "id", run_id, error))

    def run_statuses(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the status of each of these runs that exists, by id."""
        query = "SELECT id, status FROM run WHERE id IN (SELECT value FROM json_each(?))"
        return dict(self.read(lambda c: fetch(c, query, (orjson.dumps(list(ids)).decode(),))))

    def count_waiting_runs(self) -> dict[str, int]:
        """Return how many runs wait for a process, by the name of their queue."""
        return dict(self.read(lambda c: fetch(c, _COUNT_DUE, (self._clock(),))))


def _is_alive(worker: WorkerRow) -> bool:
    state = owner_state(Owner.load(worker.owner, f"worker {worker.id}"))
    return state == "live" or (state == "unknown" and worker.silent <= _SILENT)
