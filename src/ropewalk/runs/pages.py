"""One page of the steps of a run: what is read does not grow with the run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..errors import RopewalkError
from ..frozen import dataclass
from ..ir import bodies
from ..journal.journal import ENDS, Entry, RunRow
from ..journal.past import LONG
from ..ops import Branch
from .instances import Instances
from .pinned import pinned
from .untaken import with_untaken

if TYPE_CHECKING:
    from .seen import Runs


@dataclass(frozen=True, slots=True)
class Page:
    """Entries of a run in order, with skips for the nodes of branches that were not taken.

    `beside` are entries elsewhere that say what became of these. `blocks` are the paths of nodes whose parts are
    recorded instead of their value. `next` is where the next page begins; None for the last.
    """

    entries: list[Entry]
    beside: list[Entry]
    blocks: set[str]
    next: int | None


def read_page(runs: Runs, row: RunRow, after: int, limit: int) -> Page:
    """Read at most `limit` entries behind the place `after`, with what is needed to show them."""
    store = runs.store
    if not store.durable:
        found = with_untaken(runs.app, row, runs.history(row.id))
        end = after + limit
        return Page(found[after:end], found, set(), end if end < len(found) else None)
    entries, next = store.history_page(row.id, after, limit)
    paths = {entry.path for entry in entries} | {f"#{epoch}" for epoch in range(row.epoch)}
    if next is None:
        paths |= set(_failed(row))
    held = {(entry.path, entry.kind) for entry in entries}
    beside = [one for one in store.history_at(row.id, sorted(paths)) if (one.path, one.kind) not in held]
    # A branch may continue in later pages: what it did not take is in the page with its decision.
    decided = {entry.path for entry in entries if entry.kind == "branch"}
    skips = with_untaken(runs.app, row, entries)[len(entries) :]
    untaken = [skip for skip in skips if skip.path.rpartition("[")[0] in decided]
    return Page([*entries, *untaken], beside, _blocks(runs, row, entries), next)


def waits_of(runs: Runs, row: RunRow) -> list[Entry]:
    """The entries that say what an unfinished run waits for."""
    return [] if row.status in ENDS else runs.store.waits().get(row.id, ([], []))[0]


def is_long(runs: Runs, run_id: str) -> bool:
    """Return True for a run whose entries are shown in pages."""
    return runs.store.durable and runs.store.history_page(run_id, limit=LONG)[1] is not None


def _failed(row: RunRow) -> Iterable[str]:
    """The paths of the failures in the result of a run."""
    errors: Any = row.result.get("errors") if isinstance(row.result, dict) else None
    for error in errors if isinstance(errors, list) else ():
        if isinstance(error, dict) and isinstance(error.get("path"), str):
            yield error["path"]


def _blocks(runs: Runs, row: RunRow, entries: list[Entry]) -> set[str]:
    empty = [entry for entry in entries if entry.kind == "node" and entry.data is None]
    if not empty:
        return set()
    try:
        found = Instances(pinned(runs.app, row).flow.body, empty)
    except (RopewalkError, TypeError):  # its definition cannot be read here any more
        return set()
    attempts = {entry.path: found.at(entry.path) for entry in empty}
    nodes = {path: attempt.instance.node for path, attempt in attempts.items() if attempt is not None}
    return {path for path, node in nodes.items() if isinstance(node.op, Branch) or bodies(node)}
