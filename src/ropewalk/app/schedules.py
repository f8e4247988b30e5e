"""The schedules of a store for people, also where nothing executes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from ..errors import ConfigError, StoreError
from ..fast_dataclass import dataclass

if TYPE_CHECKING:
    from datetime import datetime

    from ..workers.schedules import ScheduleRow
    from .app import App

_UPCOMING: Final = 3  # due times that are shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleList:
    """The schedules of a store; `unavailable` is why there are none that could be started or paused, or None."""

    rows: Sequence[ScheduleRow]
    unavailable: StoreError | None = None


def list_schedules(app: App) -> ScheduleList:
    """Return the schedules of the store of an app."""

    # Blocking.
    try:
        schedules = app.schedules
    except StoreError as error:
        return ScheduleList(rows=(), unavailable=error)
    return ScheduleList(rows=schedules.list())


def next_due_times(row: ScheduleRow) -> list[datetime]:
    """Return the next due times of a schedule in its time zone; none while it is paused."""
    from ..workers.cron import next_due

    times = [] if row.next is None else [row.next]
    try:
        while times and len(times) < _UPCOMING:
            times.append(next_due(row.cron, row.timezone, times[-1]).astimezone(ZoneInfo(row.timezone)))
    except ConfigError:  # an earlier version stored a line that this one cannot read
        pass
    return times


def run_of(row: ScheduleRow) -> str | None:
    """Return the id of the run for the last due time of a schedule, if it still exists."""
    from ..workers.schedules import scheduled_run_id

    return scheduled_run_id(row.name, row.last.isoformat()) if row.last is not None and row.status is not None else None
