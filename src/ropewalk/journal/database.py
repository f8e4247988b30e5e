"""Opens the SQLite file: checks that it is ours and sound, brings it up to date.

Refused, with nothing changed: a file of another program, one written by a newer version, one
that is damaged.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Final, Literal

import apsw

from ..errors import StoreError
from . import walfile
from .blobs import ASK
from .connection import Connection, fetch
from .migrations import Migrations

BUSY: Final = 30.0
"""Seconds to wait for another process that is writing."""

_APPLICATION: Final = 0x726F7065  # "rope"
_UNCHANGED: Final = "nothing was changed"
_CHANGED: Final = "it was met while the store was in use, what was written before stays"
_ROOM: Final = 32_768  # The step in which SQLite lets that index grow.
_MIGRATIONS: Final = Path(__file__).parent / "migrations"
_making: Final = threading.Lock()


class Moved(apsw.Error):
    """The file at the path is not the one that was opened; SQLite would write on."""


def open_database(path: Path, sync: Literal["normal", "full"]) -> apsw.Connection:
    """A connection for writing to the store at `path`, which is created when it is not there."""
    _check_file(path)
    try:
        connection = connect(path)
        try:
            # Closing would otherwise copy a damaged log into the database, and delete it.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            _check_log(connection, path)
            _check_owner(connection, path)
            if not connection.pragma("page_count"):
                connection.pragma("auto_vacuum", 2)  # Only a new file takes it: pruning can then shrink it.
            _use_log(connection, path)
            _migrate(connection, path)
            connection.pragma("synchronous", sync)
            connection.pragma("cache_size", -16_000)
            connection.pragma("journal_size_limit", 64_000_000)
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        except BaseException:
            connection.close()
            raise
    except apsw.Error as error:
        raise store_error(path, error, opening=True) from error
    return connection


def connect(path: Path, *, create: bool = False) -> apsw.Connection:
    """A plain connection that waits its turn. A file that is gone is not made anew, unless to `create` it is wanted."""
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    connection = apsw.Connection(str(path), flags=flags)
    connection.set_busy_timeout(int(BUSY * 1000))
    return connection


def columns(connection: Connection, table: str) -> list[str]:
    """The names of a table's columns."""
    return [name for (name,) in fetch(connection, "SELECT name FROM pragma_table_info(?)", (table,))]


def store_error(path: Path, error: Exception, *, opening: bool = False) -> StoreError:
    """What the user is told about a failure of SQLite, while the store is opened or later, and what to do."""
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        what = "this is not a SQLite database" if isinstance(error, apsw.NotADBError) else str(error)
        return damaged(path, what, _UNCHANGED if opening else _CHANGED)
    if isinstance(error, Moved) or not path.exists() or "no such table" in str(error):
        what = "the file was deleted, moved or replaced while it was in use; put it back, or start with a new one"
    elif isinstance(error, apsw.FullError) or (isinstance(error, apsw.IOError) and _is_full(path)):
        what = "the disk is full; free some space. Nothing acknowledged is lost"
    elif isinstance(error, apsw.BusyError):
        what = f"another process has been writing for more than {BUSY:g} s; find and end it (`fuser {path}`)"
    elif isinstance(error, apsw.CantOpenError) and not os.access(path, os.R_OK):
        what = "this user may not read it"
    elif isinstance(error, (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError)):
        what = f"cannot be opened ({error}); check who may read it, what is beside it (-wal, -shm) and its directory"
    elif isinstance(error, apsw.IOError):
        what = f"the disk reports an error ({error}); nothing acknowledged is lost. Check the disk, then try again"
    else:
        what = f"{type(error).__name__}: {error}"
    return StoreError(f"{path}: {what}")


def _is_full(path: Path) -> bool:
    """Whether there is no room on the disk. Not every write that finds none is told as that by SQLite: where the index
    of the log (-shm) cannot grow, it is an I/O error."""
    try:
        disk = os.statvfs(path.parent)
    except (AttributeError, OSError):  # No such call on Windows; a directory that is gone is no full disk.
        return False
    return disk.f_bavail * disk.f_frsize < _ROOM


