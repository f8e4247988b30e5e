"""Reads a store that this process may not write to: another user's, or one on a read-only disk.

Nothing is made or changed beside it. SQLite reads such a file under locks only where the log and its index (-shm) are
there, as while somebody uses the store. Where they are not it would have to make them, so it is read without locks;
whoever began to write meanwhile would be seen by the files, and what was read is thrown away.

Refused: whatever writes, with the reason and the place.
"""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

import apsw

from ..errors import StoreError
from . import walfile
from .connection import Connection
from .database import BUSY, check_store, columns, damaged, store_error
from .inbox import Inbox, Item
from .sql_rows import Row
from .writer import Writer

T = TypeVar("T")
_Seen: TypeAlias = tuple[tuple[int, int, int] | None, ...]

_TRIES: Final = 20
_NO_LOCKS: Final = "unix-none" if os.name == "posix" else "win32-none"


def unwritable(path: Path) -> str:
    """Why this process cannot write to the store at `path`; empty where it can, and where there is no file."""
    file, log = Path(os.path.realpath(path)), walfile.beside(path)
    try:
        if not file.is_file():
            return ""
    except OSError as error:
        raise StoreError(f"{path} cannot be looked for: {error.strerror}") from error
    index = _index(log)
    for needed, name in ((file, "it"), (log, log.name), (index, index.name)):
        if needed.exists() and not _may_write(needed):
            return _why(needed, name)
    both_there = log.exists() and index.exists()  # then nothing has to be made in the directory
    return "" if both_there or _may_write(file.parent) else _why(file.parent, f"its directory {file.parent}")


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _why(path: Path, name: str) -> str:
    read_only = os.name == "posix" and os.statvfs(path).f_flag & os.ST_RDONLY
    return f"{name} is on a read-only disk" if read_only else f"this user may not write to {name}"


def _index(log: Path) -> Path:
    return log.with_name(log.name.removesuffix("-wal") + "-shm")


class SqliteReader(Writer):
    """What is in the file at `path`, of which `why` says why it cannot be written."""

    run_column = "+run"

    def __init__(self, path: Path, why: str, lease: float, poll: float) -> None:
        self.path, self._why = path, why
        self._reader: apsw.Connection | None = None
        self._seen: _Seen = ()
        self._locked = False
        super().__init__(str(path), (apsw.Error, UnicodeError), lease, poll)
        try:
            self.read(lambda _: None)
        except BaseException:
            self.close()
            raise

    def look(self, work: Callable[[Connection], T]) -> T:
        for _ in range(_TRIES):
            before = self._files()
            if self._reader is None or not (self._locked or before == self._seen):
                self._open(before)
            assert self._reader is not None
            try:
                found = work(self._reader)
            except (apsw.Error, StoreError):
                if self._locked or self._files() == before:
                    raise
            else:
                if self._locked or self._files() == before:
                    return found
        raise StoreError(f"{self.path}: others write to it so often that it cannot be read without locks")

    def _open(self, seen: _Seen) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        connection, self._locked = connect_to_read(self.path)
        try:
            check_store(connection, self.path, self._why)
        except BaseException:
            connection.close()
            raise
        self._reader, self._seen = connection, seen

    def _files(self) -> _Seen:
        log = walfile.beside(self.path)
        return tuple(_state(file) for file in (self.path, log, _index(log)))

    def columns(self, connection: Connection, table: str) -> list[str]:
        return columns(connection, table)

    def failure(self, error: Exception) -> StoreError:
        return store_error(self.path, error, opening=self._reader is None)

    def connections(self) -> Iterable[Any]:
        return [] if self._reader is None else [self._reader]

    # --- what writes ----------------------------------------------------------------------

    def put(self, inbox: Inbox, items: list[Item]) -> None:
        inbox.settle_soon(items, [self._refused()] * len(items))

    def _run(self, work: Callable[[], T]) -> T:
        self.check()
        raise self._refused()

    def _refused(self) -> StoreError:
        return StoreError(
            f"{self.path} can only be read here: {self._why}; another store is named by --store or ROPEWALK_STORE"
        )

    def transaction(self, work: Callable[[Connection], T]) -> NoReturn:
        raise self._refused()

    def alone(self, work: Callable[[Connection], T]) -> NoReturn:
        raise self._refused()

    def patiently(self, work: Callable[[], T]) -> T:
        return work()

    def insert(self, rows: list[Row]) -> NoReturn:
        raise self._refused()


def connect_to_read(path: Path) -> tuple[apsw.Connection, bool]:
    """A connection that changes nothing, and whether it reads under locks."""
    log = walfile.beside(path)
    filled = walfile.filled(log)
    locked = filled and _index(log).exists()
    how = "" if locked else f"&vfs={_NO_LOCKS}" if filled else "&immutable=1"
    place = urllib.parse.quote(os.path.realpath(path))
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"file:{place}?mode=ro{how}", flags=flags)
    try:
        connection.set_busy_timeout(int(BUSY * 1000))
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        if filled and not locked:
            connection.pragma("locking_mode", "exclusive")  # The index of the log is then made in memory.
            if found := walfile.damage(log, walfile.sound(log)):
                raise damaged(log, found)
    except BaseException:
        connection.close()
        raise
    return connection, locked


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
