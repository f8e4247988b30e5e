"""Copy one SQL store to another of any kind: definitions with their versions, runs with their facts, signals and
large values.

Each run is copied in one transaction, so copying can be interrupted and repeated; existing rows are kept. Refused: a
run that some process is executing. Copy it after it has ended. A new table has a column `run` or is named here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any, Final

from ...errors import StoreError
from ...fast_dataclass import dataclass
from ..protocol import Store
from .leases import Owner, owner_state
from .rows import Connection, fetch
from .store import SqlStore
from .writer import Writer

_DEFINITIONS: Final = ("definition", "version", "tool_use", "account", "reservation")
_OF_A_RUN: Final = ("signal", "held", "account_run")
_NUMBERED: Final = {"run": {"seq"}, "signal": {"seq", "run"}, "held": {"run"}, "account_run": {"run"}, "lease": {"run"}}
"""Columns that are the target's own."""

_RUNS: Final = """
    SELECT seq, run.id, parent IS NOT NULL, status, owner, beat FROM run JOIN lease ON run = seq WHERE seq > ?
    ORDER BY seq LIMIT 200
"""
_ENTRIES: Final = """
    SELECT path, kind, node, data, digest, started, ended FROM entry WHERE run = ? ORDER BY rowid LIMIT 2000 OFFSET ?
"""


@dataclass(slots=True)
class Copied:
    """The numbers of copied definitions, of copied runs, and of copied runs that are parts of others."""

    # `existing_definitions` and `existing_runs`, not counting parts, were in the target already. `live` has the ids of
    # runs that are in progress, which are not copied.

    definitions: int = 0
    runs: int = 0
    parts: int = 0
    existing_definitions: int = 0
    existing_runs: int = 0
    live: list[str] = field(default_factory=list)


def copy(source: Store, target: Store, on_progress: Callable[[Copied], None] | None = None) -> Copied:
    """Copy the definitions and runs of a store that the target does not have yet."""
    if not isinstance(source, SqlStore) or not isinstance(target, SqlStore):
        raise StoreError("a store in memory cannot be copied; name a file or a database")
    source_db, target_db, counts = source._writer, target._writer, Copied()
    # Definitions first, since runs refer to them.
    for table in _DEFINITIONS:
        rows = source_db.read(lambda c, table=table: _rows(source_db, c, table))  # type: ignore[misc]
        new = target_db.run(lambda c, table=table, rows=rows: _insert_missing(c, table, rows))  # type: ignore[misc]
        if table == "definition":
            counts.definitions, counts.existing_definitions = new, len(rows) - new
    for seq, id, part, live in _runs(source_db, source.patience):
        if live:
            counts.live.append(id)
            continue
        if target_db.read(lambda c, id=id: fetch(c, "SELECT 1 FROM run WHERE id = ?", (id,))):  # type: ignore[misc]
            counts.existing_runs += not part
        elif target_db.run(lambda c, seq=seq: _copy_run(source_db, target_db, c, seq)):  # type: ignore[misc]
            counts.runs += not part
            counts.parts += part
        if on_progress is not None:
            on_progress(counts)
    return counts


def _runs(source_db: Writer, lease: float) -> Iterator[tuple[int, str, bool, bool]]:
    """Yield every run, oldest first, whether it is part of another one, and whether some process executes it."""
    last = 0
    while page := source_db.read(lambda c, last=last: fetch(c, _RUNS, (last,))):  # type: ignore[misc]
        for seq, id, part, status, owner, beat in page:
            verdict = owner_state(Owner.load(owner) if owner else None) if status == "running" else "dead"
            yield seq, id, bool(part), verdict == "live" or (verdict == "unknown" and 0 <= time.time() - beat <= lease)
        last = page[-1][0]


def _copy_run(source_db: Writer, target_db: Writer, connection: Connection, seq: int) -> bool:
    """Copy one run in a transaction of the target; return False if another process has copied or deleted it."""

    def rows(table: str, key: str = "run") -> list[dict[str, Any]]:
        return source_db.read(lambda c: _rows(source_db, c, table, f"WHERE {key} = ?", seq))

    run, lease = rows("run", "seq"), rows("lease")
    if not run or not _insert_missing(connection, "run", run):  # Deleted meanwhile, or copied by another process.
        return False
    [(new,)] = fetch(connection, "SELECT seq FROM run WHERE id = ?", (run[0]["id"],))
    if run[0]["status"] == "running":
        lease[0]["owner"] = None  # its owner is dead, so that anybody may resume the copy
    _insert_missing(connection, "lease", [{"run": new, **row} for row in lease])
    for hash in [row["blob"] for row in rows("held")]:
        if not fetch(connection, "SELECT 1 FROM blob WHERE hash = ?", (hash,)):
            blobs = source_db.read(lambda c, h=hash: _rows(source_db, c, "blob", "WHERE hash = ?", h))  # type: ignore[misc]
            _insert_missing(connection, "blob", blobs)
    for table in _OF_A_RUN:
        _insert_missing(connection, table, [{"run": new, **row} for row in rows(table)])
    epoch, at = lease[0]["epoch"], 0
    while page := source_db.read(lambda c, at=at: fetch(c, _ENTRIES, (seq, at))):  # type: ignore[misc]
        refused = target_db.insert([(new, *row, epoch) for row in page])
        if refused:
            raise StoreError(f"{target_db.name}: run {run[0]['id']} was not copied") from next(filter(None, refused))
        at += len(page)
    return True


def _rows(source_db: Writer, connection: Connection, table: str, where: str = "", *values: Any) -> list[dict[str, Any]]:
    """Return rows of the source by column, without the columns that the target numbers itself."""
    columns = [name for name in source_db.columns(connection, table) if name not in _NUMBERED.get(table, ())]
    order = " ORDER BY seq" if table == "signal" else ""
    rows = fetch(connection, f"SELECT {', '.join(columns)} FROM {table} {where}{order}", values)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _insert_missing(connection: Connection, table: str, rows: list[dict[str, Any]]) -> int:
    """Insert the rows that do not exist yet; return how many."""
    count = 0
    for row in rows:
        marks = ", ".join("?" * len(row))
        count += len(
            fetch(
                connection,
                f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks}) ON CONFLICT DO NOTHING RETURNING 1",
                tuple(row.values()),
            )
        )
    return count
