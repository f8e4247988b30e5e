"""The heartbeat process alone: what it writes for a worker that lives, and when that dies."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from patience import patience
from ropewalk.journal.postgres.store import PostgresStore
from ropewalk.journal.postgres.worker_registry import WorkerRegistry, WorkerRow

WORKER = """
import sys, time
from ropewalk.journal.postgres.worker_registry import WorkerRegistry as Fleet
from ropewalk.journal.postgres.session import target
from ropewalk.workers.heartbeat import Beat, start_heart

fleet = Fleet(target(sys.argv[1]), 1.0)
began = fleet.beat("w", "{}")
heart = start_heart(fleet, "w", "{}", began, 600.0)
while True:
    for reading in heart.answer(0.1):
        if isinstance(reading, Beat):
            print("beat", flush=True)
"""


@pytest.fixture
def fleet(postgres_url: str) -> Iterator[WorkerRegistry]:
    store = PostgresStore(postgres_url)
    made = WorkerRegistry(store.where, 1.0)
    yield made
    made.close()
    store.close()


def until(holds: Callable[[], bool], most: float = 10.0) -> float:
    """Wait until it holds; return the seconds that took."""
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < patience(most)
        time.sleep(0.01)
    return time.monotonic() - begun


def test_a_worker_that_dies_is_marked_as_dead_at_once_for_workers_on_other_hosts(
    fleet: WorkerRegistry, postgres_url: str
) -> None:
    with subprocess.Popen([sys.executable, "-c", WORKER, postgres_url], stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"beat\n"

        def row() -> WorkerRow:
            return fleet.workers()[0]

        first = row().beat
        until(lambda: row().beat > first + 1)  # it beats on
        assert fleet.reap() == []
        worker.kill()
        until(lambda: row().beat == 0.0, most=5)
    assert fleet.reap() == ["w"]
