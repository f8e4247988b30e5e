"""Dispatches of runs: one for each run, whoever finds it, and another one when it came to nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from ropewalk.config.settings import WorkerSettings
from ropewalk.journal.postgres.store import PostgresStore
from ropewalk.journal.postgres.worker_registry import WorkerRegistry
from ropewalk.journal.protocol import NewRun
from ropewalk.journal.sql.rows import fetch
from ropewalk.workers.dbos_adapter import Client
from ropewalk.workers.dispatches import Dispatches, find_undispatched


class Queue:
    """A store with one run that nobody owns, and what dispatches it."""

    def __init__(self, store: PostgresStore) -> None:
        self.target = store.target
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
