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
from ropewalk.workers.dispatches import Dispatches, undispatched


class Queue:
    """A store with one run that nobody owns, and what dispatches it."""

    def __init__(self, store: PostgresStore) -> None:
        self.where = store.where
        self.fleet, self.client = WorkerRegistry(store.where), Client(store.where, is_patient=False)
        self.dispatches = Dispatches(self.fleet, self.client, WorkerSettings())
        assert self.client.pool is not None  # connecting makes the tables

    def statuses(self) -> list[str]:
        """Return the status of every dispatch."""
        query = f"SELECT status FROM {self.where.schema}_dbos.workflow_status ORDER BY status"
        return [status for (status,) in self.fleet.do(lambda session: fetch(session, query))]

    def ids(self) -> list[str]:
        query = f"SELECT workflow_uuid FROM {self.where.schema}_dbos.workflow_status"
        return [id for (id,) in self.fleet.do(lambda session: fetch(session, query))]


@pytest.fixture
def queue(postgres_url: str) -> Iterator[Queue]:
    store = PostgresStore(postgres_url)

    async def make() -> None:
        await (await store.open(NewRun(id="x", kind="chain", name="x", context={"queue": "default"}))).release()

    asyncio.run(make())
    made = Queue(store)
    yield made
    made.client.close()
    made.fleet.close()
    store.close()


def test_two_that_find_a_run_at_the_same_time_queue_it_once(queue: Queue) -> None:
    found = [queue.fleet.do(lambda session: undispatched(session, queue.where)) for _ in range(2)]
    for [run] in found:
        queue.dispatches.put(run.id, run.epoch, run.context)
    assert queue.statuses() == ["ENQUEUED"]


def test_a_run_with_a_live_dispatch_gets_no_other(queue: Queue) -> None:
    assert queue.dispatches.renew() == ["x"]
    assert queue.dispatches.renew() == []
    assert queue.statuses() == ["ENQUEUED"]


def test_a_run_whose_dispatch_came_to_nothing_gets_another(queue: Queue) -> None:
    queue.dispatches.renew()
    queue.client.client.cancel_workflows(queue.ids())
    assert queue.dispatches.renew() == ["x"]
    assert queue.statuses() == ["CANCELLED", "ENQUEUED"]
    # Of two that find it at the same moment, the second one comes too late.
    queue.client.client.cancel_workflows(queue.ids())
    found = [queue.fleet.do(lambda session: undispatched(session, queue.where)) for _ in range(2)]
    assert [run.was_lost for run in found[0]] == [True]
    for runs in found:
        for run in runs:
            queue.dispatches.put(run.id, run.epoch, run.context)
    assert queue.statuses() == ["CANCELLED", "CANCELLED", "ENQUEUED"]
