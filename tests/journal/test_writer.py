"""How the SQLite store commits: where, how often, and what it costs when nothing happens."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import apsw
import pytest

from patience import until
from ropewalk.errors import StoreError
from ropewalk.journal.protocol import Entry, NewRun
from ropewalk.journal.sql.log import SqlLog
from ropewalk.journal.sqlite.store import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def new(id: str = "r") -> NewRun:
    return NewRun(id=id, kind="chain")


def size(path: Path) -> int:
    return path.stat().st_size


class Commits:
    """Counts the commits of a store, and on which threads they were made."""

    def __init__(self, store: SqliteStore) -> None:
        self.threads: list[str] = []
        hook = store._writer._on_commit

        def count(connection: apsw.Connection, name: str, pages: int) -> int:
            self.threads.append(threading.current_thread().name)
            return hook(connection, name, pages)

        with store._writer.lock:
            store._writer.connection.set_wal_hook(count)


def test_what_comes_together_is_committed_together(path: Path) -> None:
    async def test() -> None:
        store = SqliteStore(path)
        logs = [await store.open(new(f"r{i}")) for i in range(100)]
        commits = Commits(store)

        async def work(i: int) -> None:
            for step in range(5):
                await logs[i].append(Entry(f"n{step}", "call", data=i))

        await asyncio.gather(*[work(i) for i in range(100)])
        made = [thread for thread in commits.threads if thread == "ropewalk-journal"]
        assert 5 <= len(made) <= 12  # A lease may be renewed in between.
        store.close()

    run(test())


def test_lone_entry_changes_no_thread_while_commits_are_quick(path: Path) -> None:
    async def test() -> None:
        store = SqliteStore(path, lease=600, poll=600)
        leave_thread_out(store)
        log = await store.open(new())
        commits = Commits(store)
        store._writer._cost = 0.0
        await log.append(Entry("quick", "call"))
        assert commits.threads == ["MainThread"]
        store._writer._thread = None
        store._writer._cost = 1.0
        await log.append(Entry("slow", "call"))
        assert set(commits.threads[1:]) == {"ropewalk-journal"}  # which may renew the lease, too
        store.close()

    run(test())


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit counts as quick however long it takes."""
    for name in ("_QUICK", "_QUICK_ALONE"):
        monkeypatch.setattr(f"ropewalk.journal.sqlite.store.{name}", float("inf"))


def leave_thread_out(store: SqliteStore) -> None:
    """Never start the thread of the writer: what is left to the thread is not written."""
    store._writer._thread = threading.current_thread()


async def store_without_thread(path: Path) -> SqliteStore:
    """A store that can write only on the event loop, and has an open run."""
    store = SqliteStore(path, lease=600, poll=600)
    leave_thread_out(store)
    await store.open(new("first"))
    return store


@pytest.mark.usefixtures("quick")
def test_a_task_that_writes_alone_does_not_wait_for_the_next_turn_of_the_loop(path: Path) -> None:
    async def test() -> None:
        store = await store_without_thread(path)
        turns: list[None] = []
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(turns.append, None)
        log = await store.open(new())
        committed = log.append(Entry("a", "call"))
        log.write_early()
        await committed
        await log.finish("completed", None)
        assert not turns
        store.close()

    run(test())


@pytest.mark.usefixtures("quick")
def test_tasks_that_write_in_the_same_turn_commit_together(path: Path) -> None:
    async def test() -> None:
        store = await store_without_thread(path)
        logs = [await store.open(new(f"r{i}")) for i in range(5)]
        await asyncio.sleep(0)
        commits = Commits(store)

        async def work(log: SqlLog, order: int) -> None:
            committed = log.append(Entry("a", "call"))
            log.write_early()
            assert committed.done() == (order == 0)
            await committed

        await asyncio.gather(*[work(log, order) for order, log in enumerate(logs)])
        assert commits.threads == ["MainThread"] * 2
        store.close()

    run(test())


@pytest.mark.usefixtures("quick")
def test_a_task_that_only_writes_lets_others_run(path: Path) -> None:
    async def test() -> None:
        store = await store_without_thread(path)
        log = await store.open(new())
        others: list[None] = []
        asyncio.get_running_loop().call_soon(others.append, None)
        for i in range(50):
            committed = log.append(Entry(f"n{i}", "call"))
            log.write_early()
            await committed
        assert others
        assert len(store.history("r")) == 50
        store.close()

    run(test())


def test_closing_writes_what_is_left_though_the_thread_was_called_meanwhile(path: Path) -> None:
    async def test() -> None:
        store = SqliteStore(path)
        log = await store.open(new())
        log.append(Entry("last", "call", data=1))
        writer = store._writer
        with writer.lock:
            writer.wake_once()  # the thread is on its way to the lock
            closing = threading.Thread(target=store.close)
            closing.start()
            await until(lambda: bool(writer.refusal))
            writer.wake_once()  # comes after the call to end
        closing.join()
        assert [entry.path for entry in SqliteStore(path).history("r")] == ["last"]

    run(test())


