"""What a run has executed, when its process died: what is recorded counts, what others did meanwhile does not."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from places import opened

from engine.lab import call, flow, job, line, resumed
from patience import until
from ropewalk.engine.engine import Engine
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.protocol import Entry, NewRun, Store
from ropewalk.journal.sql.leases import this_process
from ropewalk.testing import ScriptedTools, hangs

BEGAN = 1_000_000.0  # when the process that died made the run its own


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.getfixturevalue("postgres_url") if request.param == "postgres" else tmp_path / "store.db")


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def entry(path: str, ended: float, kind: str = "call", started: float = 0.0) -> Entry:
    return Entry(path, kind, data=1, started=BEGAN + started, ended=BEGAN + ended)


async def died(place: str, *recorded: Entry, spent: float = 0.0, beat: float = 0.0) -> None:
    """A process recorded this of the run `r`, was last heard of at `beat` and is gone."""
    store = opened(place)
    log = await store.open(NewRun(id="r", kind="chain"))
    for one in recorded:
        await log.append(one)
    await log.release()
    gone = dataclasses.replace(this_process(), pid=4_000_000).dump()
    row = (gone, BEGAN + beat, spent)
    store._writer.run(lambda c: c.execute("UPDATE lease SET owner = ?, beat = ?, spent = ?", row))
    store.close()


async def spent(place: str) -> float:
    store = opened(place)
    row = store.get_run("r", so_far=True)
    log = await store.reopen("r")
    assert row is not None
    assert row.spent == log.run.spent  # lists tell of an interrupted run what a resumed one begins with
    store.close()
    return log.run.spent


def test_what_was_recorded_after_the_last_beat_was_executed(place: str) -> None:
    async def test() -> None:
        await died(place, entry("a", 1.0), entry("b", 1.25, started=1.0))
        assert await spent(place) == 1.25

    run(test())


def test_what_was_recorded_before_the_last_beat_is_in_it(place: str) -> None:
    async def test() -> None:
        await died(place, entry("a", 1.0), spent=7.0, beat=2.0)
        assert await spent(place) == 7.0

    run(test())


def test_a_pause_counts_from_its_beginning_and_what_came_long_after_the_last_beat_not_at_all(place: str) -> None:
    async def test() -> None:
        await died(place, entry("a", 1.0), entry("p", 4.0, "timer", 1.0), entry("of a chunk", 60.0))
        assert await spent(place) == 1.0

    run(test())


def test_several_crashes_add_up(place: str) -> None:
    async def test() -> None:
        await died(place, entry("a", 1.0))
        await died(place, entry("b", 2.0), spent=await spent(place), beat=1.5)
        assert await spent(place) == 1.5

    run(test())


def test_the_time_of_a_crash_is_taken_from_the_timeout(place: str) -> None:
    async def test() -> None:
        tools = ScriptedTools(slow=hangs())
        await died(place, entry("before", 4.0), spent=400.0, beat=4.0)
        store = opened(place)
        done = await resumed(store, flow(line(call("slow")), timeout=400.0), tools)
        assert done["status"] == "timeout"
        row = store.get_run("r")
        assert row is not None
        assert row.spent >= 400.0
        store.close()

    run(test())


def test_a_beat_in_the_middle_of_a_node_tells_the_time_that_has_passed_in_it(place: str) -> None:
    async def test() -> None:
        store, other = opened(place, lease=0.15, poll=0.02), opened(place)
        going = asyncio.ensure_future(Engine(store).run(job(line(call("slow")), ScriptedTools(slow=hangs()))))
        await until(lambda: (row := other.get_run("r")) and row.spent >= 0.2)
        going.cancel()
        await asyncio.wait([going])
        store.close()

    run(test())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_an_interrupted_node_has_taken_its_time(kind: str, tmp_path: Path) -> None:
    async def test() -> None:
        store: Store = MemoryStore(durable=True) if kind == "memory" else opened(str(tmp_path / "store.db"))
        slept = asyncio.Event()

        async def slow() -> None:
            await asyncio.sleep(0.2)
            slept.set()
            await asyncio.Event().wait()

        going = asyncio.ensure_future(Engine(store).run(job(line(call("slow")), ScriptedTools(slow=slow))))
        await slept.wait()
        going.cancel()
        await asyncio.wait([going])
        row = store.get_run("r")
        assert row is not None
        assert row.spent > 0.19  # the loop's clock may be a little ahead
        store.close()

    run(test())
