"""The engine that queues runs for workers and waits for their endings.

A `RunDispatcher` leads workers to the queued runs: DBOS in a store on Postgres, a table in a store on SQLite
(`run_queue.py`). The functions at the beginning describe the queues of the settings in the way DBOS needs them.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from ..config.settings import Queue, WorkerSettings
from ..engine.engine import Engine, Job, check_same_run
from ..engine.run import Watcher
from ..errors import Action, NotFound, RunBusy, RunExists, StoreError
from ..events import Brief, Event
from ..journal.address import MissingStore
from ..journal.open_waits import open_waits, wait_to_json
from ..journal.postgres.store import PostgresStore
from ..journal.postgres.worker_registry import WorkerRegistry
from ..journal.protocol import ENDS, Log, RunRow, Store
from ..journal.sql.timetable import Database
from ..journal.sql.worker_row import WorkerRow
from ..values import Json, did_you_mean
from .dbos_adapter import (
    APPLICATION,
    CHUNK_QUEUE,
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    LOWEST_PRIORITY,
    RUN_WORKFLOW,
    Client,
    code_version,
    import_dbos,
)
from .dispatches import dispatch_id
from .heartbeat import driver_errors


class Registry(Database, Protocol):
    """The workers and the queued runs of a store; plain methods, which block."""

    def list_workers(self) -> list[WorkerRow]:
        """Return all registered workers, the oldest first."""
        ...

    def live_workers(self) -> list[WorkerRow]:
        """Return the workers that are alive, the oldest first."""
        ...

    def run_statuses(self, ids: Iterable[str], /) -> dict[str, str]:
        """Return the status of each of these runs that exists, by id."""
        ...

    def count_waiting_runs(self) -> dict[str, int]:
        """Return how many runs wait for a worker, by the name of their queue."""
        ...

    def close(self) -> None:
        """Close the connections."""


class RunDispatcher(Protocol):
    """Leads workers to queued runs."""

    @property
    def registry(self) -> Registry:
        """The workers and the queued runs of the store."""
        ...

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """The errors of a store that is away."""
        ...

    async def dispatch(self, opened: Log, queue: str, priority: int, /) -> None:
        """Queue a run that this process owns, and release it."""

    def close(self) -> None:
        """Close all connections."""


class DbosDispatcher:
    """Leads workers to queued runs through the queues of DBOS."""

    def __init__(self, store: Store, lease: float, *, required: bool) -> None:
        import_dbos()
        target = require_postgres(store, required=required).target
        self.registry, self.client, self.failures = WorkerRegistry(target, lease), Client(target), driver_errors()

    async def dispatch(self, opened: Log, queue: str, priority: int, /) -> None:
        """Queue a run that this process owns, and release it."""
        id, epoch = opened.run.id, opened.run.epoch
        await opened.release()  # first, because a worker that comes too early uses up the dispatch
        await asyncio.to_thread(
            self.client.enqueue, dispatch_id(id, epoch), RUN_WORKFLOW, queue, [id], priority=priority
        )

    def close(self) -> None:
        """Close all connections."""
        self.client.close()
        self.registry.close()


def known_queues(settings: WorkerSettings) -> dict[str, Queue]:
    """Return every queue by name, always including the default queue."""
    return {DEFAULT_QUEUE: Queue(), **settings.queues}


def queue_limits(settings: WorkerSettings) -> dict[str, dict[str, Any]]:
    """Return the limits of every queue by name."""
    return {name: _dbos_limits(queue) for name, queue in known_queues(settings).items()}


def all_queue_limits(settings: WorkerSettings) -> dict[str, dict[str, Any]]:
    """Return the limits of every queue, including the one of chunks."""

    # Every worker takes chunks in addition to its runs: a run that waits for its chunks occupies a place in its worker,
    # and must not keep the chunks from executing.
    return {**queue_limits(settings), CHUNK_QUEUE: {"worker_concurrency": 2}}


def existing_queue_name(name: str | None, settings: WorkerSettings) -> str:
    """Return the name of a queue that exists; the default queue for None."""
    known = list(known_queues(settings))
    if name is None or name in known:
        return name or DEFAULT_QUEUE
    why = (
        f"the queues are: {', '.join(known)}; to add one, write [queues.{name}] in ropewalk.toml,"
        f' or App(settings=WorkerSettings(queues={{"{name}": Queue()}}))'
    )
    raise NotFound("queue", name, suggestion=did_you_mean(name, known), why=why)


def why_unattended(store: Store, registry: Registry, run_id: str) -> str | None:
    """Return why no worker takes a queued run; None if one does, or if the run is not queued."""

    # Blocking.
    row = store.get_run(run_id)
    if row is None or row.status != "running":
        return None
    context, workers = row.context or {}, registry.live_workers()
    queue, project = str(context.get("queue") or DEFAULT_QUEUE), context.get("project")
    # A worker on SQLite takes only runs of its own project.
    workers = [worker for worker in workers if worker.about.get("project", project) == project]
    takers = [worker for worker in workers if queue in worker.about["queues"]]
    if any(is_of_this_version(worker) for worker in takers):
        return None
    if takers:
        return f"waiting in queue {queue}, but {describe_other_versions(takers)}"
    begun = " after its process ended" if row.epoch > 1 else ""
    reason = f"none of the {len(workers)} workers serves this queue" if workers else "no worker is running"
    starting = "a worker" if isinstance(store, PostgresStore) else "a server or a worker"
    return f"waiting in queue {queue}{begun}, but {reason}; start {starting}"


def is_of_this_version(worker: WorkerRow) -> bool:
    """Return True if the worker takes runs that this version of Ropewalk has queued."""
    return bool(worker.about.get("version") == code_version())


def describe_other_versions(workers: Iterable[WorkerRow]) -> str:
    """Return a text that says that these workers belong to other major versions, and what to do."""
    versions = sorted({str(worker.about.get("version")).removeprefix(f"{APPLICATION}-") for worker in workers})
    ours = code_version().removeprefix(f"{APPLICATION}-")
    return (
        f"its workers run Ropewalk {', '.join(f'{version}.x' for version in versions)} and this is {ours}.x;"
        " workers take only runs of their own major version, so start workers of this version"
    )


def _dbos_limits(queue: Queue) -> dict[str, Any]:
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
    """Find the new events of a run that another process executes."""

    # `app/runs/` implements it.

    pause: float
    """Seconds between two looks."""

    async def look(self) -> list[Event]:
        """Read what the run has recorded since the last look."""
        ...


class _Awaited(NamedTuple):
    """A wait of callers of `RemoteEngine.wait_until_ended`."""

    run_id: str
    or_waiting: bool

    def is_met_by(self, status: str) -> bool:
        """Return True if a run with this status ends the wait."""
        return status in ENDS or (self.or_waiting and status == "waiting")


class RemoteEngine(Engine):
    """An Engine whose runs are executed by workers."""

    # A run whose tools are functions of this process still executes here.

    def __init__(
        self,
        store: Store,
        settings: WorkerSettings,
        make_follower: Callable[[str], RunFollower],
        dispatcher: RunDispatcher,
    ) -> None:
        super().__init__(store)
        self.dispatcher, self.registry = dispatcher, dispatcher.registry
        self._settings, self._make_follower = settings, make_follower
        self._awaited: dict[_Awaited, asyncio.Future[None]] = {}
        self._polling: asyncio.Task[None] | None = None

    async def run(self, job: Job) -> dict[str, Json]:
        """Queue a job, wait for its ending and return its result."""
        context = job.new.context or {}
        if context.get("executor"):
            return await super().run(job)
        await self.submit(job, context.get("queue"), context.get("priority") or DEFAULT_PRIORITY)
        return (await self.follow(job.new.id, job.watcher, park=job.park))[1]

    async def drive(self, job: Job, log: Log) -> dict[str, Json]:
        """Release a run so that a worker continues it, wait for its ending and return its result."""
        if log.finished is not None or (job.new.context or {}).get("executor"):
            return await super().drive(job, log)
        context = log.run.context or {}
        queue = str(context.get("queue") or DEFAULT_QUEUE)
        await self._dispatch(job, log, queue, context.get("priority") or DEFAULT_PRIORITY)
        return (await self.follow(job.new.id, job.watcher, park=job.park))[1]

    async def follow(
        self, run_id: str, watcher: Watcher | None = None, *, park: bool = False
    ) -> tuple[RunRow, dict[str, Json]]:
        """Wait for the ending of a run that workers execute."""
        if watcher is None:
            row = await self.wait_until_ended(run_id, or_waiting=park)
        else:
            row = await self._wait_and_forward(run_id, watcher, park)
        waits = row.status == "waiting"
        if watcher is not None:
            kind = "run.waiting" if waits else "run.finished"
            watcher(Event(run_id=row.id, kind=kind, at=time.time(), data={"status": row.status}))
        if not waits:
            return row, recorded_result(row)
        history = await asyncio.to_thread(self.store.history, row.id)
        waiting: list[Json] = [wait_to_json(entry) for entry in open_waits(history)]
        return row, {**recorded_result(row), "error": None, "waitingFor": waiting}

    async def _wait_and_forward(self, run_id: str, watcher: Watcher, park: bool) -> RunRow:
        is_over = asyncio.Event()
        unattended_check = asyncio.ensure_future(self._report_unattended(run_id, watcher))
        forwarding = asyncio.ensure_future(self._forward_events(run_id, watcher, is_over))
        try:
            row = await self.wait_until_ended(run_id, or_waiting=park)
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
            with contextlib.suppress(StoreError, *self.dispatcher.failures):
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
            with contextlib.suppress(*self.dispatcher.failures):  # while the server is away, `ended` reports that
                message = await asyncio.to_thread(why_unattended, self.store, self.registry, run_id)
        watcher(Event(run_id=run_id, kind="run.unattended", at=time.time(), data={"message": message}))

    async def submit(self, job: Job, queue: str | None = None, priority: int = DEFAULT_PRIORITY) -> str:
        """Create a run and queue it, once for its id."""
        queue = existing_queue_name(queue, self._settings)
        if not 1 <= priority <= LOWEST_PRIORITY:
            raise ValueError(f"priority must be an integer from 1 (first) to {LOWEST_PRIORITY}, not {priority}")
        context = {**(job.new.context or {}), "queue": queue, "priority": priority}
        job.new = replace(job.new, context=context)
        await self._dispatch(job, await self._create_run(job), queue, priority)
        return job.new.id

    async def _dispatch(self, job: Job, log: Log | None, queue: str, priority: int) -> None:
        """Queue a run for the workers; without its log there is nothing to do."""
        if job.watcher is not None:
            job.watcher(Event(run_id=job.new.id, kind="run.queued", at=time.time(), data={"queue": queue}))
        if log is not None:
            await self.dispatcher.dispatch(log, queue, priority)

    async def wait_until_ended(self, run_id: str, *, or_waiting: bool = False) -> RunRow:
        """Wait until a run has ended, whichever process executes it."""
        # One poll serves every caller, and callers for the same run share one future.
        key = _Awaited(run_id, or_waiting)
        future = self._awaited.get(key)
        if future is None:
            future = self._awaited[key] = asyncio.get_running_loop().create_future()
        if self._polling is None or self._polling.done():
            self._polling = asyncio.ensure_future(self._poll_statuses())
        await asyncio.shield(future)
        row = await asyncio.to_thread(self.store.get_run, run_id)
        if row is None:
            raise NotFound("run", run_id, why="it was deleted meanwhile")
        return row

    def close(self) -> None:
        """Close all connections."""

        # Idempotent.
        if self._polling is not None:
            self._polling.cancel()
        self.dispatcher.close()

    async def _create_run(self, job: Job) -> Log | None:
        """Create a run and own it; return None if it has ended or another process executes it."""
        try:
            log = await self.open(job)
        except RunBusy:
            row = await asyncio.to_thread(self.store.get_run, job.new.id)
            if row is not None:
                check_same_run(row, job.new)
            return None
        if log.finished is not None:
            check_same_run(log.finished, job.new)
            return None
        try:
            if log.resumed:
                check_same_run(log.run, job.new)
        except RunExists:
            await log.release()
            raise
        return log

    async def _poll_statuses(self) -> None:
        """Read the status of all awaited runs, again and again."""

        # The server may be away for a while.
        away_since: float | None = None
        while self._awaited:
            try:
                keys = list(self._awaited)  # more may come while the store answers
                ids = list({key.run_id for key in keys})
                statuses = await asyncio.to_thread(self.registry.run_statuses, ids)
                away_since = None
            except self.dispatcher.failures as error:
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > _PATIENCE:
                    self._resolve_waiters(list(self._awaited), StoreError(f"the store cannot be reached: {error}"))
                    return
                await asyncio.sleep(_POLL)
                continue
            # A run that is not listed was deleted; `ended` raises that.
            self._resolve_waiters([key for key in keys if key.is_met_by(statuses.get(key.run_id, "failed"))])
            await asyncio.sleep(_POLL)

    def _resolve_waiters(self, keys: list[_Awaited], error: Exception | None = None) -> None:
        for key in keys:
            future = self._awaited.pop(key)
            if not future.done():
                future.set_result(None) if error is None else future.set_exception(error)


def require_postgres(store: Store, *, required: bool = False) -> PostgresStore:
    """Return the store if workers can use it."""
    if isinstance(store, PostgresStore):
        return store
    location = getattr(store, "path", "in memory")
    if isinstance(store, MissingStore):
        raise StoreError(f"there is no store at {location} yet; a server or a worker makes it when it starts")
    if required:
        error = StoreError(
            'engine="dbos" needs a store that workers on other hosts can reach, such as'
            f" postgresql://user@host/database; this store is {location}"
        )
        raise error.with_remedy(Action.EXECUTE_HERE)
    error = StoreError(
        "workers and schedules need a store in a file, or one in Postgres, such as postgresql://user@host/database;"
        f" this store is {location}"
    )
    raise error.with_remedy(Action.CHOOSE_STORE)


def recorded_result(row: RunRow) -> dict[str, Json]:
    """Return the recorded result of a run; for a parked run, which has none, one made from its error."""
    if isinstance(row.result, dict):
        return row.result
    return {"executionId": row.id, "success": False, "status": row.status, "error": row.error}