def test_loop_goes_on_while_another_process_holds_the_store(path: Path) -> None:
    async def test() -> None:
        store = SqliteStore(path, lease=600, poll=600)
        leave_thread_out(store)
        log = await store.open(new())
        other = apsw.Connection(str(path))
        store._writer._thread = None
        store._writer._cost = 0.0  # It will be tried on the loop.
        other.execute("BEGIN IMMEDIATE")
        waiting = log.append(Entry("a", "call"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done()
        other.execute("COMMIT")
        await waiting
        store.close()
        other.close()

    run(test())


def test_lone_entry_does_not_overtake_what_was_handed_over(path: Path) -> None:
    async def test() -> None:
        store = SqliteStore(path, lease=600, poll=600)
        leave_thread_out(store)
        log = await store.open(new())
        store._writer._thread = None
        put = store._writer.put
        late: list[tuple[Any, Any]] = []
        store._writer.put = lambda *parcel: late.append(parcel)  # type: ignore[method-assign]
        store._writer._cost = 1.0
        log.append(Entry("first", "node"))
        await until(lambda: bool(late))
        store._writer._cost = 0.0
        second = log.append(Entry("second", "node"))
        await until(lambda: len(late) == 2 or second.done())
        for parcel in late:
            put(*parcel)
        await second
        assert [e.path for e in store.history("r")] == ["first", "second"]
        store.close()

    run(test())


def test_log_is_copied_back_while_runs_go_on(path: Path) -> None:
    async def test() -> None:
        store = SqliteStore(path)
        log = await store.open(new())
        for i in range(6000):
            await log.append(Entry(f"n{i}", "call", data="x" * 300))
        assert size(path.with_name(path.name + "-wal")) < 16_000_000
        assert size(path) > 1_000_000
        store.close()

    run(test())


def test_nothing_runs_while_no_run_is_open(path: Path) -> None:
    async def test() -> None:
        store = SqliteStore(path, poll=0.01)
        store.list_runs()
        store.request_stop("nothing")
        assert store._writer._thread is None
        log = await store.open(new())
        await until(lambda: store._writer._wakes_by_itself)
        await log.finish("completed", None)
        store._writer.watch._linger = 0.0  # Its patience for the next run, a second, is over.
        await until(lambda: not store._writer._wakes_by_itself)
        ticks = store._writer.watch._next_look
        await asyncio.sleep(0.05)
        assert store._writer.watch._next_look == ticks
        store.close()

    run(test())


def test_store_closed_with_work_waiting_writes_it(path: Path) -> None:
    async def test() -> None:
        store = SqliteStore(path)
        log = await store.open(new())
        waiting = [log.append(Entry(f"n{i}", "call", data=i)) for i in range(500)]
        await asyncio.sleep(0)
        waiting += [log.append(Entry(f"m{i}", "call", data=i)) for i in range(500)]
        store.close()
        await asyncio.gather(*waiting)
        again = SqliteStore(path)
        assert len(again.history("r")) == 1000
        again.close()

    run(test())


def test_loop_that_died_hurts_nobody_else(path: Path) -> None:
    store = SqliteStore(path)

    async def leave() -> None:
        log = await store.open(new("gone"))
        for i in range(100):
            log.append(Entry(f"n{i}", "node"))

    async def go_on() -> None:
        log = await store.open(new("here"))
        await log.append(Entry("a", "call"))
        store.request_stop("gone")
        await log.finish("completed", None)

    run(leave())
    run(go_on())
    row = store.get_run("here")
    assert row is not None
    assert row.status == "completed"
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.get_run("here")


def test_each_of_many_who_fail_gets_an_error_of_its_own(path: Path) -> None:
    async def test() -> None:
        store = SqliteStore(path)
        log = await store.open(new())
        # Past the reach of SQL, as a fault of the disk would be.
        with store._writer.lock:
            store._writer.connection.set_authorizer(lambda *_: apsw.SQLITE_DENY)
        got = await asyncio.gather(
            *[log.append(Entry(f"n{i}", "call", data=i)) for i in range(30)], return_exceptions=True
        )
        assert len({id(error) for error in got}) == 30
        assert {type(error) for error in got} == {StoreError}
        assert all(isinstance(error, StoreError) and isinstance(error.__cause__, apsw.Error) for error in got)
        with store._writer.lock:
            store._writer.connection.set_authorizer(None)
        await log.finish("completed", None)
        assert len(store.history("r")) == 30
        store.close()

    run(test())
