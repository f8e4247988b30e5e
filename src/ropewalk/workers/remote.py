"""The engine of those who have their runs done by workers: it puts them in line and waits for how they end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from ..config.workplace import Workplace
from ..engine.again import check_same
from ..engine.engine import Engine, Job
from ..engine.run import Watcher
from ..errors import NotFound, RunBusy, StoreError
from ..events import Brief, Event
from ..journal.fleet import Fleet
from ..journal.journal import ENDS, Log, NewRun, RunRow, Store
from ..journal.postgres import PostgresStore
from ..journal.waiting import open_waits, shown
from ..values import Json
from .dbos_adapter import MOST, PRIORITY, QUEUE, RUN, Client, package
from .dispatches import dispatch_id
from .lines import queue_named, unattended
from .pulse import driver_errors

_POLL = 0.05  # seconds between looks at the runs that are waited for
_LONELY = 3.0  # seconds in line after which it is looked for workers
_OF_THE_END = ("run.queued", "run.waiting", "run.interrupted", "run.finished")  # is told by who waits for it
_PATIENCE = 60.0  # seconds in which a server that has gone away may come back


class Following(Protocol):
    """What is new in a run, look by look; see `runs/following.py`."""

    pause: float

    async def look(self) -> list[Event]: ...


class RemoteEngine(Engine):
    """See `Engine`. A run whose tools are called by a function of this process is run here all the same. `following`
    finds out what workers do in a run."""

    def __init__(
        self, store: Store, place: Workplace, following: Callable[[str], Following], *, asked: bool = True
    ) -> None:
        package()
        super().__init__(store)
        where = postgres(store, asked=asked).where
        self.fleet, self.client = Fleet(where, place.terms.lease), Client(where)
        self._place, self._following = place, following
        self._awaited: dict[tuple[str, bool], asyncio.Future[None]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def run(self, job: Job) -> dict[str, Json]:
        """As `Engine.run`, on whatever host."""
        context = job.new.context or {}
        if context.get("executor"):
            return await super().run(job)
        await self.submit(job, context.get("queue"), context.get("priority") or PRIORITY)
        return (await self.followed(job.new.id, job.watcher, park=job.park))[1]

    async def drive(self, job: Job, log: Log) -> dict[str, Json]:
        """As `Engine.drive`: the run is let go of, and goes on with the worker that takes it."""
        if log.finished is not None or (job.new.context or {}).get("executor"):
            return await super().drive(job, log)
        context = log.run.context or {}
        await log.release()
        queue = str(context.get("queue") or QUEUE)
        await self._in_line(job, log.run.epoch, queue, context.get("priority") or PRIORITY)
        return (await self.followed(job.new.id, job.watcher, park=job.park))[1]

    async def followed(
        self, run_id: str, watcher: Watcher | None = None, *, park: bool = False
    ) -> tuple[RunRow, dict[str, Json]]:
        """How a run ends, or with `park` that it only waits, as soon as that is so. The watcher hears of that, of what
        is recorded until then, and of it when no worker is there."""
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
        waiting: list[Json] = [shown(entry) for entry in open_waits(history)]
        return row, {**result_of(row), "error": None, "waitingFor": waiting}

    async def _watched(self, run_id: str, watcher: Watcher, park: bool) -> RunRow:
        over = asyncio.Event()
        lonely = asyncio.ensure_future(self._lonely(run_id, watcher))
        telling = asyncio.ensure_future(self._tell(run_id, watcher, over))
        try:
            row = await self.ended(run_id, or_waiting=park)
            over.set()
            await telling
        finally:
            lonely.cancel()
            telling.cancel()
        return row

    async def _tell(self, run_id: str, watcher: Watcher, over: asyncio.Event) -> None:
        """Tell what happens in a run, as its journal has it; a last time when it is `over`."""
        if isinstance(watcher, Brief):
            return
        following, last = self._following(run_id), False
        while not last:
            last = over.is_set()
            with contextlib.suppress(StoreError, *driver_errors()):  # away: who waits for the run says so
                for event in await following.look():
                    if event.kind not in _OF_THE_END:
                        watcher(event)
            if not last:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), following.pause)

    async def _lonely(self, run_id: str, watcher: Watcher) -> None:
        """Say so, once, when no worker is there for a run that waits in line."""
        said: str | None = None
        while said is None:
            await asyncio.sleep(_LONELY)
            with contextlib.suppress(*driver_errors()):  # the server is away: who waits for the run says so
                said = await asyncio.to_thread(unattended, self.store, self.fleet, run_id)
        watcher(Event(run_id=run_id, kind="run.unattended", at=time.time(), data={"message": said}))

    async def submit(self, job: Job, queue: str | None = None, priority: int = PRIORITY) -> str:
        """Write the run down and put it in line, once; returns its id."""
        queue = queue_named(queue, self._place)
        if not 1 <= priority <= MOST:
            raise ValueError(f"priority is a whole number from 1, which goes first, to {MOST}, not {priority}")
        context = {**(job.new.context or {}), "queue": queue, "priority": priority}
        new = replace(job.new, context=context)
        epoch = await self._written(new)
        await self._in_line(job, epoch, queue, priority)
        return new.id

    async def _in_line(self, job: Job, epoch: int | None, queue: str, priority: int) -> None:
        """Tell the workers of a run that nobody has; with no `epoch` there is nothing to be done about it."""
        id = job.new.id
        if job.watcher is not None:
            job.watcher(Event(run_id=id, kind="run.queued", at=time.time(), data={"queue": queue}))
        if epoch is not None:
            await asyncio.to_thread(self.client.enqueue, dispatch_id(id, epoch), RUN, queue, [id], priority=priority)

    async def ended(self, run_id: str, *, or_waiting: bool = False) -> RunRow:
        """Wait until a run has ended, wherever it is run, or until it only waits for somebody."""
        key = run_id, or_waiting
        waiting = self._awaited.get(key)
        if waiting is None:
            waiting = self._awaited[key] = asyncio.get_running_loop().create_future()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._look())
        await asyncio.shield(waiting)
        row = await asyncio.to_thread(self.store.get_run, run_id)
        if row is None:
            raise NotFound("run", run_id, why="it was deleted while it was waited for")
        return row

    def close(self) -> None:
        """Let go of connections. Idempotent."""
        if self._looking is not None:
            self._looking.cancel()
        self.client.close()
        self.fleet.close()

    # --- inside ---------------------------------------------------------------------------

    async def _written(self, new: NewRun) -> int | None:
        """The epoch at which a worker is to take the run; None when there is nothing to be done about it."""
        try:
            log = await self.store.open(new)
        except RunBusy:
            row = await asyncio.to_thread(self.store.get_run, new.id)
            if row is not None:
                check_same(row, new)
            return None
        if log.finished is not None:
            check_same(log.finished, new)
            return None
        await log.release()
        if log.resumed:
            check_same(log.run, new)
        return log.run.epoch

    async def _look(self) -> None:
        """One look for all that is awaited, again and again. The server may be away for a while."""
        since: float | None = None
        while self._awaited:
            try:
                ids = list({id for id, _ in self._awaited})
                found = await asyncio.to_thread(self.fleet.statuses, ids)
                since = None
            except driver_errors() as error:
                since = since or time.monotonic()
                if time.monotonic() - since > _PATIENCE:
                    self._settle(list(self._awaited), StoreError(f"the server is away: {error}"))
                    return
                await asyncio.sleep(_POLL)
                continue
            self._settle([key for key in self._awaited if _is_over(found.get(key[0], "failed"), key[1])])
            await asyncio.sleep(_POLL)

    def _settle(self, keys: list[tuple[str, bool]], error: Exception | None = None) -> None:
        for key in keys:
            waiting = self._awaited.pop(key)
            if not waiting.done():
                waiting.set_result(None) if error is None else waiting.set_exception(error)


def _is_over(status: str, or_waiting: bool) -> bool:
    return status in ENDS or (or_waiting and status == "waiting")


def postgres(store: Store, *, asked: bool = False) -> PostgresStore:
    """The store, when it is one for workers; `asked` says that somebody wants runs executed by them."""
    if isinstance(store, PostgresStore):
        return store
    this = getattr(store, "path", "in memory")
    if asked:
        raise StoreError(
            'engine="dbos" needs a store that workers on other hosts can reach, too: postgresql://user@host/database'
            f' (this one is {this}); engine="local", on the command line --engine local, executes here'
        )
    raise StoreError(
        "workers and schedules need a store in Postgres, postgresql://user@host/database, as --store or as [store] url"
        f" in ropewalk.toml; this one is {this}: its runs are executed by the process that starts them"
    )


def result_of(row: RunRow) -> dict[str, Json]:
    """The recorded result, with the words that every one has; a parked run has only its error."""
    if isinstance(row.result, dict):
        return row.result
    return {"executionId": row.id, "success": False, "status": row.status, "error": row.error}
