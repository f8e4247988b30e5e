"""What runs wait for, and answering it: events and approvals."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..errors import JournalConflict, NotFound, NotWaiting, RunEnded
from ..journal.journal import APPROVAL, ENDS, Entry, RunRow, Signal, Wanted
from ..journal.signal import awaited, given
from ..journal.waiting import iso, open_waits, shown, worded
from ..values import Json

if TYPE_CHECKING:
    from .seen import Runs


def waiting(runs: Runs, run_id: str | None) -> list[dict[str, Json]]:
    """See `Runs.waiting`."""
    if run_id is None:
        going = runs.store.waits().items()
        return [{"runId": id, **wait} for id, (history, kept) in going for wait in _left(open_waits(history), kept)]
    if _known(runs, run_id).status in ENDS:
        return []
    return [{"runId": run_id, **wait} for wait in unanswered(runs, run_id, runs.history(run_id))]


def unanswered(runs: Runs, run_id: str, history: Iterable[Entry]) -> list[dict[str, Json]]:
    """What of a run is still to be answered."""
    waits = open_waits(history)
    return _left(waits, runs.store.signals(run_id)) if waits else []


def answered(runs: Runs) -> set[str]:
    """The runs that have a wait which gets what is kept, as soon as somebody executes them."""
    going = ((id, open_waits(history), kept) for id, (history, kept) in runs.store.waits().items() if kept)
    return {id for id, waits, kept in going if len(_left(waits, kept)) < len(waits)}


def _left(waits: Sequence[Entry], sent: Iterable[Signal]) -> list[dict[str, Json]]:
    """The open waits, but those that get what is kept until somebody executes the run."""
    wanted = [Wanted(awaited(wait), wait.path, wait.node, wait.data["due"]) for wait in waits]
    answered = {wait.path for wait, _ in given(wanted, [signal for signal in sent if signal.taken is None])}
    return [shown(wait) for wait in waits if wait.path not in answered]


def send(runs: Runs, run_id: str, event: str, payload: Json, id: str | None, early: bool) -> bool:
    """See `Runs.send`."""
    if not early:
        _going(runs, run_id)
        waits = _open(runs, run_id)
        if not any(wait.get("event") == event for wait in waits):
            raise NotWaiting(run_id, f"the event {event!r}", map(worded, waits))
    return runs.store.send(run_id, event, payload, id=id)


def approve(
    runs: Runs, run_id: str, name: str | None, approved: bool, by: str | None, note: str | None
) -> dict[str, Json]:
    """See `Runs.approve`."""
    _going(runs, run_id)
    waits = _open(runs, run_id)
    asked = [wait for wait in waits if "approval" in wait and name in (None, wait["path"], wait["node"])]
    what = "an approval" if name is None else f"an approval at {name!r}"
    if len(asked) != 1:
        why = f"there are {len(asked)}, name one: {', '.join(wait['path'] for wait in asked)}" if asked else ""
        raise NotWaiting(run_id, what if not asked else "one approval only", map(worded, waits), why)
    [wait] = asked
    if wait["due"] is not None and wait["due"] < (iso(time.time()) or ""):
        raise NotWaiting(run_id, what, why=f"its time was over at {wait['due']}")
    answer = {"approved": approved, "by": by, "note": note}
    try:  # one answer each time it is asked
        sent = runs.store.send(run_id, APPROVAL + wait["path"], answer, id=f"{wait['path']} {wait['since']}")
    except JournalConflict:
        sent = False
    if not sent:
        raise NotWaiting(run_id, what, why=f"{wait['path']} has been answered already")
    return {**wait, **answer}


def _open(runs: Runs, run_id: str) -> list[dict[str, Json]]:
    """What it waits for, answered or not: who answers twice is told so."""
    return [{"runId": run_id, **shown(wait)} for wait in open_waits(runs.history(run_id))]


def _known(runs: Runs, run_id: str) -> RunRow:
    row = runs.store.get_run(run_id)
    if row is None:
        raise NotFound("run", run_id)
    return row


def _going(runs: Runs, run_id: str) -> None:
    row = _known(runs, run_id)
    if row.status in ENDS:
        raise RunEnded(run_id, row.status)
