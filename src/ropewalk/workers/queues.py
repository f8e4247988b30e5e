"""The engine of processes whose runs are executed by workers: it queues runs and waits for their endings.

The functions at the beginning describe the queues of the settings in the way DBOS needs them.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Protocol

from ..config.settings import Queue, WorkerSettings
from ..engine.engine import Engine, Job, check_same_run
from ..engine.run import Watcher
from ..errors import Action, NotFound, RunBusy, StoreError
from ..events import Brief, Event
from ..journal.open_waits import open_waits, wait_to_json
from ..journal.postgres.store import PostgresStore
from ..journal.postgres.worker_registry import WorkerRegistry, WorkerRow
from ..journal.protocol import ENDS, Log, NewRun, RunRow, Store
from ..values import Json, did_you_mean
from .dbos_adapter import APPLICATION, CHUNKS, LOWEST_PRIORITY, PRIORITY, QUEUE, RUN, Client, code_version, package
from .dispatches import dispatch_id
from .heartbeat import driver_errors


def queues(settings: WorkerSettings) -> dict[str, dict[str, Any]]:
    """Return the limits of every queue by name, always including the default queue.

    Args:
        settings: The settings of the project.

    Returns:
        The settings of each queue, by name.
    """
    queues = {QUEUE: Queue(), **settings.queues}
    return {name: _limits(queue) for name, queue in queues.items()}


def all_queues(settings: WorkerSettings) -> dict[str, dict[str, Any]]:
    """Return the limits of every queue, including the one of chunks.

    Every worker takes chunks in addition to its runs: a run that waits for its chunks occupies a place in its worker,
    and must not keep the chunks from executing.

    Args:
        settings: The settings of the project.

    Returns:
        The settings of each queue, by name.
    """
    return {**queues(settings), CHUNKS: {"worker_concurrency": 2}}


def queue_named(name: str | None, settings: WorkerSettings) -> str:
    """Return the name of a queue that exists; the default queue for None.

    Raises:
        NotFound: The settings have no such queue.
    """
    known = list(queues(settings))
    if name is None or name in known:
        return name or QUEUE
    why = (
        f"the queues are: {', '.join(known)}; to add one, write [queues.{name}] in ropewalk.toml,"
        f' or App(settings=WorkerSettings(queues={{"{name}": Queue()}}))'
    )
    raise NotFound("queue", name, suggestion=did_you_mean(name, known), why=why)


def unattended(store: Store, fleet: WorkerRegistry, run_id: str) -> str | None:
    """Return why no worker takes a queued run; None if one does, or if the run is not queued. Blocking."""
    row = store.get_run(run_id)
    if row is None or row.status != "running":
        return None
    queue, workers = str((row.context or {}).get("queue") or QUEUE), fleet.alive()
    takers = [worker for worker in workers if queue in worker.about["queues"]]
    if any(is_of_this_version(worker) for worker in takers):
        return None
    if takers:
        return f"waiting in queue {queue}, but {of_other_versions(takers)}"
    reason = f"none of the {len(workers)} workers serves this queue" if workers else "no worker is running"
    return f"waiting in queue {queue}, but {reason}; start a worker"


def is_of_this_version(worker: WorkerRow) -> bool:
    """Return True if the worker takes runs that this version of Ropewalk has queued."""
    return bool(worker.about.get("version") == code_version())


def of_other_versions(workers: Iterable[WorkerRow]) -> str:
    """Return a text that says that these workers belong to other major versions, and what to do."""
    versions = sorted({str(worker.about.get("version")).removeprefix(f"{APPLICATION}-") for worker in workers})
    ours = code_version().removeprefix(f"{APPLICATION}-")
    return (
        f"its workers run Ropewalk {', '.join(f'{version}.x' for version in versions)} and this is {ours}.x;"
        " workers take only runs of their own major version, so start workers of this version"
    )


def _limits(queue: Queue) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if queue.concurrency is not None:
        limits["global_concurrency"] = queue.concurrency
    if queue.worker_concurrency is not None:
        limits["worker_concurrency"] = queue.worker_concurrency
    if queue.limit is not None:
        limits["limiter"] = {"limit": queue.limit, "period": queue.period}
    return limits


_POLL = 0.05  # seconds between looks at the runs that are waited for
_UNATTENDED_AFTER = 3.0  # seconds in a queue after which the engine checks whether a worker serves it
_OWN_KINDS = ("run.queued", "run.waiting", "run.interrupted", "run.finished")  # events that the engine emits itself
_PATIENCE = 60.0  # seconds for a server that is away to come back


class RunFollower(Protocol):
    """Find the new events of a run that another process executes. `app/runs/` implements it."""

    pause: float
    """Seconds between two looks."""

    async def look(self) -> list[Event]:
        """Read what the run has recorded since the last look.

        Returns:
            The new events, oldest first.
        """
        ...


class RemoteEngine(Engine):
    """An Engine whose runs are executed by workers.

    A run whose tools are functions of this process still executes here.

    Args:
        store: A store in Postgres.
        settings: Queues and limits.
        make_follower: Returns the follower of a run.
        required: Whether the user has chosen workers, which decides the text of the error for other stores.
    """

    def __init__(
        self,
        store: Store,
        settings: WorkerSettings,
        make_follower: Callable[[str], RunFollower],
        *,
        required: bool = True,
    ) -> None:
        package()
        super().__init__(store)
        where = postgres(store, required=required).where
        self.fleet, self.client = WorkerRegistry(where, settings.terms.lease), Client(where)
        self._settings, self._make_follower = settings, make_follower
        self._awaited: dict[tuple[str, bool], asyncio.Future[None]] = {}  # by run id, and whether waiting is enough
        self._polling: asyncio.Task[None] | None = None

    async def run(self, job: Job) -> dict[str, Json]:
        """Queue a job, wait for its ending and return its result.

        Args:
            job: The job.

        Returns:
            The result in the fields of its notation.
        """
        context = job.new.context or {}
        if context.get("executor"):
            return await super().run(job)
        await self.submit(job, context.get("queue"), context.get("priority") or PRIORITY)
        return (await self.followed(job.new.id, job.watcher, park=job.park))[1]

    async def drive(self, job: Job, log: Log) -> dict[str, Json]:
        """Release a run so that a worker continues it, wait for its ending and return its result.

        Args:
            job: The job.
            log: The opened log of the run.

        Returns:
            The result in the fields of its notation.
        """
        if log.finished is not None or (job.new.context or {}).get("executor"):
            return await super().drive(job, log)
        context = log.run.context or {}
        await log.release()
        queue = str(context.get("queue") or QUEUE)
        await self._enqueue(job, log.run.epoch, queue, context.get("priority") or PRIORITY)
        return (await self.followed(job.new.id, job.watcher, park=job.park))[1]

    async def followed(
        self, run_id: str, watcher: Watcher | None = None, *, park: bool = False
    ) -> tuple[RunRow, dict[str, Json]]:
        """Wait for the ending of a run that workers execute.

        Args:
            run_id: The run.
            watcher: Gets the events of the run, and an event if no worker serves its queue.
            park: Whether to return also when the run only waits for an event or an approval.

        Returns:
            The run, and its result. The result of a waiting run lists its open waits as `waitingFor`.
        """
        if watcher is None:
            row = await self.ended(run_id, or_waiting=park)
        else:
            row = await self._watched(run_id, watcher, park)
        waits = row.status == "waiting"
        if watcher is not None:
            kind = "run.waiting" if waits else "run.finished"
            watcher(Event(run_id=row.id, kind=kind, at=time.time(), data={"status": row.status}))
        if not waits:
            return row, result_of(row)
        history = await asyncio.to_thread(self.store.history, row.id)
        waiting: list[Json] = [wait_to_json(entry) for entry in open_waits(history)]
        return row, {**result_of(row), "error": None, "waitingFor": waiting}

    async def _watched(self, run_id: str, watcher: Watcher, park: bool) -> RunRow:
        is_over = asyncio.Event()
        unattended_check = asyncio.ensure_future(self._report_unattended(run_id, watcher))
        forwarding = asyncio.ensure_future(self._forward_events(run_id, watcher, is_over))
        try:
            row = await self.ended(run_id, or_waiting=park)
            is_over.set()
            await forwarding
        finally:
            unattended_check.cancel()
            forwarding.cancel()
        return row

    async def _forward_events(self, run_id: str, watcher: Watcher, is_over: asyncio.Event) -> None:
        """Pass the events of a run to the watcher as its journal grows, the last ones when it is over."""
        if isinstance(watcher, Brief):
            return
        follower, is_last = self._make_follower(run_id), False
        while not is_last:
            is_last = is_over.is_set()
            # While the server is away, `ended` reports that.
            with contextlib.suppress(StoreError, *driver_errors()):
                for event in await follower.look():
                    if event.kind not in _OWN_KINDS:
                        watcher(event)
            if not is_last:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(is_over.wait(), follower.pause)

    async def _report_unattended(self, run_id: str, watcher: Watcher) -> None:
        """Emit one event when no worker serves the queue of a run."""
        message: str | None = None
        while message is None:
            await asyncio.sleep(_UNATTENDED_AFTER)
            with contextlib.suppress(*driver_errors()):  # while the server is away, `ended` reports that
                message = await asyncio.to_thread(unattended, self.store, self.fleet, run_id)
        watcher(Event(run_id=run_id, kind="run.unattended", at=time.time(), data={"message": message}))

    async def submit(self, job: Job, queue: str | None = None, priority: int = PRIORITY) -> str:
        """Create a run and queue it, once for its id.

        Args:
            job: The job of the run.
            queue: Name of the queue. Default: the queue `default`.
            priority: From 1, which goes first, to 2147483647.

        Returns:
            The id of the run.

        Raises:
            NotFound: There is no such queue.
            ValueError: The priority is out of range.
        """
        queue = queue_named(queue, self._settings)
        if not 1 <= priority <= LOWEST_PRIORITY:
            raise ValueError(f"priority must be an integer from 1 (first) to {LOWEST_PRIORITY}, not {priority}")
        context = {**(job.new.context or {}), "queue": queue, "priority": priority}
        new = replace(job.new, context=context)
        epoch = await self._create(new)
        await self._enqueue(job, epoch, queue, priority)
        return new.id

    async def _enqueue(self, job: Job, epoch: int | None, queue: str, priority: int) -> None:
        """Queue a run for the workers; without an epoch there is nothing to do."""
        id = job.new.id
        if job.watcher is not None:
            job.watcher(Event(run_id=id, kind="run.queued", at=time.time(), data={"queue": queue}))
        if epoch is not None:
            await asyncio.to_thread(self.client.enqueue, dispatch_id(id, epoch), RUN, queue, [id], priority=priority)

    async def ended(self, run_id: str, *, or_waiting: bool = False) -> RunRow:
        """Wait until a run has ended, whichever process executes it.

        Args:
            run_id: The run.
            or_waiting: Whether to return also when the run only waits for an event or an approval.

        Raises:
            NotFound: The run was deleted meanwhile.
            StoreError: The server stayed away for a minute.
        """
        # One poll serves every caller, and callers for the same run share one future.
        key = run_id, or_waiting
        future = self._awaited.get(key)
        if future is None:
            future = self._awaited[key] = asyncio.get_running_loop().create_future()
        if self._polling is None or self._polling.done():
            self._polling = asyncio.ensure_future(self._poll())
        await asyncio.shield(future)
        row = await asyncio.to_thread(self.store.get_run, run_id)
        if row is None:
            raise NotFound("run", run_id, why="it was deleted meanwhile")
        return row

    def close(self) -> None:
        """Close all connections. Idempotent."""
        if self._polling is not None:
            self._polling.cancel()
        self.client.close()
        self.fleet.close()

    async def _create(self, new: NewRun) -> int | None:
        """Create a run; return the epoch for its dispatch, None if it has ended or another process executes it."""
        try:
            log = await self.store.open(new)
        except RunBusy:
            row = await asyncio.to_thread(self.store.get_run, new.id)
            if row is not None:
                check_same_run(row, new)
            return None
        if log.finished is not None:
            check_same_run(log.finished, new)
            return None
        await log.release()
        if log.resumed:
            check_same_run(log.run, new)
        return log.run.epoch

    async def _poll(self) -> None:
        """Read the status of all awaited runs, again and again. The server may be away for a while."""
        away_since: float | None = None
        while self._awaited:
            try:
                ids = list({id for id, _ in self._awaited})
                statuses = await asyncio.to_thread(self.fleet.statuses, ids)
                away_since = None
            except driver_errors() as error:
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > _PATIENCE:
                    self._settle(list(self._awaited), StoreError(f"the Postgres server is away: {error}"))
                    return
                await asyncio.sleep(_POLL)
                continue
            # A run that is not listed was deleted; `ended` raises that.
            self._settle([key for key in self._awaited if _is_over(statuses.get(key[0], "failed"), key[1])])
            await asyncio.sleep(_POLL)

    def _settle(self, keys: list[tuple[str, bool]], error: Exception | None = None) -> None:
        for key in keys:
            future = self._awaited.pop(key)
            if not future.done():
                future.set_result(None) if error is None else future.set_exception(error)


def _is_over(status: str, or_waiting: bool) -> bool:
    return status in ENDS or (or_waiting and status == "waiting")


def postgres(store: Store, *, required: bool = False) -> PostgresStore:
    """Return the store if workers can use it.

    Args:
        store: Any store.
        required: Whether the user has chosen workers.

    Raises:
        StoreError: The store is not in Postgres.
    """
    if isinstance(store, PostgresStore):
        return store
    location = getattr(store, "path", "in memory")
    if required:
        error = StoreError(
            'engine="dbos" needs a store that workers on other hosts can reach, such as'
            f" postgresql://user@host/database; this store is {location}"
        )
        raise error.with_remedy(Action.EXECUTE_HERE)
    error = StoreError(
        "workers and schedules need a store in Postgres, such as postgresql://user@host/database;"
        f" this store is {location}, and the process that starts a run executes it"
    )
    raise error.with_remedy(Action.CHOOSE_STORE)


def result_of(row: RunRow) -> dict[str, Json]:
    """Return the recorded result of a run; for a parked run, which has none, one made from its error."""
    if isinstance(row.result, dict):
        return row.result
    return {"executionId": row.id, "success": False, "status": row.status, "error": row.error}
