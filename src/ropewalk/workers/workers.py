"""`app.workers`: be a worker, list the workers, and wait for the runs that they execute."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, Protocol

from ..config.settings import WorkerSettings
from ..duration import read_duration
from ..engine.engine import Job, RecoveryStore, check_run_id
from ..engine.run import Ending
from ..errors import NotFound, RopewalkError, RunExists, StoreError, message_of
from ..events import Event
from ..journal.postgres.schedules import Timetable
from ..journal.postgres.store import PostgresStore
from ..journal.postgres.worker_registry import WorkerRegistry, WorkerRow
from ..journal.protocol import NewRun, RunRow, Store
from ..notations.records import Outcome, outcome
from ..tools.backends.http import LocalQueues
from ..values import Json
from .census import Places, count_places
from .cron import check_schedule
from .dbos_adapter import DEFAULT_PRIORITY, prepare
from .dispatches import Dispatches
from .queues import RemoteEngine, require_postgres, why_unattended
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
    def registry(self) -> WorkerRegistry:
        """The registry of the workers of the store."""
        return WorkerRegistry(require_postgres(self._app.store).target, self._app.settings.limits.lease)

    @cached_property
    def engine(self) -> RemoteEngine:
        """The engine that queues runs for workers."""
        app = self._app
        following = lambda run_id: app.runs.following(run_id)  # noqa: E731 - the run service opens late
        engine = RemoteEngine(app.store, app.settings, following, required=app.distributed)
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
            StoreError: Workers do not execute the runs of this app.
            NotFound: There is no such queue.
            InvalidFlow, InvalidInput: The definition or the input is wrong.
        """
        app = self._app
        if not app.distributed:
            raise StoreError(
                'only apps with engine="dbos" queue runs for workers; write engine = "dbos" in [store] of ropewalk.toml'
            )
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

    async def serve(
        self,
        *,
        concurrency: int | None = None,
        queues: tuple[str, ...] = (),
        grace: float | str | None = None,
        started: Callable[[Worker], None] = lambda worker: None,
    ) -> None:
        """Be a worker until `Worker.stop` is called.

        Args:
            concurrency: Maximum number of runs at once. Default: the setting.
            queues: Names of the queues to serve. Default: all.
            grace: Seconds, or a duration such as "1m", for the runs in progress to end after a stop. Default: the
                setting.
            started: Called with the worker when it takes runs.

        Raises:
            StoreError: The store is not in Postgres, or DBOS is not installed.
        """
        app, limits = self._app, self._app.settings.limits
        limits = replace(
            limits,
            concurrency=concurrency or limits.concurrency,
            grace=limits.grace if grace is None else read_duration(grace),
        )
        settings = replace(app.settings, limits=limits)
        store = require_postgres(app.store)
        worker = Worker(store, app.jobs.for_existing, self._failed_result, self._start_scheduled, settings, queues)
        await asyncio.to_thread(self.schedules.apply)
        worker.engine.watchers.extend(app.engine.watchers)
        app.engine = worker.engine  # flows that are called as tools are parts of the runs of this engine
        background: list[asyncio.Future[None]] = []

        def on_started() -> None:
            started(worker)
            background.append(asyncio.ensure_future(self._warn_of_broken_schedules()))
            clockwork = ScheduleClock(Timetable(registry), worker.id, self._start_scheduled, scheduled_run_id)
            background.append(asyncio.ensure_future(clockwork.run()))

        registry = WorkerRegistry(store.target)  # a connection of its own: the others may be busy
        try:
            await worker.work(on_started)
        finally:
            for task in background:
                task.cancel()
            registry.close()

    async def _warn_of_broken_schedules(self) -> None:
        for name, error in (await self.broken()).items():
            log.warning("the schedule %s cannot run: %s", name, error)

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

    def places(self) -> Places:
        """Count where unfinished runs are (queued, executing, waiting, parked, interrupted). Blocking.

        Returns:
            The counts, and as violations the runs that were in no place twice, a second apart.

        Raises:
            StoreError: The store is not in Postgres, or DBOS is not installed.
        """
        registry, patience = self.registry, require_postgres(self._app.store).patience
        prepare(registry.target)

        def count() -> Places:
            return registry.run_in_transaction(lambda session: count_places(session, registry.target, patience))

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
        prepare(self.registry.target)
        dispatches = Dispatches(self.registry, self.engine.client, self._app.settings)
        dispatches.cancel_abandoned()
        return dispatches.dispatch_missing()

    @cached_property
    def schedules(self) -> Schedules:
        """The service for runs that the clock starts."""
        app = self._app
        timetable, configured = Timetable(self.registry), app.settings.schedules
        return Schedules(timetable, self.engine.client, app.store, configured, app.project, self._submit_scheduled)

    async def broken(self) -> dict[str, RopewalkError]:
        """Return the errors in the times, flows and inputs of the configured schedules, by name of the schedule.

        Returns:
            The error by name of the schedule.
        """
        errors: dict[str, RopewalkError] = {}
        for name, schedule in self._app.settings.schedules.items():
            try:
                check_schedule(name, schedule)
                await self._make_job({"flow": schedule.flow, "input": schedule.input}, name)
            except RopewalkError as error:
                errors[name] = error
        return errors

    async def _make_job(self, schedule: Mapping[str, Any], run_id: str) -> Job:
        app = self._app
        loaded = await app.load_async(os.path.join(app.project or "", schedule["flow"]))
        job: Job = await app.jobs.make(
            loaded, definition_id=loaded.definition_id, run_id=run_id, input=schedule["input"]
        )
        return job

    async def _submit_scheduled(self, schedule: Mapping[str, Any], at: str) -> str:
        job = await self._make_job(schedule, scheduled_run_id(schedule["name"], at))
        return await self.engine.submit(job, schedule["queue"])

    async def _start_scheduled(self, schedule: Mapping[str, Any], at: str) -> str:
        """Start the run of a due time; if it cannot start, record a failed run."""

        # Return the id of the run.
        try:
            return await self._submit_scheduled(schedule, at)
        except StoreError:
            raise
        except RunExists as existing:  # this due time was handled before, and the flow has changed since
            return existing.run_id
        except RopewalkError as error:
            log.error("the schedule %s was due at %s, but cannot run: %s", schedule["name"], at, error)
            return await self._record_failure(schedule, scheduled_run_id(schedule["name"], at), error)

    async def _record_failure(self, schedule: Mapping[str, Any], id: str, error: RopewalkError) -> str:
        context = {"project": self._app.project, "file": schedule["flow"]}
        new = NewRun(
            id=id, kind="schedule", name=schedule["name"], input=schedule["input"], context=context, document={}
        )
        opened = await self._app.store.open(new)
        if opened.finished is None:
            payload = {"message": message_of(error), "kind": type(error).__name__}
            result = {"executionId": id, "success": False, "status": "failed", "error": payload}
            await opened.finish("failed", result, payload, errors=1)
        return id

    async def take_turn(self, name: str, per_second: float, burst: int) -> float:
        """Reserve the next call of a tool with a rate limit.

        Args:
            name: The name of the limit in `[limits.tools]`.
            per_second: Calls per second.
            burst: Maximum number of calls at once.

        Returns:
            Seconds until the call may begin.
        """
        if not isinstance(self._app.store, PostgresStore):
            return await self._local_queues.take(name, per_second, burst)
        return await asyncio.to_thread(self.registry.reserve_call_slot, name, per_second, burst)

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
            why = f"it is {row.status}" if row is not None else None
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
