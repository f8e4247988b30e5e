"""Keeps a store from filling up, and finds the runs that nobody runs any more."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from .connection import AMONG, Connection, fetch, numbers
from .journal import RunRow
from .lease import Owner, judge
from .sql_rows import RUN_LIGHT, runs

if TYPE_CHECKING:
    from .writer import Writer

_AT_ONCE: Final = 100

_NEWEST: Final = "SELECT seq FROM run WHERE status NOT IN ('running', 'waiting') ORDER BY seq DESC LIMIT 1 OFFSET ?"


def find_orphans(connection: Connection, lease: float, limit: int) -> list[RunRow]:
    """Running rows whose owner is dead, or elsewhere and silent for a lease, and waiting ones whose time is
    due, oldest first."""
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
    gone += [seq for (seq,) in fetch(connection, "SELECT seq FROM run WHERE status = 'waiting' AND due <= ?", (now,))]
    gone.sort()
    found = fetch(
        connection,
        f"{RUN_LIGHT} WHERE seq {AMONG} ORDER BY seq",
        (numbers(gone[:limit]),),
    )
    return [row for _, row in runs(connection, found)]


def prune(writer: Writer, before: float | None, keep: int | None) -> int:
    """Delete old runs a few at a time, so that live ones are never held up for long; then give
    the space back to the disk."""
    gone = 0
    while True:
        some = writer.run_alone(lambda connection: _prune_some(connection, before, keep))
        gone += some
        if some < _AT_ONCE:
            break
    while gone and writer.shrink():
        pass
    return gone


def _prune_some(connection: Connection, before: float | None, keep: int | None) -> int:
    old: list[tuple[str, float]] = []
    if before is not None:
        old.append(("ended_at < ?", before))
    if keep is not None:
        old.append((f"seq <= ({_NEWEST})", keep))
    if not old:
        return 0
    where = " OR ".join(clause for clause, _ in old)
    found = fetch(
        connection,
        f"SELECT seq FROM run WHERE status NOT IN ('running', 'waiting') AND ({where}) ORDER BY seq LIMIT ?",
        [*(value for _, value in old), _AT_ONCE],
    )
    gone = (numbers(seq for (seq,) in found),)
    held = fetch(connection, f"DELETE FROM held WHERE run {AMONG} RETURNING blob", gone)
    connection.executemany(
        "DELETE FROM blob WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM held WHERE blob = ?1)", set(held)
    )
    for table, column in (("entry", "run"), ("signal", "run"), ("lease", "run"), ("run", "seq")):
        connection.execute(f"DELETE FROM {table} WHERE {column} {AMONG}", gone)
    return len(found)
