"""A worker: takes queued runs and executes them until it is stopped.

When a worker stops or dies, other workers resume its runs from their journals. A process can be one worker only.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import socket
import sys
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from ..config.settings import WorkerSettings
from ..engine import budgets
from ..engine.chunk_run import run_chunk
from ..engine.compile.durable import failure_to_json
from ..engine.engine import Engine, Job
from ..errors import (
    Fenced,
    InvalidFlow,
    NodeFailed,
    Problem,
    RopewalkError,
    RunBusy,
    StoreError,
    UnknownLanguage,
    message_of,
)
from ..journal.postgres import chunks
from ..journal.postgres.store import PostgresStore
from ..journal.postgres.worker_registry import WorkerRegistry
from ..journal.protocol import ENDS, Log, RunRow, iso
from ..journal.run_ids import new_run_id
from ..journal.sql.lease_watch import OrphanFinder
from ..journal.sql.log import SqlLog
from ..journal.sql.rows import CHUNK
from ..values import gc_relaxed
from .census import LostRunRepair
from .dbos_adapter import (
    CHUNK_QUEUE,
    CHUNK_WORKFLOW,
    RUN_WORKFLOW,
    Client,
    Executor,
    code_version,
    prepare,
)
from .dbos_contract import ASKED_WITHIN, warn_unasked
from .dispatches import RETRY_DELAY, Dispatches
from .heartbeat import Heartbeat, driver_errors
from .map_chunks import MapChunks
from .quarantine import CHUNK_PATIENCE, PATIENCE, Quarantine
from .queues import all_queue_limits, existing_queue_name, queue_limits

log = logging.getLogger("ropewalk.workers")
_CACHED_RUNS: Final = 4  # runs whose job and items stay in memory, because their chunks come one after another
_MAX_OUTAGE: Final = 3600.0  # seconds for which runs wait for a database that is away
_CANCEL_SECONDS: Final = 5.0  # seconds for cancelled tasks to release their runs


class ChunkExecutor:
    """Executes chunks of large maps on this worker's engine."""

    def __init__(self, engine: Engine, registry: WorkerRegistry, make_job: Callable[[RunRow], Awaitable[Job]]) -> None:
        self._engine, self._registry, self._make_job = engine, registry, make_job
        self._jobs: OrderedDict[str, asyncio.Future[tuple[int, RunRow, Job]]] = OrderedDict()
        self._maps: OrderedDict[tuple[str, str], asyncio.Future[tuple[Any, Any]]] = OrderedDict()

    async def execute(self, row: RunRow) -> str:
        """Execute the chunk of a row to its end and return its status; "elsewhere" or "lost" if others have it."""
        chunk: dict[str, Any] = row.context
        run_id, path = chunk["run"], chunk["path"]
        seq, run, job = await _cached(self._jobs, run_id, lambda: self._load_job(run_id))
        items, scope = await _cached(self._maps, (run_id, path), lambda: asyncio.to_thread(self._load_map, seq, path))
        try:
            log = await self._engine.store.reopen(row.id)
        except RunBusy:
            return "elsewhere"
        if log.finished is not None:
            return log.finished.status
        assert isinstance(log, SqlLog)
        first, count = chunk["first"], chunk["count"]
        try:
            # Only a chunk that nobody has executed before has no past to read.
            past = {}
            if not chunk["fresh"] or log.epoch > row.epoch + 1 or row.epoch > 1:
                past = await asyncio.to_thread(
                    self._registry.run_in_transaction, lambda s: chunks.past_entries(s, seq, path, first, count)
                )
            log.write_into(seq, past)
            program = self._engine.program(job)
            token = budgets.enter(run)
            try:
                ending = await run_chunk(program, run_id, job.input, log, chunk, scope, items[first : first + count])
            finally:
                budgets.leave(token)
            error = ending.error
            payload: Any = None if error is None else {"message": message_of(error), "kind": type(error).__name__}
            if isinstance(error, NodeFailed):
                payload["failed"] = failure_to_json(error)
            return await log.finish(ending.status, ending.value, payload, results=count, errors=len(ending.failures))
        except Fenced:
            return "lost"
        except BaseException:
            await log.release()
            raise

    async def _load_job(self, run_id: str) -> tuple[int, RunRow, Job]:
        row = await asyncio.to_thread(self._engine.store.get_run, run_id)
        if row is None or row.status in ENDS:
            raise Fenced(run_id)
        seq = await asyncio.to_thread(self._registry.run_in_transaction, lambda s: chunks.row_number(s, run_id))
        job = await self._make_job(row)
        budgets.limit_calls(job, row, self._engine.store)
        return seq, row, job

    def _load_map(self, seq: int, path: str) -> tuple[Any, Any]:
        return self._registry.run_in_transaction(
            lambda s: (chunks.entry_data(s, seq, path, "items"), chunks.entry_data(s, seq, path, "scope"))
        )


