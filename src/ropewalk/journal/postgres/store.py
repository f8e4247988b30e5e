"""The store in a Postgres database, which several hosts can share. Needs `ropewalk[postgres]`.

`PostgresStore` is what an address `postgresql://...` opens. `prepare_schema` creates the tables in the store's own
schema (`?schema=`, "ropewalk" by default) or migrates them. It changes nothing and raises StoreError for a schema with
tables of another program or of a newer Ropewalk, for a database that is not in UTF-8, and for a connection pooler that
does not keep sessions. `examine` reads a whole store and reports damaged values.

`PostgresWriter` writes the entries of many runs in one statement, which is one round trip and one commit. Each row is
written only if its run is still at the epoch in the row. The statement locks the lease meanwhile, so that nobody can
take the run over in between. The writer waits for a server that restarts. It sends a batch whose answer was lost again
on a new connection. That changes nothing twice: entries are unique, and claims are recognized by their heartbeat.
"""

from __future__ import annotations

import contextlib
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from ...errors import StoreError
from ..news import News, NewsCallback
from ..sql.rows import ENTRY_COLUMNS, Connection, Row, fetch, why_not_written
from ..sql.store import SqlStore
from ..sql.upkeep import Migrations
from ..sql.write_batch import Item, Outcomes, WriteBatch
from ..sql.writer import QueuedBatch, Writer
from ..sqlite.doctor import bad_values
from .lane import INSERT, INSERT_CHUNKS, INSERT_ONE, Lane
from .session import (
    Listener,
    Session,
    Target,
    check_pooler,
    driver,
    is_transient,
    needs_new_connection,
    notify,
    notify_all,
    parse_target,
)

_FOLDER: Final = Path(__file__).parent / "migrations"
_MIGRATION_LOCK: Final = 0x726F7065  # "rope"
_TABLES: Final = "SELECT tablename FROM pg_tables WHERE schemaname = ?"
_MIN_VERSION: Final = 130000


def prepare_schema(session: Session, target: Target) -> None:
    """Check the database, and create the tables of the store or migrate them."""
    version, encoding, backend = fetch(
        session,
        "SELECT CAST(current_setting('server_version_num') AS integer), current_setting('server_encoding'),"
        " pg_backend_pid()",
    )[0]
    if version < _MIN_VERSION:
        raise StoreError(
            f"{target.name}: Postgres {version // 10000} is too old; from {_MIN_VERSION // 10000} on it works"
        )
    if encoding != "UTF8":
        raise StoreError(f"{target.name}: the database is in {encoding}; create one WITH ENCODING 'UTF8'")
    check_pooler(session, target, backend)
    migrations = Migrations(_FOLDER)
    if _is_ropewalk_schema(session, target) and migrations.version(session) == migrations.newest:
        return
    session.execute("BEGIN")
    try:
        session.execute(
            "SELECT pg_advisory_xact_lock(?)", (_MIGRATION_LOCK,)
        )  # Whoever comes second finds the work done.
        if not _is_ropewalk_schema(session, target):
            _create_schema(session, target)
        migrations.apply(session, target.name)
        session.execute("COMMIT")
    except BaseException:
        if not session.is_closed:
            session.execute("ROLLBACK")
        raise


def _is_ropewalk_schema(session: Session, target: Target) -> bool:
    # The catalogue says it: the server's cache of the search path may lag behind the commit of another process.
    return bool(fetch(session, f"{_TABLES} AND tablename = 'migration'", (target.schema,)))


def _create_schema(session: Session, target: Target) -> None:
    tables = fetch(session, _TABLES, (target.schema,))
    if tables:
        raise StoreError(
            f"{target.name}: the schema {target.schema} holds tables of another program ({tables[0][0]});"
            " name another one (?schema=...)"
        )
    if not fetch(session, "SELECT 1 FROM pg_namespace WHERE nspname = ?", (target.schema,)):
        session.execute(f"CREATE SCHEMA {target.schema}")
    session.execute(
        "CREATE TABLE migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied DOUBLE PRECISION NOT NULL)"
    )


