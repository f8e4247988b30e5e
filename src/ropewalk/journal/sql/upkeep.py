"""Keeps a SQL store small and current: pruning, orphaned runs, turns of regular jobs, and schema migrations.

Pruning works in small transactions with pauses, so that live runs are never held up for long. To change the schema,
add `NNNN_what.sql` with the next number to the database's folder under `migrations/`; never edit a released one.

Refused: a store written by a newer version.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import orjson

from ...errors import StoreError
from ...fast_dataclass import dataclass
from ..protocol import Pruned, RunRow
from . import ledger
from .batches import Batches
from .leases import stored_owner_state
from .rows import AMONG, RUN_LIGHT, Connection, fetch, json_list, runs
from .versions import drop_unused, find_unused
from .writer import Writer

if TYPE_CHECKING:
    from pathlib import Path

_AT_ONCE: Final = 50
ROWS_AT_ONCE: Final = 1000
"""Rows that one transaction of pruning deletes at first, at most. `Batches` adapts the number."""
_HELD_AT_ONCE: Final = 50  # each may delete a value of megabytes
_VERSIONS_AT_ONCE: Final = 10
_ACCOUNTS_AT_ONCE: Final = 50
_PAGES_AT_ONCE: Final = 100  # of free space that is returned to the disk

_IS_PRUNABLE: Final = """
    ended_at IS NOT NULL
    AND (parent IS NULL OR NOT EXISTS (SELECT 1 FROM run AS whole WHERE whole.id = run.parent))
"""
"""Ended, and no part of a run that is still there: parts go with their run."""
_NEWEST: Final = "SELECT seq FROM run WHERE {where} ORDER BY seq DESC LIMIT 1 OFFSET ?"
_LEASES_WITHOUT_RUN: Final = (
    "SELECT run FROM lease WHERE NOT EXISTS (SELECT 1 FROM run WHERE seq = lease.run) ORDER BY run LIMIT ?"
)
"""Runs that are deleted, but for what pruning had no time for."""
_DELETE_SOME_DETAILS: Final = (
    f"DELETE FROM entry WHERE (run, path, kind) IN (SELECT run, path, kind FROM entry WHERE run {AMONG} LIMIT ?)"
    " RETURNING 1",
    f"DELETE FROM signal WHERE seq IN (SELECT seq FROM signal WHERE run {AMONG} LIMIT ?) RETURNING 1",
)
_BLOBS_OF: Final = f"""
    DELETE FROM held WHERE (blob, run) IN (SELECT blob, run FROM held WHERE run {AMONG} LIMIT ?) RETURNING blob
"""
_BLOB: Final = "DELETE FROM blob WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM held WHERE blob = ?1)"
_RUNS_WITH_PARTS: Final = f"""
    WITH RECURSIVE gone (seq, id) AS (
        SELECT seq, id FROM run WHERE seq {AMONG} UNION SELECT run.seq, run.id FROM run JOIN gone ON parent = gone.id
    ) SELECT seq FROM gone
"""
_BYTES_OF_RUNS: Final = f"""
    SELECT coalesce(sum(length(coalesce(input, '')) + length(coalesce(context, '')) + length(coalesce(document, ''))
        + length(coalesce(result, '')) + length(coalesce(error, ''))), 0) FROM run WHERE seq {AMONG}
"""
_BYTES_OF_ENTRIES: Final = (
    f"SELECT coalesce(sum(length(path) + length(coalesce(data, ''))), 0) FROM entry WHERE run {AMONG}"
)
_BYTES_OF_BLOBS: Final = """
    SELECT coalesce(sum(length(data)), 0) FROM blob WHERE hash IN (SELECT blob FROM held WHERE run {0})
        AND NOT EXISTS (SELECT 1 FROM held WHERE blob = hash AND NOT run {0})
