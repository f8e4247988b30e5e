"""Poison: runs whose owners die of them, told apart from runs that only had the same owner.

When a process dies, any of its runs may be why. Each of them is counted, but only a run that was alone with its parts
is blamed for it: deaths with others make it a suspect and no more. Workers execute a suspect apart from all else, until
it records something or its owner dies again; so the culprit is parked and the others end.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import orjson

from .connection import fetch
from .lease import Owner
from .postgres_session import Session

SUSPECT: Final = 2
"""Deaths with other runs after which a run is executed apart. One death is mostly chance: a restart, a lost host."""

_ROOTS: Final = """
    WITH RECURSIVE climb (seq, top, parent) AS (
        SELECT seq, seq, parent FROM run WHERE seq = ANY(?)
        UNION ALL SELECT climb.seq, run.seq, run.parent FROM climb JOIN run ON run.id = climb.parent
    )
    SELECT count(DISTINCT top) FROM climb WHERE parent IS NULL
"""
# What a run's parts record is progress of the run.
_ENTRIES: Final = """
    WITH RECURSIVE family (top, seq, id) AS (
        SELECT seq, seq, id FROM run WHERE seq = ANY(?)
        UNION ALL SELECT family.top, run.seq, run.id FROM family JOIN run ON run.parent = family.id
    )
    SELECT top, count(entry.run) FROM family LEFT JOIN entry ON entry.run = family.seq GROUP BY top
"""
_COUNT: Final = """
    INSERT INTO mishap (run, deaths, entries)
    SELECT * FROM unnest(CAST(?1 AS bigint[]), CAST(?2 AS integer[]), CAST(?3 AS bigint[]))
    ON CONFLICT (run) DO UPDATE SET entries = excluded.entries, deaths = CASE
        WHEN excluded.entries > mishap.entries THEN 1
        WHEN CAST(?4 AS boolean) THEN mishap.deaths + 1
        ELSE greatest(mishap.deaths, least(mishap.deaths + 1, CAST(?5 AS integer))) END
    RETURNING run, deaths
"""
_KNOWN: Final = "SELECT seq, deaths, entries FROM mishap JOIN run ON seq = mishap.run WHERE run.id = ?"
_PARK: Final = """
    UPDATE run SET status = 'parked', ended_at = ?2, error = CAST(?3 AS bytea)
    WHERE {which} = ?1 AND status = 'running'
"""


def count_death(session: Session, runs: Sequence[int], owner: Owner, recoveries: int) -> None:
    """Count the death of a process for its runs, and park the one that is to blame.

    Args:
        session: A transaction.
        runs: The runs that the process owned, by row number.
        owner: The process.
        recoveries: Deaths without progress that a run may survive.
    """
    if not runs:
        return
    alone = fetch(session, _ROOTS, (list(runs),))[0][0] <= 1
    entries = dict(fetch(session, _ENTRIES, (list(runs),)))
    found = list(entries)
    values = (found, [1] * len(found), [entries[run] for run in found], alone, suspect_at(recoveries))
    for run, deaths in fetch(session, _COUNT, values):
        if alone and deaths > recoveries:
            message = (
                f"parked: {deaths} workers have died while they ran it, the last one {owner},"
                " and it recorded nothing meanwhile; `ropewalk runs release` sets it free"
            )
            park(session, "seq", run, message)


def suspect_at(recoveries: int) -> int:
    """Return the number of deaths after which a run is a suspect."""
    return max(1, min(SUSPECT, recoveries))


def is_suspect(session: Session, run_id: str, recoveries: int) -> bool:
    """Return True if owners of the run died repeatedly and it has recorded nothing since."""
    known = fetch(session, _KNOWN, (run_id,))
    if not known or known[0][1] < suspect_at(recoveries):
        return False
    seq, _, entries = known[0]
    return bool(dict(fetch(session, _ENTRIES, ([seq],))).get(seq, 0) <= entries)


def park(session: Session, which: str, run: int | str, message: str) -> None:
    """Keep a run, found by its column `which`, from being tried again until somebody releases it."""
    error = orjson.dumps({"kind": "Parked", "message": message})
    session.execute(_PARK.format(which=which), (run, time.time(), error))
