"""The heartbeat process alone: what it writes for a worker that lives, and when that dies."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fork_server
from patience import wait_until
from ropewalk.journal.postgres.store import PostgresStore
from ropewalk.journal.postgres.worker_registry import WorkerRegistry, WorkerRow

WORKER = """
import sys, time
from ropewalk.journal.postgres.worker_registry import WorkerRegistry as Fleet
from ropewalk.journal.postgres.session import parse_target
from ropewalk.workers.heartbeat import AcknowledgedBeat, start_heart

registry = Fleet(parse_target(sys.argv[1]), 1.0)
began = registry.record_heartbeat("w", "{}")
heart = start_heart(registry, "w", "{}", began, 600.0)
while True:
    for reading in heart.answer_and_read(0.1):
        if isinstance(reading, AcknowledgedBeat):
            print("beat", flush=True)
"""


@pytest.fixture
def registry(postgres_url: str) -> Iterator[WorkerRegistry]:
    store = PostgresStore(postgres_url)
    made = WorkerRegistry(store.target, 1.0)
    yield made
    made.close()
    store.close()


def test_a_worker_that_dies_is_marked_as_dead_at_once_for_workers_on_other_hosts(
    registry: WorkerRegistry, postgres_url: str, tmp_path: Path
) -> None:
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    with fork_server.Popen([sys.executable, str(script), postgres_url], stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"beat\n"

        def row() -> WorkerRow:
            return registry.list_workers()[0]

        first = row().beat
        wait_until(lambda: row().beat > first + 0.3)  # it beats on
        assert registry.reap_dead_workers() == []
        worker.kill()
        wait_until(lambda: row().beat == 0.0)
    assert registry.reap_dead_workers() == ["w"]
