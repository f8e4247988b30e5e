"""Refuse a connection pooler that gives the statements of one session to different server connections.

The store needs sessions of its own: it listens for notifications, keeps prepared statements and sets a search path.
A pooler in session mode (PgBouncer's `pool_mode = session`) keeps them; in transaction or statement mode it does not,
and entries would be lost without a word. A pooler cannot be asked for its mode, so the mode is observed.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any, Final

from ..errors import StoreError
from .connection import fetch
from .postgres_session import Session, Target, driver

_PATIENCE: Final = 5.0
"""Seconds to wait for a second server connection. A process that executes runs needs up to four."""
_ROUNDS: Final = 3
"""A pool that rotates its connections may give the first one back by chance, but not three times."""
_BACKEND: Final = "SELECT pg_backend_pid()"


def check_pooler(session: Session, where: Target, backend: int) -> None:
    """Raise StoreError when a pooler in front of the server does not keep sessions.

    Args:
        session: A session that is not in a transaction.
        where: The store it belongs to.
        backend: The server process that answered this session's last statement.
    """
    # PgBouncer and its like invent the process id that they announce to a client; a server announces its own.
    if session.raw.backend_pid == backend:
        return
    with _second_connection(where) as other:
        for _ in range(_ROUNDS):
            taken = _hold(other, where)
            again = fetch(session, _BACKEND)[0][0]
            # In session mode both sessions keep a server process of their own, always the same.
            if backend == taken or again != backend:
                raise _refusal(where, "transaction")
            other.execute("ROLLBACK")


def _hold(other: Any, where: Target) -> int:
    """Begin a transaction and give the server process that it holds until its end."""
    try:
        other.execute("BEGIN")
        return int(other.execute(_BACKEND).fetchone()[0])
    except driver().Error as error:
        # PgBouncer answers a BEGIN in statement mode with an error of its own, and ends the connection.
        if "statement pooling" in str(error):
            raise _refusal(where, "statement") from error
        if not isinstance(error, driver().OperationalError):
            raise
        raise StoreError(
            f"{where.name}: the connection pooler has no second server connection free within {_PATIENCE:g} s;"
            " a process that executes runs uses up to four: raise its pool size (default_pool_size in pgbouncer.ini)"
        ) from error


@contextlib.contextmanager
def _second_connection(where: Target) -> Iterator[Any]:
    """A plain connection that is cut when it waits too long for the pooler."""
    connection = driver().connect(**where.parameters, autocommit=True)
    timer = threading.Timer(_PATIENCE, _cut, (connection,))
    timer.daemon = True
    timer.start()
    try:
        yield connection
    finally:
        timer.cancel()
        connection.close()


def _cut(connection: Any) -> None:
    # From another thread libpq may not be asked to close; the socket under it may be shut down.
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as under:
        under.shutdown(socket.SHUT_RDWR)


def _refusal(where: Target, mode: str) -> StoreError:
    return StoreError(
        f"{where.name}: the connection pooler in front of Postgres is in {mode} mode, which does not keep sessions;"
        " Ropewalk listens for notifications and keeps prepared statements in its sessions."
        " Set pool_mode = session for this database (pgbouncer.ini), or use the server's own address"
    )
