"""Keeps a store from filling up, and finds the runs that nobody runs any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from ..frozen import dataclass
from .connection import AMONG, Connection, fetch, numbers
from .journal import Pruned, RunRow
from .lease import judge_text
from .sql_rows import RUN_LIGHT, runs
from .versions import drop_unused, find_unused

if TYPE_CHECKING:
    from .writer import Writer

T = TypeVar("T")

_AT_ONCE: Final = 50
ROWS_AT_ONCE: Final = 1000
"""Rows that one transaction of pruning deletes, at most."""
_HELD_AT_ONCE: Final = 50  # each may delete a value of megabytes
_VERSIONS_AT_ONCE: Final = 10
_PAUSE: Final = 0.005
"""Seconds between two transactions, in which writers that wait get their turn. Those of another process ask every 4 ms.
"""

_OLD: Final = """
    ended_at IS NOT NULL
    AND (parent IS NULL OR NOT EXISTS (SELECT 1 FROM run AS whole WHERE whole.id = run.parent))
"""
"""Ended, and no part of a run that is still there: parts go with their run."""
_NEWEST: Final = "SELECT seq FROM run WHERE {where} ORDER BY seq DESC LIMIT 1 OFFSET ?"
_LEFT: Final = "SELECT run FROM lease WHERE NOT EXISTS (SELECT 1 FROM run WHERE seq = lease.run) ORDER BY run LIMIT ?"
"""Runs that are deleted, but for what pruning had no time for."""
_SLICES: Final = (
    f"DELETE FROM entry WHERE (run, path, kind) IN (SELECT run, path, kind FROM entry WHERE run {AMONG} LIMIT ?)"
    " RETURNING 1",
    f"DELETE FROM signal WHERE seq IN (SELECT seq FROM signal WHERE run {AMONG} LIMIT ?) RETURNING 1",
)
_HELD: Final = f"""
    DELETE FROM held WHERE (blob, run) IN (SELECT blob, run FROM held WHERE run {AMONG} LIMIT ?) RETURNING blob
