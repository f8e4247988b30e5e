"""Pages of the steps of a run, so that the cost of a read does not grow with the run.

A page also has what no store records: skips for the nodes of branches that were not taken, and the rejected results of
tools in flows that the run called, which are recorded in the runs of these flows.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...engine.compile.events import NOT_TAKEN
from ...errors import RopewalkError, errors_in
from ...fast_dataclass import dataclass
from ...ir import Flow, bodies, nodes_of
from ...journal.past import LONG
from ...journal.protocol import ENDS, Entry, RunRow, Store
from ...ops import Branch
from ...values import Json
from .instances import Attempt, Instances, without_attempts
from .steps import steps

if TYPE_CHECKING:
    from ..context import Context

_MOST = 100  # results of one step


def complete_failures(store: Store, row: RunRow, steps: list[dict[str, Json]]) -> None:
    """Add to failed steps what their entries lack: places and stacks, and the rejected results inside them."""
    _add_traces(row, steps)
    _add_rejected(store, row, steps)


def _add_rejected(store: Store, row: RunRow, steps: list[dict[str, Json]]) -> None:
    """Add `rejected` to each step whose node failed after tools inside the flow that it called had run."""
    if not store.durable:
        return
    for step in steps:
        error: Any = step["error"]
        places = error.get("ranAt") if isinstance(error, dict) else None
        if isinstance(places, list) and places:
            match = [(path, _branch_result(store, row.id, path)) for path in map(str, places[:_MOST])]
            step["rejected"] = [{"path": path, "result": result} for path, result in match if result is not None]


def _add_traces(row: RunRow, steps: list[dict[str, Json]]) -> None:
    """Add to the error of each failed step the `place` and the stack that the result of the run has for it."""
    errors = errors_in(row.result) if isinstance(row.result, dict) else []
    traces = {
        without_attempts(str(error.get("path") or error.get("nodeId"))): {
            name: error[name] for name in ("place", "at", "stack") if error.get(name)
        }
        for error in errors
    }
    for step in steps if any(traces.values()) else ():
        # Compositions and agents name a node by its id alone.
        trace = traces.get(without_attempts(str(step["path"]))) or traces.get(str(step["node"]))
        if trace and step["status"] == "failed" and isinstance(step["error"], dict):
            step["error"] = {**step["error"], **trace}


def _branch_result(store: Store, run_id: str, path: str) -> Json:
    """Return the rejected result at the path of an inner run's node, or None if it is not recorded."""
    inner, inside = path, ""
    while "/" in inner:  # ids of runs have the path of the call, which may lead through blocks
        inner, _, last = inner.rpartition("/")
        inside = f"{last}/{inside}" if inside else last
        for entry in store.history_at(f"{run_id}/{inner}", [inside]):
            if entry.kind == "call_failed":
                return entry.data.get("result")
    return None


def with_untaken(context: Context, row: RunRow, history: Iterable[Entry]) -> list[Entry]:
    """Add a skip to the record for each node of a branch that was not taken."""
    listed = list(history)
    try:
        flow = context.definitions.get(row).flow
    except (RopewalkError, TypeError):
        return listed
    if not any(isinstance(node.op, Branch) for node in nodes_of(flow.body)):
        return listed
    return _completed_decisions(flow, listed)


def _completed_decisions(flow: Flow, listed: list[Entry]) -> list[Entry]:
    recorded = {entry.path for entry in listed}
    result = Instances(flow.body, listed)
    skipped: list[Entry] = []
    for instance in result.current():
        op, attempt = instance.node.op, instance.last
        arm = _arm_of(attempt) if isinstance(op, Branch) and instance.node.meta.source else None
        if not isinstance(op, Branch) or arm is None:
            continue
        at = next(iter(attempt.facts.values())) if attempt.facts else None
        when = at.started if at is not None else 0.0
        for label, node in op.not_taken(arm):
            path = f"{attempt.path}[{label}]/{node.id}"
            if path not in recorded:
                skipped.append(Entry(path, "skip", node.id, {"reason": NOT_TAKEN}, "", when, when))
    return [*listed, *skipped]


def _arm_of(attempt: Attempt) -> int | None:
    """Return the number of the branch that an attempt took; None if unknown, -1 for the default or none."""
    fact = attempt.facts.get("branch")
    if fact is not None:
        return int(fact.data)
    recorded_arms = [label for label in attempt.inside if attempt.inside[label].nodes]
    if recorded_arms:
        return -1 if recorded_arms[0] == "else" else int(recorded_arms[0])
    return None