def damaged(path: Path, what: str, changed: str = _UNCHANGED) -> StoreError:
    return StoreError(f"{path} is damaged ({what}); {changed}{ASK}")


def _check_file(path: Path) -> None:
    """Refuse what can be no store, and make the file where there is none. What is in it only SQLite reads: closing any
    descriptor of a file drops the locks that this process holds on it, those of its other connections too."""
    try:
        if path.is_dir():
            raise StoreError(f"{path} is a directory; name a file in it, such as {path / 'ropewalk.db'}")
        with _making:  # No other thread connects to a new file before the descriptor that made it is closed.
            _refuse_links(path)
            if lost := walfile.orphan(path):
                raise StoreError(f"{path}: {lost}")
            if not path.exists():
                _make(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error


def _refuse_links(path: Path) -> None:
    """SQLite follows links when it writes the files beside a database, so a planted one would be overwritten."""
    for suffix in ("-wal", "-shm", "-journal"):
        file = Path(os.path.realpath(path) + suffix)
        if file.is_symlink():
            raise StoreError(f"{file} is a link to {os.readlink(file)}; SQLite would write there, so remove the link")


def _make(path: Path) -> None:
    if not path.parent.is_dir():
        raise StoreError(f"{path}: there is no directory {path.parent}; create it first")
    try:
        # What runs saw and did is nobody else's business.
        os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:  # Another process was faster, or the link leads to itself: connecting tells.
        return
    except OSError as error:
        raise StoreError(f"{path} cannot be created: {error.strerror}") from error


def _check_log(connection: apsw.Connection, path: Path) -> None:
    wal = walfile.beside(path)
    if not wal.exists() or not wal.stat().st_size:
        return
    other = connect(path)
    try:
        other.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.execute("BEGIN IMMEDIATE")  # Nobody writes while we look.
        fetch(other, "SELECT 1 FROM sqlite_schema")  # Only a connection that has read knows the count.
        frames, _ = other.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        found = walfile.damage(wal, max(frames, 0))
        connection.execute("ROLLBACK")
    finally:
        other.close()
    if found:
        raise damaged(wal, found)


def _check_owner(connection: apsw.Connection, path: Path) -> None:
    # In this order: between the two another process may make the store that we find, both in one transaction.
    filled = next(iter(connection.execute("SELECT name FROM sqlite_schema LIMIT 1")), None)
    if filled and connection.pragma("application_id") != _APPLICATION:
        raise StoreError(f"{path} is a database of another program; choose another file")


def _use_log(connection: apsw.Connection, path: Path) -> None:
    deadline = time.monotonic() + BUSY
    while True:
        try:
            mode = connection.pragma("journal_mode", "wal")
        except apsw.BusyError:  # SQLite does not wait here by itself.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
            continue
        if mode != "wal":
            raise StoreError(f"{path}: no write-ahead log is possible here (a network drive?); use a local disk")
        return


def check_store(connection: apsw.Connection, path: Path, why: str) -> None:
    """Refuse what is no store of this version, where nothing can be done about it: `why` it cannot be written."""
    _check_owner(connection, path)
    if not connection.table_exists(None, "migration"):
        raise StoreError(f"{path} is no store yet, and none can be made of it: {why}")
    migrations = Migrations(_MIGRATIONS)
    version = migrations.check(connection, str(path))
    if version < migrations.newest:
        raise StoreError(
            f"{path} was written by an older Ropewalk (store version {version}, this one reads {migrations.newest}),"
            f" and cannot be brought up to date here: {why}; open it once where it can be written"
        )


def _migrate(connection: apsw.Connection, path: Path) -> None:
    migrations = Migrations(_MIGRATIONS)
    if connection.table_exists(None, "migration") and migrations.version(connection) == migrations.newest:
        return
    connection.execute("BEGIN IMMEDIATE")  # Whoever comes second finds the work done.
    try:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS migration"
            " (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied REAL NOT NULL)"
        )
        connection.pragma("application_id", _APPLICATION)
        migrations.apply(connection, str(path))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
