"""A log whose database is gone: nothing of it is lost by making a store in its place."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from filled import Start
from test_damage import contents, crash, released

from ropewalk.errors import StoreError
from ropewalk.journal.address import open_store
from ropewalk.journal.sqlite.store import SqliteStore


@pytest.mark.parametrize("left", ["nothing", "an empty file"])
def test_log_without_its_database_is_refused_and_left_alone(path: Path, child: Start, left: str) -> None:
    released(path)
    crash(path, child)
    moved = path.with_name("moved.db")
    path.rename(moved)
    if left == "an empty file":
        path.touch()
    before = contents(path.parent)
    for address in (path, f"sqlite:///{path}"):
        with pytest.raises(StoreError, match=r"log of another database.*store\.db-wal.*[Rr]estore the database"):
            open_store(address)
    assert contents(path.parent) == before
    assert path.exists() is (left == "an empty file")

    shutil.move(moved, path)  # As it was told: all is there again.
    store = SqliteStore(path)
    assert len(store.history("r")) >= 20
    store.close()


def test_log_that_is_moved_away_is_in_nobodys_way(path: Path, child: Start) -> None:
    released(path)
    log = crash(path, child)
    path.unlink()
    log.rename(path.with_name("kept"))
    store = SqliteStore(path)
    assert store.list_runs() == []
    store.close()
    assert path.with_name("kept").stat().st_size > 0


def test_empty_log_is_no_log(path: Path) -> None:
    path.with_name(path.name + "-wal").touch()
    SqliteStore(path).close()


def test_log_beside_the_file_that_a_link_leads_to_is_seen(path: Path, child: Start) -> None:
    inner = path.parent / "elsewhere"
    inner.mkdir()
    path.symlink_to(inner / "real.db")
    released(path)
    crash(inner / "real.db", child)
    (inner / "real.db").unlink()
    with pytest.raises(StoreError, match=r"real\.db-wal"):
        SqliteStore(path)


@pytest.mark.process
def test_processes_that_make_one_store_at_the_same_time_see_no_orphan(path: Path, child: Start) -> None:
    for turn in range(8):
        for file in path.parent.glob("store.db*"):
            file.unlink()
        started = [child("crowd", path, f"r{turn}.{i}", 1) for i in range(4)]
        for process in started:
            out, _ = process.communicate(timeout=300)
            assert (process.returncode, out) == (0, "done\n")
