"""Examine a SQLite store that may be damaged, and salvage its readable part.

`examine` and `salvage` work on a copy and never change the store. `bad_values` reads every value of any SQL store and
reports the damaged ones with their place. Refused: writing over an existing file.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw
import orjson

from ...errors import StoreError
from ...fast_dataclass import dataclass
from ..sql.blobs import CONTENT, is_ref, unpack
from ..sql.leases import Owner
from ..sql.rows import REFERS, Connection, fetch, load_result
from ..sql.upkeep import delete_with_parts
from .database import connect, connect_to_read, open_database, store_error, unwritable

_OF_RUNS: Final = ("input", "context", "document", "result", "error")
_ROWS: Final = (
    ("SELECT path, kind, data FROM entry WHERE run = ?", "{} ({})"),
    ("SELECT id, name, payload FROM signal WHERE run = ?", "its signal {} ({})"),
)


@dataclass(frozen=True, slots=True)
class Bad:
    """A damaged value."""

    # The value and its damage, for people.
    message: str
    # The number of its run in the store, if it belongs to one.
    run: int | None = None
    # Kind and id of its definition, if it belongs to one.
    definition: tuple[str, str] | None = None
    # The hash of a large value.
    blob: bytes | None = None


class Unfinished(Exception):
    """Examining stopped at its time limit: `damage` lists the damage so far, `read` says how much was read."""

    def __init__(self, damage: list[str], read: str) -> None:
        self.damage, self.read = damage, read
        super().__init__(read)


def bad_values(connection: Connection, deadline: float | None = None) -> Iterator[Bad]:
    """Yield every damaged value."""

    # A large value is also reported where it is used. One run at a time is in memory.
    # `deadline`: When to stop, by `time.monotonic`; None for no limit.
    # Large values first: the other values refer to them.
    intact: set[bytes] = set()
    for (hash,) in fetch(connection, "SELECT hash FROM blob"):
        if deadline is not None and time.monotonic() > deadline:
            raise Unfinished([], "all pages, some large values, and no runs")
        rows = fetch(connection, "SELECT codec, data FROM blob WHERE hash = ?", (hash,))
        try:
            raw = unpack(b"\0" + hash, rows[0] if rows else None, "blob")
            if rows[0][0] != CONTENT:
                orjson.loads(raw)
        except (StoreError, orjson.JSONDecodeError):
            yield Bad(f"the large value {_name(hash)} is missing or damaged", blob=hash)
        else:
            intact.add(bytes(hash))
    for kind, id, document in fetch(
        connection, "SELECT kind, id, document FROM definition UNION ALL SELECT kind, id, document FROM version"
    ):
        if why := _why(document, intact):
            yield Bad(f"definition {id} ({kind}): its document {why}", definition=(kind, id))
    for seq, id in fetch(connection, "SELECT seq, id FROM run ORDER BY seq"):
        if deadline is not None and time.monotonic() > deadline:
            raise Unfinished([], f"all pages and large values, and the runs before {id}")
        for where in _bad_of_run(connection, seq, intact):
            yield Bad(f"run {id}: {where}", run=seq)


def _bad_of_run(connection: Connection, seq: int, intact: set[bytes]) -> Iterator[str]:
    [row] = fetch(connection, f"SELECT {', '.join(_OF_RUNS)} FROM run WHERE seq = ?", (seq,)) or [()]
    for column, data in zip(_OF_RUNS, row, strict=False):
        if data is not None and data[:1] == REFERS and not (why := _why(data[1:], intact)):
            try:
                load_result(connection, seq, data, "its result")
            except StoreError as error:
                yield _without_remedy(error)
        elif why := _why(data, intact):
            yield f"its {column} {why}"
    for (owner,) in fetch(connection, "SELECT owner FROM lease WHERE run = ? AND owner IS NOT NULL", (seq,)):
        try:
            Owner.load(owner)
        except StoreError:
            yield f"its owner {owner[:80]!r} is damaged"
    for query, place in _ROWS:
        for first, second, data in fetch(connection, query, (seq,)):
            if why := _why(data, intact):
                yield f"{place.format(first, second)} {why}"


def _why(data: bytes | None, intact: set[bytes]) -> str:
    if data is None:
        return ""
    if is_ref(data):
        return "" if data[1:] in intact else f"is the large value {_name(data[1:])}, which is missing or damaged"
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return f"is not JSON ({error})"
    return ""


def _name(hash: bytes) -> str:
    return f"{hash[:8].hex()}…"


_MAX_LISTED = 20
_INSTRUCTIONS = 10_000
"""Steps of SQLite's machine between two looks at the clock."""
_INTERRUPTED = "interrupted"
"""The row that a check of pages may end with when it is interrupted."""


