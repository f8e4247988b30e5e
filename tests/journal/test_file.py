"""The SQLite file itself: other programs' files, versions, big values, what it refuses."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest
from filled import fill, new, run

from ropewalk.errors import InvalidValue, StoreError
from ropewalk.journal.protocol import Entry
from ropewalk.journal.sqlite.store import SqliteStore


def size(path: Path) -> int:
    return path.stat().st_size


def contents(folder: Path) -> dict[str, bytes]:
    found = {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")}
    return {name: data for name, data in found.items() if data}  # Having looked may leave an empty log.


def test_counts_for_an_overview_and_other_reads_do_not_wait_for_each_other(path: Path) -> None:
    with contextlib.closing(SqliteStore(path)) as store, ThreadPoolExecutor() as threads:
        counts: list[Callable[[], list[Any]]] = [
            lambda: store.count_runs([0, 1]), lambda: store.count_failures(0, 1), store.count_queues,
        ]  # fmt: skip
        # The bound only ends a test that fails: a count that waits for this read would wait for itself.
        assert store.read(lambda _: [threads.submit(count).result(timeout=60) for count in counts]) == [[], [], []]
        path.rename(path.with_name("elsewhere"))
        for count in counts:
            with pytest.raises(StoreError, match="deleted, moved or replaced"):
                count()


# --- versions and other programs ----------------------------------------------------------


def test_store_of_a_newer_version_is_refused(path: Path) -> None:
    SqliteStore(path).close()
    connection = apsw.Connection(str(path))
    connection.execute("INSERT INTO migration VALUES (99, 'future', 0)")
    connection.close()
    before = contents(path.parent)
    with pytest.raises(StoreError, match=r"written by a newer Ropewalk .*99"):
        SqliteStore(path)
    assert contents(path.parent) == before


def test_interrupted_migration_is_done_again(path: Path) -> None:
    fill(path, 3)
    connection = apsw.Connection(str(path))
    # As a version without numbers would look like: made, but with no migration applied.
    with connection:
        applied = [number for (number,) in connection.execute("SELECT number FROM migration")]
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT IN ('migration', 'sqlite_sequence')"
        )
        for (table,) in list(tables):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("DELETE FROM migration")
    connection.close()
    store = SqliteStore(path)
    assert store.list_runs() == []
    store.close()
    connection = apsw.Connection(str(path))
    assert [number for (number,) in connection.execute("SELECT number FROM migration")] == applied


def test_database_of_another_program_is_refused(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = contents(path.parent)
    with pytest.raises(StoreError, match="database of another program"):
        SqliteStore(path)
    assert contents(path.parent) == before


def test_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    SqliteStore(path).close()
    assert path.stat().st_size > 0


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_new_store_is_for_its_owner_only(path: Path) -> None:
    store = SqliteStore(path)
    store.list_runs()
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
    store.close()


def test_missing_directory_and_directory_are_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"directory .* does not exist"):
        SqliteStore(tmp_path / "no" / "store.db")
    with pytest.raises(StoreError, match="is a directory"):
        SqliteStore(tmp_path)
    with pytest.raises(StoreError, match="use 'normal' or 'full'"):
        SqliteStore(tmp_path / "a.db", sync="off")  # type: ignore[arg-type]


# --- big values ---------------------------------------------------------------------------


def blobs(path: Path) -> list[Any]:
    connection = apsw.Connection(str(path))
    found = connection.execute("SELECT codec, size, length(data) FROM blob ORDER BY size").fetchall()
    connection.close()
    return found


def test_big_value_is_kept_once_and_deflated_when_it_pays(path: Path) -> None:
    async def test() -> None:
        store = SqliteStore(path)
        dense = "".join(chr(0x4E00 + i * 7919 % 20_000) for i in range(100_000))
        for id in ("a", "b"):
            log = await store.open(new(id, input="x" * 100_000))
            await log.append(Entry("n", "call", data="x" * 100_000))
            await log.append(Entry("m", "call", data=["x" * 100_000, dense[:40_000]]))
            await log.append(Entry("s", "call", data="x" * 63_000))
            await log.finish("completed", os.urandom(200_000).hex() if id == "a" else None)
        found = blobs(path)
        assert len(found) == 3
        assert all(codec == 1 and kept < size * 0.85 for codec, size, kept in found)
        store.close()

    run(test())


def test_dense_value_is_kept_as_it_is(path: Path) -> None:
    async def test() -> None:
        store = SqliteStore(path)
        log = await store.open(new())
        # Text of 90 symbols drawn at random deflates by a sixth or so: not worth the time.
        text = "".join(chr(33 + byte % 93) for byte in os.urandom(300_000)).replace("\\", "/").replace('"', "'")
        await log.append(Entry("n", "call", data=text))
        assert [codec for codec, _, _ in blobs(path)] in ([0], [1])
        assert store.history("r")[0].data == text
        store.close()

    run(test())


def test_documents_of_many_runs_are_kept_once(path: Path) -> None:
    async def test() -> None:
        store = SqliteStore(path)
        document = {"steps": ["step"] * 500}
        for i in range(20):
            await store.open(new(f"r{i}", document=document, fingerprint="f"))
        await store.open(new("other", document={"steps": ["step"] * 501}, fingerprint="g"))
        assert len(blobs(path)) == 2
        row = store.get_run("r7")
        assert row is not None
        assert row.document == document
        store.close()

    run(test())


def test_pruning_frees_what_no_run_holds_any_more(path: Path) -> None:
    async def test() -> None:
        store = SqliteStore(path)
        for i in range(30):
            log = await store.open(new(f"r{i}", input="shared" * 20_000))
            await log.append(Entry("n", "call", data=f"{i}" + "".join(map(str, range(30_000)))))
            await log.finish("completed", None)
        store.close()
        before = size(path)
        store = SqliteStore(path)
        assert store.prune(keep=1).runs == 29
        assert len(blobs(path)) == 2
        row = store.get_run("r29")
        assert row is not None
        assert row.input == "shared" * 20_000
        store.close()
        assert size(path) < before / 2

    run(test())


def test_value_past_the_hard_limit_is_refused_and_the_run_goes_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ropewalk.journal.sql.blobs.MAX_BYTES", 1_000_000)  # 100 MB would only take longer.

    async def test() -> None:
        store = SqliteStore(path)
        log = await store.open(new())
        with pytest.raises(InvalidValue, match=r"a \(call\): .* bytes of JSON; at most 1,000,000"):
            await log.append(Entry("a", "call", data="x" * 1_000_001))
        await log.append(Entry("a", "call", data="x" * 999_000))
        with pytest.raises(InvalidValue, match="result"):
            await log.finish("completed", "x" * 1_000_001)
        await log.finish("completed", 1)
        store.close()

    run(test())


def test_damaged_or_missing_blob_is_told(path: Path) -> None:
    async def test() -> None:
        store = SqliteStore(path)
        log = await store.open(new())
        await log.append(Entry("a", "call", data="x" * 100_000))
        await log.release()
        connection = apsw.Connection(str(path))
        connection.execute("UPDATE blob SET data = zeroblob(length(data))")
        with pytest.raises(StoreError, match=r"missing or damaged.*examine the store"):
            store.history("r")
        connection.execute("DELETE FROM blob")
        with pytest.raises(StoreError, match="missing or damaged"):
            await store.open(new())
        connection.close()
        store.close()

    run(test())


# --- several connections of one process ---------------------------------------------------

_TRY = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
    except OSError:
        print("refused")
"""
"""Whether another process gets the lock without which SQLite does not delete a log that is in use."""


@pytest.mark.skipif(os.name != "posix", reason="locks of POSIX, which a process loses by closing any descriptor")
def test_opening_a_store_again_keeps_the_locks_of_who_has_it_open(path: Path) -> None:
    store = SqliteStore(path)

    def refused() -> bool:
        done = subprocess.run([sys.executable, "-c", _TRY, path], capture_output=True, text=True, check=True)
        return done.stdout == "refused\n"

    assert refused()
    again = SqliteStore(path)
    assert refused()
    again.list_runs()
    again.close()
    assert refused()
    store.close()
    assert not refused()


def test_a_link_to_a_place_where_no_store_is_yet_makes_one_there(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(path)
    SqliteStore(tmp_path / "link.db").close()
    assert path.stat().st_size > 0
