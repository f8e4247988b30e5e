"""Definitions, runs and tool usage in a SQL database: what the stores in SQLite and in Postgres share.

Any number of processes use one store; each run has one owner at a time. `SqlStore` implements `Store`: it turns each
method into work for the writer (`writer.py`) and leaves the statements to `rows.py`, `versions.py`, `signals.py`,
`recovery.py` and `upkeep.py`. To add a method, write its work as a function of a connection there, and pass it to
`Writer.read` or `Writer.run` here.

Refused: use after os.fork.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from ...content import contents
from ...errors import NotFound, RunBusy
from ...values import Json, check_json, is_json
from ..ledger import Exhausted, Limits
from ..news import News, NewsCallback
from ..past import PagedPast
from ..protocol import Definition, Entry, Key, NewRun, Pruned, RunRow, Signal, contains, statuses
from ..run_counts import FailureCount, QueueCount, RunCount
from ..tool_usage import ToolUse, in_order, surplus_rows
from . import ledger, recovery, run_counts, versions
from .blobs import Packed, dump, pack
from .lease_watch import OWNED_BY, LeaseWatcher, Silence
from .leases import boottime, this_process
from .log import (
    Claim,
    PackedValues,
    SqlLog,
    UncertainOwner,
    claim_run,
    create_run,
    each_entry,
    entries_at,
    entry_page,
    packed_value,
    read_past,
    timestamps,
)
from .rows import (
    AMONG,
    RUN,
    RUN_LIGHT,
    RUN_SO_FAR,
    Connection,
    StepMissing,
    entries,
    fetch,
    json_list,
    load_content,
    runs,
    waits,
)
from .signals import new_signal, pending_signals, signalled_runs, signals, store_signal
from .undo import skip_undo, undo_due
from .upkeep import find_orphans, prune, take_turn
from .writer import Writer, is_open_in_process

T = TypeVar("T")

_USE_COLUMNS: Final = "tool, request, successes, failures, at, source"
_ADD_USE: Final = f"""
    INSERT INTO tool_use ({_USE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (tool, request, source) DO UPDATE SET
        successes = tool_use.successes + excluded.successes, failures = tool_use.failures + excluded.failures,
        at = CASE WHEN excluded.at > tool_use.at THEN excluded.at ELSE tool_use.at END
"""


class SqlToolUsage:
    """The part of a SQL store that keeps tool usage."""

    _writer: Writer

    def put_uses(self, uses: Sequence[ToolUse]) -> None:
        self._writer.run(lambda connection: _add_uses(connection, uses))

    def list_uses(self, tool: str | None = None) -> list[ToolUse]:
        where, values = _tool_filter(tool)
        rows = self._writer.read(lambda c: fetch(c, f"SELECT {_USE_COLUMNS} FROM tool_use {where}", values))
        return in_order(map(_load_use, rows))

    def delete_uses(self, tool: str | None = None) -> int:
        where, values = _tool_filter(tool)
        return len(self._writer.run(lambda c: fetch(c, f"DELETE FROM tool_use {where} RETURNING 1", values)))


def _add_uses(connection: Connection, uses: Sequence[ToolUse]) -> None:
    # When this transaction is repeated because its answer was lost, a use counts twice: no harm to a rate.
    for use in uses:
        _add_use(connection, use)
    for tool in sorted({use.tool for use in uses}):
        rows = fetch(connection, f"SELECT {_USE_COLUMNS} FROM tool_use WHERE tool = ?", (tool,))
        for old, sum_row in surplus_rows(map(_load_use, rows)):
            connection.execute(
                "DELETE FROM tool_use WHERE tool = ? AND request = ? AND source = ?", (tool, old.request, old.source)
            )
            _add_use(connection, sum_row)


def _tool_filter(tool: str | None) -> tuple[str, tuple[str, ...]]:
    return ("", ()) if tool is None else ("WHERE tool = ?", (tool,))


def _add_use(connection: Connection, use: ToolUse) -> None:
    connection.execute(_ADD_USE, (use.tool, use.request, use.successes, use.failures, use.at, use.source))


def _load_use(row: tuple[str, str, int, int, float, str]) -> ToolUse:
    tool, request, successes, failures, at, source = row
    return ToolUse(tool=tool, request=request, successes=successes, failures=failures, at=at, source=source)


ClaimFunction: TypeAlias = Callable[[Connection, UncertainOwner | None, float], Claim | UncertainOwner]

_SHARED_BYTES: Final = 512
"""Bytes of a document above which it is stored once for all runs that start with it."""

_SEARCH_PAGE: Final = 500
"""Runs that one query reads when a text is searched for."""


class OwnedRun(NamedTuple):
    """A run that this process owns: its row number, its id, and the epoch of its lease."""

    seq: int
    id: str
    epoch: int


class SqlStore(SqlToolUsage):
    """A store in a SQL database; implements `Store`."""

    durable = True
    remote = False
    _queued_condition = "false"  # SQL condition on `run`: it is in a queue of this store

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
        self._writer.run(lambda c: versions.put_definition(c, definition))

    def get_definition(self, kind: str, id: str) -> Definition | None:
        where = "WHERE definition.kind = ? AND definition.id = ?"
        definitions = self._writer.read(lambda c: versions.read_definitions(c, where, (kind, id)))
        return definitions[0] if definitions else None

    def list_definitions(self, kind: str | None = None) -> list[Definition]:
        if kind is None:
            return self._writer.read(lambda c: versions.read_definitions(c, "", ()))
        return self._writer.read(lambda c: versions.read_definitions(c, "WHERE definition.kind = ?", (kind,)))

    def delete_definition(self, kind: str, id: str) -> bool:
        return self._writer.run(lambda c: versions.delete_definition(c, kind, id))

    def list_versions(self, kind: str, id: str) -> list[Definition]:
        return self._writer.read(lambda c: versions.read_versions(c, kind, id)) if is_json(id) else []

    # --- runs -----------------------------------------------------------------------------

    def get_run(self, id: str, *, so_far: bool = False) -> RunRow | None:
        if not is_json(id):
            return None
        query = RUN_SO_FAR if so_far else RUN
        rows = self._runs(f"{query} WHERE run.id = ?", [id])
        return rows[0] if rows else None

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
        # A condition applies when the first of its values is not None.
        conditions: list[tuple[str, list[Any]]] = [
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
        clauses: list[str] = []
        values: list[Any] = []
        for clause, arguments in conditions:
            if arguments[0] is not None:
                clauses.append(clause)
                values += arguments
        where = " AND ".join(clauses) or "true"
        if text:
            matches = self._writer.read_long(lambda c: _search(c, text, where, values, limit))
            return self._runs(f"{RUN_LIGHT} WHERE seq {AMONG} ORDER BY seq DESC", [json_list(matches)])
        return self._runs(f"{RUN_LIGHT} WHERE {where} ORDER BY seq DESC LIMIT ?", [*values, limit])

    def count_runs(self, edges: Sequence[float], /) -> list[RunCount]:
        return self._writer.read_long(lambda c: run_counts.count_runs(c, edges))

    def count_failures(self, since: float, until: float, /, limit: int = 10_000) -> list[FailureCount]:
        return self._writer.read_long(lambda c: run_counts.count_failures(c, since, until, limit))

    def count_queues(self, limit: int = 10_000, /) -> list[QueueCount]:
        return self._writer.read_long(lambda c: run_counts.count_queues(c, self.patience, limit))

    def history(self, run_id: str) -> list[Entry]:
        def read(connection: Connection) -> list[Entry]:
            seq = _find_run(connection, run_id)
            return [] if seq is None else entries(connection, seq)

        return self._writer.read(read)

    def history_page(self, run_id: str, /, after: int = 0, limit: int = 1000) -> tuple[list[Entry], int | None]:
        def read(connection: Connection) -> tuple[list[Entry], int | None]:
            seq = _find_run(connection, run_id)
            return ([], None) if seq is None else entry_page(self._writer, connection, seq, after, limit)

        return self._writer.read(read)

    def history_at(self, run_id: str, paths: Sequence[str], /) -> list[Entry]:
        def read(connection: Connection) -> list[Entry]:
            seq = _find_run(connection, run_id)
            return [] if seq is None else entries_at(connection, seq, paths)

        return self._writer.read(read)

    def read_history(self, run_id: str, /) -> Iterator[list[Entry]]:
        seq = self._writer.read(lambda c: _find_run(c, run_id))
        return iter(()) if seq is None else each_entry(self._writer, seq)

    def waits(self, *, signalled: bool = False) -> dict[str, tuple[list[Entry], list[Signal]]]:
        def read(connection: Connection) -> dict[str, tuple[list[Entry], list[Signal]]]:
            signals = pending_signals(connection)
            found = waits(connection, signalled_runs(connection) if signalled else None)
            return {id: (entries, signals.get(id, [])) for id, entries in found.items()}

        return self._writer.read(read)

    def orphans(self, limit: int = 100, *, among: Collection[str] | None = None) -> list[RunRow]:
        return self._writer.read(lambda c: find_orphans(c, self.patience, limit, among))

    def request_stop(self, run_id: str) -> bool:
        if not is_json(run_id):
            return False
        now = time.time()

        def stop(connection: Connection) -> list[tuple[int]]:
            stopped = fetch(
                connection,
                "UPDATE run SET status = 'stopped', ended_at = ?1, stop_requested = 1"
                # A run that stopped at this very time was stopped by this request, which is sent again.
                " WHERE id = ?2 AND (status IN ('running', 'waiting') OR (status = 'stopped' AND ended_at = ?1))"
                " RETURNING seq",
                (now, run_id),
            )
            for (seq,) in stopped:
                self._writer.announce(connection, News("stop", seq, run_id))
            return stopped

        stopped = self._writer.run(stop)
        if stopped and (log := self._writer.watch.find(stopped[0][0])):
            log.stop_soon()
        return bool(stopped)

    def undo_due(self, limit: int = 100, /) -> list[str]:
        return self._writer.read(lambda c: undo_due(c, limit))

    def skip_undo(self, run_id: str, /) -> None:
        if is_json(run_id):
            self._writer.run(lambda c: skip_undo(c, run_id))

    def send(self, run_id: str, name: str, payload: Json = None, /, *, id: str | None = None) -> bool:
        signal = new_signal(name, payload, id)
        if not is_json(run_id):
            raise NotFound("run", run_id)
        packed = pack(dump(signal.payload, "payload"))

        def work(connection: Connection) -> tuple[int, bool]:
            seq, sent = store_signal(connection, run_id, signal, packed)
            if sent:
                self._writer.announce(connection, News("signal", seq, run_id))
            return seq, sent

        seq, sent = self._writer.run(work)
        if log := self._writer.watch.find(seq):
            log.signal_soon()
        return sent

    def signals(self, run_id: str) -> list[Signal]:
        def read(connection: Connection) -> list[Signal]:
            seq = _find_run(connection, run_id)
            return [] if seq is None else signals(connection, seq)

        return self._writer.read(read)

    def hear(self, callback: NewsCallback, /) -> Callable[[], None] | None:
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

    def reserve(self, key: str, limits: Limits, calls: int = 1, /) -> Exhausted | None:
        return self._writer.run(lambda c: ledger.reserve(c, key, limits, calls))

    def settle(self, key: str, amounts: Mapping[str, float], /) -> None:
        self._writer.run(lambda c: ledger.settle(c, key, amounts))

    def used(self, account: str, /) -> dict[str, float]:
        return self._writer.read(lambda c: ledger.used(c, account))

    def join(self, run_id: str, accounts: Iterable[str], until: float, /) -> None:
        self._writer.run(lambda c: ledger.join(c, run_id, accounts, until))

    def members(self, account: str, /) -> list[str]:
        return self._writer.read(lambda c: ledger.members(c, account))

    def take_turn(self, name: str, every: float, now: float) -> bool:
        return self._writer.run(lambda c: take_turn(c, name, every, now))

    # --- owning a run ---------------------------------------------------------------------

    def owned_but_not_open(self) -> list[OwnedRun]:
        """Return the runs that this process owns although none of its stores has them open."""
        owned = self._writer.read(lambda c: fetch(c, OWNED_BY, (this_process().dump(),)))
        return [OwnedRun(seq, id, epoch) for seq, id, epoch in owned if not is_open_in_process(self._writer.name, seq)]

    def give_back(self, seq: int, epoch: int) -> None:
        """Release a run of `owned_but_not_open`, unless somebody has claimed it meanwhile."""
        self._writer.watch.give_back(seq, epoch)

    async def open(self, run: NewRun) -> SqlLog:
        check_json(run.id, "run id")
        started_at = run.started_at or time.time()
        large = PackedValues(
            input=await packed_value(run.input, "input"),
            context=await packed_value(run.context, "context"),
            document=await self._packed_document(run),
        )
        return await self._claim_and_open(
            run.id,
            lambda c, doubt, now: (
                create_run(c, run, large, now, self.patience, started_at)
                or claim_run(c, run.id, self.patience, False, doubt, now)
            ),
            run,
            started_at,
        )

    async def wait_for_writes(self) -> None:
        """Wait until everything is written that this event loop has asked for."""
        await self._writer.batch_of_loop().submit(lambda _: None)

    async def reopen(self, run_id: str, *, again: bool = False) -> SqlLog:
        if not is_json(run_id):
            raise NotFound("run", run_id)
        return await self._claim_and_open(
            run_id, lambda c, doubt, now: claim_run(c, run_id, self.patience, again, doubt, now)
        )

    # --- recovery without a person --------------------------------------------------------

    def recoverable(
        self, limit: int = 1000, left_alone: Collection[tuple[str, int]] = ()
    ) -> list[recovery.RecoverableRun]:
        """Return the unfinished runs that a server may resume, oldest first, but for those it leaves alone."""
        return self._writer.read(lambda c: recovery.find_recoverable(c, self.patience, limit, left_alone=left_alone))

    def hand_back(self, run_id: str) -> None:
        """Mark a run that a server gives up because it ends, so that the next server resumes it."""
        self._writer.run(lambda c: recovery.hand_back(c, run_id))

    def hand_back_dead_process(self, row: RunRow, recoveries: int) -> list[recovery.HandedBack]:
        """Take the runs of the dead process of a run and hand them back; park what it died of too often."""
        condition = self._queued_condition
        return self._writer.run(lambda c: recovery.hand_back_dead_process(c, row, self.patience, recoveries, condition))

    def is_suspect(self, run_id: str, recoveries: int = recovery.SERVER_RECOVERIES) -> bool:
        """Return True if processes died repeatedly while they executed a run: it is to be executed apart."""
        return self._writer.read(lambda c: recovery.is_suspect(c, run_id, recoveries))

    def calls_at_death(self, run_id: str) -> list[dict[str, Any]]:
        """Return the calls that the last process of a run was in when it died; none if that is not recorded."""

        def read(connection: Connection) -> list[dict[str, Any]]:
            seq = _find_run(connection, run_id)
            return [] if seq is None else recovery.calls_at_death(connection, seq)

        return self._writer.read(read)

    def release_parked(self, run_id: str) -> bool:
        """Release a parked run so that a worker or server can continue it; return False if it is not parked."""
        return self._writer.run(lambda c: recovery.release_parked(c, run_id))

    @property
    def lease(self) -> LeaseWatcher:
        """The lease of this process on its runs, for those who call tools."""
        return self._writer.watch

    def open_runs(self) -> list[int]:
        """Return the runs that are open in this process, by their number in the store."""
        return self._writer.watch.open_runs()

    def close(self) -> None:
        self._close()

    # --- inside ---------------------------------------------------------------------------

    async def _claim_and_open(
        self, id: str, claim: ClaimFunction, new: NewRun | None = None, started_at: float = 0.0
    ) -> SqlLog:
        """Claim a run and open its log."""

        # Release the claim if the caller is cancelled or the journal is unreadable: this process would own a run that
        # it does not execute.
        writer = self._writer
        writer.check()
        silent_owner: UncertainOwner | None = None
        while True:
            # The lease counts from before the claim was sent, not from when its answer came.
            sent_at = boottime()
            request = _ClaimRequest(claim, silent_owner, timestamps.next(), writer.watch)
            result = await self._send_claim(request, may_be_early=new is not None and new.parent is None)
            if isinstance(result, Claim):
                break
            silent_owner = await self._wait_for_silence(id, result)
        seq = result.seq
        if result.is_new and new is not None and not new.copies:
            # Nothing of a new run needs to be read back.
            log = SqlLog(self, writer, seq, _fresh_row(new, started_at), {})
        else:
            try:
                row, past = await asyncio.to_thread(self._load, seq, result.has_ended)
            except BaseException:
                _release_claim(writer.watch, result)
                raise
            if not result.has_ended:
                # A process that has taken it over meanwhile has a later epoch, under which this log must not write.
                row = dataclasses.replace(row, epoch=result.epoch)
            finished = row if result.has_ended else None
            log = SqlLog(self, writer, seq, row, past, finished, after_death=result.after_death)
            if not result.has_ended:
                writer.announce_soon(News("take", seq, id))
        if not result.has_ended:
            log.renewed_at = sent_at
            writer.watch.add(log)
        return log

    async def _send_claim(self, request: _ClaimRequest, *, may_be_early: bool) -> Claim | UncertainOwner:
        batch = self._writer.batch_of_loop()
        future: asyncio.Future[Claim | UncertainOwner] = batch.submit(request)
        if may_be_early:
            batch.write_early()
        try:
            return await future
        except BaseException:
            # The write batch releases the claim of a cancelled future, but not of one answered a moment before.
            if future.done() and not future.cancelled() and future.exception() is None:
                request.give_back(future.result())
            raise

    async def _wait_for_silence(self, id: str, uncertain: UncertainOwner) -> UncertainOwner:
        """Wait until an owner on another host has been silent for a whole lease; raise RunBusy if it lives."""

        # Clocks of two hosts may differ, and jump. So a recent heartbeat is believed, but an old one only when no other
        # comes for a whole lease in which the store could be read.
        if uncertain.is_recent:
            raise RunBusy(id, uncertain.owner)
        silence = Silence(gap=self.patience / 2 + self._poll)
        query = "SELECT epoch, beat FROM lease JOIN run ON run = seq WHERE id = ?"
        while silence.observe({id: uncertain.beat})[id] < self.patience:
            await asyncio.sleep(min(self._poll, self.patience))
            rows = self._writer.read(lambda c: fetch(c, query, (id,)))
            if rows and rows[0] != (uncertain.epoch, uncertain.beat):
                raise RunBusy(id, uncertain.owner)
        return uncertain

    def _load(self, seq: int, has_ended: bool) -> tuple[RunRow, dict[Key, Entry] | PagedPast]:
        def read(connection: Connection) -> tuple[RunRow, dict[Key, Entry] | PagedPast]:
            [(_, row)] = runs(connection, fetch(connection, f"{RUN} WHERE seq = ?", (seq,)))
            return row, read_past(self._writer, connection, seq, self.remote)

        row, past = self._read_whole(read)
        # Of a run that has ended, most callers read only the result.
        if isinstance(past, PagedPast) and not has_ended:
            past.prepare()
        return row, past

    def _runs(self, query: str, values: list[str | float | None]) -> list[RunRow]:
        rows = self._read_whole(lambda c: runs(c, fetch(c, query, values)))
        return [self._up_to_date(seq, row) for seq, row in rows]

    def _read_whole(self, work: Callable[[Connection], T]) -> T:
        """Read results with the steps that they refer to."""
        try:
            return self._writer.read(work)
        except StepMissing:  # somebody may have restarted the run between the two reads: then it has no result now
            return self._writer.read(work)

    def _up_to_date(self, seq: int, row: RunRow) -> RunRow:
        # What this process knows of its own runs is newer than its last heartbeat.
        log = self._writer.watch.find(seq)
        return dataclasses.replace(row, current_node=log.node, spent=log.elapsed()) if log else row

    async def _packed_document(self, run: NewRun) -> Packed:
        # Many runs in a row start with the same document: it is packed once.
        document, fingerprint, packed = self._document
        if run.document is None:
            return None
        if document is not run.document or fingerprint != run.fingerprint or not fingerprint:
            packed = await packed_value(run.document, "document", _SHARED_BYTES)
            self._document = (run.document, run.fingerprint, packed)
        return packed


class _ClaimRequest:
    """A claim on its way to the writer, which calls it in a transaction."""

    __slots__ = ("_claim", "_now", "_silent_owner", "_watch")

    def __init__(
        self, claim: ClaimFunction, silent_owner: UncertainOwner | None, now: float, watch: LeaseWatcher
    ) -> None:
        self._claim, self._silent_owner, self._now, self._watch = claim, silent_owner, now, watch

    def __call__(self, connection: Connection) -> Claim | UncertainOwner:
        return self._claim(connection, self._silent_owner, self._now)

    def hand_over(self, result: Claim | UncertainOwner, loop: asyncio.AbstractEventLoop) -> None:
        """Keep what was claimed until its caller, a task of `loop`, has opened it."""

        # The write batch calls it.
        if isinstance(result, Claim) and not result.has_ended:
            self._watch.begin_opening(result.seq, result.epoch, loop)

    def give_back(self, result: Claim | UncertainOwner) -> None:
        """Release what was claimed for a caller that is gone."""

        # The write batch calls it.
        _release_claim(self._watch, result)


def _release_claim(watch: LeaseWatcher, result: Claim | UncertainOwner) -> None:
    if isinstance(result, Claim) and not result.has_ended:
        watch.give_back(result.seq, result.epoch)


def _find_run(connection: Connection, run_id: str) -> int | None:
    """Return the row number of a run, or None if it does not exist."""
    if not is_json(run_id):
        return None
    rows = fetch(connection, "SELECT seq FROM run WHERE id = ?", (run_id,))
    return int(rows[0][0]) if rows else None


def _search(connection: Connection, text: str, where: str, values: Sequence[str | float], limit: int) -> list[int]:
    """Return the newest runs that contain `text`."""
    matches: list[int] = []
    last: list[int] = []
    while len(matches) < limit:
        older = " AND seq < ?" if last else ""
        page = fetch(
            connection,
            f"SELECT seq, run.id, name, definition_id, error FROM run WHERE {where}{older} ORDER BY seq DESC LIMIT ?",
            [*values, *last, _SEARCH_PAGE],
        )
        # Compared here, because databases disagree about upper and lower case.
        for seq, id, name, definition_id, error in page:
            if contains(text, id, name, definition_id, error and error.decode(errors="replace")):
                matches.append(seq)
        if len(page) < _SEARCH_PAGE:
            break
        last = [page[-1][0]]
    return matches[:limit]


def _fresh_row(run: NewRun, started_at: float) -> RunRow:
    return RunRow(
        id=run.id,
        kind=run.kind,
        definition_id=run.definition_id,
        name=run.name,
        input=run.input,
        context=run.context,
        document=run.document,
        fingerprint=run.fingerprint,
        started_at=started_at,
        owner=str(this_process()),
        parent=run.parent,
        forked_from=run.forked_from,
        undo_policy=run.undo_policy,
    )
