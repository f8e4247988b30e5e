"""Pruning deletes a little per transaction, and finishes what an interrupted call left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from ropewalk.errors import StoreError
from ropewalk.journal.postgres.store import PostgresStore
from ropewalk.journal.protocol import Entry, NewRun, Store
from ropewalk.journal.sql import batches
from ropewalk.journal.sql.rows import fetch
from ropewalk.journal.sql.upkeep import ROWS_AT_ONCE
from ropewalk.journal.sqlite.store import SqliteStore

BIG = "0123456789abcdef" * 1000
TABLES = ("entry", "held", "blob", "signal", "lease", "run")


async def fill(store: Store) -> None:
    """300 small runs, one of 5,000 steps, one with 120 parts, one with 130 large values, and a live one."""
    for n in range(300):
        await (await store.open(NewRun(id=f"r{n}", kind="chain"))).finish("completed", None)
    for run, steps, data in (("long", 5000, 1), ("large", 130, BIG)):
        log = await store.open(NewRun(id=run, kind="chain"))
        written = [log.append(Entry(f"s{n}", "call", "s", [n, data], "d", 1.0, 2.0)) for n in range(steps)]
        await asyncio.gather(*written)
        await log.finish("completed", None)
    await (await store.open(NewRun(id="outer", kind="chain"))).finish("completed", None)
    for n in range(120):
        part = await store.open(NewRun(id=f"outer/{n}", kind="chain", parent="outer"))
        await part.append(Entry("s", "call", "s", n, "d", 1.0, 2.0))
        await part.finish("completed", None)
    live = await store.open(NewRun(id="live", kind="chain"))
    await live.append(Entry("s", "call", "s", 1, "d", 1.0, 2.0))


def rows(store: SqliteStore | PostgresStore) -> dict[str, int]:
    counts = [store._writer.read(partial(fetch, query=f"SELECT count(*) FROM {table}")) for table in TABLES]
    return {table: found[0][0] for table, found in zip(TABLES, counts, strict=True)}


@contextmanager
def commit_hook(store: SqliteStore, hook: Callable[[], bool]) -> Iterator[None]:
    """Call a hook at each commit of the store; its thread may be at work, so only the holder of the lock sets hooks."""
    writer = store._writer
    with writer.lock:
        writer.connection.set_commit_hook(hook)
    try:
        yield
    finally:
        with writer.lock:
            writer.connection.set_commit_hook(None)


LIVE = {"entry": 1, "held": 0, "blob": 0, "signal": 0, "lease": 1, "run": 1}


def test_no_transaction_of_a_slow_store_deletes_more_rows_than_stated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "TARGET_SECONDS", 0.0)
    store = SqliteStore(tmp_path / "store.db")
    asyncio.run(fill(store))
    connection, changes = store._writer.connection, list[int]()

    def committed() -> bool:
        changes.append(connection.total_changes())
        return False

    with store._writer.lock:
        committed()
    with commit_hook(store, committed):
        pruned = store.prune(keep=0)
    deleted = [after - before for before, after in pairwise(changes)]
    assert pruned.runs == 303
    assert max(deleted) <= ROWS_AT_ONCE
    assert sum(deleted) > 5000
    assert rows(store) == LIVE
    store.close()


def test_transactions_grow_while_they_are_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    for target in (0.0, 30.0):
        monkeypatch.setattr(batches, "TARGET_SECONDS", target)
        store = SqliteStore(tmp_path / f"{target}.db")
        asyncio.run(fill(store))
        commits = 0

        def committed() -> bool:
            nonlocal commits
            commits += 1
            return False

        with commit_hook(store, committed):
            assert store.prune(keep=0).runs == 303
        assert rows(store) == LIVE
        counts.append(commits)
        store.close()
    small, large = counts
    assert 2 * large < small


def test_a_batch_shrinks_again_when_its_transactions_become_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches.time, "sleep", lambda seconds: None)
    sizes = batches.Batches()
    for _ in range(20):
        sizes.observe(batches.TARGET_SECONDS / 10)
    assert sizes.size(50) == 50 * batches.MAX_FACTOR
    sizes.observe(batches.TARGET_SECONDS / 2)
    assert sizes.size(50) == 50 * batches.MAX_FACTOR  # neither quick nor slow
    sizes.observe(batches.TARGET_SECONDS * 2)
    assert sizes.size(50) == 25 * batches.MAX_FACTOR
    for _ in range(20):
        sizes.observe(batches.TARGET_SECONDS * 2)
    assert sizes.size(50) == 50


def test_a_postgres_store_keeps_nothing_of_what_is_pruned(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    asyncio.run(fill(store))
    assert store.prune(keep=0).runs == 303
    assert rows(store) == LIVE
    store.close()


def test_what_an_interrupted_call_leaves_is_deleted_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "TARGET_SECONDS", 0.0)
    store = SqliteStore(tmp_path / "store.db")
    asyncio.run(fill(store))
    commits = 0

    def refuse() -> bool:
        nonlocal commits
        commits += 1
        return commits > 20

    with commit_hook(store, refuse), pytest.raises(StoreError):
        store.prune(keep=0)
    assert commits > 20
    store.prune(keep=0)
    assert rows(store) == LIVE
    store.close()
