"""Chunks in a store in Postgres: ranges of a run's map, each a run of its own that is part of it.

A chunk's row holds who plays it, and in the end what it gave; its facts are the run's, written under the chunk's lease.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

import orjson

from ..errors import NotFound
from ..frozen import dataclass
from ..values import Json
from .connection import fetch
from .journal import Entry, Key
from .news import News
from .postgres_news import tell_all
from .postgres_session import Session, Target
from .sql_rows import CHUNK, load

_MAKE: Final = """
    WITH made AS (
        INSERT INTO run (id, kind, name, status, fingerprint, started_at, parent, context)
        SELECT id, ?1, '', 'running', '', ?2, ?3, context
        FROM unnest(CAST(?4 AS text[]), CAST(?5 AS bytea[])) AS new (id, context)
        ON CONFLICT (id) DO NOTHING RETURNING seq
    )
    INSERT INTO lease (run, owner, epoch, beat) SELECT seq, NULL, 1, ?2 FROM made
"""
# A run that is played again plays again what did not come to its end the last time.
_AGAIN: Final = """
    UPDATE run SET status = 'running', ended_at = NULL, result = NULL, error = NULL, stop_requested = 0
    WHERE id = ANY(?) AND status NOT IN ('running', 'completed')
"""
_STOP: Final = """
    UPDATE run SET status = 'stopped', ended_at = ?1, stop_requested = 1
    WHERE parent = ?2 AND kind = ?3 AND status = 'running' RETURNING seq, id
"""
_PAST: Final = """
    SELECT path, kind, node, data, digest, started, ended
    FROM unnest(CAST(?2 AS text[]), CAST(?3 AS text[])) AS range (first, beyond)
    JOIN entry ON entry.run = ?1 AND path >= first COLLATE "C" AND path < beyond COLLATE "C" ORDER BY rowid
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A chunk that is over: what it gave, or what went wrong."""

    id: str
    status: str
    result: Any
    error: Any


def make(session: Session, run_id: str, chunks: dict[str, Json]) -> None:
    """Write chunks down, by id; those of before that have failed begin anew."""
    ids, contexts = list(chunks), [orjson.dumps(context) for context in chunks.values()]
    session.execute(_MAKE, (CHUNK, time.time(), run_id, ids, contexts))
    session.execute(_AGAIN, (ids,))


def ended(session: Session, ids: Iterable[str]) -> list[Ended]:
    """Of these, those that are over."""
    query = "SELECT id, status, result, error FROM run WHERE id = ANY(?) AND status <> 'running'"
    return [
        Ended(id=id, status=status, result=load(session, result), error=load(session, error))
        for id, status, result, error in fetch(session, query, (list(ids),))
    ]


def stop(session: Session, where: Target, run_id: str) -> None:
    """Whoever plays a chunk of this run hears of it."""
    stopped = fetch(session, _STOP, (time.time(), run_id, CHUNK))
    tell_all(session, where, [News("stop", seq, id) for seq, id in stopped])


def seq_of(session: Session, run_id: str) -> int:
    found = fetch(session, "SELECT seq FROM run WHERE id = ?", (run_id,))
    if not found:
        raise NotFound("run", run_id)
    return int(found[0][0])


def fact(session: Session, seq: int, path: str, kind: str) -> Json:
    """The data of one fact; NotFound when it is not there."""
    found = fetch(session, "SELECT data FROM entry WHERE run = ? AND path = ? AND kind = ?", (seq, path, kind))
    if not found:
        raise NotFound("fact", f"{path} ({kind})")
    return load(session, found[0][0])


def past(session: Session, seq: int, path: str, first: int, count: int) -> dict[Key, Entry]:
    """What a run has recorded of these rounds of the map at `path`."""
    rounds = [f"{path}[{i}]" for i in range(first, first + count)]
    rows = fetch(session, _PAST, (seq, [f"{r}/" for r in rounds], [f"{r}0" for r in rounds]))  # 0 comes after /
    found = {}
    for at, kind, node, data, digest, started, over in rows:
        found[at, kind] = Entry(at, kind, node, load(session, data), digest, started, over)
    return found
