"""The doctor stops at its time limit and says what it has not read."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ropewalk.journal.postgres.store import PostgresStore, examine
from ropewalk.journal.protocol import NewRun, Store
from ropewalk.journal.sqlite.doctor import Unfinished, examine_open
from ropewalk.journal.sqlite.store import SqliteStore


async def fill(store: Store, runs: int) -> None:
    for n in range(runs):
        await (await store.open(NewRun(id=f"r{n}", kind="chain", input={"n": n}))).finish("completed", n)


def test_a_file_is_examined_for_no_longer_than_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    asyncio.run(fill(store, 3000))
    store.close()
    assert examine_open(path) == []
    assert examine_open(path, 60) == []
    for limit in (0.0, 0.001, 0.01):
        with pytest.raises(Unfinished) as caught:
            examine_open(path, limit)
        assert caught.value.damage == []
        assert caught.value.read


def test_a_server_is_examined_for_no_longer_than_the_limit(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    asyncio.run(fill(store, 1))
    store.close()
    assert examine(postgres_url)[1] == []
    assert examine(postgres_url, 60)[1] == []
    with pytest.raises(Unfinished, match="runs before r0"):
        examine(postgres_url, -1)
