"""Cron times: when a schedule is due, also on days when clocks change.

A due time is a cron time in a time zone, and each comes exactly once. A schedule with fixed hours (`30 2 * * *`)
follows the calendar: one run a day. A time that the clocks skip in spring is due later by the length of the jump. Of a
time that comes twice in autumn, only the first counts. A schedule for any hour (`*/10 * * * *`) follows real time: its
runs keep their distance on such days.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from ..config.settings import CRON_NAMES, Schedule
from ..errors import ConfigError, InvalidFlow, InvalidInput, NotFound, RopewalkError, display_path
from ..values import did_you_mean

_CHANGE_PRECISION: Final = timedelta(seconds=1)  # of the search for a change of clocks
_FORM: Final = 'five fields, "minute hour day month weekday", or six with seconds first'


def next_due(cron: str, zone: str, after: datetime) -> datetime:
    """Return the first time, in UTC, at which a schedule is due after another time."""

    # `cron`: Five fields, or six with seconds first.
    place, after = ZoneInfo(zone), after.astimezone(UTC)
    if _is_any_hour(cron):
        return _next_in_real_time(cron, place, after)
    # Start a day early: in the hour that comes twice, a due time may be earlier than the local time says.
    naive = after.astimezone(place).replace(tzinfo=None) - timedelta(days=1)
    due = after
    while due <= after:
        naive = _next_local(cron, naive)
        due = naive.replace(tzinfo=place).astimezone(UTC)
    shown = due.astimezone(place).replace(tzinfo=None)
    while naive < shown:  # the clocks skip this time, so later times of the clock may be due before it
        naive = _next_local(cron, naive)
        other = naive.replace(tzinfo=place).astimezone(UTC)
        if after < other < due:
            due = other
    return due


def _is_any_hour(cron: str) -> bool:
    """Return True if the field of hours begins with `*`."""
    fields = CRON_NAMES.get(cron.strip(), cron).split()
    return len(fields) > 3 and fields[-4].startswith("*")


def _next_local(cron: str, after: datetime) -> datetime:
    # Without a time zone, because cronsim steps by whole hours and so skips times where clocks change by half an hour.
    try:
        return next(CronSim(CRON_NAMES.get(cron.strip(), cron), after))
    except (CronSimError, StopIteration):
        raise ConfigError(f"{cron!r} is never due: no such date exists") from None


def _next_in_real_time(cron: str, place: ZoneInfo, after: datetime) -> datetime:
    """Return the next due time in real time, as if the clocks had not changed before it."""
    local = after.astimezone(place)
    offset = local.utcoffset() or timedelta()
    due = (_next_local(cron, local.replace(tzinfo=None)) - offset).replace(tzinfo=UTC)
    if due.astimezone(place).utcoffset() == offset:
        return due
    # The clocks change before that. Find the moment by bisection, and continue with the time that they show then.
    early, late = after, due
    while late - early > _CHANGE_PRECISION:
        middle = early + (late - early) / 2
        if middle.astimezone(place).utcoffset() == offset:
            early = middle
        else:
            late = middle
    change = late.replace(microsecond=0)
    changed = change.astimezone(place)
    naive = _next_local(cron, changed.replace(tzinfo=None) - timedelta(seconds=1))
    return (naive - (changed.utcoffset() or timedelta())).replace(tzinfo=UTC)


def due_times(cron: str, zone: str, first: datetime, until: datetime, limit: int) -> list[datetime]:
    """Return the times at which a schedule is due, oldest first."""
    times = [first]
    while (due := next_due(cron, zone, times[-1])) <= until:
        times.append(due)
        if len(times) > limit:
            return _latest_due_times(cron, zone, first, until, limit)
    return times


def _latest_due_times(cron: str, zone: str, first: datetime, until: datetime, limit: int) -> list[datetime]:
    """Look back from `until` by growing steps, so that a year of seconds is not counted one by one."""
    back = timedelta(seconds=limit)
    while True:
        start = max(first, until - back)
        times = [start] if start == first else []
        due = next_due(cron, zone, start)
        while due <= until and len(times) <= 100 * limit:
            times.append(due)
            due = next_due(cron, zone, due)
        if len(times) >= limit or start == first:
            return times[-limit:]
        back *= 4


def check_schedule(name: str, schedule: Schedule) -> None:
    """Check the times of a schedule."""
    cron = schedule.cron
    fields = CRON_NAMES.get(cron.strip(), cron).split()
    try:
        # Without the day and without the month: a field that cannot be read is another fault than a date that never
        # comes, but cronsim has one error for both.
        for without in (-3, -2):
            CronSim(" ".join([*fields[:without], "*", *fields[without + 1 :]]), datetime.min)
    except CronSimError:
        raise schedule_error(name, schedule, "cron", f"{cron!r} is not a valid cron time; write {_FORM}") from None
    try:
        _next_local(cron, datetime.now(UTC).replace(tzinfo=None))
    except ConfigError as error:  # such as the 31st of February, which is a valid cron time
        raise schedule_error(name, schedule, "cron", f"{error}; correct the day or the month") from error
    try:
        ZoneInfo(schedule.timezone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        near = did_you_mean(schedule.timezone, available_timezones())
        hint = f"; did you mean {near}?" if near else ""
        raise schedule_error(name, schedule, "timezone", f"unknown time zone {schedule.timezone!r}{hint}") from error


def schedule_faults(schedules: Mapping[str, Schedule]) -> dict[str, ConfigError]:
    """Return what is wrong with the times of schedules, by name."""
    faults: dict[str, ConfigError] = {}
    for name, schedule in schedules.items():
        try:
            check_schedule(name, schedule)
        except ConfigError as error:
            faults[name] = error
    return faults


_SETTING_ERRORS: Final = (ConfigError, InvalidFlow, InvalidInput, NotFound)


def run_error(name: str, schedule: Schedule | None, error: RopewalkError, *, may_be_elsewhere: bool) -> RopewalkError:
    """Return the error of a scheduled run at the key of its schedule, unless its problems have places (elsewhere)."""
    problems = getattr(error, "problems", ())
    places = [problem.place for problem in problems if problem.place is not None]
    if schedule is None or schedule.where is None:
        return error
    if isinstance(error, InvalidInput):  # its paths begin with `input`
        return ConfigError(f"[schedules.{name}] {error}", place=schedule.where("input"))
    is_special = any(problem.keyword for problem in problems)  # its caller looks at the keyword
    if may_be_elsewhere and (places or is_special):
        return error
    if not isinstance(error, _SETTING_ERRORS) or any(place.file == schedule.where().file for place in places):
        return error
    if isinstance(error, NotFound):
        root, near = error.id.removesuffix(schedule.flow), error.suggestion
        shown = NotFound(
            error.what, error.id.removeprefix(root), suggestion=near and near.removeprefix(root), why=error.why
        )
        return schedule_error(name, schedule, "flow", str(shown))
    texts = [
        f"{display_path(each.place.file)}:{each.place.line}: {each}" if each.place else str(each)
        for each in error.problems
    ]
    return schedule_error(name, schedule, "flow", "; ".join(texts))


def schedule_error(name: str, schedule: Schedule, key: str, message: str) -> ConfigError:
    """Return the error for a key of a schedule, with its place in `ropewalk.toml`."""
    place = schedule.where(key) if schedule.where is not None else None
    return ConfigError(f"[schedules.{name}] {key}: {message}", place=place)
