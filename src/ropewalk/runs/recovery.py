"""Recovery without a person: resume the runs whose process died, and those that an ended server handed back.

Used by `ropewalk serve` and by apps opened with `resume=True`. A run that a person interrupted or stopped stays as it
is; so does one of another project, and one whose tools only its own process had. Where workers execute the runs, they
do this themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Final

from ..dialects.records import Outcome
from ..engine.interruption import RecoveryStore
from ..errors import RopewalkError, RunBusy
from ..journal.journal import RunRow
from ..journal.offloop import off_loop
from .standing import LEFT

if TYPE_CHECKING:
    from ..app import App

log = logging.getLogger("ropewalk.recovery")

MOST: Final = 10_000
"""The greatest number of runs that `resume_all` looks through."""

MOST_DEATHS: Final = 3
"""A run on which so many processes died, none of which recorded anything, is parked."""


class Recovery:
    """Looks for runs to resume, and resumes them in tasks of its own.

    Args:
        app: The app whose store is searched and whose tools are called.
        poll: Seconds between two looks.
        at_once: How many recovered runs are executed at the same time.
    """

    def __init__(self, app: App, *, poll: float = 2.0, at_once: int = 16) -> None:
        self._app, self._poll = app, poll
        self._places = asyncio.Semaphore(at_once)
        self._looking: asyncio.Task[None] | None = None
        self._resuming: dict[str, asyncio.Task[None]] = {}
        self._left_alone: set[tuple[str, int]] = set()  # runs at an epoch that cannot be resumed here

    def start(self) -> None:
        """Begin to look; from now on runs that are cancelled here are handed back."""
        if self._app.distributed or not isinstance(self._app.store, RecoveryStore):
            return
        self._app.engine.hands_back = True
        self._looking = asyncio.create_task(self._look_now_and_then())

    async def close(self) -> None:
        """Cancel what is being resumed; it is handed back. Idempotent."""
        tasks = [*self._resuming.values(), *([self._looking] if self._looking is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_now_and_then(self) -> None:
        while True:
            try:
                await self.look()
            except RopewalkError as error:  # a server that is away for a moment
                log.warning("could not look for runs to resume: %s", error)
            await asyncio.sleep(self._poll)

    async def look(self) -> list[str]:
        """Begin to resume what there is to resume; give the ids."""
        store: Any = self._app.store
        found: list[tuple[RunRow, bool]] = await off_loop(store, store.recoverable)
        begun = []
        for row, died in found:
            if row.id in self._resuming or row.id in self._app.engine.live or (row.id, row.epoch) in self._left_alone:
                continue
            if not await off_loop(store, lambda id=row.id: self._is_ours(id)):  # type: ignore[misc]
                self._left_alone.add((row.id, row.epoch))
                continue
            self._resuming[row.id] = asyncio.create_task(self._resume(row, died))
            begun.append(row.id)
        return begun

    def _is_ours(self, run_id: str) -> bool:
        """Whether the run belongs to this app's project and its tools can be called here."""
        row = self._app.store.get_run(run_id)
        context = (row.context if row is not None else None) or {}
        return row is not None and not context.get("executor") and context.get("project") == self._app.project

    async def _resume(self, row: RunRow, died: bool) -> None:
        try:
            async with self._places:
                if died and not await self._bury(row):
                    return
                log.info("resuming run %s (%s): %s", row.id, row.name, _why(row, died))
                outcome = await self._app.resume(row.id, park=True)
                log.info("resumed run %s: %s", row.id, outcome.status)
        except RunBusy:  # another server was faster
            pass
        except RopewalkError as error:
            self._left_alone.add((row.id, row.epoch))
            log.warning("run %s cannot be resumed here: %s", row.id, error)
        finally:
            del self._resuming[row.id]

    async def _bury(self, row: RunRow) -> bool:
        """Count the death of its process; False when the run is not for us: another server's, or parked now."""
        store: Any = self._app.store
        deaths: int | None = await off_loop(store, lambda: store.bury(row, MOST_DEATHS - 1))
        if deaths is None or deaths < MOST_DEATHS:
            return deaths is not None
        log.error(
            "run %s is parked: %d processes died while they executed it, the last one %s", row.id, deaths, row.owner
        )
        return False


def _why(row: RunRow, died: bool) -> str:
    return f"its process {row.owner} died" if died else "the server that executed it ended"


async def resume_all(app: App, *, at_once: int = 4) -> list[Outcome]:
    """Resume every run of this project that nobody executes: interrupted, or answered while it had no process.

    Args:
        app: The app whose store is searched and whose tools are called.
        at_once: How many runs are executed at the same time.

    Returns:
        The outcome of each run, oldest first. One that could not be resumed has the status `interrupted` and its
        reason as `error`.
    """
    places = asyncio.Semaphore(at_once)

    async def one(run_id: str) -> Outcome:
        async with places:
            try:
                return await app.resume(run_id, park=True)
            except RopewalkError as error:
                return Outcome({"runId": run_id, "status": "interrupted", "success": False, "error": str(error)})

    return list(await asyncio.gather(*map(one, await off_loop(app.store, lambda: _left(app)))))


def _left(app: App) -> list[str]:
    """The ids of this project's runs that `resume` continues, oldest first."""
    rows = [row for row in app.store.orphans(MOST) if row.parent is None]
    stands = app.runs.standing(rows)
    found = []
    for row in rows:
        if stands.get(row.id) in LEFT or row.status == "waiting":
            full = app.store.get_run(row.id)
            if full is not None and (full.context or {}).get("project") == app.project:
                found.append(row.id)
    return found


@contextlib.asynccontextmanager
async def recovering(app: App) -> Any:
    """Resume runs without a person for as long as the block lasts."""
    recovery = Recovery(app)
    recovery.start()
    try:
        yield recovery
    finally:
        await recovery.close()
