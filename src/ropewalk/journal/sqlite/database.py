"""Open the SQLite file of a store: check that it is a sound store, and migrate it to this version.

Refused, with nothing changed: a file of another program, a file written by a newer version, a damaged file.

`SqliteReader` reads a store that this process may not write to: another user's, or one on a read-only disk. It creates
and changes no file. SQLite reads such a store under locks only if the log and its index (-shm) exist, as they do while
another process uses the store. Otherwise SQLite would have to create them, so the store is read without locks. The
reader compares the files before and after, and repeats a read if a process wrote in between.

Refused by `SqliteReader`: every write, with the reason and the path.
"""

from __future__ import annotations

import os
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, Literal, NoReturn, TypeAlias, TypeVar

import apsw

from ...errors import Action, StoreError
from ..sql.rows import Connection, Row, fetch
from ..sql.upkeep import Migrations
from ..sql.write_batch import Item, WriteBatch
from ..sql.writer import Writer
from . import wal_check

BUSY: Final = 30.0
"""Seconds to wait for another process that is writing."""

_APPLICATION: Final = 0x726F7065  # "rope"
_UNCHANGED: Final = "nothing was changed"
_CHANGED: Final = "the damage was found while the store was in use, and earlier writes are kept"
_ROOM: Final = 32_768  # bytes by which SQLite grows the index of the log
_MIGRATIONS: Final = Path(__file__).parent / "migrations"
_creation_lock: Final = threading.Lock()


class Moved(apsw.Error):
    """The file at the path is not the one that was opened, although SQLite could still write to the old one."""


def open_database(path: Path, sync: Literal["normal", "full"]) -> apsw.Connection:
    """Open the store at `path` for writing; create it if it does not exist."""
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
    """Connect to a database, with a timeout for locks."""
    _check_size(path)
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    connection = apsw.Connection(str(path), flags=flags)
    connection.set_busy_timeout(int(BUSY * 1000))
    return connection


def _check_size(path: Path) -> None:
    """Raise NotADBError for a file of one byte, which SQLite would take for a new database and overwrite."""
    if path.exists() and path.stat().st_size == 1:
        raise apsw.NotADBError("file is not a database")


def columns(connection: Connection, table: str) -> list[str]:
    """Return the names of a table's columns."""
    return [name for (name,) in fetch(connection, "SELECT name FROM pragma_table_info(?)", (table,))]


def store_error(path: Path, error: Exception, *, opening: bool = False) -> StoreError:
    """Return the error for people about a failure of SQLite, with what to do."""
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        problem = "this is not a SQLite database" if isinstance(error, apsw.NotADBError) else str(error)
        return damage_error(path, problem, _UNCHANGED if opening else _CHANGED)
    # A file that was moved also causes other errors, so this cause comes before them.
    if isinstance(error, Moved) or not path.exists() or "no such table" in str(error):
        problem = "the file was deleted, moved or replaced while it was in use; put it back, or start with a new one"
    elif isinstance(error, apsw.FullError) or (isinstance(error, apsw.IOError) and _is_full(path)):
        problem = "the disk is full; free some space. Nothing acknowledged is lost"
    elif isinstance(error, apsw.BusyError):
        problem = f"another process has been writing for more than {BUSY:g} s; find and end it (`fuser {path}`)"
    # Before the general message about permissions, because here the cause is certain.
    elif isinstance(error, apsw.CantOpenError) and not os.access(path, os.R_OK):
        problem = "this user may not read it"
    elif isinstance(error, (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError)):
        problem = (
            f"cannot be opened ({error}); check the permissions of the file, of the files next to it (-wal, -shm) and "
            "of its directory"
        )
    elif isinstance(error, apsw.IOError):
        problem = f"the disk reports an error ({error}); nothing acknowledged is lost. Check the disk, then try again"
    else:
        problem = f"{type(error).__name__}: {error}"
    return StoreError(f"{path}: {problem}")


def _is_full(path: Path) -> bool:
    """Return True if the disk is full."""

    # SQLite reports an I/O error instead if the index of the log cannot grow.
    try:
        disk = os.statvfs(path.parent)
    except (AttributeError, OSError):  # Windows has no such call; a missing directory is not a full disk.
        return False
    return disk.f_bavail * disk.f_frsize < _ROOM


