"""Waits of runs, and answers to them: events and approvals.

The journal of the outermost run also holds the waits of its parts, so an answer to a part goes to the outermost run.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import Action, InvalidInput, JournalConflict, NotWaiting, RunEnded
from ...journal.open_waits import describe_wait, match_signals, open_waits, signal_name, wait_to_json
from ...journal.protocol import APPROVAL, ENDS, Entry, OpenWait, RunRow, Signal, iso
from ...tools.mcp.questions import answer_problems
from ...values import Json
from ..recorded_run import outermost, require_run
from .unattended import find_unattended

if TYPE_CHECKING:
    from ..context import Context

_MAX_LISTED = 20
_QUESTION = re.compile(r"/question-\d+$")
"""Ends the name of the event that answers a question of an MCP server."""


class AnswerTarget(NamedTuple):
    """Where an answer goes: the run that gets it, its waits, and the path prefix of the part that the caller names."""

    run: RunRow
    waits: list[dict[str, Any]]
    prefix: str


def open_waits_of_runs(context: Context, run_id: str | None) -> list[dict[str, Json]]:
    """Return the unanswered waits of one run, or of all runs."""
    if run_id is None:
        open_runs = context.store.waits()
        owners: dict[str, str] = {}  # of each wait: a part and its outermost run both record it
        for id, (history, _) in open_runs.items():
            # Ids of parts begin with the id of their outermost run, so the shortest id is the outermost run.
            for place in [f"{id}/{entry.path}" for entry in history if entry.kind == "wait"]:
                owners[place] = min(id, owners.get(place, id), key=len)
        return [
            {"runId": id, **wait}
            for id, (history, signals) in open_runs.items()
            for wait in _unanswered_as_json(open_waits(history), signals)
            if owners[f"{id}/{wait['path']}"] == id
        ]
    row = require_run(context.store, run_id)
    if row.status in ENDS:
        return []
    return [{"runId": run_id, **wait} for wait in unanswered_waits(context, row, context.history(run_id))]


def unanswered_waits(context: Context, row: RunRow, history: Iterable[Entry]) -> list[dict[str, Json]]:
    """Return the waits of a run that nobody has answered."""

    # A part has those of its outermost run.
    root = outermost(context.store, row)
    if root.id != row.id:
        inside = f"{row.id.removeprefix(f'{root.id}/')}/"
        waits = [item for item in open_waits(context.history(root.id)) if item.path.startswith(inside)]
        if waits:
            return [{"runId": root.id, **wait} for wait in _unanswered_as_json(waits, context.store.signals(root.id))]
    waits = open_waits(history)
    return _unanswered_as_json(waits, context.store.signals(row.id)) if waits else []


def answered_run_ids(context: Context) -> set[str]:
    """Return the ids of the runs with a wait that has its answer, and that end the wait once they are resumed."""
    open_runs = (
        (id, open_waits(history), signals) for id, (history, signals) in context.store.waits(signalled=True).items()
    )
    return {id for id, waits, signals in open_runs if len(_unanswered_as_json(waits, signals)) < len(waits)}


def _unanswered_as_json(waits: Sequence[Entry], sent: Iterable[Signal]) -> list[dict[str, Json]]:
    """Return the open waits that no sent signal answers."""
    requests = [OpenWait(signal_name(wait), wait.path, wait.node, wait.data["due"]) for wait in waits]
    answered_paths = {
        wait.path for wait, _ in match_signals(requests, [signal for signal in sent if signal.taken is None])
    }
    return [wait_to_json(wait) for wait in waits if wait.path not in answered_paths]


def send_event(context: Context, run_id: str, event: str, payload: Json, id: str | None, before_wait: bool) -> bool:
    """Send an event to a run; `RunService.send` describes the arguments."""
    row = require_run(context.store, run_id)
    if _QUESTION.search(event) is not None:
        is_new = _answer_question(context, row, event, payload)
        if is_new is not None:
            return is_new
    if before_wait and row.parent is None:
        return context.store.send(run_id, event, payload, id=id)
    target = _waits_to_answer(context, row)
    if not before_wait:
        _require_unfinished(target.run)
        if not any(wait.get("event") == event for wait in target.waits):
            raise _not_waiting(context, target.run, f"the event {event!r}", target.waits)
    return context.store.send(target.run.id, event, payload, id=id)


def _answer_question(context: Context, row: RunRow, event: str, payload: Json) -> bool | None:
    """Answer a question of an MCP server."""
    run, waits, _ = _waits_to_answer(context, row)
    wait = next((wait for wait in waits if wait.get("event") == event and "question" in wait), None)
    if wait is None or run.status in ENDS:
        return None
    if problems := answer_problems(wait["question"], payload, "payload"):
        raise InvalidInput(problems)
    try:  # the id allows one answer for each time that the run asks
        return context.store.send(run.id, event, payload, id=f"{wait['path']} {wait['since']}")
    except JournalConflict:
        why = f"{wait['path']} has been answered already"
        raise NotWaiting(run.id, f"the event {event!r}", why=why) from None


def answer_approval(
    context: Context, run_id: str, name: str | None, approved: bool, by: str | None, note: str | None
) -> dict[str, Json]:
    """Answer an approval of a waiting run."""
    run, waits, prefix = _waits_to_answer(context, require_run(context.store, run_id))
    _require_unfinished(run)
    requested = _select_waits([wait for wait in waits if "approval" in wait], name, prefix)
    what = "an approval" if name is None else f"an approval at {name!r}"
    if len(requested) > 1:  # a name that fits several means the unanswered ones
        requested = _only_unanswered(context, run, requested) or requested
    if len(requested) != 1:
        listed = ", ".join(sorted(wait["path"] for wait in requested)[:_MAX_LISTED])
        more = f", ... ({len(requested) - _MAX_LISTED:,} more)" if len(requested) > _MAX_LISTED else ""
        why = f"there are {len(requested)} open approvals; name one of them: {listed}{more}" if requested else ""
        why = why or _answered_already(context, run, name, prefix)
        raise _not_waiting(context, run, what if not requested else "exactly one approval", waits, why)
    [wait] = requested
    if wait["due"] is not None and wait["due"] < (iso(time.time()) or ""):
        raise _not_waiting(context, run, what, why=f"its timeout ended at {wait['due']}")
    answer = {"approved": approved, "by": by, "note": note}
    try:  # the id allows one answer for each time that the run asks
        sent = context.store.send(run.id, APPROVAL + wait["path"], answer, id=f"{wait['path']} {wait['since']}")
    except JournalConflict:
        sent = False
    if not sent:
        raise NotWaiting(run.id, what, why=f"{wait['path']} has been answered already")
    return {**wait, **answer}


def _answered_already(context: Context, run: RunRow, name: str | None, prefix: str) -> str:
    """Return why a run no longer waits for an approval that it has got; "" if it has not."""
    history = list(context.history(run.id))
    signalled = {entry.path for entry in history if entry.kind == "signal" and "late" not in entry.data}
    waits = [wait_to_json(entry) for entry in history if entry.kind == "wait" and entry.path in signalled]
    answered = _select_waits([wait for wait in waits if "approval" in wait], name, prefix)
    return f"{answered[-1]['path']} has been answered already" if answered else ""


def _not_waiting(
    context: Context, run: RunRow, what: str, waits: Sequence[dict[str, Any]] = (), why: str = ""
) -> NotWaiting:
    """Return the error of an answer that the run does not wait for, with how to resume a run that nobody executes."""
    is_interrupted = find_unattended(context, [run]).get(run.id) == "interrupted"
    if is_interrupted and not waits and not why:
        why = "its process ended before the run did"
    error = NotWaiting(run.id, what, map(describe_wait, waits), why)
    # A wait that is over continues with the run; one that is open needs its answer.
    if why and not waits and (is_interrupted or run.status == "waiting"):
        error.with_remedy(Action.RESUME, run_id=run.id)
    return error


def _select_waits(waits: list[dict[str, Any]], name: str | None, prefix: str) -> list[dict[str, Any]]:
    """Return the waits that a name can mean."""

    # That is the wait at this path, else the waits of a node with this id, else those in the flow that a node with this
    # id or path calls. Paths begin in the outermost run, or at `prefix`, in the part that the caller names.
    if name is None:
        return waits
    at_path = [wait for wait in waits if wait["path"] in (name, prefix + name)]
    of_node = [wait for wait in waits if wait["node"] == name]
    within = [wait for wait in waits if f"/{name}/" in f"/{wait['path'].removeprefix(prefix)}"]
    return at_path or of_node or within


def _only_unanswered(context: Context, run: RunRow, waits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Drop the waits that have their answer already, and end once somebody resumes the run."""
    unanswered_paths = {
        wait["path"] for wait in _unanswered_as_json(open_waits(context.history(run.id)), context.store.signals(run.id))
    }
    return [wait for wait in waits if wait["path"] in unanswered_paths]


def _waits_to_answer(context: Context, row: RunRow) -> AnswerTarget:
    """Return the run to answer, with its waits."""

    # For a part these are the outermost run and the waits inside that part. Answered waits are included, so that a
    # second answer gets its own error.
    root, prefix = outermost(context.store, row), ""
    waits = [wait_to_json(wait) for wait in open_waits(context.history(root.id))]
    if root.id != row.id:
        prefix = f"{row.id.removeprefix(f'{root.id}/')}/"
        waits = [wait for wait in waits if str(wait["path"]).startswith(prefix)]
        own = [] if waits else [wait_to_json(wait) for wait in open_waits(context.history(row.id))]
        if own:  # recorded by an earlier version, in which the part itself waited
            return AnswerTarget(row, [{"runId": row.id, **wait} for wait in own], "")
    return AnswerTarget(root, [{"runId": root.id, **wait} for wait in waits], prefix)


def _require_unfinished(row: RunRow) -> None:
    if row.status in ENDS:
        error = RunEnded(row.id, row.status)
        is_retryable = row.status not in ("completed", "parked") and not row.undo
        action = Action.CONTINUE if row.status == "stopped" else Action.RETRY
        raise error.with_remedy(action, run_id=row.id) if is_retryable else error
