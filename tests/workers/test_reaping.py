"""Who removes a worker: one process, and only a worker that has not beaten since it was looked at."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import pytest

from ropewalk.journal.postgres.store import PostgresStore
from ropewalk.journal.postgres.worker_registry import WorkerRegistry, WorkerRow
from ropewalk.journal.sql.leases import this_process


class SlowFleet(WorkerRegistry):
    """A process that is slow: something else happens between its look at the workers and what it does about them."""

    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    def list_workers(self) -> list[WorkerRow]:
        rows = super().list_workers()
        self.meanwhile()
        return rows


@pytest.fixture
def slow(postgres_url: str) -> Iterator[SlowFleet]:
    store = PostgresStore(postgres_url)
    made = SlowFleet(store.target)
    yield made
    made.close()
    store.close()


@pytest.fixture
def other(slow: SlowFleet) -> Iterator[WorkerRegistry]:
    made = WorkerRegistry(slow.target)
    yield made
    made.close()


def register_dead(registry: WorkerRegistry) -> None:
    """Register a worker whose process is gone: another one has its pid by now."""
    registry.record_heartbeat("w", "{}")
    gone = dataclasses.replace(this_process(), started="1").dump()
    registry.run_in_transaction(lambda session: session.execute("UPDATE worker SET owner = ?", (gone,)))


def test_a_worker_that_beats_between_the_look_and_the_removal_stays(slow: SlowFleet, other: WorkerRegistry) -> None:
    register_dead(other)
    slow.meanwhile = lambda: other.record_heartbeat("w", "{}")
    assert slow.reap_dead_workers() == []
    assert [worker.id for worker in other.list_workers()] == ["w"]
    slow.meanwhile = lambda: None
    register_dead(other)
    assert slow.reap_dead_workers() == ["w"]
    assert other.list_workers() == []


def test_of_two_that_find_a_worker_dead_one_removes_it(slow: SlowFleet, other: WorkerRegistry) -> None:
    register_dead(other)
    removed: list[str] = []
    slow.meanwhile = lambda: removed.extend(other.reap_dead_workers())
    assert (slow.reap_dead_workers(), removed) == ([], ["w"])
