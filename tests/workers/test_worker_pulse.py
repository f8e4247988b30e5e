"""The threads of a worker's pulse survive whatever fails in them: without them its runs would stand still."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import sqlalchemy.exc

from patience import until, wait_until
from ropewalk.config.settings import WorkerSettings
from ropewalk.errors import Fenced
from ropewalk.journal.postgres.session import Session, parse_target
from ropewalk.journal.postgres.store import PostgresStore
from ropewalk.journal.postgres.worker_registry import RECORD_HEARTBEAT, WorkerRegistry
from ropewalk.journal.protocol import NewRun
from ropewalk.journal.sql.leases import this_process
from ropewalk.workers import dbos_adapter
from ropewalk.workers.dispatches import Dispatches
from ropewalk.workers.heartbeat import Heartbeat, clock, driver_errors


@pytest.fixture
def client(postgres_url: str) -> Iterator[dbos_adapter.Client]:
    made = dbos_adapter.Client(parse_target(postgres_url), is_patient=False)
    yield made
    made.close()


def pulse_of(
    registry: WorkerRegistry, round_: Callable[[], object] = lambda: None, lost: Callable[[bool], None] = lambda _: None
) -> Heartbeat:
    def look() -> None:
        round_()

    return Heartbeat(
        registry,
        "one",
        {"queues": []},
        longest_block=60,
        on_away=lambda: None,
        on_lost=lost,
        on_reaped=lambda _: None,
        after_look=look,
    )


@pytest.mark.anyio
async def test_a_worker_whose_connections_are_all_in_use_dispatches_when_one_is_free(
    postgres_url: str, client: dbos_adapter.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dbos_adapter, "_POOL_TIMEOUT", 0.5)
    store, registry = PostgresStore(postgres_url), WorkerRegistry(parse_target(postgres_url), lease=0.5)
    await (await store.open(NewRun(id="x", kind="chain", name="x", context={"queue": "default"}))).release()
    dispatches = Dispatches(registry, client, WorkerSettings())
    failures: list[Exception] = []
    found: list[str] = []

    def renew() -> None:
        try:
            found.extend(dispatches.dispatch_missing())
        except Exception as error:
            failures.append(error)
            raise

    with ExitStack() as held:
        engine = client.pool
        connections = [held.enter_context(engine.connect()) for _ in range(engine.pool.size())]  # type: ignore[attr-defined]
        pulse = pulse_of(WorkerRegistry(parse_target(postgres_url), lease=0.5), renew)
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
    registry.close()
    store.close()


@pytest.mark.anyio
async def test_an_unexpected_error_ends_neither_thread(postgres_url: str, caplog: pytest.LogCaptureFixture) -> None:
    PostgresStore(postgres_url).close()  # makes the tables
    rounds = 0

    def fail() -> None:
        nonlocal rounds
        rounds += 1
        raise LookupError("nobody thought of this")

    pulse = pulse_of(WorkerRegistry(parse_target(postgres_url), lease=0.5), fail)
    pulse.start()
    try:
        await until(lambda: rounds >= 3)
        names = {thread.name for thread in threading.enumerate()}
        assert {"ropewalk-pulse", "ropewalk-reaper"} <= names
    finally:
        await asyncio.to_thread(pulse.stop)
    told = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.message for record in told] == ["could not look for dead workers; trying again"]


@pytest.mark.anyio
async def test_a_worker_hears_that_it_was_given_up_if_the_first_answer_was_lost(postgres_url: str) -> None:
    """Its heartbeat made its row again, and the server crashed before it answered: the next heartbeat finds a row."""
    PostgresStore(postgres_url).close()
    losses: list[bool] = []
    pulse = pulse_of(WorkerRegistry(parse_target(postgres_url), lease=0.5), lost=losses.append)
    pulse.start()
    try:
        first = pulse.until
        await until(lambda: pulse.until > first)  # a heartbeat of its thread was acknowledged
        assert losses == []

        def give_up(session: Session) -> None:
            session.execute("DELETE FROM worker WHERE id = 'one'")
            session.execute(RECORD_HEARTBEAT, ("one", this_process().dump(), "{}"))

        others = WorkerRegistry(parse_target(postgres_url))
        await asyncio.to_thread(others.run_in_transaction, give_up)
        others.close()
        await until(lambda: bool(losses))
        before = pulse.until
        await until(lambda: pulse.until > before)  # and works on as if it were new
        assert len(losses) == 1
    finally:
        await asyncio.to_thread(pulse.stop)


@pytest.mark.anyio
async def test_nothing_begins_between_being_sure_again_and_hearing_of_the_loss(postgres_url: str) -> None:
    """The loop is busy as the worker is given up: what is ready to go on before it hears of that must wait."""
    PostgresStore(postgres_url).close()
    heard: list[str] = []
    pulse = pulse_of(WorkerRegistry(parse_target(postgres_url), lease=0.5), lost=lambda _: heard.append("lost"))
    pulse.start()

    async def go_on() -> None:
        try:
            await pulse.renewed("x")
            heard.append("began")
        except Fenced:
            heard.append("fenced")

    try:
        task = asyncio.create_task(go_on())  # ready before the loss is
        others = WorkerRegistry(parse_target(postgres_url))
        others.run_in_transaction(lambda s: s.execute("DELETE FROM worker WHERE id = 'one'"))
        others.close()
        # The loop is held, as by a tool, until the thread has heard of the loss and is sure of nothing any more.
        wait_until(lambda: pulse._is_lost and clock() >= pulse.until)
        await task
    finally:
        await asyncio.to_thread(pulse.stop)
    assert heard == ["lost", "fenced"]
