"""A store in memory: the same meaning as every other one, for one process and its lifetime.

It keeps references, hashes nothing and walks nothing. With `durable=False` (the default) it
keeps no entries at all: the engine has them, and `history` asks it through `Log.attach`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

from ..content import contents
from ..errors import Fenced, JournalConflict, NotFound, RunBusy, RunEnded, StoreError
from ..values import Json, check_json
from .filters import matches
from .journal import DECISIONS, ENDS, Definition, Entry, Key, Live, NewRun, Pruned, RunRow, Signal, Wanted
from .memory_definitions import MemoryDefinitions
from .memory_record import OWNER, Record, error_text
from .news import Hear
from .signal import arrival, given, outgoing, same, wakes
from .uses import MemoryUses

_PAGE: Final = 1000


class MemoryStore(MemoryDefinitions, MemoryUses):
    """Definitions and runs in this process. At most `keep` ended runs are remembered."""

    remote = False

    def __init__(self, durable: bool = False, *, keep: int = 1000) -> None:
        super().__init__()
        self.durable = durable
        self._keep = keep
        self._runs: dict[str, Record] = {}
        self._ended: deque[Record] = deque()
        self._closed = False
        contents.add_source(self)

    def content(self, hash: str) -> bytes | None:
        with self._lock:
            return next((r.contents[hash] for r in self._runs.values() if hash in r.contents), None)

    def list_versions(self, kind: str, id: str) -> list[Definition]:
        with self._lock:
            known = sorted(self._versions.get((kind, id), {}).values(), key=lambda d: -d.version)
            started = [(r.new.kind, r.new.definition_id, r.new.fingerprint) for r in self._runs.values()]
            return [dataclasses.replace(d, run_count=started.count((kind, id, d.fingerprint))) for d in known]

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
        wanted = {"kind": kind, "definition_id": definition_id, "status": status, "text": text, "since": since}
        wanted |= {"parent": parent, "top": top, "flow": flow, "until": until}
        found: list[RunRow] = []
        with self._lock:
            begun = after is None
            for record in reversed(self._runs.values()):
                if len(found) >= limit:
                    break
                if not begun:
                    begun = record.new.id == after
                    continue
                row = record.row()
                if matches(row, wanted, error_text(row) if text else ""):
                    found.append(record.light())
        return found

    def history(self, run_id: str) -> list[Entry]:
        with self._lock:
            record = self._runs.get(run_id)
            if record is None:
                return []
            return record.history()

    def history_page(self, run_id: str, /, after: int = 0, limit: int = 1000) -> tuple[list[Entry], int | None]:
        found = self.history(run_id)
        end = after + limit
        return found[after:end], end if end < len(found) else None

    def history_at(self, run_id: str, paths: Sequence[str], /) -> list[Entry]:
        wanted = set(paths)
        return [entry for entry in self.history(run_id) if entry.path in wanted]

    def read_history(self, run_id: str, /) -> Iterator[list[Entry]]:
        found = self.history(run_id)
        return (found[first : first + _PAGE] for first in range(0, len(found), _PAGE))

    def waits(self) -> dict[str, tuple[list[Entry], list[Signal]]]:
        with self._lock:
            going = {id: (r.history(), r.signals) for id, r in self._runs.items() if r.status not in ENDS}
        return {
            id: (entries, [signal for signal in signals if signal.taken is None])
            for id, (entries, signals) in sorted(going.items())
            if any(entry.kind == "wait" for entry in entries)
        }

    def request_stop(self, run_id: str) -> bool:
        with self._lock:
            record = self._runs.get(run_id)
            if record is None or record.status in ENDS:
                return False
            record.stop_requested = True
            self._end(record, "stopped")
            if record.log is not None:
                record.log.stop_soon()
            return True

    def orphans(self, limit: int = 100) -> list[RunRow]:
        with self._lock:
            now = time.time()
            found = [
                r
                for r in self._runs.values()
                if (not r.held and r.status == "running")
                or (r.status == "waiting" and r.due is not None and r.due <= now)
            ]
            return [record.light() for record in found[:limit]]

    def send(self, run_id: str, name: str, payload: Json = None, /, *, id: str | None = None) -> bool:
        signal = outgoing(name, payload, id)
        with self._lock:
            record = self._runs.get(run_id)
            if record is None:
                raise NotFound("run", run_id)
            for old in record.signals:
                if old.id == signal.id:
                    same(run_id, old, signal)
                    return False
            if record.status in ENDS:
                raise RunEnded(run_id, record.status)
            record.signals = [*record.signals, signal]
            waits = [entry for entry in record.history() if entry.kind == "wait"] if record.status == "waiting" else []
            if record.status == "waiting" and wakes(name, waits):
                record.status, record.due = "running", None
            if record.log is not None:
                record.log.signal_soon()
            return True

    def signals(self, run_id: str) -> list[Signal]:
        with self._lock:
            record = self._runs.get(run_id)
            return [] if record is None else list(record.signals)

    def hear(self, callback: Hear, /) -> Callable[[], None] | None:
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
        with self._lock:
            runs = self._runs
            ended = [r for r in runs.values() if r.ended_at is not None and (r.new.parent or "") not in runs]
            ended = [r for r in ended if not status or r.status in status]
            surplus = len(ended) - keep if keep is not None else 0
            old = [r for i, r in enumerate(ended) if i < surplus or (before is not None and (r.ended_at or 0) < before)]
            gone = old[:most]
            every = list(gone)
            for record in every:  # grows by their parts
                every += [part for part in runs.values() if part.new.parent == record.new.id]
            size = sum(record.size() for record in every)
            if not dry:
                for record in every:
                    del runs[record.new.id]
                self._drop_unused({(r.new.kind, r.new.definition_id, r.new.fingerprint) for r in runs.values()})
            return Pruned(runs=len(gone), bytes=size)

    async def open(self, run: NewRun) -> MemoryLog:
        check_json(run.id, "run id")
        with self._lock:
            self._check_open()
            record = self._runs.get(run.id)
            if record is None:
                record = self._create(run)
                return self._hold(record, dict(record.entries))
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

    def _create(self, run: NewRun) -> Record:
        if run.definition_id is not None:
            key = (run.kind, run.definition_id)
            self._counts[key] = self._counts.get(key, 0) + 1
        record = self._runs[run.id] = Record(run)
        source = self._runs.get(run.forked_from or "")
        if source is not None and run.copies:
            held = {(e.path, e.kind): e for e in source.history()}
            copies = [(to, held[of]) for of, to in run.copies.items() if of in held]
            record.entries = {to: dataclasses.replace(e, path=to[0], kind=to[1]) for to, e in copies}
        return record

    def _take_over(self, record: Record, *, again: bool) -> MemoryLog:
        past = {(e.path, e.kind): e for e in record.history()}
        if record.status in ENDS and not again:
            return MemoryLog(self, record, past, finished=record.row())
        if record.held and record.status == "running":
            raise RunBusy(record.new.id, OWNER)
        if record.status in ENDS:
            record.begin_again(past)
        record.status, record.due = "running", None
        record.spent = record.elapsed()
        record.epoch += 1
        return self._hold(record, past)

    def _hold(self, record: Record, past: dict[Key, Entry]) -> MemoryLog:
        record.log = MemoryLog(self, record, past)
        return record.log

    def _end(self, record: Record, status: str) -> None:
        record.status, record.ended_at = status, time.time()
        self._ended.append(record)
        if len(self._ended) > self._keep:
            oldest = self._ended.popleft()
            # It may have been set running again, or pruned, since.
            if oldest.status in ENDS and self._runs.get(oldest.new.id) is oldest:
                del self._runs[oldest.new.id]


class MemoryLog:
    """The journal of one run in memory. Appending is one dictionary write, or nothing at all."""

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
        """Whether its event loop was closed under it."""
        return self._loop.is_closed()

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
            record.keep_contents(entry.data)
        return self._done

    async def forget(self, keys: Iterable[Key]) -> None:
        with self._store._lock:
            if self._record.log is not self:
                raise self._lost()
            for key in keys:
                self._record.entries.pop(key, None)
                self.past.pop(key, None)

    async def take(self, waits: Sequence[Wanted]) -> list[Entry]:
        with self._store._lock:
            record = self._record
            if record.log is not self:
                raise self._lost()
            found = given(waits, [signal for signal in record.signals if signal.taken is None])
            taken = {signal.id: wait.path for wait, signal in found}
            if taken:
                record.signals = [
                    dataclasses.replace(one, taken=taken[one.id]) if one.id in taken else one for one in record.signals
                ]
            entries = [arrival(wait, signal) for wait, signal in found]
            if self._store.durable:
                record.entries |= {(entry.path, entry.kind): entry for entry in entries}
            return entries

    async def park(self, due: float | None, names: Collection[str] = ()) -> bool:
        with self._store._lock:
            record = self._record
            if record.log is not self:
                raise self._lost()
            kept = any(signal.taken is None and signal.name in names for signal in record.signals)
            if kept or record.status != "running":
                return False
            record.status, record.due, record.log = "waiting", due, None
            return True

    async def pin(self, document: Json, fingerprint: str) -> None:
        with self._store._lock:
            if self._record.log is not self:
                raise self._lost()
            self._record.new = dataclasses.replace(self._record.new, document=document, fingerprint=fingerprint)
            self.__dict__.pop("run", None)

    async def finish(self, status: str, result: Json, error: Json = None, *, results: int = 0, errors: int = 0) -> str:
        if status not in ENDS:
            raise ValueError(f"{status!r} does not end a run; one of {', '.join(ENDS)} does")
        with self._store._lock:
            record = self._record
            if record.log is not self:
                raise self._lost()
            record.result, record.error, record.result_count, record.error_count = result, error, results, errors
            record.keep_contents(result)
            if record.status == "running":
                self._store._end(record, status)
            record.log = None
            return record.status

    async def release(self) -> None:
        with self._store._lock:
            if self._record.log is self:
                self._record.spent, self._record.log = self._record.elapsed(), None

    def touch(self, current_node: str, spent: float) -> None:
        self._record.current_node, self._record.spent = current_node, spent

    def attach(self, live: Live) -> None:
        self._record.live = live

    def stop_soon(self) -> None:
        """From any thread: have `on_stop` called on the loop."""
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody is left to stop.
            self._loop.call_soon_threadsafe(self._tell)

    def signal_soon(self) -> None:
        """From any thread: have `on_signal` called on the loop."""
        with contextlib.suppress(RuntimeError):  # The loop is closed.
            self._loop.call_soon_threadsafe(lambda: self.on_signal() if self.on_signal is not None else None)

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
