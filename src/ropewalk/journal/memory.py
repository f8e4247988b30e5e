"""A store in memory: the same meaning as every other one, for one process and its lifetime.

It keeps references, hashes nothing and walks nothing. With `durable=False` (the default) it
keeps no entries at all: the engine has them, and `history` asks it through `Log.attach`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import cached_property

import orjson

from ..errors import Fenced, JournalConflict, NotFound, RunBusy, StoreError
from ..values import Json, check_json
from .journal import DECISIONS, STATUSES, Definition, Entry, Key, NewRun, RunRow, ending, matches


class MemoryStore:
    """Definitions and runs in this process. At most `keep` ended runs are remembered."""

    def __init__(self, durable: bool = False, *, keep: int = 1000) -> None:
        self.durable = durable
        self._keep = keep
        self._lock = threading.RLock()
        self._definitions: dict[tuple[str, str], Definition] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._runs: dict[str, _Record] = {}
        self._ended: deque[_Record] = deque()
        self._closed = False

    def put_definition(self, definition: Definition) -> None:
        key = (definition.kind, definition.id)
        with self._lock:
            old = self._definitions.get(key)
            created = old.created if old else definition.created or time.time()
            self._definitions[key] = dataclasses.replace(definition, created=created, run_count=0)
            if old is None:
                self._counts.pop(key, None)

    def get_definition(self, kind: str, id: str) -> Definition | None:
        found = self._definitions.get((kind, id))
        return None if found is None else self._counted(found)

    def list_definitions(self, kind: str | None = None) -> list[Definition]:
        with self._lock:
            return [self._counted(d) for key, d in sorted(self._definitions.items()) if kind in (None, key[0])]

    def delete_definition(self, kind: str, id: str) -> bool:
        with self._lock:
            return self._definitions.pop((kind, id), None) is not None

    def get_run(self, id: str) -> RunRow | None:
        with self._lock:
            record = self._runs.get(id)
            return record.row() if record else None

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
        wanted = {"kind": kind, "definition_id": definition_id, "status": status, "text": text, "since": since}
        wanted |= {"parent": parent, "top": top}
        found: list[RunRow] = []
        with self._lock:
            for record in reversed(self._runs.values()):
                if len(found) >= limit:
                    break
                row = record.row()
                if matches(row, wanted, _error_text(row) if text else ""):
                    found.append(record.light())
        return found

    def history(self, run_id: str) -> list[Entry]:
        with self._lock:
            record = self._runs.get(run_id)
            if record is None:
                return []
            return record.history()

    def request_stop(self, run_id: str) -> bool:
        with self._lock:
            record = self._runs.get(run_id)
            if record is None or record.status != "running":
                return False
            record.stop_requested = True
            self._end(record, "stopped")
            if record.log is not None:
                record.log.stop_soon()
            return True

    def orphans(self, limit: int = 100) -> list[RunRow]:
        with self._lock:
            found = [r for r in self._runs.values() if r.log is None and r.status == "running"]
            return [record.light() for record in found[:limit]]

    def prune(self, *, before: float | None = None, keep: int | None = None) -> int:
        with self._lock:
            ended = [r for r in self._runs.values() if r.status != "running"]
            surplus = len(ended) - keep if keep is not None else 0
            gone = [
                r for i, r in enumerate(ended) if i < surplus or (before is not None and (r.ended_at or 0) < before)
            ]
            for record in gone:
                del self._runs[record.new.id]
            return len(gone)

    async def open(self, run: NewRun) -> MemoryLog:
        check_json(run.id, "run id")
        with self._lock:
            self._check_open()
            record = self._runs.get(run.id)
            if record is None:
                record = self._create(run)
                return self._hold(record, {})
            return self._take_over(record, again=False)

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

    def _create(self, run: NewRun) -> _Record:
        if run.definition_id is not None:
            key = (run.kind, run.definition_id)
            self._counts[key] = self._counts.get(key, 0) + 1
        record = self._runs[run.id] = _Record(run)
        return record

    def _counted(self, definition: Definition) -> Definition:
        count = self._counts.get((definition.kind, definition.id), 0)
        if not count:
            return definition
        d = definition  # spelled out: `replace` takes three times as long, and every run comes by
        return Definition(
            kind=d.kind,
            id=d.id,
            name=d.name,
            document=d.document,
            fingerprint=d.fingerprint,
            created=d.created,
            run_count=count,
        )

    def _take_over(self, record: _Record, *, again: bool) -> MemoryLog:
        past = {(e.path, e.kind): e for e in record.history()}
        if record.status != "running" and not again:
            return MemoryLog(self, record, past, finished=record.row())
        if record.log is not None and record.status == "running":
            raise RunBusy(record.new.id, _OWNER)
        if record.status != "running":
            record.begin_again(past)
        record.epoch += 1
        return self._hold(record, past)

    def _hold(self, record: _Record, past: dict[Key, Entry]) -> MemoryLog:
        record.log = MemoryLog(self, record, past)
        return record.log

    def _end(self, record: _Record, status: str) -> None:
        record.status, record.ended_at = status, time.time()
        self._ended.append(record)
        if len(self._ended) > self._keep:
            oldest = self._ended.popleft()
            # It may have been set running again, or pruned, since.
            if oldest.status != "running" and self._runs.get(oldest.new.id) is oldest:
                del self._runs[oldest.new.id]


class MemoryLog:
    """The journal of one run in memory. Appending is one dictionary write, or nothing at all."""

    def __init__(
        self, store: MemoryStore, record: _Record, past: dict[Key, Entry], finished: RunRow | None = None
    ) -> None:
        self.past, self.finished, self.resumed = past, finished, record.epoch > 1
        self._store, self._record = store, record
        self._loop = asyncio.get_running_loop()
        self._committed: asyncio.Future[None] | None = None
        self._on_stop: Callable[[], None] | None = None
        self._stopped = False

    @cached_property
    def run(self) -> RunRow:
        """The run, as it was when this was first asked."""
        return self._record.row()

    @property
    def _done(self) -> asyncio.Future[None]:
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
            self._tell()

    def append(self, entry: Entry) -> asyncio.Future[None]:
        record = self._record
        if record.log is not self:
            return self._failed(self._lost())
        if self._store.durable:
            key = (entry.path, entry.kind)
            old = record.entries.get(key)
            if old is not None and entry.kind in DECISIONS:
                if old.digest == entry.digest and old.data == entry.data:
                    return self._done
                return self._failed(JournalConflict(self.run.id, entry.path, f"another {entry.kind} is recorded here"))
            record.entries[key] = entry
        return self._done

    async def forget(self, keys: Iterable[Key]) -> None:
        with self._store._lock:
            if self._record.log is not self:
                raise self._lost()
            for key in keys:
                self._record.entries.pop(key, None)
                self.past.pop(key, None)

    async def finish(self, status: str, result: Json, error: Json = None, *, results: int = 0, errors: int = 0) -> str:
        if status not in STATUSES[1:]:
            raise ValueError(f"{status!r} does not end a run; one of {', '.join(STATUSES[1:])} does")
        with self._store._lock:
            record = self._record
            if record.log is not self:
                raise self._lost()
            record.result, record.error, record.result_count, record.error_count = result, error, results, errors
            if record.status == "running":
                self._store._end(record, status)
            record.log = None
            return record.status

    async def release(self) -> None:
        with self._store._lock:
            if self._record.log is self:
                self._record.log = None

    def touch(self, current_node: str, spent: float) -> None:
        self._record.current_node, self._record.spent = current_node, spent

    def attach(self, view: Callable[[], list[Entry]]) -> None:
        self._record.view = view

    def stop_soon(self) -> None:
        """From any thread: have `on_stop` called on the loop."""
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody is left to stop.
            self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        self._stopped = True
        if self._on_stop is not None:
            callback, self._on_stop = self._on_stop, None
            callback()

    def _lost(self) -> StoreError:
        if self._record.log is None:
            return StoreError(f"run {self.run.id}: the log is closed; reopen the run to go on with it")
        return Fenced(self.run.id)

    def _failed(self, error: StoreError | JournalConflict) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self._loop.create_future()
        future.set_exception(error)
        future.exception()  # Looked at: not awaiting it is allowed.
        return future


class _Record:
    """A run, its live log if any, and what is kept of its entries. Its row is made when somebody
    asks: making one costs as much as running a few nodes."""

    __slots__ = (
        "current_node", "ended_at", "entries", "epoch", "error", "error_count", "log", "new", "result",
        "result_count", "spent", "started_at", "status", "stop_requested", "view",
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
        self.view: Callable[[], list[Entry]] | None = None
        self.log: MemoryLog | None = None

    def row(self) -> RunRow:
        new = self.new
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
            owner=_OWNER,
            epoch=self.epoch,
            spent=self.spent,
            current_node=self.current_node,
            result_count=self.result_count,
            error_count=self.error_count,
            stop_requested=self.stop_requested,
            parent=new.parent,
        )

    def light(self) -> RunRow:
        """The row without its large values, and with the results that a running run has so far."""
        row, count = self.row(), self.result_count
        if self.status == "running":
            count = sum(entry.kind in ("call", "node") for entry in self.history())
        return dataclasses.replace(row, input=None, context=None, document=None, result=None, result_count=count)

    def begin_again(self, past: dict[Key, Entry]) -> None:
        """An ended run runs once more; how it had ended stays among its facts."""
        told = self.status, self.ended_at, self.error, self.result_count, self.error_count, self.spent
        entry = ending(self.epoch, *told)
        self.entries[entry.path, entry.kind] = past[entry.path, entry.kind] = entry
        self.status, self.ended_at, self.stop_requested, self.spent = "running", None, False, 0.0
        self.result = self.error = None
        self.result_count = self.error_count = 0

    def history(self) -> list[Entry]:
        if self.entries or self.view is None:
            return list(self.entries.values())
        return self.view()


def _error_text(row: RunRow) -> str:
    return "" if row.error is None else orjson.dumps(row.error).decode()


_OWNER = f"{socket.gethostname()} (pid {os.getpid()})"
