"""Schedules: runs that the clock starts, as `[schedules.NAME]` in ropewalk.toml sets them up.

The store keeps the schedules. `Schedules` lists, pauses and resumes them. In every worker a `ScheduleClock` looks at
the clock, and one of them starts each run. `cron.py` says when a schedule is due.

A due time is missed if no worker was connected to the store then, or within two seconds after. The schedule's
`catch_up` decides: `run_once` starts one run for the latest missed time and merges the others into it, `skip` starts
none, `run_all` starts one for each. A crash after a start does no harm, because the id of a run is made of the
schedule's name and the due time.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from ..config.settings import Schedule
from ..errors import ConfigError, NotFound, RopewalkError, StoreError
from ..fast_dataclass import dataclass
from ..journal.protocol import Store
from ..journal.sql.leases import boottime
from ..journal.sql.timetable import Missed, Timetable, TimetableRow
from ..source.document import render_problem
from ..values import Json, did_you_mean
from .cron import due_times, next_due, schedule_faults

NOT_STARTED: Final = "not started"
"""The status of a configured schedule before a worker stores it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """A schedule as the store keeps it."""

    # `last` is the last due time, `status` the status of its run and `error` its error, None before there is one.
    # `next` is the next due time, None while the schedule is paused. `missed` lists the latest due times at which no
    # worker was connected.

    name: str
    cron: str
    timezone: str
    flow: str
    input: Json
    paused: bool
    last: datetime | None
    status: str | None
    next: datetime | None
    error: Json = None
    catch_up: str = "run_once"
    missed: Sequence[Missed] = field(default=())


