"""Short queries answered on another thread: many per hop, each with its own answer, error and fate."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from patience import until
from ropewalk.journal.address import Lookups
from ropewalk.journal.sqlite.store import SqliteStore

pytestmark = pytest.mark.anyio


@pytest.fixture
def lookups(tmp_path: Path) -> Any:
    store = SqliteStore(tmp_path / "s.db")
    yield Lookups(store)
    store.close()


async def test_each_query_gets_its_own_answer_or_error(lookups: Lookups) -> None:
    def query(n: int) -> int:
        if n % 7 == 3:
            raise KeyError(n)
        return n * n

    async def ask(n: int) -> Any:
        for _ in range(n % 5):
            await asyncio.sleep(0)
        return await lookups.ask(lambda: query(n))

    answers = await asyncio.gather(*(ask(n) for n in range(200)), return_exceptions=True)
    for n, answer in enumerate(answers):
        assert isinstance(answer, KeyError) if n % 7 == 3 else answer == n * n


async def test_queries_run_off_the_loop_and_share_hops(lookups: Lookups) -> None:
    here, threads = threading.get_ident(), list[int]()
    gate = threading.Event()

    def query(n: int) -> None:
        threads.append(threading.get_ident())
        if n == 0:
            gate.wait(50)

    first = asyncio.ensure_future(lookups.ask(lambda: query(0)))
    await until(lambda: threads)  # the loop goes on while the first query is held up
    rest = asyncio.gather(*(lookups.ask(lambda n=n: query(n)) for n in range(1, 50)))  # type: ignore[misc]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(first, rest)
    assert here not in threads
    assert len(threads) == 50
    assert len(set(threads[1:])) == 1  # all that collected meanwhile


async def test_a_query_never_gets_an_answer_from_before_it_was_asked(lookups: Lookups) -> None:
    counter = 0

    async def ask() -> None:
        nonlocal counter
        for _ in range(50):
            counter += 1
            now = counter
            assert await lookups.ask(lambda: counter) >= now  # noqa: B023 - read when the query runs

    await asyncio.gather(*(ask() for _ in range(8)))


async def test_a_cancelled_asker_harms_nobody_else(lookups: Lookups) -> None:
    begun, gate = threading.Event(), threading.Event()
    held = asyncio.ensure_future(lookups.ask(lambda: begun.set() or gate.wait()))  # type: ignore[func-returns-value]
    await until(begun.is_set)
    gone = asyncio.ensure_future(lookups.ask(lambda: 1))
    stays = asyncio.ensure_future(lookups.ask(lambda: 2))
    await asyncio.sleep(0)
    held.cancel()
    gone.cancel()
    gate.set()
    assert await stays == 2
    assert held.cancelled() or held.cancelling()
    assert await lookups.ask(lambda: 3) == 3


def test_one_object_serves_loop_after_loop(lookups: Lookups) -> None:
    for n in range(3):
        assert asyncio.run(lookups.ask(lambda n=n: n)) == n  # type: ignore[misc]


def test_who_cancels_every_task_leaves_nobody_waiting(lookups: Lookups) -> None:
    begun, gate = threading.Event(), threading.Event()

    async def cancel_all() -> None:
        asker = asyncio.ensure_future(lookups.ask(lambda: begun.set() or gate.wait()))  # type: ignore[func-returns-value]
        await until(begun.is_set)
        waiting = asyncio.ensure_future(lookups.ask(lambda: 1))
        await asyncio.sleep(0)
        for task in asyncio.all_tasks() - {asyncio.current_task(), waiting}:
            task.cancel()
        gate.set()
        await asyncio.wait([asker, waiting], timeout=300)
        assert asker.cancelled()
        assert waiting.cancelled()
        assert await lookups.ask(lambda: 5) == 5

    asyncio.run(cancel_all())