@dataclass(frozen=True, slots=True)
class Page:
    """Entries of a run in order, with skips for the nodes of branches that were not taken."""

    # `related` are entries elsewhere that belong to the same steps. `blocks` are the paths of nodes whose parts are
    # recorded instead of their value. `next` is where the next page begins; None for the last.

    entries: list[Entry]
    related: list[Entry]
    blocks: set[str]
    next: int | None


def read_page(context: Context, row: RunRow, after: int, limit: int) -> Page:
    """Read at most `limit` entries behind the place `after`, with what is needed to show them."""
    store = context.store
    if not store.durable:
        result = with_untaken(context, row, context.history(row.id))
        end = after + limit
        return Page(result[after:end], result, set(), end if end < len(result) else None)
    entries, next = store.history_page(row.id, after, limit)
    paths = {entry.path for entry in entries} | {f"#{epoch}" for epoch in range(row.epoch)}
    if next is None:
        paths |= set(_failed_paths(row))
    keys = {(entry.path, entry.kind) for entry in entries}
    related = [item for item in store.history_at(row.id, sorted(paths)) if (item.path, item.kind) not in keys]
    # A branch may continue in later pages: what it did not take is in the page with its decision.
    decided = {entry.path for entry in entries if entry.kind == "branch"}
    skips = with_untaken(context, row, entries)[len(entries) :]
    untaken = [skip for skip in skips if skip.path.rpartition("[")[0] in decided]
    return Page([*entries, *untaken], related, _block_paths(context, row, entries), next)


def read_ends(context: Context, row: RunRow, limit: int) -> list[dict[str, Json]]:
    """Return the steps of a long run that show how it ended: failed ones, then the last ones."""
    failed = list(islice(_failed_paths(row), limit))
    last, _ = context.store.history_page(row.id, _place_before_last(context, row.id, limit), limit)
    keys = {(entry.path, entry.kind) for entry in last}
    gave_up = [
        entry
        for entry in context.store.history_at(row.id, failed)
        if entry.kind in ("call_failed", "attempt", "node") and (entry.path, entry.kind) not in keys
    ]
    entries = [*gave_up, *last]
    related = context.store.history_at(row.id, sorted({entry.path for entry in entries}))
    created = steps(entries, row, related, _block_paths(context, row, entries), is_last=False)
    complete_failures(context.store, row, created)
    return created


def _place_before_last(context: Context, run_id: str, count: int) -> int:
    """Return a place behind which there are the last `most` entries: places grow, so a few small reads find it."""

    def is_last(place: int) -> bool:
        return context.store.history_page(run_id, place, count)[1] is None

    below, above = 0, 1
    while not is_last(above):
        below, above = above, 2 * above
    while above - below > 1:
        between = (below + above) // 2
        below, above = (below, between) if is_last(between) else (between, above)
    return above


def waits_of(context: Context, row: RunRow) -> list[Entry]:
    """Return the entries of the waits of an unfinished run."""
    return [] if row.status in ENDS else context.store.waits().get(row.id, ([], []))[0]


def is_long(context: Context, run_id: str) -> bool:
    """Return True for a run whose entries are shown in pages."""
    return context.store.durable and context.store.history_page(run_id, limit=LONG)[1] is not None


def _failed_paths(row: RunRow) -> Iterable[str]:
    """Yield the paths of the failures in the result of a run."""
    errors: Any = row.result.get("errors") if isinstance(row.result, dict) else None
    for error in errors if isinstance(errors, list) else ():
        if isinstance(error, dict) and isinstance(error.get("path"), str):
            yield error["path"]


def _block_paths(context: Context, row: RunRow, entries: list[Entry]) -> set[str]:
    empty = [entry for entry in entries if entry.kind == "node" and entry.data is None]
    if not empty:
        return set()
    try:
        result = Instances(context.definitions.get(row).flow.body, empty)
    except (RopewalkError, TypeError):  # its definition cannot be read here any more
        return set()
    attempts = {entry.path: result.at(entry.path) for entry in empty}
    nodes = {path: attempt.instance.node for path, attempt in attempts.items() if attempt is not None}
    return {path for path, node in nodes.items() if isinstance(node.op, Branch) or bodies(node)}
