"""The counts of runs of a store in memory. The store holds its lock."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson

from .run_counts import FAILING, FailureCount, RunCount

if TYPE_CHECKING:
    from .memory import Record


def count_runs(records: Iterable[Record], edges: Sequence[float]) -> list[RunCount]:
    """Return the counts of the periods between the edges."""
    counts = Counter(
        (bisect_right(edges, record.started_at) - 1, record.status, new.kind, new.definition_id, new.name)
        for record in records
        if (new := record.new).parent is None and edges[0] <= record.started_at < edges[-1]
    )
    return [
        RunCount(period=period, status=status, kind=kind, definition_id=definition_id, name=name, count=count)
        for (period, status, kind, definition_id, name), count in counts.items()
    ]


def count_failures(records: Iterable[Record], since: float, until: float, limit: int) -> list[FailureCount]:
    """Return the counts of the errors of failed runs."""

    # `records`: The oldest first.
    counts: dict[tuple[str, str | None, str, bytes], FailureCount] = {}
    for record in records:
        new = record.new
        if new.parent is not None or record.status not in FAILING or not since <= record.started_at < until:
            continue
        key = (new.kind, new.definition_id, new.name, orjson.dumps(record.error))
        before, ended = counts.pop(key, None), record.ended_at or 0.0
        failure = FailureCount(
            kind=new.kind, definition_id=new.definition_id, name=new.name, error=record.error,
            count=1, last=ended, run_id=new.id,
        )  # fmt: skip
        if before is not None:
            failure = replace(failure, count=before.count + 1, last=max(before.last, ended))
        counts[key] = failure
    return [*reversed(counts.values())][:limit]