class Schedules:
    """The service `app.schedules`. Its methods block for one or two statements, except for `run`.

    Args:
        timetable: The schedules of the store.
        store: Knows the runs of schedules.
        configured: The schedules of ropewalk.toml, by name.
        project: The project directory.
        start: Queues the run of a schedule for a due time; returns its id.
        other_projects: Returns the other projects of which a process executes schedules of this store.
    """

    def __init__(
        self,
        timetable: Timetable,
        store: Store,
        configured: Mapping[str, Schedule],
        project: str | None,
        start: Callable[[Mapping[str, Any], str], Awaitable[str]],
        other_projects: Callable[[], Collection[str]] = lambda: (),
    ) -> None:
        self._timetable, self._store = timetable, store
        self._configured, self._project, self._start = configured, project, start
        self._other_projects = other_projects
        self._refused: Collection[str] = ()  # the names that another project used

    def list(self) -> list[ScheduleRow]:
        """Return the schedules of the store, each with its latest missed due times, and those whose times are wrong.

        Returns:
            The schedules, sorted by name.
        """
        rows = {row.name: self._to_schedule_row(row) for row in self._timetable.rows()}
        return list(with_faults(rows, self._configured).values())

    async def run(self, name: str) -> str:
        """Queue a run of a schedule now, whether it is paused or not.

        Args:
            name: The schedule.

        Returns:
            The id of the run.

        Raises:
            NotFound: No schedule has this name.
            RopewalkError: Its flow or its input is wrong.
        """
        schedule = self._configured.get(name)
        if schedule is not None:
            context = _context(schedule)
        else:
            context = (await asyncio.to_thread(self._require_row, name)).context
        return await self._start({"name": name, **context}, datetime.now(UTC).isoformat())

    def pause(self, name: str) -> None:
        """Pause a schedule: it starts no runs until it is resumed.

        Args:
            name: The schedule.

        Raises:
            NotFound: No schedule has this name.
        """
        self._require_row(name)
        self._timetable.pause(name)

    def resume(self, name: str) -> None:
        """Resume a schedule from its next due time on. Due times that passed meanwhile are not missed.

        Args:
            name: The schedule.

        Raises:
            NotFound: No schedule has this name.
        """
        row = self._require_row(name)
        self._timetable.resume(name, self._next_due(row.cron, row.timezone))

    def apply(self) -> None:
        """Store the configured schedules, and delete those that this project configured before.

        A schedule whose times are wrong is left out, with an error in the log. So is one whose name another project
        uses for a different schedule, while a process of that project is running.
        """
        conflicts = self._conflicts()
        faults = {**conflicts, **schedule_faults(self._configured)}
        for error in faults.values():
            log.error("a schedule is left out; the others are served: %s", render_problem(error.problems[0]))
        self._refused = conflicts
        self._store_schedules(self._configured_rows(self._configured.keys() - faults))

    async def keep(self, failures: tuple[type[Exception], ...] = ()) -> None:
        """Take over the configured schedules from projects that have gone, until this task is cancelled."""
        passing: tuple[type[Exception], ...] = (*failures, StoreError)
        while True:
            await asyncio.sleep(_TAKE_OVER_PAUSE)
            try:
                await asyncio.to_thread(self._take_over)
            except passing as error:
                log.debug("could not look for schedules to take over: %s", error)
            except Exception:
                log.exception("could not take over schedules; trying again")

    def _take_over(self) -> None:
        """Store the configured schedules that no process serves: their project has gone, or has given them up."""
        stored, others = {row.name: row for row in self._timetable.rows()}, {self._project, *self._other_projects()}
        free = {name for name, row in stored.items() if row.project not in others}
        free |= {name for name in self._refused if name not in stored}
        if rows := self._configured_rows(free):
            self._store_schedules(rows, others_stay=True)

    def _configured_rows(self, names: Collection[str]) -> Sequence[TimetableRow]:
        """Return the configured schedules of these names whose times are right, as the store keeps them."""
        faults = schedule_faults(self._configured)
        return [
            TimetableRow(
                name=name,
                project=self._project,
                cron=schedule.cron,
                timezone=schedule.timezone,
                context=_context(schedule),
                catch_up=schedule.catch_up,
                next=self._next_due(schedule.cron, schedule.timezone),
            )
            for name, schedule in self._configured.items()
            if name in names and name not in faults
        ]

    def _store_schedules(self, rows: Sequence[TimetableRow], *, others_stay: bool = False) -> None:
        for name, project in self._timetable.replace_all(rows, self._project, others_stay=others_stay):
            log.warning(
                "schedule %s replaces a different one of this name in the same store, of %s;"
                " if both are still in use, rename one of them",
                name,
                f"the project {project}" if project else "an app without a project",
            )

    def _conflicts(self) -> dict[str, ConfigError]:
        """Return the errors of the schedules whose names another project uses in this store, by name."""
        if not self._configured or not (others := self._other_projects()):
            return {}
        stored = {row.name: row for row in self._timetable.rows() if row.project in others}
        return {
            row.name: ConfigError(
                f"[schedules.{row.name}]: the project {stored[row.name].project} has a schedule of this name in the"
                " same store, and is being served; rename one of the two, or give each project its own store",
                place=None if (where := self._configured[row.name].where) is None else where("cron"),
            )
            for row in self._configured_rows(stored)
            if not row.is_like(stored[row.name])
        }

    def _next_due(self, cron: str, zone: str) -> float:
        return next_due(cron, zone, datetime.fromtimestamp(self._timetable.server_time(), UTC)).timestamp()

    def _require_row(self, name: str) -> TimetableRow:
        known = {row.name: row for row in self._timetable.rows()}
        if name in known:
            return known[name]
        if fault := schedule_faults(self._configured).get(name):
            raise fault
        names = sorted({*known, *self._configured} - {name})
        why = "a server or a worker stores the schedules of its ropewalk.toml when it starts"
        if names and name not in self._configured:
            why = f"the schedules are: {', '.join(names)}"
        raise NotFound("schedule", name, suggestion=did_you_mean(name, names), why=why)

    def _to_schedule_row(self, row: TimetableRow) -> ScheduleRow:
        last = datetime.fromtimestamp(row.last, UTC) if row.last is not None else None
        run = self._store.get_run(scheduled_run_id(row.name, last.isoformat())) if last is not None else None
        # A due time in the past is one that no worker has handled yet.
        due = datetime.fromtimestamp(row.next, ZoneInfo(row.timezone))
        return ScheduleRow(
            name=row.name,
            cron=row.cron,
            timezone=row.timezone,
            flow=str(row.context.get("flow", "")),
            input=row.context.get("input"),
            paused=row.paused,
            last=last,
            status=run.status if run is not None else None,
            next=None if row.paused else due,
            error=run.error if run is not None else None,
            catch_up=row.catch_up,
            missed=row.missed,
        )