def examine(path: str | Path) -> list[str]:
    """Read a whole store and return its damage, one sentence each; [] if it is sound."""
    path = Path(path)
    if not path.exists():
        return [f"{path}: file does not exist"]
    damage: list[str] = []
    with _copy(path) as copy:
        try:
            open_database(copy, "normal").close()
        except StoreError as error:
            damage.append(_without_remedy(error).replace(str(copy), str(path)))
    with _copy(path) as copy:
        damage += [f"{path}: {message}" for message in examine_open(copy)]
    return damage


def examine_open(path: Path, limit: float | None = None) -> list[str]:
    """Examine a store that can be opened and may be in use: as it is at this moment, where it is."""
    damage: list[str] = []
    deadline = None if limit is None else time.monotonic() + limit
    try:
        with contextlib.closing(connect_to_read(path)[0] if unwritable(path) else connect(path)) as connection:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            if deadline is not None:
                connection.set_progress_handler(lambda: time.monotonic() > deadline, _INSTRUCTIONS)
            connection.execute("BEGIN")  # one snapshot, although other processes may write
            rows = fetch(connection, f"PRAGMA integrity_check({_MAX_LISTED})")
            damage += [row[0] for row in rows if row[0] not in ("ok", _INTERRUPTED)]
            if any(row[0] == _INTERRUPTED for row in rows):
                raise Unfinished(damage, "only some pages, and no values")
            for bad in bad_values(connection, deadline):
                damage.append(bad.message)
    except apsw.InterruptError:
        raise Unfinished(damage, "only some pages or values") from None
    except Unfinished as error:
        raise Unfinished([*dict.fromkeys([*damage, *error.damage])], error.read) from None
    except apsw.Error as error:
        damage.append(_without_remedy(store_error(path, error)))
    return damage


def _without_remedy(error: StoreError) -> str:
    """Return the text of an error without its remedy, which is to examine the store: this is the examination."""
    return Exception.__str__(error)


def salvage(path: str | Path, to: str | Path) -> tuple[int, list[str]]:
    """Save the readable part of a store to a new, sound store."""

    # Damaged runs and definitions are left out.
    path, to = Path(path), Path(to)
    try:
        os.close(os.open(to, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))  # Like a store: for its owner only.
    except FileExistsError:
        raise StoreError(f"{to} already exists; name a new file") from None
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
    damaged = list(bad_values(connection))
    delete_with_parts(connection, {bad.run for bad in damaged if bad.run is not None})
    for bad in damaged:
        if bad.definition is not None:
            for table in ("definition", "version"):
                connection.execute(f"DELETE FROM {table} WHERE kind = ? AND id = ?", bad.definition)
        if bad.blob is not None:
            connection.execute("DELETE FROM blob WHERE hash = ?", (bad.blob,))
    return [bad.message for bad in damaged]


@contextlib.contextmanager
def _copy(path: Path) -> Iterator[Path]:
    """Copy a database and its log to a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="ropewalk-doctor-") as folder:
        copy = Path(folder) / path.name
        try:
            shutil.copyfile(path, copy)
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{path}-wal", f"{copy}-wal")
        except OSError as error:
            raise StoreError(f"{path} cannot be copied: {error.strerror}") from error
        yield copy
