"""Starts the runs of schedules: every worker looks at the clock, and one of them starts each run.

A due time is missed if no worker was connected to the database when it came, or within two seconds after. What then
happens is the schedule's `catch_up`: `run_once` starts one run for the latest missed time and merges the others into
it, `skip` starts none, `run_all` starts one for each. A crash between start and note does no harm: the id of a run is
made of the schedule's name and the due time.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from ..errors import StoreError
from ..frozen import dataclass
from ..journal.boottime import boottime
from ..journal.timetable import Missed, Timetable, TimetableRow
from .due import dues, next_due
from .pulse import driver_errors

_PAUSE: Final = 0.5  # seconds between looks at the clock
_GAP: Final = 10.0  # seconds between looks, after which a worker may have missed something without an outage
_HOLD: Final = 30.0  # seconds for one worker to start what is due
_SOON: Final = 2.0  # seconds after which a run still starts on time
_AT_ONCE: Final = 100  # due times handled together
_TOLD: Final = 20  # missed due times with a log line of their own, each time
log = logging.getLogger("ropewalk.workers")


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do about the due times of a schedule: times to `start` a run for, those that were `missed`, and the
    first time that is left."""

    start: Sequence[datetime]
    missed: Sequence[Missed]
    next: datetime


def decide(row: TimetableRow, now: float, connected: float, run_id: Callable[[str, str], str]) -> Decision:
    """Decide about the due times of a schedule from its first unhandled one until now.

    Args:
        row: The schedule.
        now: The time, in seconds since the epoch.
        connected: Since when a worker could have started a run.
        run_id: Makes the id of a run from the schedule's name and the due time.
    """
    first, until = _time(row.next), _time(now)
    if row.catch_up == "run_all":
        found: list[datetime] = [first]
        while len(found) < _AT_ONCE and (due := next_due(row.cron, row.timezone, found[-1])) <= until:
            found.append(due)
    else:
        found = dues(row.cron, row.timezone, first, until, _AT_ONCE)
    late = [due for due in found if due.timestamp() < connected]
    start = [due for due in found if due.timestamp() >= connected]
    missed: list[Missed] = []
    if late and row.catch_up == "skip":
        missed = [Missed(due.timestamp(), "skipped", None) for due in late]
    elif late:
        rest = late if row.catch_up == "run_all" else late[-1:]
        last = run_id(row.name, rest[-1].isoformat())
        merged = [] if row.catch_up == "run_all" else late[:-1]
        missed = [Missed(due.timestamp(), "merged", last) for due in merged]
        missed += [Missed(due.timestamp(), "late", run_id(row.name, due.isoformat())) for due in rest]
        start = [*rest, *start]
    return Decision(start, missed, next_due(row.cron, row.timezone, found[-1]))


class Clockwork:
    """Start what is due, in one worker.

    Args:
        timetable: The schedules of the store. Only this object uses it.
        worker: The worker's id.
        start: Starts the run of a schedule for a due time, or notes why it cannot; returns its id.
        run_id: Makes the id of a run.
    """

    def __init__(
        self,
        timetable: Timetable,
        worker: str,
        start: Callable[[Mapping[str, Any], str], Awaitable[str]],
        run_id: Callable[[str, str], str],
    ) -> None:
        self._timetable, self._worker, self._start, self._run_id = timetable, worker, start, run_id
        self._connected = math.inf
        self._looked = -math.inf

    async def run(self) -> None:
        """Look at the clock until this task is cancelled."""
        away: tuple[type[Exception], ...] = (*driver_errors(), StoreError)
        while True:
            try:
                await self._look()
            except away as error:
                log.debug("could not look at the schedules: %s", error)
                self._connected = math.inf
            except Exception:
                log.exception("could not start what is due; trying again")
            await asyncio.sleep(_PAUSE)

    async def _look(self) -> None:
        now, rows = await asyncio.to_thread(self._timetable.take, self._worker, _HOLD)
        if self._connected == math.inf or boottime() - self._looked > _GAP:
            self._connected = now - _SOON
        self._looked = boottime()
        for row in rows:
            decision = decide(row, now, self._connected, self._run_id)
            for due in decision.start:
                await self._start({"name": row.name, **row.context}, due.isoformat())
            last = decision.start[-1].timestamp() if decision.start else None
            if await asyncio.to_thread(self._timetable.advance, row, decision.next.timestamp(), last, decision.missed):
                _tell(row.name, decision.missed)
            self._looked = boottime()  # the time that it takes to start runs is no gap


def _tell(name: str, missed: Sequence[Missed]) -> None:
    for one in missed[:_TOLD]:
        what = {
            "late": f"started now, as run {one.run}",
            "merged": f"merged into run {one.run}",
            "skipped": 'skipped, as catch_up = "skip" says',
        }[one.became]
        log.warning("schedule %s was due at %s while no worker was connected; %s", name, shown(one.due), what)
    if len(missed) > _TOLD:
        log.warning("schedule %s: %d more due times were missed; see `schedules ls`", name, len(missed) - _TOLD)


def shown(seconds: float) -> str:
    """Return a time as people read it."""
    return _time(seconds).isoformat(timespec="seconds")


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
