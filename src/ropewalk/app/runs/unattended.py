"""Runs that are `running` while no process executes them: whether a worker takes them, or somebody must resume them.

`liveness.py` adds which of them were answered. Every interface names these states, so no other code decides them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...journal.protocol import RunRow
from ...journal.sql.lease_watch import runnable_by_any_worker
from ...journal.sql.rows import CHUNK
from ..recorded_run import orphans

if TYPE_CHECKING:
    from ..context import Context


def find_unattended(context: Context, rows: Iterable[RunRow]) -> dict[str, str]:
    """Return `queued` or `interrupted` for each of the runs that no process executes, by id."""
    running = [row for row in rows if row.status == "running"]
    orphan_ids = orphans(context.store, {row.id for row in running}) if running else {}
    return {
        row.id: "queued" if has_worker(context, row) else "interrupted"
        for row in running
        # A store in SQL lists no run without an owner.
        if row.id in orphan_ids or (not row.owner and (context.store.remote or is_queued(context, row.id)))
    }


def has_worker(context: Context, row: RunRow) -> bool:
    """Return True if a worker continues the run by itself."""
    if not context.store.remote:
        return is_queued(context, row.id)
    full = row if row.context is not None else context.store.get_run(row.id)
    started_with = (full.context if full is not None else None) or {}
    if row.kind == CHUNK or ("queue" in started_with and not started_with.get("executor")):
        return True
    return runnable_by_any_worker(started_with) and bool(context.workers.registry.live_workers())


def is_queued(context: Context, run_id: str) -> bool:
    """Return True if the run is in a queue of a store in SQLite."""
    is_queued_in_store = getattr(context.store, "is_queued", None)
    return is_queued_in_store is not None and bool(is_queued_in_store(run_id))