def with_faults(rows: Mapping[str, ScheduleRow], configured: Mapping[str, Schedule]) -> dict[str, ScheduleRow]:
    """Return schedules with those whose times are wrong, each with its error, by name."""
    faults = schedule_faults(configured)
    wrong = {name: configured_row(name, configured[name], str(error)) for name, error in faults.items()}
    return dict(sorted({**wrong, **rows}.items()))


def configured_row(name: str, schedule: Schedule, error: str | None = None) -> ScheduleRow:
    """Return a schedule that no worker has stored, yet or because of an error."""
    return ScheduleRow(
        name=name,
        cron=schedule.cron,
        timezone=schedule.timezone,
        flow=schedule.flow,
        input=schedule.input,
        paused=False,
        last=None,
        status=NOT_STARTED,
        next=None,
        error=None if error is None else {"message": error},
        catch_up=schedule.catch_up,
    )


def _context(schedule: Schedule) -> dict[str, Any]:
    return {"flow": schedule.flow, "input": schedule.input, "queue": schedule.queue}


def scheduled_run_id(name: str, at: str) -> str:
    """Return the id of the run for a due time, equal in every worker."""
    return f"schedule/{name}/{datetime.fromisoformat(at).astimezone(UTC).strftime('%Y-%m-%dT%H:%M:%S.%fZ')}"


_PAUSE: Final = 0.5  # seconds between looks at the clock
_TAKE_OVER_PAUSE: Final = 5.0  # seconds between looks for schedules of projects that have gone
_MAX_GAP: Final = 10.0  # seconds between looks, after which a worker may have missed something without an outage
_CLAIM_SECONDS: Final = 30.0  # seconds for one worker to start what is due
_ON_TIME: Final = 2.0  # seconds after which a run still starts on time
_MAX_DUE_TIMES: Final = 100  # due times handled together
_MAX_LOGGED: Final = 20  # missed due times with their own log line
log = logging.getLogger("ropewalk.workers")


@dataclass(frozen=True, slots=True)
class Decision:
    """The due times of a schedule to `start` a run for, those that were `missed`, and the `next` due time."""

    start: Sequence[datetime]
    missed: Sequence[Missed]
    next: datetime


def decide_due_times(row: TimetableRow, now: float, connected: float, run_id: Callable[[str, str], str]) -> Decision:
    """Decide about the due times of a schedule from its first unhandled one until now."""

    # `now`: The time, in seconds since the epoch.
    # `connected`: Since when a worker could have started a run, in seconds since the epoch.
    first, until = _time(row.next), _time(now)
    if row.catch_up == "run_all":
        # Every due time counts, so the oldest come first and the rest at the next look.
        times: list[datetime] = [first]
        while len(times) < _MAX_DUE_TIMES and (due := next_due(row.cron, row.timezone, times[-1])) <= until:
            times.append(due)
    else:
        times = due_times(row.cron, row.timezone, first, until, _MAX_DUE_TIMES)
    missed_times = [due for due in times if due.timestamp() < connected]
    start = [due for due in times if due.timestamp() >= connected]
    missed: list[Missed] = []
    if missed_times and row.catch_up == "skip":
        missed = [Missed(due.timestamp(), "skipped", None) for due in missed_times]
    elif missed_times:
        caught_up = missed_times if row.catch_up == "run_all" else missed_times[-1:]
        last = run_id(row.name, caught_up[-1].isoformat())
        merged = [] if row.catch_up == "run_all" else missed_times[:-1]
        missed = [Missed(due.timestamp(), "merged", last) for due in merged]
        missed += [Missed(due.timestamp(), "late", run_id(row.name, due.isoformat())) for due in caught_up]
        start = [*caught_up, *start]
    return Decision(start, missed, next_due(row.cron, row.timezone, times[-1]))


