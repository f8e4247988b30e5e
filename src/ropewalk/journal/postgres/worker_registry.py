"""The table of workers of a store in Postgres: which workers live, which have died, and whose runs are released.

Each worker (`workers/worker.py`) records heartbeats here and removes the workers that have died, so that their runs get
another worker. Queues, schedules and the map chunks of `workers/` use the same connection for their short queries.

All times are the server's own, so that clocks of two hosts are never compared. Every method is short, blocks, and is
safe from any thread. A query whose connection was lost is repeated once on a new one. Only stores in Postgres have
workers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import orjson

from ..sql.lease_watch import OrphanFinder, Silence, runnable_by_any_worker
from ..sql.leases import Owner, owner_state, this_process
from ..sql.recovery import calls_at_death, count_death_and_park, is_suspect, named_calls, park_run
from ..sql.rows import Connection, fetch, load
from ..sql.worker_row import WorkerRow
from .session import Session, Target, driver

log = logging.getLogger("ropewalk.workers")
T = TypeVar("T")
_LOGGED_IDS: Final = 20  # runs that are named when they are taken over

RECORD_HEARTBEAT: Final = """
    INSERT INTO worker (id, owner, began, beat, about) VALUES (?1, ?2, clock_timestamp(), clock_timestamp(), ?3)
    ON CONFLICT (id) DO UPDATE SET beat = clock_timestamp() RETURNING EXTRACT(EPOCH FROM began)::text
"""
# A heartbeat process writes this when its worker has died: nobody has to wait for the lease.
MARK_DEAD: Final = "UPDATE worker SET beat = 'epoch' WHERE id = ?1"
# The worker was only cut off: its silence was no death. A run that it has lost may have been parked meanwhile.
_SUBTRACT_DEATH: Final = "UPDATE mishap SET deaths = deaths - 1 WHERE run = ANY(?) AND deaths > 0"
_SELECT_WORKERS: Final = """
    SELECT id, owner, EXTRACT(EPOCH FROM clock_timestamp() - beat)::float8, EXTRACT(EPOCH FROM began)::float8, about,
        EXTRACT(EPOCH FROM beat)::float8
    FROM worker ORDER BY began, id
"""
# Only runs that are on their way: a lease row stays for as long as its run does.
_RELEASE_RUNS_OF_OWNER: Final = """
    UPDATE lease SET owner = NULL
    WHERE owner = ? AND run IN (SELECT seq FROM run WHERE status = 'running') RETURNING run
"""
_RUNS_OF_OWNER: Final = "SELECT run.id FROM run JOIN lease ON lease.run = seq WHERE owner = ? AND status = 'running'"
_NOW: Final = "EXTRACT(EPOCH FROM clock_timestamp())::float8"
# Runs that nobody owns and that could execute now, without the parts of other runs; the number bounds the count.
_DUE_RUNS: Final = f"""
    SELECT context FROM run JOIN lease ON lease.run = seq
    WHERE (status = 'running' OR (status = 'waiting' AND due <= {_NOW})) AND owner IS NULL AND parent IS NULL
    ORDER BY seq LIMIT 10000
"""
# `due` is when the call after this one may begin, were there no burst.
_RESERVE_CALL_SLOT: Final = f"""
    INSERT INTO pace AS p (name, due) VALUES (?1, {_NOW} + CAST(?2 AS float8))
    ON CONFLICT (name) DO UPDATE SET due = greatest(p.due, {_NOW}) + CAST(?2 AS float8)
    RETURNING due - {_NOW} - CAST(?2 AS float8) * ?3
