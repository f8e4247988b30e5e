"""Keeps a store from filling up, and finds the runs that nobody runs any more."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ..frozen import dataclass
from .batches import Batches
from .connection import AMONG, Connection, fetch, numbers
from .journal import Pruned, RunRow
from .lease import judge_text
from .sql_rows import RUN_LIGHT, runs
from .versions import drop_unused, find_unused

if TYPE_CHECKING:
    from .writer import Writer

_AT_ONCE: Final = 50
ROWS_AT_ONCE: Final = 1000
"""Rows that one transaction of pruning deletes at first, at most; see `Batches`."""
_HELD_AT_ONCE: Final = 50  # each may delete a value of megabytes
_VERSIONS_AT_ONCE: Final = 10
_PAGES_AT_ONCE: Final = 100  # of free space that is given back to the disk

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
    batches = _Sizes()
    while old is not None and (most is None or count < most):
        limit = batches.runs.size(_AT_ONCE)
        limit = limit if most is None else min(limit, most - count)
        some = writer.read(partial(old.after, last=last, limit=limit))
        if not some:
            break
        last = max(some)
        if dry:
            bytes = writer.read(partial(_size, some=some))
        else:
            some, bytes = _delete_some(writer, some, batches)
        count, size = count + len(some), size + bytes
    if not dry and (most is None or count < most):
        _tidy(writer, batches)
    return Pruned(runs=count, bytes=size)


class _Sizes:
    """How much of each kind of work one transaction does: what is little of one is much of another."""

    def __init__(self) -> None:
        self.runs, self.rows, self.pages = Batches(), Batches(), Batches()


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


def _delete_some(writer: Writer, some: list[int], batches: _Sizes) -> tuple[list[int], int]:
    """Delete those of the runs that still have ended; returns them, and how many bytes they took."""
    done: list[int] = []
    size = 0
    while some:
        family = writer.read(partial(_family, some=some))
        size += writer.read(partial(_size, some=some))
        at_once, gone = batches.runs.size(_AT_ONCE), 0
        left = retried = set(some)
        while gone < len(family):
            rows = family[gone : gone + at_once]
            retried = left - set(batches.runs.do(writer, partial(_delete_rows, some=left, rows=rows)))
            if retried:
                size -= writer.read(partial(_size, some=left))
                break
            gone += len(rows)
            left = left.difference(rows)
        for first in range(0, gone, at_once):
            _drain(writer, family[first : min(gone, first + at_once)], batches)
        done += [run for run in some if run not in left]
        some = sorted(left - retried)
    return done, size


def _delete_rows(connection: Connection, some: Collection[int], rows: list[int]) -> list[int]:
    """Delete these rows of runs and parts, provided that all of `some` have ended; returns which of `some` have."""
    query = f"SELECT seq FROM run WHERE seq {AMONG} AND ended_at IS NOT NULL ORDER BY seq"
    ended = [seq for (seq,) in fetch(connection, query, (numbers(some),))]
    if len(ended) == len(some):
        gone = (numbers(rows),)
        connection.execute(f"DELETE FROM run WHERE seq {AMONG}", gone)
        connection.execute(f"UPDATE lease SET owner = NULL, epoch = epoch + 1 WHERE run {AMONG}", gone)
    return ended


def _drain(writer: Writer, gone: list[int], batches: _Sizes) -> None:
    """Delete what is left of runs whose rows are gone."""
    more = True
    while more:
        most = batches.rows.size(ROWS_AT_ONCE), batches.rows.size(_HELD_AT_ONCE)
        more = batches.rows.do(writer, partial(_drain_some, gone=numbers(gone), rows=most[0], values=most[1]))


def _drain_some(connection: Connection, gone: str, rows: int, values: int) -> bool:
    """Delete at most this many rows, and large values among them; True while there may be more."""
    held = fetch(connection, _HELD, (gone, values))
    connection.executemany(_BLOB, set(held))
    if len(held) == values:
        return True
    left = rows - len(held)
    for query in _SLICES:
        left -= len(fetch(connection, query, (gone, left)))
        if left <= 0:
            return True
    connection.execute(f"DELETE FROM lease WHERE run {AMONG}", (gone,))
    return False


def _tidy(writer: Writer, batches: _Sizes) -> None:
    """Delete what an interrupted call left, and unused versions; give free space back to the disk."""
    while left := writer.read(lambda connection: fetch(connection, _LEFT, (_AT_ONCE,))):
        _drain(writer, [run for (run,) in left], batches)
    unused = writer.read(find_unused)
    for first in range(0, len(unused), _VERSIONS_AT_ONCE):
        batches.runs.do(writer, partial(drop_unused, keys=unused[first : first + _VERSIONS_AT_ONCE]))
    more = True
    while more:
        began = time.monotonic()
        more = writer.shrink(batches.pages.size(_PAGES_AT_ONCE))
        batches.pages.observe(time.monotonic() - began)


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
