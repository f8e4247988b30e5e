"""Places in a worker: a run that may kill it is executed alone, and the others wait no longer than they must."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from patience import until
from properties.virtual_time import VirtualClock, run_virtually
from ropewalk.config.settings import WorkerSettings
from ropewalk.journal.postgres.store import PostgresStore
from ropewalk.journal.protocol import NewRun
from ropewalk.journal.sql.recovery import DEATHS_OF_SUSPECT
from ropewalk.workers.quarantine import Quarantine
from ropewalk.workers.worker import Worker

pytestmark = pytest.mark.anyio
MINUTE = 60.0


class Place:
    """A run that holds a place in the worker until it is told to leave."""

    def __init__(self, quarantine: Quarantine, run_id: str, log: list[str], **suspect: object) -> None:
        self.begun, self.leave = asyncio.Event(), asyncio.Event()
        self._quarantine, self._id, self._log, self._suspect = quarantine, run_id, log, suspect
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        place = self._quarantine.run_alone if self._suspect else self._quarantine.run_with_others
        async with place(self._id, **self._suspect):  # type: ignore[operator]
            self._log.append(self._id)
            self.begun.set()
            await self.leave.wait()

    async def end(self) -> None:
        self.leave.set()
        await self.task


async def yes() -> bool:
    return True


async def no() -> bool:
    return False


async def settle() -> None:
    """Let every task go as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_suspect_waits_for_others_and_others_wait_for_it() -> None:
    worker, log = Quarantine(), list[str]()
    first = Place(worker, "first", log)
    await settle()
    suspect = Place(worker, "suspect", log, still_suspect=yes)
    await settle()
    later = Place(worker, "later", log)
    await settle()
    assert (log, worker.is_closed) == (["first"], True)
    await first.end()
    await settle()
    assert (log, worker.is_closed) == (["first", "suspect"], True)
    await suspect.end()
    await settle()
    assert (log, worker.is_closed) == (["first", "suspect", "later"], False)
    await later.end()


@pytest.mark.parametrize("busy", [False, True])
async def test_two_suspects_are_executed_one_after_the_other(busy: bool) -> None:
    worker, log = Quarantine(), list[str]()
    if busy:
        other = Place(worker, "other", [])
        await settle()
    one, two = Place(worker, "one", log, still_suspect=yes), Place(worker, "two", log, still_suspect=yes)
    await settle()
    if busy:
        await other.end()
        await settle()
    assert log == ["one"]
    await one.end()
    await settle()
    assert log == ["one", "two"]
    await two.end()


async def test_others_begin_as_soon_as_a_suspect_is_none_any_more() -> None:
    worker, log = Quarantine(), list[str]()
    suspect = Place(worker, "suspect", log, still_suspect=no)
    await settle()
    later = Place(worker, "later", log)
    await until(lambda: "later" in log)
    assert not suspect.task.done()
    await suspect.end()
    await later.end()


@pytest.mark.parametrize("still", [yes, no])
async def test_a_suspect_does_not_wait_for_ever(still: Callable[[], Awaitable[bool]]) -> None:
    worker, log = Quarantine(), list[str]()
    first = Place(worker, "first", log)
    await settle()
    suspect = Place(worker, "suspect", log, still_suspect=still, patience=0.05)
    await until(lambda: "suspect" in log)
    await suspect.end()
    await first.end()
    assert not worker.is_closed


async def test_a_suspect_does_not_wait_for_the_run_that_it_is_part_of() -> None:
    worker, log = Quarantine(), list[str]()
    run = Place(worker, "run", log)
    await settle()
    chunk = Place(worker, "run/chunk", log, still_suspect=yes)
    await settle()
    assert log == ["run", "run/chunk"]
    await chunk.end()
    await run.end()


@pytest.mark.parametrize(
    ("served_until", "opens"),  # seconds
    [(0.0, MINUTE), (2 * MINUTE, 2 * MINUTE), (10 * MINUTE, 5 * MINUTE)],  # at 5 minutes the first call of it ends
)
def test_others_wait_a_minute_for_a_suspect_unless_another_process_takes_them(
    served_until: float, opens: float
) -> None:
    async def work(clock: VirtualClock) -> float:
        async def are_served() -> bool:
            return clock.now < served_until

        worker, log = Quarantine(), list[str]()
        suspect = Place(worker, "suspect", log, still_suspect=yes, others_are_served=are_served)
        await settle()
        later = Place(worker, "later", log)
        asyncio.get_running_loop().call_later(5 * MINUTE, suspect.leave.set)
        await later.begun.wait()
        opened = clock.now
        await suspect.task
        await later.end()
        assert not worker.is_closed
        return opened

    assert opens <= run_virtually(work) <= opens + 2


@pytest.fixture
async def worker(postgres_url: str) -> AsyncIterator[Worker]:
    def unused(*_: object) -> Any:
        raise AssertionError

    store = PostgresStore(postgres_url)
    made = Worker(store, unused, unused, WorkerSettings())
    yield made
    await asyncio.to_thread(made._close)
    store.close()


async def add_suspect(worker: Worker, id: str) -> None:
    """Add a run of this process whose owners have died."""
    log: Any = await worker.store.open(NewRun(id=id, kind="chain"))
    row = (log.seq, DEATHS_OF_SUSPECT)
    insert = "INSERT INTO mishap (run, deaths, entries) VALUES (?, ?, 0)"
    worker.registry.run_in_transaction(lambda session: session.execute(insert, row))


async def test_the_only_worker_on_postgres_opens_its_queues_again(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ropewalk.workers.quarantine.PATIENCE", 0.0)
    monkeypatch.setattr("ropewalk.workers.quarantine._CHECK_INTERVAL", 0.01)
    await add_suspect(worker, "suspect")
    row = worker.store.get_run("suspect")
    assert row is not None
    async with await worker._admit(dataclasses.replace(row, epoch=2)):
        assert worker._quarantine.is_closed
        await until(lambda: not worker._quarantine.is_closed)
        async with worker._quarantine.run_with_others("other"):
            pass


async def test_another_worker_serves_the_queues_unless_it_executes_a_suspect(worker: Worker) -> None:
    def is_served() -> bool:
        return worker.registry.is_served_elsewhere("this", ["default", "slow"])

    def beat(id: str, *queues: str) -> None:
        worker.registry.record_heartbeat(id, json.dumps({"queues": queues}))

    beat("this", "default", "slow")
    assert not is_served()
    beat("other", "default")
    assert not is_served()
    beat("third", "slow")
    assert is_served()
    await add_suspect(worker, "suspect")
    assert not is_served()
