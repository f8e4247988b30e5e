"""Everything of one store into another one, of either kind: definitions with their versions, runs with
their facts, signals and big values.

A run goes in one transaction, so that copying can be broken off anywhere and done again: what is there
already stays as it is. Refused: a run that some process is executing; copy again when it has ended.
A table that is new belongs to a run (a column `run`) or is named here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any, Final

from ..errors import StoreError
from ..frozen import dataclass
from .connection import Connection, fetch
from .journal import Store
from .lease import Owner, judge
from .sql_store import SqlStore
from .writer import Writer

_DEFINITIONS: Final = ("definition", "version", "tool_use")
_OF_A_RUN: Final = ("signal", "held")
_NUMBERED: Final = {"run": {"seq"}, "signal": {"seq", "run"}, "held": {"run"}, "lease": {"run"}}
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
    """How many were copied: definitions, runs, and runs that are parts of those; how many of the definitions and of
    the runs, without parts, were there already; and the ids of runs that are live."""

    definitions: int = 0
    runs: int = 0
    parts: int = 0
    known: int = 0
    there: int = 0
    live: list[str] = field(default_factory=list)


def copy(source: Store, target: Store, told: Callable[[Copied], None] | None = None) -> Copied:
    """Copy what is not there yet; `told` is called after each run. Raises StoreError for a store in memory."""
    if not isinstance(source, SqlStore) or not isinstance(target, SqlStore):
        raise StoreError("a store in memory holds nothing that could be copied, or kept; name a file or a database")
    here, there, done = source._writer, target._writer, Copied()
    for table in _DEFINITIONS:
        rows = here.read(lambda c, table=table: _rows(here, c, table))  # type: ignore[misc]
        new = there.run(lambda c, table=table, rows=rows: _put(c, table, rows))  # type: ignore[misc]
        if table == "definition":
            done.definitions, done.known = new, len(rows) - new
    for seq, id, part, live in _runs(here, source.patience):
        if live:
            done.live.append(id)
            continue
        if there.read(lambda c, id=id: fetch(c, "SELECT 1 FROM run WHERE id = ?", (id,))):  # type: ignore[misc]
            done.there += not part
        elif there.run(lambda c, seq=seq: _copy_run(here, there, c, seq)):  # type: ignore[misc]
            done.runs += not part
            done.parts += part
        if told is not None:
            told(done)
    return done


def _runs(here: Writer, lease: float) -> Iterator[tuple[int, str, bool, bool]]:
    """Every run, oldest first, whether it is part of another one, and whether some process executes it."""
    last = 0
    while page := here.read(lambda c, last=last: fetch(c, _RUNS, (last,))):  # type: ignore[misc]
        for seq, id, part, status, owner, beat in page:
            verdict = judge(Owner.load(owner) if owner else None) if status == "running" else "dead"
            yield seq, id, bool(part), verdict == "live" or (verdict == "unknown" and 0 <= time.time() - beat <= lease)
        last = page[-1][0]


def _copy_run(here: Writer, there: Writer, connection: Connection, seq: int) -> bool:
    """In a transaction of the target's."""

    def rows(table: str, key: str = "run") -> list[dict[str, Any]]:
        return here.read(lambda c: _rows(here, c, table, f"WHERE {key} = ?", seq))

    run, lease = rows("run", "seq"), rows("lease")
    if not run or not _put(connection, "run", run):  # Deleted meanwhile, or copied by another process.
        return False
    [(new,)] = fetch(connection, "SELECT seq FROM run WHERE id = ?", (run[0]["id"],))
    if run[0]["status"] == "running":
        lease[0]["owner"] = None  # It is dead: whoever comes first goes on.
    _put(connection, "lease", [{"run": new, **one} for one in lease])
    for hash in [one["blob"] for one in rows("held")]:
        if not fetch(connection, "SELECT 1 FROM blob WHERE hash = ?", (hash,)):
            _put(connection, "blob", here.read(lambda c, h=hash: _rows(here, c, "blob", "WHERE hash = ?", h)))  # type: ignore[misc]
    for table in _OF_A_RUN:
        _put(connection, table, [{"run": new, **one} for one in rows(table)])
    epoch, at = lease[0]["epoch"], 0
    while page := here.read(lambda c, at=at: fetch(c, _ENTRIES, (seq, at))):  # type: ignore[misc]
        refused = there.insert([(new, *row, epoch) for row in page])
        if refused:
            raise StoreError(f"{there.name}: run {run[0]['id']} was not copied") from next(filter(None, refused))
        at += len(page)
    return True


def _rows(here: Writer, connection: Connection, table: str, where: str = "", *values: Any) -> list[dict[str, Any]]:
    """Rows of the source, by column, but for those that are the target's own."""
    known = [name for name in here.columns(connection, table) if name not in _NUMBERED.get(table, ())]
    order = " ORDER BY seq" if table == "signal" else ""
    found = fetch(connection, f"SELECT {', '.join(known)} FROM {table} {where}{order}", values)
    return [dict(zip(known, row, strict=True)) for row in found]


def _put(connection: Connection, table: str, rows: list[dict[str, Any]]) -> int:
    """Insert what is not there; gives how many were."""
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
