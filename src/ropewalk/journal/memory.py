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
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from ..errors import Fenced, JournalConflict, NotFound, RunBusy, StoreError
from ..values import Json
from .journal import DECISIONS, STATUSES, Definition, Entry, Key, NewRun, RunRow, matches


class MemoryStore:
    """Definitions and runs in this process. At most `keep` ended runs are remembered."""

    def __init__(self, durable: bool = False, *, keep: int = 1000) -> None:
        self.durable = durable
        self._keep = keep
        self._lock = threading.RLock()
        self._definitions: dict[tuple[str, str], Definition] = {}
        self._runs: dict[str, _Record] = {}
        self._ended: deque[_Record] = deque()
        self._closed = False

    def put_definition(self, definition: Definition) -> None:
        key = (definition.kind, definition.id)
        with self._lock:
            old = self._definitions.get(key)
            created = old.created if old else definition.created or time.time()
            count = old.run_count if old else 0
            self._definitions[key] = dataclasses.replace(definition, created=created, run_count=count)

    def get_definition(self, kind: str, id: str) -> Definition | None:
        return self._definitions.get((kind, id))

    def list_definitions(self, kind: str | None = None) -> list[Definition]:
        with self._lock:
            return [d for key, d in sorted(self._definitions.items()) if kind in (None, key[0])]

    def delete_definition(self, kind: str, id: str) -> bool:
        with self._lock:
            return self._definitions.pop((kind, id), None) is not None

    def get_run(self, id: str) -> RunRow | None:
        with self._lock:
            record = self._runs.get(id)
            return record.snapshot() if record else None

    def list_runs(
        self,
        *,
        kind: str | None = None,
        definition_id: str | None = None,
        status: str | None = None,
        text: str | None = None,
        since: float | None = None,
        limit: int = 100,
    ) -> list[RunRow]:
        wanted = {"kind": kind, "definition_id": definition_id, "status": status, "text": text, "since": since}
        found: list[RunRow] = []
        with self._lock:
            for record in reversed(self._runs.values()):
                if len(found) >= limit:
                    break
                if matches(record.row, wanted, _error_text(record.row) if text else ""):
                    found.append(_light(record.snapshot()))
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
            if record is None or record.row.status != "running":
                return False
            self._end(record, status="stopped", stop_requested=True)
            if record.log is not None:
                record.log.stop_soon()
            return True

    def orphans(self, limit: int = 100) -> list[RunRow]:
        with self._lock:
            found = [r for r in self._runs.values() if r.log is None and r.row.status == "running"]
            return [_light(r.snapshot()) for r in found[:limit]]

    def prune(self, *, before: float | None = None, keep: int | None = None) -> int:
        with self._lock:
            ended = [r for r in self._runs.values() if r.row.status != "running"]
            surplus = len(ended) - keep if keep is not None else 0
            gone = [
                r for i, r in enumerate(ended) if i < surplus or (before is not None and (r.row.ended_at or 0) < before)
            ]
            for record in gone:
                del self._runs[record.row.id]
            return len(gone)

    async def open(self, run: NewRun) -> MemoryLog:
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
        row = RunRow(
            id=run.id,
            kind=run.kind,
            definition_id=run.definition_id,
            name=run.name,
            input=run.input,
            context=run.context,
            document=run.document,
            fingerprint=run.fingerprint,
            started_at=run.started_at or time.time(),
            owner=_OWNER,
        )
        if run.definition_id is not None:
            key = (run.kind, run.definition_id)
            if definition := self._definitions.get(key):
                count = definition.run_count + 1
                self._definitions[key] = dataclasses.replace(definition, run_count=count)
        record = self._runs[run.id] = _Record(row)
        return record

    def _take_over(self, record: _Record, *, again: bool) -> MemoryLog:
        row = record.row
        past = {(e.path, e.kind): e for e in record.history()}
        if row.status != "running" and not again:
            return MemoryLog(self, record, past, finished=record.snapshot())
        if record.log is not None and row.status == "running":
            raise RunBusy(row.id, _OWNER)
        record.row = dataclasses.replace(
            row, status="running", ended_at=None, stop_requested=False, owner=_OWNER, epoch=row.epoch + 1
        )
        return self._hold(record, past)

    def _hold(self, record: _Record, past: dict[Key, Entry]) -> MemoryLog:
        record.log = MemoryLog(self, record, past)
        return record.log

    def _end(self, record: _Record, **changes: Any) -> None:
        record.row = dataclasses.replace(record.row, ended_at=time.time(), **changes)
        self._ended.append(record)
        if len(self._ended) > self._keep:
            oldest = self._ended.popleft()
            # It may have been set running again, or pruned, since.
            if oldest.row.status != "running" and self._runs.get(oldest.row.id) is oldest:
                del self._runs[oldest.row.id]


class MemoryLog:
    """The journal of one run in memory. Appending is one dictionary write, or nothing at all."""

    def __init__(
        self, store: MemoryStore, record: _Record, past: Mapping[Key, Entry], finished: RunRow | None = None
    ) -> None:
        self.past, self.finished, self.run = past, finished, record.snapshot()
        self._store, self._record = store, record
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._done.set_result(None)
        self._on_stop: Callable[[], None] | None = None
        self._stopped = False

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

    async def finish(self, status: str, result: Json, error: Json = None, *, results: int = 0, errors: int = 0) -> str:
        if status not in STATUSES[1:]:
            raise ValueError(f"{status!r} does not end a run; one of {', '.join(STATUSES[1:])} does")
        with self._store._lock:
            record = self._record
            if record.log is not self:
                raise self._lost()
            record.row = dataclasses.replace(
                record.row, result=result, error=error, result_count=results, error_count=errors
            )
            if record.row.status == "running":
                self._store._end(record, status=status)
            record.log = None
            return record.row.status

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
    """A run, its live log if any, and what is kept of its entries."""

    __slots__ = ("current_node", "entries", "log", "row", "spent", "view")

    def __init__(self, row: RunRow) -> None:
        self.row = row
        self.entries: dict[Key, Entry] = {}
        self.view: Callable[[], list[Entry]] | None = None
        self.log: MemoryLog | None = None
        self.current_node, self.spent = "", 0.0

    def snapshot(self) -> RunRow:
        return dataclasses.replace(self.row, current_node=self.current_node, spent=self.spent)

    def history(self) -> list[Entry]:
        if self.entries or self.view is None:
            return list(self.entries.values())
        return self.view()


def _light(row: RunRow) -> RunRow:
    return dataclasses.replace(row, input=None, context=None, document=None, result=None)


def _error_text(row: RunRow) -> str:
    return "" if row.error is None else orjson.dumps(row.error).decode()


_OWNER = f"{socket.gethostname()} (pid {os.getpid()})"
