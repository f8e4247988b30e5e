"""The rows of the programs of a run, as entries of its journal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import itemgetter
from typing import Any, Final

from ...journal.protocol import Entry
from ...plans.rows import Row

_ROW: Final = re.compile(r"(.*)\[row-(\d+)\]")


def row_entries(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """Return the entries of the rows of each program in order, by the path of the program."""
    numbered: dict[str, list[tuple[int, Entry]]] = {}
    for entry in entries:
        place = _ROW.fullmatch(entry.path) if entry.kind == "row" else None
        if place is not None:
            numbered.setdefault(place[1], []).append((int(place[2]), entry))
    return {path: [entry for _, entry in sorted(rows, key=itemgetter(0))] for path, rows in numbered.items()}


def row_of(entry: Entry) -> Row:
    """Return the row of an entry; the result of a call is in the entry of the call, and not in its row."""
    data: Any = entry.data
    path, kind, name, arguments, status, after, *value = data
    return Row(path, kind, name, arguments, status, value[0] if value else "null", after)


def rows_of(entries: Iterable[Entry]) -> dict[str, list[Row]]:
    """Return the rows of each program in order, by the path of the program."""
    return {path: [row_of(entry) for entry in rows] for path, rows in row_entries(entries).items()}
