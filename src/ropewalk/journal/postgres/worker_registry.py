"""The workers of a store in Postgres: who is alive, what the dead have left behind, how fast tools may be called.

Times here are the server's own, so that no two clocks are ever compared. Everything is short and safe from
any thread, and done again on a new connection when the old one is gone. Refused: other stores.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import orjson

from ...fast_dataclass import dataclass
from ..sql.lease_watch import OrphanFinder, Silence, runnable_by_any_worker
from ..sql.leases import Owner, judge, me
from ..sql.recovery import count_death, is_suspect, park
from ..sql.rows import fetch, load
from .session import Session, Target, driver

T = TypeVar("T")

BEAT: Final = """
    INSERT INTO worker (id, owner, began, beat, about) VALUES (?1, ?2, clock_timestamp(), clock_timestamp(), ?3)
    ON CONFLICT (id) DO UPDATE SET beat = clock_timestamp() RETURNING EXTRACT(EPOCH FROM began)::text
"""
# A heartbeat process writes this when its worker has died: nobody has to wait for the lease.
FAREWELL: Final = "UPDATE worker SET beat = 'epoch' WHERE id = ?1"
# The worker was only cut off: its silence was no death. A run that it has lost may have been parked meanwhile.
_PARDON: Final = "UPDATE mishap SET deaths = deaths - 1 WHERE run = ANY(?) AND deaths > 0"
_WORKERS: Final = """
    SELECT id, owner, EXTRACT(EPOCH FROM clock_timestamp() - beat)::float8, EXTRACT(EPOCH FROM began)::float8, about,
        EXTRACT(EPOCH FROM beat)::float8
    FROM worker ORDER BY began, id
"""
# Only runs that are on their way: a lease row stays for as long as its run does.
_FREE: Final = """
    UPDATE lease SET owner = NULL
    WHERE owner = ? AND run IN (SELECT seq FROM run WHERE status = 'running') RETURNING run
