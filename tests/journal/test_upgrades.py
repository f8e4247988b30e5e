"""Stores of older versions: made by the first N migrations, filled with rows as those versions wrote them."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import fork_server
from ropewalk.errors import StoreError
from ropewalk.journal.postgres.session import Session, parse_target
from ropewalk.journal.postgres.store import PostgresStore
from ropewalk.journal.protocol import Entry, Store
from ropewalk.journal.sql.upkeep import Migrations
from ropewalk.journal.sqlite.store import SqliteStore
from ropewalk.journal.tool_usage import ToolUse
from tiers import sampled

pytestmark = pytest.mark.process

STORES = Path(sys.modules[Migrations.__module__].__file__ or "").parents[1]
FOLDERS = {kind: STORES / kind / "migrations" for kind in ("sqlite", "postgres")}
NEWEST = {kind: Migrations(folder).newest for kind, folder in FOLDERS.items()}
ROWS = [
    "INSERT INTO definition (kind, id, name, document, fingerprint, created, run_count)"
    " VALUES ('chain', 'c', 'Chain', {doc}, 'f1', 5.0, 1)",
    "INSERT INTO run (id, kind, definition_id, name, status, document, fingerprint, started_at, ended_at, result)"
    " VALUES ('done', 'chain', 'c', 'Chain', 'failed', {doc}, 'f1', 100.0, 101.0, {doc})",
    "INSERT INTO run (id, kind, name, status, fingerprint, started_at)"
    " VALUES ('open', 'chain', 'x', 'running', 'f', 200.0)",
    "INSERT INTO lease (run, owner, epoch, beat) SELECT seq, NULL, 1, 0 FROM run",
    "INSERT INTO entry (run, path, kind, node, data, digest, started, ended)"
    " SELECT seq, 'a', 'call', 'a', {doc}, 'd', 1.0, 2.0 FROM run",
]
EVERY = [(kind, number) for kind, newest in NEWEST.items() for number in range(1, newest)]


def old_sqlite(path: Path, number: int) -> str:
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.pragma("application_id", 0x726F7065)
    connection.execute("CREATE TABLE migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied REAL NOT NULL)")
    fill(connection.execute, FOLDERS["sqlite"], number, "CAST('{\"x\": 1}' AS BLOB)")
    connection.close()
    return str(path)


def old_postgres(url: str, number: int) -> str:
    session = Session(parse_target(url))
    schema = parse_target(url).schema
    session.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    session.execute(
        "CREATE TABLE migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied DOUBLE PRECISION NOT NULL)"
    )
    fill(session.execute, FOLDERS["postgres"], number, "CAST('{\"x\": 1}' AS BYTEA)")
    session.close()
    return url


def fill(execute: Callable[[str], Any], folder: Path, number: int, document: str) -> None:
    for file in sorted(folder.glob("*.sql"))[:number]:
        execute(file.read_text())
        execute(f"INSERT INTO migration VALUES ({int(file.name[:4])}, '{file.stem}', 0)")
    rows = list(ROWS)
    if any("_versions" in file.name for file in sorted(folder.glob("*.sql"))[:number]):
        rows.append("INSERT INTO version SELECT kind, id, fingerprint, 1, name, document, created FROM definition")
    if any("_tool_use" in file.name for file in sorted(folder.glob("*.sql"))[:number]):
        rows.append("INSERT INTO tool_use (tool, request, successes, failures, at) VALUES ('t', 'r', 3, 1, 2.0)")
    for row in rows:
        execute(row.replace("{doc}", document))


def _id(one: tuple[str, int]) -> str:
    return f"{one[0]}-{one[1]}"


@pytest.fixture(params=EVERY, ids=_id)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a store as an older version left it."""
    kind, number = request.param
    if kind == "sqlite":
        yield old_sqlite(tmp_path / "old.db", number)
    else:
        yield old_postgres(request.getfixturevalue("postgres_url"), number)