def damage_error(path: Path, problem: str, changed: str = _UNCHANGED) -> StoreError:
    """Make the error for a damaged file."""
    return StoreError(f"{path} is damaged ({problem}); {changed}").with_remedy(Action.EXAMINE_STORE)


def _check_file(path: Path) -> None:
    """Refuse a path that cannot be a store, and create a missing file."""

    # Only SQLite opens an existing file: closing any other descriptor of it would drop the locks that all connections
    # of this process hold on it.
    try:
        if path.is_dir():
            raise StoreError(f"{path} is a directory; name a file in it, such as {path / 'ropewalk.db'}")
        with _creation_lock:  # No other thread connects to a new file before the descriptor that made it is closed.
            _refuse_links(path)
            if problem := wal_check.orphan_wal(path):
                raise StoreError(f"{path}: {problem}")
            if not path.exists():
                _make(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error


def _refuse_links(path: Path) -> None:
    """Refuse links at the paths of the log and its index: SQLite follows them and would overwrite their targets."""
    for suffix in ("-wal", "-shm", "-journal"):
        file = Path(os.path.realpath(path) + suffix)
        if file.is_symlink():
            raise StoreError(f"{file} is a link to {os.readlink(file)}; SQLite would write there, so remove the link")


def _make(path: Path) -> None:
    if not path.parent.is_dir():
        why = "is a file" if path.parent.exists() else "does not exist; create it first"
        raise StoreError(f"{path}: directory {path.parent} {why}")
    try:
        # Only the owner may read the data of runs.
        os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:  # Another process was faster, or the link leads to itself. Connecting shows which.
        return
    except OSError as error:
        raise StoreError(f"{path} cannot be created: {error.strerror}") from error


def _check_log(connection: apsw.Connection, path: Path) -> None:
    wal = wal_check.wal_path(path)
    if not wal.exists() or not wal.stat().st_size:
        return
    second = connect(path)
    try:
        second.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.execute("BEGIN IMMEDIATE")  # no process writes during the check
        fetch(second, "SELECT 1 FROM sqlite_schema")  # Only a connection that has read knows the count.
        frames, _ = second.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        damage = wal_check.wal_damage(wal, max(frames, 0))
        connection.execute("ROLLBACK")
    finally:
        second.close()
    if damage:
        raise damage_error(wal, damage)


def _check_owner(connection: apsw.Connection, path: Path) -> None:
    # In this order, because another process may create the store between the two queries, in one transaction.
    first_table = next(iter(connection.execute("SELECT name FROM sqlite_schema LIMIT 1")), None)
    if first_table and connection.pragma("application_id") != _APPLICATION:
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
    """Check that a store that cannot be written has this version."""
    _check_owner(connection, path)
    if not connection.table_exists(None, "migration"):
        raise StoreError(f"{path} is not a store yet and cannot become one: {why}")
    migrations = Migrations(_MIGRATIONS)
    version = migrations.check(connection, str(path))
    if version < migrations.newest:
        raise StoreError(
            f"{path} was written by an older Ropewalk (store version {version}, this one reads {migrations.newest}),"
            f" and cannot be upgraded here: {why}; open it once as a user who can write to it"
        )


def _migrate(connection: apsw.Connection, path: Path) -> None:
    migrations = Migrations(_MIGRATIONS)
    if connection.table_exists(None, "migration") and migrations.version(connection) == migrations.newest:
        return
    connection.execute("BEGIN IMMEDIATE")  # A second process waits here and then finds the migrations applied.
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


T = TypeVar("T")
_FileState: TypeAlias = tuple[tuple[int, int, int] | None, ...]

_TRIES: Final = 20
_NO_LOCKS: Final = "unix-none" if os.name == "posix" else "win32-none"


def unwritable(path: Path) -> str:
    """Find out why this process cannot write to a store."""
    file, log = Path(os.path.realpath(path)), wal_check.wal_path(path)
    try:
        if not file.is_file():
            return ""
    except OSError as error:
        raise StoreError(f"{path}: cannot check if it exists: {error.strerror}") from error
    index = _index(log)
    for needed, name in ((file, "it"), (log, log.name), (index, index.name)):
        if needed.exists() and not _may_write(needed):
            return _why(needed, name)
    both_there = log.exists() and index.exists()  # then SQLite creates no file in the directory
    return "" if both_there or _may_write(file.parent) else _why(file.parent, f"its directory {file.parent}")


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _why(path: Path, name: str) -> str:
    read_only = os.name == "posix" and os.statvfs(path).f_flag & os.ST_RDONLY
    return f"{name} is on a read-only disk" if read_only else f"this user may not write to {name}"


def _index(log: Path) -> Path:
    return log.with_name(log.name.removesuffix("-wal") + "-shm")


class SqliteReader(Writer):
    """Reads a store that cannot be written."""

    # Every write raises a StoreError with the reason, `why`.

    run_column = "+run"

    def __init__(self, path: Path, why: str, lease: float, poll: float) -> None:
        self.path, self._why = path, why
        self._reader: apsw.Connection | None = None
        self._file_state: _FileState = ()
        self._locked = False
        super().__init__(str(path), (apsw.Error, UnicodeError), lease, poll)
        try:
            self.read(lambda _: None)
        except BaseException:
            self.close()
            raise

    def read_once(self, work: Callable[[Connection], T]) -> T:
        for _ in range(_TRIES):
            before = self._files()
            if self._reader is None or not (self._locked or before == self._file_state):
                self._open(before)
            assert self._reader is not None
            try:
                result = work(self._reader)
            except (apsw.Error, StoreError):
                if self._locked or self._files() == before:
                    raise
            else:
                if self._locked or self._files() == before:
                    return result
        raise StoreError(
            f"{self.path}: {self._why}, so it is read without locks, and other processes keep changing it;"
            " try again, or run as a user who may write to it"
        )

    def _open(self, state: _FileState) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        connection, self._locked = connect_to_read(self.path)
        try:
            check_store(connection, self.path, self._why)
        except BaseException:
            connection.close()
            raise
        self._reader, self._file_state = connection, state

    def _files(self) -> _FileState:
        log = wal_check.wal_path(self.path)
        return tuple(_state(file) for file in (self.path, log, _index(log)))

    def columns(self, connection: Connection, table: str) -> list[str]:
        return columns(connection, table)

    def failure(self, error: Exception) -> StoreError:
        return store_error(self.path, error, opening=self._reader is None)

    def connections(self) -> Iterable[Any]:
        return [] if self._reader is None else [self._reader]

    # --- what writes ----------------------------------------------------------------------

    def put(self, batch: WriteBatch, items: list[Item]) -> None:
        batch.set_results_soon(items, [self._refused()] * len(items))

    def _run(self, work: Callable[[], T]) -> T:
        self.check()
        raise self._refused()

    def _refused(self) -> StoreError:
        return StoreError(f"{self.path} can only be read here: {self._why}").with_remedy(Action.CHOOSE_STORE)

    def transaction(self, work: Callable[[Connection], T]) -> NoReturn:
        raise self._refused()

    def exclusive_transaction(self, work: Callable[[Connection], T]) -> NoReturn:
        raise self._refused()

    def retry_transient(self, work: Callable[[], T]) -> T:
        return work()

    def insert(self, rows: list[Row]) -> NoReturn:
        raise self._refused()


def connect_to_read(path: Path) -> tuple[apsw.Connection, bool]:
    """Connect to a database without changing any file."""
    _check_size(path)
    log = wal_check.wal_path(path)
    has_log = wal_check.is_non_empty(log)
    locked = has_log and _index(log).exists()
    options = "" if locked else f"&vfs={_NO_LOCKS}" if has_log else "&immutable=1"
    place = urllib.parse.quote(os.path.realpath(path))
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"file:{place}?mode=ro{options}", flags=flags)
    try:
        connection.set_busy_timeout(int(BUSY * 1000))
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        if has_log and not locked:
            connection.pragma("locking_mode", "exclusive")  # The index of the log is then made in memory.
            if damage := wal_check.wal_damage(log, wal_check.valid_frames(log)):
                raise damage_error(log, damage)
    except BaseException:
        connection.close()
        raise
    return connection, locked


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