"""
_MAX_ORPHANS: Final = 10_000
_NOW: Final = "EXTRACT(EPOCH FROM clock_timestamp())::float8"
# `due` is when the call after this one may begin, were there no burst.
_PACE: Final = f"""
    INSERT INTO pace AS p (name, due) VALUES (?1, {_NOW} + CAST(?2 AS float8))
    ON CONFLICT (name) DO UPDATE SET due = greatest(p.due, {_NOW}) + CAST(?2 AS float8)
    RETURNING due - {_NOW} - CAST(?2 AS float8) * ?3
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """A worker: the process it is, how long it has been silent, since when it works (seconds since the epoch), and its
    last heartbeat by the server's clock."""

    id: str
    owner: str
    silent: float
    began: float
    about: dict[str, Any]
    beat: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A run that is to be carried on by whoever has a hand free."""

    id: str
    epoch: int
    context: dict[str, Any]


class WorkerRegistry:
    """The workers of the store at `where`. `lease` is how long, in seconds, one may be silent; a run whose
    worker has died more than `recoveries` times without recording anything is parked."""

    def __init__(self, where: Target, lease: float = 2.5, recoveries: int = 5) -> None:
        self.where, self.lease, self.recoveries = where, lease, recoveries
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._connection = 0  # how many connections there have been
        # After an outage the others may need longer to reconnect than this process did: they get a second lease.
        self._silence = Silence(gap=lease / 2, grace=lease)

    # --- workers --------------------------------------------------------------------------

    def beat(self, id: str, about: str) -> str:
        """Record that this worker is alive.

        Returns:
            When its row was made. If that changes, others have given the worker up meanwhile. Unlike an answer that
            says so once, it is still known if the answer to one heartbeat is lost.
        """
        return str(self.do(lambda s: fetch(s, BEAT, (id, me().dump(), about)))[0][0])

    def pardon(self, runs: Sequence[int]) -> None:
        """Take back one death of each run: their worker lives, and was only cut off from the database."""
        self.do(lambda s: s.execute(_PARDON, (list(runs),)))

    def leave(self, id: str) -> None:
        """This worker goes, and leaves nothing behind."""
        self.do(lambda s: s.execute("DELETE FROM worker WHERE id = ?", (id,)))

    def workers(self) -> list[WorkerRow]:
        return [
            WorkerRow(id=id, owner=owner, silent=silent, began=began, about=orjson.loads(about), beat=beat)
            for id, owner, silent, began, about, beat in self.do(lambda s: fetch(s, _WORKERS))
        ]

    def alive(self) -> list[WorkerRow]:
        """Those that have been heard of within the lease, and are not known to be dead."""
        return [worker for worker in self.workers() if worker.silent <= self.lease and not _is_dead(worker)]

    def reap(self) -> list[str]:
        """Remove the workers that are dead, and release their runs.

        A worker is dead when its process is known to be gone, or when it was silent for a lease while this process
        read the heartbeats. Silence during an outage of the database does not count. After an outage each worker has
        two leases to reconnect. Call it several times per lease.

        Returns:
            The ids of the workers that this call removed.
        """
        workers = self.workers()
        silent = self._silence.observe({worker.id: worker.beat for worker in workers}, self._connection)
        dead = [worker for worker in workers if silent[worker.id] > self.lease or _is_dead(worker)]
        return [worker.id for worker in dead if self.do(functools.partial(self._bury, worker))]

    def _bury(self, worker: WorkerRow, session: Session) -> bool:
        # Of several who find it dead one deletes it; one that has spoken again meanwhile is not.
        dead = fetch(
            session,
            "DELETE FROM worker WHERE id = ? AND EXTRACT(EPOCH FROM beat)::float8 = CAST(? AS float8) RETURNING 1",
            (worker.id, worker.beat),
        )
        if not dead:
            return False
        runs = [run for (run,) in fetch(session, _FREE, (worker.owner,))]
        self._count(session, runs, Owner.load(worker.owner))
        return True

    def _count(self, session: Session, runs: list[int], owner: Owner) -> None:
        """Another process has died with these runs."""
        count_death(session, runs, owner, self.recoveries)

    # --- runs -----------------------------------------------------------------------------

    def collect(self, strays: OrphanFinder) -> list[Owner]:
        """Free the runs of processes that are gone and were no workers; gives those processes."""

        def work(session: Session) -> list[Owner]:
            released = strays.free(session, self._connection)
            for owner, runs in released.items():
                self._count(session, runs, owner)
            return list(released)

        return self.do(work)

    def free(self, owner: str) -> None:
        """Nobody owns the runs of this process any more."""
        self.do(lambda s: s.execute(_FREE, (owner,)))

    def park(self, run_id: str, error: str) -> None:
        """Stop retrying a run that cannot continue."""
        self.do(lambda s: park(s, "id", run_id, error))

    def is_suspect(self, run_id: str) -> bool:
        """Return True if owners of this run died repeatedly: it is to be executed apart from others."""
        return self.do(lambda s: is_suspect(s, run_id, self.recoveries))

    def statuses(self, ids: Iterable[str]) -> dict[str, str]:
        """Of these runs, those that there are."""
        return dict(self.do(lambda s: fetch(s, "SELECT id, status FROM run WHERE id = ANY(?)", (list(ids),))))

    def waiting(self) -> dict[str, int]:
        """How many runs wait for a worker, by queue."""
        counts: dict[str, int] = {}
        for row in self.do(lambda session: orphans(session, "false", _MAX_ORPHANS)):
            if runnable_by_any_worker(row.context):
                queue = str(row.context.get("queue") or "default")
                counts[queue] = counts.get(queue, 0) + 1
        return counts

    # --- limits ---------------------------------------------------------------------------

    def pace(self, name: str, per_second: float, burst: int) -> float:
        """Queue a call; return the seconds until it may begin, 0 or less for now."""
        step = 1 / per_second
        return float(self.do(lambda s: fetch(s, _PACE, (name, step, burst)))[0][0])

    # --- inside ---------------------------------------------------------------------------

    def do(self, work: Callable[[Session], T]) -> T:
        """Do `work` in a transaction; once more when the connection has gone meanwhile. Raises what the driver does."""
        with self._lock:
            try:
                return self._once(work)
            except driver().OperationalError:
                self.disconnect()
            return self._once(work)

    def _once(self, work: Callable[[Session], T]) -> T:
        if self._session is None:
            self._session = Session(self.where)
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

    def disconnect(self) -> None:
        """Release the connection; the next query opens another one."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def close(self) -> None:
        with self._lock:
            self.disconnect()


def _is_dead(worker: WorkerRow) -> bool:
    return worker.beat == 0.0 or judge(Owner.load(worker.owner)) == "dead"


def orphans(session: Session, dispatched: str, limit: int = 500) -> Sequence[Orphan]:
    """Return up to `limit` due runs without an owner that are not queued.

    `dispatched` is a condition on `run` and `lease` that is true for queued runs.
    """
    rows = fetch(
        session,
        "SELECT run.id, epoch, context FROM run JOIN lease ON lease.run = seq"
        f" WHERE (status = 'running' OR (status = 'waiting' AND due <= {_NOW})) AND owner IS NULL AND parent IS NULL"
        f" AND NOT ({dispatched}) ORDER BY seq LIMIT ?",
        (limit,),
    )
    return [Orphan(id=id, epoch=epoch, context=_object(load(session, context))) for id, epoch, context in rows]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
