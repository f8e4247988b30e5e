"""Dispatches of runs: one for each run, whoever finds it, and another one when it came to nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from ropewalk.config.settings import Queue as QueueSettings
from ropewalk.config.settings import WorkerSettings
from ropewalk.journal.postgres.store import PostgresStore
from ropewalk.journal.postgres.worker_registry import WorkerRegistry
from ropewalk.journal.protocol import NewRun
from ropewalk.journal.sql.rows import fetch
from ropewalk.workers import dispatches
from ropewalk.workers.dbos_adapter import CHUNK_QUEUE, CHUNK_WORKFLOW, RUN_WORKFLOW, Client
from ropewalk.workers.dispatches import Dispatches, find_undispatched


class Queue:
    """A store with one run that nobody owns, and what dispatches it."""

    def __init__(self, store: PostgresStore) -> None:
        self.store, self.target = store, store.target
        self.registry, self.client = WorkerRegistry(store.target), Client(store.target, is_patient=False)
        self.dispatches = Dispatches(self.registry, self.client, WorkerSettings())
        assert self.client.pool is not None  # connecting makes the tables

    def statuses(self) -> list[str]:
        """Return the status of every dispatch."""
        query = f"SELECT status FROM {self.target.schema}_dbos.workflow_status ORDER BY status"
        return [status for (status,) in self.registry.run_in_transaction(lambda session: fetch(session, query))]

    def ids(self) -> list[str]:
        query = f"SELECT workflow_uuid FROM {self.target.schema}_dbos.workflow_status"
        return [id for (id,) in self.registry.run_in_transaction(lambda session: fetch(session, query))]


@pytest.fixture
def queue(postgres_url: str) -> Iterator[Queue]:
    store = PostgresStore(postgres_url)

    async def make() -> None:
        await (await store.open(NewRun(id="x", kind="chain", name="x", context={"queue": "default"}))).release()

    asyncio.run(make())
    made = Queue(store)
    yield made
    made.client.close()
    made.registry.close()
    store.close()


def test_two_that_find_a_run_at_the_same_time_queue_it_once(queue: Queue) -> None:
    found = [
        queue.registry.run_in_transaction(lambda session: find_undispatched(session, queue.target)) for _ in range(2)
    ]
    for [run] in found:
        queue.dispatches.queue_run(run.id, run.epoch, run.context)
    assert queue.statuses() == ["ENQUEUED"]


def test_a_run_with_a_live_dispatch_gets_no_other(queue: Queue) -> None:
    assert queue.dispatches.dispatch_missing() == ["x"]
    assert queue.dispatches.dispatch_missing() == []
    assert queue.statuses() == ["ENQUEUED"]


def test_a_run_whose_dispatch_came_to_nothing_gets_another(queue: Queue) -> None:
    queue.dispatches.dispatch_missing()
    queue.client.client.cancel_workflows(queue.ids())
    assert queue.dispatches.dispatch_missing() == ["x"]
    assert queue.statuses() == ["CANCELLED", "ENQUEUED"]
    # Of two that find it at the same moment, the second one comes too late.
    queue.client.client.cancel_workflows(queue.ids())
    found = [
        queue.registry.run_in_transaction(lambda session: find_undispatched(session, queue.target)) for _ in range(2)
    ]
    assert [run.was_lost for run in found[0]] == [True]
    for runs in found:
        for run in runs:
            queue.dispatches.queue_run(run.id, run.epoch, run.context)
    assert queue.statuses() == ["CANCELLED", "CANCELLED", "ENQUEUED"]


def add_runs(queue: Queue, *ids: str, parent: str | None = None, **context: object) -> None:
    async def make() -> None:
        for id in ids:
            new = NewRun(id=id, kind="chain", name="x", context={"queue": "default", **context}, parent=parent)
            await (await queue.store.open(new)).release()

    asyncio.run(make())


def rows(queue: Queue, columns: str) -> list[tuple[Any, ...]]:
    """Return columns of every dispatch, in the order of their ids."""
    query = f"SELECT {columns} FROM {queue.target.schema}_dbos.workflow_status ORDER BY workflow_uuid"
    return [tuple(row) for row in queue.registry.run_in_transaction(lambda session: fetch(session, query))]


def take(queue: Queue, id: str, worker: str, seconds_ago: float = 0.0) -> None:
    """Let a worker take a dispatch."""
    query = (
        f"UPDATE {queue.target.schema}_dbos.workflow_status SET status = 'PENDING', executor_id = ?, updated_at ="
        " (EXTRACT(EPOCH FROM clock_timestamp()) - CAST(? AS float8)) * 1000 WHERE workflow_uuid = ? RETURNING 1"
    )
    assert queue.registry.run_in_transaction(lambda session: fetch(session, query, (worker, seconds_ago, id)))


def lose_all(queue: Queue) -> None:
    queue.client.client.cancel_workflows(queue.ids())


class Clock:
    """The clock of the module, set by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        monkeypatch.setattr(dispatches, "time", self)

    def monotonic(self) -> float:
        return self.now