""".format(AMONG.replace("?", "?1"))


def find_orphans(
    connection: Connection, lease: float, limit: int, among: Collection[str] | None = None
) -> list[RunRow]:
    """Return orphaned runs, oldest first: running with a dead or silent owner, or waiting with a due time."""

    # `among`: Only runs with these ids.
    condition = "true" if among is None else "run.id IN (SELECT value FROM json_each(?))"
    values = () if among is None else (orjson.dumps(list(among)).decode(),)
    orphans = find_orphaned(connection, lease, condition, values)
    query = f"SELECT seq FROM run WHERE status = 'waiting' AND due <= ? AND {condition}"
    orphans += [seq for (seq,) in fetch(connection, query, (time.time(), *values))]
    return light_rows(connection, sorted(orphans)[:limit])


def find_orphaned(
    connection: Connection, lease: float, condition: str = "true", values: Sequence[str] = ()
) -> list[int]:
    """Return the numbers of the running runs with a dead or silent owner, oldest first."""

    # `condition`: An SQL condition on `run` and `lease`, with these values.
    query = f"SELECT seq, owner, beat FROM run JOIN lease ON run = seq WHERE status = 'running' AND {condition}"
    rows = fetch(connection, f"{query} ORDER BY seq", values)
    verdicts = {text: stored_owner_state(text) for text in {row[1] for row in rows}}
    now = time.time()
    return [
        seq
        for seq, text, beat in rows
        if verdicts[text] == "dead" or (verdicts[text] == "unknown" and not 0 <= now - beat <= lease)
    ]


def light_rows(connection: Connection, seqs: Iterable[int]) -> list[RunRow]:
    """Return the rows of runs by their numbers, oldest first, without large values."""
    rows = fetch(connection, f"{RUN_LIGHT} WHERE seq {AMONG} ORDER BY seq", (json_list(seqs),))
    return [row for _, row in runs(connection, rows)]


def prune(
    writer: Writer, before: float | None, keep: int | None, status: Sequence[str], dry: bool, most: int | None
) -> Pruned:
    """Delete old runs in small transactions with pauses, so that live runs are never held up for long; then give the
    space back to the disk."""

    # The row of a run goes first, and its lease last. The next call deletes the rest of an interrupted one.
    if before is None and keep is None:
        return Pruned(runs=0, bytes=0)
    if not dry:
        writer.run_exclusive(lambda connection: None)  # refuses a read-only store, even if nothing is to be deleted
    old = writer.read(lambda connection: _OldRuns.find(connection, before, keep, status))
    count = size = last = 0
    batches = _BatchSizes()
    while old is not None and (most is None or count < most):
        limit = batches.runs.size(_AT_ONCE)
        limit = limit if most is None else min(limit, most - count)
        some = writer.read(partial(old.after, last=last, limit=limit))
        if not some:
            break
        last = max(some)
        if dry:
            bytes = writer.read(partial(_stored_bytes, runs=some))
        else:
            some, bytes = _delete_runs(writer, some, batches)
        count, size = count + len(some), size + bytes
    if not dry and (most is None or count < most):
        _clean_up(writer, batches)
    return Pruned(runs=count, bytes=size)


class _BatchSizes:
    """How much of each kind of work one transaction does: what is little of one is much of another."""

    def __init__(self) -> None:
        self.runs, self.rows, self.pages = Batches(), Batches(), Batches()


@dataclass(frozen=True, slots=True)
class _OldRuns:
    """Which runs are to be pruned: a condition on `run`, with its values."""

    where: str
    values: tuple[str | float, ...]

    @classmethod
    def find(
        cls, connection: Connection, before: float | None, keep: int | None, status: Sequence[str]
    ) -> _OldRuns | None:
        """Return None when no run is too old or too many."""

        # How many are kept is counted once, not per transaction.
        where, values = _IS_PRUNABLE, list[str | float](status)
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


def _with_parts(connection: Connection, runs: Iterable[int]) -> list[int]:
    """The runs and all their parts, parts first."""
    return sorted((seq for (seq,) in fetch(connection, _RUNS_WITH_PARTS, (json_list(runs),))), reverse=True)


def _stored_bytes(connection: Connection, runs: Iterable[int]) -> int:
    every = (json_list(_with_parts(connection, runs)),)
    return sum(
        int(fetch(connection, query, every)[0][0]) for query in (_BYTES_OF_RUNS, _BYTES_OF_ENTRIES, _BYTES_OF_BLOBS)
    )


def _delete_runs(writer: Writer, runs: list[int], batches: _BatchSizes) -> tuple[list[int], int]:
    """Delete those of the runs that still have ended; returns them, and how many bytes they took."""
    deleted: list[int] = []
    size = 0
    while runs:
        family = writer.read(partial(_with_parts, runs=runs))
        size += writer.read(partial(_stored_bytes, runs=runs))
        at_once, deleted_rows = batches.runs.size(_AT_ONCE), 0
        remaining = retried = set(runs)
        while deleted_rows < len(family):
            rows = family[deleted_rows : deleted_rows + at_once]
            retried = remaining - set(batches.runs.run(writer, partial(_delete_rows, runs=remaining, rows=rows)))
            if retried:
                size -= writer.read(partial(_stored_bytes, runs=remaining))
                break
            deleted_rows += len(rows)
            remaining = remaining.difference(rows)
        for first in range(0, deleted_rows, at_once):
            _delete_details(writer, family[first : min(deleted_rows, first + at_once)], batches)
        deleted += [run for run in runs if run not in remaining]
        runs = sorted(remaining - retried)
    return deleted, size


def _delete_rows(connection: Connection, runs: Collection[int], rows: list[int]) -> list[int]:
    """Delete these rows of runs and parts, provided that all of `runs` have ended; returns which of `runs` have."""
    query = f"SELECT seq FROM run WHERE seq {AMONG} AND ended_at IS NOT NULL ORDER BY seq"
    ended_runs = [seq for (seq,) in fetch(connection, query, (json_list(runs),))]
    if len(ended_runs) == len(runs):
        selection = (json_list(rows),)
        connection.execute(f"DELETE FROM run WHERE seq {AMONG}", selection)
        connection.execute(f"UPDATE lease SET owner = NULL, epoch = epoch + 1 WHERE run {AMONG}", selection)
    return ended_runs


def _delete_details(writer: Writer, deleted: list[int], batches: _BatchSizes) -> None:
    """Delete the entries, signals and leases of runs without a row."""
    more = True
    while more:
        sizes = batches.rows.size(ROWS_AT_ONCE), batches.rows.size(_HELD_AT_ONCE)
        more = batches.rows.run(
            writer, partial(_delete_some_details, deleted=json_list(deleted), rows=sizes[0], values=sizes[1])
        )


def _delete_some_details(connection: Connection, deleted: str, rows: int, values: int) -> bool:
    """Delete at most `rows` rows, with at most `values` large values; return True if more may be left."""
    blobs = fetch(connection, _BLOBS_OF, (deleted, values))
    connection.executemany(_BLOB, set(blobs))
    if len(blobs) == values:
        return True
    budget = rows - len(blobs)
    for query in _DELETE_SOME_DETAILS:
        budget -= len(fetch(connection, query, (deleted, budget)))
        if budget <= 0:
            return True
    for table in ("account_run", "lease"):
        connection.execute(f"DELETE FROM {table} WHERE run {AMONG}", (deleted,))
    return False


def _clean_up(writer: Writer, batches: _BatchSizes) -> None:
    """Delete the rest of an interrupted call, unused versions and accounts; then return free space to the disk."""
    while leftover := writer.read(lambda connection: fetch(connection, _LEASES_WITHOUT_RUN, (_AT_ONCE,))):
        _delete_details(writer, [run for (run,) in leftover], batches)
    unused = writer.read(find_unused)
    for first in range(0, len(unused), _VERSIONS_AT_ONCE):
        batches.runs.run(writer, partial(drop_unused, keys=unused[first : first + _VERSIONS_AT_ONCE]))
    now = time.time()
    accounts = writer.read(partial(ledger.find_unused, now=now))
    for first in range(0, len(accounts), _ACCOUNTS_AT_ONCE):
        some = accounts[first : first + _ACCOUNTS_AT_ONCE]
        batches.runs.run(writer, partial(ledger.drop_unused, accounts=some, now=now))
    more = True
    while more:
        began = time.monotonic()
        more = writer.shrink(batches.pages.size(_PAGES_AT_ONCE))
        batches.pages.observe(time.monotonic() - began)


def delete_with_parts(connection: Connection, runs: Iterable[int]) -> None:
    """Delete runs with any status, and their parts."""
    _delete(connection, (json_list(seq for (seq,) in fetch(connection, _RUNS_WITH_PARTS, (json_list(runs),))),))


def _delete(connection: Connection, selection: tuple[str]) -> None:
    blobs = fetch(connection, f"DELETE FROM held WHERE run {AMONG} RETURNING blob", selection)
    connection.executemany(_BLOB, set(blobs))
    for table in ("entry", "signal", "account_run", "lease"):
        connection.execute(f"DELETE FROM {table} WHERE run {AMONG}", selection)
    connection.execute(f"DELETE FROM run WHERE seq {AMONG}", selection)


def take_turn(connection: Connection, name: str, every: float, now: float) -> bool:
    """Take a turn; return False if a process took it within the last `every` seconds."""

    # A turn in the future, after a clock was set back, counts as old.
    return bool(
        fetch(
            connection,
            "INSERT INTO upkeep (name, at) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET at = excluded.at"
            " WHERE upkeep.at <= excluded.at - ?3 OR upkeep.at > excluded.at RETURNING 1",
            (name, now, every),
        )
    )


class Migrations:
    """The migrations of a store: the SQL files in `folder`, numbered by their first four characters."""

    def __init__(self, folder: Path) -> None:
        self._files = {int(file.name[:4]): file for file in sorted(folder.glob("*.sql"))}
        self.newest = max(self._files)

    def version(self, connection: Connection) -> int:
        """Return the number of the last applied migration; 0 for none."""

        # The table `migration` must exist.
        return int(fetch(connection, "SELECT max(number) FROM migration")[0][0] or 0)

    def check(self, connection: Connection, name: str) -> int:
        """Return the version of the store."""
        version = self.version(connection)
        if version > self.newest:
            raise StoreError(
                f"{name} was written by a newer Ropewalk (store version {version}; this Ropewalk supports "
                f"versions up to {self.newest}); upgrade Ropewalk, or choose another store"
            )
        return version

    def apply(self, connection: Connection, name: str) -> None:
        """Apply the missing migrations, inside the transaction of the caller."""
        version = self.check(connection, name)
        for number in range(version + 1, self.newest + 1):
            file = self._files[number]
            connection.execute(file.read_text())
            connection.execute("INSERT INTO migration VALUES (?, ?, ?)", (number, file.stem, time.time()))
