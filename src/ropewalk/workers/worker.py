"""A worker: takes runs that are in line and executes them, until it is told to stop.

Whatever happens to a worker, its runs go on elsewhere from what their journals hold. Refused: more than one worker
in a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from uuid_utils import uuid7

from ..config.workplace import Workplace
from ..engine.engine import Engine, Job
from ..errors import Fenced, InvalidFlow, Problem, RopewalkError, RunBusy, StoreError
from ..journal.fleet import Fleet
from ..journal.journal import ENDS, Log, RunRow
from ..journal.postgres import PostgresStore
from ..journal.sql_rows import CHUNK
from ..journal.strays import Strays
from ..journal.waiting import iso
from ..uncollected import seldom_collected
from .census import Census
from .contract import ASKED_WITHIN, warn_unasked
from .dbos_adapter import CHUNKS, PLAY, RUN, TICK, Client, Executor, code_version, prepare
from .dispatches import AGAIN, Dispatches
from .hand import Hand
from .lines import all_lines, lines, queue_named
from .pulse import Pulse, driver_errors
from .quarantine import OF_A_CHUNK, PATIENCE, Quarantine
from .spread import Chunks

log = logging.getLogger("ropewalk.workers")
_OUTAGE = 3600.0  # seconds for which runs wait for a database that is away
_STOPPED = 5.0  # seconds for what was interrupted to let go


class Worker:
    """`again` makes the job of a run with this project's tools, or raises what is missing; `refused` says how a run
    ends that no worker can do; `ticked` puts the run of a schedule in line. It takes from the queues in `only`, or from
    all."""

    def __init__(
        self,
        store: PostgresStore,
        again: Callable[[RunRow], Awaitable[Job]],
        refused: Callable[[RunRow, RopewalkError], dict[str, Any]],
        ticked: Callable[[Mapping[str, Any], str], Awaitable[str]],
        place: Workplace,
        only: tuple[str, ...] = (),
    ) -> None:
        self.id = f"{socket.gethostname()}-{os.getpid()}-{str(uuid7())[-12:]}"
        self.store, self.place, self.terms = store, place, place.terms
        self.fleet = Fleet(store.where, self.terms.lease, self.terms.recoveries)
        self.client = Client(store.where, is_patient=False)
        self.dispatches = Dispatches(self.fleet, self.client, place)
        self.engine = Engine(store)
        self._again, self._refused, self._ticked, self._only = again, refused, ticked, only
        self._strays = Strays(store.patience)
        store.wait_for_server(_OUTAGE)
        self._executor: Executor | None = None
        self._pulse: Pulse | None = None
        self._tasks: set[asyncio.Task[str]] = set()
        self._stop = asyncio.Event()
        self._lost: set[asyncio.Task[str]] = set()
        self._held: frozenset[int] = frozenset()  # the runs it executed when the database was last there
        self._began = time.time()
        self._leaving = False  # what is cancelled now is let go of, not given up
        self._quarantine = Quarantine()
        # Apart from that of the pulse, which must not wait.
        self._desk = Fleet(store.where, recoveries=self.terms.recoveries)
        self.engine.spread = self._chunks = Chunks(self._desk, self.client, lambda: not self._leaving)
        self._hand = Hand(self.engine, self._desk, again)

    async def work(self, started: Callable[[], None] = lambda: None) -> None:
        """Take work until `stop`; then let what is begun come to its end, for as long as the terms say."""
        names = [queue_named(name, self.place) for name in self._only] or list(lines(self.place))
        prepare(self.store.where)
        about = {"concurrency": self.terms.concurrency, "queues": names, "version": code_version()}
        self._pulse = Pulse(
            self.fleet,
            self.id,
            about,
            longest_block=self.terms.longest_block,
            lost=self._given_up,
            reaped=self._recover,
            round_=self._sweep,
        )
        self.engine.lease = self._pulse
        executor = Executor(self.store.where, self.id, self.terms.concurrency, lambda: self._quarantine.is_closed)
        self._executor = executor
        self._census = Census(self.store, self.dispatches, self.id, self.terms.lease, lambda: executor.executing)
        # Who died with a run is counted before anything is taken: a run in line twice would come here uncounted.
        dead = await asyncio.to_thread(self.fleet.reap)
        unheard: list[Callable[[], None] | None] = []
        try:
            self._pulse.start()  # before anything is taken: what an unknown worker has taken is dispatched again
            self._executor.launch({RUN: self.body, TICK: self._tick, PLAY: self.part}, names, CHUNKS)
            await asyncio.to_thread(self._executor.register, all_lines(self.place))
            unheard += [self.store.hear(heard) for heard in (self._executor.bell.heard, self._chunks.heard)]
            await asyncio.to_thread(self._recover, dead)
            asyncio.get_running_loop().call_later(ASKED_WITHIN, self._check_queues)
            started()
            with seldom_collected():
                await self._stop.wait()
                self._executor.rest()
                await self._drain()
        finally:
            for forget in unheard:
                if forget is not None:
                    forget()
            await asyncio.to_thread(self._leave)

    def stop(self) -> None:
        """The first time: take nothing more, and finish what is begun. The second time: let go of that, too."""
        if self._stop.is_set():
            self._let_go()
        else:
            log.info("takes no more runs; %d are left to end within %g s", len(self._tasks), self.terms.grace)
        self._stop.set()

    # --- a run ----------------------------------------------------------------------------

    async def body(self, run_id: str, refusers: list[str] | None = None) -> str:
        """The workflow: execute a run to its ending. What it returns is only for people who look at DBOS."""
        return await self._mine(self._carry(run_id, refusers or []))

    async def part(self, chunk_id: str) -> str:
        """The workflow of a chunk."""
        return await self._mine(self._play(chunk_id))

    async def _mine(self, work: Coroutine[Any, Any, str]) -> str:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task in self._lost:
                return "lost"
            raise
        finally:
            self._tasks.discard(task)
            self._lost.discard(task)

    async def _tick(self, at: str, context: dict[str, Any]) -> str:
        """A schedule is due: what comes of it is a run like any other."""
        return await self._ticked(context, at)

    async def _carry(self, run_id: str, refusers: list[str]) -> str:
        row = await asyncio.to_thread(self.store.get_run, run_id)
        if row is None:
            return "gone"
        if row.status in ENDS:
            return row.status
        try:
            job = await self._again(row)
        except RopewalkError as missing:
            return await self._give_back(row, missing, refusers)
        job.park = True
        async with await self._place(row):
            return await self._execute(run_id, job)

    async def _place(self, row: RunRow) -> contextlib.AbstractAsyncContextManager[None]:
        """Where a run or a chunk is executed: among the others, or apart from them."""
        is_chunk = row.kind == CHUNK
        if row.epoch > 1 and await self._is_suspect(row.id):  # at epoch 1 nobody has had it
            patience = OF_A_CHUNK if is_chunk else PATIENCE
            return self._quarantine.alone(row.id, functools.partial(self._is_suspect, row.id), patience)
        return self._quarantine.shared(row.id, at_once=is_chunk)

    async def _is_suspect(self, run_id: str) -> bool:
        try:
            return await asyncio.to_thread(self._desk.is_suspect, run_id)
        except driver_errors():  # the server is away: so it was, as far as anybody knows
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
        except Exception as error:
            log.exception("run %s is parked", run_id)
            said = f"parked: it cannot go on: {error}; `ropewalk runs release` lets a worker try again"
            await asyncio.to_thread(self.fleet.park, run_id, said)
            return "parked"
        return str(result.get("status"))

    async def _play(self, chunk_id: str) -> str:
        row = await asyncio.to_thread(self.store.get_run, chunk_id)
        if row is None or row.status != "running":
            return "over"
        try:
            async with await self._place(row):
                return await self._hand.play(row)
        except Fenced:
            return "over"  # with its run
        except StoreError:
            raise
        except RopewalkError as missing:
            log.warning("chunk %s is given back: %s", chunk_id, missing)
            opened = await self.store.reopen(chunk_id)
            await opened.release()
            await asyncio.to_thread(self.dispatches.put_chunk, chunk_id, opened.run.epoch)
            return "given back"

    async def _release(self, opened: Log) -> None:
        """Let go of a run when the store is back: as long as this process lives nobody else takes it."""
        level = logging.WARNING
        while True:
            try:
                await opened.release()
                return
            except StoreError as error:
                log.log(level, "run %s is not let go of yet: %s", opened.run.id, error)
                level = logging.DEBUG  # once is enough
                await asyncio.sleep(AGAIN)

    async def _give_back(self, row: RunRow, missing: RopewalkError, refusers: list[str]) -> str:
        """This worker lacks what the run needs: another one may have it. When none has, the run has failed."""
        refusers = [*refusers, self.id]
        others = [w.id for w in await asyncio.to_thread(self.fleet.workers) if w.id not in refusers]
        try:
            opened = await self.store.reopen(row.id)
        except RunBusy:
            return "elsewhere"
        if opened.finished is not None:
            return opened.finished.status
        if not others:
            missing = self._outdated(missing)
            log.warning("run %s fails, since no worker can do it: %s", row.id, missing)
            said = {"message": str(missing), "kind": type(missing).__name__}
            await opened.finish("failed", self._refused(row, missing), said)
            return "failed"
        log.warning("run %s is given back: %s", row.id, missing)
        await opened.release()
        await asyncio.to_thread(self.dispatches.put, row.id, opened.run.epoch, row.context or {}, refusers)
        return "given back"

    def _outdated(self, missing: RopewalkError) -> RopewalkError:
        """What no worker has may be in the project by now."""
        if type(missing) is not InvalidFlow:
            return missing
        hint = (
            "no worker can execute it: each has the project as it was when it started"
            f" (the last one asked at {iso(self._began)}); after a change of tools start the workers anew"
        )
        return InvalidFlow([*missing.problems, Problem(path="", message=hint)])

    # --- in the thread of the pulse -------------------------------------------------------

    def _recover(self, dead: list[str]) -> None:
        self._chunks.count(len(self.fleet.workers()))
        self.dispatches.discard()

    def _sweep(self) -> None:
        """Have every unfinished run either owned by a process that executes it, or on its way to one."""
        self._held = frozenset(self.store.open_runs())  # at the last moment at which the database was there
        for owner in self.fleet.collect(self._strays):
            log.warning("%s is gone: its runs are anybody's", owner)
        self._census.look()
        self.dispatches.renew()

    # --- the end --------------------------------------------------------------------------

    def _given_up(self, away: bool) -> None:
        """Cancel everything: others have this worker's runs. If only the database was `away`, nothing has died."""
        if away:
            # Runs that a write has found fenced are closed already, but their tasks were here until now.
            runs = sorted({*self._held, *self.store.open_runs()})
            asyncio.get_running_loop().run_in_executor(None, self._pardon, runs)
        self._leaving = True
        for task in list(self._tasks):
            self._lost.add(task)
            task.cancel()
        asyncio.get_running_loop().call_later(_STOPPED, setattr, self, "_leaving", False)

    def _pardon(self, runs: list[int]) -> None:
        with contextlib.suppress(*driver_errors()):  # a death too many in the count of a run is no reason to end
            self.fleet.pardon(runs)

    async def _drain(self) -> None:
        """Wait for what is begun; what takes longer than the grace is let go of, for others to go on with."""
        timer = asyncio.get_running_loop().call_later(self.terms.grace, self._let_go)
        try:
            while self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            timer.cancel()

    def _let_go(self) -> None:
        self._leaving = True
        self.store.wait_for_server(_STOPPED)
        for task in list(self._tasks):
            task.cancel()

    def _check_queues(self) -> None:
        if self._executor is not None and not self._stop.is_set() and (unasked := self._executor.unasked):
            warn_unasked(unasked)

    def _leave(self) -> None:
        """Blocking. Nothing of this worker is left; what it had begun is in line again."""
        if self._pulse is not None:
            self._pulse.stop()
        if self._executor is not None:
            self._executor.close()
        with contextlib.suppress(*driver_errors()):  # the server is away: the others see to it
            self.fleet.leave(self.id)
            self.dispatches.discard()
            self.dispatches.renew()
        self.client.close()
        self._desk.close()
        self.fleet.close()