def test_the_pauses_of_a_run_that_is_lost_again_and_again_grow(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    assert queue.dispatches.dispatch_missing() == ["x"]
    for pause in (1, 2, 4, 8, 16, 32, 60, 60):
        lose_all(queue)
        assert queue.dispatches.dispatch_missing() == ["x"]
        lose_all(queue)
        clock.now += pause - 0.1
        assert queue.dispatches.dispatch_missing() == []  # too early
        clock.now += 0.1
    assert queue.dispatches.dispatch_missing() == ["x"]
    # After a while without a loss, the pauses start from the shortest again.
    clock.now += 60 + 2 * 60
    for pause in (1, 2):
        lose_all(queue)
        assert queue.dispatches.dispatch_missing() == ["x"]
        clock.now += pause


def test_a_loss_soon_after_the_pause_still_lengthens_it(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    queue.dispatches.dispatch_missing()
    for pause in (1, 2, 4, 8):
        lose_all(queue)
        assert queue.dispatches.dispatch_missing() == ["x"]
        lose_all(queue)
        clock.now += pause - 0.1
        assert queue.dispatches.dispatch_missing() == []
        clock.now += 0.1 + 2 * pause - 0.1  # it is remembered for twice the pause


@pytest.mark.parametrize("count", [1, 5, 6, 8])
def test_the_log_names_the_runs_that_were_lost(queue: Queue, count: int, caplog: pytest.LogCaptureFixture) -> None:
    ids = ["x", *(f"r{i}" for i in range(1, count))]
    add_runs(queue, *ids[1:])
    assert queue.dispatches.dispatch_missing() == ids
    assert caplog.records == []
    lose_all(queue)
    assert queue.dispatches.dispatch_missing() == ids
    more = f" and {count - 5} more" if count > 5 else ""
    [record] = caplog.records
    assert (record.name, record.levelname) == ("ropewalk.workers", "WARNING")
    assert record.getMessage() == (f"queued runs again, because no worker has claimed them: {', '.join(ids[:5])}{more}")


def test_only_runs_that_a_worker_can_run_are_dispatched(queue: Queue) -> None:
    add_runs(queue, "local", executor="function")
    add_runs(queue, "x/part", parent="x")
    assert queue.dispatches.dispatch_missing() == ["x"]
    found = queue.registry.run_in_transaction(
        lambda session: find_undispatched(session, queue.target, ["x", "x/part", "local", "none"])
    )
    assert [(run.id, run.was_lost) for run in found] == [("local", False), ("x/part", False)]
    assert found[0].context["executor"] == "function"


@pytest.mark.parametrize(
    ("context", "refusers", "wanted"),
    [
        ({"queue": "default"}, None, ("default", 100, "ENQUEUED")),
        ({"queue": "fast", "priority": 3}, None, ("fast", 3, "ENQUEUED")),
        ({"queue": "removed"}, None, ("default", 100, "ENQUEUED")),
        ({}, None, ("default", 100, "ENQUEUED")),
        ({"queue": "fast"}, ["w"], ("fast", 100, "DELAYED")),
        ({"queue": "fast"}, [], ("fast", 100, "DELAYED")),
    ],
)
def test_a_dispatch_has_the_queue_and_priority_of_its_run(
    queue: Queue, context: dict[str, Any], refusers: list[str] | None, wanted: tuple[str, int, str]
) -> None:
    settings = WorkerSettings(queues={"fast": QueueSettings()})
    Dispatches(queue.registry, queue.client, settings).queue_run("x", 7, context, refusers)
    assert rows(queue, "workflow_uuid, queue_name, priority, status") == [("x@7", *wanted)]


def test_a_chunk_is_offered_again_after_a_delay(queue: Queue) -> None:
    queue.dispatches.queue_chunk("x/m", 2)
    assert rows(queue, "workflow_uuid, queue_name, name, status") == [("x/m@2", CHUNK_QUEUE, CHUNK_WORKFLOW, "DELAYED")]


def test_the_dispatches_of_workers_that_are_gone_are_cancelled(queue: Queue) -> None:
    assert queue.dispatches.cancel_abandoned() == []
    queue.dispatches.dispatch_missing()
    [run] = queue.ids()
    assert queue.dispatches.cancel_abandoned() == []  # nobody has taken it
    take(queue, run, "gone")
    assert queue.dispatches.cancel_abandoned() == [run]
    assert rows(queue, "workflow_uuid, status") == [(run, "CANCELLED")]


def test_what_a_worker_took_long_ago_and_does_not_execute_is_cancelled(queue: Queue) -> None:
    add_runs(queue, "y")
    queue.dispatches.dispatch_missing()
    first, second = sorted(queue.ids())
    take(queue, first, "me", 100)
    take(queue, second, "another", 100)
    assert queue.dispatches.taken_dispatches("me", 200) == []
    [taken] = queue.dispatches.taken_dispatches("me", 50)
    assert (taken.id, taken.workflow) == (first, RUN_WORKFLOW)
    queue.dispatches.cancel_lost([taken])
    assert rows(queue, "workflow_uuid, status") == [(first, "CANCELLED"), (second, "PENDING")]
    queue.dispatches.cancel_lost([])


def test_runs_that_no_worker_can_execute_hide_none(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatches, "_MAX_DISPATCHES", 1)

    async def make() -> None:
        for name in ("own-1", "own-2"):
            await (await queue.store.open(NewRun(id=name, kind="chain"))).release()
        await (await queue.store.open(NewRun(id="y", kind="chain", context={"queue": "default"}))).release()

    asyncio.run(make())
    found = []
    for _ in range(3):
        runs = queue.registry.run_in_transaction(lambda session: find_undispatched(session, queue.target))
        for run in runs:
            queue.dispatches.queue_run(run.id, run.epoch, run.context)
        found.append([run.id for run in runs])
    assert found == [["x"], ["y"], []]
