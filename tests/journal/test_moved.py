"""A store that is deleted, moved or replaced while a run uses it: the run does not end as if it had been kept."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from filled import new, run

from ropewalk.errors import StoreError
from ropewalk.journal.protocol import Entry
from ropewalk.journal.sqlite.store import SqliteStore

SAID = r"store\.db: the file was deleted, moved or replaced while it was in use"


def deleted(path: Path) -> None:
    for file in path.parent.iterdir():
        file.unlink()


def moved(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def replaced(path: Path) -> None:
    SqliteStore(path.with_name("other.db")).close()
    path.with_name("other.db").rename(path)


def without_its_directory(path: Path) -> None:
    path.parent.rename(path.parent.with_name("away"))


HOW = pytest.mark.parametrize("how", [deleted, moved, replaced, without_its_directory])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "inner").mkdir()
    return tmp_path / "inner" / "store.db"


@HOW
def test_run_does_not_end_in_a_store_that_is_gone(path: Path, how: Callable[[Path], None]) -> None:
    async def test() -> None:
        store = SqliteStore(path, poll=1000)  # Nobody looks in between.
        log = await store.open(new())
        await log.append(Entry("a", "call", data=1))
        how(path)
        with pytest.raises(StoreError, match=SAID):
            await log.finish("completed", 1)
        with contextlib.suppress(StoreError):
            store.close()

    run(test())


@HOW
def test_steps_of_a_run_whose_store_is_gone_fail_soon(path: Path, how: Callable[[Path], None]) -> None:
    async def steps(log: object) -> None:
        for i in itertools.count():
            await log.append(Entry(f"n{i}", "call", data=1))  # type: ignore[attr-defined]
            await asyncio.sleep(0)

    async def test() -> None:
        store = SqliteStore(path, poll=0.01)
        log = await store.open(new())
        how(path)
        with pytest.raises(StoreError, match=SAID):
            await steps(log)
        with contextlib.suppress(StoreError):
            store.close()

    run(test())


def test_run_goes_on_when_the_file_is_back(path: Path) -> None:
    async def test() -> None:
        store = SqliteStore(path, poll=1000)
        log = await store.open(new())
        moved(path)
        with pytest.raises(StoreError, match=SAID):
            await log.finish("completed", 1)
        path.with_name("moved.db").rename(path)
        assert await log.finish("completed", 1) == "completed"
        store.close()
        again = SqliteStore(path)
        row = again.get_run("r")
        assert row is not None
        assert row.status == "completed"
        again.close()

    run(test())
