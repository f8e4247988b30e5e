"""Which runs a server may resume without a person, and how often their processes died.

A run whose process died still names it as its owner. A run that a person interrupted has no owner, and is left alone.
A server that ends hands its runs back: they have no owner either, but a mark.
"""

from __future__ import annotations

from typing import Final

from .connection import Connection, fetch
from .journal import RunRow
from .poison import count_death
from .sql_rows import RUN_LIGHT, runs
from .upkeep import find_orphans

_HANDED_BACK: Final = f"""
    {RUN_LIGHT} WHERE status = 'running' AND parent IS NULL AND owner IS NULL
    AND epoch = (SELECT handed_back FROM mishap WHERE mishap.run = seq) ORDER BY seq LIMIT ?
"""
# With the epoch: whoever takes the run over makes the mark stale.
_MARK: Final = """
    INSERT INTO mishap (run, deaths, entries, handed_back) SELECT run, 0, 0, epoch FROM lease WHERE run = ?
    ON CONFLICT (run) DO UPDATE SET handed_back = excluded.handed_back
"""


def find_recoverable(connection: Connection, lease: float, limit: int) -> list[tuple[RunRow, bool]]:
    """List the unfinished runs that a server may resume, oldest first.

    Args:
        connection: A connection to the store.
        lease: Seconds that an owner on another host may be silent.
        limit: The greatest number of runs to give.

    Returns:
        Each run without its large values, and whether its process died (else a server handed it back).
    """
    orphans = find_orphans(connection, lease, limit)
    dead = [(row, True) for row in orphans if row.status == "running" and row.owner and row.parent is None]
    handed_back = runs(connection, fetch(connection, _HANDED_BACK, (limit,)))
    return [*dead, *((row, False) for _, row in handed_back)]


def hand_back(connection: Connection, run_id: str) -> None:
    """Mark a run that a server gives up because it ends."""
    for (seq,) in fetch(connection, "SELECT seq FROM run WHERE id = ?", (run_id,)):
        connection.execute(_MARK, (seq,))


def bury(connection: Connection, row: RunRow, recoveries: int) -> int | None:
    """Take a run from its dead process and hand it back, for one server to resume; park it after too many deaths.

    Args:
        connection: A transaction.
        row: The run, with its owner.
        recoveries: Deaths without progress that a run may survive.

    Returns:
        How many processes died on it since it last recorded something; None when somebody else was faster.
    """
    taken = fetch(
        connection,
        "UPDATE lease SET owner = NULL WHERE run = (SELECT seq FROM run WHERE id = ? AND status = 'running')"
        " AND epoch = ? AND owner IS NOT NULL RETURNING run",
        (row.id, row.epoch),
    )
    if not taken:
        return None
    [deaths] = count_death(connection, taken[0], str(row.owner), recoveries, isolates=False).values()
    if deaths <= recoveries:
        connection.execute(_MARK, taken[0])
    return deaths


def release_parked(connection: Connection, run_id: str) -> bool:
    """Release a parked run, forget its deaths, and let any process continue it; return False if it is not parked."""
    found = fetch(
        connection,
        "UPDATE run SET status = 'running', ended_at = NULL, error = NULL WHERE id = ? AND status = 'parked'"
        " RETURNING seq",
        (run_id,),
    )
    if found:
        connection.execute("DELETE FROM mishap WHERE run = ?", found[0])
        connection.execute("UPDATE lease SET owner = NULL WHERE run = ?", found[0])
        connection.execute(_MARK, found[0])
    return bool(found)
