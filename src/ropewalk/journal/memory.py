"""A store in memory: the same meaning as every other one, for one process and its lifetime.

`MemoryStore` keeps references, hashes nothing and walks nothing. With `durable=False` (the default) it keeps no entries
at all: the engine has them, and `history` reads them through `Log.attach`. `MemoryDefinitions` is the part of the store
that knows no runs, `Record` is what it keeps of one run, and `MemoryLog` is the log of a run.

Refused: a second process. For a store of your own in one process, subclass `BaseStore` (`base_store.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import orjson

from ..content import contents, hashes_of
from ..errors import Fenced, JournalConflict, NotFound, RunBusy, RunEnded, RunUndone, StoreError
from ..values import Json, check_json
from . import memory_counts
from .changes import Changes
from .memory_ledger import MemoryLedger
from .memory_undo import begin_undo, require_not_undone
from .news import NewsCallback
from .open_waits import match_signals
from .protocol import (
    DECISIONS,
    ENDS,
    KEPT_VERSIONS,
    Definition,
    Entry,
    Key,
    Live,
    NewRun,
    OpenWait,
    Pruned,
    RunRow,
    Signal,
    contains,
    ending,
    statuses,
)
from .run_counts import FailureCount, QueueCount, RunCount, queue_counts
from .tool_usage import MemoryUses
from .undo import UNDONE, UNSUCCESSFUL


class MemoryDefinitions(Changes):
    """The part of a MemoryStore that knows of no runs."""

    schema = None

    def __init__(self) -> None:
        super().__init__()
        self._definitions: dict[tuple[str, str], Definition] = {}
        self._versions: dict[tuple[str, str], dict[str, Definition]] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._turns: dict[str, float] = {}

    def put_definition(self, definition: Definition) -> None:
        key = (definition.kind, definition.id)
        with self._changing:
            old = self._definitions.get(key)
            now = definition.created or time.time()
            versions = self._versions.setdefault(key, {})
            existing = versions.get(definition.fingerprint)
            number = existing.version if existing else 1 + max((d.version for d in versions.values()), default=0)
            created = existing.created if existing else now
            new = dataclasses.replace(definition, created=created, run_count=0, version=number)
            versions[definition.fingerprint] = new
            self._definitions[key] = dataclasses.replace(new, created=old.created if old else now)
            if old is None:
                self._counts.pop(key, None)
            self._changed("definition", *key)

    def get_definition(self, kind: str, id: str) -> Definition | None:
        definition = self._definitions.get((kind, id))
        return None if definition is None else self._with_run_count(definition)

    def list_definitions(self, kind: str | None = None) -> list[Definition]:
        with self._lock:
            return [self._with_run_count(d) for key, d in sorted(self._definitions.items()) if kind in (None, key[0])]

    def delete_definition(self, kind: str, id: str) -> bool:
        with self._changing:
            self._versions.pop((kind, id), None)
            existing = self._definitions.pop((kind, id), None)
            self._changed("definition", kind, id)
            return existing is not None

    def take_turn(self, name: str, every: float, now: float) -> bool:
        with self._changing:
            last = self._turns.get(name)
            if last is not None and last <= now < last + every:
                return False
            self._turns[name] = now
            self._changed("turn", name)
            return True

    def _drop_unused(self, started: set[tuple[str, str | None, str]]) -> None:
        """Drop old versions that no run was started with."""
        used = started | {(d.kind, d.id, d.fingerprint) for d in self._definitions.values()}
        for key, versions in self._versions.items():
            newest = max(d.version for d in versions.values())
            for fingerprint, d in list(versions.items()):
                if d.version <= newest - KEPT_VERSIONS and (*key, fingerprint) not in used:
                    del versions[fingerprint]
            self._changed("definition", *key)

    def _with_run_count(self, definition: Definition) -> Definition:
        count = self._counts.get((definition.kind, definition.id), 0)
        if not count:
            return definition
        d = definition  # `replace` takes three times as long, and every run reads its definition
        return Definition(
            kind=d.kind, id=d.id, name=d.name, document=d.document, fingerprint=d.fingerprint,
            created=d.created, run_count=count, version=d.version,
        )  # fmt: skip


class Record:
    """A run, its open log if any, and its recorded entries."""

    # `row` creates the RunRow on demand, because that costs as much as running a few nodes.

    __slots__ = (
        "contents", "current_node", "due", "ended_at", "entries", "epoch", "error", "error_count", "live", "log", "new",
        "result", "result_count", "signals", "spent", "started_at", "status", "stop_requested", "undo",
    )  # fmt: skip

    def __init__(self, new: NewRun) -> None:
        self.new = new
        self.status, self.started_at = "running", new.started_at or time.time()
        self.ended_at: float | None = None
        self.result: Json = None
        self.error: Json = None
        self.result_count = self.error_count = 0
        self.epoch, self.stop_requested = 1, False
        self.current_node, self.spent = "", 0.0
        self.entries: dict[Key, Entry] = {}
        self.live: Live | None = None
        self.log: MemoryLog | None = None
        self.signals: Sequence[Signal] = ()
        self.due: float | None = None
        self.undo: str | None = None
        self.contents = _NONE
        if contents.count:
            self.keep_contents(new.input)

    def keep_contents(self, value: Json) -> None:
        """Keep the content in a value."""

        # This costs nothing in a process without content.
        if contents.count:
            bytes_by_hash = {hash: contents.in_memory(hash) for hash in hashes_of(value)}
            if bytes_by_hash:
                self.contents = {
                    **self.contents,
                    **{hash: data for hash, data in bytes_by_hash.items() if data is not None},
                }

    def row(self, *, so_far: bool = False) -> RunRow:
        """Return the run as a row."""
        new = self.new
        # The entries are not part of a row: a list of runs would read all of them.
        return RunRow(
            id=new.id,
            kind=new.kind,
            definition_id=new.definition_id,
            name=new.name,
            status=self.status,
            input=new.input,
            context=new.context,
            document=new.document,
            fingerprint=new.fingerprint,
            started_at=self.started_at,
            ended_at=self.ended_at,
            result=self.result,
            error=self.error,
            owner=OWNER,
            epoch=self.epoch,
            spent=self.elapsed(),
            current_node=self.current_node,
            result_count=self._results_so_far() if so_far else self.result_count,
            error_count=max(self.error_count, self._stopped_unowned),
            stop_requested=self.stop_requested,
            parent=new.parent,
            due=self.due,
            forked_from=new.forked_from,
            undo=self.undo,
            undo_policy=new.undo_policy,
        )

    def light(self) -> RunRow:
        """Return the row without its large values."""
        return dataclasses.replace(self.row(so_far=True), input=None, context=None, document=None, result=None)

    @property
    def _stopped_unowned(self) -> bool:
        """True if the run was stopped while no process executed it."""
        return self.status == "stopped" and self.result is None

    def _results_so_far(self) -> int:
        """Return the number of nodes with a result, also of an unfinished run."""
        if self._stopped_unowned:
            counted_kinds = {"call", "node", "skip", "attempt"}
            return len({e.node for e in self.history() if e.kind in counted_kinds and "/" not in e.path})
        if self.status in ENDS:
            return self.result_count
        return sum(entry.kind in ("call", "node") and "/" not in entry.path for entry in self.history())

    def size(self) -> int:
        """Return the bytes of everything recorded."""
        values = [self.new.input, self.new.context, self.new.document, self.result, self.error]
        values += [entry.data for entry in self.entries.values()]
        return sum(len(orjson.dumps(value)) for value in values if value is not None)

    def begin_again(self, past: dict[Key, Entry]) -> None:
        """Restart an ended run."""

        # Its earlier ending stays among its entries.
        outcome = self.status, self.ended_at, self.error, self.result_count, self.error_count, self.spent
        entry = ending(self.epoch, *outcome)
        self.entries[entry.path, entry.kind] = past[entry.path, entry.kind] = entry
        self.status, self.ended_at, self.stop_requested, self.spent = "running", None, False, 0.0
        self.result = self.error = None
        self.result_count = self.error_count = 0
        self.undo = None

    @property
    def has_owner(self) -> bool:
        """True if the run has an open log whose event loop is not closed."""
        return self.log is not None and not self.log.abandoned

    def history(self) -> list[Entry]:
        if self.entries or self.live is None:
            return list(self.entries.values())
        return self.live.entries()

    def elapsed(self) -> float:
        """Return the seconds of execution, up to now while a log is open."""
        return self.spent if self.log is None or self.live is None else self.live.elapsed()


def matches(row: RunRow, filters: Mapping[str, Any], error_text: str) -> bool:
    """Return True if a row passes the filters of `list_runs`."""

    # Every store follows this meaning.
    text, flow, status = filters.get("text"), filters.get("flow"), filters.get("status")
    since, until = filters.get("since"), filters.get("until")
    return (
        all(filters.get(name) in (None, getattr(row, name)) for name in ("kind", "definition_id", "parent"))
        and (not status or row.status in statuses(status))
        and (flow is None or flow in (row.name, row.definition_id))
        and (until is None or row.started_at < until)
        and not (filters.get("top") and row.parent is not None)
        and (since is None or row.started_at >= since)
        and (not text or contains(text, row.id, row.name, row.definition_id, error_text))
    )


def error_text(row: RunRow) -> str:
    """Write the error of a run as JSON text."""
    return "" if row.error is None else orjson.dumps(row.error).decode()


_NONE: Mapping[str, bytes] = {}
OWNER = f"{socket.gethostname()} (pid {os.getpid()})"


_PAGE: Final = 1000


class MemoryStore(MemoryDefinitions, MemoryUses, MemoryLedger):
    """Definitions and runs in this process."""

    remote = False

    @property
    def log_class(self) -> type[MemoryLog]:
        """The class of the logs of this store's runs."""
        return MemoryLog

    def __init__(self, durable: bool = False, *, keep: int = 1000) -> None:
        super().__init__()
        self.durable = durable
        self._keep = keep
        self._runs: dict[str, Record] = {}
        self._ended_records: deque[Record] = deque()
        self._closed = False
        contents.add_source(self)

    def content(self, hash: str) -> bytes | None:
        with self._lock:
            return next((r.contents[hash] for r in self._runs.values() if hash in r.contents), None)

    def list_versions(self, kind: str, id: str) -> list[Definition]:
        with self._lock:
            versions = sorted(self._versions.get((kind, id), {}).values(), key=lambda d: -d.version)
            started = [(r.new.kind, r.new.definition_id, r.new.fingerprint) for r in self._runs.values()]
            return [dataclasses.replace(d, run_count=started.count((kind, id, d.fingerprint))) for d in versions]

    def get_run(self, id: str, *, so_far: bool = False) -> RunRow | None:
        with self._lock:
            record = self._runs.get(id) if isinstance(id, str) else None
            return record.row(so_far=so_far) if record else None

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
        filters = {"kind": kind, "definition_id": definition_id, "status": status, "text": text, "since": since}
        filters |= {"parent": parent, "top": top, "flow": flow, "until": until}
        rows: list[RunRow] = []
        with self._lock:
            # The newest run comes first; `after` is the last one of the previous page.
            is_behind_after = after is None
            for record in reversed(self._runs.values()):
                if len(rows) >= limit:
                    break
                if not is_behind_after:
                    is_behind_after = record.new.id == after
                    continue
                row = record.row()
                if matches(row, filters, error_text(row) if text else ""):
                    rows.append(record.light())
        return rows

    def count_runs(self, edges: Sequence[float], /) -> list[RunCount]:
        with self._lock:
            return memory_counts.count_runs(self._runs.values(), edges)

    def count_failures(self, since: float, until: float, /, limit: int = 10_000) -> list[FailureCount]:
        with self._lock:
            return memory_counts.count_failures(self._runs.values(), since, until, limit)

    def count_queues(self, limit: int = 10_000, /) -> list[QueueCount]:
        with self._lock:
            unfinished = [r for r in self._runs.values() if r.status == "running" and r.new.parent is None]
            return queue_counts((record.new.context, record.has_owner) for record in unfinished[-limit:])

    def history(self, run_id: str) -> list[Entry]:
        with self._lock:
            record = self._runs.get(run_id)
            if record is None:
                return []
            return record.history()

    def history_page(self, run_id: str, /, after: int = 0, limit: int = 1000) -> tuple[list[Entry], int | None]:
        entries = self.history(run_id)
        end = after + limit
        return entries[after:end], end if end < len(entries) else None

    def history_at(self, run_id: str, paths: Sequence[str], /) -> list[Entry]:
        requested = set(paths)
        return [entry for entry in self.history(run_id) if entry.path in requested]

    def read_history(self, run_id: str, /) -> Iterator[list[Entry]]:
        entries = self.history(run_id)
        return (entries[first : first + _PAGE] for first in range(0, len(entries), _PAGE))

    def waits(self, *, signalled: bool = False) -> dict[str, tuple[list[Entry], list[Signal]]]:
        with self._lock:
            kept = {
                id: (record, [signal for signal in record.signals if signal.taken is None])
                for id, record in self._runs.items()
                if record.status not in ENDS
            }
            live_runs = {id: (r.history(), signals) for id, (r, signals) in kept.items() if signals or not signalled}
        return {
            id: (entries, signals)
            for id, (entries, signals) in sorted(live_runs.items())
            if any(entry.kind == "wait" for entry in entries)
        }

    def request_stop(self, run_id: str) -> bool:
        with self._changing:
            record = self._runs.get(run_id)
            if record is None or record.status in ENDS:
                return False
            record.stop_requested = True
            self._end(record, "stopped")
            self._changed("run", run_id)
            if record.log is not None:
                record.log.stop_soon()
            return True

    def orphans(self, limit: int = 100, *, among: Collection[str] | None = None) -> list[RunRow]:
        with self._lock:
            now = time.time()
            orphaned = [
                r
                for r in self._runs.values()
                if (among is None or r.new.id in among)
                and (
                    (not r.has_owner and r.status == "running")
                    or (r.status == "waiting" and r.due is not None and r.due <= now)
                )
            ]
            return [record.light() for record in orphaned[:limit]]

    def undo_due(self, limit: int = 100, /) -> list[str]:
        with self._lock:
            due = [r for r in self._runs.values() if r.new.undo_policy is not None and r.undo is None]
            return [r.new.id for r in due if r.status in UNSUCCESSFUL and r.new.parent is None][:limit]

    def skip_undo(self, run_id: str, /) -> None:
        with self._changing:
            record = self._runs.get(run_id)
            if record is not None and record.undo is None and record.ended_at is not None:
                record.undo = ""
                self._changed("run", run_id)

    def send(self, run_id: str, name: str, payload: Json = None, /, *, id: str | None = None) -> bool:
        from .sql.signals import check_same_signal, new_signal, wakes_run  # only where something is sent

        signal = new_signal(name, payload, id)
        with self._changing:
            record = self._runs.get(run_id)
            if record is None:
                raise NotFound("run", run_id)
            for old in record.signals:
                if old.id == signal.id:
                    check_same_signal(run_id, old, signal)
                    return False
            if record.status in ENDS:
                raise RunEnded(run_id, record.status)
            record.signals = [*record.signals, signal]
            waits = [entry for entry in record.history() if entry.kind == "wait"] if record.status == "waiting" else []
            if record.status == "waiting" and wakes_run(name, waits):
                record.status, record.due = "running", None
            self._changed("run", run_id)
            if record.log is not None:
                record.log.signal_soon()
            return True

    def signals(self, run_id: str) -> list[Signal]:
        with self._lock:
            record = self._runs.get(run_id)
            return [] if record is None else list(record.signals)

    def hear(self, callback: NewsCallback, /) -> Callable[[], None] | None:
        return None

    def prune(
        self,
        *,
        before: float | None = None,
        keep: int | None = None,
        status: Sequence[str] = (),
        dry: bool = False,
        most: int | None = None,
    ) -> Pruned:
        with self._changing:
            runs = self._runs
            candidates = [r for r in runs.values() if r.ended_at is not None and (r.new.parent or "") not in runs]
            candidates = [r for r in candidates if not status or r.status in status]
            surplus = len(candidates) - keep if keep is not None else 0
            old = [
                r
                for i, r in enumerate(candidates)
                if i < surplus or (before is not None and (r.ended_at or 0) < before)
            ]
            doomed = old[:most]
            doomed_with_parts = list(doomed)
            for record in doomed_with_parts:  # the list grows by their parts
                doomed_with_parts += [part for part in runs.values() if part.new.parent == record.new.id]
            size = sum(record.size() for record in doomed_with_parts)
            if not dry:
                for record in doomed_with_parts:
                    self._delete(record)
                self._drop_accounts()
                self._drop_unused({(r.new.kind, r.new.definition_id, r.new.fingerprint) for r in runs.values()})
            return Pruned(runs=len(doomed), bytes=size)

    def _delete(self, record: Record) -> None:
        del self._runs[record.new.id]

    async def open(self, run: NewRun) -> MemoryLog:
        check_json(run.id, "run id")
        with self._lock:
            self._check_open()
            record = self._runs.get(run.id)
            if record is not None:
                return self._take_over(record, again=False)
            with self._changing:
                record = self._create(run)
            return self._hold(record, dict(record.entries))

    async def reopen(self, run_id: str, *, again: bool = False) -> MemoryLog:
        with self._lock:
            self._check_open()
            record = self._runs.get(run_id)
            if record is None:
                raise NotFound("run", run_id)
            return self._take_over(record, again=again)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for record in self._runs.values():
                record.log = None

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed")

    def _create(self, run: NewRun) -> Record:
        if run.definition_id is not None:
            key = (run.kind, run.definition_id)
            self._counts[key] = self._counts.get(key, 0) + 1
            self._changed("definition", *key)
        if run.undoes is not None:
            begin_undo(self._runs, run, self.durable)
            self._changed("run", run.undoes)
            for calls in run.undoes_calls:
                for path in calls.paths:
                    self._changed("entry", calls.run, path, UNDONE)
        record = self._runs[run.id] = Record(run)
        source = self._runs.get(run.forked_from or "")
        if source is not None and run.copies:
            recorded = {(e.path, e.kind): e for e in source.history()}
            copies = [(to, recorded[of]) for of, to in run.copies.items() if of in recorded]
            record.entries = {to: dataclasses.replace(e, path=to[0], kind=to[1]) for to, e in copies}
        self._changed("new", run.id)
        for key in record.entries:
            self._changed("entry", run.id, *key)
        return record

    def _take_over(self, record: Record, *, again: bool) -> MemoryLog:
        past = {(e.path, e.kind): e for e in record.history()}
        if record.status in ENDS and not again:
            return self.log_class(self, record, past, finished=record.row())
        if record.undo:
            raise RunUndone(record.new.id, record.undo)
        if record.has_owner and record.status == "running":
            raise RunBusy(record.new.id, OWNER)
        with self._changing:
            if record.status in ENDS:
                require_not_undone(record)
                record.begin_again(past)
                self._changed("entry", record.new.id, f"#{record.epoch}", "ending")
            record.status, record.due = "running", None
            record.spent = record.elapsed()
            record.epoch += 1
            self._changed("run", record.new.id)
        return self._hold(record, past)

    def _hold(self, record: Record, past: dict[Key, Entry]) -> MemoryLog:
        record.log = self.log_class(self, record, past)
        return record.log

    def _end(self, record: Record, status: str) -> None:
        record.status, record.ended_at = status, time.time()
        self._ended_records.append(record)
        if len(self._ended_records) > self._keep:
            oldest = self._ended_records.popleft()
            # It may have been restarted or pruned since.
            if oldest.status in ENDS and self._runs.get(oldest.new.id) is oldest:
                del self._runs[oldest.new.id]
                if any(oldest.new.id in members for members in self._members.values()):
                    self._drop_accounts()


