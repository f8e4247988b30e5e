"""What the clock starts, in a store on SQLite and in one on Postgres by the same rules, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from patience import until
from ropewalk.config.settings import Schedule
from ropewalk.errors import StoreError
from ropewalk.journal.address import open_store
from ropewalk.journal.postgres.session import parse_target
from ropewalk.journal.postgres.worker_registry import WorkerRegistry
from ropewalk.journal.sql.timetable import Timetable
from ropewalk.journal.sqlite.store import SqliteStore
from ropewalk.workers.run_queue import RunQueue
from ropewalk.workers.schedules import ScheduleClock, Schedules, scheduled_run_id

NOON = 1_800_000_000.0  # 08:00:00 UTC, a whole number of minutes
POLICIES = ("run_once", "skip", "run_all")
EVERY_MINUTE = {policy: Schedule(cron="* * * * *", flow="f.yaml", catch_up=policy) for policy in POLICIES}  # type: ignore[arg-type]


class At:
    """A database at a time that the test sets."""

    def __init__(self, database: Any) -> None:
        self.time = NOON
        self.run_in_transaction, self.read = database.run_in_transaction, database.read

    def now(self, _: object) -> float:
        return self.time


@pytest.fixture(params=["sqlite", "postgres"])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[At]:
    if request.param == "sqlite":
        store = SqliteStore(tmp_path / "x.db")
        yield At(RunQueue(store))
        store.close()
    else:
        registry = WorkerRegistry(parse_target(request.getfixturevalue("postgres_url")))
        yield At(registry)
        registry.close()


class Workers:
    """Processes with a clock, and the minutes after noon for which each schedule has started a run."""

    def __init__(self, at: At, configured: Mapping[str, Schedule] = EVERY_MINUTE) -> None:
        self.at, self.fails = at, False
        self.started: list[tuple[str, int]] = []
        store = open_store("memory")
        self.schedules = Schedules(Timetable(at), store, configured, "p", self.start)
        self.schedules.apply()

    async def start(self, schedule: Mapping[str, Any], due: str) -> str:
        if self.fails:
            raise StoreError("away")
        run_id = scheduled_run_id(schedule["name"], due)
        self.started.append((schedule["name"], round((datetime.fromisoformat(due).timestamp() - NOON) / 60)))
        return run_id

    def clock(self, name: str = "one") -> Callable[[float], dict[str, list[int]]]:
        """Return a process that looks at the clock at a minute, and returns what it has started."""
        clock = ScheduleClock(Timetable(self.at), name, self.start, scheduled_run_id, project="p")

        def look(minute: float) -> dict[str, list[int]]:
            self.at.time = NOON + 60 * minute
            self.started.clear()
            asyncio.run(clock.start_due_runs())
            found: dict[str, list[int]] = {}
            for schedule, due in self.started:
                found.setdefault(schedule, []).append(due)
            return found

        return look

    def missed(self) -> dict[str, list[tuple[int, str]]]:
        return {
            row.name: [(round((one.due - NOON) / 60), one.outcome) for one in row.missed]
            for row in self.schedules.list()
        }


def test_schedules_follow_their_rules_in_every_store(at: At) -> None:
    workers = Workers(at)
    one, two = workers.clock("one"), workers.clock("two")
    assert one(0.5) == two(0.5) == {}
    assert one(1.01) == {policy: [1] for policy in POLICIES}
    assert two(1.01) == {}  # each due time once, whichever process is first

    # A process that is connected starts everything that is due, however late it looks.
    assert two(4) == {policy: [2, 3, 4] for policy in POLICIES}

    # After an outage the policies decide, and nothing is decided twice.
    assert workers.clock("three")(8.5) == {"run_once": [8], "run_all": [5, 6, 7, 8]}
    assert workers.clock("four")(8.5) == {}
    assert workers.missed() == {
        "run_once": [(5, "merged"), (6, "merged"), (7, "merged"), (8, "late")],
        "run_all": [(5, "late"), (6, "late"), (7, "late"), (8, "late")],
        "skip": [(5, "skipped"), (6, "skipped"), (7, "skipped"), (8, "skipped")],
    }

    # While a schedule is paused it starts nothing, and what passes meanwhile is not missed.
    for policy in POLICIES:
        workers.schedules.pause(policy)
    assert one(10) == {}
    workers.schedules.apply()  # a worker that starts does not resume it
    assert one(11) == {}
    assert [row.next for row in workers.schedules.list()] == [None] * 3
    at.time = NOON + 60 * 20.5
    for policy in POLICIES:
        workers.schedules.resume(policy)
    assert workers.clock("five")(20.9) == {}
    assert one(21) == {policy: [21] for policy in POLICIES}
    assert all(len(missed) == 4 for missed in workers.missed().values())


def test_a_due_time_survives_the_process_that_reserved_it(at: At) -> None:
    workers = Workers(at, {"s": Schedule(cron="* * * * *", flow="f.yaml")})
    one, two = workers.clock("one"), workers.clock("two")
    one(0.5), two(0.5)
    workers.fails = True
    with pytest.raises(StoreError):
        one(1)
    workers.fails = False
    assert two(1.1) == {}  # the first process has it
    assert two(1.6) == {"s": [1]}  # it has not come back

    # A changed time counts from now on; a schedule that is gone from the project is forgotten.
    Workers(at, {"s": Schedule(cron="30 * * * *", flow="f.yaml")})
    assert one(29) == {}
    assert one(30) == {"s": [30]}
    Workers(at, {})
    assert (one(90), workers.schedules.list()) == ({}, [])


def test_a_clock_that_was_ahead_keeps_no_schedule_from_running_after_a_restart(at: At) -> None:
    workers = Workers(at, {"s": Schedule(cron="* * * * *", flow="f.yaml", catch_up="skip")})
    one = workers.clock("one")
    assert one(1) == {"s": [1]}
    assert one(60 * 24)["s"][-1] == 60 * 24
    assert one(2) == {}
    workers.schedules.apply()
    assert one(3) == {"s": [3]}
    workers.schedules.apply()
    assert one(3.5) == {}  # each due time once


def test_a_schedule_passes_to_another_project_if_it_is_equal_or_nobody_serves_it(
    at: At, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = {"s": Schedule(cron="* * * * *", flow="f.yaml"), "t": Schedule(cron="* * * * *", flow="f.yaml")}
    first = Workers(at, mine)
    theirs = {"s": mine["s"], "t": Schedule(cron="* * * * *", flow="g.yaml")}  # `s` may be of another directory only
    served = {"p", "q"}
    other = Schedules(Timetable(at), open_store("memory"), theirs, "q", first.start, lambda: served - {"q"})
    first.schedules._other_projects = lambda: served - {"p"}
    owners = lambda: {row.name: row.project for row in Timetable(at).rows()}  # noqa: E731

    async def look_until(schedules: Schedules, expected: dict[str, str]) -> None:
        task = asyncio.ensure_future(schedules.keep())
        await until(lambda: owners() == expected)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    monkeypatch.setattr("ropewalk.workers.schedules._TAKE_OVER_PAUSE", 0)
    assert not caplog.messages
    other.apply()  # while a process of the other project lives, it keeps a schedule that differs
    [message] = caplog.messages
    assert (
        "[schedules.t]: the project p has a schedule of this name in the same store, and is being served;"
        " rename one of the two" in message
    )
    assert owners() == {"s": "q", "t": "p"}
    caplog.clear()
    other._take_over(), first.schedules._take_over()
    assert owners() == {"s": "q", "t": "p"}

    served.remove("p")
    asyncio.run(look_until(other, {"s": "q", "t": "q"}))
    other.apply()
    told = "schedule t replaces a different one of this name in the same store, of the project"
    assert [message.partition(";")[0] for message in caplog.messages] == [f"{told} p"]
    clock = ScheduleClock(Timetable(at), "q", first.start, scheduled_run_id, project="q")
    at.time += 61
    asyncio.run(clock.start_due_runs())
    assert first.started == [("s", 1), ("t", 1)]

    # The first project is served again; the other one goes, or gives up a schedule that was refused here.
    served.add("p")
    first.schedules.apply()
    assert owners() == {"s": "p", "t": "q"}
    Timetable(at).replace_all((), "q")
    asyncio.run(look_until(first.schedules, {"s": "p", "t": "p"}))


def test_a_store_in_a_file_is_of_several_projects(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "x.db")
    at = At(RunQueue(store))
    workers = Workers(at, {"s": Schedule(cron="* * * * *", flow="f.yaml")})
    other = ScheduleClock(Timetable(at), "other", workers.start, scheduled_run_id, project="q")
    at.time += 61
    asyncio.run(other.start_due_runs())
    assert workers.started == []
    assert workers.clock()(1.1) == {"s": [1]}
    store.close()
