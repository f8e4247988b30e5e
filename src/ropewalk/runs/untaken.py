"""Branches that a run has not taken: their nodes are skipped, though no store records anything of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..engine.observe import NOT_TAKEN
from ..errors import RopewalkError
from ..ir import Flow, nodes_of
from ..journal.journal import Entry, RunRow
from ..ops import Branch
from .instances import Attempt, Instances
from .pinned import pinned

if TYPE_CHECKING:
    from ..app import App


def with_untaken(app: App, row: RunRow, history: Iterable[Entry]) -> list[Entry]:
    """Return what a run has recorded, with a skip for each node of a branch that it has not taken. Without those
    where the definition of the run can no longer be read here."""
    listed = list(history)
    try:
        flow = pinned(app, row).flow
    except (RopewalkError, TypeError):
        return listed
    if not any(isinstance(node.op, Branch) for node in nodes_of(flow.body)):
        return listed
    return _completed(flow, listed)


def _completed(flow: Flow, listed: list[Entry]) -> list[Entry]:
    recorded = {entry.path for entry in listed}
    found = Instances(flow.body, listed)
    skipped: list[Entry] = []
    for instance in found.current():
        op, attempt = instance.node.op, instance.last
        arm = _arm(attempt) if isinstance(op, Branch) and instance.node.meta.source else None
        if not isinstance(op, Branch) or arm is None:
            continue
        at = next(iter(attempt.facts.values())) if attempt.facts else None
        when = at.started if at is not None else 0.0
        for label, node in op.not_taken(arm):
            path = f"{attempt.path}[{label}]/{node.id}"
            if path not in recorded:
                skipped.append(Entry(path, "skip", node.id, {"reason": NOT_TAKEN}, "", when, when))
    return [*listed, *skipped]


def _arm(attempt: Attempt) -> int | None:
    """Which arm an attempt of a branch took; None where that is not known, -1 for the default or none."""
    fact = attempt.facts.get("branch")
    if fact is not None:
        return int(fact.data)
    taken = [label for label in attempt.inside if attempt.inside[label].nodes]
    if taken:
        return -1 if taken[0] == "else" else int(taken[0])
    return None
