"""Disk full and I/O errors, injected below SQLite at every position of a short workload."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import apsw
import pytest

from faults.disk import Disk
from patience import until
from ropewalk.errors import StoreError
from ropewalk.journal.protocol import Entry, NewRun
from ropewalk.journal.sqlite.database import store_error
from ropewalk.journal.sqlite.store import SqliteStore
from tiers import Scale


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk()
    yield made
    made.unregister()


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """apsw prints what a VFS raises where SQLite cannot hand it on."""
    monkeypatch.setattr("sys.excepthook", lambda *_: None)
    monkeypatch.setattr("sys.unraisablehook", lambda *_: None)


async def work(path: Path, acknowledged: list[str], sync: Literal["normal", "full"]) -> None:
    """Lone entries, a batch, a big value, an end. Notes what was acknowledged."""
    store = SqliteStore(path, sync, lease=1000, poll=1000)
    try:
        log = await store.open(NewRun(id="r", kind="chain", input="x" * 100))
        for i in range(4):
            await log.append(Entry(f"lone{i}", "call", data=i))
            acknowledged.append(f"lone{i}")
        await asyncio.gather(*[log.append(Entry(f"many{i}", "call", data="x" * 500)) for i in range(30)])
        acknowledged.extend(f"many{i}" for i in range(30))
        await log.append(Entry("big", "call", data="".join(random.choices("abcdefgh", k=100_000))))
        acknowledged.append("big")
        await log.finish("completed", "y" * 70_000)
        acknowledged.append("end")
    finally:
        store.close()


async def everything_is_there(path: Path, acknowledged: list[str]) -> None:
    store = SqliteStore(path)
    recorded = {entry.path for entry in store.history("r")}
    row = store.get_run("r")
    store.close()
    assert set(acknowledged) - {"end"} <= recorded
    if "end" in acknowledged:
        assert row is not None
        assert row.status == "completed"
    connection = apsw.Connection(str(path))
    assert connection.pragma("integrity_check") == "ok"
    connection.close()


@pytest.mark.campaign("faults")
@pytest.mark.parametrize("error", [apsw.FullError, apsw.IOError])
@pytest.mark.parametrize("what", ["write", "sync"])
def test_fault_at_every_position_loses_nothing_acknowledged(
    tmp_path: Path, disk: Disk, error: type[apsw.Error], what: str, scale: Scale
) -> None:
    disk.error, disk.what = error, what
    sync: Literal["normal", "full"] = "full" if what == "sync" else "normal"
    asyncio.run(work(tmp_path / "sound.db", [], sync))
    positions = disk.used
    assert positions > 15
    failed, stride = 0, scale(3, 1)
    for position in range(0, positions, stride):
        path = tmp_path / f"{position}.db"
        acknowledged: list[str] = []
        disk.used, disk.left = 0, position
        with contextlib.suppress(StoreError):  # And nothing else.
            asyncio.run(work(path, acknowledged, sync))
        failed += "end" not in acknowledged
        disk.mend()
        asyncio.run(everything_is_there(path, acknowledged))
    assert failed > positions / stride / 2


def test_store_goes_on_when_there_is_space_again(tmp_path: Path, disk: Disk) -> None:
    async def test() -> None:
        store = SqliteStore(tmp_path / "s.db")
        log = await store.open(NewRun(id="r", kind="chain"))
        await log.append(Entry("a", "call", data=1))
        disk.left = 0
        disk.used = 1
        with pytest.raises(StoreError, match="disk is full"):
            await log.append(Entry("b", "call", data=2))
        with pytest.raises(StoreError, match="disk is full"):
            await asyncio.gather(*[log.append(Entry(f"c{i}", "call", data=3)) for i in range(50)])
        with pytest.raises(StoreError, match="disk is full"):
            await log.finish("failed", None)
        with pytest.raises(StoreError, match="disk is full"):
            store.request_stop("r")
        assert [e.path for e in store.history("r")] == ["a"]
        disk.mend()
        await log.append(Entry("b", "call", data=2))  # Sent again, as one that failed may be.
        assert await log.finish("completed", 5) == "completed"
        # What could not be written was not dropped: it came first once it could.
        assert [e.path for e in store.history("r")] == ["a", "b", *[f"c{i}" for i in range(50)]]
        store.close()

    asyncio.run(test())


@pytest.mark.parametrize("how", ["append", "finish", "batch"])
def test_failure_nobody_waited_for_surfaces_at_the_next_wait(tmp_path: Path, disk: Disk, how: str) -> None:
    async def test() -> None:
        store = SqliteStore(tmp_path / "s.db")
        log = await store.open(NewRun(id="r", kind="chain"))
        disk.left, disk.used = 0, 1
        for i in range(40 if how == "batch" else 1):
            log.append(Entry(f"note{i}", "node"))
        with pytest.raises(StoreError, match="disk is full"):
            await (log.finish("completed", None) if how == "finish" else log.append(Entry("a", "call", data=1)))
        disk.mend()
        await log.append(Entry("b", "call", data=1))
        paths = [e.path for e in store.history("r")]
        assert paths[0] == "note0"
        assert paths[-1] == "b"
        store.close()

    asyncio.run(test())


def test_run_does_not_end_over_entries_that_failed_unseen(tmp_path: Path, disk: Disk) -> None:
    async def test() -> None:
        store = SqliteStore(tmp_path / "s.db", poll=60)
        log = await store.open(NewRun(id="r", kind="chain"))
        await until(lambda: store._writer.watch._next_look > 0)  # The thread has nothing else to do.
        with store._writer.lock:
            disk.error, disk.left, disk.used, disk.times = apsw.IOError, 0, 1, 1
            for i in range(40):
                log.append(Entry(f"note{i}", "node"))
            # The thread has them, and waits for the lock.
            await until(lambda: log._batch._batches_in_thread == 1 and store._writer._queue.empty())
            end = asyncio.ensure_future(log.finish("completed", None))
            await until(lambda: not store._writer._queue.empty())
        # The disk has failed once and works again; the loop has heard of neither.
        with pytest.raises(StoreError, match="disk reports an error"):
            await end
        assert await log.finish("completed", None) == "completed"
        assert len(store.history("r")) == 40
        store.close()

    asyncio.run(test())


@pytest.mark.process
def test_one_huge_value_on_a_full_disk_fails_alone(tmp_path: Path, disk: Disk) -> None:
    async def test() -> None:
        store = SqliteStore(tmp_path / "s.db")
        logs = [await store.open(NewRun(id=f"r{i}", kind="chain")) for i in range(3)]
        disk.most = 2_000_000
        huge = "".join(random.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=6_000_000))
        outcomes = await asyncio.gather(
            logs[0].append(Entry("a", "call", data=1)),
            logs[1].append(Entry("a", "call", data=huge)),
            logs[2].append(Entry("a", "call", data=3)),
            return_exceptions=True,
        )
        assert [isinstance(each, StoreError) for each in outcomes] == [False, True, False]
        disk.mend()
        await logs[1].append(Entry("b", "call", data=2))
        assert [e.path for e in store.history("r1")] == ["a", "b"]
        assert store.history("r1")[0].data == huge
        store.close()

    asyncio.run(test())


def test_io_error_on_a_full_disk_is_called_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def room(blocks: int) -> None:
        made = os.statvfs(tmp_path)
        full = os.statvfs_result((*made[:4], blocks, *made[5:10]))
        monkeypatch.setattr("os.statvfs", lambda _: full)

    path = tmp_path / "s.db"
    path.touch()
    room(1 << 20)
    assert "the disk reports an error" in str(store_error(path, apsw.IOError("disk I/O error")))
    room(0)
    assert "the disk is full; free some space" in str(store_error(path, apsw.IOError("disk I/O error")))