def opened(address: str) -> Store:
    return PostgresStore(address) if address.startswith("postgres") else SqliteStore(address)


def check_whole(store: Store) -> None:
    """Everything that was there is there, and what is new works."""
    assert [row.id for row in store.list_runs()] == ["open", "done"]
    done = store.get_run("done")
    assert done is not None
    assert (done.status, done.result, done.parent, done.forked_from) == ("failed", {"x": 1}, None, None)
    assert store.history("done") == [Entry("a", "call", "a", {"x": 1}, "d", 1.0, 2.0)]
    assert [row.id for row in store.orphans()] == ["open"]
    definition = store.get_definition("chain", "c")
    assert definition is not None
    assert (definition.version, definition.document, definition.run_count) == (1, {"x": 1}, 1)
    assert [one.version for one in store.list_versions("chain", "c")] == [1]

    before = store.list_uses()
    assert before in ([], [ToolUse(tool="t", request="r", successes=3, failures=1, at=2.0)])
    later = ToolUse(tool="t", request="r", successes=1, at=5.0, source="s")
    store.put_uses([later])
    assert store.list_uses() == [later, *before]
    store.delete_uses()

    async def go_on() -> None:
        log = await store.reopen("done", again=True)
        assert await log.finish("completed", 5) == "completed"
        assert store.prune(keep=0).runs == 1

    asyncio.run(go_on())


def test_a_store_of_an_older_version_is_brought_up_to_date(old: str) -> None:
    store = opened(old)
    check_whole(store)
    store.close()
    again = opened(old)
    assert [row.id for row in again.list_runs()] == ["open"]
    again.close()


OPEN = """
import sys
sys.path[:0] = {path!r}
from test_upgrades import opened
store = opened({address!r})
print(len(store.list_runs()), flush=True)
store.close()
"""


def written(folder: Path, program: str, address: str) -> Path:
    script = folder / "program.py"
    here = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    script.write_text(program.format(address=address, path=here))
    return script


def start(script: Path) -> subprocess.Popen[str]:
    words = [sys.executable, str(script)]
    return fork_server.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("old", sampled("faults", [(one,) for one in EVERY], 4), indirect=True, ids=_id)
def test_several_processes_that_open_it_at_once_agree(old: str, tmp_path: Path) -> None:
    script = written(tmp_path, OPEN, old)
    started = [start(script) for _ in range(3)]
    for process in started:
        out, err = process.communicate(timeout=300)
        assert (process.returncode, out.strip()) == (0, "2"), err
    store = opened(old)
    check_whole(store)
    store.close()


DIE = """
import os, sys
sys.path[:0] = {path!r}
from ropewalk.journal.sql.upkeep import Migrations
from test_upgrades import opened
import ropewalk.journal.sql.upkeep as room
real = room.time.time
room.time = type("T", (), {{"time": staticmethod(lambda: os.kill(os.getpid(), 9))}})  # between a file and its number
opened({address!r})
"""


@pytest.mark.parametrize("old", sampled("faults", [(one,) for one in EVERY], 6), indirect=True, ids=_id)
def test_a_process_killed_in_the_middle_of_it_leaves_the_store_as_it_was(old: str, tmp_path: Path) -> None:
    died = start(written(tmp_path, DIE, old))
    _, err = died.communicate(timeout=300)
    assert died.returncode == -signal.SIGKILL, err
    store = opened(old)
    check_whole(store)
    store.close()


def test_a_store_of_a_newer_version_says_which_one_is_needed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    SqliteStore(path).close()
    connection = apsw.Connection(str(path))
    connection.execute("INSERT INTO migration VALUES (99, '0099_future', 0)")
    connection.close()
    known = f"this Ropewalk supports versions up to {NEWEST['sqlite']}"
    with pytest.raises(StoreError, match=rf"newer Ropewalk \(store version 99; {known}\); upgrade Ropewalk, or"):
        SqliteStore(path)