"""
_BLOB: Final = "DELETE FROM blob WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM held WHERE blob = ?1)"
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
    """Delete old runs in small transactions with pauses, so that live runs are never held up for long; then give
    the space back to the disk.

    The row of a run goes first, and its lease last. What an interrupted call leaves is deleted by the next one.
    """
    if before is None and keep is None:
        return Pruned(runs=0, bytes=0)
    if not dry:
        writer.run_alone(lambda connection: None)  # refuses a store that may only be read, also with nothing to delete
    old = writer.read(lambda connection: _Old.find(connection, before, keep, status))
    count = size = last = 0
    while old is not None and (most is None or count < most):
        limit = _AT_ONCE if most is None else min(_AT_ONCE, most - count)
        some = writer.read(partial(old.after, last=last, limit=limit))
        if not some:
            break
        last = max(some)
        if dry:
            bytes = writer.read(partial(_size, some=some))
        else:
            some, bytes = _delete_some(writer, some)
        count, size = count + len(some), size + bytes
    if not dry and (most is None or count < most):
        _tidy(writer)
    return Pruned(runs=count, bytes=size)


@dataclass(frozen=True, slots=True)
class _Old:
    """Which runs are to be pruned: a condition on `run`, with its values."""

    where: str
    values: tuple[str | float, ...]

    @classmethod
    def find(cls, connection: Connection, before: float | None, keep: int | None, status: Sequence[str]) -> _Old | None:
        """Return None when no run is too old or too many. How many are kept is counted once, not per transaction."""
        where, values = _OLD, list[str | float](status)
        if status:
            where += f" AND status IN ({', '.join('?' * len(status))})"
        old: list[str] = []
        more: list[str | float] = []
        if before is not None:
            old.append("ended_at < ?")
            more.append(before)
        if keep is not None and (newest := fetch(connection, _NEWEST.format(where=where), [*values, keep])):
            old.append("seq <= ?")
            more.append(newest[0][0])
        return cls(f"{where} AND ({' OR '.join(old)})", (*values, *more)) if old else None

    def after(self, connection: Connection, last: int, limit: int) -> list[int]:
        """The row numbers of the next ones."""
        query = f"SELECT seq FROM run WHERE {self.where} AND seq > ? ORDER BY seq LIMIT ?"
        return [seq for (seq,) in fetch(connection, query, [*self.values, last, limit])]


def _family(connection: Connection, some: Iterable[int]) -> list[int]:
    """The runs and all their parts, parts first."""
    return sorted((seq for (seq,) in fetch(connection, _PARTS, (numbers(some),))), reverse=True)


def _size(connection: Connection, some: Iterable[int]) -> int:
    every = (numbers(_family(connection, some)),)
    return sum(int(fetch(connection, query, every)[0][0]) for query in (_ROWS, _FACTS, _BLOBS))


def _delete_some(writer: Writer, some: list[int]) -> tuple[list[int], int]:
    """Delete those of the runs that still have ended; returns them, and how many bytes they took."""
    while some:
        family = writer.read(partial(_family, some=some))
        size = writer.read(partial(_size, some=some))
        for first in range(0, len(family), _AT_ONCE):
            rows = family[first : first + _AT_ONCE]
            ended = _shortly(writer, partial(_delete_rows, some=some, rows=rows))
            if len(ended) < len(some):  # somebody retries one of them
                some = ended
                break
        else:
            for first in range(0, len(family), _AT_ONCE):
                _drain(writer, family[first : first + _AT_ONCE])
            return some, size
    return [], 0


def _delete_rows(connection: Connection, some: list[int], rows: list[int]) -> list[int]:
    """Delete these rows of runs and parts, provided that all of `some` have ended; returns which of `some` have."""
    query = f"SELECT seq FROM run WHERE seq {AMONG} AND ended_at IS NOT NULL ORDER BY seq"
    ended = [seq for (seq,) in fetch(connection, query, (numbers(some),))]
    if len(ended) == len(some):
        gone = (numbers(rows),)
        connection.execute(f"DELETE FROM run WHERE seq {AMONG}", gone)
        connection.execute(f"UPDATE lease SET owner = NULL, epoch = epoch + 1 WHERE run {AMONG}", gone)
    return ended


def _drain(writer: Writer, gone: list[int]) -> None:
    """Delete what is left of runs whose rows are gone."""
    while _shortly(writer, partial(_drain_some, gone=numbers(gone))):
        pass


def _drain_some(connection: Connection, gone: str) -> bool:
    """Delete at most ROWS_AT_ONCE rows; True while there may be more."""
    held = fetch(connection, _HELD, (gone, _HELD_AT_ONCE))
    connection.executemany(_BLOB, set(held))
    if len(held) == _HELD_AT_ONCE:
        return True
    left = ROWS_AT_ONCE - len(held)
    for query in _SLICES:
        left -= len(fetch(connection, query, (gone, left)))
        if left <= 0:
            return True
    connection.execute(f"DELETE FROM lease WHERE run {AMONG}", (gone,))
    return False


def _tidy(writer: Writer) -> None:
    """Delete what an interrupted call left, and unused versions; give free space back to the disk."""
    while left := writer.read(lambda connection: fetch(connection, _LEFT, (_AT_ONCE,))):
        _drain(writer, [run for (run,) in left])
    unused = writer.read(find_unused)
    for first in range(0, len(unused), _VERSIONS_AT_ONCE):
        _shortly(writer, partial(drop_unused, keys=unused[first : first + _VERSIONS_AT_ONCE]))
    while writer.shrink():
        time.sleep(_PAUSE)


def _shortly(writer: Writer, work: Callable[[Connection], T]) -> T:
    """Do `work` in a transaction of its own, then leave the store to others for at least as long."""
    start = time.monotonic()
    result = writer.run_alone(work)
    time.sleep(max(_PAUSE, time.monotonic() - start))
    return result


def forget(connection: Connection, some: Iterable[int]) -> None:
    """Delete these runs, whatever their status, with their parts."""
    _delete(connection, (numbers(seq for (seq,) in fetch(connection, _PARTS, (numbers(some),))),))


def _delete(connection: Connection, gone: tuple[str]) -> None:
    held = fetch(connection, f"DELETE FROM held WHERE run {AMONG} RETURNING blob", gone)
    connection.executemany(_BLOB, set(held))
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
