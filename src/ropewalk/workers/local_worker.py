"""A worker for a store in SQLite: it executes queued runs and starts what schedules say, in this process.

Any number of processes may do so on one file. A run that is cancelled here, or whose process dies, is queued as before,
and the next process continues it from its journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final

from ..config.settings import Queue, WorkerLimits
from ..engine.engine import Job
from ..errors import Fenced, RopewalkError, RunBusy, StoreError, UnknownLanguage
from ..journal.protocol import Log, RunRow
from ..journal.run_ids import new_run_id
from .dbos_adapter import code_version
from .run_queue import RunQueue

log = logging.getLogger("ropewalk.workers")
_PAUSE: Final = 0.5  # seconds between looks for runs that another process has queued
_LEFT_ALONE: Final = 60.0  # seconds between attempts to claim a run that cannot be read
_RETRY: Final = 5.0  # seconds before a run is taken again whose execution met an error of the store
_BEAT: Final = 2.0  # seconds between heartbeats, and between looks for runs of dead processes


class LocalWorker:
    """Executes the queued runs of a project, with the limits of its queues."""

    def __init__(
        self,
        queue: RunQueue,
        project: str | None,
        queues: Mapping[str, Queue],
        limits: WorkerLimits,
        make_job: Callable[[RunRow], Awaitable[Job]],
        continue_run: Callable[[Job, Log], Awaitable[Any]],
        failed_result: Callable[[RunRow, RopewalkError], dict[str, Any]],
    ) -> None:
        self.id = f"{socket.gethostname()}-{os.getpid()}-{new_run_id()[-12:]}"
        self._queue, self._project, self._queues, self._limits = queue, project, queues, limits
        self._make_job, self._continue_run, self._failed_result = make_job, continue_run, failed_result
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._left_alone: dict[str, float] = {}  # until when runs are not taken, by id
        self.on_retired: Callable[[], None] = lambda: None
        self._stop = asyncio.Event()
        self._wake = asyncio.Event()
        self._row_lock = threading.Lock()
        self._has_ended = False

    async def work(self, started: Callable[[], None] = lambda: None) -> None:
        """Execute runs until `stop`, then give the runs in progress the configured grace period to end."""
        loop = asyncio.get_running_loop()

        def wake() -> None:
            loop.call_soon_threadsafe(self._wake.set)

        unsubscribe = self._queue.subscribe(wake)
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._look()
            tasks.append(asyncio.ensure_future(self._look_repeatedly()))
            started()
            while not self._stop.is_set():
                try:
                    await self.take_runs()
                except StoreError as error:
                    log.warning("could not look for queued runs: %s", error)
                except Exception:
                    log.exception("could not take queued runs; trying again")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), _PAUSE)
                self._wake.clear()
            if self._tasks:
                await asyncio.wait(self._tasks.values(), timeout=self._limits.grace)
        finally:
            unsubscribe()
            tasks += self._tasks.values()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with contextlib.suppress(StoreError):  # the others see that this process is gone
                await asyncio.to_thread(self._remove)

    def stop(self) -> None:
        """Take no more runs, and finish those in progress; a second call releases these, too."""
        if self._stop.is_set():
            for task in self._tasks.values():
                # Not at once: a task that is cancelled before its first step would keep the lease of its run.
                task.get_loop().call_soon(task.cancel)
        self._stop.set()
        self._wake.set()

    def retire(self) -> None:
        """Stop, because a worker of a later version of the project has begun, and starts what schedules say."""
        self.on_retired()
        self.stop()

    async def take_runs(self) -> None:
        """Begin the runs that are due, as far as there is room."""
        room = self._limits.concurrency - len(self._tasks)
        if room <= 0 or self._queue.quarantine.is_closed:
            return
        now = time.monotonic()
        self._left_alone = {id: until for id, until in self._left_alone.items() if until > now}
        due = await asyncio.to_thread(self._queue.due_runs, self._queues, self._project, room, list(self._left_alone))
        suspects = await asyncio.to_thread(self._queue.suspects, due, self._limits.recoveries) if due else ()
        for run_id in due:
            if run_id in self._tasks or run_id in self._left_alone or len(self._tasks) >= self._limits.concurrency:
                continue
            if self._stop.is_set() or self._queue.quarantine.is_closed:
                return
            if run_id in suspects:  # it is claimed once nothing else executes, so that nothing else shares its fate
                self._begin(run_id, self._execute_alone(run_id))
                return
            if (opened := await self._claim(run_id)) is not None:
                self._begin(run_id, self._execute_with_others(opened))

    async def _claim(self, run_id: str) -> Log | None:
        """Own a run that is due; return None if that is not possible now."""
        try:
            opened = await self._queue.claim(run_id, self._queues)
        except RunBusy:  # another process was faster, or the queue is at its limit now
            return None
        except StoreError as error:  # one unreadable run must not keep the others
            log.error("run %s cannot begin; trying again in a minute: %s", run_id, error)
            self._left_alone[run_id] = time.monotonic() + _LEFT_ALONE
            return None
        if self._stop.is_set():  # a second stop has come too early to release this run
            await opened.release()
            return None
        return opened

    def _begin(self, run_id: str, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks[run_id] = asyncio.ensure_future(work)
        task.add_done_callback(lambda _: self._on_end(run_id))

    def _on_end(self, run_id: str) -> None:
        del self._tasks[run_id]
        self._wake.set()  # there is room for another run

    async def _execute_with_others(self, opened: Log) -> None:
        async with self._queue.quarantine.run_with_others(opened.run.id, at_once=True):
            await self._execute(opened)

    async def _execute_alone(self, run_id: str) -> None:
        """Execute a run that may have killed its processes, when no other queued or recovered run executes here."""

        async def is_suspect() -> bool:
            try:
                return bool(await asyncio.to_thread(self._queue.suspects, [run_id], self._limits.recoveries))
            except StoreError:  # a store that is away has cleared no suspicion
                return True

        async def others_are_served() -> bool:
            try:
                return await asyncio.to_thread(
                    self._queue.is_served_elsewhere, self.id, self._project, self._limits.recoveries
                )
            except StoreError:
                return True

        async with self._queue.quarantine.run_alone(run_id, is_suspect, others_are_served=others_are_served):
            if (opened := await self._claim(run_id)) is not None:
                await self._execute(opened)

    async def _execute(self, opened: Log) -> None:
        """Execute a run to its ending, or to a wait."""
        run_id = opened.run.id
        try:
            try:
                job = await self._make_job(opened.run)
            except BaseException as missing:
                if not isinstance(missing, RopewalkError) or isinstance(missing, (StoreError, UnknownLanguage)):
                    await opened.release()
                    raise
                log.warning("run %s failed, because this process cannot execute it: %s", run_id, missing)
                error = {"message": str(missing), "kind": type(missing).__name__}
                await opened.finish("failed", self._failed_result(opened.run, missing), error)
                return
            job.park = True
            await self._continue_run(job, opened)
        except (Fenced, RunBusy):  # another process has the run
            pass
        except StoreError as error:
            log.warning("run %s is queued again: %s", run_id, error)
            self._left_alone[run_id] = time.monotonic() + _RETRY
        except Exception as error:
            log.exception("run %s failed inside Ropewalk and is parked", run_id)
            message = f"parked: the run cannot continue: {error}; to let a worker try again, release the run"
            await asyncio.to_thread(self._queue.park, run_id, message)

    async def _look_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(_BEAT)
            await self._look()

    async def _look(self) -> None:
        try:
            await asyncio.to_thread(self._look_after_store)
        except StoreError as error:
            log.warning("could not record that this process is alive: %s", error)
        except Exception:  # without heartbeats, no run of a dead process would be released
            log.exception("could not look after the store; trying again")

    def _look_after_store(self) -> None:
        """Record a heartbeat, and release the queued runs of dead processes."""
        about = {
            "concurrency": self._limits.concurrency,
            "queues": list(self._queues),
            "version": code_version(),
            "project": self._project,
        }
        with self._row_lock:
            if self._has_ended:
                return
            self._queue.record_heartbeat(self.id, about)
        self._queue.release_dead(self._limits.recoveries)

    def _remove(self) -> None:
        with self._row_lock:  # a heartbeat in its thread outlives its task, and would bring the row back
            self._has_ended = True
            self._queue.remove_worker(self.id)
