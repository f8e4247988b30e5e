"""`app.workers`: being a worker, looking at them, waiting for what they do."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, Protocol

from ..config.workplace import Workplace
from ..dialects.records import Outcome, outcome
from ..engine.engine import Job, check_run_id
from ..engine.interruption import RecoveryStore
from ..engine.run import Ending
from ..errors import NotFound, RopewalkError, RunExists, StoreError
from ..events import Event
from ..journal.fleet import Fleet, WorkerRow
from ..journal.journal import NewRun, RunRow, Store
from ..journal.postgres import PostgresStore
from ..journal.timetable import Timetable
from ..tools.pace import Here
from ..values import Json
from .census import Places, places
from .clockwork import Clockwork
from .dbos_adapter import PRIORITY, prepare
from .dispatches import Dispatches
from .lines import unattended
from .remote import RemoteEngine, postgres
from .schedules import Schedules, check, run_id
from .worker import Worker

log = logging.getLogger("ropewalk.workers")
_BETWEEN: Final = 1.0  # seconds between two looks at where runs are


class Host(Protocol):
    """What an app is to its workers."""

    settings: Workplace
    distributed: bool
    jobs: Any
    definitions: Any
    project: str | None

    def load(self, source: Any, /) -> Any: ...

    @property
    def store(self) -> Store: ...

    @property
    def runs(self) -> Any: ...

    engine: Any


class Workers:
    """See the module."""

    def __init__(self, app: Host) -> None:
        self._app = app
        self._here = Here()

    @cached_property
    def fleet(self) -> Fleet:
        return Fleet(postgres(self._app.store).where, self._app.settings.terms.lease)

    @cached_property
    def engine(self) -> RemoteEngine:
        """Has runs done by workers."""
        app = self._app
        return RemoteEngine(app.store, app.settings, lambda run_id: app.runs.following(run_id), asked=app.distributed)

    async def submit(
        self,
        loaded: Any,
        input: Json = None,
        *,
        run_id: str | None = None,
        variables: Mapping[str, Json] | None = None,
        queue: str | None = None,
        priority: int = PRIORITY,
        concurrency: int | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> str:
        """Put a run in line and give its id. The lower the `priority`, from 1 up, the earlier it is taken from its
        `queue`; `concurrency` is how many nodes of a graph run at once, at most. The same id twice is one run."""
        app = self._app
        if not app.distributed:
            raise StoreError(
                'workers execute the runs of apps with engine="dbos" (`ropewalk run --engine dbos`, or engine = "dbos"'
                " in [store] of ropewalk.toml); this one executes them itself, and has no queues"
            )
        check_run_id(run_id)
        if concurrency is not None:
            loaded = app.definitions.limited(loaded, concurrency)
        given = {"definition_id": loaded.definition_id, "run_id": run_id, "input": input, "variables": variables}
        return await self.engine.submit(await app.jobs.new(loaded, **given, on_event=on_event), queue, priority)

    async def serve(
        self,
        *,
        concurrency: int | None = None,
        queues: tuple[str, ...] = (),
        grace: float | None = None,
        started: Callable[[Worker], None] = lambda worker: None,
    ) -> None:
        """Be a worker until `Worker.stop`; `started` is handed the worker when it takes work."""
        app, terms = self._app, self._app.settings.terms
        terms = replace(
            terms, concurrency=concurrency or terms.concurrency, grace=terms.grace if grace is None else grace
        )
        place = replace(app.settings, terms=terms)
        worker = Worker(postgres(app.store), app.jobs.again, self._refused, self._ticked, place, queues)
        await asyncio.to_thread(self.schedules.apply)
        worker.engine.watchers.extend(app.engine.watchers)
        app.engine = worker.engine  # flows that are called as tools are parts of the runs of this engine
        looking: list[asyncio.Future[None]] = []

        def begun() -> None:
            started(worker)
            looking.append(asyncio.ensure_future(self._warn()))
            clockwork = Clockwork(Timetable(clock), worker.id, self._ticked, run_id)
            looking.append(asyncio.ensure_future(clockwork.run()))

        clock = Fleet(postgres(app.store).where)  # a connection of its own: the others may be busy
        try:
            await worker.work(begun)
        finally:
            for look in looking:
                look.cancel()
            clock.close()

    async def _warn(self) -> None:
        for name, error in (await self.broken()).items():
            log.warning("the schedule %s cannot run: %s", name, error)

    def list(self) -> list[WorkerRow]:
        """Who works, the oldest first."""
        return self.fleet.workers()

    async def wait(self, run_id: str, on_event: Callable[[Event], None] | None = None, park: bool = False) -> Outcome:
        """How a run ends that workers execute, as soon as it has ended; with `park` also that it only waits."""
        if await asyncio.to_thread(self._app.store.get_run, run_id) is None:
            raise NotFound("run", run_id)
        row, result = await self.engine.followed(run_id, on_event, park=park)
        return outcome({**result, "status": row.status, "executionId": run_id}, row.kind)

    def unattended(self, run_id: str) -> str | None:
        """Why nobody takes a run that waits in line; None when somebody does. Blocking."""
        return unattended(self._app.store, self.fleet, run_id)

    def places(self) -> Places:
        """Count where unfinished runs are (queued, executing, waiting, parked, interrupted). Blocking.

        Returns:
            The counts, and as violations the runs that were in no place twice, a second apart.

        Raises:
            StoreError: The store is not in Postgres, or DBOS is not installed.
        """
        fleet, patience = self.fleet, postgres(self._app.store).patience
        prepare(fleet.where)

        def look() -> Places:
            return fleet.do(lambda session: places(session, fleet.where, patience))

        first = look()
        if not first.violations:
            return first
        time.sleep(_BETWEEN)
        before, second = {one.id for one in first.violations}, look()
        return Places(second.counts, [one for one in second.violations if one.id in before])

    def repair(self) -> Sequence[str]:
        """Dispatch the runs that nobody owns and no live dispatch leads to, as each worker does. Blocking.

        Returns:
            The ids of the runs that were dispatched.

        Raises:
            StoreError: The store is not in Postgres, or DBOS is not installed.
        """
        prepare(self.fleet.where)
        dispatches = Dispatches(self.fleet, self.engine.client, self._app.settings)
        dispatches.discard()
        return dispatches.renew()

    @cached_property
    def schedules(self) -> Schedules:
        """Runs that the clock starts."""
        app = self._app
        timetable, set_up = Timetable(self.fleet), app.settings.schedules
        return Schedules(timetable, self.engine.client, app.store, set_up, app.project, self._start)

    async def broken(self) -> dict[str, RopewalkError]:
        """What is wrong with the schedules that are set up, by name: their times, their flows, their input."""
        found: dict[str, RopewalkError] = {}
        for name, schedule in self._app.settings.schedules.items():
            try:
                check(name, schedule)
                await self._due({"flow": schedule.flow, "input": schedule.input}, name)
            except RopewalkError as error:
                found[name] = error
        return found

    async def _due(self, schedule: Mapping[str, Any], run_id: str) -> Job:
        app = self._app
        loaded = app.load(os.path.join(app.project or "", schedule["flow"]))
        given: dict[str, Any] = {"definition_id": loaded.definition_id, "run_id": run_id, "input": schedule["input"]}
        job: Job = await app.jobs.new(loaded, **given)
        return job

    async def _start(self, schedule: Mapping[str, Any], at: str) -> str:
        job = await self._due(schedule, run_id(schedule["name"], at))
        return await self.engine.submit(job, schedule["queue"])

    async def _ticked(self, schedule: Mapping[str, Any], at: str) -> str:
        """What is due is a run in any case: one that cannot begin has failed."""
        try:
            return await self._start(schedule, at)
        except StoreError:
            raise
        except RunExists as known:  # this tick came before, and the flow has changed since
            return known.run_id
        except RopewalkError as error:
            log.error("the schedule %s was due at %s, and cannot run: %s", schedule["name"], at, error)
            return await self._failed(schedule, run_id(schedule["name"], at), error)

    async def _failed(self, schedule: Mapping[str, Any], id: str, error: RopewalkError) -> str:
        context = {"project": self._app.project, "file": schedule["flow"]}
        new = NewRun(
            id=id, kind="schedule", name=schedule["name"], input=schedule["input"], context=context, document={}
        )
        opened = await self._app.store.open(new)
        if opened.finished is None:
            said = {"message": str(error), "kind": type(error).__name__}
            result = {"executionId": id, "success": False, "status": "failed", "error": said}
            await opened.finish("failed", result, said, errors=1)
        return id

    async def take_turn(self, name: str, per_second: float, burst: int) -> float:
        """Seconds until the next call under this limit of `[limits.tools]` may begin."""
        if not isinstance(self._app.store, PostgresStore):
            return await self._here.take(name, per_second, burst)
        return await asyncio.to_thread(self.fleet.pace, name, per_second, burst)

    def release(self, run_id: str) -> None:
        """Release a parked run, so that a worker or a server continues it. Raise NotFound when it is not parked."""
        store = self._app.store
        if not (isinstance(store, RecoveryStore) and store.release_parked(run_id)):
            row = self._app.store.get_run(run_id)
            why = f"it is {row.status}" if row is not None else None
            raise NotFound("parked run", run_id, why=why)

    def close(self) -> None:
        for name in ("engine", "fleet"):
            if name in self.__dict__:
                getattr(self, name).close()

    def _refused(self, row: RunRow, missing: RopewalkError) -> dict[str, Json]:
        """The result of a run that no worker can do, in the words of its notation where they can be read."""
        document: Mapping[str, Any] = row.document or {}
        root = (row.context or {}).get("root")
        ending = Ending(run_id=row.id, status="failed", error=missing)
        try:
            found: dict[str, Json] = self._app.definitions.loaded(
                {**document, "kind": row.kind}, root=root
            ).compiled.render(ending)
        except RopewalkError:
            return {"executionId": row.id, "success": False, "status": "failed", "error": {"message": str(missing)}}
        return found
