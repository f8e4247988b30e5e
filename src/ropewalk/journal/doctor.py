"""Examines a SQLite store that may be damaged, and saves what can be read of it.

Neither changes the store: both work on a copy. Refused: writing over an existing file.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import apsw

from ..errors import StoreError
from .blobs import ASK
from .connection import Connection, fetch
from .database import connect, open_database, store_error
from .soundness import Unfinished, bad_values
from .sqlite_reader import connect_to_read, unwritable
from .upkeep import forget

_MOST = 20
_INSTRUCTIONS = 10_000
"""Steps of SQLite's machine between two looks at the clock."""
_INTERRUPTED = "interrupted"
"""The row that a check of pages may end with when it is interrupted."""


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
            found.append(_unasked(error).replace(str(copy), str(path)))
    with _copy(path) as copy:
        found += [f"{path}: {said}" for said in examine_open(copy)]
    return found


def examine_open(path: Path, limit: float | None = None) -> list[str]:
    """Examine a store that can be opened and may be in use: as it is at this moment, where it is.

    Args:
        path: The file of the store.
        limit: Seconds after which examining stops. None: read everything.

    Returns:
        A sentence for each thing that is damaged.

    Raises:
        Unfinished: The limit came first.
    """
    found: list[str] = []
    deadline = None if limit is None else time.monotonic() + limit
    try:
        with contextlib.closing(connect_to_read(path)[0] if unwritable(path) else connect(path)) as connection:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            if deadline is not None:
                connection.set_progress_handler(lambda: time.monotonic() > deadline, _INSTRUCTIONS)
            connection.execute("BEGIN")  # One state of it, whatever is written meanwhile.
            rows = fetch(connection, f"PRAGMA integrity_check({_MOST})")
            found += [row[0] for row in rows if row[0] not in ("ok", _INTERRUPTED)]
            if any(row[0] == _INTERRUPTED for row in rows):
                raise Unfinished(found, "only some pages, and no values")
            for bad in bad_values(connection, deadline):
                found.append(bad.said)
    except apsw.InterruptError:
        raise Unfinished(found, "only some pages or values") from None
    except Unfinished as error:
        raise Unfinished([*dict.fromkeys([*found, *error.found])], error.read) from None
    except apsw.Error as error:
        found.append(_unasked(store_error(path, error)))
    return found


def _unasked(error: StoreError) -> str:
    """Who is the doctor sends nobody to the doctor."""
    return str(error).replace(ASK, "")


def salvage(path: str | Path, to: str | Path) -> tuple[int, list[str]]:
    """Save everything that can be read of the store at `path` to the new file `to`, a sound store: the number of runs
    in it, and what is damaged. A run or definition of which something is damaged is left out. Raises StoreError when
    nothing can be read, or `to` exists. The process that uses the store, if any, should have ended."""
    path, to = Path(path), Path(to)
    try:
        os.close(os.open(to, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))  # Like a store: for its owner only.
    except FileExistsError:
        raise StoreError(f"{to} is there already; name a new file") from None
    except OSError as error:
        raise StoreError(f"{to} cannot be created: {error.strerror}") from error
    try:
        return _saved(path, to)
    except BaseException:
        to.unlink(missing_ok=True)
        raise


def _saved(path: Path, to: Path) -> tuple[int, list[str]]:
    with _copy(path) as copy:
        try:
            with contextlib.closing(connect(copy)) as connection:
                connection.execute("VACUUM INTO ?", (str(to),))
            with contextlib.closing(connect(to, create=True)) as saved:
                with saved:
                    bad = _leave_out(saved)
                return int(fetch(saved, "SELECT count(*) FROM run")[0][0]), bad
        except apsw.Error as error:
            raise StoreError(f"{path}: too damaged to be saved as it is ({error}); use a backup") from error


def _leave_out(connection: Connection) -> list[str]:
    found = list(bad_values(connection))
    forget(connection, {bad.run for bad in found if bad.run is not None})
    for bad in found:
        if bad.definition is not None:
            for table in ("definition", "version"):
                connection.execute(f"DELETE FROM {table} WHERE kind = ? AND id = ?", bad.definition)
        if bad.blob is not None:
            connection.execute("DELETE FROM blob WHERE hash = ?", (bad.blob,))
    return [bad.said for bad in found]


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
