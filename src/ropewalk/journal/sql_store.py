"""Definitions and runs in a database that speaks SQL: what the stores in SQLite and in Postgres share.

Each run has one owner at a time, whatever number of processes use the store. Refused: use after
os.fork.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from ..content import contents
from ..errors import NotFound, RunBusy
from ..values import Json, check_json, is_json
from . import sql_recovery as recovery
from . import versions
from .blobs import Packed, dump, pack
from .boottime import boottime
from .claim import Claim, Doubt, Large, create, moments, take
from .connection import AMONG, Connection, fetch, numbers
from .filters import contains, statuses
from .journal import Definition, Entry, Key, NewRun, Pruned, RunRow, Signal
from .lease import me
from .news import Hear, News
from .past import PagedPast
from .signal import outgoing
from .silence import Silence
from .sql_log import SqlLog, packed_value
from .sql_past import each_entry, entries_at, entry_page, read_past
from .sql_rows import RUN, RUN_LIGHT, RUN_SO_FAR, entries, load_content, runs, waits
from .sql_signals import kept, send, signals
from .sql_uses import SqlUses
from .upkeep import find_orphans, prune, take_turn
from .watch import OWNED_BY, Watch
from .writer import Writer, is_held

Claiming: TypeAlias = Callable[[Connection, Doubt | None, float], Claim | Doubt]

_SHARED: Final = 512
"""Documents with more bytes than this are kept once for all runs that start with them."""

_PAGE: Final = 500
"""Runs looked through at once for a text."""


class SqlStore(SqlUses):
    """See `Store`. `patience` is how long, in seconds, an owner on another host may be silent."""

    durable = True
    remote = False

    def __init__(self, writer: Writer, lease: float, poll: float) -> None:
        self.patience, self._poll = lease, poll
        self._writer = writer
        # Also at exit, and when the store is dropped without being closed.
        self._close = weakref.finalize(self, self._writer.close)
        self._document: tuple[Json, str, Packed] = (None, "", None)
        contents.add_source(self)

    @property
    def schema(self) -> int:
        return int(self._writer.read(lambda c: fetch(c, "SELECT max(number) FROM migration"))[0][0])

    def content(self, hash: str) -> bytes | None:
        return self._writer.read(lambda c: load_content(c, hash))

    # --- definitions ----------------------------------------------------------------------

    def put_definition(self, definition: Definition) -> None:
        self._writer.run(lambda c: versions.put(c, definition))

    def get_definition(self, kind: str, id: str) -> Definition | None:
        found = self._writer.read(
            lambda c: versions.definitions(c, "WHERE definition.kind = ? AND definition.id = ?", (kind, id))
        )
        return found[0] if found else None

    def list_definitions(self, kind: str | None = None) -> list[Definition]:
        if kind is None:
            return self._writer.read(lambda c: versions.definitions(c, "", ()))
        return self._writer.read(lambda c: versions.definitions(c, "WHERE definition.kind = ?", (kind,)))

    def delete_definition(self, kind: str, id: str) -> bool:
        return self._writer.run(lambda c: versions.delete(c, kind, id))

    def list_versions(self, kind: str, id: str) -> list[Definition]:
        return self._writer.read(lambda c: versions.versions(c, kind, id)) if is_json(id) else []

    # --- runs -----------------------------------------------------------------------------

    def get_run(self, id: str, *, so_far: bool = False) -> RunRow | None:
        found = self._runs(f"{RUN_SO_FAR if so_far else RUN} WHERE run.id = ?", [id]) if is_json(id) else []
        return found[0] if found else None

    def list_runs(
        self,
        *,
        kind: str | None = None,
        definition_id: str | None = None,
        status: str | Sequence[str] | None = None,
        flow: str | None = None,
        text: str | None = None,
        since: float | None = None,
        until: float | None = None,
        after: str | None = None,
        parent: str | None = None,
        top: bool = False,
        limit: int = 100,
    ) -> list[RunRow]:
        any_of = statuses(status or ())
        wanted: list[tuple[str, list[Any]]] = [
            ("kind = ?", [kind]),
            ("definition_id = ?", [definition_id]),
            (f"status IN ({', '.join('?' * len(any_of))})", any_of or [None]),
            ("(name = ? OR definition_id = ?)", [flow, flow]),
            ("started_at >= ?", [since]),
            ("started_at < ?", [until]),
            ("seq < (SELECT before.seq FROM run AS before WHERE before.id = ?)", [after]),
            ("parent = ?", [parent]),
            ("parent IS NULL AND ?", [top or None]),
        ]
        where = " AND ".join(clause for clause, given in wanted if given[0] is not None) or "true"
        values = [value for _, given in wanted for value in given if value is not None]
        if text:
            found = self._writer.read(lambda c: _with_text(c, text, where, values, limit))
            return self._runs(f"{RUN_LIGHT} WHERE seq {AMONG} ORDER BY seq DESC", [numbers(found)])
        return self._runs(f"{RUN_LIGHT} WHERE {where} ORDER BY seq DESC LIMIT ?", [*values, limit])

    def history(self, run_id: str) -> list[Entry]:
        def look(connection: Connection) -> list[Entry]:
            found = fetch(connection, "SELECT seq FROM run WHERE id = ?", (run_id,)) if is_json(run_id) else []
            return entries(connection, found[0][0]) if found else []

        return self._writer.read(look)

    def history_page(self, run_id: str, /, after: int = 0, limit: int = 1000) -> tuple[list[Entry], int | None]:
        def look(connection: Connection) -> tuple[list[Entry], int | None]:
            found = fetch(connection, "SELECT seq FROM run WHERE id = ?", (run_id,)) if is_json(run_id) else []
            return entry_page(self._writer, connection, found[0][0], after, limit) if found else ([], None)

        return self._writer.read(look)

    def history_at(self, run_id: str, paths: Sequence[str], /) -> list[Entry]:
        def look(connection: Connection) -> list[Entry]:
            found = fetch(connection, "SELECT seq FROM run WHERE id = ?", (run_id,)) if is_json(run_id) else []
            return entries_at(connection, found[0][0], paths) if found else []

        return self._writer.read(look)

    def read_history(self, run_id: str, /) -> Iterator[list[Entry]]:
        found = self._writer.read(
            lambda c: fetch(c, "SELECT seq FROM run WHERE id = ?", (run_id,)) if is_json(run_id) else []
        )
        return each_entry(self._writer, found[0][0]) if found else iter(())

    def waits(self) -> dict[str, tuple[list[Entry], list[Signal]]]:
        def look(connection: Connection) -> dict[str, tuple[list[Entry], list[Signal]]]:
            sent = kept(connection)
            return {id: (found, sent.get(id, [])) for id, found in waits(connection).items()}

        return self._writer.read(look)

    def orphans(self, limit: int = 100) -> list[RunRow]:
        return self._writer.read(lambda c: find_orphans(c, self.patience, limit))

    def request_stop(self, run_id: str) -> bool:
        if not is_json(run_id):
            return False
        now = time.time()

        def stop(connection: Connection) -> list[tuple[int]]:
            stopped = fetch(
                connection,
                "UPDATE run SET status = 'stopped', ended_at = ?1, stop_requested = 1"
                # Or this very request, sent again.
                " WHERE id = ?2 AND (status IN ('running', 'waiting') OR (status = 'stopped' AND ended_at = ?1))"
                " RETURNING seq",
                (now, run_id),
            )
            for (seq,) in stopped:
                self._writer.tell(connection, News("stop", seq, run_id))
            return stopped

        stopped = self._writer.run(stop)
        if stopped and (log := self._writer.watch.find(stopped[0][0])):
            log.stop_soon()
        return bool(stopped)

    def send(self, run_id: str, name: str, payload: Json = None, /, *, id: str | None = None) -> bool:
        signal = outgoing(name, payload, id)
        if not is_json(run_id):
            raise NotFound("run", run_id)
        packed = pack(dump(signal.payload, "payload"))

        def work(connection: Connection) -> tuple[int, bool]:
            seq, sent = send(connection, run_id, signal, packed)
            if sent:
                self._writer.tell(connection, News("signal", seq, run_id))
            return seq, sent

        seq, sent = self._writer.run(work)
        if log := self._writer.watch.find(seq):
            log.signal_soon()
        return sent

    def signals(self, run_id: str) -> list[Signal]:
        def look(connection: Connection) -> list[Signal]:
            found = fetch(connection, "SELECT seq FROM run WHERE id = ?", (run_id,)) if is_json(run_id) else []
            return signals(connection, found[0][0]) if found else []

        return self._writer.read(look)

    def hear(self, callback: Hear, /) -> Callable[[], None] | None:
        return self._writer.hear(callback)

    def prune(
        self,
        *,
        before: float | None = None,
        keep: int | None = None,
        status: Sequence[str] = (),
        dry: bool = False,
        most: int | None = None,
    ) -> Pruned:
        return prune(self._writer, before, keep, status, dry, most)

    def take_turn(self, name: str, every: float, now: float) -> bool:
        return self._writer.run(lambda c: take_turn(c, name, every, now))

    # --- owning a run ---------------------------------------------------------------------

    def unheld(self) -> list[tuple[int, str, int]]:
        """Return the runs that this process owns though it does not have them open: row number, id and epoch."""
        owned = self._writer.read(lambda c: fetch(c, OWNED_BY, (me().dump(),)))
        return [(seq, id, epoch) for seq, id, epoch in owned if not is_held(self._writer.name, seq)]

    def give_back(self, seq: int, epoch: int) -> None:
        """Release a run of `unheld`, unless somebody has claimed it meanwhile."""
        self._writer.watch.give_back(seq, epoch)

    async def open(self, run: NewRun) -> SqlLog:
        check_json(run.id, "run id")
        if not run.started_at:
            run = dataclasses.replace(run, started_at=time.time())
        large = Large(
            input=await packed_value(run.input, "input"),
            context=await packed_value(run.context, "context"),
            document=await self._packed_document(run),
        )
        return await self._own(
            run.id,
            lambda c, doubt, now: create(c, run, large, now) or take(c, run.id, self.patience, False, doubt, now),
            run,
        )

    async def reopen(self, run_id: str, *, again: bool = False) -> SqlLog:
        if not is_json(run_id):
            raise NotFound("run", run_id)
        return await self._own(run_id, lambda c, doubt, now: take(c, run_id, self.patience, again, doubt, now))

    # --- recovery without a person --------------------------------------------------------

    def recoverable(self, limit: int = 1000) -> list[tuple[RunRow, bool]]:
        """See `sql_recovery.find_recoverable`."""
        return self._writer.read(lambda c: recovery.find_recoverable(c, self.patience, limit))

    def hand_back(self, run_id: str) -> None:
        """Mark a run that a server gives up because it ends, so that the next server resumes it."""
        self._writer.run(lambda c: recovery.hand_back(c, run_id))

    def bury(self, row: RunRow, recoveries: int) -> int | None:
        """See `sql_recovery.bury`."""
        return self._writer.run(lambda c: recovery.bury(c, row, recoveries))

    def release_parked(self, run_id: str) -> bool:
        """Let a worker or a server continue a parked run; False when it is not parked."""
        return self._writer.run(lambda c: recovery.release_parked(c, run_id))

    @property
    def lease(self) -> Watch:
        """Until when this process is sure of its runs; see `Lease`."""
        return self._writer.watch

    def open_runs(self) -> list[int]:
        """Return the runs that are open in this process, by their number in the store."""
        return self._writer.watch.open_runs()

    def close(self) -> None:
        self._close()

    # --- inside ---------------------------------------------------------------------------

    async def _own(self, id: str, claim: Claiming, new: NewRun | None = None) -> SqlLog:
        """Make a run one's own. A claim whose caller is cancelled meanwhile, or whose journal cannot be read, is
        given back: this process would own a run that it does not execute."""
        writer = self._writer
        writer.check()
        settled: Doubt | None = None
        while True:
            before = boottime()
            got = await self._claimed(_Asking(claim, settled, moments.next(), writer.watch))
            if isinstance(got, Claim):
                break
            settled = await self._settle(id, got)
        if got.fresh and new is not None and not new.copies:
            log = SqlLog(self, writer, got.seq, _fresh_row(new), {})
        else:
            writer.watch.opening.add(got.seq)
            try:
                row, past = await asyncio.to_thread(self._load, got.seq, got.ended)
            except BaseException:
                _give_back(writer.watch, got)
                raise
            finally:
                writer.watch.opening.discard(got.seq)
            log = SqlLog(self, writer, got.seq, row, past, finished=row if got.ended else None)
            if not got.ended:
                writer.tell_soon(News("take", got.seq, id))
        if not got.ended:
            log.sure = before
            writer.watch.add(log)
        return log

    async def _claimed(self, asking: _Asking) -> Claim | Doubt:
        future: asyncio.Future[Claim | Doubt] = self._writer.inbox().do(asking)
        try:
            return await future
        except asyncio.CancelledError:
            # A cancelled future is seen to by the inbox; one that was answered a moment before by nobody else.
            if not future.cancelled() and future.exception() is None:
                asking.give_back(future.result())
            raise

    async def _settle(self, id: str, doubt: Doubt) -> Doubt:
        """Find out whether an owner elsewhere lives. Clocks of two hosts may differ, and jump:
        a recent beat is believed, but an old one only when no other comes for a whole lease in which the store
        could be read."""
        if doubt.recent:
            raise RunBusy(id, doubt.owner)
        silence = Silence(gap=self.patience / 2 + self._poll)
        while silence.observe({id: doubt.beat})[id] < self.patience:
            await asyncio.sleep(min(self._poll, self.patience))
            now = self._writer.read(
                lambda c: fetch(c, "SELECT epoch, beat FROM lease JOIN run ON run = seq WHERE id = ?", (id,))
            )
            if now and now[0] != (doubt.epoch, doubt.beat):
                raise RunBusy(id, doubt.owner)
        return doubt

    def _load(self, seq: int, ended: bool) -> tuple[RunRow, dict[Key, Entry] | PagedPast]:
        def look(connection: Connection) -> tuple[RunRow, dict[Key, Entry] | PagedPast]:
            [(_, row)] = runs(connection, fetch(connection, f"{RUN} WHERE seq = ?", (seq,)))
            return row, read_past(self._writer, connection, seq, self.remote)

        row, past = self._writer.read(look)
        if isinstance(past, PagedPast) and not ended:  # of one that has ended the result is enough for most
            past.prepare()
        return row, past

    def _runs(self, query: str, values: list[str | float | None]) -> list[RunRow]:
        found = self._writer.read(lambda c: runs(c, fetch(c, query, values)))
        return [self._up_to_date(seq, row) for seq, row in found]

    def _up_to_date(self, seq: int, row: RunRow) -> RunRow:
        """What this process knows of its own runs is newer than what it last wrote."""
        log = self._writer.watch.find(seq)
        return dataclasses.replace(row, current_node=log.node, spent=log.elapsed()) if log else row

    async def _packed_document(self, run: NewRun) -> Packed:
        """Many runs in a row start with one document: it is not written down anew for each."""
        document, fingerprint, packed = self._document
        if run.document is None:
            return None
        if document is not run.document or fingerprint != run.fingerprint or not fingerprint:
            packed = await packed_value(run.document, "document", _SHARED)
            self._document = (run.document, run.fingerprint, packed)
        return packed


class _Asking:
    """A claim on its way to the writer."""

    __slots__ = ("_claim", "_doubt", "_now", "_watch")

    def __init__(self, claim: Claiming, doubt: Doubt | None, now: float, watch: Watch) -> None:
        self._claim, self._doubt, self._now, self._watch = claim, doubt, now, watch

    def __call__(self, connection: Connection) -> Claim | Doubt:
        return self._claim(connection, self._doubt, self._now)

    def give_back(self, got: Claim | Doubt) -> None:
        """Release what was claimed for a caller that is gone; see `Inbox`."""
        _give_back(self._watch, got)


def _give_back(watch: Watch, got: Claim | Doubt) -> None:
    if isinstance(got, Claim) and not got.ended:
        watch.give_back(got.seq, got.epoch)


def _with_text(connection: Connection, text: str, where: str, values: Sequence[str | float], limit: int) -> list[int]:
    """The newest runs that hold `text`. Looked for here: databases disagree about upper and lower case."""
    found: list[int] = []
    last: list[int] = []
    while len(found) < limit:
        page = fetch(
            connection,
            f"SELECT seq, run.id, name, definition_id, error FROM run WHERE {where}{' AND seq < ?' if last else ''}"
            " ORDER BY seq DESC LIMIT ?",
            [*values, *last, _PAGE],
        )
        for seq, id, name, definition_id, error in page:
            if contains(text, id, name, definition_id, error and error.decode(errors="replace")):
                found.append(seq)
        if len(page) < _PAGE:
            break
        last = [page[-1][0]]
    return found[:limit]


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
        forked_from=run.forked_from,
    )
