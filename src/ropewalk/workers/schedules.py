"""Runs that the clock starts: `[schedules.NAME]`, kept in the store.

Workers start them (`clockwork.py`); here they are listed, paused, resumed and brought up to date with ropewalk.toml.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from ..config.workplace import Schedule
from ..errors import ConfigError, NotFound
from ..frozen import dataclass
from ..journal.journal import Store
from ..journal.timetable import Missed, Timetable, TimetableRow
from ..values import Json, closest
from .dbos_adapter import TICK, Client
from .due import croniter, next_due


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """A schedule as it is kept: `paused` or not, when it was `last` due, what became of that (the `status` of its run,
    None before there is one), and when it is `next`."""

    name: str
    cron: str
    timezone: str
    flow: str
    input: Json
    paused: bool
    last: datetime | None
    status: str | None
    next: datetime | None
    catch_up: str = "run_once"
    missed: Sequence[Missed] = field(default=())


class Schedules:
    """`app.schedules`. Blocking, except for `run`: each method is a statement or two.

    `start` makes the run of a schedule that is due at a time, and returns its id.
    """

    def __init__(
        self,
        timetable: Timetable,
        client: Client,
        store: Store,
        set_up: Mapping[str, Schedule],
        project: str | None,
        start: Callable[[Mapping[str, Any], str], Awaitable[str]],
    ) -> None:
        self._timetable, self._client, self._store = timetable, client, store
        self._set_up, self._project, self._start = set_up, project, start

    def list(self) -> list[ScheduleRow]:
        """Return the schedules of the store by name, each with its latest missed due times."""
        return [self._row(row) for row in self._timetable.rows()]

    async def run(self, name: str) -> str:
        """Queue a run of a schedule now, whether it is paused or not.

        Args:
            name: The schedule.

        Returns:
            The id of the run.

        Raises:
            NotFound: There is no such schedule.
            RopewalkError: Its flow or its input is wrong.
        """
        set_up = self._set_up.get(name)
        if set_up is not None:
            context = _context(set_up)
        else:
            context = (await asyncio.to_thread(self._known, name)).context
        return await self._start({"name": name, **context}, datetime.now(UTC).isoformat())

    def pause(self, name: str) -> None:
        """Start nothing by this schedule until it is resumed.

        Raises:
            NotFound: There is no such schedule.
        """
        self._known(name)
        self._timetable.pause(name)

    def resume(self, name: str) -> None:
        """Start runs again, from the next due time on. Due times that passed meanwhile are not missed.

        Raises:
            NotFound: There is no such schedule.
        """
        row = self._known(name)
        self._timetable.resume(name, self._next(row.cron, row.timezone))

    def apply(self) -> None:
        """Keep the schedules that are set up, and forget what this project had set up before.

        Raises:
            ConfigError: The times of a schedule are wrong.
        """
        for name, schedule in self._set_up.items():
            check(name, schedule)
        paused = self._forget_old()
        rows = [
            TimetableRow(
                name=name,
                project=self._project,
                cron=schedule.cron,
                timezone=schedule.timezone,
                context=_context(schedule),
                catch_up=schedule.catch_up,
                paused=name in paused,
                next=self._next(schedule.cron, schedule.timezone),
            )
            for name, schedule in self._set_up.items()
        ]
        self._timetable.put(rows, self._project)

    def _forget_old(self) -> set[str]:
        """Delete the schedules that earlier versions kept in DBOS; return those that were paused."""
        client, paused = self._client.client, set()
        for row in client.list_schedules(workflow_name=TICK):
            if (row["context"] or {}).get("project") == self._project:
                client.delete_schedule(row["schedule_name"])
                if row["status"] != "ACTIVE":
                    paused.add(row["schedule_name"])
        return paused

    def _next(self, cron: str, zone: str) -> float:
        return next_due(cron, zone, datetime.fromtimestamp(self._timetable.now(), UTC)).timestamp()

    def _known(self, name: str) -> TimetableRow:
        known = {row.name: row for row in self._timetable.rows()}
        if name not in known:
            why = (
                f"there are {', '.join(known)}" if known else "a worker keeps those of its ropewalk.toml when it starts"
            )
            raise NotFound("schedule", name, suggestion=closest(name, known), why=why)
        return known[name]

    def _row(self, row: TimetableRow) -> ScheduleRow:
        last = datetime.fromtimestamp(row.last, UTC) if row.last is not None else None
        run = self._store.get_run(run_id(row.name, last.isoformat())) if last is not None else None
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
            catch_up=row.catch_up,
            missed=row.missed,
        )


def _context(schedule: Schedule) -> dict[str, Any]:
    return {"flow": schedule.flow, "input": schedule.input, "queue": schedule.queue}


def run_id(name: str, at: str) -> str:
    """The same for every worker that finds the schedule due."""
    return f"schedule/{name}/{datetime.fromisoformat(at).astimezone(UTC).strftime('%Y-%m-%dT%H:%M:%S.%fZ')}"


def check(name: str, schedule: Schedule) -> None:
    """Raise ConfigError, with its place, when the times of a schedule are none."""
    if not croniter().is_valid(schedule.cron, second_at_beginning=True):
        right = 'five fields, "minute hour day month weekday", or six, with seconds first'
        raise _wrong(name, schedule, "cron", f"{schedule.cron!r} is no time of cron; right are {right}")
    try:
        ZoneInfo(schedule.timezone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        near = closest(schedule.timezone, available_timezones())
        hint = f"; did you mean {near}?" if near else ""
        raise _wrong(name, schedule, "timezone", f"there is no {schedule.timezone!r}{hint}") from error


def _wrong(name: str, schedule: Schedule, key: str, said: str) -> ConfigError:
    place = schedule.where(key) if schedule.where is not None else None
    return ConfigError(f"[schedules.{name}] {key}: {said}", place=place)