class ScheduleClock:
    """Starts the runs of schedules that are due, in one worker."""

    # `failures` are the errors of a store that is away. With `project`, only its schedules count.

    def __init__(
        self,
        timetable: Timetable,
        worker: str,
        start: Callable[[Mapping[str, Any], str], Awaitable[RopewalkError | None]],
        run_id: Callable[[str, str], str],
        *,
        failures: tuple[type[Exception], ...] = (),
        project: str | None = None,
    ) -> None:
        self._timetable, self._worker, self._start, self._run_id = timetable, worker, start, run_id
        self._failures: tuple[type[Exception], ...] = (*failures, StoreError)
        self._project = project
        self._connected = math.inf
        self._looked = -math.inf

    async def run(self) -> None:
        """Look at the clock until this task is cancelled."""
        while True:
            try:
                await self.start_due_runs()
            except self._failures as error:
                log.debug("could not look at the schedules: %s", error)
                self._connected = math.inf
            except Exception:
                log.exception("could not start the runs that are due; trying again")
            await asyncio.sleep(_PAUSE)

    async def start_due_runs(self) -> None:
        """Start the runs that are due now, and record those that were missed."""
        now, rows = await asyncio.to_thread(self._timetable.reserve_due, self._worker, _CLAIM_SECONDS, self._project)
        # After an outage or a long pause, earlier due times count as missed.
        if self._connected == math.inf or boottime() - self._looked > _MAX_GAP:
            self._connected = now - _ON_TIME
        self._looked = boottime()
        for row in rows:
            try:
                decision = decide_due_times(row, now, self._connected, self._run_id)
            except ConfigError as error:  # stored by an earlier version; the reservation delays the next attempt
                log.error("schedule %s cannot be served: %s", row.name, error)
                continue
            errors: dict[str, RopewalkError] = {}  # by the id of a run that could not begin
            for due in decision.start:
                at = due.isoformat()
                if (refused := await self._start({"name": row.name, **row.context}, at)) is not None:
                    errors[self._run_id(row.name, at)] = refused
                    if due.timestamp() >= self._connected:
                        log.error(_NOT_BEGUN, refused, row.name, at, "")
            last = decision.start[-1].timestamp() if decision.start else None
            if await asyncio.to_thread(self._timetable.advance, row, decision.next.timestamp(), last, decision.missed):
                _log_missed(row.name, decision.missed, errors)
            self._looked = boottime()  # starting runs takes time, which is not a pause


_NOT_BEGUN: Final = (
    "%s; the schedule %s was due at %s%s, but its run could not begin: correct this, then start a run of the schedule"
)


def _log_missed(name: str, missed: Sequence[Missed], errors: Mapping[str, RopewalkError]) -> None:
    """Report the missed due times, with what became of them; `errors` are those of runs that could not begin."""
    for due_time in missed[:_MAX_LOGGED]:
        if (error := errors.get(due_time.run or "")) is not None:
            log.error(_NOT_BEGUN, error, name, format_time(due_time.due), " while no worker was connected")
            continue
        consequence = {
            "late": f"its run is {due_time.run}",
            "merged": f"merged into run {due_time.run}",
            "skipped": 'skipped, because of catch_up = "skip"',
        }[due_time.outcome]
        at = format_time(due_time.due)
        log.warning("schedule %s was due at %s while no worker was connected; %s", name, at, consequence)
    if len(missed) > _MAX_LOGGED:
        log.warning("schedule %s: %d more due times were missed", name, len(missed) - _MAX_LOGGED)


def format_time(seconds: float) -> str:
    """Return a time as ISO 8601 in UTC."""
    return _time(seconds).isoformat(timespec="seconds")


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
