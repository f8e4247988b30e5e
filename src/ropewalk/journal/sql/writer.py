"""Writes to a SQL database: one connection, one lock, whole batches in one commit.

Each event loop gathers what it wants written in a `WriteBatch` (`write_batch.py`), and hands it over once per turn of
the loop. The writer's thread takes all that is waiting into one commit and wakes each loop once. It also renews leases
and looks for stop requests, but only while runs are open; otherwise it sleeps. `Batches` cuts long work into
transactions that are quick whatever the disk and the size of the rows, so that it does not hold up others.

To add a database, subclass `Writer` and implement its abstract methods, as `sqlite/store.py` and `postgres/store.py`
do. Refused: use after `close`, and after os.fork.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from ...errors import RopewalkError, StoreError
from ..news import News, NewsCallback
from .blobs import INLINE, Blob, pack
from .lease_watch import LeaseWatcher
from .ports import OpenRun
from .rows import Connection, Row, keep_blob
from .write_batch import Item, Outcomes, WriteBatch

T = TypeVar("T")


class QueuedBatch(NamedTuple):
    """Items on their way to the writer's thread, and the batch that gets their results."""

    batch: WriteBatch
    items: list[Item]


_MAX_ITEMS: Final = 5000


class Writer(ABC):
    """The write side of one store."""

    # Public methods are safe from any thread.
    # `name` is the name of the store in messages. `failures` are the exceptions of the database and its driver.

    connection: Connection

    def __init__(self, name: str, failures: tuple[type[Exception], ...], lease: float, poll: float) -> None:
        self.name, self.failures = name, failures
        self.refusal = ""  # why the store can no longer be used; empty while it can
        self.lock = threading.Lock()
        self.watch = LeaseWatcher(self, lease, poll)
        self._read_lock = threading.Lock()
        self._queue: queue.SimpleQueue[QueuedBatch | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._start_lock = threading.Lock()
        self._wakes_by_itself = False  # whether the thread wakes by itself
        self._batches: dict[asyncio.AbstractEventLoop, WriteBatch] = {}
        self._thread_waits = False  # whether the thread wants the lock, which it then gets first
        self._has_failures = False  # whether some run may have a failure that its loop does not know of
        _WRITERS.add(self)

    run_column = "run"
    """The column of the run in queries that find an entry by its place in the order."""

    # --- what a database does in its own way; the lock is held, but for `read_once` -------------

    @abstractmethod
    def transaction(self, work: Callable[[Connection], T]) -> T:
        """Call `work` in one transaction."""

    @abstractmethod
    def exclusive_transaction(self, work: Callable[[Connection], T]) -> T:
        """Call `work` in one transaction, while nobody claims a run or stores a big value."""

    @abstractmethod
    def retry_transient(self, work: Callable[[], T]) -> T:
        """Call `work`, and again while the obstacle may pass."""

        # It may run twice.

    @abstractmethod
    def read_once(self, work: Callable[[Connection], T]) -> T:
        """Call `work` on the connection for reading; one call at a time."""

    @abstractmethod
    def insert(self, rows: list[Row]) -> Outcomes:
        """Write entries whose run is still at their epoch; return None if all of them are."""

    @abstractmethod
    def failure(self, error: Exception) -> StoreError:
        """Return the error for the user of one of `failures`, with what to do."""

    @abstractmethod
    def columns(self, connection: Connection, table: str) -> list[str]:
        """Return the names of a table's columns."""

    @abstractmethod
    def connections(self) -> Iterable[Any]:
        """Return all open connections."""

    def is_fault_of_one_item(self, error: Exception) -> bool:
        """Return True if the other items of a failed batch can be written without the one that failed."""
        return False

    def commit_on_loop(self, batch: WriteBatch, items: list[Item]) -> bool:
        """Write a batch on the thread of its event loop if that is quick."""
        return False

    def withdraw_batches(self) -> list[QueuedBatch]:
        """Return the batches that `commit_on_loop` has in progress, so that closing can write them."""
        return []

    def announce(self, connection: Connection, news: News) -> None:  # noqa: B027 - not every database can
        """Announce news to other processes when the transaction commits."""

        # `connection`: The connection in its transaction.

    def announce_soon(self, news: News) -> None:  # noqa: B027 - not every database can
        """Announce committed news to other processes."""

        # Safe from any thread.

    def hear(self, callback: NewsCallback) -> Callable[[], None] | None:
        """Call `callback` with the news of other processes."""

        # `callback`: A function of the news, called on another thread.
        return None

    def listens_for_changes(self) -> bool:
        """Return True if the database announces changes, so that `watch.look_soon` is called for each."""

        # Called after each look.
        return False

    def version(self) -> int | None:
        """Return a number that changes when another process writes; None if the database has none."""
        return None

    def check_location(self) -> None:  # noqa: B027 - a server sees to it itself
        """Look whether the store is still where it was opened; if it is not, whatever is written fails from then on,
        until it is back."""

    def after_round(self) -> None:  # noqa: B027 - not every database has to
        """Called by the thread after each round."""

    def shrink(self, pages: int) -> bool:
        """Give back at most the given number of pages that pruning has freed; return True while there are more."""
        return False

    # --- from event loops -----------------------------------------------------------------

    def batch_of_loop(self) -> WriteBatch:
        """Return the batch of the running loop."""
        loop = asyncio.get_running_loop()
        batch = self._batches.get(loop)
        if batch is None:
            with self._start_lock:
                for old in [old for old in self._batches if old.is_closed()]:
                    del self._batches[old]
                batch = self._batches[loop] = WriteBatch(self, loop)
        return batch

    def put(self, batch: WriteBatch, items: list[Item]) -> None:
        """Queue a batch for the writer's thread, and start the thread if necessary."""
        with self._start_lock:  # Not after `close` has looked for the last time.
            if self.refusal:
                batch.set_results_soon(items, [StoreError(f"{self.name}: {self.refusal}")] * len(items))
                return
            self._queue.put(QueuedBatch(batch, items))
        if self._thread is None:
            self._start()

    def wake_regularly(self) -> None:
        """Have the thread look at the open runs from now on."""
        if not self._wakes_by_itself:
            self.wake_once()

    def wake_once(self) -> None:
        """Have the thread go round once."""
        self._queue.put(_NUDGE)
        if self._thread is None:
            self._start()

    # --- from any thread ------------------------------------------------------------------

    def run(self, work: Callable[[Connection], T]) -> T:
        """Call a function in a write transaction, now."""

        # It must be short.
        return self._run(lambda: self.transaction(work))

    def _run(self, work: Callable[[], T]) -> T:
        self.check()
        with self.lock:
            try:
                return self.retry_transient(work)
            except self.failures as error:
                raise self.failure(error) from error

    def run_exclusive(self, work: Callable[[Connection], T]) -> T:
        """Call a function in a write transaction, while nobody claims a run or stores a big value."""
        return self._run(lambda: self.exclusive_transaction(work))

    def read(self, work: Callable[[Connection], T]) -> T:
        """Read what is committed."""
        self.check()
        with self._read_lock:
            try:
                return self.read_once(work)
            except self.failures as error:
                raise self.failure(error) from error

    def read_long(self, work: Callable[[Connection], T]) -> T:
        """Read as `read` does what takes long; where the database can, other reads do not wait for it."""
        return self.read(work)

    def check(self) -> None:
        """Refuse further use of a store that is closed or lost."""
        if self.refusal:
            raise StoreError(f"{self.name}: {self.refusal}")

    def close(self) -> None:
        """Write what is waiting, release the runs, close the file."""

        # Idempotent.
        with self._start_lock:
            if self.refusal:
                return
            self.refusal = "the store is closed"
        if self._thread is not None and self._thread is not threading.current_thread():
            self._queue.put(None)
            self._thread.join()
        unwritten = self.withdraw_batches()
        for batch in list(self._batches.values()):
            if items := batch.take():
                unwritten.append(QueuedBatch(batch, items))
        # The thread may have left batches in the queue when it ended.
        with contextlib.suppress(queue.Empty):
            while (queued := self._queue.get_nowait()) is not None:
                if queued is not _NUDGE:
                    unwritten.insert(0, queued)
        with self.lock, self._read_lock:
            if unwritten:
                self._commit_all(unwritten)
            # Unreleased, they are taken over once this process has ended; nothing is lost.
            with contextlib.suppress(*self.failures):
                self.retry_transient(self.watch.release_all)
            for connection in self.connections():
                # What SQLite cannot tidy up stays in its log, for the next who opens the store.
                with contextlib.suppress(*self.failures):
                    connection.close()

    def abandon(self) -> None:
        """In a forked child: never touch the parent's connections, not even to close them."""
        import ctypes  # imported late: few processes fork

        self.refusal = "the store was opened before os.fork; open another one in the child"
        for connection in self.connections():
            # Closing drops the parent's file locks, or ends its session: let it live for ever.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))

    # --- the writer thread ----------------------------------------------------------------

    def _start(self) -> None:
        with self._start_lock:
            if self._thread is None and not self.refusal:
                self._thread = threading.Thread(target=self._main, name="ropewalk-journal", daemon=True)
                self._thread.start()

    def _main(self) -> None:
        while True:
            self._wakes_by_itself = False
            # This order matters: a run is added before `wake_regularly` is called, which then looks at the attribute.
            self._wakes_by_itself = self.watch.needs_thread()
            queued, must_end = self._receive(self.watch.wait() if self._wakes_by_itself else None)
            self._thread_waits = True
            with self.lock:
                self._thread_waits = False
                if queued:
                    self._commit_all(queued)
                if self._wakes_by_itself:
                    self.watch.tick()
                self.after_round()
            if must_end:
                return

    def _receive(self, timeout: float | None) -> tuple[list[QueuedBatch], bool]:
        """Return all that is waiting, and whether the thread has to end."""
        batches: list[QueuedBatch] = []
        size = 0
        try:
            queued = self._queue.get(timeout=timeout)
            while True:
                if queued is None:
                    return batches, True
                if queued is not _NUDGE:
                    batches.append(queued)
                    size += len(queued.items)
                if size >= _MAX_ITEMS:
                    return batches, False
                queued = self._queue.get_nowait()
        except queue.Empty:
            return batches, False

    def _commit_all(self, batches: list[QueuedBatch]) -> None:
        """Write several batches in one commit, and set their results; if an item makes it fail, write run by run."""
        items = [item for queued in batches for item in queued.items]
        outcomes = self._attempt_without_failed(items) if self._has_failures else self._attempt(items)
        cause = outcomes.__cause__ if isinstance(outcomes, StoreError) else None
        if len(items) > 1 and isinstance(cause, Exception) and self.is_fault_of_one_item(cause):
            outcomes = self._attempt_in_groups(items, lambda log, _: id(log))
        if isinstance(outcomes, StoreError):
            outcomes = [outcomes] * len(items)
        # The outcomes are in the order of the items, one batch after another.
        start = 0
        for batch, own_items in batches:
            end = start + len(own_items)
            batch.set_results_soon(own_items, outcomes and self._mark_failed_runs(own_items, outcomes[start:end]))
            start = end

    def _mark_failed_runs(self, items: list[Item], outcomes: list[Any]) -> list[Any]:
        """Note the failure at each run that has one; return the outcomes."""

        # Nothing more of such a run is written until its event loop knows: it will send the lost entry again first.
        for (_, log, work), outcome in zip(items, outcomes, strict=True):
            if log is not None and isinstance(outcome, StoreError) and type(work) is tuple:
                log.failure = outcome
                self._has_failures = True
        return outcomes

    def _attempt_without_failed(self, items: list[Item]) -> Outcomes:
        """Write the items of all runs but those with a failure that their loop does not know of yet."""
        self._has_failures = any(log is not None and log.failure for _, log, _ in items)
        return self._attempt_in_groups(items, lambda log, _: bool(log is not None and log.failure))

    def _attempt_in_groups(self, items: list[Item], key: Callable[[OpenRun | None, Any], int]) -> Outcomes:
        """Write items that have the same key in one commit, in the order of the first of each group."""
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
            packed, blobs = _pack_large_values(items)
            return self.retry_transient(lambda: self.write(packed, blobs))
        except self.failures as error:
            return self.store_error(error)

    def store_error(self, error: Exception) -> StoreError:
        """Return the StoreError for one of `failures`, with the failure as its cause."""
        failure = self.failure(error)
        failure.__cause__ = error
        return failure

    def write(self, items: list[Item], blobs: list[tuple[Blob, int]]) -> Outcomes:
        """Write a batch in one commit."""

        # The lock is held.
        if not blobs and all(type(work) is tuple for _, _, work in items):
            return self.insert_in_one_commit([row for _, _, row in items])
        return self.transaction(lambda connection: self._apply(connection, items, blobs))

    def insert_in_one_commit(self, rows: list[Row]) -> Outcomes:
        """Write entries, and nothing else, in one commit."""
        return self.transaction(lambda _: self.insert(rows))

    def _apply(self, connection: Connection, items: list[Item], blobs: list[tuple[Blob, int]]) -> Outcomes:
        """Write a batch in order."""

        # A refused item is an exception among the outcomes; nothing of it is written and the others stand.
        for blob, run in blobs:
            keep_blob(connection, blob, run)
        outcomes: list[Any] = []
        rows: list[Row] = []
        for _, _, work in items:
            if type(work) is tuple:
                rows.append(work)
                continue
            outcomes += self.insert(rows) or [None] * len(rows)
            rows = []
            try:
                outcomes.append(work(connection))
            except RopewalkError as refusal:  # It refuses before it writes.
                outcomes.append(refusal)
        outcomes += self.insert(rows) or [None] * len(rows)
        return outcomes


def _pack_large_values(items: list[Item]) -> tuple[list[Item], list[tuple[Blob, int]]]:
    """Return the items with references in place of large values, and each blob with the number of its run."""
    big = [i for i, (_, _, row) in enumerate(items) if type(row) is tuple and row[4] and len(row[4]) > INLINE]
    if not big:
        return items, []
    blobs: list[tuple[Blob, int]] = []
    packed = list(items)
    for i in big:
        future, log, row = items[i]
        blob = pack(row[4])
        assert isinstance(blob, Blob)
        blobs.append((blob, row[0]))
        packed[i] = (future, log, (*row[:4], blob.ref, *row[5:]))
    return packed, blobs


def is_open_in_process(store: str, seq: int) -> bool:
    """Return True if any store object of this process has this run of this store open."""
    return any(writer.name == store and writer.watch.holds(seq) for writer in _open_writers())


def _abandon_all() -> None:
    for writer in _open_writers():
        writer.abandon()


def _open_writers() -> Iterator[Writer]:
    yield from list(_WRITERS)


_NUDGE: Final[Any] = object()  # in the queue of a writer: wakes its thread without a batch
_WRITERS: weakref.WeakSet[Writer] = weakref.WeakSet()
os.register_at_fork(after_in_child=_abandon_all)