T = TypeVar("T")

PATIENCE: Final = 60.0
"""Seconds in which a server that has gone away may come back, before what waits for it fails."""

_CLOSE_PATIENCE: Final = 5.0  # The same, for a store that is being closed.
_LOOKS_BEFORE_LISTENING: Final = 3  # looks at open runs, after which news of them is listened for
_BATCHES_BEFORE_LANE: Final = 3  # batches of entries alone, after which a loop gets a lane of its own
_MAX_STATEMENT_BYTES: Final = 8_000_000  # of data in one statement, at most, unless one entry has more


class PostgresWriter(Writer):
    """The write side of the store at `where`."""

    connection: Session

    def __init__(self, target: Target, lease: float, poll: float) -> None:
        self._target = target
        self._reader: Session | None = None
        self.patience: float | None = None  # instead of PATIENCE
        failures = driver().Error
        try:
            self.connection = Session(target)
            try:
                prepare_schema(self.connection, target)
            except BaseException:
                self.connection.close()
                raise
        except failures as error:
            raise store_error(target.name, error) from error
        super().__init__(target.name, (failures, UnicodeError), lease, poll)
        self._lanes: dict[WriteBatch, Lane] = {}
        self._batches_without_lane: dict[WriteBatch, int] = {}  # how many batches could have used one
        self._listener: Listener | None = None
        self._listener_lock = threading.Lock()
        self._looks, self._is_closing = 0, False
        self._unannounced: deque[News] = deque()

    # --- entries alone go straight from their loop to the server ---------------------------

    def commit_on_loop(self, batch: WriteBatch, items: list[Item]) -> bool:
        if self.refusal or not all(type(work) is tuple for _, _, work in items):
            return False
        size = len(items[0][2])
        if sum(len(row[4] or b"") for _, _, row in items) > _MAX_STATEMENT_BYTES or any(
            len(row) != size for _, _, row in items
        ):
            return False
        lane = self._lanes.get(batch)
        if lane is None:
            self._batches_without_lane[batch] = self._batches_without_lane.get(batch, 0) + 1
            return False
        if not lane.send(items):
            return False
        batch.hold_back()
        return True

    # --- changes of other processes, and for them ---------------------------------------------

    def announce(self, connection: Connection, news: News) -> None:
        notify(connection, self._target, news)

    def announce_soon(self, news: News) -> None:
        # Not in the transaction: Postgres serializes transactions that notify until they are on the disk.
        self._unannounced.append(news)
        if len(self._unannounced) == 1:
            self.wake_once()

    def hear(self, callback: NewsCallback) -> Callable[[], None] | None:
        listener = self._listen()
        if listener is None:
            raise StoreError(f"{self.name}: the store is closed")
        listener.add(callback)
        return lambda: listener.remove(callback)

    def listens_for_changes(self) -> bool:
        self._looks += 1
        if self._looks < _LOOKS_BEFORE_LISTENING and self._listener is None:
            return False  # a short run saves the additional connection
        listener = self._listen()
        return listener is not None and listener.live

    def _listen(self) -> Listener | None:
        with self._listener_lock:
            if self._listener is None and not self._is_closing:
                self._listener = Listener(self._target, self.failures)
                self._listener.add(self._on_news)
            return None if self._is_closing else self._listener

    def _on_news(self, news: News) -> None:
        mine = self.watch.find(news.seq) is not None if news.kind else self.watch.needs_thread()
        if mine and news.kind != "end":
            self.watch.look_soon()

    def close(self) -> None:
        with self._listener_lock:
            self._is_closing = True
            if self._listener is not None:
                self._listener.close()
        super().close()

    def after_round(self) -> None:
        if self._unannounced:
            some = [self._unannounced.popleft() for _ in range(len(self._unannounced))]
            with contextlib.suppress(*self.failures):  # Nothing depends on it.
                notify_all(self.connection, self._target, some)
        for batch, count in list(self._batches_without_lane.items()):
            if batch.loop.is_closed():
                del self._batches_without_lane[batch]
                if lane := self._lanes.pop(batch, None):
                    lane.end()
            elif count >= _BATCHES_BEFORE_LANE and batch not in self._lanes and (lane := self._open_lane(batch)):
                self._lanes[batch] = lane

    def _open_lane(self, batch: WriteBatch) -> Lane | None:
        # Without a lane the thread of the writer sends the entries, and reports any failure.
        with contextlib.suppress(*self.failures):
            session = Session(self._target)
            try:
                return Lane(batch, session, self)
            except BaseException:
                session.close()
                raise
        return None

    def remove_lane(self, lane: Lane, *, permanently: bool = False) -> None:
        self._lanes.pop(lane.batch, None)
        self._batches_without_lane[lane.batch] = -sys.maxsize if permanently else 0

    def withdraw_batches(self) -> list[QueuedBatch]:
        lanes = list(self._lanes.values())
        self._lanes.clear()
        return [QueuedBatch(lane.batch, items) for lane in lanes if (items := lane.end())]

    def insert(self, rows: list[Row]) -> Outcomes:
        outcomes: list[Any] = []
        for some in _split_into_statements(rows):
            if self._insert_rows(some) == len(some):
                outcomes += [None] * len(some)
            else:
                outcomes += [why_not_written(self.connection, row) for row in some]
        return outcomes if any(outcomes) else None

    def _insert_rows(self, rows: list[Row]) -> int:
        chunks = len(rows[0]) > ENTRY_COLUMNS
        if len(rows) == 1 and not chunks:
            return self.connection.count(INSERT_ONE, rows[0], planned=True)
        columns = [list(column) for column in zip(*rows, strict=True)]
        return self.connection.count(
            INSERT_CHUNKS if chunks else INSERT, columns, planned=False
        )  # Ten rows are joined unlike thousands.

    def insert_in_one_commit(self, rows: list[Row]) -> Outcomes:
        return self.insert(rows)  # A statement is a transaction of its own.

    def transaction(self, work: Callable[[Connection], T]) -> T:
        session = self.connection
        session.execute("BEGIN")
        try:
            result = work(session)
            session.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(*self.failures):
                session.execute("ROLLBACK")
            raise
        return result

    def exclusive_transaction(self, work: Callable[[Connection], T]) -> T:
        def locked(connection: Connection) -> T:
            connection.execute("LOCK TABLE blob, lease IN SHARE ROW EXCLUSIVE MODE")
            return work(connection)

        return self.transaction(locked)

    def retry_transient(self, work: Callable[[], T]) -> T:
        """Call `work`, and again while the server may come back, on a new connection if it is needed."""
        return self._retry(lambda: self.connection, work)

    def read_once(self, work: Callable[[Connection], T]) -> T:
        def read() -> T:
            if self._reader is None:
                self._reader = Session(self._target)
            return work(self._reader)

        return self._retry(lambda: self._reader, read)

    def failure(self, error: Exception) -> StoreError:
        return store_error(self.name, error)

    def columns(self, connection: Connection, table: str) -> list[str]:
        query = (
            "SELECT attname FROM pg_attribute WHERE attrelid = CAST(CAST(? AS text) AS regclass) AND attnum > 0"
            " AND NOT attisdropped ORDER BY attnum"
        )
        return [name for (name,) in fetch(connection, query, (table,))]

    def connections(self) -> Iterable[Any]:
        lanes = [lane.session for lane in list(self._lanes.values())]
        listener = self._listener.session if self._listener is not None else None
        return [*lanes, *(session for session in (self._reader, self.connection, listener) if session is not None)]

    def is_fault_of_one_item(self, error: Exception) -> bool:
        psycopg = driver()
        return not isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) or _is_disk_full(error)

    def _retry(self, session: Callable[[], Session | None], work: Callable[[], T]) -> T:
        """Call `work` until it succeeds, fails for good, or the patience with the server is over."""
        began, pause = 0.0, 0.02
        renew: Session | None = None
        while True:
            try:
                if renew is not None:
                    renew.renew()
                    renew = None
                return work()
            except self.failures as error:
                current = session()
                if current is None:
                    may_pass = isinstance(error, driver().OperationalError)  # the first session could not begin
                else:
                    renew = current if renew or current.is_closed or needs_new_connection(error) else None
                    may_pass = renew is not None or is_transient(error)
                if not may_pass:
                    raise
                # A store that is being closed waits less long.
                now = time.monotonic()
                began = began or now
                if now - began > (_CLOSE_PATIENCE if self.refusal else self.patience or PATIENCE):
                    raise
            time.sleep(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, 1.0)


