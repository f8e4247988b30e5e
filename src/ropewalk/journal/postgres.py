"""The store in a Postgres database: for several hosts, and for those who have one.

Each store has a schema of its own (`?schema=`, "ropewalk" unless named), made on demand. It waits
for a server that restarts, and sends again what was not acknowledged. Refused: a schema of another
program or of a newer version. Needs `ropewalk[postgres]`.
"""

from __future__ import annotations

import contextlib
import time

from .connection import fetch
from .postgres_schema import prepare
from .postgres_session import Session, driver, target
from .postgres_writer import PostgresWriter, store_error
from .soundness import bad_values
from .sql_store import SqlStore


class PostgresStore(SqlStore):
    """Definitions and runs in the database at `url` (`postgresql://user:password@host:port/database`).

    `lease` is how long, in seconds, an owner on another host may be silent; `poll` how often stop
    requests of other processes are looked for.
    """

    remote = True

    def __init__(self, url: str, *, lease: float = 10.0, poll: float = 0.2) -> None:
        self.where = target(url)
        self._postgres = PostgresWriter(self.where, lease, poll)
        super().__init__(self._postgres, lease, poll)

    def wait_for_server(self, seconds: float) -> None:
        """Set for how long everything waits for a server that is away, before it fails with StoreError."""
        self._postgres.patience = seconds


def examine(url: str, limit: float | None = None) -> tuple[str, list[str]]:
    """Where the store is, without a password and with the server's version; and what is wrong with it,
    a sentence each. Reads every value, or raises Unfinished after `limit` seconds."""
    where = target(url)
    deadline = None if limit is None else time.monotonic() + limit
    try:
        with contextlib.closing(Session(where)) as session:
            prepare(session, where)
            version = fetch(session, "SELECT current_setting('server_version')")[0][0]
            return f"{where.name} (Postgres {version})", [bad.said for bad in bad_values(session, deadline)]
    except driver().Error as error:
        raise store_error(where.name, error) from error
