"""Automatic recovery: resume the runs that lost their process, those that a closing server handed back, and answered
ones.

Used by servers and by apps opened with `resume=True`. A run that a person interrupted or stopped stays as it is. So
does a run of another project, and a run that needs a tool function of its own process. Where workers execute the runs,
they do this themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from typing import TYPE_CHECKING, Any, Protocol

from ...engine.engine import RecoveryStore
from ...errors import RopewalkError, RunBusy, StoreError
from ...journal.address import run_sync_in_thread
from ...journal.protocol import RunRow
from ...journal.sql.recovery import DIED
from ...notations.records import Outcome
from ...workers.quarantine import quarantine_of
from ..recorded_run import orphans
from .liveness import RESUMABLE, liveness_of

if TYPE_CHECKING:
    from ..context import Context

log = logging.getLogger("ropewalk.recovery")


class Resumer(Protocol):
    """The part of an app that recovery uses."""

    @property
    def context(self) -> Context:
        """The services of the app: its store and its engine."""
        ...

    async def resume(self, run_id: str, *, park: bool = ...) -> Outcome:
        """Resume a run."""
        ...


class Recovery:
    """Looks for runs to resume, and resumes them in tasks of its own."""

    # `poll`: Seconds between two looks. A person who has answered a run sees it continue after about as long.

    def __init__(self, app: Resumer, *, poll: float = 0.5, at_once: int = 16) -> None:
        self._app, self._poll = app, poll
        self._slots = asyncio.Semaphore(at_once)
        self._look_task: asyncio.Task[None] | None = None
        self._resuming: dict[str, asyncio.Task[None]] = {}
        self._left_alone: set[tuple[str, int]] = set()  # runs at an epoch that cannot be resumed here

    def start(self) -> None:
        """Start looking."""

        # From now on the engine hands back the runs that are cancelled here.
        if self._app.context.distributed or not isinstance(self._app.context.store, RecoveryStore):
            return
        self._app.context.engine.hands_back = True
        self._look_task = asyncio.create_task(self._look_repeatedly())

    async def close(self) -> None:
        """Cancel the runs that are being resumed, and hand them back."""

        # Idempotent.
        tasks = [*self._resuming.values(), *([self._look_task] if self._look_task is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_repeatedly(self) -> None:
        while True:
            try:
                await self.resume_recoverable()
            except RopewalkError as error:  # a server that is away for a moment
                log.warning("could not look for runs to resume: %s", error)
            await asyncio.sleep(self._poll)

    async def resume_recoverable(self) -> list[str]:
        """Start to resume every run that can be resumed here, and return their ids."""
        runs = await self._find_recoverable()
        if any(reason == DIED for _, reason in runs):
            released = set[str]()
            for row in [row for row, reason in runs if reason == DIED]:
                if row.id not in released:
                    released |= await self._hand_back_dead_process(row)
            runs = [(row, reason) for row, reason in await self._find_recoverable() if reason != DIED]
        for row, reason in runs:
            self._resuming[row.id] = asyncio.create_task(self._resume(row, reason))
        return [*(row.id for row, _ in runs), *await self._start_due_undos()]

    async def _find_recoverable(self) -> list[tuple[RunRow, str]]:
        """Return the runs that can be resumed here, and that nobody resumes yet, each with the reason."""
        store: Any = self._app.context.store
        result = []
        left_alone = frozenset(self._left_alone)
        for row, reason in await run_sync_in_thread(store, lambda: store.recoverable(left_alone=left_alone)):
            if (
                row.id in self._resuming
                or row.id in self._app.context.engine.live
                or (row.id, row.epoch) in self._left_alone  # meanwhile
            ):
                continue
            if not await run_sync_in_thread(store, lambda id=row.id: self._is_ours(id)):  # type: ignore[misc]
                self._left_alone.add((row.id, row.epoch))
                continue
            result.append((row, reason))
        return result

    def _is_ours(self, run_id: str) -> bool:
        """Return True if the run belongs to this app's project and its tools can be called here."""
        row = self._app.context.store.get_run(run_id)
        context = (row.context if row is not None else None) or {}
        return row is not None and not context.get("executor") and context.get("project") == self._app.context.project

    async def _start_due_undos(self) -> list[str]:
        """Start to undo the runs whose policy says so, and that nobody undoes; return their ids."""
        store: Any = self._app.context.store
        started = []
        # All of them: those of other projects may come first.
        for run_id in await run_sync_in_thread(store, lambda: store.undo_due(sys.maxsize)):
            if run_id in self._resuming or run_id in self._app.context.engine.live or (run_id, 0) in self._left_alone:
                continue
            if not await run_sync_in_thread(store, lambda id=run_id: self._is_ours(id)):  # type: ignore[misc]
                self._left_alone.add((run_id, 0))
                continue
            self._resuming[run_id] = asyncio.create_task(self._undo(run_id))
            started.append(run_id)
        return started

    async def _undo(self, run_id: str) -> None:
        try:
            async with self._slots:
                if self._app.context.after_run is not None:
                    await self._app.context.after_run(run_id, None)
        except RunBusy:  # another process undoes it, or still ends its calls
            pass
        except RopewalkError as error:
            self._left_alone.add((run_id, 0))
            log.warning("run %s cannot be undone here: %s", run_id, error)
        finally:
            del self._resuming[run_id]

    async def _resume(self, row: RunRow, reason: str) -> None:
        try:
            async with self._slots, await self._admit(row.id):
                log.info("resuming run %s (%s): %s", row.id, row.name, reason)
                outcome = await self._app.resume(row.id, park=True)
                log.info("resumed run %s: %s", row.id, outcome.status)
        except RunBusy:  # another server was faster
            pass
        except RopewalkError as error:
            self._left_alone.add((row.id, row.epoch))
            log.warning("run %s cannot be resumed here: %s", row.id, error)
        finally:
            del self._resuming[row.id]

    async def _admit(self, run_id: str) -> contextlib.AbstractAsyncContextManager[None]:
        """Return where a run executes: among the others, or alone if it may kill this process."""
        store: Any = self._app.context.store

        async def is_suspect() -> bool:
            try:
                return bool(await run_sync_in_thread(store, lambda: store.is_suspect(run_id)))
            except StoreError:  # a store that is away has cleared no suspicion
                return True

        quarantine = quarantine_of(store)
        if await is_suspect():
            return quarantine.run_alone(run_id, is_suspect)  # a worker in this process may be the only one
        return quarantine.run_with_others(run_id)

    async def _hand_back_dead_process(self, row: RunRow) -> set[str]:
        """Take the runs of the dead process of a run from it, and return their ids; none if a server was faster."""
        context: Any = self._app.context
        recoveries = context.settings.limits.recoveries
        runs = await run_sync_in_thread(context.store, lambda: context.store.hand_back_dead_process(row, recoveries))
        for run in runs:
            log.log(logging.ERROR if run.is_parked else logging.WARNING, "%s", run)
        return {run.id for run in runs}


