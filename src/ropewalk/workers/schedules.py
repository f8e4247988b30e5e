"""Runs that the clock starts: `[schedules.NAME]`, kept and fired by DBOS, one run for each time that is due.

Every worker watches the clock; the id of the run, which is made of the schedule's name and the time it was due,
sees to it that one run comes of that. What was due while no worker was there is passed over, unless `catch_up` says
otherwise. DBOS lets up to a tenth of the time between two runs go by, ten seconds at most, so that
not all workers come at once.
"""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from ..config.workplace import Schedule
from ..errors import ConfigError, NotFound
from ..frozen import dataclass
from ..journal.journal import Store
from ..values import Json, closest
from .system import TICK, Client


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


class Schedules:
    """`app.schedules`. Blocking, but for `run`: each is a statement or two. `start` makes the run of a schedule that is
    due at a time, and gives its id."""

    def __init__(
        self,
        client: Client,
        store: Store,
        set_up: Mapping[str, Schedule],
        project: str | None,
        start: Callable[[Mapping[str, Any], str], Awaitable[str]],
    ) -> None:
        self._client, self._store, self._set_up, self._project = client, store, set_up, project
        self._start = start

    def list(self) -> list[ScheduleRow]:
        """By name."""
        return sorted(map(self._row, self._kept()), key=operator.attrgetter("name"))

    async def run(self, name: str) -> str:
        """Put its run in line now, whether it is paused or not; gives the id. Raises what is wrong with it."""
        set_up = self._set_up.get(name)
        context = None if set_up is None else self._context(name, set_up)
        if context is None:
            row = await asyncio.to_thread(self._known, name)
            context = {"name": name, **(row["context"] or {})}
        return await self._start(context, datetime.now(UTC).isoformat())

    def pause(self, name: str) -> None:
        self._known(name)
        self._client.client.pause_schedule(name)

    def resume(self, name: str) -> None:
        """From its next time on."""
        self._known(name)
        self._client.client.resume_schedule(name)

    def apply(self) -> None:
        """Keep what is set up, and forget what this project had set up before. What is paused stays so."""
        kept = {row["schedule_name"]: row for row in self._kept()}
        for name, schedule in self._set_up.items():
            check(name, schedule)
        for name, row in kept.items():
            if name not in self._set_up and (row["context"] or {}).get("project") == self._project:
                self._client.client.delete_schedule(name)
        if self._set_up:
            self._client.client.apply_schedules([self._told(name, one) for name, one in self._set_up.items()])

    def _told(self, name: str, schedule: Schedule) -> dict[str, Any]:
        return {
            "schedule_name": name,
            "workflow_name": TICK,
            "schedule": schedule.cron,
            "context": {**self._context(name, schedule), "project": self._project},
            "automatic_backfill": schedule.catch_up,
            "cron_timezone": schedule.timezone,
        }

    def _context(self, name: str, schedule: Schedule) -> dict[str, Any]:
        return {"name": name, "flow": schedule.flow, "input": schedule.input, "queue": schedule.queue}

    def _kept(self) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = self._client.client.list_schedules(workflow_name=TICK)
        return found

    def _known(self, name: str) -> Mapping[str, Any]:
        known = {row["schedule_name"]: row for row in self._kept()}
        if name not in known:
            why = (
                f"there are {', '.join(known)}" if known else "a worker keeps those of its ropewalk.toml when it starts"
            )
            raise NotFound("schedule", name, suggestion=closest(name, known), why=why)
        return known[name]

    def _row(self, kept: Mapping[str, Any]) -> ScheduleRow:
        context, paused = kept["context"] or {}, kept["status"] != "ACTIVE"
        name, zone, last = kept["schedule_name"], kept["cron_timezone"] or "UTC", kept["last_fired_at"]
        run = self._store.get_run(run_id(name, last)) if last else None
        return ScheduleRow(
            name=name,
            cron=kept["schedule"],
            timezone=zone,
            flow=str(context.get("flow", "")),
            input=context.get("input"),
            paused=paused,
            last=datetime.fromisoformat(last) if last else None,
            status=run.status if run is not None else None,
            next=None if paused else _next(kept["schedule"], zone),
        )


def run_id(name: str, at: str) -> str:
    """The same for every worker that finds the schedule due."""
    return f"schedule/{name}/{datetime.fromisoformat(at).astimezone(UTC).strftime('%Y-%m-%dT%H:%M:%S.%fZ')}"


def check(name: str, schedule: Schedule) -> None:
    """Raise ConfigError, with its place, when the times of a schedule are none."""
    if not _croniter().is_valid(schedule.cron, second_at_beginning=True):
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


def _croniter() -> Any:
    """What reads cron times in DBOS; it has no types."""
    return import_module("croniter").croniter


def _next(cron: str, zone: str) -> datetime:
    found: datetime = _croniter()(cron, datetime.now(ZoneInfo(zone)), second_at_beginning=True).get_next(datetime)
    return found
