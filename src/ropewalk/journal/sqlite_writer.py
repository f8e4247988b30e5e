"""Writes to the SQLite file.

A few lone appends are committed where they are while commits are quick, since a change of threads
costs more than they do; anything more goes to the writer's thread.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import apsw

from ..errors import StoreError
from .blobs import Blob
from .connection import Connection, fetch
from .database import BUSY, Moved, columns, connect, open_database, store_error
from .inbox import Inbox, Item, Outcomes
from .sql_rows import UPSERT, Row, why_not
from .writer import Writer

T = TypeVar("T")

_FEW: Final = 16
# Seconds a commit may keep an event loop. Alone, an entry has nobody to wait beside: the thread takes it no sooner.
_QUICK: Final = 0.0003
_QUICK_ALONE: Final = 0.001
_PAGES: Final = 1000

_TOGETHER: Final = 50


def _insert(rows: int) -> str:
    """Writes that many entries, in their order, but for those whose run is at another epoch."""
    values = ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?, ?)"] * rows)
    return f"""
        WITH new (run, path, kind, node, data, digest, started, ended, epoch) AS (VALUES {values})
        INSERT INTO entry (run, path, kind, node, data, digest, started, ended)
        SELECT new.run, path, kind, new.node, data, digest, started, ended
        FROM new CROSS JOIN lease ON lease.run = new.run AND lease.epoch = new.epoch
        WHERE true {UPSERT}
    """


_INSERT, _INSERT_TOGETHER = _insert(1), _insert(_TOGETHER)


def _place(path: Path) -> tuple[int, int] | None:
    """Which file is at the path. One that is deleted or moved can be written as before, and nobody finds it."""
    try:
        found = os.stat(path)
    except OSError:  # It is gone, or its directory is: that is what is asked.
        return None
    return found.st_dev, found.st_ino


class SqliteWriter(Writer):
    """The write side of the file at `path`."""

    connection: apsw.Connection
    run_column = "+run"  # The index on runs would be no help: SQLite finds a row by its place at once.

    def __init__(self, path: Path, sync: Literal["normal", "full"], lease: float, poll: float) -> None:
        self.path = path
        self.connection = open_database(path, sync)
        self._reader: apsw.Connection | None = None
        self._place = _place(path)
        self._moved = False
        super().__init__(str(path), (apsw.Error, UnicodeError), lease, poll)
        self._here = False  # Whether the commit under way is on an event loop.
        self._cost = _QUICK if sync == "full" else 0.0  # Seconds a small commit takes, lately.
        self._pages = 0
        self._busy_since = 0.0
        self.connection.set_busy_handler(self._on_busy)
        self.connection.set_wal_hook(self._on_commit)

    def commit_here(self, inbox: Inbox, items: list[Item]) -> bool:
        quick = _QUICK_ALONE if len(items) == 1 else _QUICK
        if len(items) > _FEW or self._cost >= quick or self._thread_waits or self.refusal:
            return False
        if not self.lock.acquire(blocking=False):
            return False
        self._here = True
        try:
            outcomes = self.write(items, [])
        except apsw.BusyError:
            return False
        except self.failures as error:
            outcomes = [self.told(error)] * len(items)
        finally:
            self._here = False
            self.lock.release()
        inbox.settle(items, outcomes)
        return True

    def write(self, items: list[Item], blobs: list[tuple[Blob, int]]) -> Outcomes:
        if self._moved:
            raise Moved(str(self.path))
        start = time.perf_counter()
        if len(items) == 1 and not blobs and type(items[0][2]) is tuple:
            outcomes = self.insert([items[0][2]])  # A statement is a transaction of its own.
        else:
            outcomes = super().write(items, blobs)
        if len(items) <= _FEW:
            self._cost += (time.perf_counter() - start - self._cost) / 8
        return outcomes

    def insert(self, rows: list[Row]) -> Outcomes:
        if not rows:
            return None
        connection = self.connection
        before = connection.total_changes()
        # Half the time of one by one, and the thread asks for the interpreter's lock fifty times less.
        single = len(rows) % _TOGETHER
        for start in range(0, len(rows) - single, _TOGETHER):
            connection.execute(_INSERT_TOGETHER, list(chain.from_iterable(rows[start : start + _TOGETHER])))
        if single:
            connection.executemany(_INSERT, rows[-single:])
        if connection.total_changes() - before == len(rows):
            return None
        return [why_not(connection, row) for row in rows]

    def transaction(self, work: Callable[[Connection], T]) -> T:
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

    def alone(self, work: Callable[[Connection], T]) -> T:
        return self.transaction(work)  # Whoever writes is alone.

    def patiently(self, work: Callable[[], T]) -> T:
        """Again while another process is in the way, for BUSY seconds."""
        deadline = time.monotonic() + BUSY
        while True:
            try:
                return work()
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)

    def look(self, work: Callable[[Connection], T]) -> T:
        if self._reader is None:
            self._reader = connect(self.path)
        return work(self._reader)

    def failure(self, error: Exception) -> StoreError:
        return store_error(self.path, error)

    def columns(self, connection: Connection, table: str) -> list[str]:
        return columns(connection, table)

    def connections(self) -> Iterable[Any]:
        return [one for one in (self._reader, self.connection) if one is not None]

    def one_is_to_blame(self, error: Exception) -> bool:
        return isinstance(error, (apsw.FullError, UnicodeError))

    def version(self) -> int | None:
        return int(fetch(self.connection, "PRAGMA data_version")[0][0])

    def see_place(self) -> None:
        self._moved = _place(self.path) != self._place

    def tidy(self) -> None:
        if self._pages < _PAGES:
            return
        self._pages = 0
        # A failure leaves everything in the log, from where the next one takes it.
        with contextlib.suppress(apsw.Error):
            self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def shrink(self, pages: int) -> bool:
        def some(connection: Connection) -> bool:
            fetch(connection, f"PRAGMA incremental_vacuum({pages})")
            return bool(fetch(connection, "PRAGMA freelist_count")[0][0] >= pages)

        more = self.run(some)
        with self.lock:
            self.tidy()
        return more

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
            self.nudge()
        return apsw.SQLITE_OK
