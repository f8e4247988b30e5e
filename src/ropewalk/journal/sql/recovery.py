"""Poison runs: find the run that kills its process among the runs of that process.

When a process dies, any of its runs may be the cause. Every death is counted for each of them. Only a run that was
alone in the process is blamed; the others become suspects. Workers execute a suspect alone until it records a step or
its process dies again. So the guilty run is parked and the others finish. Servers do not isolate suspects: they blame
every run of a process that died.

This module also decides which runs a server may resume without a person, and counts the deaths of their processes. A
run whose process died still has it as owner. A run that a person interrupted has no owner and is left alone. A server
that ends releases its runs: they have no owner, but a mark.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, NamedTuple

import orjson

from ..protocol import RunRow
from .leases import Owner
from .rows import AMONG, RUN_LIGHT, Connection, fetch, json_list, runs
from .upkeep import find_orphans

DEATHS_OF_SUSPECT: Final = 2
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
# A run that recorded something since its last death made progress, so counting starts again at 1. The parameter is the
# most deaths to count: a run that is not blamed gets as many as make it a suspect, but never enough to be parked.
_COUNT_DEATHS: Final = f"""
    {_FAMILY} INSERT INTO mishap (run, deaths, entries) SELECT top, 1, {_ENTRIES}
    ON CONFLICT (run) DO UPDATE SET entries = excluded.entries, deaths = CASE
        WHEN excluded.entries > mishap.entries THEN 1
        WHEN mishap.deaths < CAST(? AS INTEGER) THEN mishap.deaths + 1
        ELSE mishap.deaths END
    RETURNING run, deaths
"""
_NO_LIMIT: Final = 2**31 - 1
_DEATHS: Final = "SELECT seq, deaths, entries FROM mishap JOIN run ON seq = mishap.run WHERE run.id = ?"
_PARK: Final = "UPDATE run SET status = 'parked', ended_at = ?, error = ? WHERE {which} = ? AND status = 'running'"


def count_death_and_park(
    connection: Connection, run_rows: Sequence[int], owner: Owner | str, recoveries: int, *, isolates: bool = True
) -> dict[int, int]:
    """Count the death of a process for its runs, and park what is to blame."""

    # `connection`: A transaction.
    if not run_rows:
        return {}
    among = json_list(run_rows)
    is_blamed = not isolates or fetch(connection, _ROOTS, (among,))[0][0] <= 1
    counted = fetch(connection, _COUNT_DEATHS, (among, _NO_LIMIT if is_blamed else deaths_of_suspect(recoveries)))
    for run, deaths in counted:
        if is_blamed and deaths > recoveries:
            message = (
                f"parked: {deaths} processes died while they executed this run, the last one {owner}, and none of them"
                " recorded anything; to let a worker try again, release the run"
            )
            park_run(connection, "seq", run, message)
    return {int(run): int(deaths) for run, deaths in counted}


def deaths_of_suspect(recoveries: int) -> int:
    """Return the number of deaths after which a run is a suspect."""
    return max(1, min(DEATHS_OF_SUSPECT, recoveries))


def is_suspect(connection: Connection, run_id: str, recoveries: int) -> bool:
    """Return True if owners of the run died repeatedly and it has recorded nothing since."""
    mishaps = fetch(connection, _DEATHS, (run_id,))
    if not mishaps or mishaps[0][1] < deaths_of_suspect(recoveries):
        return False
    seq, _, entries = mishaps[0]
    counts = fetch(connection, f"{_FAMILY} SELECT {_ENTRIES}", (json_list([seq]),))
    return bool(counts[0][0] <= entries)


def park_run(connection: Connection, column: str, run: int | str, message: str) -> None:
    """Keep a run, found by its column `column`, from being tried again until somebody releases it."""
    error = orjson.dumps({"kind": "Parked", "message": message})
    connection.execute(_PARK.format(which=column), (time.time(), error, run))


_HANDED_BACK: Final = f"""
    {RUN_LIGHT} WHERE status = 'running' AND parent IS NULL AND owner IS NULL
    AND epoch = (SELECT handed_back FROM mishap WHERE mishap.run = seq) ORDER BY seq LIMIT ?
"""
# With the epoch: whoever takes the run over makes the mark stale.
_MARK_HANDED_BACK: Final = """
    INSERT INTO mishap (run, deaths, entries, handed_back) SELECT run, 0, 0, epoch FROM lease WHERE run = ?
    ON CONFLICT (run) DO UPDATE SET handed_back = excluded.handed_back
"""


class RecoverableRun(NamedTuple):
    """An unfinished run that a server may resume without a person."""

    row: RunRow
    has_died: bool


def find_recoverable(connection: Connection, lease: float, limit: int, condition: str = "true") -> list[RecoverableRun]:
    """List the unfinished runs that a server may resume, oldest first."""

    # `condition`: An SQL condition on `run` and `lease`, for the runs of dead processes.
    orphans = find_orphans(connection, lease, limit, condition)
    dead = [
        RecoverableRun(row, True) for row in orphans if row.status == "running" and row.owner and row.parent is None
    ]
    handed_back = runs(connection, fetch(connection, _HANDED_BACK, (limit,)))
    return [*dead, *(RecoverableRun(row, False) for _, row in handed_back)]


def hand_back(connection: Connection, run_id: str) -> None:
    """Mark a run that a server gives up because it ends."""
    for (seq,) in fetch(connection, "SELECT seq FROM run WHERE id = ?", (run_id,)):
        connection.execute(_MARK_HANDED_BACK, (seq,))


def hand_back_dead_run(connection: Connection, row: RunRow, recoveries: int) -> int | None:
    """Take a run from its dead process and hand it back, for one server to resume; park it after too many deaths."""

    # `connection`: A transaction.
    freed = fetch(
        connection,
        "UPDATE lease SET owner = NULL WHERE run = (SELECT seq FROM run WHERE id = ? AND status = 'running')"
        " AND epoch = ? AND owner IS NOT NULL RETURNING run",
        (row.id, row.epoch),
    )
    if not freed:
        return None
    [deaths] = count_death_and_park(connection, freed[0], str(row.owner), recoveries, isolates=False).values()
    if deaths <= recoveries:
        connection.execute(_MARK_HANDED_BACK, freed[0])
    return deaths


def release_parked(connection: Connection, run_id: str) -> bool:
    """Release a parked run, forget its deaths, and let any process continue it; return False if it is not parked."""
    released = fetch(
        connection,
        "UPDATE run SET status = 'running', ended_at = NULL, error = NULL, undo = NULL"
        " WHERE id = ? AND status = 'parked' AND coalesce(undo, '') = '' RETURNING seq",
        (run_id,),
    )
    if released:
        connection.execute("DELETE FROM mishap WHERE run = ?", released[0])
        connection.execute("UPDATE lease SET owner = NULL WHERE run = ?", released[0])
        connection.execute(_MARK_HANDED_BACK, released[0])
    return bool(released)
