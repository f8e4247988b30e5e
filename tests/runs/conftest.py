"""Every test of this folder that asks for a `store` runs once on each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.lab import run_async_test as pytest_pyfunc_call
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.postgres.store import PostgresStore
from ropewalk.journal.protocol import Store
from ropewalk.journal.sqlite.store import SqliteStore

__all__ = ["pytest_pyfunc_call"]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store
    if request.param == "memory":
        made = MemoryStore(durable=True)
    elif request.param == "sqlite":
        made = SqliteStore(tmp_path / "store.db", poll=0.05)
    else:
        made = PostgresStore(request.getfixturevalue("postgres_url"), poll=0.05)
    yield made
    made.close()
