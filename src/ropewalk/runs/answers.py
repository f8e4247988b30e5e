"""What runs wait for, and answering it: events and approvals.

A run that is part of another one is asked through the outermost run, whose journal holds the waits of its parts too.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import JournalConflict, NotWaiting, RunEnded
from ..journal.journal import APPROVAL, ENDS, Entry, RunRow, Signal, Wanted
from ..journal.signal import awaited, given
from ..journal.waiting import iso, open_waits, shown, worded
from ..values import Json
from .pinned import known, outermost

if TYPE_CHECKING:
    from .seen import Runs

_MOST_LISTED = 20


def waiting(runs: Runs, run_id: str | None) -> list[dict[str, Json]]:
    """See `Runs.waiting`."""
    if run_id is None:
        going = runs.store.waits()
        owners: dict[str, str] = {}  # of each wait: a part and its outermost run both record it
        for id, (history, _) in going.items():
            for place in [f"{id}/{entry.path}" for entry in history if entry.kind == "wait"]:
                owners[place] = min(id, owners.get(place, id), key=len)
        return [
            {"runId": id, **wait}
            for id, (history, kept) in going.items()
            for wait in _left(open_waits(history), kept)
            if owners[f"{id}/{wait['path']}"] == id
        ]
    row = known(runs.store, run_id)
    if row.status in ENDS:
        return []
    return [{"runId": run_id, **wait} for wait in unanswered(runs, row, runs.history(run_id))]


def unanswered(runs: Runs, row: RunRow, history: Iterable[Entry]) -> list[dict[str, Json]]:
    """What of a run is still to be answered. The waits of a part are those of its outermost run, with its id."""
    root = outermost(runs.store, row)
    if root.id != row.id:
        inside = f"{row.id.removeprefix(f'{root.id}/')}/"
        waits = [one for one in open_waits(runs.history(root.id)) if one.path.startswith(inside)]
        if waits:
            return [{"runId": root.id, **wait} for wait in _left(waits, runs.store.signals(root.id))]
    waits = open_waits(history)
    return _left(waits, runs.store.signals(row.id)) if waits else []


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
    row = known(runs.store, run_id)
    if early and row.parent is None:
        return runs.store.send(run_id, event, payload, id=id)
    root, waits, _ = _asked_of(runs, row)
    if not early:
        _going(root)
        if not any(wait.get("event") == event for wait in waits):
            raise NotWaiting(root.id, f"the event {event!r}", map(worded, waits))
    return runs.store.send(root.id, event, payload, id=id)


def approve(
    runs: Runs, run_id: str, name: str | None, approved: bool, by: str | None, note: str | None
) -> dict[str, Json]:
    """See `Runs.approve`."""
    root, waits, inside = _asked_of(runs, known(runs.store, run_id))
    _going(root)
    asked = _named([wait for wait in waits if "approval" in wait], name, inside)
    what = "an approval" if name is None else f"an approval at {name!r}"
    if len(asked) > 1:  # a name that fits several means the ones that nobody has answered yet
        asked = _without_answered(runs, root, asked) or asked
    if len(asked) != 1:
        listed = ", ".join(wait["path"] for wait in asked[:_MOST_LISTED])
        more = f", ... ({len(asked) - _MOST_LISTED:,} more)" if len(asked) > _MOST_LISTED else ""
        why = f"there are {len(asked)}, name one: {listed}{more}" if asked else ""
        raise NotWaiting(root.id, what if not asked else "one approval only", map(worded, waits), why)
    [wait] = asked
    if wait["due"] is not None and wait["due"] < (iso(time.time()) or ""):
        raise NotWaiting(root.id, what, why=f"its time was over at {wait['due']}")
    answer = {"approved": approved, "by": by, "note": note}
    try:  # one answer each time it is asked
        sent = runs.store.send(root.id, APPROVAL + wait["path"], answer, id=f"{wait['path']} {wait['since']}")
    except JournalConflict:
        sent = False
    if not sent:
        raise NotWaiting(root.id, what, why=f"{wait['path']} has been answered already")
    return {**wait, **answer}


def _named(waits: list[dict[str, Any]], name: str | None, inside: str) -> list[dict[str, Any]]:
    """The waits that a name can mean: the one at this path, else those of a node of this id, else those in the flow
    that a node of this id or path calls. Paths begin in the outermost run, or `inside` the part that is asked."""
    if name is None:
        return waits
    at = [wait for wait in waits if wait["path"] in (name, inside + name)]
    of = [wait for wait in waits if wait["node"] == name]
    within = [wait for wait in waits if f"/{name}/" in f"/{wait['path'].removeprefix(inside)}"]
    return at or of or within


def _without_answered(runs: Runs, root: RunRow, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Drop the waits whose answer is recorded, and which end once somebody resumes the run."""
    left = {wait["path"] for wait in _left(open_waits(runs.history(root.id)), runs.store.signals(root.id))}
    return [wait for wait in asked if wait["path"] in left]


def _asked_of(runs: Runs, row: RunRow) -> tuple[RunRow, list[dict[str, Any]], str]:
    """The run to answer, what it waits for, answered or not (who answers twice is told so), and the beginning of the
    paths of the part that is asked: of a part these are the outermost run and the waits inside that part."""
    root, inside = outermost(runs.store, row), ""
    waits = [shown(wait) for wait in open_waits(runs.history(root.id))]
    if root.id != row.id:
        inside = f"{row.id.removeprefix(f'{root.id}/')}/"
        waits = [wait for wait in waits if str(wait["path"]).startswith(inside)]
        own = [] if waits else [shown(wait) for wait in open_waits(runs.history(row.id))]
        if own:  # recorded by an earlier version, which asked the part itself
            return row, [{"runId": row.id, **wait} for wait in own], ""
    return root, [{"runId": root.id, **wait} for wait in waits], inside


def _going(row: RunRow) -> None:
    if row.status in ENDS:
        raise RunEnded(row.id, row.status)
