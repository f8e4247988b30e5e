"""The plan of an undo, and the report about it. Nothing is called here.

An undo lists its steps in the input of the run that makes its calls (`undo.py`), and that run's journal says which of
them are done.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import orjson

from ...errors import RopewalkError
from ...fast_dataclass import dataclass
from ...ir import nodes_of
from ...journal.protocol import Entry, RunRow
from ...journal.undo import UNSUCCESSFUL
from ...ops import Call
from ...tools.annotations import effect_of
from ...values import Json
from ..pinned_definition import MOST_PARTS, pinned_definition

if TYPE_CHECKING:
    from ..context import Context

LOOP: Final = "undo"
"""The node of an undo that contains its calls, one iteration for each step."""
_READS: Final = "it only reads"
_MOST_OFFERED: Final = 100
_PLACE: Final = re.compile(rf"{LOOP}\[(\d+)\]/")


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoStep:
    """A finished step to undo.

    `path` is its path in the run, that of inner runs included; `of` is its tool, `tool` and `args` make the call that
    takes it back. `ended` orders the steps.
    """

    path: str
    of: str
    tool: str
    args: Json
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoPlan:
    """The steps of a run to undo, the last one first, and the finished steps that cannot be undone."""

    steps: list[UndoStep]
    left: list[dict[str, Json]]


# --- what is to undo --------------------------------------------------------------------------


def plan_undo(context: Context, row: RunRow) -> UndoPlan:
    """Read from the journals of a run and its parts what to undo.

    Args:
        context: The services of the app.
        row: The row of the run.
    """
    steps: list[UndoStep] = []
    left: list[dict[str, Json]] = []
    _collect(context, row, "", steps, left)
    order = sorted(enumerate(steps), key=lambda item: (item[1].ended, item[0]), reverse=True)
    # A retry repeats a call under the same key, so both calls may have had one effect: it is undone once.
    unique: dict[tuple[str, str, bytes], UndoStep] = {}
    for _, step in order:
        base = step.path.partition("#")[0]
        unique.setdefault((base, step.tool, orjson.dumps(step.args, option=orjson.OPT_SORT_KEYS)), step)
    return UndoPlan(steps=list(unique.values()), left=left)


def _collect(context: Context, row: RunRow, prefix: str, steps: list[UndoStep], left: list[dict[str, Json]]) -> None:
    history = context.history(row.id)
    parts = {
        part.id.removeprefix(f"{row.id}/"): part for part in context.store.list_runs(parent=row.id, limit=MOST_PARTS)
    }
    undos = {entry.path: entry for entry in history if entry.kind == "undo"}
    tools = _tools_of(context, row)
    for path, entry in undos.items():
        data: Any = entry.data
        if "error" in data:
            left.append(_left(prefix + path, data["of"], f"its undo cannot be called: {data['error']}"))
        else:
            step = UndoStep(path=prefix + path, of=data["of"], tool=data["tool"], args=data["args"], ended=entry.ended)
            steps.append(step)
    for entry in history:
        if entry.kind == "call" and entry.path not in undos and entry.path not in parts:
            left.append(_not_undoable(context, row, entry, prefix, tools.get(entry.node, "")))
    # The undo of a call covers everything inside the flow that it called.
    for path, part in parts.items():
        if path not in undos:
            _collect(context, part, f"{prefix}{path}/", steps, left)


def _tools_of(context: Context, row: RunRow) -> dict[str, str]:
    """Return the tool of each node that calls one; empty if the definition cannot be read here."""
    full = row if row.document is not None else context.store.get_run(row.id)
    try:
        flow = pinned_definition(context, full or row).flow
    except (RopewalkError, TypeError):
        return {}
    return {node.id: node.op.tool for node in nodes_of(flow.body) if isinstance(node.op, Call)}


def _not_undoable(context: Context, row: RunRow, entry: Entry, prefix: str, tool: str) -> dict[str, Json]:
    if row.forked_from is not None and entry.ended < row.started_at:
        reason = f"run {row.forked_from} made its call"
    elif tool and effect_of(context.toolbox.get(tool), context.plans.effects, id=tool) == "read":
        reason = _READS
    else:
        reason = "it has no undo"
    return _left(prefix + entry.path, tool, reason)


def _left(path: str, tool: str, reason: str) -> dict[str, Json]:
    return {"path": path, "tool": tool, "reason": reason}


# --- the report -------------------------------------------------------------------------------

_UNDOING: Final = ("running", "waiting")
_FAILED: Final = ("call_failed", "attempt")


def undo_report(context: Context, row: RunRow, *, brief: bool = False) -> dict[str, Json] | None:
    """Return what is undone of a run, what is left, and what cannot be undone.

    Args:
        context: The services of the app.
        row: The row of the run.
        brief: Whether to leave out what cannot be undone; this needs no look at the steps of the run.

    Returns:
        `{runId, undoRun, status, policy, undone, left, notUndoable}`; None for a run that nobody has begun to undo
        and that has no policy. `status` is undone, undoing, incomplete or due.
    """
    if not row.undo and row.undo_policy is None:
        return None
    report: dict[str, Json] = {"runId": row.id, "undoRun": row.undo or None, "policy": row.undo_policy}
    if not row.undo:
        is_due = row.undo is None and row.status in UNSUCCESSFUL
        return {**report, "status": "due" if is_due else "none", "undone": [], "left": []}
    undoing = context.store.get_run(row.undo)
    steps = [] if undoing is None else steps_of(context, undoing)
    if undoing is None or undoing.status == "completed":
        status = "undone"
    else:
        status = "undoing" if undoing.status in _UNDOING else "incomplete"
    report["status"] = status
    report["undone"] = [_shown(step) for step in steps if step["status"] == "undone"]
    report["left"] = [_shown(step) for step in steps if step["status"] != "undone"]
    if not brief:
        report["notUndoable"] = list(plan_undo(context, row).left)
    return report


def undo_offer(context: Context, row: RunRow) -> dict[str, Json] | None:
    """Return what can be undone of a run that nobody has begun to undo: the calls that would be made.

    Args:
        context: The services of the app.
        row: The row of the run.

    Returns:
        `{status: "possible", runId, steps, notUndoable}`, each list with at most 100 items, and `partOf` for a part
        of a run, which is undone as a whole; None if no finished step has an undo.
    """
    plan = plan_undo(context, row)
    if not plan.steps:
        return None
    steps: list[Json] = [
        {"path": step.path, "of": step.of, "tool": step.tool, "args": step.args} for step in plan.steps[:_MOST_OFFERED]
    ]
    left: list[Json] = [step for step in plan.left if step["reason"] != _READS][:_MOST_OFFERED]
    offer: dict[str, Json] = {"status": "possible", "runId": row.id, "steps": steps, "notUndoable": left}
    return offer if row.parent is None else {**offer, "partOf": row.parent}


def _shown(step: dict[str, Any]) -> dict[str, Json]:
    return {name: value for name, value in step.items() if name != "status"}


def steps_of(context: Context, undoing: RunRow) -> list[dict[str, Any]]:
    """Return the steps of an undo in order, those of the undo that it continues included.

    Each has `path`, `of`, `tool`, `args`, `status` (undone or left), and `at` or `error`.
    """
    steps: list[dict[str, Any]] = []
    before = context.store.get_run(undoing.forked_from) if undoing.forked_from is not None else None
    if before is not None:
        steps += [step for step in steps_of(context, before) if step["status"] == "undone"]
    given: Any = undoing.input
    states = _states(context.history(undoing.id))
    for number, item in enumerate(given["steps"] if isinstance(given, dict) else ()):
        steps.append({**item, "status": "left", **states.get(number, {})})
    return steps


def _states(history: Iterable[Entry]) -> dict[int, dict[str, Json]]:
    states: dict[int, dict[str, Json]] = {}
    undone: set[int] = set()
    for number, entry in _numbered(history):
        if entry.kind == "call":
            states[number] = {"status": "undone", "at": entry.ended}
            undone.add(number)
        elif entry.kind in _FAILED and isinstance(entry.data, dict) and number not in undone:
            states[number] = {"error": entry.data.get("message")}
    return states


def _numbered(history: Iterable[Entry]) -> Iterator[tuple[int, Entry]]:
    for entry in history:
        place = _PLACE.match(entry.path)
        if place is not None:
            yield int(place[1]), entry


def undone_paths(context: Context, row: RunRow) -> set[str]:
    """Return the paths of the steps of a run that are undone or being undone."""
    if not row.undo:
        return set()
    undoing = context.store.get_run(row.undo)
    return set() if undoing is None else {str(step["path"]) for step in steps_of(context, undoing)}
