"""The row of a run, and another definition that is to take the place of its own."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from ..errors import InvalidFlow, NotFound, Problem
from ..journal.address import run_sync_in_thread
from ..journal.protocol import RunRow, Store
from ..values import did_you_mean

if TYPE_CHECKING:
    from .context import Context
    from .prepared import Prepared, Source

MOST_PARTS = 100_000
SAME: Final[Any] = object()
"""An input that is not given: that of the run."""
_ALIKE = 200
_MIN_PREFIX = 4  # characters of an id that was cut off


def require_run(store: Store, run_id: str) -> RunRow:
    """Return the row of a run."""
    row = store.get_run(run_id)
    if row is None:
        ids = [item.id for item in store.list_runs(limit=_ALIKE)]
        was_cut_off = isinstance(run_id, str) and len(run_id) >= _MIN_PREFIX
        whole = next((id for id in ids if was_cut_off and id.startswith(run_id)), None)
        raise NotFound("run", run_id, suggestion=whole or did_you_mean(run_id, ids))
    return row


def orphans(store: Store, among: Collection[str] | None = None) -> dict[str, RunRow]:
    """Return every orphaned run by its id, the oldest first; only those with the ids `among`, if it is given."""
    return {row.id: row for row in store.orphans(sys.maxsize, among=among)}


def outermost(store: Store, row: RunRow) -> RunRow:
    """Return the run that people resume and answer: the outermost one that this run is a part of, or itself."""
    while row.parent is not None and (outer := store.get_run(row.parent)) is not None:
        row = outer
    return row


def replacement(context: Context, row: RunRow, source: Source) -> Prepared:
    """Load another definition for a run and check it."""
    loaded = context.definitions.find(source)
    if loaded.kind != row.kind:
        message = f"this definition is a {loaded.kind}, but run {row.id} needs a {row.kind}"
        raise InvalidFlow([Problem(path="kind", message=message)])
    context.definitions.ensure(loaded)
    return loaded


async def row_after_writes(store: Any, run_id: str) -> RunRow | None:
    """Return the row of a run, or None if there is none, once the store has written what it was asked to write."""
    if hasattr(store, "wait_for_writes"):  # a store without it writes at once
        await store.wait_for_writes()
    row: RunRow | None = await run_sync_in_thread(store, lambda: store.get_run(run_id))
    return row
