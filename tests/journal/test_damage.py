"""Damage to the SQLite file and its log: found, told, and nothing overwritten."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import apsw
import pytest
from filled import PAGE, Start, fill, new, run

from ropewalk.errors import StoreError
from ropewalk.journal.protocol import Entry
from ropewalk.journal.sqlite.database import SqliteReader
from ropewalk.journal.sqlite.doctor import examine, salvage
from ropewalk.journal.sqlite.store import SqliteStore

pytestmark = pytest.mark.process


def crash(path: Path, child: Start) -> Path:
    """Leave a store behind as a killed process does: with its log. The log's path."""
    process = child("record", path)
    assert process.stdout is not None
    for _ in range(30):
        assert process.stdout.readline()
    process.kill()
    process.wait()
    return path.with_name(path.name + "-wal")


def released(path: Path) -> None:
    async def work() -> None:
        store = SqliteStore(path)
        await (await store.open(new())).release()
        store.close()

    run(work())


def change(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def size(path: Path) -> int:
    return path.stat().st_size


def contents(folder: Path) -> dict[str, bytes]:
    found = {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")}
    return {name: data for name, data in found.items() if data}  # Having looked may leave an empty log.


# --- damage -------------------------------------------------------------------------------


def test_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"my diary\n" * 1000)
    with pytest.raises(StoreError, match=r"not a SQLite database.*examine the store"):
        SqliteStore(path)
    assert path.read_bytes() == b"my diary\n" * 1000
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("content", [b"x", b"\n", b"\0", b"SQLite format 3\0", b"x" * 511])
def test_short_file_that_is_no_database_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreError, match=rf"{path.name} is damaged .*not a SQLite database"):
        SqliteStore(path)
    with pytest.raises(StoreError, match=rf"{path.name} is damaged .*not a SQLite database"):
        SqliteReader(path, "it is read-only", 10.0, 0.1)
    assert "not a SQLite database" in str(examine(path))
    assert (path.read_bytes(), [file.name for file in path.parent.iterdir()]) == (content, [path.name])


def test_empty_file_becomes_a_new_store(path: Path) -> None:
    path.touch()
    with contextlib.closing(SqliteStore(path)) as store:
        assert store.list_runs() == []


def test_database_with_a_damaged_header_is_refused_and_left_alone(path: Path) -> None:
    fill(path)
    change(path, 16, b"\xff" * 84)
    before = contents(path.parent)
    with pytest.raises(StoreError, match=r"damaged.*examine the store"):
        SqliteStore(path)
    assert contents(path.parent) == before


@pytest.mark.parametrize("anew", [False, True])
def test_file_that_is_deleted_in_use_is_told_by_its_name(path: Path, anew: bool) -> None:
    store = SqliteStore(path)
    for file in path.parent.iterdir():
        file.unlink()
    if anew:
        path.touch()
    with pytest.raises(StoreError, match=r"store\.db: the file was deleted, moved or replaced while it was in use"):
        store.history("r")
    assert path.exists() is anew
    with contextlib.suppress(StoreError):
        store.close()


def test_damaged_page_is_told_when_it_is_met(path: Path) -> None:
    fill(path)
    pages = path.stat().st_size // PAGE
    for page in range(2, pages):
        change(path, page * PAGE, b"\xa5" * PAGE)
    with pytest.raises(StoreError, match=r"damaged.*examine the store"):
        SqliteStore(path).history("r")


def test_damaged_page_that_is_met_in_use_is_not_told_as_if_nothing_had_been_done(path: Path) -> None:
    fill(path)
    with contextlib.closing(SqliteStore(path)) as store:
        pages = path.stat().st_size // PAGE
        for page in range(2, pages):
            change(path, page * PAGE, b"\xa5" * PAGE)
        with pytest.raises(StoreError, match=r"damaged.*in use.*examine the store") as told:
            store.history("r")
    assert "nothing was changed" not in str(told.value)


def test_torn_end_of_the_log_costs_nothing_acknowledged(path: Path, child: Start) -> None:
    released(path)
    log = crash(path, child)
    # What a kill between two writes leaves: a commit frame whose page is not there.
    sound = log.read_bytes()
    salts = sound[16:24]
    log.write_bytes(sound + b"\0\0\0\5\0\0\0\5" + salts + b"\1\2\3\4\5\6\7\x08" + b"\0" * PAGE)
    store = SqliteStore(path)
    assert len(store.history("r")) >= 20
    store.close()


@pytest.mark.parametrize("where", [40, 24 + 32 + 100, 3 * (PAGE + 24) + 500])
def test_damage_in_the_middle_of_the_log_is_found_and_nothing_overwritten(path: Path, child: Start, where: int) -> None:
    released(path)
    log = crash(path, child)
    assert log.stat().st_size > 20 * PAGE
    change(log, where, bytes([log.read_bytes()[where] ^ 0x55]))
    before = contents(path.parent)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"frame .* is damaged.*nothing was changed.*examine the store"):
            SqliteStore(path)
    assert contents(path.parent) == before