"""


class WorkerRegistry:
    """The workers of one store, on a connection of its own."""

    def __init__(self, target: Target, lease: float = 2.5, recoveries: int = 5) -> None:
        self.target, self.lease, self.recoveries = target, lease, recoveries
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._connection = 0  # how many connections there have been
        # After an outage the others may need longer to reconnect than this process did: they get a second lease.
        self._silence = Silence(gap=lease / 2, grace=lease)

    # --- workers --------------------------------------------------------------------------

    def record_heartbeat(self, id: str, about: str) -> str:
        """Record that this worker is alive."""
        [(began,)] = self._fetch(RECORD_HEARTBEAT, id, this_process().dump(), about)
        return str(began)

    def subtract_death(self, runs: Sequence[int]) -> None:
        """Count one death less for each run: their worker lives, and was only cut off from the database."""
        self.run_in_transaction(lambda session: session.execute(_SUBTRACT_DEATH, (list(runs),)))

    def remove_worker(self, id: str) -> None:
        """Remove the row of a worker that stops and has released its runs."""
        self.run_in_transaction(lambda session: session.execute("DELETE FROM worker WHERE id = ?", (id,)))

    def list_workers(self) -> list[WorkerRow]:
        """Return all registered workers, silent ones included, the oldest first."""
        return [
            WorkerRow(id=id, owner=owner, silent=silent, began=began, about=orjson.loads(about), beat=beat)
            for id, owner, silent, began, about, beat in self._fetch(_SELECT_WORKERS)
        ]

    def live_workers(self) -> list[WorkerRow]:
        """Return the workers whose last heartbeat is younger than the lease, without those known to be dead."""
        return [worker for worker in self.list_workers() if worker.silent <= self.lease and not _is_dead(worker)]

    def reap_dead_workers(self) -> list[str]:
        """Remove the workers that are dead, and release their runs."""

        # A worker is dead when its process is known to be gone, or when it was silent for a lease while this process
        # read the heartbeats. Silence during an outage of the database does not count. After an outage each worker has
        # two leases to reconnect. Call it several times per lease.
        workers = self.list_workers()
        silent = self._silence.observe({worker.id: worker.beat for worker in workers}, self._connection)
        dead = [worker for worker in workers if silent[worker.id] > self.lease or _is_dead(worker)]
        removed = []
        for worker in dead:
            runs = self.run_in_transaction(partial(self._remove_dead_worker, worker))
            if runs is not None:
                removed.append(worker.id)
                _log_takeover(f"worker {worker.id}", runs)
        return removed

    def _remove_dead_worker(self, worker: WorkerRow, session: Session) -> list[str] | None:
        """Delete the row of a dead worker, release its runs, and count the death for each; return their ids."""
        # Of several processes that see it dead one deletes the row. A worker that wrote a heartbeat meanwhile stays.
        dead = fetch(
            session,
            "DELETE FROM worker WHERE id = ? AND EXTRACT(EPOCH FROM beat)::float8 = CAST(? AS float8) RETURNING 1",
            (worker.id, worker.beat),
        )
        if not dead:
            return None
        runs = [run for (run,) in fetch(session, _RELEASE_RUNS_OF_OWNER, (worker.owner,))]
        count_death_and_park(session, dict.fromkeys(runs, self.recoveries), Owner.load(worker.owner))
        return _names_of(session, runs)

    # --- runs -----------------------------------------------------------------------------

    def release_orphaned_runs(self, finder: OrphanFinder) -> list[Owner]:
        """Release the runs of processes that have died and were not workers."""

        def work(session: Session) -> dict[Owner, list[str]]:
            released = finder.release(session, self._connection)
            for owner, runs in released.items():
                count_death_and_park(session, dict.fromkeys(runs, self.recoveries), owner)
            return {owner: _names_of(session, runs) for owner, runs in released.items()}

        released = self.run_in_transaction(work)
        for owner, ids in released.items():
            _log_takeover(str(owner), ids)
        return list(released)

    def park(self, run_id: str, error: str) -> None:
        """Stop retrying a run that cannot continue."""
        self.run_in_transaction(lambda session: park_run(session, "id", run_id, error))

    def is_suspect(self, run_id: str) -> bool:
        """Return True if owners of this run died repeatedly: it is to be executed apart from others."""
        return self.run_in_transaction(lambda session: is_suspect(session, run_id, self.recoveries))

    def is_served_elsewhere(self, worker_id: str, queues: Iterable[str]) -> bool:
        """Return True if workers other than this one take the runs of all these queues, and execute no suspect."""
        others = [worker for worker in self.live_workers() if worker.id != worker_id]

        def work(session: Session) -> set[str]:
            return {
                queue
                for worker in others
                if not any(
                    is_suspect(session, run, self.recoveries)
                    for (run,) in fetch(session, _RUNS_OF_OWNER, (worker.owner,))
                )
                for queue in worker.about["queues"]
            }

        return self.run_in_transaction(work).issuperset(queues)

    def run_statuses(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the status of each of these runs that exists, by id."""
        return dict(self._fetch("SELECT id, status FROM run WHERE id = ANY(?)", list(ids)))

    def count_waiting_runs(self) -> dict[str, int]:
        """Return how many runs wait for a worker, by the name of their queue."""
        counts: dict[str, int] = {}
        rows = self.run_in_transaction(lambda session: [load(session, row[0]) for row in fetch(session, _DUE_RUNS)])
        for context in rows:
            if runnable_by_any_worker(context):
                queue = str(context.get("queue") or "default")
                counts[queue] = counts.get(queue, 0) + 1
        return counts

    # --- limits ---------------------------------------------------------------------------

    def reserve_call_slot(self, name: str, per_second: float, burst: int) -> float:
        """Reserve the next call under a rate limit that all processes of the store share."""
        [(seconds,)] = self._fetch(_RESERVE_CALL_SLOT, name, 1 / per_second, burst)
        return float(seconds)

    # --- connection ---------------------------------------------------------------------------

    def _fetch(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of one query, which has a transaction of its own."""
        return self.run_in_transaction(lambda session: fetch(session, query, values))

    def run_in_transaction(self, work: Callable[[Session], T]) -> T:
        """Call `work` in a transaction, and a second time on a new connection if the first was lost."""
        with self._lock:
            try:
                return self._try_transaction(work)
            except driver().OperationalError:
                self.disconnect()
            return self._try_transaction(work)

    def _try_transaction(self, work: Callable[[Session], T]) -> T:
        if self._session is None:
            self._session = Session(self.target)
            self._connection += 1
        session = self._session
        session.execute("BEGIN")
        try:
            result = work(session)
            session.execute("COMMIT")
        except BaseException:
            if not session.is_closed:
                session.execute("ROLLBACK")
            raise
        return result

    read = run_in_transaction

    def now(self, connection: Connection) -> float:
        """Return the time of the server."""
        return float(fetch(connection, f"SELECT {_NOW}")[0][0])

    def disconnect(self) -> None:
        """Release the connection; the next query opens another one."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def close(self) -> None:
        with self._lock:
            self.disconnect()


def _names_of(session: Session, runs: Sequence[int]) -> list[str]:
    """Return the ids of runs, without those of parts; those that the log lists with the step in which they died."""
    rows = fetch(session, "SELECT seq, id FROM run WHERE seq = ANY(?) AND parent IS NULL ORDER BY seq", (list(runs),))
    calls = {seq: calls_at_death(session, seq) for seq, _ in rows[:_LOGGED_IDS]}
    return [f"{id} (in {named_calls(calls[seq])})" if calls.get(seq) else id for seq, id in rows]


def _log_takeover(owner: str, ids: Sequence[str]) -> None:
    """Log that workers take over the runs of a process that is gone."""
    if ids:
        more = f" and {len(ids) - _LOGGED_IDS} more" if len(ids) > _LOGGED_IDS else ""
        log.warning("%s is gone; other workers take over its runs: %s%s", owner, ", ".join(ids[:_LOGGED_IDS]), more)


def _is_dead(worker: WorkerRow) -> bool:
    return worker.beat == 0.0 or owner_state(Owner.load(worker.owner)) == "dead"
