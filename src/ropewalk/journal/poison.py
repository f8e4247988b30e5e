"""Poison: runs whose owners die of them, told apart from runs that only had the same owner.

When a process dies, any of its runs may be why. Each of them is counted, but only a run that was alone with its parts
is blamed for it: deaths with others make it a suspect and no more. Workers execute a suspect apart from all else, until
it records something or its owner dies again; so the culprit is parked and the others end. Servers do not execute
suspects apart, and blame every run of a process that died.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import orjson

from .connection import AMONG, Connection, fetch, numbers
from .lease import Owner

SUSPECT: Final = 2
"""Deaths with other runs after which a run is executed apart. One death is mostly chance: a restart, a lost host."""

_ROOTS: Final = f"""
    WITH RECURSIVE climb (seq, top, parent) AS (
        SELECT seq, seq, parent FROM run WHERE seq {AMONG}
        UNION ALL SELECT climb.seq, run.seq, run.parent FROM climb JOIN run ON run.id = climb.parent
    )
    SELECT count(DISTINCT top) FROM climb WHERE parent IS NULL
"""
# What a run's parts record is progress of the run.
_FAMILY: Final = f"""
    WITH RECURSIVE family (top, seq, id) AS (
        SELECT seq, seq, id FROM run WHERE seq {AMONG}
        UNION ALL SELECT family.top, run.seq, run.id FROM family JOIN run ON run.parent = family.id
    )
"""
# SQLite needs the WHERE to tell the ON of a join from the one of a conflict.
_ENTRIES: Final = "count(entry.run) FROM family LEFT JOIN entry ON entry.run = family.seq WHERE true GROUP BY top"
_COUNT: Final = f"""
    {_FAMILY} INSERT INTO mishap (run, deaths, entries) SELECT top, 1, {_ENTRIES}
    ON CONFLICT (run) DO UPDATE SET entries = excluded.entries, deaths = CASE
        WHEN excluded.entries > mishap.entries THEN 1
        WHEN mishap.deaths < CAST(? AS INTEGER) THEN mishap.deaths + 1
        ELSE mishap.deaths END
    RETURNING run, deaths
"""
_NO_LIMIT: Final = 2**31 - 1
_KNOWN: Final = "SELECT seq, deaths, entries FROM mishap JOIN run ON seq = mishap.run WHERE run.id = ?"
_PARK: Final = "UPDATE run SET status = 'parked', ended_at = ?, error = ? WHERE {which} = ? AND status = 'running'"


def count_death(
    connection: Connection, runs: Sequence[int], owner: Owner | str, recoveries: int, *, isolates: bool = True
) -> dict[int, int]:
    """Count the death of a process for its runs, and park what is to blame.

    Args:
        connection: A transaction.
        runs: The runs that the process owned, by row number.
        owner: The process.
        recoveries: Deaths without progress that a run may survive.
        isolates: Whether suspects are executed apart from others. If not, every run of the process is blamed.

    Returns:
        How many processes died on each run since it last recorded something.
    """
    if not runs:
        return {}
    among = numbers(runs)
    is_blamed = not isolates or fetch(connection, _ROOTS, (among,))[0][0] <= 1
    counted = fetch(connection, _COUNT, (among, _NO_LIMIT if is_blamed else suspect_at(recoveries)))
    for run, deaths in counted:
        if is_blamed and deaths > recoveries:
            message = (
                f"parked: {deaths} processes died while they executed this run, the last one {owner}, and none of them"
                " recorded anything; `ropewalk runs release` sets it free"
            )
            park(connection, "seq", run, message)
    return {int(run): int(deaths) for run, deaths in counted}


def suspect_at(recoveries: int) -> int:
    """Return the number of deaths after which a run is a suspect."""
    return max(1, min(SUSPECT, recoveries))


def is_suspect(connection: Connection, run_id: str, recoveries: int) -> bool:
    """Return True if owners of the run died repeatedly and it has recorded nothing since."""
    known = fetch(connection, _KNOWN, (run_id,))
    if not known or known[0][1] < suspect_at(recoveries):
        return False
    seq, _, entries = known[0]
    found = fetch(connection, f"{_FAMILY} SELECT {_ENTRIES}", (numbers([seq]),))
    return bool(found[0][0] <= entries)


def park(connection: Connection, which: str, run: int | str, message: str) -> None:
    """Keep a run, found by its column `which`, from being tried again until somebody releases it."""
    error = orjson.dumps({"kind": "Parked", "message": message})
    connection.execute(_PARK.format(which=which), (time.time(), error, run))
