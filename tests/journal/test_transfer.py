"""A store copied into another one: the same definitions, runs and facts, and runs that go on there."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from ropewalk.errors import StoreError
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.postgres.store import PostgresStore
from ropewalk.journal.protocol import Definition, Entry, NewRun, Store
from ropewalk.journal.sql.copying import Copied, copy
from ropewalk.journal.sqlite.store import SqliteStore

BIG = {"text": "".join(chr(33 + i * 7919 % 90) for i in range(100_000))}


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteStore]:
    made = SqliteStore(tmp_path / "store.db")
    yield made
    made.close()


@pytest.fixture(params=["postgres", "sqlite"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    make: Callable[[], Store] = lambda: SqliteStore(tmp_path / "other.db")  # noqa: E731
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
        make = lambda: PostgresStore(url)  # noqa: E731
    made = make()
    yield made
    made.close()


async def fill(store: Store) -> None:
    """Definitions, and runs in every state that is not live."""
    store.put_definition(Definition(kind="chain", id="c", name="ä", document={"a": [1, 2.5, None]}, fingerprint="f1"))
    store.put_definition(Definition(kind="chain", id="c", name="b", document={"a": 2}, fingerprint="f2"))
    log = await store.open(
        NewRun(id="done", kind="chain", definition_id="c", input=BIG, document={"d": "x" * 1000}, fingerprint="f2")
    )
    for i in range(30):
        log.append(Entry(f"n[{i}]", "call", "n", i, "d" * 32, 1.5, 2.5))
    log.append(Entry("big", "call", "big", BIG))
    await log.finish("partial", BIG, {"message": "ä"}, results=31, errors=1)
    log = await store.open(NewRun(id="done/part", kind="chain", parent="done"))
    await log.finish("completed", None)
    log = await store.open(NewRun(id="broken off", kind="chain", input={"x": 1}))
    await log.append(Entry("a", "call", data=1, digest="d"))
    store.send("broken off", "go", {"y": BIG})
    log.touch("a", 2.5)
    await log.release()


def all_of(store: Store) -> dict[str, Any]:
    rows = {row.id: store.get_run(row.id) for row in store.list_runs()}
    return {
        "order": [row.id for row in store.list_runs()],
        "runs": rows,
        "history": {id: store.history(id) for id in rows},
        "signals": {id: store.signals(id) for id in rows},
        "definitions": store.list_definitions(),
    }


def test_everything_is_there_as_it_was_and_once(sqlite: SqliteStore, target: Store) -> None:
    async def test() -> None:
        await fill(sqlite)
        assert copy(sqlite, target) == Copied(definitions=1, runs=2, parts=1)
        assert all_of(target) == all_of(sqlite)
        assert copy(sqlite, target) == Copied(existing_definitions=1, existing_runs=2)
        assert all_of(target) == all_of(sqlite)

    run(test())


def test_a_run_that_was_broken_off_goes_on_in_the_copy(sqlite: SqliteStore, target: Store) -> None:
    async def test() -> None:
        await fill(sqlite)
        copy(sqlite, target)
        log = await target.reopen("broken off")
        assert [(key, entry.data) for key, entry in log.past.items()] == [(("a", "call"), 1)]
        assert (log.run.spent, log.run.current_node) == (2.5, "a")
        await log.append(Entry("b", "call", data=2))
        assert await log.finish("completed", 3) == "completed"
        assert copy(sqlite, target).existing_runs == 2  # What has gone on there stays.
        row = target.get_run("broken off")
        assert row is not None
        assert (row.status, row.result) == ("completed", 3)

    run(test())


def test_copying_that_was_broken_off_is_taken_up_again(sqlite: SqliteStore, target: Store) -> None:
    async def test() -> None:
        await fill(sqlite)

        def die(done: Copied) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            copy(sqlite, target, die)
        assert [row.id for row in target.list_runs()] == ["done"]
        assert copy(sqlite, target) == Copied(existing_definitions=1, runs=1, parts=1, existing_runs=1)
        assert all_of(target) == all_of(sqlite)

    run(test())


def test_a_run_is_whole_or_not_there(sqlite: SqliteStore, target: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        await fill(sqlite)
        target.put_definition(Definition(kind="chain", id="own"))
        writer = target._writer  # type: ignore[attr-defined]
        monkeypatch.setattr(writer, "insert", lambda rows: [StoreError("no")] * len(rows))
        with pytest.raises(StoreError, match="run done was not copied"):
            copy(sqlite, target)
        assert target.list_runs() == []
        monkeypatch.undo()
        copy(sqlite, target)
        assert target.history("done") == sqlite.history("done")
        assert {one.id for one in target.list_definitions()} == {"c", "own"}

    run(test())


def test_a_live_run_is_left_out_until_it_has_ended(sqlite: SqliteStore, target: Store) -> None:
    async def test() -> None:
        log = await sqlite.open(NewRun(id="live", kind="chain"))
        await log.append(Entry("a", "call", data=1))
        assert copy(sqlite, target) == Copied(live=["live"])
        assert target.get_run("live") is None
        await log.finish("completed", 1)
        assert copy(sqlite, target) == Copied(runs=1)
        assert len(target.history("live")) == 1

    run(test())


def test_from_postgres_into_a_file(sqlite: SqliteStore, postgres_url: str) -> None:
    async def test() -> None:
        store = PostgresStore(postgres_url)
        await fill(store)
        assert copy(store, sqlite) == Copied(definitions=1, runs=2, parts=1)
        assert all_of(sqlite) == all_of(store)
        store.close()

    run(test())


def test_a_run_of_many_entries_keeps_their_order(sqlite: SqliteStore, target: Store) -> None:
    async def test() -> None:
        log = await sqlite.open(NewRun(id="wide", kind="chain"))
        for i in range(5000):
            log.append(Entry(f"n[{i}]", "call", data=i))
        await log.finish("completed", None)
        copy(sqlite, target)
        assert [entry.data for entry in target.history("wide")] == list(range(5000))
        row, old = target.get_run("wide"), sqlite.get_run("wide")
        assert row is not None
        assert old is not None
        assert row == dataclasses.replace(old)

    run(test())


def test_memory_is_refused(sqlite: SqliteStore) -> None:
    with pytest.raises(StoreError, match="in memory"):
        copy(sqlite, MemoryStore())


def test_the_runs_of_an_account_of_the_ledger_go_with_it(sqlite: SqliteStore, target: Any) -> None:
    async def test() -> None:
        await fill(target)  # so that the numbers of the runs differ
        for id in ("first", "second"):
            await (await sqlite.open(NewRun(id=id, kind="plan"))).finish("completed", None)
            sqlite.reserve(id, {"run:first": {}})
            sqlite.join(id, ["run:first"], 0)
        copy(sqlite, target)
        assert (target.members("run:first"), target.used("run:first")["calls"]) == (["first", "second"], 2)
        target.prune(keep=0)
        assert (target.members("run:first"), target.used("run:first")["calls"]) == ([], 0)

    run(test())
