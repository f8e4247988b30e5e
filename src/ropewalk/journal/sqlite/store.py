"""The store in one SQLite file: it survives kill -9 and, with sync="full", a power cut.

Several processes may use one file. While commits are quick, `SqliteWriter` commits a few appends on the event loop,
because a change of threads costs more than the commit. Everything else goes to the thread of the writer.

Refused: a damaged file, a file of another program or of a newer version.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import apsw

from ...errors import Action, StoreError
from ..protocol import RunRow
from ..sql.blobs import Blob
from ..sql.log import Claim, SqlLog, UncertainOwner, claim_run
from ..sql.recovery import DIED, RecoverableRun, find_recoverable
from ..sql.rows import UPSERT, Connection, Row, fetch, why_not_written
from ..sql.store import SqlStore
from ..sql.write_batch import Item, Outcomes, WriteBatch
from ..sql.writer import Writer
from .database import BUSY, Moved, SqliteReader, columns, connect, open_database, store_error, unwritable

T = TypeVar("T")

QUEUED: Final = "FROM queue JOIN run ON run.seq = queue.run JOIN lease ON lease.run = queue.run"
"""The rows of queued runs with the rows of the runs and of their leases."""
_IS_IN_QUEUE: Final = "EXISTS (SELECT 1 FROM queue WHERE queue.run = run.seq)"
_FEW: Final = 16
# Seconds that a commit may block an event loop. A single entry may take longer: the thread would not be faster.
_QUICK: Final = 0.0003
_QUICK_ALONE: Final = 0.001
_PAGES: Final = 1000

_TOGETHER: Final = 50


def _insert(rows: int) -> str:
    """Return the SQL that inserts this number of entries in order, except entries of runs at another epoch."""
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
    """Return the identity of the file at a path."""

    # SQLite would write to a deleted file.
    try:
        status = os.stat(path)
    except OSError:  # the file or its directory is missing
        return None
    return status.st_dev, status.st_ino


class SqliteWriter(Writer):
    """The write side of the file at `path`."""

    connection: apsw.Connection
    run_column = "+run"  # an index on runs would not help: SQLite finds a row by its rowid

    def __init__(self, path: Path, sync: Literal["normal", "full"], lease: float, poll: float) -> None:
        self.path = path
        self.connection = open_database(path, sync)
        self._reader: apsw.Connection | None = None
        self._place = _place(path)
        self._moved = False
        self._location_lock = threading.Lock()
        super().__init__(str(path), (apsw.Error, UnicodeError), lease, poll)
        self._on_loop = False  # True during a commit on an event loop
        self._cost = _QUICK if sync == "full" else 0.0  # seconds of recent small commits
        self._pages = 0
        self._busy_since = 0.0
        self.connection.set_busy_handler(self._on_busy)
        self.connection.set_wal_hook(self._on_commit)

    def commit_on_loop(self, batch: WriteBatch, items: list[Item]) -> bool:
        quick = _QUICK_ALONE if len(items) == 1 else _QUICK
        if len(items) > _FEW or self._cost >= quick or self._thread_waits or self.refusal:
            return False
        if not self.lock.acquire(blocking=False):
            return False
        self._on_loop = True
        try:
            outcomes = self.write(items, [])
        except apsw.BusyError:
            return False
        except self.failures as error:
            outcomes = [self.store_error(error)] * len(items)
        finally:
            self._on_loop = False
            self.lock.release()
        batch.set_results(items, outcomes)
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
        return [why_not_written(connection, row) for row in rows]

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

    def exclusive_transaction(self, work: Callable[[Connection], T]) -> T:
        return self.transaction(work)  # Whoever writes is alone.

    def retry_transient(self, work: Callable[[], T]) -> T:
        """Again while another process is in the way, for BUSY seconds."""
        deadline = time.monotonic() + BUSY
        while True:
            try:
                return work()
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)

    def read_once(self, work: Callable[[Connection], T]) -> T:
        if self._reader is None:
            self._reader = connect(self.path)
        return work(self._reader)

    def read_long(self, work: Callable[[Connection], T]) -> T:
        self.check()
        try:
            if _place(self.path) != self._place:
                raise Moved(str(self.path))
            with contextlib.closing(connect(self.path)) as connection:
                return work(connection)
        except self.failures as error:
            raise self.failure(error) from error

    def failure(self, error: Exception) -> StoreError:
        return store_error(self.path, error)

    def columns(self, connection: Connection, table: str) -> list[str]:
        return columns(connection, table)

    def connections(self) -> Iterable[Any]:
        return [connection for connection in (self._reader, self.connection) if connection is not None]

    def is_fault_of_one_item(self, error: Exception) -> bool:
        return isinstance(error, (apsw.FullError, UnicodeError))

    def version(self) -> int | None:
        return int(fetch(self.connection, "PRAGMA data_version")[0][0])

    def check_location(self) -> None:
        # An event loop and the thread both look: without the lock, the older of two looks could be noted last.
        with self._location_lock:
            self._moved = _place(self.path) != self._place

    def after_round(self) -> None:
        if self._pages < _PAGES:
            return
        self._pages = 0
        # After a failure everything stays in the log, for the next checkpoint.
        with contextlib.suppress(apsw.Error):
            self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def shrink(self, pages: int) -> bool:
        def some(connection: Connection) -> bool:
            fetch(connection, f"PRAGMA incremental_vacuum({pages})")
            return bool(fetch(connection, "PRAGMA freelist_count")[0][0] >= pages)

        more = self.run(some)
        with self.lock:
            self.after_round()
        return more

    def _on_busy(self, count: int) -> bool:
        """Answer SQLite whether to retry a locked database: never on an event loop."""
        if self._on_loop:
            return False
        now = time.monotonic()
        if count == 0:
            self._busy_since = now
        time.sleep(random.uniform(0.0005, 0.004))  # random, so that several writers get turns
        return now - self._busy_since < BUSY

    def _on_commit(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        """Leave the checkpoint of a long log to the thread of the writer, never to an event loop."""
        self._pages = pages
        if pages >= _PAGES and self._on_loop:
            self.wake_once()
        return apsw.SQLITE_OK


def _is_queued(connection: Connection, run_id: str) -> bool:
    return bool(fetch(connection, f"SELECT 1 {QUEUED} WHERE run.id = ?", (run_id,)))


class SqliteStore(SqlStore):
    """Definitions and runs in one SQLite file."""

    # If this process may not write to the file, the store is read-only. `unwritable` is the reason, and every write
    # raises a StoreError with it.

    _queued_condition = _IS_IN_QUEUE

    def __init__(
        self, path: str | Path, sync: Literal["normal", "full"] = "normal", *, lease: float = 10.0, poll: float = 0.2
    ) -> None:
        if sync not in ("normal", "full"):
            raise StoreError(f"sync={sync!r} is not supported; use 'normal' or 'full'")
        self.path = Path(path).absolute()
        try:
            str(self.path).encode()
        except UnicodeEncodeError:
            error = StoreError(f"{self.path}: SQLite needs a path in UTF-8")
            raise error.with_remedy(Action.CHOOSE_STORE) from None
        self.unwritable = unwritable(self.path)
        reader = SqliteReader(self.path, self.unwritable, lease, poll) if self.unwritable else None
        super().__init__(reader or SqliteWriter(self.path, sync, lease, poll), lease, poll)

    # --- queued runs, as `workers/run_queue.py` keeps them ----------------------------------

    def run_in_transaction(self, work: Callable[[Connection], T]) -> T:
        """Call `work` in one transaction."""
        return self._writer.run(work)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Call `work`, which only reads."""
        return self._writer.read(work)

    async def reopen_if(self, run_id: str, check: Callable[[Connection], None]) -> SqlLog:
        """Own a run as `reopen` does, unless `check` raises an error in the transaction of the claim."""

        def claim(connection: Connection, doubt: UncertainOwner | None, now: float) -> Claim | UncertainOwner:
            check(connection)
            return claim_run(connection, run_id, self.patience, False, doubt, now)

        return await self._claim_and_open(run_id, claim)

    def is_queued(self, run_id: str) -> bool:
        """Return True if an unfinished run is in a queue."""
        return self.read(lambda c: _is_queued(c, run_id))

    def recoverable(self, limit: int = 1000, left_alone: Collection[tuple[str, int]] = ()) -> list[RecoverableRun]:
        """Return the unfinished runs that a server may resume, without those that a queue leads to a process."""
        condition = f"NOT {_IS_IN_QUEUE}"
        return self.read(lambda c: find_recoverable(c, self.patience, limit, condition, left_alone))

    def dead_queued_runs(self) -> list[RunRow]:
        """Return the queued runs whose process has died."""
        condition = f"owner IS NOT NULL AND {_IS_IN_QUEUE}"
        found = self.read(lambda c: find_recoverable(c, self.patience, 1000, condition))
        return [run.row for run in found if run.reason == DIED]
