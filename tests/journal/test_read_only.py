"""A store that this process may not write to: read as it is, nothing made beside it, every write refused with why.

Root may write to everything, so that a process of root's is asked to do without that right.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest
from filled import Start
from test_damage import change, contents, crash, released

from ropewalk.journal.protocol import Definition
from ropewalk.journal.sqlite.store import SqliteStore

if os.name != "posix":
    pytest.skip("modes of files", allow_module_level=True)

BEGIN = """
import asyncio, sys
from ropewalk.errors import StoreError
from ropewalk.journal.protocol import Definition, NewRun
from ropewalk.journal.sqlite.doctor import examine, examine_open
from ropewalk.journal.sqlite.store import SqliteStore

def told(work):
    try:
        found = work()
        return asyncio.run(found) if asyncio.iscoroutine(found) else found
    except StoreError as error:
        return str(error).replace(sys.argv[1], "PATH")

store = told(lambda: SqliteStore(sys.argv[1]))
"""


@pytest.fixture
def bound(path: Path) -> Iterator[Callable[[str], str]]:
    """Runs code in a process that is bound by the modes of files; gives what it prints."""
    words = [sys.executable, "-c"]
    if os.geteuid() == 0:
        if (setpriv := shutil.which("setpriv")) is None:
            pytest.skip("root may write to everything, and there is no setpriv to take that from it")
        words = [setpriv, "--bounding-set=-dac_override,-dac_read_search", *words]

    def call(code: str) -> str:
        done = subprocess.run([*words, BEGIN + code, path], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    yield call
    path.parent.chmod(0o755)


def made(path: Path) -> SqliteStore:
    store = SqliteStore(path)
    store.put_definition(Definition(kind="chain", id="one", document={}))
    return store


def closed(path: Path, *modes: int) -> None:
    """Close a store to those who write: its files, and its directory if so wanted."""
    for file in path.parent.iterdir():
        file.chmod(modes[0])
    path.parent.chmod(modes[1])


LIST = "print([one.id for one in store.list_definitions()])\n"
WHY = "this user may not write to "
REFUSED = "to use another store: App(store)"


@pytest.mark.parametrize(
    ("modes", "why"),
    [((0o444, 0o755), "it"), ((0o444, 0o555), "it"), ((0o644, 0o555), "its directory {}")],
    ids=["file", "both", "directory"],
)
def test_it_is_read_and_every_write_says_why_not(path, bound, modes, why) -> None:
    made(path).close()
    closed(path, *modes)
    before = contents(path.parent)
    said = bound(
        LIST
        + """
print(store.unwritable)
print(told(lambda: store.put_definition(Definition(kind="chain", id="two", document={}))))
print(told(lambda: store.open(NewRun(id="r", kind="chain"))))
print(told(lambda: store.request_stop("r")))
print(examine_open(store.path), examine(store.path))
store.close()
"""
    ).splitlines()
    reason = WHY + why.format(path.parent)
    refused = f"PATH can only be read here: {reason}; {REFUSED}"
    assert said == ["['one']", reason, refused, refused, refused, "[] []"]
    assert contents(path.parent) == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_what_another_process_is_writing_is_read_as_it_comes(path, bound) -> None:
    with_log = made(path)
    for file in path.parent.iterdir():
        file.chmod(0o444)
    said = bound(LIST)
    assert said == "['one']\n"  # of the log: nothing of it is in the file yet
    with_log.close()


def test_a_log_that_was_left_behind_is_read_without_its_index(path, bound, child: Start) -> None:
    released(path)
    log = crash(path, child)
    log.with_name(path.name + "-shm").unlink()
    closed(path, 0o444, 0o555)
    before = contents(path.parent)
    assert len(before) == 2
    assert int(bound("print(len(store.history('r')))\nstore.close()")) >= 20
    assert contents(path.parent) == before
    assert len(list(path.parent.iterdir())) == 2


def test_one_who_writes_meanwhile_is_seen(path, bound) -> None:
    made(path).close()
    path.chmod(0o444)
    script = "SqliteStore(sys.argv[1]).put_definition(Definition(kind='chain', id='two', document={}))"
    code = f"""
import os, subprocess
print([one.id for one in store.list_definitions()])
seen = []
def work(connection):
    found = connection.execute("SELECT count(*) FROM definition").fetchall()[0][0]
    seen.append(found)
    if len(seen) == 1:
        os.chmod(sys.argv[1], 0o644)
        done = subprocess.run([sys.executable, "-c", {BEGIN + script!r}, sys.argv[1]], check=True)
    return found
print(store._writer.read(work), seen)
{LIST}
"""
    assert bound(code).splitlines() == ["['one']", "2 [1, 2]", "['one', 'two']"]


def test_a_damaged_log_is_told_not_read(path, bound, child: Start) -> None:
    released(path)
    log = crash(path, child)
    log.with_name(path.name + "-shm").unlink()
    change(log, 32 + 3 * (24 + 4096) + 100, b"\xff" * 50)
    closed(path, 0o444, 0o555)
    assert "PATH-wal is damaged" in bound("print(store)")


def test_one_of_an_older_version_is_refused_with_what_to_do(path, bound) -> None:
    made(path).close()
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM migration WHERE number > 1")
    connection.close()
    closed(path, 0o444, 0o555)
    said = bound("print(store)")
    assert said.startswith("PATH was written by an older Ropewalk (store version 1, this one reads ")
    assert "open it once as a user who can write to it" in said


def test_what_cannot_even_be_read_is_told(path, bound) -> None:
    made(path).close()
    closed(path, 0o000, 0o755)
    assert bound("print(store)") == "PATH: this user may not read it\n"
    path.parent.chmod(0o000)
    assert bound("print(store)") == "PATH: cannot check if it exists: Permission denied\n"
