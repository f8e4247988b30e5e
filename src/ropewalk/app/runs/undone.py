"""The report about the undo of a run. Nothing is called here.

An undo lists its steps in the input of the run that makes its calls (`undo.py`), and that run's journal says which of
them are done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ...errors import RunUndone, StoreError
from ...journal.protocol import ENDS, Entry, RunRow
from ...journal.undo import UNDONE, UNSUCCESSFUL
from ...values import Json
from .undo_plan import READS, is_in_effect, plan_undo, steps_of

if TYPE_CHECKING:
    from ..context import Context

APPROVAL: Final = "approval"
"""The node of an undo in which a person approves its calls."""
_MOST_OFFERED: Final = 100


# --- the report -------------------------------------------------------------------------------


def undo_statuses(context: Context, rows: Sequence[RunRow]) -> dict[str, str]:
    """Return how far the undos of listed runs are: undone, undoing or incomplete, by the id of the run."""
    listed = {row.id: row for row in rows}  # an undo is often on the same page
    statuses: dict[str, str] = {}
    for row in rows:
        if row.undo:
            with suppress(StoreError):  # one unreadable run must not keep the others from the list
                statuses[row.id] = _undo_status(listed.get(row.undo) or context.store.get_run(row.undo))
    return statuses


def _undo_status(undoing: RunRow | None) -> str:
    if undoing is None or undoing.status == "completed":
        return "undone"
    return "incomplete" if undoing.status in ENDS else "undoing"


def undo_report(context: Context, row: RunRow, *, brief: bool = False) -> dict[str, Json] | None:
    """Return what is undone of a run, what is left, and what cannot be undone."""
    if not row.undo and row.undo_policy is None:
        return None
    report: dict[str, Json] = {"runId": row.id, "undoRun": row.undo or None, "policy": row.undo_policy}
    if not row.undo:
        is_due = row.undo is None and row.status in UNSUCCESSFUL
        return {**report, "status": "due" if is_due else "none", "undone": [], "left": []}
    undoing = context.store.get_run(row.undo)
    steps = [] if undoing is None else steps_of(context, undoing)
    report["status"] = status = _undo_status(undoing)
    if status == "incomplete" and undoing is not None and (rejected := rejection_of(context, undoing)) is not None:
        report["rejected"] = rejected
    report["undone"] = [_shown(step) for step in steps if step["status"] == "undone"]
    report["left"] = [_shown(step) for step in steps if step["status"] != "undone"]
    if not brief:
        plan = plan_undo(context, row)
        report["notUndoable"] = [*plan.left, *plan.undone]
    return report


def shown_undo(context: Context, row: RunRow, history: list[Entry] | None) -> dict[str, Json] | None:
    """Return the brief report of `undo_report`, with the calls that the undo of another run takes back."""

    # `history`: The entries of the run; None if they are shown in pages. Then it is not searched for such calls,
    # because a page must not cost more if the run is longer.
    report = undo_report(context, row, brief=True)
    if row.undo or row.status not in ENDS or history is None or not _may_share_calls(context, row, history):
        return report
    plan = plan_undo(context, row)
    elsewhere: list[Json] = [step for step in (*plan.undone, *plan.left) if "undoRun" in step]
    if not elsewhere:
        return report
    empty: dict[str, Json] = {"runId": row.id, "undoRun": None, "policy": None, "status": "none"}
    return {**empty, "undone": [], "left": [], **(report or {}), "notUndoable": elsewhere}


def _may_share_calls(context: Context, row: RunRow, history: Iterable[Entry]) -> bool:
    """Return True unless it is plain that another run undoes no call of a run."""

    # This spares most runs the search.
    if row.forked_from is not None or any(entry.kind == UNDONE or _is_of_earlier_run(entry) for entry in history):
        return True
    return bool(context.store.list_runs(parent=row.id, limit=1))  # the journals of its parts may have marks


def _is_of_earlier_run(entry: Entry) -> bool:
    """Return True for the undo of a call that a corrected plan took from its earlier run."""
    return entry.kind == "undo" and isinstance(entry.data, dict) and "made" in entry.data


def undo_offer(context: Context, row: RunRow) -> dict[str, Json] | None:
    """Return what can be undone of a run that nobody has begun to undo: the calls that would be made."""
    plan = plan_undo(context, row)
    if not plan.steps:
        return None
    steps: list[Json] = [step.to_dict() for step in plan.steps[:_MOST_OFFERED]]
    left: list[Json] = [step for step in (*plan.left, *plan.undone) if step["reason"] != READS][:_MOST_OFFERED]
    offer: dict[str, Json] = {"status": "possible", "runId": row.id, "steps": steps, "notUndoable": left}
    return offer if row.parent is None else {**offer, "partOf": row.parent}


def rejection_of(context: Context, undoing: RunRow) -> dict[str, Json] | None:
    """Return who rejected an undo, and why, as `{by, note}`; None if nobody did."""
    for entry in context.history(undoing.id):
        data: Any = entry.data
        if entry.kind == "signal" and entry.path == APPROVAL and not data["value"]["approved"]:
            return {"by": data["value"].get("by"), "note": data["value"].get("note")}
    return None


def _shown(step: dict[str, Any]) -> dict[str, Json]:
    return {name: value for name, value in step.items() if name != "status"}


def undone_paths(context: Context, row: RunRow) -> set[str]:
    """Return the paths of the steps of a run that are undone or being undone, with it or with another run."""

    # A step whose undo failed for good is still in effect, so it is not among them.
    plan = plan_undo(context, row)
    paths = {str(step["path"]) for step in plan.undone}
    if not row.undo:
        return paths
    undoing = context.store.get_run(row.undo)
    if undoing is None:  # deleted, so no journal says which of the steps were left
        return paths | {step.path for step in plan.steps}
    return paths | {str(step["path"]) for step in steps_of(context, undoing) if not is_in_effect(undoing, step)}


def undone_by(context: Context, row: RunRow) -> str | None:
    """Return the undo of a run, or of another run that undoes a call whose result the run uses; None for none."""
    undo = row.undo or next((step["undoRun"] for step in plan_undo(context, row).undone), None)
    return str(undo) if undo else None


def require_not_undone(context: Context, row: RunRow) -> None:
    """Raise RunUndone if a run is undone, or if a call whose result it uses is."""
    undo = undone_by(context, row)
    if undo is not None:
        raise RunUndone(row.id, undo)
