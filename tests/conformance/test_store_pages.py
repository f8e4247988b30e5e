"""Reading a long journal a part at a time: every store gives what it gives when everything is read at once."""

from __future__ import annotations

import asyncio
import random

import pytest
from stores import new, run

from ropewalk.journal import past
from ropewalk.journal.past import PagedPast, latest_start
from ropewalk.journal.protocol import Entry, Store
from ropewalk.journal.sql import log as sql_log

LONG, PAGE, KEPT_PAGES, STEPS = 500, 100, 3, 2000


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are long, and pages are full, after fewer entries than elsewhere."""
    for module in (past, sql_log):
        monkeypatch.setattr(module, "LONG", LONG)
        monkeypatch.setattr(module, "PAGE", PAGE)
    monkeypatch.setattr(past, "KEPT_PAGES", KEPT_PAGES)
    monkeypatch.setattr(sql_log, "KEYS_AT_ONCE", 300)


async def record(store: Store) -> None:
    """Two long runs whose entries lie between each other."""
    logs = [await store.open(new(id)) for id in ("a", "b")]
    last = None
    for n in range(STEPS):
        for log in logs if n % 3 == 0 else logs[:1]:
            last = log.append(
                Entry(f"each[{n}]/fetch", "call", "fetch", {"n": n, "of": log.run.id}, "d", float(n), n + 1.0)
            )
            if n % 100 == 7:
                last = log.append(Entry(f"each[{n}]/fetch", "attempt", "fetch", {"due": None}, "", float(n), n + 1.0))
    assert last is not None
    await last
    for log in logs:
        await log.release()


def test_the_past_of_a_long_run_is_what_is_recorded(store: Store) -> None:
    async def test() -> None:
        await record(store)
        history = store.history("a")
        log = await store.reopen("a")
        assert log.past
        assert len(log.past) == len(history) > STEPS
        assert latest_start(log.past) == STEPS - 1
        for entry in history:
            assert log.past.get((entry.path, entry.kind)) == entry
            assert log.past.get((entry.path, "call_failed")) is None
        for entry in random.Random(1).sample(history, 300):
            assert log.past[entry.path, entry.kind] == entry
            assert (entry.path, entry.kind) in log.past
        assert list(log.past.values()) == history
        assert [key for key, _ in log.past.items()] == list(log.past)
        assert log.past.get((f"each[{STEPS}]/fetch", "call")) is None
        await log.release()

    run(test())


def test_the_past_holds_only_what_others_recorded_and_nobody_forgot(store: Store) -> None:
    async def test() -> None:
        await record(store)
        log = await store.reopen("a")
        key = (f"each[{STEPS}]/fetch", "call")
        await log.append(Entry(*key, "fetch", 1, "d", 1.0, 2.0))
        assert log.past.get(key) is None
        count, gone = len(log.past), [("each[0]/fetch", "call"), ("each[7]/fetch", "attempt"), ("none", "call")]
        await log.forget(gone)
        assert len(log.past) == count - 2
        assert not any(one in log.past for one in gone)
        assert not set(gone) & set(log.past)
        await log.release()
        again = await store.reopen("a")
        assert len(again.past) == count - 1
        assert key in again.past
        await again.release()

    run(test())


def test_a_long_run_is_read_a_few_pages_at_a_time(store: Store) -> None:
    async def test() -> None:
        await record(store)
        log = await store.reopen("a")
        past = log.past
        assert isinstance(past, PagedPast) or not hasattr(store, "lease")
        if isinstance(past, PagedPast):  # a store in memory has everything there anyway
            most = 0
            for entry in store.history("a"):
                assert past.get((entry.path, entry.kind)) is not None
                most = max(most, past.entries_in_memory)
            assert PAGE < most <= KEPT_PAGES * PAGE
            await past.load(("each[0]/fetch", "call"))
            assert past["each[0]/fetch", "call"].data == {"n": 0, "of": "a"}
        await log.release()

    run(test())


def test_the_facts_of_many_tasks_are_looked_up_at_once(store: Store) -> None:
    async def test() -> None:
        await record(store)
        log = await store.reopen("a")

        async def look(entry: Entry) -> None:
            if isinstance(log.past, PagedPast):
                await log.past.load((entry.path, entry.kind))
            assert log.past.get((entry.path, entry.kind)) == entry

        await asyncio.gather(*map(look, random.Random(2).sample(store.history("a"), 200)))
        await log.release()

    run(test())


def test_pages_of_a_history_are_all_of_it(store: Store) -> None:
    async def test() -> None:
        await record(store)
        for id in ("a", "b"):
            history = store.history(id)
            found, after = store.history_page(id, limit=10)
            assert found == history[:10]
            while after is not None:
                some, after = store.history_page(id, after, 400)
                assert 0 < len(some) <= 400
                found += some
            assert found == history
            pages = list(store.read_history(id))
            assert max(map(len, pages)) <= (PAGE if hasattr(store, "lease") else 1000)
            assert [entry for page in pages for entry in page] == history
        assert store.history_page("none") == ([], None)
        assert list(store.read_history("none")) == []

    run(test())
