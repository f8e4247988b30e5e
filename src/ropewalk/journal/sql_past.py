"""The entries of one long run in a store on SQL, read a few at a time."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from .connection import AMONG, Connection, fetch, numbers
from .journal import Entry, Key
from .past import LONG, PAGE, PagedPast
from .sql_rows import entries, entries_of, keyed

if TYPE_CHECKING:
    from .writer import Writer

KEYS_AT_ONCE: Final = 10_000
_COUNT: Final = "SELECT count(*) FROM (SELECT 1 FROM entry WHERE run = ? LIMIT ?) AS found"
_KEYS: Final = """
    SELECT path, kind, rowid FROM entry WHERE run = ? AND (path, kind) > (?, ?) ORDER BY path, kind LIMIT ?
"""
_LATEST: Final = "SELECT max(started) FROM entry WHERE run = ?"
_FIELDS: Final = "path, kind, node, data, digest, started, ended"
_FIND: Final = f"SELECT rowid, {_FIELDS} FROM entry WHERE run = ? AND path = ? AND kind = ?"
_AT: Final = f"SELECT rowid, {_FIELDS} FROM entry WHERE run = ? AND path = ?"
_PLACES: Final = "SELECT rowid FROM entry WHERE run = ? AND rowid > ? ORDER BY rowid LIMIT ?"
_PLACED: Final = f"SELECT {_FIELDS} FROM entry WHERE {{run}} = ? AND rowid {AMONG} ORDER BY rowid"


class SqlEntries:
    """See `EntrySource`."""

    def __init__(self, writer: Writer, seq: int, remote: bool) -> None:
        self._writer, self._seq, self.remote = writer, seq, remote

    def all_keys(self) -> Iterator[list[tuple[str, str, int]]]:
        path = kind = ""
        while True:
            after = (self._seq, path, kind, KEYS_AT_ONCE)
            some: list[tuple[str, str, int]] = self._writer.read(partial(fetch, query=_KEYS, values=after))
            if some:
                yield some
                path, kind, _ = some[-1]
            if len(some) < KEYS_AT_ONCE:
                return

    def latest(self) -> float:
        return float(self._writer.read(lambda c: fetch(c, _LATEST, (self._seq,)))[0][0] or 0.0)

    def page(self, places: Iterable[int]) -> list[Entry]:
        return self._writer.read(lambda c: _placed(self._writer, c, self._seq, places))

    def find(self, key: Key) -> tuple[int, Entry] | None:
        def look(connection: Connection) -> list[tuple[int, Entry]]:
            rows = fetch(connection, _FIND, (self._seq, *key))
            some = entries_of(connection, self._seq, [row[1:] for row in rows])
            return [(row[0], entry) for row, entry in zip(rows, some, strict=True)]

        found = self._writer.read(look)
        return found[0] if found else None


def read_past(writer: Writer, connection: Connection, seq: int, remote: bool) -> dict[Key, Entry] | PagedPast:
    """What is recorded of a run: all of it, or as pages where that is much."""
    [(count,)] = fetch(connection, _COUNT, (seq, LONG + 1))
    return keyed(entries(connection, seq)) if count <= LONG else PagedPast(SqlEntries(writer, seq, remote))


def entry_page(
    writer: Writer, connection: Connection, seq: int, after: int, limit: int
) -> tuple[list[Entry], int | None]:
    """Entries in order behind a place, and the place to read on behind; None when these are the last."""
    places = [place for (place,) in fetch(connection, _PLACES, (seq, after, limit + 1))]
    found = _placed(writer, connection, seq, places[:limit])
    return found, places[limit - 1] if len(places) > limit else None


def entries_at(connection: Connection, seq: int, paths: Sequence[str]) -> list[Entry]:
    """Everything recorded at these paths, in order."""
    found: list[tuple[int, Entry]] = []
    for path in dict.fromkeys(paths):
        rows = fetch(connection, _AT, (seq, path))
        found += zip([row[0] for row in rows], entries_of(connection, seq, [row[1:] for row in rows]), strict=True)
    return [entry for _, entry in sorted(found, key=lambda one: one[0])]


def each_entry(writer: Writer, seq: int) -> Iterator[list[Entry]]:
    """Everything recorded of a run, in order, in pages."""
    source = SqlEntries(writer, seq, remote=False)
    order = array("q", sorted(array("q", (place for some in source.all_keys() for _, _, place in some))))
    for first in range(0, len(order), PAGE):
        yield source.page(order[first : first + PAGE])


def _placed(writer: Writer, connection: Connection, seq: int, places: Iterable[int]) -> list[Entry]:
    query = _PLACED.format(run=writer.run_column)
    return entries_of(connection, seq, fetch(connection, query, (seq, numbers(places))))
