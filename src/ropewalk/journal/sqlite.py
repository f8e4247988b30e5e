"""The store in one SQLite file: survives kill -9 (and, with sync="full", a power cut).

Several processes may use one file; each run has one owner at a time. Refused: use after
os.fork, a damaged file, a file of another program or of a newer version.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

import apsw

from ..errors import RunBusy, StoreError
from ..values import Json
from .blobs import Packed, dump
from .claim import Claim, Doubt, Large, create, take
from .database import fetch
from .journal import Definition, Entry, NewRun, RunRow
from .lease import me
from .sqlite_log import SqliteLog, packed_value
from .sqlite_rows import RUN, RUN_LIGHT, definitions, entries, keyed, runs
from .upkeep import find_orphans, prune
from .writer import Writer

_SHARED: Final = 512
"""Documents with more bytes than this are kept once for all runs that start with them."""


class SqliteStore:
    """Definitions and runs in the file at `path`, made on demand in an existing directory.

    `sync`: "normal" survives the death of the process, "full" that of the machine. `lease` is
    how long, in seconds, an owner on another host may be silent; `poll` how often stop requests
    of other processes are looked for.
    """

    durable = True

    def __init__(
        self, path: str | Path, sync: Literal["normal", "full"] = "normal", *, lease: float = 10.0, poll: float = 0.2
    ) -> None:
        if sync not in ("normal", "full"):
            raise StoreError(f"sync={sync!r} is unknown; right are 'normal' and 'full'")
        self.path = Path(path).absolute()
        self._lease, self._poll = lease, poll
        self._writer = Writer(self.path, sync, lease, poll)
        # Also at exit, and when the store is dropped without being closed.
        self._close = weakref.finalize(self, self._writer.close)
        self._document: tuple[Json, str, Packed] = (None, "", None)

    # --- definitions ----------------------------------------------------------------------

    def put_definition(self, definition: Definition) -> None:
        document = dump(definition.document, f"definition {definition.id}")
        values = (definition.kind, definition.id, definition.name, document, definition.fingerprint)
        self._writer.run(
            lambda connection: connection.execute(
                "INSERT INTO definition (kind, id, name, document, fingerprint, created) VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET name = excluded.name, document = excluded.document,"
                " fingerprint = excluded.fingerprint",
                (*values, definition.created or time.time()),
            )
        )

    def get_definition(self, kind: str, id: str) -> Definition | None:
        found = self._writer.read(lambda c: definitions(c, "WHERE kind = ? AND id = ?", (kind, id)))
        return found[0] if found else None

    def list_definitions(self, kind: str | None = None) -> list[Definition]:
        if kind is None:
            return self._writer.read(lambda c: definitions(c, "", ()))
        return self._writer.read(lambda c: definitions(c, "WHERE kind = ?", (kind,)))

    def delete_definition(self, kind: str, id: str) -> bool:
        return bool(
            self._writer.run(
                lambda c: fetch(c, "DELETE FROM definition WHERE kind = ? AND id = ? RETURNING 1", (kind, id))
            )
        )

    # --- runs -----------------------------------------------------------------------------

    def get_run(self, id: str) -> RunRow | None:
        found = self._runs(f"{RUN} WHERE run.id = ?", [id])
        return found[0] if found else None

    def list_runs(
        self,
        *,
        kind: str | None = None,
        definition_id: str | None = None,
        status: str | None = None,
        text: str | None = None,
        since: float | None = None,
        parent: str | None = None,
        top: bool = False,
        limit: int = 100,
    ) -> list[RunRow]:
        wanted: list[tuple[str, str | float | None]] = [
            ("kind = ?", kind),
            ("definition_id = ?", definition_id),
            ("status = ?", status),
            ("started_at >= ?", since),
            ("has_text(?, run.id, name, definition_id, error)", text or None),
            ("parent = ?", parent),
            ("parent IS NULL AND ?", top or None),
        ]
        where = " AND ".join(clause for clause, value in wanted if value is not None) or "true"
        values = [value for _, value in wanted if value is not None]
        return self._runs(f"{RUN_LIGHT} WHERE {where} ORDER BY seq DESC LIMIT ?", [*values, limit])

    def history(self, run_id: str) -> list[Entry]:
        def look(connection: apsw.Connection) -> list[Entry]:
            found = fetch(connection, "SELECT seq FROM run WHERE id = ?", (run_id,))
            return entries(connection, found[0][0]) if found else []

        return self._writer.read(look)

    def orphans(self, limit: int = 100) -> list[RunRow]:
        return self._writer.read(lambda c: find_orphans(c, self._lease, limit))

    def request_stop(self, run_id: str) -> bool:
        stopped = self._writer.run(
            lambda c: fetch(
                c,
                "UPDATE run SET status = 'stopped', ended_at = ?, stop_requested = 1"
                " WHERE id = ? AND status = 'running' RETURNING seq",
                (time.time(), run_id),
            )
        )
        if stopped and (log := self._writer.watch.find(stopped[0][0])):
            log.stop_soon()
        return bool(stopped)

    def prune(self, *, before: float | None = None, keep: int | None = None) -> int:
        return prune(self._writer, before, keep)

    # --- owning a run ---------------------------------------------------------------------

    async def open(self, run: NewRun) -> SqliteLog:
        if not run.started_at:
            run = dataclasses.replace(run, started_at=time.time())
        large = Large(
            input=await packed_value(run.input, "input"),
            context=await packed_value(run.context, "context"),
            document=await self._packed_document(run),
        )
        return await self._own(
            run.id, lambda c, doubt: create(c, run, large) or take(c, run.id, self._lease, False, doubt), run
        )

    async def reopen(self, run_id: str, *, again: bool = False) -> SqliteLog:
        return await self._own(run_id, lambda c, doubt: take(c, run_id, self._lease, again, doubt))

    def close(self) -> None:
        self._close()

    # --- inside ---------------------------------------------------------------------------

    async def _own(
        self, id: str, claim: Callable[[apsw.Connection, Doubt | None], Claim | Doubt], new: NewRun | None = None
    ) -> SqliteLog:
        writer = self._writer
        writer.check()
        settled: Doubt | None = None
        while True:
            got = await writer.inbox().do(functools.partial(_swap, claim, settled))
            if isinstance(got, Claim):
                break
            settled = await self._settle(id, got)
        if got.fresh and new is not None:
            log = SqliteLog(self, writer, got.seq, _fresh_row(new), {})
        else:
            row, past = await asyncio.to_thread(self._load, got.seq)
            log = SqliteLog(self, writer, got.seq, row, keyed(past), finished=row if got.ended else None)
        if not got.ended:
            writer.watch.add(log)
        return log

    async def _settle(self, id: str, doubt: Doubt) -> Doubt:
        """Find out whether an owner elsewhere lives. Clocks of two hosts may differ, and jump:
        a recent beat is believed, but an old one only when no other comes for a whole lease."""
        if doubt.recent:
            raise RunBusy(id, doubt.owner)
        end = time.monotonic() + self._lease
        while time.monotonic() < end:
            await asyncio.sleep(min(self._poll, self._lease))
            now = self._writer.read(
                lambda c: fetch(c, "SELECT epoch, beat FROM lease JOIN run ON run = seq WHERE id = ?", (id,))
            )
            if now and now[0] != (doubt.epoch, doubt.beat):
                raise RunBusy(id, doubt.owner)
        return doubt

    def _load(self, seq: int) -> tuple[RunRow, list[Entry]]:
        def look(connection: apsw.Connection) -> tuple[RunRow, list[Entry]]:
            [(_, row)] = runs(connection, fetch(connection, f"{RUN} WHERE seq = ?", (seq,)))
            return row, entries(connection, seq)

        return self._writer.read(look)

    def _runs(self, query: str, values: list[str | float | None]) -> list[RunRow]:
        found = self._writer.read(lambda c: runs(c, fetch(c, query, values)))
        return [self._up_to_date(seq, row) for seq, row in found]

    def _up_to_date(self, seq: int, row: RunRow) -> RunRow:
        """What this process knows of its own runs is newer than what it last wrote."""
        log = self._writer.watch.find(seq)
        return dataclasses.replace(row, current_node=log.node, spent=log.spent) if log else row

    async def _packed_document(self, run: NewRun) -> Packed:
        """Many runs in a row start with one document: it is not written down anew for each."""
        document, fingerprint, packed = self._document
        if run.document is None:
            return None
        if document is not run.document or fingerprint != run.fingerprint or not fingerprint:
            packed = await packed_value(run.document, "document", _SHARED)
            self._document = (run.document, run.fingerprint, packed)
        return packed


def _swap(
    claim: Callable[[apsw.Connection, Doubt | None], Claim | Doubt], doubt: Doubt | None, connection: apsw.Connection
) -> Claim | Doubt:
    return claim(connection, doubt)


def _fresh_row(run: NewRun) -> RunRow:
    return RunRow(
        id=run.id,
        kind=run.kind,
        definition_id=run.definition_id,
        name=run.name,
        input=run.input,
        context=run.context,
        document=run.document,
        fingerprint=run.fingerprint,
        started_at=run.started_at,
        owner=str(me()),
        parent=run.parent,
    )