async def _cached(cache: OrderedDict[Any, asyncio.Future[Any]], key: Any, make: Callable[[], Awaitable[Any]]) -> Any:
    """Return the value of a key, made once for all tasks that need it; a failed one is made again."""
    future = cache.get(key)
    if future is None or (future.done() and (future.cancelled() or future.exception() is not None)):
        future = cache[key] = asyncio.ensure_future(make())
        while len(cache) > _CACHED_RUNS:
            cache.popitem(last=False)
    return await asyncio.shield(future)


class Worker:
    """Executes the queued runs of one store."""

    def __init__(
        self,
        store: PostgresStore,
        make_job: Callable[[RunRow], Awaitable[Job]],
        failed_result: Callable[[RunRow, RopewalkError], dict[str, Any]],
        settings: WorkerSettings,
        queue_names: tuple[str, ...] = (),
    ) -> None:
        self.id = f"{socket.gethostname()}-{os.getpid()}-{new_run_id()[-12:]}"
        self.store, self.settings, self.limits = store, settings, settings.limits
        self.registry = WorkerRegistry(store.target, self.limits.lease, self.limits.recoveries)
        self.client = Client(store.target, is_patient=False)
        self.dispatches = Dispatches(self.registry, self.client, settings)
        self.engine = Engine(store)
        self._make_job, self._failed_result = make_job, failed_result
        self._queue_names = queue_names
        self._orphans = OrphanFinder(store.patience)
        store.wait_for_server(_MAX_OUTAGE)
        self._executor: Executor | None = None
        self._heartbeat: Heartbeat | None = None
        self._tasks: set[asyncio.Task[str]] = set()
        self._undoing: set[str] = set()  # runs that this worker has begun to undo by their policy
        self._stop = asyncio.Event()
        self._lost_tasks: set[asyncio.Task[str]] = set()
        self._open_runs: frozenset[int] = frozenset()  # when the database went away
        self._began = time.time()
        self._is_releasing = False  # True: cancelled runs are released for other workers, not given up
        self._quarantine = Quarantine()
        # The registry of the heartbeat must not wait for other queries, so everything else uses this one.
        self._query_registry = WorkerRegistry(store.target, self.limits.lease, self.limits.recoveries)
        self.engine.spread = self._chunks = MapChunks(self._query_registry, self.client, lambda: not self._is_releasing)
        self._chunk_executor = ChunkExecutor(self.engine, self._query_registry, make_job)

    async def work(self, started: Callable[[], None] = lambda: None) -> None:
        """Execute runs until `stop`, then give the runs in progress the configured grace period to end."""
        self._loop = asyncio.get_running_loop()
        names = self._queues()
        limits = all_queue_limits(self.settings)
        await asyncio.to_thread(prepare, self.store.target, limits)
        description = {"concurrency": self.limits.concurrency, "queues": names, "version": code_version()}
        self._heartbeat = Heartbeat(
            self.registry,
            self.id,
            description,
            longest_block=self.limits.longest_block,
            on_away=self._note_open_runs,
            on_lost=self._on_lost,
            on_reaped=self._on_reaped,
            after_look=self._find_lost_runs,
        )
        self.engine.lease = self._heartbeat
        executor = Executor(self.store.target, self.id, self.limits.concurrency, lambda: self._quarantine.is_closed)
        self._executor = executor
        self._lost_run_repair = LostRunRepair(
            self.store, self.dispatches, self.id, self.limits.lease, lambda: executor.executing
        )
        # Count the deaths of runs before taking any: a run that is queued twice would arrive here uncounted.
        dead = await asyncio.to_thread(self.registry.reap_dead_workers)
        unsubscribe: list[Callable[[], None] | None] = []
        try:
            # The heartbeat comes first, because runs of an unknown worker are dispatched again.
            self._heartbeat.start()
            workflows: dict[str, Callable[..., Awaitable[str]]] = {
                RUN_WORKFLOW: self.execute_run,
                CHUNK_WORKFLOW: self.execute_chunk,
            }
            executor.launch(workflows, {name: limits[name] for name in names}, CHUNK_QUEUE)
            unsubscribe += [self.store.hear(receive) for receive in (executor.listener.receive, self._chunks.receive)]
            await asyncio.to_thread(self._on_reaped, dead)
            asyncio.get_running_loop().call_later(ASKED_WITHIN, self._check_queues)
            started()
            with gc_relaxed():
                await self._stop.wait()
                executor.stop_taking()
                await self._drain()
        finally:
            for cancel in unsubscribe:
                if cancel is not None:
                    cancel()
            await asyncio.to_thread(self._close)

    def _queues(self) -> list[str]:
        """Return the names of the queues whose runs this worker takes."""
        names = [existing_queue_name(name, self.settings) for name in self._queue_names]
        return names or list(queue_limits(self.settings))

    def stop(self) -> None:
        """Take no more runs, and finish those in progress."""

        # A second call releases these, too.
        if self._stop.is_set():
            self._release_tasks()
        else:
            count, grace = len(self._tasks), self.limits.grace
            log.info("this worker takes no more runs; %d in progress have %g s to end", count, grace)
        self._stop.set()

    # --- a run ----------------------------------------------------------------------------

    async def execute_run(self, run_id: str, refusers: list[str] | None = None) -> str:
        """Execute a run to its ending, as the body of its DBOS workflow."""
        return await self._run_task(self._execute_dispatch(run_id, refusers or []))

    async def execute_chunk(self, chunk_id: str) -> str:
        """Execute a chunk to its end, as the body of its DBOS workflow."""
        return await self._run_task(self._execute_chunk(chunk_id))

    async def _run_task(self, work: Coroutine[Any, Any, str]) -> str:
        # A task of its own, since DBOS may cancel the workflow while the run continues.
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task in self._lost_tasks:
                return "lost"
            raise
        finally:
            self._tasks.discard(task)
            self._lost_tasks.discard(task)

    async def _execute_dispatch(self, run_id: str, refusers: list[str]) -> str:
        row = await asyncio.to_thread(self.store.get_run, run_id)
        if row is None:
            return "gone"
        if row.status in ENDS:
            return row.status
        try:
            job = await self._make_job(row)
        except RopewalkError as missing:
            return await self._give_back(row, missing, refusers)
        job.park = True
        async with await self._admit(row):
            try:
                return await self._execute(run_id, job)
            except UnknownLanguage as missing:
                return await self._give_back(row, missing, refusers)

    async def _admit(self, row: RunRow) -> contextlib.AbstractAsyncContextManager[None]:
        """Return where a run or chunk executes: among the others, or alone if it may kill its worker."""
        is_chunk = row.kind == CHUNK
        if row.epoch > 1 and await self._is_suspect(row.id):  # at epoch 1 nobody has executed it
            patience = CHUNK_PATIENCE if is_chunk else PATIENCE
            is_suspect = functools.partial(self._is_suspect, row.id)
            return self._quarantine.run_alone(row.id, is_suspect, patience, self._others_are_served)
        return self._quarantine.run_with_others(row.id, at_once=is_chunk)

    async def _is_suspect(self, run_id: str) -> bool:
        try:
            return await asyncio.to_thread(self._query_registry.is_suspect, run_id)
        except driver_errors():  # the server is away, so nothing has cleared the suspicion
            return True

    async def _others_are_served(self) -> bool:
        try:
            return await asyncio.to_thread(self._query_registry.is_served_elsewhere, self.id, self._queues())
        except driver_errors():
            return True

    async def _execute(self, run_id: str, job: Job) -> str:
        try:
            opened = await self.store.reopen(run_id)
        except RunBusy:
            return "elsewhere"
        try:
            result = await self.engine.drive(job, opened)
        except Fenced:
            return "lost"
        except StoreError:
            await self._release(opened)
            raise
        except UnknownLanguage:
            raise
        except Exception as error:
            log.exception("run %s failed inside Ropewalk and is parked", run_id)
            return await self._park(run_id, error)
        return str(result.get("status"))

    async def _park(self, run_id: str, error: Exception) -> str:
        message = f"parked: the run cannot continue: {error}; to let a worker try again, release the run"
        await asyncio.to_thread(self.registry.park, run_id, message)
        return "parked"

    async def _execute_chunk(self, chunk_id: str) -> str:
        row = await asyncio.to_thread(self.store.get_run, chunk_id)
        if row is None or row.status != "running":
            return "over"
        try:
            async with await self._admit(row):
                return await self._chunk_executor.execute(row)
        except Fenced:
            return "over"  # its run has ended
        except StoreError:
            raise
        except RopewalkError as missing:
            log.warning("chunk %s: this worker cannot execute it and queues it again: %s", chunk_id, missing)
            opened = await self.store.reopen(chunk_id)
            await opened.release()
            await asyncio.to_thread(self.dispatches.queue_chunk, chunk_id, opened.run.epoch)
            return "given back"

    async def _release(self, opened: Log) -> None:
        """Release a run when the store is back; nobody else takes it while this process lives."""
        level = logging.WARNING
        while True:
            try:
                await opened.release()
                return
            except StoreError as error:
                log.log(level, "run %s could not be released yet; trying again: %s", opened.run.id, error)
                level = logging.DEBUG  # one warning is enough
                await asyncio.sleep(RETRY_DELAY)

    async def _give_back(self, row: RunRow, missing: RopewalkError, refusers: list[str]) -> str:
        """Offer a run that this worker cannot execute to the others; end it as failed, or park it, if none is left."""
        refusers = [*refusers, self.id]
        other_workers = [
            worker for worker in await asyncio.to_thread(self.registry.list_workers) if worker.id not in refusers
        ]
        try:
            opened = await self.store.reopen(row.id)
        except RunBusy:
            return "elsewhere"
        if opened.finished is not None:
            return opened.finished.status
        if not other_workers and isinstance(missing, UnknownLanguage):
            # A worker of another version can continue it, so its record stays open.
            log.warning("run %s is parked, because no worker can execute it: %s", row.id, missing)
            await opened.release()
            return await self._park(row.id, missing)
        if not other_workers:
            missing = self._with_hint(missing)
            log.warning("run %s failed, because no worker can execute it: %s", row.id, missing)
            error = {"message": str(missing), "kind": type(missing).__name__}
            await opened.finish("failed", self._failed_result(row, missing), error)
            return "failed"
        log.warning("run %s: this worker cannot execute it and queues it again: %s", row.id, missing)
        await opened.release()
        await asyncio.to_thread(self.dispatches.queue_run, row.id, opened.run.epoch, row.context or {}, refusers)
        return "given back"

    def _with_hint(self, missing: RopewalkError) -> RopewalkError:
        """Add to an InvalidFlow that workers know the project only as it was when they started."""
        if type(missing) is not InvalidFlow:
            return missing
        hint = (
            "no worker can execute the run: each has the project as it was when it started"
            f" (the last one at {iso(self._began)}); after a change of tools, restart the workers"
        )
        return InvalidFlow([*missing.problems, Problem(path="", message=hint)])

    # --- in the thread of the heartbeat ---------------------------------------------------

    def _on_reaped(self, dead: list[str]) -> None:
        self._chunks.set_worker_count(len(self.registry.list_workers()))
        self.dispatches.cancel_abandoned()

    def _find_lost_runs(self) -> None:
        """Bring every unfinished run to a process that executes it, or dispatch it."""
        self.registry.release_orphaned_runs(self._orphans)
        self._lost_run_repair.repair()
        self.dispatches.dispatch_missing()
        if not self._stop.is_set():
            for run_id in self.store.undo_due(sys.maxsize):  # others may be undone by nobody here
                self._loop.call_soon_threadsafe(self._begin_undo, run_id)

    def _begin_undo(self, run_id: str) -> None:
        """Start to undo a run by its policy, unless this worker has tried: its own process could not do it."""
        if run_id not in self._undoing and run_id not in self.engine.live and not self._stop.is_set():
            self._undoing.add(run_id)
            task = asyncio.ensure_future(self._undo(run_id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _undo(self, run_id: str) -> str:
        try:
            if self.engine.after_run is not None:
                await self.engine.after_run(run_id, None)
        except RopewalkError as error:
            log.warning("run %s cannot be undone here: %s", run_id, error)
            return "failed"
        return "undone"

    # --- the end --------------------------------------------------------------------------

    def _note_open_runs(self) -> None:
        """Remember the runs of this worker when the database goes away; refused writes close them later."""
        self._open_runs = frozenset(self.store.open_runs())

    def _on_lost(self, away: bool) -> None:
        """Cancel all tasks, because other workers have taken over the runs of this one."""
        if away:
            # A write that is refused closes its run, but the task was here until now: pardon both.
            runs = sorted({*self._open_runs, *self.store.open_runs()})
            asyncio.get_running_loop().run_in_executor(None, self._subtract_death, runs)
        self._is_releasing = True
        for task in list(self._tasks):
            self._lost_tasks.add(task)
            task.cancel()
        asyncio.get_running_loop().call_later(_CANCEL_SECONDS, setattr, self, "_is_releasing", False)

    def _subtract_death(self, runs: list[int]) -> None:
        # Until it succeeds: the first connections after an outage may fail again, and runs are parked for their deaths.
        while not self._stop.is_set():
            try:
                self.registry.subtract_death(runs)
                return
            except driver_errors():
                time.sleep(RETRY_DELAY)

    async def _drain(self) -> None:
        """Wait for the runs in progress; release those that take longer than the grace period."""
        timer = asyncio.get_running_loop().call_later(self.limits.grace, self._release_tasks)
        try:
            while self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            timer.cancel()

    def _release_tasks(self) -> None:
        self._is_releasing = True
        self.store.wait_for_server(_CANCEL_SECONDS)
        for task in list(self._tasks):
            task.cancel()

    def _check_queues(self) -> None:
        if self._executor is not None and not self._stop.is_set() and (unasked := self._executor.unpolled_queues):
            warn_unasked(unasked)

    def _close(self) -> None:
        """Remove this worker from the store, and dispatch the runs that it had begun."""

        # Blocking.
        if self._heartbeat is not None:
            self._heartbeat.stop()
        if self._executor is not None:
            self._executor.close()
        with contextlib.suppress(*driver_errors()):  # the server is away, so other workers clean up
            self.registry.remove_worker(self.id)
            self.dispatches.cancel_abandoned()
            self.dispatches.dispatch_missing()
        self.client.close()
        self._query_registry.close()
        self.registry.close()
