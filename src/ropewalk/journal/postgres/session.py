"""Sessions with a Postgres server: its address, statements, errors and notifications.

Stores share SQL in the dialect of SQLite; this module translates the words in which Postgres differs. The driver,
psycopg, is imported when the first session begins.

`Listener` receives the changes that other processes commit, with LISTEN and NOTIFY. One thread with its own connection
listens on a channel with the name of the schema. Correctness does not depend on it: a receiver still reads the store,
and polls while `live` is False. To announce another kind of change, call `notify` in its transaction.

`check_pooler` refuses a connection pooler that gives the statements of one session to different server connections.
The store needs sessions of its own: it listens for notifications, keeps prepared statements and sets a search path.
A pooler in session mode (PgBouncer's `pool_mode = session`) keeps them. In transaction or statement mode it does not,
and entries would be lost silently. A pooler does not report its mode, so the mode is observed.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import selectors
import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ...errors import StoreError, install_command
from ...fast_dataclass import dataclass
from ..news import News, NewsCallback
from ..sql.rows import Connection, fetch

if TYPE_CHECKING:
    import psycopg

SCHEMA: Final = "ropewalk"

IDLE_TRANSACTION_SECONDS: Final = 3.0
"""Seconds after which the server ends a session that says nothing within a transaction: a process that is
paused just there would keep its runs locked, and nobody could take them over within five seconds."""

_SCHEMA_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_PLACEHOLDER: Final = re.compile(r"\?(\d*)")

_DEFAULT_PARAMETERS: Final = {
    # A server that has vanished without a word is noticed within some ten seconds.
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "ropewalk",
    "client_encoding": "UTF8",
}

TRANSIENT: Final = frozenset(("40001", "40P01", "53300", "55P03", "57P01", "57P02", "57P03", "25006"))
"""Conflicts and a deadlock, too many connections, a lock not had, a server that ends, has crashed,
begins or has become a replica: a moment later it may go well."""

_NEEDS_NEW_CONNECTION: Final = frozenset(("57P01", "57P02", "57P03", "25006"))


@dataclass(frozen=True, slots=True)
class Target:
    """Where a store is: what libpq needs to know, the schema, and the address without a password."""

    parameters: dict[str, Any] = field(repr=False)
    schema: str
    name: str


def parse_target(url: str) -> Target:
    """Read the address of a store."""
    driver()
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = urlsplit(url)
        fields = parse_qsl(parts.query, keep_blank_values=True)
        schema = dict(fields).get("schema", SCHEMA)
        other_fields = urlencode([(name, value) for name, value in fields if name != "schema"])
        parameters = conninfo_to_dict(urlunsplit(parts._replace(query=other_fields)))
    except (ValueError, ProgrammingError) as error:
        problem = "the address of the Postgres store is wrong"
        hint = "write postgresql://user@host:5432/database"
        if "@" in url or "password" in url:  # the message of the driver may contain the password
            raise StoreError(
                f"{problem}; {hint}, with : / ? # @ % of a password written as %3A %2F %3F %23 %40 %25"
            ) from None
        raise StoreError(f"{problem}: {str(error).strip()}; {hint}") from error
    if not _SCHEMA_NAME.fullmatch(schema):
        raise StoreError(f"schema={schema!r} is not a plain name; use lowercase letters, digits and _")
    user = f"{parameters['user']}@" if "user" in parameters else ""
    port = f":{parameters['port']}" if "port" in parameters else ""
    name = f"postgresql://{user}{parameters.get('host', '')}{port}/{parameters.get('dbname', '')}"
    return Target(
        {**_DEFAULT_PARAMETERS, **parameters}, schema, name if schema == SCHEMA else f"{name}?schema={schema}"
    )


def driver() -> Any:
    """Return the module psycopg."""
    try:
        import psycopg
    except ImportError as error:
        raise StoreError(
            f"stores on Postgres need psycopg: {install_command('postgres')} ({str(error).splitlines()[0]})"
        ) from error
    return psycopg


class Session:
    """A `Connection` to Postgres that can reconnect."""

    # Every statement commits unless the caller begins a transaction.

    def __init__(self, target: Target) -> None:
        self._target = target
        self._connection = self._connect()

    @property
    def raw(self) -> Any:
        """The connection object of libpq."""
        return self._connection.pgconn

    @property
    def is_closed(self) -> bool:
        """True if the connection is closed."""
        return bool(self._connection.closed)

    def renew(self) -> None:
        """Close the connection and open another one."""
        self.close()
        self._connection = self._connect()

    def close(self) -> None:
        """Close the connection."""

        # Idempotent.
        with contextlib.suppress(driver().Error):
            self._connection.close()

    def execute(self, query: str, values: Sequence[Any] = (), /) -> psycopg.Cursor[Any]:
        """Run a statement, or several without values."""
        # Several statements in one text are possible only without values and with results as text.
        return self._connection.execute(to_postgres_dialect(query), values or None, binary=bool(values))

    def count(self, query: str, values: Sequence[Any], *, planned: bool) -> int:
        """Run a statement and count the rows that it has written."""
        cursor = self._connection.cursor(binary=True)
        return cursor.execute(to_postgres_dialect(query), values, prepare=None if planned else False).rowcount

    def executemany(self, query: str, rows: Iterable[Sequence[Any]], /) -> None:
        """Run a statement for each row."""
        # Not the driver's executemany: its final Flush makes the server forget PAUSE.
        for row in rows:
            self.count(query, row, planned=True)

    def _connect(self) -> psycopg.Connection[Any]:
        kind = driver()
        connection: psycopg.Connection[Any] = kind.connect(
            **self._target.parameters, autocommit=True, cursor_factory=kind.RawCursor
        )
        try:
            connection.execute(
                f"SET search_path TO {self._target.schema};"
                f" SET idle_in_transaction_session_timeout TO {round(IDLE_TRANSACTION_SECONDS * 1000)}"
            )
        except BaseException:
            connection.close()
            raise
        return connection


def is_transient(error: Exception) -> bool:
    """Return True if a statement may succeed a moment later on the same connection."""
    return getattr(error, "sqlstate", None) in TRANSIENT


def needs_new_connection(error: Exception) -> bool:
    """Return True if another connection is needed although this one is not closed."""
    return getattr(error, "sqlstate", None) in _NEEDS_NEW_CONNECTION


_JSON_EACH: Final = re.compile(r"json_each\((\?\d*)")


@functools.lru_cache(maxsize=256)
def to_postgres_dialect(query: str) -> str:
    """Return a shared statement in the dialect of Postgres."""
    query = _JSON_EACH.sub(r"json_array_elements_text(CAST(\1 AS json)", query)
    count = 0

    def number(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"${match[1] or count}"

    return _PLACEHOLDER.sub(number, query)


_MAX_NEWS_BYTES: Final = 7000  # bytes of a message, of 8000 that Postgres takes
_PAUSE: Final = (0.1, 5.0)  # seconds before it connects again, at first and at most


def notify(connection: Connection, target: Target, news: News) -> None:
    """Announce news when the transaction commits."""
    connection.execute("SELECT pg_notify(?, ?)", notification(target, news))


def notification(target: Target, news: News) -> tuple[str, str]:
    """Return the arguments of `pg_notify` for news: the channel and the payload."""
    return target.schema, _format_news(news)


def notify_all(session: Session, target: Target, news: list[News]) -> None:
    """Announce committed news in one round trip."""
    session.execute(
        "SELECT pg_notify(?, message) FROM unnest(CAST(? AS text[])) AS these (message)",
        (target.schema, [_format_news(news) for news in news]),
    )


class Listener:
    """Receives the news of a store."""

    # Public methods are safe from any thread.
    # Callbacks run on the listener's thread, the first time maybe on that of the caller of `add`. They must be short
    # and raise nothing.

    def __init__(self, target: Target, failures: tuple[type[Exception], ...]) -> None:
        self._target, self._failures = target, failures
        self.live = False
        self.session: Session | None = None
        self._callbacks: tuple[NewsCallback, ...] = ()
        self._lock = threading.Lock()
        self._is_closed = False
        self._wake_receiver, self._wake_sender = socket.socketpair()  # wakes the thread for the end
        self._thread = threading.Thread(target=self._main, name="ropewalk-news", daemon=True)
        self._thread.start()

    def add(self, callback: NewsCallback) -> None:
        """Call `callback` with every later change, and once at the start."""
        with self._lock:
            self._callbacks += (callback,)
            live = self.live
        if live:
            callback(News("", 0, ""))  # as the earlier callbacks got it when the listener began

    def remove(self, callback: NewsCallback) -> None:
        """Stop calling `callback`."""
        with self._lock:
            self._callbacks = tuple(listener for listener in self._callbacks if listener != callback)

    def close(self) -> None:
        """Stop the thread."""

        # Further calls have no effect.
        self._is_closed = True
        self._wake_sender.close()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._wake_receiver.close()

    # --- the thread -----------------------------------------------------------------------

    def _main(self) -> None:
        pause, longest = _PAUSE
        while not self._is_closed:
            with contextlib.suppress(*self._failures):
                self.session = Session(self._target)
                self.session.execute(f'LISTEN "{self._target.schema}"')
                with self._lock:  # a callback that is added now is called once: by `add` or below
                    self.live, pause, callbacks = True, _PAUSE[0], self._callbacks
                self._call_all(callbacks, News("", 0, ""))  # receivers read the store for earlier changes
                self._deliver_notifications(self.session)
            self.live = False
            if self.session is not None:
                self.session.close()
                self.session = None
                if not self._is_closed:
                    self._deliver(News("", 0, ""))
            self._sleep_unless_closed(pause)
            pause = min(2 * pause, longest)

    def _deliver_notifications(self, session: Session) -> None:
        raw: Any = session.raw
        with selectors.DefaultSelector() as selector:
            selector.register(raw.socket, selectors.EVENT_READ)
            selector.register(self._wake_receiver, selectors.EVENT_READ)
            while not self._is_closed:
                while (message := raw.notifies()) is not None:
                    self._deliver(_parse_news(message.extra.decode()))
                selector.select()
                if not self._is_closed:
                    raw.consume_input()

    def _sleep_unless_closed(self, seconds: float) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_receiver, selectors.EVENT_READ)
            selector.select(seconds)

    def _deliver(self, news: News) -> None:
        self._call_all(self._callbacks, news)

    def _call_all(self, callbacks: tuple[NewsCallback, ...], news: News) -> None:
        for callback in callbacks:
            callback(news)


def _format_news(news: News) -> str:
    run = news.run if len(news.run.encode()) <= _MAX_NEWS_BYTES else ""
    return f"{news.kind} {news.seq} {run}"


def _parse_news(message: str) -> News:
    kind, seq, run = message.split(" ", 2)
    return News(kind, int(seq), run)


_PATIENCE: Final = 5.0
"""Seconds to wait for a second server connection. A process that executes runs needs up to four."""
_POOLER_CHECKS: Final = 3
"""A pool that rotates its connections may give the first one back by chance, but not three times."""
_BACKEND_PID: Final = "SELECT pg_backend_pid()"


def check_pooler(session: Session, target: Target, backend: int) -> None:
    """Raise StoreError when a pooler in front of the server does not keep sessions."""

    # `session`: A session that is not in a transaction.
    # PgBouncer and its like invent the process id that they announce to a client; a server announces its own.
    if session.raw.backend_pid == backend:
        return
    with _second_connection(target) as second:
        for _ in range(_POOLER_CHECKS):
            held_backend = _begin_and_read_backend(second, target)
            own_backend = fetch(session, _BACKEND_PID)[0][0]
            # In session mode both sessions keep a server process of their own, always the same.
            if backend == held_backend or own_backend != backend:
                raise _pooler_error(target, "transaction")
            second.execute("ROLLBACK")


def _begin_and_read_backend(second: Any, target: Target) -> int:
    """Begin a transaction and give the server process that it holds until its end."""
    try:
        second.execute("BEGIN")
        return int(second.execute(_BACKEND_PID).fetchone()[0])
    except driver().Error as error:
        # PgBouncer answers a BEGIN in statement mode with an error of its own, and ends the connection.
        if "statement pooling" in str(error):
            raise _pooler_error(target, "statement") from error
        if not isinstance(error, driver().OperationalError):
            raise
        raise StoreError(
            f"{target.name}: the connection pooler has no second server connection free within {_PATIENCE:g} s;"
            " a process that executes runs uses up to four: raise its pool size (default_pool_size in pgbouncer.ini)"
        ) from error


@contextlib.contextmanager
def _second_connection(target: Target) -> Iterator[Any]:
    """A plain connection that is cut when it waits too long for the pooler."""
    connection = driver().connect(**target.parameters, autocommit=True)
    timer = threading.Timer(_PATIENCE, _cut_connection, (connection,))
    timer.daemon = True
    timer.start()
    try:
        yield connection
    finally:
        timer.cancel()
        connection.close()


def _cut_connection(connection: Any) -> None:
    # From another thread libpq may not be asked to close; the socket under it may be shut down.
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as raw_socket:
        raw_socket.shutdown(socket.SHUT_RDWR)


def _pooler_error(target: Target, mode: str) -> StoreError:
    return StoreError(
        f"{target.name}: the connection pooler in front of Postgres is in {mode} mode, which does not keep sessions;"
        " Ropewalk listens for notifications and keeps prepared statements in its sessions."
        " Set pool_mode = session for this database (pgbouncer.ini), or use the server's own address"
    )
