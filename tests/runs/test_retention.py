"""Old runs go by themselves, and nothing else does."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

import pytest

from patience import wait_until
from ropewalk import App
from ropewalk.app.runs.retention import MIN_INTERVAL, RetentionThread, delete_expired
from ropewalk.config.project import read_config
from ropewalk.config.settings import Retention
from ropewalk.errors import ConfigError
from ropewalk.journal.protocol import NewRun, Store
from ropewalk.journal.sqlite.store import SqliteStore
from ropewalk.testing import ScriptedTools

DAY = 86_400.0
CHAIN = {"kind": "chain", "name": "c", "nodes": [{"id": "a", "type": "TOOL", "tool": "a", "params": {}}]}


async def fill(store: Store, count: int = 25) -> None:
    await store.open(NewRun(id="live", kind="chain"))
    for n in range(count):
        log = await store.open(NewRun(id=f"r{n}", kind="chain"))
        await log.finish("completed", None)


def ids(store: Store) -> list[str]:
    return [row.id for row in store.list_runs()]


async def test_what_is_too_old_goes_once_an_hour(store: Store) -> None:
    await fill(store)
    now, kept = time.time(), Retention(days=30, runs=None)
    assert delete_expired(store, kept, now + 29 * DAY) == 0
    assert delete_expired(store, kept, now + 29 * DAY + MIN_INTERVAL - 1) == 0
    assert delete_expired(store, kept, now + 31 * DAY) == 25
    assert ids(store) == ["live"]


async def test_what_is_too_much_goes_and_the_turn_is_taken_once(store: Store) -> None:
    await fill(store)
    now, kept = time.time(), Retention(days=None, runs=3)
    assert delete_expired(store, kept, now) == 22
    assert ids(store) == ["r24", "r23", "r22", "live"]
    await fill_more(store)
    assert delete_expired(store, kept, now + MIN_INTERVAL - 1) == 0, "once an hour"
    assert delete_expired(store, kept, now + MIN_INTERVAL) == 1
    assert delete_expired(store, Retention(days=None, runs=None), now + 9 * MIN_INTERVAL) == 0


async def fill_more(store: Store) -> None:
    await (await store.open(NewRun(id="more", kind="chain"))).finish("failed", None)


async def test_it_ends_when_it_is_told_to(store: Store) -> None:
    await fill(store)
    rounds = iter([False, False, True])
    assert delete_expired(store, Retention(days=None, runs=1), time.time(), lambda: next(rounds)) == 20


def test_an_app_that_closes_soon_does_it_then(tmp_path: Path) -> None:
    address = str(tmp_path / "store.db")

    async def once(run_id: str) -> None:
        app = App(address)
        app.context.retention = Retention(days=None, runs=2)
        async with app:
            for n in range(4):
                await app.run(CHAIN, run_id=f"{run_id}{n}", executor=ScriptedTools(a=1))

    asyncio.run(once("a"))
    store = SqliteStore(address)
    assert ids(store) == ["a3", "a2"]
    store.close()
    asyncio.run(once("b"))
    store = SqliteStore(address)
    assert ids(store) == ["b3", "b2", "b1", "b0", "a3", "a2"], "the turn of this hour was taken"
    store.close()


def test_a_store_that_stays_open_is_tidied_in_a_thread(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    asyncio.run(fill(store))
    keeper = RetentionThread(store, Retention(days=None, runs=1), first_delay=0.0)
    wait_until(lambda: len(ids(store)) <= 2)
    assert ids(store) == ["r24", "live"]
    keeper.close()
    store.close()


def test_a_store_that_is_away_is_told_when_it_stays_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ropewalk.retention")
    store = SqliteStore(tmp_path / "store.db")
    store.close()
    keeper = RetentionThread(store, Retention(days=None, runs=1), first_delay=0.0, retry_delay=0.0)
    wait_until(lambda: len(caplog.records) >= 2)
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]
    assert "old runs are not deleted: " in caplog.text
    keeper.close()


def test_it_is_set_in_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "ropewalk.toml"
    for text, expected in (
        ("", Retention()),
        ("retention = {days = 7}", Retention(days=7, runs=None)),
        ("retention = {days = 7, runs = 50}", Retention(days=7, runs=50)),
        ("retention = false", None),
    ):
        file.write_text(f"[store]\n{text}\n")
        assert read_config(tmp_path, environ={}).retention == expected
    for wrong in ("{day = 7}", "{days = 0}", "true", "{runs = 1.5}"):
        file.write_text(f"[store]\nretention = {wrong}\n")
        with pytest.raises(ConfigError, match=r"ropewalk.toml:2:1: \[store\] retention: must be"):
            read_config(tmp_path, environ={})
