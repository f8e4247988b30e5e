"""The threads of a worker's pulse survive whatever fails in them: without them its runs would stand still."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import sqlalchemy.exc

from ropewalk.config import Workplace
from ropewalk.journal import NewRun
from ropewalk.journal.fleet import Fleet
from ropewalk.journal.postgres import PostgresStore
from ropewalk.journal.postgres_session import target
from ropewalk.workers import dbos_adapter
from ropewalk.workers.dispatches import Dispatches
from ropewalk.workers.pulse import Pulse, driver_errors


@pytest.fixture
def client(postgres_url: str) -> Iterator[dbos_adapter.Client]:
    made = dbos_adapter.Client(target(postgres_url), is_patient=False)
    yield made
    made.close()


async def until(holds: Callable[[], bool], most: float = 60) -> None:
    end = time.monotonic() + most
    while not holds():
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


def pulse_of(fleet: Fleet, round_: Callable[[], object]) -> Pulse:
    def look() -> None:
        round_()

    return Pulse(
        fleet, "one", {"queues": []}, longest_block=60, lost=lambda _: None, reaped=lambda _: None, round_=look
    )


@pytest.mark.anyio
async def test_a_worker_whose_connections_are_all_in_use_dispatches_when_one_is_free(
    postgres_url: str, client: dbos_adapter.Client
) -> None:
    store, fleet = PostgresStore(postgres_url), Fleet(target(postgres_url), lease=0.5)
    await (await store.open(NewRun(id="x", kind="chain", name="x", context={"queue": "default"}))).release()
    dispatches = Dispatches(fleet, client, Workplace())
    failures: list[Exception] = []
    found: list[str] = []

    def renew() -> None:
        try:
            found.extend(dispatches.renew())
        except Exception as error:
            failures.append(error)
            raise

    with ExitStack() as held:
        engine = client.pool
        connections = [held.enter_context(engine.connect()) for _ in range(engine.pool.size())]  # type: ignore[attr-defined]
        pulse = pulse_of(Fleet(target(postgres_url), lease=0.5), renew)
        pulse.start()
        try:
            await until(lambda: bool(failures))
            assert isinstance(failures[0], sqlalchemy.exc.TimeoutError)
            assert isinstance(failures[0], driver_errors())
            for connection in connections:
                connection.close()
            await until(lambda: found == ["x"])
        finally:
            await asyncio.to_thread(pulse.stop)
    fleet.close()
    store.close()


@pytest.mark.anyio
async def test_an_unexpected_error_ends_neither_thread(postgres_url: str, caplog: pytest.LogCaptureFixture) -> None:
    PostgresStore(postgres_url).close()  # makes the tables
    rounds = 0

    def fail() -> None:
        nonlocal rounds
        rounds += 1
        raise LookupError("nobody thought of this")

    pulse = pulse_of(Fleet(target(postgres_url), lease=0.5), fail)
    pulse.start()
    try:
        await until(lambda: rounds >= 3)
        names = {thread.name for thread in threading.enumerate()}
        assert {"ropewalk-pulse", "ropewalk-reaper"} <= names
    finally:
        await asyncio.to_thread(pulse.stop)
    told = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.message for record in told] == ["could not look for dead workers; trying again"]
