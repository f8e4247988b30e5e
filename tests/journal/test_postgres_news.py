"""What one process does to a run, others hear at once; without the connection for that they still poll."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from faults.wire import Wire
from patience import BOUND, until
from postgres_server import PostgresServer
from ropewalk.errors import StoreError
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.news import News
from ropewalk.journal.postgres.store import PostgresStore, PostgresWriter
from ropewalk.journal.protocol import Entry, NewRun

NEVER = 3600.0  # seconds between looks: what is heard is not polled


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def new(id: str = "r") -> NewRun:
    return NewRun(id=id, kind="chain")


@pytest.fixture
def other(url: str) -> Iterator[PostgresStore]:
    """Another process's, as far as the store can tell."""
    made = PostgresStore(url)
    yield made
    made.close()


class Heard:
    """What a store hears, one after another."""

    def __init__(self, store: PostgresStore) -> None:
        self._news: queue.SimpleQueue[News] = queue.SimpleQueue()
        end = store.hear(self._news.put)
        assert end is not None
        self.end: Callable[[], None] = end
        self.until("")  # It listens.

    def until(self, *kinds: str) -> list[tuple[str, str]]:
        """What is heard, up to the first of these kinds."""
        found: list[tuple[str, str]] = []
        while not found or found[-1][0] not in kinds:
            news = self._news.get(timeout=BOUND)
            found.append((news.kind, news.run))
        return found


async def listening(store: PostgresStore) -> None:
    writer = store._writer
    assert isinstance(writer, PostgresWriter)
    listener = writer._listen()
    await until(lambda: listener is None or listener.live)


def test_stops_ends_and_takeovers_are_heard_with_the_run(url: str, other: PostgresStore) -> None:
    async def test() -> None:
        store = PostgresStore(url)
        heard = Heard(other)
        log = await store.open(new("a b/ä"))
        await log.finish("completed", None)
        assert heard.until("end") == [("end", "a b/ä")]
        log = await store.open(new("s"))
        await log.release()
        log = await store.reopen("s")
        assert heard.until("take") == [("take", "s")]
        assert store.request_stop("s")
        assert not store.request_stop("s")
        assert not store.request_stop("nobody")
        assert heard.until("stop") == [("stop", "s")]
        assert await log.finish("completed", None) == "stopped"
        assert heard.until("end") == [("end", "s")]
        heard.end()
        store.close()

    run(test())


def test_an_end_that_is_heard_is_recorded(url: str, other: PostgresStore) -> None:
    async def test() -> None:
        store = PostgresStore(url)
        seen: queue.SimpleQueue[str] = queue.SimpleQueue()

        def look(news: News) -> None:
            if news.kind == "end" and (row := other.get_run(news.run)):
                seen.put(row.status)

        other.hear(look)
        await listening(other)
        for i in range(20):
            log = await store.open(new(f"r{i}"))
            log.append(Entry("n", "call", data=i))
            await log.finish("partial", i)
        assert [seen.get(timeout=20) for _ in range(20)] == ["partial"] * 20
        store.close()

    run(test())


def test_a_run_that_is_stopped_elsewhere_hears_it_without_polling(url: str, other: PostgresStore) -> None:
    async def test() -> None:
        store = PostgresStore(url, poll=NEVER)
        log = await store.open(new())
        await listening(store)
        stopped = asyncio.Event()
        log.on_stop = stopped.set
        assert other.request_stop("r")
        await asyncio.wait_for(stopped.wait(), BOUND)
        store.close()

    run(test())


def test_a_run_that_is_taken_over_elsewhere_hears_it_without_polling(url: str, other: PostgresStore) -> None:
    async def test() -> None:
        store = PostgresStore(url, poll=NEVER)
        log = await store.open(new())
        await listening(store)
        told = asyncio.Event()
        log.on_stop = told.set
        store._writer.run(lambda c: c.execute("UPDATE lease SET owner = NULL"))  # As if this process were dead.
        await other.reopen("r")
        await asyncio.wait_for(told.wait(), BOUND)
        store.close()

    run(test())


def test_long_runs_begin_to_listen_by_themselves_and_poll_again_when_that_ends(url: str, other: PostgresStore) -> None:
    async def test() -> None:
        polling = PostgresStore(url, lease=0.3, poll=0.01)
        log = await polling.open(new())
        writer = polling._writer
        assert isinstance(writer, PostgresWriter)
        await until(lambda: writer._listener is not None and writer._listener.live)
        assert writer._listener is not None
        writer._listener.close()
        stopped = asyncio.Event()
        log.on_stop = stopped.set
        assert other.request_stop("r")
        await asyncio.wait_for(stopped.wait(), BOUND)
        polling.close()

    run(test())


def test_who_listens_is_told_to_look_when_the_connection_was_lost(
    store: PostgresStore, wire: Wire, other: PostgresStore
) -> None:
    async def test() -> None:
        heard = Heard(store)
        log = await other.open(new())
        wire.cut()
        assert heard.until("") == [("", "")]  # lost
        assert heard.until("") == [("", "")]  # and there again
        await log.finish("completed", None)
        assert heard.until("end") == [("end", "r")]

    run(test())


def test_listening_goes_on_after_a_restart(url: str, postgres_server: PostgresServer, other: PostgresStore) -> None:
    heard = Heard(other)
    postgres_server.restart()
    heard.until("")
    heard.until("")
    store = PostgresStore(url)
    run(ended(store))
    assert heard.until("end") == [("end", "r")]
    store.close()


async def ended(store: PostgresStore) -> None:
    log = await store.open(new())
    await log.finish("completed", None)


def test_an_id_that_fits_no_message_is_announced_without_it(url: str, other: PostgresStore) -> None:
    async def test() -> None:
        heard = Heard(other)
        log = await other.open(new("ä" * 5000))
        await log.finish("completed", None)
        assert heard.until("end") == [("end", "")]

    run(test())


def test_a_closed_store_hears_nothing_more(other: PostgresStore) -> None:
    heard = Heard(other)
    other.close()
    with pytest.raises(StoreError, match="closed"):
        other.hear(heard._news.put)


def test_stores_that_hear_nothing_say_so() -> None:
    assert MemoryStore().hear(lambda news: None) is None
