"""Opens a store in Postgres: checks that the schema is ours, makes it or brings it up to date.

Refused, with nothing changed: a schema with tables of another program, one written by a newer
version, a database that is not in UTF-8, a connection pooler that does not keep sessions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ..errors import StoreError
from .connection import fetch
from .migrations import Migrations
from .postgres_pooler import check_pooler
from .postgres_session import Session, Target

_FOLDER: Final = Path(__file__).parent / "migrations" / "postgres"
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
        if not session.lost:
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
