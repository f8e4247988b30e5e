"""Keeps a SQLite store from filling up, and finds the runs that nobody runs any more."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import apsw
import orjson

from .database import fetch
from .journal import RunRow
from .lease import Owner, judge
from .sqlite_rows import RUN_LIGHT, runs

if TYPE_CHECKING:
    from .writer import Writer

_AT_ONCE: Final = 100
_PAGES_AT_ONCE: Final = 1000

_GONE: Final = """
    SELECT seq FROM run WHERE status <> 'running' AND (
        ended_at < ?1
        OR (?2 >= 0 AND seq <= (SELECT seq FROM run WHERE status <> 'running' ORDER BY seq DESC LIMIT 1 OFFSET ?2))
    ) ORDER BY seq LIMIT ?3
"""


def find_orphans(connection: apsw.Connection, lease: float, limit: int) -> list[RunRow]:
    """Running rows whose owner is dead, or elsewhere and silent for a lease, oldest first."""
    rows = fetch(
        connection, "SELECT seq, owner, beat FROM run JOIN lease ON run = seq WHERE status = 'running' ORDER BY seq"
    )
    verdicts = {text: judge(Owner.load(text) if text else None) for text in {row[1] for row in rows}}
    now = time.time()
    gone = [
        seq
        for seq, text, beat in rows
        if verdicts[text] == "dead" or (verdicts[text] == "unknown" and not 0 <= now - beat <= lease)
    ]
    found = fetch(
        connection,
        f"{RUN_LIGHT} WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq",
        (orjson.dumps(gone[:limit]).decode(),),
    )
    return [row for _, row in runs(connection, found)]


def prune(writer: Writer, before: float | None, keep: int | None) -> int:
    """Delete old runs a few at a time, so that live ones are never held up for long; then give
    the space back to the disk."""
    gone = 0
    while True:
        some = writer.run(lambda connection: _prune_some(connection, before, keep))
        gone += some
        if some < _AT_ONCE:
            break
    while gone and writer.run(_shrink):
        pass
    return gone


def _prune_some(connection: apsw.Connection, before: float | None, keep: int | None) -> int:
    found = fetch(connection, _GONE, (before, -1 if keep is None else keep, _AT_ONCE))
    runs_gone = (orjson.dumps([seq for (seq,) in found]).decode(),)
    among = "IN (SELECT value FROM json_each(?))"
    held = fetch(connection, f"DELETE FROM held WHERE run {among} RETURNING blob", runs_gone)
    connection.executemany(
        "DELETE FROM blob WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM held WHERE blob = ?1)", set(held)
    )
    for table, column in (("entry", "run"), ("lease", "run"), ("run", "seq")):
        connection.execute(f"DELETE FROM {table} WHERE {column} {among}", runs_gone)
    return len(found)


def _shrink(connection: apsw.Connection) -> bool:
    """Give back some free pages; True while there are more."""
    fetch(connection, f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})")
    return bool(fetch(connection, "PRAGMA freelist_count")[0][0] >= _PAGES_AT_ONCE)
