"""An owner that has been replaced writes nothing more: each write of a log is fenced by the epoch of its run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from stores import STORES, new, run

from ropewalk.errors import Fenced, RunBusy
from ropewalk.journal.protocol import Entry, Log, OpenWait, Store

TAKEN = "UPDATE lease SET epoch = epoch + 1 WHERE run = (SELECT seq FROM run WHERE id = 'r')"
WRITES: dict[str, Callable[[Log], Awaitable[Any]]] = {
    "append": lambda log: log.append(entry("late")),
    "many": lambda log: asyncio.gather(*(log.append(entry(f"late{n}")) for n in range(120))),
    "forget": lambda log: log.forget([("before", "call")]),
    "park": lambda log: log.park(None),
    "pin": lambda log: log.pin({"nodes": []}, "f2"),
    "take": lambda log: log.take([OpenWait(path="w", name="news")]),
    "renew": lambda log: log.renew(),
    "finish": lambda log: log.finish("completed", {"a": 1}),
}


def entry(path: str) -> Entry:
    now = time.time()
    return Entry(path, "call", path, 1, "", now, now)


def take_over(place: Any) -> None:
    """What another process does to the lease of the run when it replaces this one."""
    if isinstance(place, Path):
        # By the library of the store: locks of two copies of SQLite in one process do not see each other.
        connection = apsw.Connection(str(place / "store.db"))
        connection.execute(TAKEN)
        connection.close()
    else:
        url, _, schema = str(place).rpartition("schema=")
        with psycopg.connect(url.rstrip("?&")) as postgres:
            postgres.execute(f"SET search_path TO {schema}")  # type: ignore[arg-type]
            postgres.execute(TAKEN)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("kind", ["sqlite", "sqlite-full", "postgres"])
def test_a_replaced_owner_writes_nothing(request: pytest.FixtureRequest, tmp_path: Path, kind: str, write: str) -> None:
    place = request.getfixturevalue("postgres_url") if kind == "postgres" else tmp_path
    store = STORES[kind](place)

    async def test() -> None:
        log = await store.open(new())
        await log.append(entry("before"))
        take_over(place)
        with pytest.raises(Fenced, match="taken over"):
            await WRITES[write](log)
        row = store.get_run("r")
        assert row is not None
        assert (row.status, row.result) == ("running", None)
        assert [one.path for one in store.history("r")] == ["before"]

    try:
        run(test())
    finally:
        store.close()


def test_a_run_of_a_live_process_is_not_taken(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        if type(store).__name__ == "MemoryStore":
            return  # one process: the engine waits for its own run
        with pytest.raises(RunBusy):
            await store.open(new())
        with pytest.raises(RunBusy):
            await store.reopen("r")
        await log.append(entry("still"))
        await log.release()
        again = await store.reopen("r")
        assert again.run.epoch == 2
        await again.append(entry("after"))  # the store knows the new owner by this epoch
        assert [one.path for one in store.history("r")] == ["still", "after"]
        await again.release()

    run(test())


def test_the_id_of_an_ended_run_is_not_executed_again(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        await log.finish("completed", {"a": 1})
        again = await store.open(new())
        assert again.finished is not None
        assert again.finished.result == {"a": 1}
        row = store.get_run("r")
        assert row is not None
        assert (row.status, row.epoch) == ("completed", 1)

    run(test())
