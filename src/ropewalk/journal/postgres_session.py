"""A session with a Postgres server: where it is, what is said to it, what its errors mean.

The SQL that stores share is written for SQLite; the few words in which Postgres differs are put
right here. The driver, psycopg, is imported when the first session begins.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ..errors import StoreError
from ..errors.given import install
from ..frozen import dataclass

if TYPE_CHECKING:
    import psycopg

SCHEMA: Final = "ropewalk"

PAUSE: Final = 3.0
"""Seconds after which the server ends a session that says nothing within a transaction: a process that is
paused just there would keep its runs locked, and nobody could take them over within five seconds."""

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_VALUE: Final = re.compile(r"\?(\d*)")

_CALM: Final = {
    # A server that has vanished without a word is noticed within some ten seconds.
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "ropewalk",
    "client_encoding": "UTF8",
}

PASSING: Final = frozenset(("40001", "40P01", "53300", "55P03", "57P01", "57P02", "57P03", "25006"))
"""Conflicts and a deadlock, too many connections, a lock not had, a server that ends, has crashed,
begins or has become a replica: a moment later it may go well."""

_RENEWS: Final = frozenset(("57P01", "57P02", "57P03", "25006"))


@dataclass(frozen=True, slots=True)
class Target:
    """Where a store is: what libpq needs to know, the schema, and the address without a password."""

    parameters: dict[str, Any] = field(repr=False)
    schema: str
    name: str


def target(url: str) -> Target:
    """From `postgresql://user:password@host:port/database?schema=ropewalk`; whatever else libpq knows
    may follow. Raises StoreError for what is no such address."""
    driver()
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = urlsplit(url)
        words = parse_qsl(parts.query, keep_blank_values=True)
        schema = dict(words).get("schema", SCHEMA)
        rest = urlencode([(name, value) for name, value in words if name != "schema"])
        given = conninfo_to_dict(urlunsplit(parts._replace(query=rest)))
    except (ValueError, ProgrammingError) as error:
        wrong = "the address of the Postgres store is wrong"
        right = "right is postgresql://user@host:5432/database"
        if "@" in url or "password" in url:  # What is said of it may repeat the password.
            raise StoreError(
                f"{wrong}; {right}, with : / ? # @ % of a password written as %3A %2F %3F %23 %40 %25"
            ) from None
        raise StoreError(f"{wrong}: {str(error).strip()}; {right}") from error
    if not _NAME.fullmatch(schema):
        raise StoreError(f"schema={schema!r} is no plain name; right are small letters, digits and _")
    user = f"{given['user']}@" if "user" in given else ""
    port = f":{given['port']}" if "port" in given else ""
    name = f"postgresql://{user}{given.get('host', '')}{port}/{given.get('dbname', '')}"
    return Target({**_CALM, **given}, schema, name if schema == SCHEMA else f"{name}?schema={schema}")


def driver() -> Any:
    """psycopg. Raises StoreError, saying what to install, when it is not there."""
    try:
        import psycopg
    except ImportError as error:
        raise StoreError(
            f"stores on Postgres need psycopg: {install('postgres')} ({str(error).splitlines()[0]})"
        ) from error
    return psycopg


class Session:
    """A `Connection` to Postgres that can be made anew. Every statement commits by itself unless
    the caller begins a transaction."""

    def __init__(self, where: Target) -> None:
        self._where = where
        self._connection = self._connect()

    @property
    def raw(self) -> Any:
        """What libpq knows it by."""
        return self._connection.pgconn

    @property
    def lost(self) -> bool:
        return bool(self._connection.closed)

    def renew(self) -> None:
        self.close()
        self._connection = self._connect()

    def close(self) -> None:
        with contextlib.suppress(driver().Error):
            self._connection.close()

    def execute(self, query: str, values: Sequence[Any] = (), /) -> psycopg.Cursor[Any]:
        # Only without values may a text hold several statements, and only when text is to come back.
        return self._connection.execute(words(query), values or None, binary=bool(values))

    def count(self, query: str, values: Sequence[Any], *, planned: bool) -> int:
        """How many rows a statement has written. `planned` says whether one plan is right for all values."""
        cursor = self._connection.cursor(binary=True)
        return cursor.execute(words(query), values, prepare=None if planned else False).rowcount

    def executemany(self, query: str, rows: Iterable[Sequence[Any]], /) -> None:
        # Not the driver's executemany: what it sends last, a Flush, has the server forget PAUSE.
        for row in rows:
            self.count(query, row, planned=True)

    def _connect(self) -> psycopg.Connection[Any]:
        kind = driver()
        made: psycopg.Connection[Any] = kind.connect(
            **self._where.parameters, autocommit=True, cursor_factory=kind.RawCursor
        )
        try:
            made.execute(
                f"SET search_path TO {self._where.schema};"
                f" SET idle_in_transaction_session_timeout TO {round(PAUSE * 1000)}"
            )
        except BaseException:
            made.close()
            raise
        return made


def passes(error: Exception) -> bool:
    """Whether what a statement met may be gone a moment later, on a connection that is still there."""
    return getattr(error, "sqlstate", None) in PASSING


def must_renew(error: Exception) -> bool:
    """Whether another connection is needed though this one has not been cut."""
    return getattr(error, "sqlstate", None) in _RENEWS


_LISTED: Final = re.compile(r"json_each\((\?\d*)")


@functools.lru_cache(maxsize=256)
def words(query: str) -> str:
    """A shared statement as Postgres wants it."""
    query = _LISTED.sub(r"json_array_elements_text(CAST(\1 AS json)", query)
    count = 0

    def number(found: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"${found[1] or count}"

    return _VALUE.sub(number, query)
