"""The lane: entries that go from their loop to the server and back without the writer's thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from faults.wire import Wire
from ropewalk.errors import Fenced, JournalConflict
from ropewalk.journal.postgres.store import PostgresStore, PostgresWriter
from ropewalk.journal.protocol import Entry, NewRun
from ropewalk.journal.sql.log import SqlLog

ONE = b"\0one\0"  # how the lane's prepared statement is called for


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


async def with_a_lane(store: PostgresStore, id: str = "r") -> SqlLog:
    """A run whose entries go over a lane from here on."""
    log = await store.open(NewRun(id=id, kind="chain"))
    for i in range(50):
        if lanes(store):
            return log
        await log.append(Entry(f"before[{i}]", "node"))
    raise AssertionError("no lane was made")


def lanes(store: PostgresStore) -> int:
    """Those of this loop."""
    writer = store._writer
    assert isinstance(writer, PostgresWriter)
    return sum(inbox.loop is asyncio.get_running_loop() for inbox in list(writer._lanes))


def recorded(store: PostgresStore, id: str = "r") -> list[tuple[str, Any]]:
    return [(entry.path, entry.data) for entry in store.history(id) if not entry.path.startswith("before")]


VALUES = [None, "", "x", "ä€😀", {"a": [1, 2.5, None]}, "y" * 60_000, 0, False]


def test_values_of_every_kind_arrive_alone_and_together(store: PostgresStore) -> None:
    async def test() -> None:
        log = await with_a_lane(store)
        for i, value in enumerate(VALUES):
            await log.append(Entry(f"ä[{i}]", "call", "näme", value, "d" * 32, 1.25, 2.5 + i))
        await asyncio.gather(
            *[log.append(Entry(f"b[{i}]", "call", "n", value, "", i, -0.5)) for i, value in enumerate(VALUES)]
        )
        assert lanes(store) == 1
        assert recorded(store) == [(f"{p}[{i}]", v) for p in "äb" for i, v in enumerate(VALUES)]
        one = next(entry for entry in store.history("r") if entry.path == "ä[2]")
        assert one == Entry("ä[2]", "call", "näme", "x", "d" * 32, 1.25, 4.5)
        assert await log.finish("completed", None) == "completed"

    run(test())


def test_a_batch_that_fits_no_socket_arrives_whole(store: PostgresStore) -> None:
    async def test() -> None:
        log = await with_a_lane(store)
        await asyncio.gather(*[log.append(Entry(f"n[{i}]", "call", data="x" * 50_000)) for i in range(100)])
        assert lanes(store) == 1
        assert [path for path, _ in recorded(store)] == [f"n[{i}]" for i in range(100)]

    run(test())


def test_what_is_added_meanwhile_goes_in_order_and_the_end_last(store: PostgresStore) -> None:
    async def test() -> None:
        log = await with_a_lane(store)
        first = log.append(Entry("a", "attempt", data=1))
        await asyncio.sleep(0)  # It is under way.
        later = [log.append(Entry("a", "attempt", data=2)), log.append(Entry("b", "node"))]
        assert await log.finish("completed", None) == "completed"
        assert all(one.done() for one in [first, *later])
        assert recorded(store) == [("a", 2), ("b", None)]

    run(test())


@pytest.mark.parametrize("count", [1, 5])
def test_a_replaced_owner_writes_nothing_over_its_lane(url: str, store: PostgresStore, count: int) -> None:
    async def test() -> None:
        log = await with_a_lane(store)
        store._writer.run(lambda c: c.execute("UPDATE lease SET epoch = epoch + 1"))
        outcomes = await asyncio.gather(
            *[log.append(Entry(f"n[{i}]", "call", data=i)) for i in range(count)], return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == [Fenced] * count
        assert recorded(store) == []

    run(test())


def test_a_second_different_fact_is_a_conflict_and_the_same_one_is_not(store: PostgresStore) -> None:
    async def test() -> None:
        log = await with_a_lane(store)
        await log.append(Entry("a", "call", data=1, digest="d"))
        await log.append(Entry("a", "call", data=1, digest="d"))
        with pytest.raises(JournalConflict):
            await log.append(Entry("a", "call", data=2, digest="d"))
        assert recorded(store) == [("a", 1)]

    run(test())


def test_an_answer_lost_on_a_lane_is_found_out_and_the_next_lane_is_made(store: PostgresStore, wire: Wire) -> None:
    async def test() -> None:
        log = await with_a_lane(store)
        wire.lose_answer(ONE)
        await log.append(Entry("a", "call", data=1))
        assert wire.lost.is_set()
        assert lanes(store) == 0
        await asyncio.gather(*[log.append(Entry(f"b[{i}]", "call", data=i)) for i in range(3)])
        assert recorded(store) == [("a", 1), ("b[0]", 0), ("b[1]", 1), ("b[2]", 2)]
        for i in range(10):
            await log.append(Entry(f"c[{i}]", "node"))
        assert lanes(store) == 1

    run(test())


def test_a_lane_that_breaks_while_idle_is_missed_by_nobody(store: PostgresStore, wire: Wire) -> None:
    async def test() -> None:
        log = await with_a_lane(store)
        for i in range(12):
            wire.cut()
            await log.append(Entry(f"n[{i}]", "call", data=i))
        assert recorded(store) == [(f"n[{i}]", i) for i in range(12)]

    run(test())


@pytest.mark.parametrize("elsewhere", [False, True])
def test_closing_writes_what_a_lane_has_under_way(store: PostgresStore, url: str, elsewhere: bool) -> None:
    async def test() -> None:
        log = await with_a_lane(store)
        waiting = [log.append(Entry(f"n[{i}]", "call", data=i)) for i in range(3)]
        await asyncio.sleep(0)  # It is under way.
        waiting.append(log.append(Entry("n[3]", "call", data=3)))
        if elsewhere:
            closing = threading.Thread(target=store.close)
            closing.start()
            closing.join()
        else:
            store.close()
        await asyncio.gather(*waiting)
        other = PostgresStore(url)
        assert recorded(other) == [(f"n[{i}]", i) for i in range(4)]
        other.close()

    run(test())


def test_a_lane_ends_with_its_loop(store: PostgresStore) -> None:
    async def first() -> None:
        await with_a_lane(store, "a")

    async def second() -> None:
        log = await with_a_lane(store, "b")
        await log.append(Entry("x", "node"))
        assert lanes(store) == 1

    run(first())
    run(second())
