"""The store in a Postgres database: for several hosts, and for those who have one.

Each store has a schema of its own (`?schema=`, "ropewalk" unless named), made on demand. It waits
for a server that restarts, and sends again what was not acknowledged. Refused: a schema of another
program or of a newer version. Needs `ropewalk[postgres]`.

Opens a store in Postgres: checks that the schema is ours, makes it or brings it up to date.

Refused, with nothing changed: a schema with tables of another program, one written by a newer
version, a database that is not in UTF-8, a connection pooler that does not keep sessions.

Writes to Postgres: the entries of many runs in one statement, which is one round trip and one commit.

Every batch is fenced: a row goes in only if its run is still at the epoch it names, and the lease
is locked meanwhile, so that nobody can take the run over in between. A batch whose answer was lost
is sent again on a new connection: entries are unique and claims are known by their beat, so that
twice is the same as once.
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
from ..news import Hear, News
from ..sql.rows import ENTRY_COLUMNS, Connection, Row, fetch, why_not
from ..sql.store import SqlStore
from ..sql.upkeep import Migrations
from ..sql.writer import Item, Outcomes, Parcel, WriteBatch, Writer
from ..sqlite.doctor import bad_values
from .lane import INSERT, INSERT_CHUNKS, INSERT_ONE, Lane
from .session import (
    Listener,
    Session,
    Target,
    check_pooler,
    driver,
    is_transient,
    must_renew,
    notify,
    notify_all,
    target,
)

_FOLDER: Final = Path(__file__).parent / "migrations"
_LOCK: Final = 0x726F7065  # "rope"
_TABLES: Final = "SELECT tablename FROM pg_tables WHERE schemaname = ?"
_OLDEST: Final = 130000


def prepare(session: Session, where: Target) -> None:
    version, encoding, backend = fetch(
        session,
        "SELECT CAST(current_setting('server_version_num') AS integer), current_setting('server_encoding'),"
        " pg_backend_pid()",
    )[0]
    if version < _OLDEST:
        raise StoreError(f"{where.name}: Postgres {version // 10000} is too old; from {_OLDEST // 10000} on it works")
    if encoding != "UTF8":
        raise StoreError(f"{where.name}: the database is in {encoding}; create one WITH ENCODING 'UTF8'")
    check_pooler(session, where, backend)
    migrations = Migrations(_FOLDER)
    if _is_ours(session, where) and migrations.version(session) == migrations.newest:
        return
    session.execute("BEGIN")
    try:
        session.execute("SELECT pg_advisory_xact_lock(?)", (_LOCK,))  # Whoever comes second finds the work done.
        if not _is_ours(session, where):
            _make(session, where)
        migrations.apply(session, where.name)
        session.execute("COMMIT")
    except BaseException:
        if not session.is_closed:
            session.execute("ROLLBACK")
        raise


def _is_ours(session: Session, where: Target) -> bool:
    # Asked of the catalogue: what the server has cached of a search path may lag behind another's commit.
    return bool(fetch(session, f"{_TABLES} AND tablename = 'migration'", (where.schema,)))


def _make(session: Session, where: Target) -> None:
    tables = fetch(session, _TABLES, (where.schema,))
    if tables:
        raise StoreError(
            f"{where.name}: the schema {where.schema} holds tables of another program ({tables[0][0]});"
            " name another one (?schema=...)"
        )
    if not fetch(session, "SELECT 1 FROM pg_namespace WHERE nspname = ?", (where.schema,)):
        session.execute(f"CREATE SCHEMA {where.schema}")
    session.execute(
        "CREATE TABLE migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied DOUBLE PRECISION NOT NULL)"
    )


T = TypeVar("T")

PATIENCE: Final = 60.0
"""Seconds in which a server that has gone away may come back, before what waits for it fails."""

_LAST: Final = 5.0  # The same, for a store that is being closed.
_LONG: Final = 3  # looks at open runs, after which news of them is listened for
_OFTEN: Final = 3  # batches of entries alone, after which a loop gets a lane of its own
_BYTES: Final = 8_000_000  # of data in one statement, at most, unless one entry has more


class PostgresWriter(Writer):
    """The write side of the store at `where`."""

    connection: Session

    def __init__(self, where: Target, lease: float, poll: float) -> None:
        self._where = where
        self._reader: Session | None = None
        self.patience: float | None = None  # instead of PATIENCE
        failures = driver().Error
        try:
            self.connection = Session(where)
            try:
                prepare(self.connection, where)
            except BaseException:
                self.connection.close()
                raise
        except failures as error:
            raise store_error(where.name, error) from error
        super().__init__(where.name, (failures, UnicodeError), lease, poll)
        self._lanes: dict[WriteBatch, Lane] = {}
        self._without: dict[WriteBatch, int] = {}  # how many batches could have used one
        self._listener: Listener | None = None
        self._listening = threading.Lock()
        self._looks, self._deaf = 0, False
        self._untold: deque[News] = deque()

    # --- entries alone go straight from their loop to the server ---------------------------

    def commit_here(self, inbox: WriteBatch, items: list[Item]) -> bool:
        if self.refusal or not all(type(work) is tuple for _, _, work in items):
            return False
        size = len(items[0][2])
        if sum(len(row[4] or b"") for _, _, row in items) > _BYTES or any(len(row) != size for _, _, row in items):
            return False
        lane = self._lanes.get(inbox)
        if lane is None:
            self._without[inbox] = self._without.get(inbox, 0) + 1
            return False
        if not lane.send(items):
            return False
        inbox.hold()
        return True

    # --- changes of other processes, and for them ---------------------------------------------

    def tell(self, connection: Connection, news: News) -> None:
        notify(connection, self._where, news)

    def tell_soon(self, news: News) -> None:
        # Not in the transaction: Postgres serializes transactions that notify until they are on the disk.
        self._untold.append(news)
        if len(self._untold) == 1:
            self.nudge()

    def hear(self, callback: Hear) -> Callable[[], None] | None:
        listener = self._listen()
        if listener is None:
            raise StoreError(f"{self.name}: the store is closed")
        listener.add(callback)
        return lambda: listener.remove(callback)

    def attend(self) -> bool:
        self._looks += 1
        if self._looks < _LONG and self._listener is None:
            return False  # a short run saves the additional connection
        listener = self._listen()
        return listener is not None and listener.live

    def _listen(self) -> Listener | None:
        with self._listening:
            if self._listener is None and not self._deaf:
                self._listener = Listener(self._where, self.failures)
                self._listener.add(self._on_news)
            return None if self._deaf else self._listener

    def _on_news(self, news: News) -> None:
        mine = self.watch.find(news.seq) is not None if news.kind else self.watch.needs_thread()
        if mine and news.kind != "end":
            self.watch.look_soon()

    def close(self) -> None:
        with self._listening:
            self._deaf = True
            if self._listener is not None:
                self._listener.close()
        super().close()

    def tidy(self) -> None:
        if self._untold:
            some = [self._untold.popleft() for _ in range(len(self._untold))]
            with contextlib.suppress(*self.failures):  # Nothing depends on it.
                notify_all(self.connection, self._where, some)
        for inbox, count in list(self._without.items()):
            if inbox.loop.is_closed():
                del self._without[inbox]
                if lane := self._lanes.pop(inbox, None):
                    lane.end()
            elif count >= _OFTEN and inbox not in self._lanes and (lane := self._lane(inbox)):
                self._lanes[inbox] = lane

    def _lane(self, inbox: WriteBatch) -> Lane | None:
        # Without a lane the thread of the writer sends the entries, and reports any failure.
        with contextlib.suppress(*self.failures):
            session = Session(self._where)
            try:
                return Lane(inbox, session, self)
            except BaseException:
                session.close()
                raise
        return None

    def without(self, lane: Lane, *, never: bool = False) -> None:
        self._lanes.pop(lane.inbox, None)
        self._without[lane.inbox] = -sys.maxsize if never else 0

    def withdraw(self) -> list[Parcel]:
        lanes = list(self._lanes.values())
        self._lanes.clear()
        return [(lane.inbox, items) for lane in lanes if (items := lane.end())]

    def insert(self, rows: list[Row]) -> Outcomes:
        outcomes: list[Any] = []
        for some in _statements(rows):
            if self._insert_rows(some) == len(some):
                outcomes += [None] * len(some)
            else:
                outcomes += [why_not(self.connection, row) for row in some]
        return outcomes if any(outcomes) else None

    def _insert_rows(self, rows: list[Row]) -> int:
        chunks = len(rows[0]) > ENTRY_COLUMNS
        if len(rows) == 1 and not chunks:
            return self.connection.count(INSERT_ONE, rows[0], planned=True)
        columns = [list(column) for column in zip(*rows, strict=True)]
        return self.connection.count(
            INSERT_CHUNKS if chunks else INSERT, columns, planned=False
        )  # Ten rows are joined unlike thousands.

    def insert_alone(self, rows: list[Row]) -> Outcomes:
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

    def alone(self, work: Callable[[Connection], T]) -> T:
        def locked(connection: Connection) -> T:
            connection.execute("LOCK TABLE blob, lease IN SHARE ROW EXCLUSIVE MODE")
            return work(connection)

        return self.transaction(locked)

    def patiently(self, work: Callable[[], T]) -> T:
        """Again, on a new connection if need be, while the server may come back."""
        return self._patiently(lambda: self.connection, work)

    def look(self, work: Callable[[Connection], T]) -> T:
        def read() -> T:
            if self._reader is None:
                self._reader = Session(self._where)
            return work(self._reader)

        return self._patiently(lambda: self._reader, read)

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

    def one_is_to_blame(self, error: Exception) -> bool:
        psycopg = driver()
        return not isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) or _is_full(error)

    def _patiently(self, session: Callable[[], Session | None], work: Callable[[], T]) -> T:
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
                    renew = current if renew or current.is_closed or must_renew(error) else None
                    may_pass = renew is not None or is_transient(error)
                if not may_pass:
                    raise
                now = time.monotonic()
                began = began or now
                if now - began > (_LAST if self.refusal else self.patience or PATIENCE):
                    raise
            time.sleep(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, 1.0)


def _statements(rows: list[Row]) -> Iterator[list[Row]]:
    """Split rows into statements, in order. One statement cannot write the same row twice."""
    some: list[Row] = []
    keys: set[tuple[int, str, str]] = set()
    size = 0
    for row in rows:
        key = row[:3]
        size += len(row[4] or b"")
        if some and (key in keys or size > _BYTES or len(row) != len(some[0])):
            yield some
            some, keys, size = [], set(), len(row[4] or b"")
        some.append(row)
        keys.add(key)
    if some:
        yield some


def _is_full(error: Exception) -> bool:
    return getattr(error, "sqlstate", None) == "53100"


_AWAY: Final = "the server cannot be reached or ended the session ({}); check that it runs and takes connections"
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
    if _is_full(error):
        problem = "the server's disk is full; free some space. Nothing acknowledged is lost"
    elif state == "42501":
        problem = f"the user may not do this ({details}); grant it CREATE on the database, or on a schema made for it"
    elif isinstance(error, driver().OperationalError):
        problem = next(
            (problem for words, problem in _REFUSED if any(word in details for word in words)), _AWAY
        ).format(details)
    else:
        problem = f"{type(error).__name__}: {details}"
    return StoreError(f"{name}: {problem}")


class PostgresStore(SqlStore):
    """Definitions and runs in a Postgres database.

    Args:
        url: `postgresql://user:password@host:port/database`.
        lease: Seconds that an owner on another host may be silent.
        poll: Seconds between two checks for stop requests of other processes.
    """

    remote = True

    def __init__(self, url: str, *, lease: float = 10.0, poll: float = 0.2) -> None:
        self.where = target(url)
        self._postgres = PostgresWriter(self.where, lease, poll)
        super().__init__(self._postgres, lease, poll)

    def wait_for_server(self, seconds: float) -> None:
        """Set the seconds to wait for an unreachable server before a StoreError."""
        self._postgres.patience = seconds


def examine(url: str, limit: float | None = None) -> tuple[str, list[str]]:
    """Read a whole store.

    Args:
        url: The address of the store.
        limit: Seconds after which reading stops; None for no limit.

    Returns:
        The address without its password, with the version of the server; and the damage, one sentence each.

    Raises:
        Unfinished: The limit was reached.
    """
    where = target(url)
    deadline = None if limit is None else time.monotonic() + limit
    try:
        with contextlib.closing(Session(where)) as session:
            prepare(session, where)
            version = fetch(session, "SELECT current_setting('server_version')")[0][0]
            return f"{where.name} (Postgres {version})", [bad.message for bad in bad_values(session, deadline)]
    except driver().Error as error:
        raise store_error(where.name, error) from error
