"""Count the runs of a SQL store by period, definition, status and error, with the index `run_started`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from ..run_counts import FAILING, FailureCount, QueueCount, RunCount, queue_counts
from .rows import Connection, fetch, load
from .upkeep import find_orphaned

# One query for each period: the databases round differently, so none of them divides times.
_COUNT: Final = """
    SELECT status, kind, definition_id, name, count(*) FROM run
    WHERE parent IS NULL AND started_at >= ? AND started_at < ? GROUP BY status, kind, definition_id, name
"""
_FAILURES: Final = f"""
    SELECT newest.kind, newest.definition_id, newest.name, newest.error, amount, last, newest.id
    FROM (
        SELECT count(*) AS amount, max(ended_at) AS last, max(seq) AS seq FROM run
        WHERE parent IS NULL AND started_at >= ? AND started_at < ?
            AND status IN ({", ".join(f"'{status}'" for status in FAILING)})
        GROUP BY kind, definition_id, name, error ORDER BY 3 DESC LIMIT ?
    ) AS failure JOIN run AS newest ON newest.seq = failure.seq
    ORDER BY newest.seq DESC
"""

_UNFINISHED: Final = """
    SELECT seq, context, owner IS NOT NULL FROM run JOIN lease ON lease.run = seq
    WHERE status = 'running' AND parent IS NULL ORDER BY seq DESC LIMIT ?
"""


def count_runs(connection: Connection, edges: Sequence[float]) -> list[RunCount]:
    """Return the counts of the periods between the edges."""
    return [
        RunCount(period=period, status=status, kind=kind, definition_id=definition_id, name=name, count=count)
        for period, (since, until) in enumerate(pairwise(edges))
        for status, kind, definition_id, name, count in fetch(connection, _COUNT, (since, until))
    ]


def count_failures(connection: Connection, since: float, until: float, limit: int) -> list[FailureCount]:
    """Return the counts of the errors of failed runs."""
    return [
        FailureCount(
            kind=kind,
            definition_id=definition_id,
            name=name,
            error=load(connection, error, "the error of a run"),
            count=count,
            last=last or 0.0,
            run_id=run_id,
        )
        for kind, definition_id, name, error, count, last, run_id in fetch(connection, _FAILURES, (since, until, limit))
    ]


def count_queues(connection: Connection, lease: float, limit: int) -> list[QueueCount]:
    """Return the counts of the queues."""
    rows = fetch(connection, _UNFINISHED, (limit,))
    # A run whose owner is dead waits for a worker again.
    orphaned = set(find_orphaned(connection, lease, "owner IS NOT NULL AND parent IS NULL"))
    return queue_counts(
        (load(connection, context, "the context of a run"), bool(owned) and seq not in orphaned)
        for seq, context, owned in rows
    )
