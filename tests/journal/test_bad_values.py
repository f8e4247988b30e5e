"""Damaged values in rows: named with their run and place; the other runs are there."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import apsw
import pytest
from filled import new, run

from ropewalk.errors import StoreError
from ropewalk.journal.protocol import Definition, Entry
from ropewalk.journal.sqlite.doctor import examine, salvage
from ropewalk.journal.sqlite.store import SqliteStore

BAD = """'{"x":'"""
COLUMNS = [
    ("run", "input", "run bad: its input"),
    ("run", "context", "run bad: its context"),
    ("run", "document", "run bad: its document"),
    ("run", "result", "run bad: its result"),
    ("run", "error", "run bad: its error"),
    ("entry", "data", r"run bad(, |: )n \(call\)"),
    ("lease", "owner", "run bad: its owner"),
]


@pytest.fixture
def filled(path: Path) -> Path:
    async def fill() -> None:
        store = SqliteStore(path)
        for id in ("good", "bad"):
            log = await store.open(new(id, input={"a": 1}, context={"b": 2}, document={"c": 3}))
            await log.append(Entry("n", "call", data={"d": 4}))
            await log.append(Entry("big", "call", data=id * 50_000))
            await log.finish("failed", {"e": 5}, {"message": "f"})
        store.put_definition(Definition(kind="chain", id="d", name="d", document={"g": 6}, fingerprint="x"))
        store.close()

    asyncio.run(fill())
    return path


def change(path: Path, sql: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(sql)
    connection.close()


@pytest.mark.parametrize(("table", "column", "said"), COLUMNS)
def test_damaged_value_is_named_and_takes_nothing_else_away(filled: Path, table: str, column: str, said: str) -> None:
    key = "id = 'bad'" if table == "run" else "run = (SELECT seq FROM run WHERE id = 'bad')"
    change(filled, f"UPDATE {table} SET {column} = {BAD} WHERE {key}" + (" AND path = 'n'" if table == "entry" else ""))
    store = SqliteStore(filled)
    with pytest.raises(StoreError, match=said + r".*damaged.*examine the store"):
        store.history("bad") if table == "entry" else store.get_run("bad")
    assert {row.id for row in store.list_runs()} == {"good", "bad"}
    assert store.orphans() == []
    assert store.get_run("good") is not None
    assert len(store.history("good")) == 2
    store.close()


def test_run_whose_owner_is_damaged_is_not_taken_over_and_told(filled: Path) -> None:
    change(filled, f"UPDATE lease SET owner = {BAD}; UPDATE run SET status = 'running', ended_at = NULL")

    async def test() -> None:
        store = SqliteStore(filled)
        assert {row.id for row in store.list_runs() if row.damaged} == {"good", "bad"}
        store.orphans()
        with pytest.raises(StoreError, match="run bad: its owner"):
            await store.reopen("bad")
        store.close()

    run(test())


@pytest.mark.parametrize(("table", "column", "said"), COLUMNS)
def test_doctor_names_what_is_damaged_and_saves_the_rest(filled: Path, table: str, column: str, said: str) -> None:
    key = "id = 'bad'" if table == "run" else "run = (SELECT seq FROM run WHERE id = 'bad')"
    change(filled, f"UPDATE {table} SET {column} = {BAD} WHERE {key}" + (" AND path = 'n'" if table == "entry" else ""))
    [found] = examine(filled)
    assert "run bad: " in found
    assert "examine the store" not in found  # It is the doctor who says it.
    saved = filled.with_name("saved.db")
    assert salvage(filled, saved) == (1, [found.partition(": ")[2]])
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    assert examine(saved) == []
    store = SqliteStore(saved)
    assert [row.id for row in store.list_runs()] == ["good"]
    assert len(store.history("good")) == 2
    store.close()


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("UPDATE definition SET document = '['", "definition d (chain): its document"),
        ("UPDATE version SET document = '['", "definition d (chain): its document"),
        ("UPDATE blob SET data = zeroblob(length(data))", "run good: big (call) is the large value"),
        ("DELETE FROM blob", "run bad: big (call) is the large value"),
    ],
)
def test_doctor_reads_definitions_and_big_values(filled: Path, sql: str, said: str) -> None:
    change(filled, sql)
    assert said in " ".join(examine(filled))
    salvage(filled, filled.with_name("saved.db"))
    assert examine(filled.with_name("saved.db")) == []
