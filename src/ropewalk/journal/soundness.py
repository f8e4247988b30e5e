"""Reads every value of a store on SQL: which are damaged, and where they stand."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import orjson

from ..errors import StoreError
from ..frozen import dataclass
from .blobs import CONTENT, is_ref, unpack
from .connection import Connection, fetch
from .lease import Owner

_OF_RUNS: Final = ("input", "context", "document", "result", "error")
_ROWS: Final = (
    ("SELECT path, kind, data FROM entry WHERE run = ?", "{} ({})"),
    ("SELECT id, name, payload FROM signal WHERE run = ?", "its signal {} ({})"),
)


@dataclass(frozen=True, slots=True)
class Bad:
    """A value that is not what was stored: where, and the run (its number), definition or big value it is of."""

    said: str
    run: int | None = None
    definition: tuple[str, str] | None = None
    blob: bytes | None = None


class Unfinished(Exception):
    """Examining stopped at its time limit: `found` is what is damaged so far, `read` says how much was read."""

    def __init__(self, found: list[str], read: str) -> None:
        self.found, self.read = found, read
        super().__init__(read)


def bad_values(connection: Connection, deadline: float | None = None) -> Iterator[Bad]:
    """Yield everything that is damaged, a big value also where it is needed; one run at a time is in memory.

    Raises:
        Unfinished: `deadline`, by `time.monotonic`, came first.
    """
    sound: set[bytes] = set()
    for (hash,) in fetch(connection, "SELECT hash FROM blob"):
        if deadline is not None and time.monotonic() > deadline:
            raise Unfinished([], "all pages, some large values, and no runs")
        found = fetch(connection, "SELECT codec, data FROM blob WHERE hash = ?", (hash,))
        try:
            raw = unpack(b"\0" + hash, found[0] if found else None, "blob")
            if found[0][0] != CONTENT:
                orjson.loads(raw)
        except (StoreError, orjson.JSONDecodeError):
            yield Bad(f"the big value {_name(hash)} is missing or damaged", blob=hash)
        else:
            sound.add(bytes(hash))
    for kind, id, document in fetch(
        connection, "SELECT kind, id, document FROM definition UNION ALL SELECT kind, id, document FROM version"
    ):
        if why := _why(document, sound):
            yield Bad(f"definition {id} ({kind}): its document {why}", definition=(kind, id))
    for seq, id in fetch(connection, "SELECT seq, id FROM run ORDER BY seq"):
        if deadline is not None and time.monotonic() > deadline:
            raise Unfinished([], f"all pages and large values, and the runs before {id}")
        for where in _bad_of_run(connection, seq, sound):
            yield Bad(f"run {id}: {where}", run=seq)


def _bad_of_run(connection: Connection, seq: int, sound: set[bytes]) -> Iterator[str]:
    [row] = fetch(connection, f"SELECT {', '.join(_OF_RUNS)} FROM run WHERE seq = ?", (seq,)) or [()]
    for column, data in zip(_OF_RUNS, row, strict=False):
        if why := _why(data, sound):
            yield f"its {column} {why}"
    for (owner,) in fetch(connection, "SELECT owner FROM lease WHERE run = ? AND owner IS NOT NULL", (seq,)):
        try:
            Owner.load(owner)
        except StoreError:
            yield f"its owner {owner[:80]!r} is damaged"
    for query, place in _ROWS:
        for first, second, data in fetch(connection, query, (seq,)):
            if why := _why(data, sound):
                yield f"{place.format(first, second)} {why}"


def _why(data: bytes | None, sound: set[bytes]) -> str:
    if data is None:
        return ""
    if is_ref(data):
        return "" if data[1:] in sound else f"is the big value {_name(data[1:])}, which is missing or damaged"
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return f"is no JSON ({error})"
    return ""


def _name(hash: bytes) -> str:
    return f"{hash[:8].hex()}…"
