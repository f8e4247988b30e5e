"""Chunks in a Postgres store: ranges of a run's map, each a run of its own that is part of it.

The row of a chunk says who executes it, and at its end its result. Its facts belong to the run, and are written under
the lease of the chunk.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

import orjson

from ...errors import NotFound
from ...fast_dataclass import dataclass
from ...values import Json
from ..news import News
from ..protocol import Entry, Key
from ..sql.rows import CHUNK, fetch, load, load_result
from .session import Session, Target, notify_all

_CREATE: Final = """
    WITH made AS (
        INSERT INTO run (id, kind, name, status, fingerprint, started_at, parent, context)
        SELECT id, ?1, '', 'running', '', ?2, ?3, context
        FROM unnest(CAST(?4 AS text[]), CAST(?5 AS bytea[])) AS new (id, context)
        ON CONFLICT (id) DO NOTHING RETURNING seq
    )
    INSERT INTO lease (run, owner, epoch, beat) SELECT seq, NULL, 1, ?2 FROM made
"""
# A resumed run executes the chunks again that did not complete before.
_RESTART: Final = """
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
class EndedChunk:
    """A chunk that has ended, with its result or its error."""

    id: str
    status: str
    result: Any
    error: Any


def create_chunks(session: Session, run_id: str, chunks: dict[str, Json]) -> None:
    """Create chunks by id; those that exist already and have failed start again."""
    ids, contexts = list(chunks), [orjson.dumps(context) for context in chunks.values()]
    session.execute(_CREATE, (CHUNK, time.time(), run_id, ids, contexts))
    session.execute(_RESTART, (ids,))


def ended_chunks(session: Session, ids: Iterable[str]) -> list[EndedChunk]:
    """Return those of these chunks that have ended."""
    query = "SELECT seq, id, status, result, error FROM run WHERE id = ANY(?) AND status <> 'running'"
    return [
        EndedChunk(
            id=id,
            status=status,
            result=load_result(session, seq, result, f"chunk {id}: its result"),
            error=load(session, error),
        )
        for seq, id, status, result, error in fetch(session, query, (list(ids),))
    ]


def stop_chunks(session: Session, target: Target, run_id: str) -> None:
    """Stop the chunks of a run, and notify the workers that execute them."""
    stopped = fetch(session, _STOP, (time.time(), run_id, CHUNK))
    notify_all(session, target, [News("stop", seq, id) for seq, id in stopped])


def row_number(session: Session, run_id: str) -> int:
    """Return the number of a run in the store; raise NotFound if it does not exist."""
    rows = fetch(session, "SELECT seq FROM run WHERE id = ?", (run_id,))
    if not rows:
        raise NotFound("run", run_id)
    return int(rows[0][0])


def entry_data(session: Session, seq: int, path: str, kind: str) -> Json:
    """Return the data of one entry; raise NotFound if it does not exist."""
    rows = fetch(session, "SELECT data FROM entry WHERE run = ? AND path = ? AND kind = ?", (seq, path, kind))
    if not rows:
        raise NotFound("fact", f"{path} ({kind})")
    return load(session, rows[0][0])


def past_entries(session: Session, seq: int, path: str, first: int, count: int) -> dict[Key, Entry]:
    """Return the entries of a run for a range of iterations of the map at `path`."""
    iterations = [f"{path}[{i}]" for i in range(first, first + count)]
    rows = fetch(session, _PAST, (seq, [f"{r}/" for r in iterations], [f"{r}0" for r in iterations]))  # 0 comes after /
    entries = {}
    for at, kind, node, data, digest, started, over in rows:
        entries[at, kind] = Entry(at, kind, node, load(session, data), digest, started, over)
    return entries
