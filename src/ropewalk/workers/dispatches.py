"""Dispatches: the DBOS workflows that carry runs to workers, and the quarantine of runs that kill workers.

A dispatch is used once. Its id is `RUN@EPOCH`, and the epoch moves whenever a process claims the run, or here when a
dispatch ends although nobody has claimed the run. DBOS takes an id only once, so several processes that find the same
run without a dispatch make only one.

Only the lease of a run says who owns it. DBOS says where a dispatch is. A dispatch whose worker the store does not know
any more is dead, and is cancelled.

A suspect is a run whose owners died repeatedly (`journal/sql/recovery.py`). It executes alone in its worker until it
has recorded something or has ended; meanwhile the other workers take the other runs. A suspect that does not get its
worker alone in time begins all the same, because it matters more that every run ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from ..config.settings import WorkerSettings
from ..fast_dataclass import dataclass
from ..journal.postgres.session import Session, Target
from ..journal.postgres.worker_registry import WorkerRegistry
from ..journal.sql.lease_watch import runnable_by_any_worker
from ..journal.sql.rows import fetch, load
from .dbos_adapter import CHUNKS, PLAY, PRIORITY, QUEUE, RUN, TICK, Client, find_abandoned, find_taken, is_live, is_used

log = logging.getLogger("ropewalk.workers")
_MOST: Final = 500  # runs dispatched at once
_PAUSE: Final = 1.0  # seconds from the second lost dispatch of a run to the third, doubled each time
_LONGEST_PAUSE: Final = 60.0
_LOGGED_IDS: Final = 5
AGAIN: Final = 1.0
"""Seconds until a run that a worker gave back is offered to another one."""

_IS_DUE: Final = (
    "(run.status = 'running' OR (run.status = 'waiting' AND due <= EXTRACT(EPOCH FROM clock_timestamp())::float8))"
)
_ADVANCE: Final = "UPDATE lease SET epoch = epoch + 1 WHERE run = ? AND epoch = ? AND owner IS NULL RETURNING epoch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undispatched:
    """A run without an owner and without a live dispatch.

    `epoch` is the epoch for its next dispatch. `was_lost` says that an earlier dispatch ended although nobody claimed
    the run.
    """

    id: str
    epoch: int
    context: dict[str, Any]
    was_lost: bool


def dispatch_id(run_id: str, epoch: int) -> str:
    """Return the id of the dispatch of a run at an epoch, equal in every process."""
    return f"{run_id}@{epoch}"


def undispatched(
    session: Session,
    where: Target,
    chunks: Iterable[str] | None = None,
    is_early: Callable[[str], bool] = lambda run_id: False,
) -> list[Undispatched]:
    """Find the runs that need a dispatch, and move the epoch of those whose dispatch was lost.

    Args:
        session: A transaction.
        where: The store.
        chunks: Ids of chunks to look at. Default: all runs except chunks and other parts of runs.
        is_early: Returns True for a run with a lost dispatch if it is too early for another one.

    Returns:
        The runs, oldest first, each with the epoch for its dispatch.
    """
    condition = "parent IS NULL" if chunks is None else "run.id = ANY(?)"
    rows = fetch(
        session,
        f"SELECT seq, run.id, epoch, context, {is_used(where)} FROM run JOIN lease ON lease.run = seq"
        f" WHERE {condition} AND {_IS_DUE} AND owner IS NULL AND NOT ({is_live(where)}) ORDER BY seq LIMIT {_MOST}",
        () if chunks is None else (list(chunks),),
    )
    runs = []
    for seq, id, epoch, packed, was_used in rows:
        context = load(session, packed)
        context = context if isinstance(context, dict) else {}
        if chunks is None and not runnable_by_any_worker(context):
            continue
        if was_used:
            if is_early(id):
                continue
            moved = fetch(session, _ADVANCE, (seq, epoch))
            if not moved:  # another process has claimed or dispatched it meanwhile
                continue
            epoch = moved[0][0]
        runs.append(Undispatched(id=id, epoch=int(epoch), context=context, was_lost=bool(was_used)))
    return runs


class Dispatches:
    """Dispatches runs for a worker, or for somebody who repairs a store. Blocking; safe from any thread."""

    def __init__(self, fleet: WorkerRegistry, client: Client, settings: WorkerSettings) -> None:
        self._fleet, self._client, self._settings = fleet, client, settings
        self._retries: dict[str, tuple[float, float]] = {}  # by lost run: time of the next dispatch, and the pause

    def put(self, run_id: str, epoch: int, context: Mapping[str, Any], refusers: Iterable[str] | None = None) -> None:
        """Queue a run; with `refusers`, the workers that cannot do it, after a short delay."""
        queue = str(context.get("queue"))
        self._client.enqueue(
            dispatch_id(run_id, epoch),
            RUN,
            queue if queue in self._settings.queues else QUEUE,
            [run_id] if refusers is None else [run_id, list(refusers)],
            priority=int(context.get("priority") or PRIORITY),
            delay=AGAIN if refusers is not None else 0,
        )

    def put_chunk(self, id: str, epoch: int) -> None:
        """Queue a chunk again after a short delay."""
        self._client.enqueue(dispatch_id(id, epoch), PLAY, CHUNKS, [id], delay=AGAIN)

    def renew(self) -> list[str]:
        """Dispatch every run that nobody owns and no live dispatch leads to.

        The log names the runs whose earlier dispatch was lost. If that happens to one again and again, because its row
        cannot be read, the pauses between its dispatches grow.

        Returns:
            The ids of the runs.
        """
        where = self._fleet.where
        runs = self._fleet.do(lambda session: undispatched(session, where, None, self._is_early))
        for run in runs:
            self.put(run.id, run.epoch, run.context)
            if run.was_lost:
                self._lengthen_pause(run.id)
        lost = [run.id for run in runs if run.was_lost]
        if lost:
            more = f" and {len(lost) - _LOGGED_IDS} more" if len(lost) > _LOGGED_IDS else ""
            ids = ", ".join(lost[:_LOGGED_IDS])
            log.warning("queued runs again, because no worker has claimed them: %s%s", ids, more)
        return [run.id for run in runs]

    def _is_early(self, run_id: str) -> bool:
        return time.monotonic() < self._retries.get(run_id, (0.0, 0.0))[0]

    def _lengthen_pause(self, run_id: str) -> None:
        now = time.monotonic()
        self._retries = {id: (due, pause) for id, (due, pause) in self._retries.items() if now < due + 2 * pause}
        pause = min(2 * self._retries.get(run_id, (0.0, _PAUSE / 2))[1], _LONGEST_PAUSE)
        self._retries[run_id] = (now + pause, pause)

    def discard(self) -> list[str]:
        """Cancel the dispatches of workers that are gone; `renew` dispatches their runs again.

        A due time of a schedule is queued again unchanged, because the id of its run follows from the time.

        Returns:
            The ids of the dispatches.
        """
        where = self._fleet.where
        return self._end(self._fleet.do(lambda session: find_abandoned(session, where)))

    def taken_runs(self, worker: str, since: float) -> list[tuple[str, str]]:
        """Return the dispatches, each an id and a workflow, that this worker took more than `since` seconds ago."""
        where = self._fleet.where
        return self._fleet.do(lambda session: find_taken(session, where, worker, since))

    def end(self, lost: list[tuple[str, str]]) -> None:
        """Cancel dispatches that their worker does not execute."""
        self._end(lost)

    def _end(self, dispatches: list[tuple[str, str]]) -> list[str]:
        due_times = [str(id) for id, name in dispatches if name == TICK]
        dead = [str(id) for id, name in dispatches if name != TICK]
        if due_times:
            self._client.client.resume_workflows(due_times)
        if dead:
            self._client.client.cancel_workflows(dead)
        return due_times + dead


PATIENCE: Final = 60.0  # seconds that a suspect waits for the runs of its worker to end
OF_A_CHUNK: Final = 10.0  # seconds that a suspected chunk waits; it is less because another run waits for the chunk
_LOOK: Final = 0.5  # seconds between checks whether a run is still a suspect


class Quarantine:
    """Lets a suspect execute alone in its worker. Used on the event loop of the worker."""

    def __init__(self) -> None:
        self._inside: list[str] = []
        self._waiting = 0
        self._alone: str | None = None
        self._changed = asyncio.Event()

    @property
    def is_closed(self) -> bool:
        """True if a suspect has the worker or waits for it, so that no other run may begin."""
        return self._alone is not None or self._waiting > 0

    @contextlib.asynccontextmanager
    async def shared(self, run_id: str, *, at_once: bool = False) -> AsyncIterator[None]:
        """Hold a place among other runs; wait for suspects first, unless `at_once`."""
        while self.is_closed and not at_once:
            await self._change()
        self._inside.append(run_id)
        try:
            yield
        finally:
            self._inside.remove(run_id)
            self._notify()

    @contextlib.asynccontextmanager
    async def alone(
        self, run_id: str, still_suspect: Callable[[], Awaitable[bool]], patience: float = PATIENCE
    ) -> AsyncIterator[None]:
        """Hold the worker for one suspect.

        Args:
            run_id: The suspect.
            still_suspect: Returns False when the run is not a suspect any more; then other runs may begin.
            patience: Seconds to wait until the worker has no other runs.
        """
        self._waiting += 1
        try:
            # Not `wait_for`, which waits in a task of its own on Python 3.11: two suspects would both find it empty.
            async with asyncio.timeout(patience):
                await self._until_empty(run_id)
        except TimeoutError:
            log.warning("run %s may kill its worker, but other runs still execute there after %g s", run_id, patience)
        finally:
            self._waiting -= 1
            self._notify()
        is_owner = self._alone is None
        if is_owner:
            self._alone = run_id
        self._inside.append(run_id)
        watching = asyncio.ensure_future(self._watch(run_id, still_suspect))
        try:
            yield
        finally:
            watching.cancel()
            self._inside.remove(run_id)
            if is_owner and self._alone == run_id:
                self._alone = None
            self._notify()

    async def _until_empty(self, run_id: str) -> None:
        # A run that waits for its own chunk does not count.
        while self._alone is not None or any(not run_id.startswith(f"{other}/") for other in self._inside):
            await self._change()

    async def _watch(self, run_id: str, still_suspect: Callable[[], Awaitable[bool]]) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            if not await still_suspect():
                break
        if self._alone == run_id:
            self._alone = None
            self._notify()

    async def _change(self) -> None:
        await self._changed.wait()  # set and replaced by every change

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
