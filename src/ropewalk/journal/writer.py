"""Writes to a database: one connection, one lock, whole batches in one commit.

Appends are gathered per event loop and handed over once per turn of it, to a thread that takes all
that is waiting into one commit and wakes each loop once. The thread also renews leases and looks
for stop requests, but only while runs are open; otherwise it sleeps. What is particular to one
database is in `sqlite_writer.py` and `postgres_writer.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import queue
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from ..errors import RopewalkError, StoreError
from .blobs import INLINE, Blob, pack
from .connection import Connection
from .inbox import Inbox, Item, Outcomes
from .news import Hear, News
from .sql_rows import Row, keep_blob
from .watch import Watch

if TYPE_CHECKING:
    from .sql_log import SqlLog

T = TypeVar("T")
Parcel: TypeAlias = tuple[Inbox, list[Item]]

_MOST: Final = 5000


class Writer(ABC):
    """The write side of one store. Everything public is safe from any thread.

    `name` is what messages call the store, `failures` what the database and its driver raise.
    """

    connection: Connection

    def __init__(self, name: str, failures: tuple[type[Exception], ...], lease: float, poll: float) -> None:
        self.name, self.failures = name, failures
        self.refusal = ""  # Why nothing can be done any more; empty while all is well.
        self.lock = threading.Lock()
        self.watch = Watch(self, lease, poll)
        self._reading = threading.Lock()
        self._queue: queue.SimpleQueue[Parcel | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._timed = False  # Whether the thread wakes by itself.
        self._inboxes: dict[asyncio.AbstractEventLoop, Inbox] = {}
        self._thread_waits = False  # Whether the thread wants the lock: it goes first.
        self._trouble = False  # Whether some run may have a failure its loop has not heard of.
        _WRITERS.add(self)

    run_column = "run"
    """How a query names the run of an entry where the entry is to be found by its place in the order."""

    # --- what a database does in its own way; the lock is held, but for `look` -------------

    @abstractmethod
    def transaction(self, work: Callable[[Connection], T]) -> T:
        """Do `work` whole or not at all."""

    @abstractmethod
    def alone(self, work: Callable[[Connection], T]) -> T:
        """The same, while nobody claims a run or stores a big value."""

    @abstractmethod
    def patiently(self, work: Callable[[], T]) -> T:
        """Do `work`, which may be done twice, and again while what is in its way may pass."""

    @abstractmethod
    def look(self, work: Callable[[Connection], T]) -> T:
        """Do `work` on the connection for reading; one at a time."""

    @abstractmethod
    def insert(self, rows: list[Row]) -> Outcomes:
        """Write entries whose run is still at their epoch; None when all of them are."""

    @abstractmethod
    def failure(self, error: Exception) -> StoreError:
        """What the user is told of one of `failures`, and what to do."""

    @abstractmethod
    def columns(self, connection: Connection, table: str) -> list[str]:
        """The names of a table's columns."""

    @abstractmethod
    def connections(self) -> Iterable[Any]:
        """All that are open."""

    def one_is_to_blame(self, error: Exception) -> bool:
        """Whether the others of a failed batch may do without the one whose fault it is."""
        return False

    def commit_here(self, inbox: Inbox, items: list[Item]) -> bool:
        """See to a batch on its event loop's thread if that is quick: whether the inbox has been told,
        or will be, what came of it."""
        return False

    def withdraw(self) -> list[Parcel]:
        """When closing: what `commit_here` has under way, to be written here."""
        return []

    def tell(self, connection: Connection, news: News) -> None:  # noqa: B027 - not every database can
        """Within a transaction: have other processes hear of it when it commits."""

    def tell_soon(self, news: News) -> None:  # noqa: B027 - not every database can
        """From any thread: have other processes hear of what is committed."""

    def hear(self, callback: Hear) -> Callable[[], None] | None:
        """See `Store.hear`."""
        return None

    def attend(self) -> bool:
        """Called while runs are open, each time they have been looked at: whether `watch.look_soon` is
        called when something is done to one."""
        return False

    def version(self) -> int | None:
        """Changes when another process has written; None when that cannot be told."""
        return None

    def see_place(self) -> None:  # noqa: B027 - a server sees to it itself
        """Look whether the store is still where it was opened; if it is not, whatever is written fails from then on,
        until it is back."""

    def tidy(self) -> None:  # noqa: B027 - not every database has to
        """Called by the thread after each round."""

    def shrink(self, pages: int) -> bool:
        """Give back at most the given number of pages that pruning has freed; return True while there are more."""
        return False

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

    def put(self, inbox: Inbox, items: list[Item]) -> None:
        with self._starting:  # Not after `close` has looked for the last time.
            if self.refusal:
                inbox.settle_soon(items, [StoreError(f"{self.name}: {self.refusal}")] * len(items))
                return
            self._queue.put((inbox, items))
        if self._thread is None:
            self._start()

    def wake(self) -> None:
        """Have the thread look at the open runs from now on."""
        if not self._timed:
            self.nudge()

    def nudge(self) -> None:
        """Have the thread go round once."""
        self._queue.put(_NUDGE)
        if self._thread is None:
            self._start()

    # --- from any thread ------------------------------------------------------------------

    def run(self, work: Callable[[Connection], T]) -> T:
        """Do `work` in a write transaction, now. Short things only."""
        return self._run(lambda: self.transaction(work))

    def _run(self, work: Callable[[], T]) -> T:
        self.check()
        with self.lock:
            try:
                return self.patiently(work)
            except self.failures as error:
                raise self.failure(error) from error

    def run_alone(self, work: Callable[[Connection], T]) -> T:
        """The same, while nobody claims a run or stores a big value."""
        return self._run(lambda: self.alone(work))

    def read(self, work: Callable[[Connection], T]) -> T:
        """Do `work` on what is committed."""
        self.check()
        with self._reading:
            try:
                return self.look(work)
            except self.failures as error:
                raise self.failure(error) from error

    def check(self) -> None:
        if self.refusal:
            raise StoreError(f"{self.name}: {self.refusal}")

    def close(self) -> None:
        """Write what is waiting, release the runs, close the file. Idempotent."""
        with self._starting:
            if self.refusal:
                return
            self.refusal = "the store is closed"
        if self._thread is not None and self._thread is not threading.current_thread():
            self._queue.put(None)
            self._thread.join()
        left = self.withdraw()
        left += [(inbox, items) for inbox in list(self._inboxes.values()) if (items := inbox.take())]
        with contextlib.suppress(queue.Empty):
            while (parcel := self._queue.get_nowait()) is not None:
                if parcel is not _NUDGE:
                    left.insert(0, parcel)
        with self.lock, self._reading:
            if left:
                self._commit_all(left)
            # Unreleased, they are taken over once this process has ended; nothing is lost.
            with contextlib.suppress(*self.failures):
                self.patiently(self.watch.release_all)
            for connection in self.connections():
                # What SQLite cannot tidy up stays in its log, for the next who opens the store.
                with contextlib.suppress(*self.failures):
                    connection.close()

    def abandon(self) -> None:
        """In a forked child: never touch the parent's connections, not even to close them."""
        self.refusal = "the store was opened before os.fork; open another one in the child"
        for connection in self.connections():
            # Closing drops the parent's file locks, or ends its session: let it live for ever.
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
                self.tidy()
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
        """One commit for everything; when that fails by one's fault, as a huge value that does not fit
        the disk, one per run."""
        items = [item for _, some in parcels for item in some]
        outcomes = self._in_line(items) if self._trouble else self._attempt(items)
        cause = outcomes.__cause__ if isinstance(outcomes, StoreError) else None
        if len(items) > 1 and isinstance(cause, Exception) and self.one_is_to_blame(cause):
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

    def _in_groups(self, items: list[Item], key: Callable[[SqlLog | None, Any], int]) -> Outcomes:
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
            return self.patiently(lambda: self.write(packed, blobs))
        except self.failures as error:
            return self.told(error)

    def told(self, error: Exception) -> StoreError:
        failure = self.failure(error)
        failure.__cause__ = error
        return failure

    def write(self, items: list[Item], blobs: list[tuple[Blob, int]]) -> Outcomes:
        """Write a batch in one commit. The lock is held."""
        if not blobs and all(type(work) is tuple for _, _, work in items):
            return self.insert_alone([row for _, _, row in items])
        return self.transaction(lambda connection: self._apply(connection, items, blobs))

    def insert_alone(self, rows: list[Row]) -> Outcomes:
        """Write entries, and nothing else, in one commit."""
        return self.transaction(lambda _: self.insert(rows))

    def _apply(self, connection: Connection, items: list[Item], blobs: list[tuple[Blob, int]]) -> Outcomes:
        """Write a batch in order. A refused item is an exception among the outcomes; nothing of it
        is written and the others stand."""
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


def _pack_big(items: list[Item]) -> tuple[list[Item], list[tuple[Blob, int]]]:
    """The items with their big values replaced by references, and the blobs that takes."""
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


def is_held(store: str, seq: int) -> bool:
    """Return True if any store object of this process has this run of this store open."""
    return any(writer.name == store and writer.watch.holds(seq) for writer in _alive())


def _abandon_all() -> None:
    for writer in _alive():
        writer.abandon()


def _alive() -> Iterator[Writer]:
    yield from list(_WRITERS)


_NUDGE: Final[Any] = object()
_WRITERS: weakref.WeakSet[Writer] = weakref.WeakSet()
os.register_at_fork(after_in_child=_abandon_all)
