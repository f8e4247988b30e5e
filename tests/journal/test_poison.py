"""Deaths of owners are counted in one way, in every store: the count is that of a model, and it parks what it must."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ropewalk.journal.postgres.session import Session, parse_target
from ropewalk.journal.postgres.store import PostgresStore
from ropewalk.journal.protocol import NewRun
from ropewalk.journal.sql.leases import this_process
from ropewalk.journal.sql.recovery import count_death_and_park, is_suspect
from ropewalk.journal.sqlite.store import SqliteStore

ROOTS = ["r0", "r1", "r2"]
PARTS = {"r0/a": "r0", "r0/a/b": "r0/a", "r1/a": "r1"}  # by their parents
ENTRY = (
    "INSERT INTO entry (run, path, kind, node, data, digest, started, ended) SELECT seq, ?, 'call', '', NULL, '', 0, 0"
    " FROM run WHERE id = ?"
)


@pytest.fixture(params=["sqlite", "postgres"])
def connection(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A connection to a store with the runs, which nobody executes."""
    if request.param == "sqlite":
        store: Any = SqliteStore(tmp_path / "store.db")
    else:
        url = request.getfixturevalue("postgres_url")
        store = PostgresStore(url)

    async def make() -> None:
        for id in [*ROOTS, *PARTS]:
            await (await store.open(NewRun(id=id, kind="chain", parent=PARTS.get(id)))).release()

    asyncio.run(make())
    store.close()
    if request.param == "sqlite":
        made: Any = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    else:
        made = Session(parse_target(url))
    yield made
    made.close()


def numbers_of(connection: Any, ids: list[str]) -> list[int]:
    rows = dict(connection.execute("SELECT id, seq FROM run").fetchall())
    return [rows[id] for id in ids]


def root_of(id: str) -> str:
    return id.partition("/")[0]


@pytest.mark.parametrize("recoveries", [0, 1, 2, 5])
def test_the_count_is_that_of_a_model(connection: Any, recoveries: int) -> None:
    rnd = random.Random(recoveries)
    known: dict[str, tuple[int, int]] = {}  # deaths, and entries at the last one
    entries = dict.fromkeys([*ROOTS, *PARTS], 0)
    parked: set[str] = set()
    fewest = max(1, min(2, recoveries))
    for step in range(60):
        for id in rnd.sample(sorted(entries), rnd.choice([0, 0, 0, 1])):
            connection.execute(ENTRY, (f"n{step}", id))
            entries[id] += 1
        recorded = {
            id: sum(count for part, count in entries.items() if part == id or part.startswith(f"{id}/"))
            for id in entries
        }
        ids, is_server = rnd.sample(sorted(entries), rnd.randint(1, 4)), rnd.random() < 0.5
        suspects = [id for id in ids if known.get(id, (0, 0))[0] >= fewest and known[id][1] >= recorded[id]]
        blamed = set(ids) if len({root_of(id) for id in ids}) == 1 else set()
        if is_server and not blamed and len(suspects) == 1:
            blamed = set(suspects)
        numbers = numbers_of(connection, ids)
        counted = count_death_and_park(
            connection, dict.fromkeys(numbers, recoveries), this_process(), blames_only_suspect=is_server
        )
        for id, number in zip(ids, numbers, strict=True):
            deaths, before = known.get(id, (0, -1))
            if recorded[id] > before:
                deaths = 1
            elif id in blamed or deaths < fewest:
                deaths += 1
            known[id] = deaths, recorded[id]
            assert counted[number] == deaths, (step, id)
            assert is_suspect(connection, id, recoveries) == (deaths >= fewest)
            if id in blamed and deaths > recoveries:
                parked.add(id)
        found = connection.execute("SELECT id FROM run WHERE status = 'parked'").fetchall()
        assert {id for (id,) in found} == parked
    assert parked


def test_a_run_that_nobody_owned_has_no_deaths(connection: Any) -> None:
    assert count_death_and_park(connection, {}, this_process()) == {}
    assert not is_suspect(connection, "r0", 3)
    assert not is_suspect(connection, "unknown", 3)
