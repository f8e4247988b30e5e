"""Examines a SQLite store that may be damaged, and saves what can be read of it.

Neither changes the store: both work on a copy. Refused: writing over an existing file.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apsw

from ..errors import StoreError
from .connection import fetch
from .database import connect, open_database, store_error
from .sql_rows import bad_blobs

_MOST = 20


def examine(path: str | Path) -> list[str]:
    """What is wrong with the store at `path`, a sentence each; empty when it is sound. Reads all
    of it. The process that uses it, if any, should have ended."""
    path = Path(path)
    if not path.exists():
        return [f"{path}: there is no such file"]
    found: list[str] = []
    with _copy(path) as copy:
        try:
            open_database(copy, "normal").close()
        except StoreError as error:
            found.append(str(error).replace(str(copy), str(path)))
    with _copy(path) as copy:
        try:
            with contextlib.closing(connect(copy)) as connection:
                rows = fetch(connection, f"PRAGMA integrity_check({_MOST})")
                found += [f"{path}: {row[0]}" for row in rows if row[0] != "ok"]
                found += [f"{path}: {bad}" for bad in bad_blobs(connection)]
        except apsw.Error as error:
            found.append(str(store_error(path, error)))
    return found


def salvage(path: str | Path, to: str | Path) -> int:
    """Save everything that can be read of the store at `path` to the new file `to`; returns the
    number of runs in it. Raises StoreError when nothing can be read, or `to` exists."""
    path, to = Path(path), Path(to)
    if to.exists():
        raise StoreError(f"{to} is there already; name a new file")
    with _copy(path) as copy:
        try:
            with contextlib.closing(connect(copy)) as connection:
                connection.execute("VACUUM INTO ?", (str(to),))
            with contextlib.closing(connect(to, create=True)) as saved:
                return int(fetch(saved, "SELECT count(*) FROM run")[0][0])
        except apsw.Error as error:
            to.unlink(missing_ok=True)
            raise StoreError(f"{path}: too damaged to be saved as it is ({error}); use a backup") from error


@contextlib.contextmanager
def _copy(path: Path) -> Iterator[Path]:
    """The database and its log, side by side in a directory that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="ropewalk-doctor-") as folder:
        copy = Path(folder) / path.name
        try:
            shutil.copyfile(path, copy)
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{path}-wal", f"{copy}-wal")
        except OSError as error:
            raise StoreError(f"{path} cannot be copied: {error.strerror}") from error
        yield copy
