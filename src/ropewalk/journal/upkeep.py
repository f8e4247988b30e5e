"""Keeps a store from filling up, and finds the runs that nobody runs any more."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from .connection import AMONG, Connection, fetch, numbers
from .journal import Pruned, RunRow
from .lease import judge_text
from .sql_rows import RUN_LIGHT, runs
from .versions import drop_unused

if TYPE_CHECKING:
    from .writer import Writer

_AT_ONCE: Final = 100

_OLD: Final = """
    ended_at IS NOT NULL
    AND (parent IS NULL OR NOT EXISTS (SELECT 1 FROM run AS whole WHERE whole.id = run.parent))
"""
"""Ended, and no part of a run that is still there: parts go with their run."""
_NEWEST: Final = "SELECT seq FROM run WHERE {where} ORDER BY seq DESC LIMIT 1 OFFSET ?"
_PARTS: Final = f"""
    WITH RECURSIVE gone (seq, id) AS (
        SELECT seq, id FROM run WHERE seq {AMONG} UNION SELECT run.seq, run.id FROM run JOIN gone ON parent = gone.id
    ) SELECT seq FROM gone
"""
_ROWS: Final = f"""
    SELECT coalesce(sum(length(coalesce(input, '')) + length(coalesce(context, '')) + length(coalesce(document, ''))
        + length(coalesce(result, '')) + length(coalesce(error, ''))), 0) FROM run WHERE seq {AMONG}
"""
_FACTS: Final = f"SELECT coalesce(sum(length(path) + length(coalesce(data, ''))), 0) FROM entry WHERE run {AMONG}"
_BLOBS: Final = """
    SELECT coalesce(sum(length(data)), 0) FROM blob WHERE hash IN (SELECT blob FROM held WHERE run {0})
        AND NOT EXISTS (SELECT 1 FROM held WHERE blob = hash AND NOT run {0})
""".format(AMONG.replace("?", "?1"))


def find_orphans(connection: Connection, lease: float, limit: int) -> list[RunRow]:
    """Running rows whose owner is dead, or elsewhere and silent for a lease, and waiting ones whose time is
    due, oldest first."""
    rows = fetch(
        connection, "SELECT seq, owner, beat FROM run JOIN lease ON run = seq WHERE status = 'running' ORDER BY seq"
    )
    verdicts = {text: judge_text(text) for text in {row[1] for row in rows}}
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


def prune(
    writer: Writer, before: float | None, keep: int | None, status: Sequence[str], dry: bool, most: int | None
) -> Pruned:
    """Delete old runs a few at a time, so that live ones are never held up for long; then give
    the space back to the disk."""
    count = size = last = 0
    while most is None or count < most:
        limit = _AT_ONCE if most is None else min(_AT_ONCE, most - count)

        def work(connection: Connection, last: int = last, limit: int = limit) -> tuple[list[int], int]:
            return _prune_some(connection, before, keep, status, dry, last, limit)

        some, bytes = writer.read(work) if dry else writer.run_alone(work)
        count, size = count + len(some), size + bytes
        if len(some) < limit:
            break
        last = max(some)
    if not dry and (before is not None or keep is not None):
        writer.run(drop_unused)
        while count and writer.shrink():
            pass
    return Pruned(runs=count, bytes=size)


def _prune_some(
    connection: Connection,
    before: float | None,
    keep: int | None,
    status: Sequence[str],
    dry: bool,
    last: int,
    limit: int,
) -> tuple[list[int], int]:
    where, values = _OLD, list[str | float]()
    if status:
        where += f" AND status IN ({', '.join('?' * len(status))})"
        values += status
    old: list[str] = []
    more: list[str | float] = []
    if before is not None:
        old.append("ended_at < ?")
        more.append(before)
    if keep is not None:
        old.append(f"seq <= ({_NEWEST.format(where=where)})")
        more += [*values, keep]
    if not old:
        return [], 0
    found = fetch(
        connection,
        f"SELECT seq FROM run WHERE {where} AND ({' OR '.join(old)}) AND seq > ? ORDER BY seq LIMIT ?",
        [*values, *more, last, limit],
    )
    some = [seq for (seq,) in found]
    every = (numbers(seq for (seq,) in fetch(connection, _PARTS, (numbers(some),))),)
    size = sum(int(fetch(connection, query, every)[0][0]) for query in (_ROWS, _FACTS, _BLOBS))
    if not dry:
        _delete(connection, every)
    return some, size


def forget(connection: Connection, some: Iterable[int]) -> None:
    """Delete these runs, whatever their status, with their parts."""
    _delete(connection, (numbers(seq for (seq,) in fetch(connection, _PARTS, (numbers(some),))),))


def _delete(connection: Connection, gone: tuple[str]) -> None:
    held = fetch(connection, f"DELETE FROM held WHERE run {AMONG} RETURNING blob", gone)
    connection.executemany(
        "DELETE FROM blob WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM held WHERE blob = ?1)", set(held)
    )
    for table, column in (("entry", "run"), ("signal", "run"), ("lease", "run"), ("run", "seq")):
        connection.execute(f"DELETE FROM {table} WHERE {column} {AMONG}", gone)


def take_turn(connection: Connection, name: str, every: float, now: float) -> bool:
    """Whether nobody has taken this turn within `every` seconds; then it is taken. A clock that was set back
    does not put it off for ever."""
    return bool(
        fetch(
            connection,
            "INSERT INTO upkeep (name, at) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET at = excluded.at"
            " WHERE upkeep.at <= excluded.at - ?3 OR upkeep.at > excluded.at RETURNING 1",
            (name, now, every),
        )
    )
