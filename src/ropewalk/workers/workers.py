"""`app.workers`: be a worker, list the workers, and wait for the runs that they execute."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol

from ..config.settings import WorkerSettings
from ..duration import read_duration
from ..engine.engine import Job, RecoveryStore, check_run_id
from ..engine.run import Ending
from ..errors import NotFound, RopewalkError, RunExists, StoreError, message_of
from ..events import Event
from ..journal.postgres.store import PostgresStore
from ..journal.postgres.worker_registry import WorkerRegistry
from ..journal.protocol import SCHEDULE, NewRun, RunRow, Store
from ..journal.sql.timetable import Timetable
from ..journal.sql.worker_row import WorkerRow
from ..journal.sqlite.store import SqliteStore
from ..notations.records import Outcome, outcome
from ..tools.backends.http import LocalQueues
from ..values import Json
from .census import Places, count_places
from .cron import check_schedule, run_error, schedule_faults
from .dbos_adapter import DEFAULT_PRIORITY, prepare
from .dispatches import Dispatches
from .heartbeat import driver_errors
from .local_worker import LocalWorker
from .queues import (
    DbosDispatcher,
    Registry,
    RemoteEngine,
    existing_queue_name,
    known_queues,
    require_postgres,
    why_unattended,
)
from .run_queue import RunQueue
from .schedules import ScheduleClock, Schedules, scheduled_run_id
from .worker import Worker

log = logging.getLogger("ropewalk.workers")

_BETWEEN: Final = 1.0  # seconds between two looks at where runs are


class Host(Protocol):
    """The part of `App` that workers use."""

    settings: WorkerSettings
    context: Any
    distributed: bool
    """Whether workers execute the runs of this app."""
    jobs: Any
    definitions: Any

    @property
    def project(self) -> str | None:
        """The project directory."""

    async def load_async(self, source: Any, /) -> Any:
        """Load a definition."""
        ...

    @property
    def store(self) -> Store:
        """The store of the runs."""
        ...

    @property
    def runs(self) -> Any:
        """The run service of the app."""

    engine: Any


class Workers:
    """The service `app.workers`."""

    def __init__(self, app: Host) -> None:
        self._app = app
        self._local_queues = LocalQueues()

    @cached_property
    def registry(self) -> Registry:
        """The registry of the workers of the store."""
        if (queue := self._queue) is not None:
            return queue
        return WorkerRegistry(require_postgres(self._app.store).target, self._app.settings.limits.lease)

    @cached_property
    def _queue(self) -> RunQueue | None:
        """The queued runs of a store in SQLite; None with other stores."""
        store = self._app.store
        return RunQueue(store) if isinstance(store, SqliteStore) and not self._app.distributed else None

    @cached_property
    def engine(self) -> RemoteEngine:
        """The engine that queues runs for workers."""
        app = self._app
        following = lambda run_id: app.runs.following(run_id)  # noqa: E731 - the run service opens late
        dispatcher = self._queue or DbosDispatcher(app.store, app.settings.limits.lease, required=app.distributed)
        engine = RemoteEngine(app.store, app.settings, following, dispatcher)
        app.context.configure(engine)
        return engine

    async def submit(
        self,
        loaded: Any,
        input: Json = None,
        *,
        run_id: str | None = None,
        variables: Mapping[str, Json] | None = None,
        queue: str | None = None,
        priority: int = DEFAULT_PRIORITY,
        concurrency: int | None = None,
        on_event: Callable[[Event], None] | None = None,
        undo: str | None = None,
    ) -> str:
        """Queue a run for the workers.

        Args:
            loaded: The loaded definition.
            input: The input of the run, any JSON.
            run_id: Id of the run; the same id again is the same run. Default: a new id.
            variables: Values of the variables of the definition.
            queue: Name of the queue. Default: `default`.
            priority: From 1, which is taken first, to 2147483647.
            concurrency: Maximum number of nodes of a graph that run at once.
            on_event: Called with the events of the run.
            undo: "on_failure" undoes a run that does not complete. Default: as the definition or the project says.

        Returns:
            The id of the run.

        Raises:
            StoreError: The store keeps no queues.
            NotFound: There is no such queue.
            InvalidFlow, InvalidInput: The definition or the input is wrong.
        """
        app = self._app
        self._require_queues()
        check_run_id(run_id)
        job = await app.jobs.make(
            loaded,
            definition_id=loaded.definition_id,
            run_id=run_id,
            input=input,
            variables=variables,
            concurrency=concurrency,
            on_event=on_event,
            undo=undo,
        )
        return await self.engine.submit(job, queue, priority)

    async def enqueue(self, job: Job, queue: str | None = None, priority: int | None = None) -> str:
        """Queue a prepared run for the workers.

        Args:
            job: The run.
            queue: Name of the queue. Default: `default`.
            priority: From 1, which is taken first. Default: 100.

        Returns:
            The id of the run.

        Raises:
            StoreError: The store keeps no queues.
            NotFound: There is no such queue.
        """
        self._require_queues()
        return await self.engine.submit(job, queue, priority or DEFAULT_PRIORITY)

    def _require_queues(self) -> None:
        if not self._app.distributed and self._queue is None:
            raise StoreError(
                "this store queues no runs: use a store in a file, or one in Postgres with"
                ' engine = "dbos" in [store] of ropewalk.toml'
            )

    async def serve(
        self,
        *,
        concurrency: int | None = None,
        queues: tuple[str, ...] = (),
        grace: float | str | None = None,
        started: Callable[[Worker | LocalWorker], None] = lambda worker: None,
    ) -> None:
        """Be a worker until `Worker.stop` is called: execute queued runs, and start those of schedules.

        Args:
            concurrency: Maximum number of runs at once. Default: the setting.
            queues: Names of the queues to serve. Default: all.
            grace: Seconds, or a duration such as "1m", for the runs in progress to end after a stop. Default: the
                setting.
            started: Called with the worker when it takes runs.

        Raises:
            StoreError: The store keeps no queues, or DBOS is not installed.
        """
        app, limits = self._app, self._app.settings.limits
        limits = replace(
            limits,
            concurrency=concurrency or limits.concurrency,
            grace=limits.grace if grace is None else read_duration(grace),
        )
        settings = replace(app.settings, limits=limits)
        worker, registry, failures, project = self._make_worker(settings, queues)
        await asyncio.to_thread(self.schedules.apply)
        background: list[asyncio.Future[None]] = []

        def on_started() -> None:
            started(worker)
            background.append(asyncio.ensure_future(self._warn_of_broken_schedules()))
            clock = ScheduleClock(
                Timetable(registry),
                worker.id,
                self._start_scheduled,
                scheduled_run_id,
                failures=failures,
                project=project,
            )
            background.append(asyncio.ensure_future(clock.run()))
            if project is not None and app.settings.schedules:  # else each worker serves the schedules of all
                background.append(asyncio.ensure_future(self.schedules.keep(failures)))

        def end_background() -> None:
            for task in background:
                task.cancel()

        if isinstance(worker, LocalWorker):
            worker.on_retired = end_background
        try:
            await worker.work(on_started)
        finally:
            end_background()
            registry.close()

    def _make_worker(
        self, settings: WorkerSettings, names: tuple[str, ...]
    ) -> tuple[Worker | LocalWorker, Registry, tuple[type[Exception], ...], str | None]:
        """Return a worker for the store, with what its clock of schedules needs."""
        app, queue = self._app, self._queue
        if queue is not None:
            known = known_queues(settings)
            queues = {name: known[name] for name in [existing_queue_name(name, settings) for name in names] or known}
            jobs, limits = app.jobs, settings.limits
            local = LocalWorker(
                queue, app.project, queues, limits, jobs.for_existing, jobs.continue_run, self._failed_result
            )
            return local, queue, queue.failures, app.project
        store = require_postgres(app.store)
        worker = Worker(store, app.jobs.for_existing, self._failed_result, settings, names)
        worker.engine.watchers.extend(app.engine.watchers)
        app.engine = worker.engine  # flows that are called as tools are parts of the runs of this engine
        # A connection of its own: the others may be busy.
        return worker, WorkerRegistry(store.target), driver_errors(), None

    @property
    def executes_here(self) -> bool:
        """True if a server of the project executes queued runs and schedules itself: with a store in SQLite that this
        process may write to."""
        store = self._app.store
        is_writable = isinstance(store, SqliteStore) and not store.unwritable
        return self._queue is not None and is_writable and self._app.settings.limits.in_server

    def idle_schedules(self) -> Sequence[str]:
        """Return the configured schedules that no worker executes at the moment. Blocking.

        Returns:
            The names of the schedules.
        """
        names = list(self._app.settings.schedules)
        if not names:
            return ()
        try:
            workers = self.registry.live_workers()
        except RopewalkError:  # a store that no worker can use
            return names
        projects = [worker.about.get("project", self._app.project) for worker in workers]
        return () if self._app.project in projects else names

    async def _warn_of_broken_schedules(self) -> None:
        schedules = self._app.settings.schedules
        is_logged = schedule_faults(schedules)  # when the schedules were stored
        for name, error in (await self.broken()).items():
            if name in is_logged:
                continue
            schedule = schedules[name]
            log.warning(
                "%s; the schedule %s cannot run", run_error(name, schedule, error, may_be_elsewhere=False), name
            )

    def list(self) -> list[WorkerRow]:
        """Return the workers of the store, oldest first.

        Returns:
            The workers.
        """
        return self.registry.list_workers()

    async def wait(self, run_id: str, on_event: Callable[[Event], None] | None = None, park: bool = False) -> Outcome:
        """Wait for the ending of a run that workers execute.

        Args:
            run_id: The run.
            on_event: Called with the events of the run.
            park: Whether to return also when the run only waits for an event or an approval.

        Returns:
            The outcome of the run.

        Raises:
            NotFound: There is no such run.
        """
        if await asyncio.to_thread(self._app.store.get_run, run_id) is None:
            raise NotFound("run", run_id)
        row, result = await self.engine.follow(run_id, on_event, park=park)
        return outcome({**result, "status": row.status, "executionId": run_id}, row.kind)

    def unattended(self, run_id: str) -> str | None:
        """Return why no worker takes a queued run; None if one does. Blocking.

        Args:
            run_id: The id of the run.

        Returns:
            The reason, in words.
        """
        return why_unattended(self._app.store, self.registry, run_id)

    def resumes(self, row: RunRow) -> bool:
        """Return True if a live process resumes a run when it is answered or loses its process. Blocking.

        Args:
            row: The run.

        Returns:
            True if a server or a worker of the run's project is alive.
        """
        context = row.context or {}
        if context.get("executor") or context.get("project") is None:
            return False
        try:
            workers = self.registry.live_workers()
        except RopewalkError:  # a store without workers
            return False
        return any(worker.about.get("project") == context["project"] for worker in workers)

    def places(self) -> Places:
        """Count where unfinished runs are (queued, executing, waiting, parked, interrupted). Blocking.

        Returns:
            The counts, and as violations the runs that were in no place twice, a second apart.

        Raises:
            StoreError: The store is not in Postgres, or DBOS is not installed.
        """
        store, registry = require_postgres(self._app.store), self.registry
        assert isinstance(registry, WorkerRegistry)
        prepare(store.target)

        def count() -> Places:
            return registry.run_in_transaction(lambda session: count_places(session, store.target, store.patience))

        # A run may be on its way between two places, so one count proves nothing.
        first = count()
        if not first.violations:
            return first
        time.sleep(_BETWEEN)
        earlier_ids, second = {violation.id for violation in first.violations}, count()
        return Places(second.counts, [violation for violation in second.violations if violation.id in earlier_ids])

    def repair(self) -> Sequence[str]:
        """Dispatch the runs that nobody owns and no live dispatch leads to, as each worker does. Blocking.

        Returns:
            The ids of the runs that were dispatched.

        Raises:
            StoreError: The store is not in Postgres, or DBOS is not installed.
        """
        prepare(require_postgres(self._app.store).target)
        dispatcher = self.engine.dispatcher
        assert isinstance(dispatcher, DbosDispatcher)
        dispatches = Dispatches(dispatcher.registry, dispatcher.client, self._app.settings)
        dispatches.cancel_abandoned()
        return dispatches.dispatch_missing()

    @cached_property
    def schedules(self) -> Schedules:
        """The service for runs that the clock starts."""
        app = self._app
        timetable, configured = Timetable(self.registry), app.settings.schedules
        return Schedules(timetable, app.store, configured, app.project, self._submit_scheduled, self._other_projects)

    def _other_projects(self) -> set[str]:
        """Return the other projects that live processes execute on this store."""

        # Workers on Postgres do not say their project: each executes the schedules of all.
        projects = {worker.about.get("project") for worker in self.registry.live_workers()}
        return {str(project) for project in projects - {None, self._app.project}}

    async def broken(self) -> dict[str, RopewalkError]:
        """Return the errors in the times, flows and inputs of the configured schedules, by name of the schedule.

        Returns:
            The error by name of the schedule.
        """
        errors: dict[str, RopewalkError] = {}
        for name, schedule in self._app.settings.schedules.items():
            try:
                check_schedule(name, schedule)
                await self._make_job({"name": name, "flow": schedule.flow, "input": schedule.input}, name)
            except RopewalkError as error:
                errors[name] = error
        return errors

    async def _make_job(self, schedule: Mapping[str, Any], run_id: str) -> Job:
        app = self._app
        path = Path(app.project or "", schedule["flow"])
        # A path may be a flow in a Python file. A row of a store must not choose a file to import; the settings may.
        configured = app.settings.schedules
        is_configured = any(item.flow == schedule["flow"] for item in configured.values())
        try:
            loaded = await app.load_async(path if is_configured else str(path))
            job: Job = await app.jobs.make(
                loaded, definition_id=loaded.definition_id, run_id=run_id, input=schedule["input"]
            )
        except RopewalkError as error:
            name = schedule["name"]
            raise run_error(name, configured.get(name), error, may_be_elsewhere=True) from error
        return job

    async def _submit_scheduled(self, schedule: Mapping[str, Any], at: str) -> str:
        job = await self._make_job(schedule, scheduled_run_id(schedule["name"], at))
        return await self.engine.submit(job, schedule["queue"])

    async def _start_scheduled(self, schedule: Mapping[str, Any], at: str) -> RopewalkError | None:
        """Start the run of a due time; if it cannot begin, record a failed run and return the reason."""
        try:
            await self._submit_scheduled(schedule, at)
        except StoreError:
            raise
        except RunExists:  # this due time was handled before, and the flow has changed since
            return None
        except RopewalkError as error:
            name, configured = schedule["name"], self._app.settings.schedules
            reason = run_error(name, configured.get(name), error, may_be_elsewhere=False)
            await self._record_failure(schedule, scheduled_run_id(name, at), reason)
            return reason
        return None

    async def _record_failure(self, schedule: Mapping[str, Any], id: str, error: RopewalkError) -> None:
        context = {"project": self._app.project, "file": schedule["flow"]}
        new = NewRun(id=id, kind=SCHEDULE, name=schedule["name"], input=schedule["input"], context=context, document={})
        opened = await self._app.store.open(new)
        if opened.finished is None:
            payload = {"message": message_of(error), "kind": type(error).__name__}
            result = {"executionId": id, "success": False, "status": "failed", "error": payload}
            await opened.finish("failed", result, payload, errors=1)

    async def take_turn(self, name: str, per_second: float, burst: int) -> float:
        """Reserve the next call of a tool with a rate limit.

        Args:
            name: The name of the limit in `[limits.tools]`.
            per_second: Calls per second.
            burst: Maximum number of calls at once.

        Returns:
            Seconds until the call may begin.
        """
        registry = self.registry if isinstance(self._app.store, PostgresStore) else None
        if not isinstance(registry, WorkerRegistry):
            return await self._local_queues.take(name, per_second, burst)
        return await asyncio.to_thread(registry.reserve_call_slot, name, per_second, burst)

    def release(self, run_id: str) -> None:
        """Release a parked run so that a worker or a server can continue it.

        Args:
            run_id: The id of the run.

        Raises:
            NotFound: No parked run has this id.
        """
        store = self._app.store
        if not (isinstance(store, RecoveryStore) and store.release_parked(run_id)):
            row = self._app.store.get_run(run_id)
            why = f"it is {self._app.runs.liveness_of([row]).get(run_id, row.status)}" if row is not None else None
            raise NotFound("parked run", run_id, why=why)

    def close(self) -> None:
        """Close the connections that were opened."""
        for name in ("engine", "registry"):
            if name in self.__dict__:
                getattr(self, name).close()

    def _failed_result(self, row: RunRow, missing: RopewalkError) -> dict[str, Json]:
        """Return the result of a run that no worker can execute, in the words of its notation if possible."""
        document: Mapping[str, Any] = row.document or {}
        root = (row.context or {}).get("root")
        ending = Ending(run_id=row.id, status="failed", error=missing)
        try:
            result: dict[str, Json] = self._app.definitions.get(
                {**document, "kind": row.kind}, root=root
            ).compiled.render(ending)
        except RopewalkError:  # its document cannot be loaded here
            return {"executionId": row.id, "success": False, "status": "failed", "error": {"message": str(missing)}}
        return result