async def resume_all(app: Resumer, *, at_once: int = 4) -> list[Outcome]:
    """Resume every run of this project that no process executes: interrupted, or answered while it had no process."""
    slots = asyncio.Semaphore(at_once)

    async def resume_run(run_id: str) -> Outcome:
        async with slots:
            try:
                return await app.resume(run_id, park=True)
            except RopewalkError as error:
                return Outcome({"runId": run_id, "status": "interrupted", "success": False, "error": str(error)})

    return list(
        await asyncio.gather(*map(resume_run, await run_sync_in_thread(app.context.store, lambda: _resumable_ids(app))))
    )


def _resumable_ids(app: Resumer) -> list[str]:
    """Return the ids of the runs of this project that `resume` continues, oldest first."""
    rows = [row for row in orphans(app.context.store).values() if row.parent is None]
    liveness = liveness_of(app.context, rows)
    result = []
    for row in rows:
        if liveness.get(row.id) in RESUMABLE or row.status == "waiting":
            full = app.context.store.get_run(row.id)
            if full is not None and (full.context or {}).get("project") == app.context.project:
                result.append(row.id)
    return result


@contextlib.asynccontextmanager
async def recovering(app: Resumer) -> Any:
    """Resume runs without a person for as long as the block lasts."""
    recovery = Recovery(app)
    recovery.start()
    try:
        yield recovery
    finally:
        await recovery.close()
