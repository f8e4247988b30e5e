"""Writes to the SQLite file: one connection, one lock, whole batches in one commit.

Appends are gathered per event loop and handed over once per turn of it. A few lone ones are
committed where they are while commits are quick, since a change of threads costs more than
they do; anything more goes to the writer thread, which takes all that is waiting into one
commit and wakes each loop once. The thread also renews leases and looks for stop requests, but
only while runs are open; otherwise it sleeps.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import queue
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

import apsw

from ..errors import RopewalkError, StoreError
from .blobs import INLINE, Blob, pack
from .database import BUSY, connect, open_database, store_error
from .inbox import Inbox, Item, Outcomes
from .journal import contains
from .sqlite_rows import Row, insert, keep_blob
from .watch import Watch

if TYPE_CHECKING:
    from .sqlite_log import SqliteLog

T = TypeVar("T")
Parcel: TypeAlias = tuple[Inbox, list[Item]]

_FEW: Final = 16
_QUICK: Final = 0.0003
_PAGES: Final = 1000
_MOST: Final = 5000


class Writer:
    """The write side of one store. Everything public is safe from any thread."""

    def __init__(self, path: Path, sync: Literal["normal", "full"], lease: float, poll: float) -> None:
        self.path = path
        self.refusal = ""  # Why nothing can be done any more; empty while all is well.
        self.lock = threading.Lock()
        self.connection = open_database(path, sync)
        self.watch = Watch(self, lease, poll)
        self._reader: apsw.Connection | None = None
        self._reading = threading.Lock()
        self._queue: queue.SimpleQueue[Parcel | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._timed = False  # Whether the thread wakes by itself.
        self._inboxes: dict[asyncio.AbstractEventLoop, Inbox] = {}
        self._thread_waits = False  # Whether the thread wants the lock: it goes first.
        self._here = False  # Whether the commit under way is on an event loop.
        self._cost = _QUICK if sync == "full" else 0.0  # Seconds a small commit takes, lately.
        self._trouble = False  # Whether some run may have a failure its loop has not heard of.
        self._pages = 0
        self._busy_since = 0.0
        self.connection.set_busy_handler(self._on_busy)
        self.connection.set_wal_hook(self._on_commit)
        _WRITERS.add(self)

    # --- from event loops -----------------------------------------------------------------

    def inbox(self) -> Inbox:
        """Where the running loop puts what it wants written."""
        loop = asyncio.get_running_loop()
        found = self._inboxes.get(loop)
        if found is None:
            with self._starting:
                for old in [old for old in self._inboxes if old.is_closed()]:
                    del self._inboxes[old]
                found = self._inboxes[loop] = Inbox(self, loop)
        return found

    def commit_here(self, items: list[Item]) -> tuple[bool, Outcomes]:
        """Commit on this very thread if that is quick: whether it was done, and what came of it."""
        if len(items) > _FEW or self._cost >= _QUICK or self._thread_waits or self.refusal:
            return False, None
        if not self.lock.acquire(blocking=False):
            return False, None
        self._here = True
        try:
            return True, self._timed_commit(items)
        except apsw.BusyError:
            return False, None
        except apsw.Error as error:
            failure = store_error(self.path, error)
            failure.__cause__ = error
            return True, [failure] * len(items)
        finally:
            self._here = False
            self.lock.release()

    def put(self, inbox: Inbox, items: list[Item]) -> None:
        with self._starting:  # Not after `close` has looked for the last time.
            if self.refusal:
                inbox.settle_soon(items, [StoreError(f"{self.path}: {self.refusal}")] * len(items))
                return
            self._queue.put((inbox, items))
        if self._thread is None:
            self._start()

    def wake(self) -> None:
        """Have the thread look at the open runs from now on."""
        if not self._timed:
            self._queue.put(_NUDGE)
            if self._thread is None:
                self._start()

    # --- from any thread ------------------------------------------------------------------

    def run(self, work: Callable[[apsw.Connection], T]) -> T:
        """Do `work` in a write transaction, now. Short things only."""
        self.check()
        with self.lock:
            try:
                return self.patiently(lambda: self._transaction(work))
            except apsw.Error as error:
                raise store_error(self.path, error) from error

    def read(self, work: Callable[[apsw.Connection], T]) -> T:
        """Do `work` on what is committed."""
        self.check()
        with self._reading:
            try:
                if self._reader is None:
                    self._reader = connect(self.path)
                    self._reader.create_scalar_function("has_text", _has_text, -1, deterministic=True)
                return work(self._reader)
            except apsw.Error as error:
                raise store_error(self.path, error) from error

    def check(self) -> None:
        if self.refusal:
            raise StoreError(f"{self.path}: {self.refusal}")

    def patiently(self, work: Callable[[], T]) -> T:
        """Do `work`, and again while another process is in the way, for BUSY seconds."""
        deadline = time.monotonic() + BUSY
        while True:
            try:
                return work()
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)

    def close(self) -> None:
        """Write what is waiting, release the runs, close the file. Idempotent."""
        with self._starting:
            if self.refusal:
                return
            self.refusal = "the store is closed"
        if self._thread is not None and self._thread is not threading.current_thread():
            self._queue.put(None)
            self._thread.join()
        left = [(inbox, items) for inbox in list(self._inboxes.values()) if (items := inbox.take())]
        with contextlib.suppress(queue.Empty):
            while (parcel := self._queue.get_nowait()) is not None:
                left.insert(0, parcel)
        with self.lock, self._reading:
            if left:
                self._commit_all(left)
            # Unreleased, they are taken over once this process has ended; nothing is lost.
            with contextlib.suppress(apsw.Error):
                self.patiently(self.watch.release_all)
            for connection in (self._reader, self.connection):
                if connection is not None:
                    # What cannot be tidied up stays in the log, for the next who opens the store.
                    with contextlib.suppress(apsw.Error):
                        connection.close()

    def abandon(self) -> None:
        """In a forked child: never touch the parent's connections, not even to close them."""
        self.refusal = "the store was opened before os.fork; open another one in the child"
        for connection in (self.connection, self._reader):
            if connection is not None:
                # Closing drops the file locks of the parent: let it live for ever.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))

    # --- the writer thread ----------------------------------------------------------------

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self.refusal:
                self._thread = threading.Thread(target=self._main, name="ropewalk-journal", daemon=True)
                self._thread.start()

    def _main(self) -> None:
        while True:
            self._timed = False
            # Told apart from `wake` by order: it adds a run first and looks at `_timed` then.
            self._timed = self.watch.wanted()
            parcels, last = self._receive(self.watch.wait() if self._timed else None)
            self._thread_waits = True
            with self.lock:
                self._thread_waits = False
                if parcels:
                    self._commit_all(parcels)
                if self._timed:
                    self.watch.tick()
                if self._pages >= _PAGES:
                    self._checkpoint()
            if last:
                return

    def _receive(self, timeout: float | None) -> tuple[list[Parcel], bool]:
        """All that is waiting, and whether the end was among it."""
        parcels: list[Parcel] = []
        size = 0
        try:
            parcel = self._queue.get(timeout=timeout)
            while True:
                if parcel is None:
                    return parcels, True
                if parcel is not _NUDGE:
                    parcels.append(parcel)
                    size += len(parcel[1])
                if size >= _MOST:
                    return parcels, False
                parcel = self._queue.get_nowait()
        except queue.Empty:
            return parcels, False

    def _commit_all(self, parcels: list[Parcel]) -> None:
        """One commit for everything; when that does not fit the disk, one per run, so that one
        huge value does not fail the others."""
        items = [item for _, some in parcels for item in some]
        outcomes = self._in_line(items) if self._trouble else self._attempt(items)
        if len(items) > 1 and isinstance(outcomes, StoreError) and isinstance(outcomes.__cause__, apsw.FullError):
            outcomes = self._in_groups(items, lambda log, _: id(log))
        if isinstance(outcomes, StoreError):
            outcomes = [outcomes] * len(items)
        start = 0
        for inbox, some in parcels:
            end = start + len(some)
            inbox.settle_soon(some, outcomes and self._mark(some, outcomes[start:end]))
            start = end

    def _mark(self, items: list[Item], outcomes: list[Any]) -> list[Any]:
        """Past a failure nothing more of that run is written until its loop knows: no entry that
        nobody awaited is lost unseen."""
        for (_, log, work), outcome in zip(items, outcomes, strict=True):
            if log is not None and isinstance(outcome, StoreError) and type(work) is tuple:
                log.failure = outcome
                self._trouble = True
        return outcomes

    def _in_line(self, items: list[Item]) -> Outcomes:
        self._trouble = any(log is not None and log.failure for _, log, _ in items)
        return self._in_groups(items, lambda log, _: bool(log is not None and log.failure))

    def _in_groups(self, items: list[Item], key: Callable[[SqliteLog | None, Any], int]) -> Outcomes:
        groups: dict[int, list[int]] = {}
        for i, (_, log, work) in enumerate(items):
            groups.setdefault(key(log, work), []).append(i)
        outcomes: list[Any] = [None] * len(items)
        for group in groups.values():
            log = items[group[0]][1]
            result = (log and log.failure) or self._attempt([items[i] for i in group])
            for at, i in enumerate(group):
                outcomes[i] = result if isinstance(result, StoreError) else result and result[at]
        return outcomes

    def _attempt(self, items: list[Item]) -> Outcomes | StoreError:
        try:
            packed, blobs = _pack_big(items)
            return self.patiently(lambda: self._timed_commit(packed, blobs))
        except apsw.Error as error:
            failure = store_error(self.path, error)
            failure.__cause__ = error
            return failure

    # --- committing; the lock is held -----------------------------------------------------

    def _timed_commit(self, items: list[Item], blobs: list[tuple[Blob, int]] | None = None) -> Outcomes:
        start = time.perf_counter()
        if len(items) == 1 and not blobs and type(items[0][2]) is tuple:
            outcomes: Outcomes = insert(self.connection, [items[0][2]])
        else:
            outcomes = self._transaction(lambda connection: _apply(connection, items, blobs or []))
        if len(items) <= _FEW:
            self._cost += (time.perf_counter() - start - self._cost) / 8
        return outcomes

    def _transaction(self, work: Callable[[apsw.Connection], T]) -> T:
        connection = self.connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            result = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return result

    def _on_busy(self, count: int) -> bool:
        """SQLite asks whether to try again: never on an event loop."""
        if self._here:
            return False
        now = time.monotonic()
        if count == 0:
            self._busy_since = now
        time.sleep(random.uniform(0.0005, 0.004))  # Uneven, so that several writers get turns.
        return now - self._busy_since < BUSY

    def _on_commit(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        """Copying the log back is the thread's work, never an event loop's."""
        self._pages = pages
        if pages >= _PAGES and self._here:
            self._queue.put(_NUDGE)
            if self._thread is None:
                self._start()
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        self._pages = 0
        # A failure leaves everything in the log, from where the next one takes it.
        with contextlib.suppress(apsw.Error):
            self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


def _pack_big(items: list[Item]) -> tuple[list[Item], list[tuple[Blob, int]]]:
    """The items with their big values replaced by references, and the blobs that takes."""
    blobs: list[tuple[Blob, int]] = []
    packed: list[Item] = []
    for item in items:
        future, log, row = item
        if type(row) is tuple and row[4] is not None and len(row[4]) > INLINE:
            blob = pack(row[4])
            assert isinstance(blob, Blob)
            blobs.append((blob, row[0]))
            item = (future, log, (*row[:4], blob.ref, *row[5:]))
        packed.append(item)
    return packed, blobs


def _apply(connection: apsw.Connection, items: list[Item], blobs: list[tuple[Blob, int]]) -> Outcomes:
    """Write a batch in order. A refused item is an exception among the outcomes; nothing of it
    is written and the others stand."""
    for blob, run in blobs:
        keep_blob(connection, blob, run)
    if all(type(work) is tuple for _, _, work in items):
        return insert(connection, [row for _, _, row in items])
    outcomes: list[Any] = []
    rows: list[Row] = []
    for _, _, work in items:
        if type(work) is tuple:
            rows.append(work)
            continue
        outcomes += insert(connection, rows) or [None] * len(rows)
        rows = []
        try:
            outcomes.append(work(connection))
        except RopewalkError as refusal:  # It refuses before it writes.
            outcomes.append(refusal)
    outcomes += insert(connection, rows) or [None] * len(rows)
    return outcomes


def _has_text(*values: Any) -> bool:
    text, *fields = [value.decode(errors="replace") if isinstance(value, bytes) else value for value in values]
    return contains(text, *fields)


def _abandon_all() -> None:
    for writer in _alive():
        writer.abandon()


def _alive() -> Iterator[Writer]:
    yield from list(_WRITERS)


_NUDGE: Final[Any] = object()
_WRITERS: weakref.WeakSet[Writer] = weakref.WeakSet()
os.register_at_fork(after_in_child=_abandon_all)