class MemoryLog:
    """The journal of one run in memory."""

    # Appending is one dictionary write, or nothing at all.

    def __init__(
        self, store: MemoryStore, record: Record, past: dict[Key, Entry], finished: RunRow | None = None
    ) -> None:
        self.past, self.finished, self.resumed = past, finished, record.epoch > 1
        self._store, self._record = store, record
        self._loop = asyncio.get_running_loop()
        self._committed: asyncio.Future[None] | None = None
        self._on_stop: Callable[[], None] | None = None
        self.on_signal: Callable[[], None] | None = None
        self._stopped = False

    @property
    def abandoned(self) -> bool:
        """True if the event loop of the log was closed."""
        return self._loop.is_closed()

    @cached_property
    def run(self) -> RunRow:
        """The run, as it was at the first access."""
        return self._record.row()

    @property
    def _committed_future(self) -> asyncio.Future[None]:
        if self._committed is None:
            self._committed = self._loop.create_future()
            self._committed.set_result(None)
        return self._committed

    @property
    def on_stop(self) -> Callable[[], None] | None:
        return self._on_stop

    @on_stop.setter
    def on_stop(self, callback: Callable[[], None] | None) -> None:
        self._on_stop = callback
        if self._stopped:
            self._call_on_stop()

    def append(self, entry: Entry) -> asyncio.Future[None]:
        record = self._record
        if record.log is not self:
            return self._failed(self._not_owned_error())
        if self._store.durable:
            key = (entry.path, entry.kind)
            old = record.entries.get(key)
            if old is not None and entry.kind in DECISIONS:
                if old.digest == entry.digest and old.data == entry.data:
                    return self._committed_future
                return self._failed(JournalConflict(self.run.id, entry.path, f"another {entry.kind} is recorded here"))
            record.entries[key] = entry
            record.keep_contents(entry.data)
            self._store._changed("entry", record.new.id, *key)
        return self._committed_future

    async def forget(self, keys: Iterable[Key]) -> None:
        with self._store._changing:
            if self._record.log is not self:
                raise self._not_owned_error()
            for key in keys:
                self._record.entries.pop(key, None)
                self.past.pop(key, None)
                self._store._changed("entry", self._record.new.id, *key)

    async def take(self, waits: Sequence[OpenWait]) -> list[Entry]:
        from .sql.signals import signal_entry  # only where something waits

        with self._store._changing:
            record = self._record
            if record.log is not self:
                raise self._not_owned_error()
            pending = [signal for signal in record.signals if signal.taken is None]
            matches = match_signals(waits, pending)
            path_by_signal = {signal.id: wait.path for wait, signal in matches}
            if path_by_signal:
                record.signals = [
                    dataclasses.replace(signal, taken=path_by_signal.get(signal.id, signal.taken))
                    for signal in record.signals
                ]
            entries = [signal_entry(wait, signal) for wait, signal in matches]
            if self._store.durable:
                record.entries |= {(entry.path, entry.kind): entry for entry in entries}
            for entry in entries:
                self._store._changed("entry", record.new.id, entry.path, entry.kind)
            if entries:
                self._store._changed("run", record.new.id)
            return entries

    async def park(self, due: float | None, names: Collection[str] = ()) -> bool:
        with self._store._changing:
            record = self._record
            if record.log is not self:
                raise self._not_owned_error()
            has_signal = any(signal.taken is None and signal.name in names for signal in record.signals)
            if has_signal or record.status != "running":
                return False
            record.status, record.due, record.log = "waiting", due, None
            self._store._changed("run", record.new.id)
            return True

    async def pin(self, document: Json, fingerprint: str) -> None:
        with self._store._changing:
            if self._record.log is not self:
                raise self._not_owned_error()
            self._record.new = dataclasses.replace(self._record.new, document=document, fingerprint=fingerprint)
            self._store._changed("new", self._record.new.id)
            self.__dict__.pop("run", None)

    async def finish(self, status: str, result: Json, error: Json = None, *, results: int = 0, errors: int = 0) -> str:
        if status not in ENDS:
            raise ValueError(f"{status!r} is not the status of an ended run; use one of {', '.join(ENDS)}")
        with self._store._changing:
            record = self._record
            if record.log is not self:
                raise self._not_owned_error()
            record.result, record.error, record.result_count, record.error_count = result, error, results, errors
            record.keep_contents(result)
            if record.status == "running":
                self._store._end(record, status)
            record.log = None
            self._store._changed("run", record.new.id)
            return record.status

    async def release(self) -> None:
        if self._record.log is not self:
            return
        with self._store._changing:
            self._record.spent, self._record.log = self._record.elapsed(), None
            self._store._changed("run", self._record.new.id)

    def touch(self, current_node: str, spent: float) -> None:
        self._record.current_node, self._record.spent = current_node, spent

    def attach(self, live: Live) -> None:
        self._record.live = live

    def stop_soon(self) -> None:
        """Call `on_stop` on the event loop."""

        # Safe from any thread.
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing runs
            self._loop.call_soon_threadsafe(self._call_on_stop)

    def signal_soon(self) -> None:
        """Call `on_signal` on the event loop."""

        # Safe from any thread.
        with contextlib.suppress(RuntimeError):  # The loop is closed.
            self._loop.call_soon_threadsafe(lambda: self.on_signal() if self.on_signal is not None else None)

    def _call_on_stop(self) -> None:
        self._stopped = True
        if self._on_stop is not None:
            callback, self._on_stop = self._on_stop, None
            callback()

    def _not_owned_error(self) -> StoreError:
        if self._record.log is None:
            return StoreError(f"run {self.run.id}: the log is closed; reopen the run to continue it")
        return Fenced(self.run.id)

    def _failed(self, error: StoreError | JournalConflict) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self._loop.create_future()
        future.set_exception(error)
        future.exception()  # retrieved, so that a caller need not await it
        return future
