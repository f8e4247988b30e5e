"""What a run has done as journal entries, for a store that keeps none: made of its step records for who asks.

What a durable run writes down while it runs is made in `durable.py`, and beside it in `observe.py` and `waits.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..journal.journal import Entry
from .durable import attempt_data
from .frame import Outcome, path_of

if TYPE_CHECKING:
    from .run import Run


def entries(run: Run) -> list[Entry]:
    """The journal of a run as far as it has come, in the order in which things ended."""
    shift = run.wall - run.mono
    found: list[Entry] = []
    for spot, frame, start, end in run.steps():
        if spot.node.meta.hidden:
            continue
        value = frame[spot.slot]
        kind: str = "call" if spot.tool is not None else "node"
        data: Any = value
        if type(value) is Outcome:
            if value.status != "failed":
                kind, data = "skip", {"reason": value.status}
            else:
                kind, data = "node", value.value
        path, data = path_of(frame, spot), run.redact(data)
        found.append(Entry(path, kind, spot.id, data, "", start + shift, end + shift))
    for path, node, failed, due, began, ended, handled in run.attempts:
        data = attempt_data(failed, due, handled)
        found.append(Entry(path, "attempt", node, data, "", began, ended))
    found += run.waits.waiting() if run.waits is not None else ()
    found.sort(key=lambda e: e.ended)
    return found
