"""Times at which schedules are due, also when clocks change."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ropewalk.config.settings import Schedule
from ropewalk.errors import ConfigError, Place
from ropewalk.journal.sql.timetable import TimetableRow
from ropewalk.workers.cron import due_times, next_due, schedule_faults
from ropewalk.workers.schedules import ScheduleClock, decide_due_times
from tiers import Scale

BERLIN = "Europe/Berlin"
ZONES = (BERLIN, "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/St_Johns", "UTC")
CHANGES = {  # moments at which clocks change, in UTC: by an hour, by half an hour, at midnight, by a day, by two hours
    BERLIN: ("2027-03-28T01:00", "2027-10-31T01:00"),
    "America/New_York": ("2027-03-14T07:00", "2027-11-07T06:00"),
    "Australia/Lord_Howe": ("2027-04-03T15:00", "2027-10-02T15:30"),
    "America/St_Johns": ("2011-03-13T03:31", "2011-11-06T02:31"),
    "America/Havana": ("2027-03-14T05:00", "2027-11-07T05:00"),
    "Pacific/Apia": ("2011-12-30T10:00",),
    "Antarctica/Troll": ("2027-03-28T01:00", "2027-10-31T01:00"),
    "Asia/Kolkata": ("2027-03-28T01:00",),
}
FIXED: dict[str, Callable[[datetime], bool]] = {
    "30 2 * * *": lambda t: (t.hour, t.minute) == (2, 30),
    "0 30 2 * * *": lambda t: (t.hour, t.minute) == (2, 30),
    "0 0 * * *": lambda t: (t.hour, t.minute) == (0, 0),
    "@daily": lambda t: (t.hour, t.minute) == (0, 0),
    "*/20 1-3 * * *": lambda t: t.hour in (1, 2, 3) and t.minute % 20 == 0,
    "15 0,2 * * SUN": lambda t: t.hour in (0, 2) and t.minute == 15 and t.isoweekday() == 7,
    "59 23 28-31 3,10 *": lambda t: (t.hour, t.minute) == (23, 59) and t.day >= 28 and t.month in (3, 10),
}
ANY_HOUR: dict[str, Callable[[datetime], bool]] = {
    "*/7 * * * *": lambda t: t.minute % 7 == 0,
    "0 */30 * * * *": lambda t: t.minute % 30 == 0,
    "@hourly": lambda t: t.minute == 0,
    "0 */3 * * *": lambda t: t.hour % 3 == 0 and t.minute == 0,
    "*/20 */2 * * 0": lambda t: t.hour % 2 == 0 and t.minute % 20 == 0 and t.isoweekday() == 7,
}


def between(cron: str, zone: str, start: str, end: str) -> list[str]:
    """The local times from `start` to `end`, which are local times, too."""
    place = ZoneInfo(zone)
    until = datetime.fromisoformat(end).replace(tzinfo=place)
    found, at = [], datetime.fromisoformat(start).replace(tzinfo=place) - timedelta(seconds=1)
    while (at := next_due(cron, zone, at)) <= until:
        found.append(at.astimezone(place).strftime("%H:%M%z"))
    return found


@pytest.mark.parametrize("zone", CHANGES)
def test_due_times_around_a_change_of_clocks_are_those_that_counting_minutes_finds(zone: str) -> None:
    place, minute = ZoneInfo(zone), timedelta(minutes=1)
    for at in CHANGES[zone]:
        change = datetime.fromisoformat(at).replace(tzinfo=UTC)
        first, last = change - 600 * minute, change + 900 * minute
        # Fixed hours: each local time once, the first of two; one that is skipped counts as if clocks had not changed.
        naive = first.astimezone(place).replace(tzinfo=None) - 1440 * minute
        local = [(naive + n * minute).replace(second=0) for n in range(5000)]
        real = [first + n * minute for n in range(1501)]
        for crons, times in (
            (FIXED, [(t, t.replace(tzinfo=place).astimezone(UTC)) for t in local]),
            (ANY_HOUR, [(t.astimezone(place), t) for t in real]),
        ):
            for cron, is_due in crons.items():
                expected = sorted({t for shown, t in times if first < t <= last and is_due(shown)})
                found, due = [], first
                while (due := next_due(cron, zone, due)) <= last:
                    found.append(due)
                assert found == expected, (cron, at)


@pytest.mark.parametrize("cron", ["30 2 * * *", "0 30 2 * * *", "30 2 * * SUN"])
def test_a_daily_time_comes_once_on_days_when_clocks_change(cron: str) -> None:
    assert between(cron, BERLIN, "2027-10-31", "2027-10-31T23:59") == ["02:30+0200"]
    assert between(cron, BERLIN, "2027-03-28", "2027-03-28T23:59") == ["03:30+0200"]


def test_a_time_of_every_hour_keeps_its_distance_when_clocks_change() -> None:
    assert between("*/30 * * * *", BERLIN, "2027-10-31T01:30", "2027-10-31T03:00") == [
        "01:30+0200", "02:00+0200", "02:30+0200", "02:00+0100", "02:30+0100", "03:00+0100",
    ]  # fmt: skip
    assert between("*/30 * * * *", BERLIN, "2027-03-28T01:00", "2027-03-28T03:30") == [
        "01:00+0100", "01:30+0100", "03:00+0200", "03:30+0200",
    ]  # fmt: skip


@pytest.mark.parametrize("cron", ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", "every day"])
def test_a_time_that_never_comes_is_a_fault_of_its_schedule_only(cron: str) -> None:
    schedules = {"never": Schedule(cron=cron, flow="f.yaml"), "leap": Schedule(cron="0 0 29 2 *", flow="f.yaml")}
    faults = schedule_faults(schedules)
    assert list(faults) == ["never"]
    assert f"[schedules.never] cron: {cron!r}" in str(faults["never"])
    with pytest.raises((ConfigError, ValueError)):
        next_due(cron, "UTC", datetime(2026, 1, 1, tzinfo=UTC))


def test_a_stored_schedule_that_is_never_due_does_not_stop_the_others() -> None:
    """Earlier versions stored such times."""
    rows = [replace(row("run_once", 60), name="never", cron="0 0 31 2 *"), row("run_once", 60)]
    started, handled = [], []

    class Rows:
        def reserve_due(self, *_: Any) -> Any:
            return 60.5, rows

        def advance(self, row: TimetableRow, *_: Any) -> bool:
            handled.append(row.name)
            return False

    async def start(schedule: Any, at: str) -> None:
        started.append(schedule["name"])

    clock = ScheduleClock(Rows(), "w", start, lambda name, at: f"{name}/{at}")  # type: ignore[arg-type]
    asyncio.run(clock.start_due_runs())
    assert (started, handled) == (["s"], ["s"])


def test_a_missed_run_that_cannot_begin_is_reported_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    missed = row("run_once", 60)

    class Rows:
        def reserve_due(self, *_: Any) -> Any:
            return 600.0, [missed]

        def advance(self, *_: Any) -> bool:
            return True

    async def start(schedule: Any, at: str) -> ConfigError:
        return ConfigError("[schedules.s] flow: no file 'gone.yaml'", place=Place("ropewalk.toml", 3, 1))

    clock = ScheduleClock(Rows(), "w", start, lambda name, at: f"{name}/{at}")  # type: ignore[arg-type]
    asyncio.run(clock.start_due_runs())
    *merged, last = caplog.messages
    assert last == (
        "ropewalk.toml:3:1: [schedules.s] flow: no file 'gone.yaml'; the schedule s was due at"
        " 1970-01-01T00:09:00+00:00 while no worker was connected,"
        " but its run could not begin: correct this, then start a run of the schedule"
    )
    assert all("could not begin" in message for message in merged)


@pytest.mark.campaign("properties")
def test_daily_times_come_once_a_day_and_those_of_every_hour_at_equal_distances(scale: Scale) -> None:
    for seed in range(scale(8, 400)):
        rnd = random.Random(seed)
        zone, minute, hour = rnd.choice(ZONES), rnd.randrange(60), rnd.randrange(24)
        at = datetime(rnd.randint(2024, 2030), 1, 1, tzinfo=UTC)
        days = []
        for _ in range(400):
            later = next_due(f"{minute} {hour} * * *", zone, at)
            assert later > at
            at = later
            days.append(at.astimezone(ZoneInfo(zone)).date())
        assert days == [days[0] + timedelta(days=n) for n in range(400)], (seed, zone, hour, minute)
        for _ in range(300):
            later = next_due("*/15 * * * *", zone, at)
            assert later - at <= timedelta(minutes=15)
            at = later


def test_the_latest_of_many_due_times_are_found_without_counting_them_all() -> None:
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
    found = due_times("* * * * * *", BERLIN, start, end, 100)
    assert found == [end - timedelta(seconds=n) for n in reversed(range(100))]
    assert due_times("0 0 1 1 *", "UTC", start, end, 100) == [start]
    assert len(due_times("0 0 * * *", "UTC", start, end, 100)) == 100


def row(catch_up: str, first: float) -> TimetableRow:
    return TimetableRow(
        name="s", project=None, cron="* * * * *", timezone="UTC", context={}, catch_up=catch_up, next=first
    )


@pytest.mark.parametrize(
    ("catch_up", "started", "became"),
    [
        ("run_once", [180, 240], ["merged", "merged", "late"]),
        ("skip", [240], ["skipped", "skipped", "skipped"]),
        ("run_all", [60, 120, 180, 240], ["late", "late", "late"]),
    ],
)
def test_due_times_before_a_worker_was_connected_are_handled_as_the_schedule_says(
    catch_up: str, started: list[int], became: list[str]
) -> None:
    decision = decide_due_times(row(catch_up, 60), now=245, connected=200, run_id=lambda name, at: f"{name}/{at}")
    assert [due.timestamp() for due in decision.start] == started
    assert [(one.due, one.outcome) for one in decision.missed] == list(zip([60, 120, 180], became, strict=True))
    assert decision.next.timestamp() == 300


@pytest.mark.parametrize("catch_up", ["run_once", "skip", "run_all"])
def test_due_times_that_a_connected_worker_handles_late_all_start_a_run(catch_up: str) -> None:
    decision = decide_due_times(row(catch_up, 60), now=245, connected=0, run_id=lambda name, at: f"{name}/{at}")
    assert [due.timestamp() for due in decision.start] == [60, 120, 180, 240]
    assert not decision.missed
