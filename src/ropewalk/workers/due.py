"""When a schedule is due: cron times in a time zone, each exactly once, also on the days when clocks change.

A schedule with fixed hours (`30 2 * * *`) follows the calendar: one run a day. A time that clocks skip in spring is
due as much later as they jump; of a time that comes twice in autumn, only the first counts. A schedule for any hour
(`*/10 * * * *`) follows real time: its runs keep their distance on such days.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any
from zoneinfo import ZoneInfo

_MIDDLE = timedelta(seconds=1)  # to this precision a change of clocks is found


def croniter() -> Any:
    """Return the class that reads cron times; it has no types."""
    return import_module("croniter").croniter


def next_due(cron: str, zone: str, after: datetime) -> datetime:
    """Return the first time, in UTC, at which a schedule is due after another time.

    Args:
        cron: Five fields, or six with seconds first.
        zone: Name of a time zone, such as "Europe/Berlin".
        after: A time with a time zone.
    """
    place, after = ZoneInfo(zone), after.astimezone(UTC)
    if _is_any_hour(cron):
        return _next_real(cron, place, after)
    naive = after.astimezone(place).replace(tzinfo=None)
    # In the hour that comes twice, the second time is later than all that is due in it.
    naive -= timedelta(days=1)
    while True:
        naive = _next_naive(cron, naive)
        due = naive.replace(tzinfo=place, fold=0).astimezone(UTC)
        if due > after:
            return due


def dues(cron: str, zone: str, first: datetime, until: datetime, most: int) -> list[datetime]:
    """Return the times at which a schedule is due, from `first`, which is one, to `until`: the latest `most`."""
    found = [first]
    while (due := next_due(cron, zone, found[-1])) <= until:
        found.append(due)
        if len(found) > most:
            return _latest(cron, zone, first, until, most)
    return found


def _latest(cron: str, zone: str, first: datetime, until: datetime, most: int) -> list[datetime]:
    """Look back from `until` by doubled steps, so that a year of seconds is not counted one by one."""
    back = timedelta(seconds=most)
    while True:
        start = max(first, until - back)
        found = [start] if start == first else []
        due = next_due(cron, zone, start)
        while due <= until and len(found) <= 100 * most:
            found.append(due)
            due = next_due(cron, zone, due)
        if len(found) >= most or start == first:
            return found[-most:]
        back *= 4


def _is_any_hour(cron: str) -> bool:
    fields = cron.split()
    hour = fields[2] if len(fields) == 6 else fields[1] if len(fields) == 5 else "*"  # @hourly is for any hour ...
    return hour.startswith("*") if not cron.startswith("@") else cron.strip() == "@hourly"  # ... @daily is not


def _next_naive(cron: str, after: datetime) -> datetime:
    found: datetime = croniter()(cron, after, second_at_beginning=True).get_next(datetime)
    return found


def _next_real(cron: str, place: ZoneInfo, after: datetime) -> datetime:
    local = after.astimezone(place)
    offset = local.utcoffset() or timedelta()
    due = (_next_naive(cron, local.replace(tzinfo=None)) - offset).replace(tzinfo=UTC)
    if due.astimezone(place).utcoffset() == offset:
        return due
    # Clocks change before that: from there on they show another time.
    early, late = after, due
    while late - early > _MIDDLE:
        middle = early + (late - early) / 2
        if middle.astimezone(place).utcoffset() == offset:
            early = middle
        else:
            late = middle
    change = late.replace(microsecond=0)
    there = change.astimezone(place)
    naive = _next_naive(cron, there.replace(tzinfo=None) - timedelta(seconds=1))
    return (naive - (there.utcoffset() or timedelta())).replace(tzinfo=UTC)
