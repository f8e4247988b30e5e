"""A fork's share of the run it comes from: facts copied from row to row, big values by their hash alone."""

from __future__ import annotations

from typing import Final

from .connection import Connection, fetch
from .journal import NewRun

_COPY: Final = """
    INSERT INTO entry (run, path, kind, node, data, digest, started, ended)
    SELECT ?, ?, ?, node, data, digest, started, ended FROM entry WHERE run = ? AND path = ? AND kind = ?
    ON CONFLICT DO NOTHING
"""
_HOLD: Final = "INSERT INTO held (blob, run) SELECT blob, ? FROM held WHERE run = ? ON CONFLICT DO NOTHING"


def copy(connection: Connection, run: NewRun, seq: int) -> None:
    """Into the run with this number; nothing where the other one is gone."""
    found = fetch(connection, "SELECT seq FROM run WHERE id = ?", (run.forked_from,))
    if found and run.copies:
        source = found[0][0]
        rows = [(seq, *to, source, *of) for of, to in run.copies.items()]
        connection.executemany(_COPY, rows)
        connection.execute(_HOLD, (seq, source))