def _split_into_statements(rows: list[Row]) -> Iterator[list[Row]]:
    """Split rows into statements, in order."""

    # One statement cannot write the same row twice.
    some: list[Row] = []
    keys: set[tuple[int, str, str]] = set()
    size = 0
    for row in rows:
        key = row[:3]
        size += len(row[4] or b"")
        if some and (key in keys or size > _MAX_STATEMENT_BYTES or len(row) != len(some[0])):
            yield some
            some, keys, size = [], set(), len(row[4] or b"")
        some.append(row)
        keys.add(key)
    if some:
        yield some


def _is_disk_full(error: Exception) -> bool:
    return getattr(error, "sqlstate", None) == "53100"


_UNREACHABLE: Final = "the server cannot be reached or ended the session ({}); check that it runs and takes connections"
# Errors before a session begins have no code, only a text.
_REFUSED: Final = (
    (
        ("password authentication failed", "no password supplied", "no pg_hba.conf entry", 'FATAL: role "'),
        "the server refuses the user ({}); check user and password, and what its pg_hba.conf allows",
    ),
    (('FATAL: database "',), "the server has no such database ({}); create it (createdb), or name another one"),
)


def store_error(name: str, error: Exception) -> StoreError:
    """Return the error for people about a failure of Postgres, with what to do."""
    details = " ".join(str(error).split())
    state = getattr(error, "sqlstate", None)
    if _is_disk_full(error):
        problem = "the server's disk is full; free some space. Nothing acknowledged is lost"
    elif state == "42501":
        problem = f"the user may not do this ({details}); grant it CREATE on the database, or on a schema made for it"
    elif isinstance(error, driver().OperationalError):
        problem = next(
            (problem for words, problem in _REFUSED if any(word in details for word in words)), _UNREACHABLE
        ).format(details)
    else:
        problem = f"{type(error).__name__}: {details}"
    return StoreError(f"{name}: {problem}")


class PostgresStore(SqlStore):
    """Definitions and runs in a Postgres database."""

    remote = True

    def __init__(self, url: str, *, lease: float = 10.0, poll: float = 0.2) -> None:
        self.target = parse_target(url)
        self._postgres = PostgresWriter(self.target, lease, poll)
        super().__init__(self._postgres, lease, poll)

    def wait_for_server(self, seconds: float) -> None:
        """Set the seconds to wait for an unreachable server before a StoreError."""
        self._postgres.patience = seconds


def examine(url: str, limit: float | None = None) -> tuple[str, list[str]]:
    """Read a whole store."""
    target = parse_target(url)
    deadline = None if limit is None else time.monotonic() + limit
    try:
        with contextlib.closing(Session(target)) as session:
            prepare_schema(session, target)
            version = fetch(session, "SELECT current_setting('server_version')")[0][0]
            return f"{target.name} (Postgres {version})", [bad.message for bad in bad_values(session, deadline)]
    except driver().Error as error:
        raise store_error(target.name, error) from error
