"""Runs that the clock starts: `[schedules.NAME]`, kept and fired by DBOS, one run for each time that is due.

Every worker watches the clock; the id of the run, which is made of the schedule's name and the time it was due,
sees to it that one run comes of that. What was due while no worker was there is passed over, unless `catch_up` says
otherwise. DBOS lets up to a tenth of the time between two runs go by, ten seconds at most, so that
not all workers come at once.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import import_module
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ..config.workplace import Schedule
from ..errors import ConfigError, NotFound
from ..frozen import dataclass
from ..values import Json, closest
from .system import TICK, Client


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """A schedule as it is kept: `paused` or not, when it was `last` due and when it is `next`."""

    name: str
    cron: str
    timezone: str
    flow: str
    input: Json
    paused: bool
    last: datetime | None
    next: datetime | None


class Schedules:
    """`app.schedules`. Blocking: each is a statement or two."""

    def __init__(self, client: Client, set_up: Mapping[str, Schedule], project: str | None) -> None:
        self._client, self._set_up, self._project = client, set_up, project

    def list(self) -> list[ScheduleRow]:
        """By name."""
        return sorted(
            map(_row, self._client.client.list_schedules(workflow_name=TICK)), key=operator.attrgetter("name")
        )

    def run(self, name: str) -> None:
        """Start it now, whether it is paused or not."""
        self._known(name)
        self._client.client.trigger_schedule(name)

    def pause(self, name: str) -> None:
        self._known(name)
        self._client.client.pause_schedule(name)

    def resume(self, name: str) -> None:
        """From its next time on."""
        self._known(name)
        self._client.client.resume_schedule(name)

    def apply(self) -> None:
        """Keep what is set up, and forget what this project had set up before. What is paused stays so."""
        kept = {row["schedule_name"]: row for row in self._client.client.list_schedules(workflow_name=TICK)}
        for name, schedule in self._set_up.items():
            _check(name, schedule)
        for name, row in kept.items():
            if name not in self._set_up and (row["context"] or {}).get("project") == self._project:
                self._client.client.delete_schedule(name)
        if self._set_up:
            self._client.client.apply_schedules([self._told(name, one) for name, one in self._set_up.items()])

    def _told(self, name: str, schedule: Schedule) -> dict[str, Any]:
        context = {"name": name, "flow": schedule.flow, "input": schedule.input, "queue": schedule.queue}
        return {
            "schedule_name": name,
            "workflow_name": TICK,
            "schedule": schedule.cron,
            "context": {**context, "project": self._project},
            "automatic_backfill": schedule.catch_up,
            "cron_timezone": schedule.timezone,
        }

    def _known(self, name: str) -> None:
        known = [row.name for row in self.list()]
        if name not in known:
            why = (
                f"there are {', '.join(known)}" if known else "a worker keeps those of its ropewalk.toml when it starts"
            )
            raise NotFound("schedule", name, suggestion=closest(name, known), why=why)


def run_id(name: str, at: str) -> str:
    """The same for every worker that finds the schedule due."""
    return f"schedule/{name}/{datetime.fromisoformat(at).astimezone(UTC).strftime('%Y-%m-%dT%H:%M:%S.%fZ')}"


def _check(name: str, schedule: Schedule) -> None:
    if not _croniter().is_valid(schedule.cron, second_at_beginning=True):
        right = 'five fields, "minute hour day month weekday", or six, with seconds first'
        raise ConfigError(f"[schedules.{name}] cron: {schedule.cron!r} is no time of cron; right are {right}")
    try:
        ZoneInfo(schedule.timezone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ConfigError(f"[schedules.{name}] timezone: there is no {schedule.timezone!r}") from error


def _row(kept: Mapping[str, Any]) -> ScheduleRow:
    context, paused = kept["context"] or {}, kept["status"] != "ACTIVE"
    zone, last = kept["cron_timezone"] or "UTC", kept["last_fired_at"]
    return ScheduleRow(
        name=kept["schedule_name"],
        cron=kept["schedule"],
        timezone=zone,
        flow=str(context.get("flow", "")),
        input=context.get("input"),
        paused=paused,
        last=datetime.fromisoformat(last) if last else None,
        next=None if paused else _next(kept["schedule"], zone),
    )


def _croniter() -> Any:
    """What reads cron times in DBOS; it has no types."""
    return import_module("croniter").croniter


def _next(cron: str, zone: str) -> datetime:
    found: datetime = _croniter()(cron, datetime.now(ZoneInfo(zone)), second_at_beginning=True).get_next(datetime)
    return found