def logged(folder: Path) -> tuple[bytes, bytes, list[tuple[int, int]]]:
    """A database and its log as a killed process leaves them, and after how many bytes of the
    log how many entries are committed."""

    async def work() -> tuple[bytes, bytes, list[tuple[int, int]]]:
        path = folder / "model.db"
        store = SqliteStore(path, poll=60)
        log = await store.open(new())
        commits = []
        for i in range(8):
            await asyncio.gather(
                *[log.append(Entry(f"n{i}.{j}", "call", data="x" * 2000)) for j in range(1 + i % 3 * 4)]
            )
            commits.append((size(path.with_name("model.db-wal")), len(store.history("r"))))
        image = path.read_bytes(), path.with_name("model.db-wal").read_bytes()
        store.close()
        return *image, commits

    return asyncio.run(work())


def test_damage_is_found_in_every_frame_but_of_the_last_commit(tmp_path: Path) -> None:
    database, log, commits = logged(tmp_path)
    path = tmp_path / "store.db"
    last = commits[-2][0]  # From here on it might have been torn just as well.
    for offset in [at + inside for at in range(32, len(log), PAGE + 24) for inside in (2, 9, 20, 24 + 77)]:
        for file in tmp_path.glob("store.db*"):
            file.unlink()
        path.write_bytes(database)
        wal = path.with_name("store.db-wal")
        wal.write_bytes(log)
        change(wal, offset, bytes([log[offset] ^ 0x10]))
        if offset < last:
            with pytest.raises(StoreError, match="is damaged"):
                SqliteStore(path)
            assert path.read_bytes() == database
        else:
            store = SqliteStore(path)
            assert len(store.history("r")) == commits[-2][1]
            store.close()


def test_log_that_ends_anywhere_is_no_damage(tmp_path: Path) -> None:
    database, log, commits = logged(tmp_path)
    path = tmp_path / "store.db"
    for end in range(commits[0][0], len(log) + 1, 1371):
        for file in tmp_path.glob("store.db*"):
            file.unlink()
        path.write_bytes(database)
        path.with_name("store.db-wal").write_bytes(log[:end])
        store = SqliteStore(path)
        assert len(store.history("r")) == max(count for at, count in commits if at <= end)
        store.close()


def test_damaged_header_of_the_log_is_found(path: Path, child: Start) -> None:
    released(path)
    log = crash(path, child)
    change(log, 4, b"\0")
    change(log, 18, b"\xff\xff")
    before = contents(path.parent)
    with pytest.raises(StoreError, match="header is damaged"):
        SqliteStore(path)
    assert contents(path.parent) == before


def test_log_in_use_by_another_process_is_no_damage(path: Path, child: Start) -> None:
    released(path)
    process = child("record", path)
    assert process.stdout is not None
    process.stdout.readline()
    for _ in range(15):
        store = SqliteStore(path)
        store.get_run("r")
        store.close()
        for _ in range(20):
            process.stdout.readline()


# --- the doctor ---------------------------------------------------------------------------


def test_doctor_finds_a_sound_store_sound(path: Path) -> None:
    fill(path)
    assert examine(path) == []
    assert examine(path.with_name("no.db")) == [f"{path.with_name('no.db')}: file does not exist"]


def test_doctor_tells_of_damage_and_saves_what_can_be_read(tmp_path: Path) -> None:
    database, log, commits = logged(tmp_path)
    path = tmp_path / "store.db"
    path.write_bytes(database)
    path.with_name("store.db-wal").write_bytes(log)
    change(path.with_name("store.db-wal"), commits[3][0] + 24 + 50, b"\x99")
    before = contents(tmp_path)
    assert "frame" in examine(path)[0]
    saved = tmp_path / "saved.db"
    assert salvage(path, saved) == (1, [])
    assert before.items() <= contents(tmp_path).items()
    store = SqliteStore(saved)
    assert len(store.history("r")) == commits[3][1]
    store.close()
    with pytest.raises(StoreError, match="already exists"):
        salvage(path, saved)


def test_doctor_tells_of_a_damaged_page_and_of_a_damaged_blob(path: Path) -> None:
    fill(path)
    change(path, 5 * PAGE, b"\xa5" * PAGE)
    assert examine(path)
    other = path.with_name("blob.db")

    async def test() -> None:
        store = SqliteStore(other)
        await store.open(new(input="x" * 100_000))
        store.close()

    run(test())
    connection = apsw.Connection(str(other))
    connection.execute("UPDATE blob SET data = zeroblob(length(data))")
    connection.close()
    assert "missing or damaged" in examine(other)[0]
    with pytest.raises(StoreError):
        salvage(path.with_name("no.db"), path.with_name("out.db"))
