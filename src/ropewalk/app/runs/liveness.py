"""Liveness of a run that is `running` while no process executes it: who continues it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from ...errors import StoreError
from ...journal.protocol import ENDS, RunRow
from ...journal.sql.recovery import named_calls
from ...values import Json
from .answers import answered_run_ids, open_waits_of_runs
from .unattended import find_unattended

if TYPE_CHECKING:
    from ..context import Context

LIVENESS_STATES: Final = ("queued", "interrupted", "answered")
"""The states of such a run: a worker will take it, somebody must resume it, or its wait was answered."""
RESUMABLE: Final = ("interrupted", "answered")
"""The states of a run that somebody must resume."""


def waiting_run_ids(context: Context) -> set[str]:
    """Return the ids of the runs with a wait that nobody has answered."""
    try:
        return {str(wait["runId"]) for wait in open_waits_of_runs(context, None)}
    except StoreError:  # one unreadable run must not keep the others from a list
        return set()


def shown_status(row: RunRow, liveness: str | None, is_waiting: bool) -> str:
    """Return the status of a run for people: one that waits inside its process is waiting, not running."""
    return "waiting" if is_waiting and row.status == "running" and liveness is None else row.status


def status_of(context: Context, row: RunRow) -> str:
    """Return the status of one run for people."""
    if row.status != "running":
        return row.status
    return shown_status(row, liveness_of(context, [row]).get(row.id), row.id in waiting_run_ids(context))


def current_node(context: Context, row: RunRow) -> str | None:
    """Return the node that an unfinished run is at, or None if it is unknown."""
    if row.status in ENDS:
        return None
    live = context.engine.live.get(row.id)
    return (live.position() if live is not None else None) or row.current_node or None


def liveness_flags(liveness: str | None) -> dict[str, Json]:
    """Return the state of a run as boolean fields."""
    return {item: liveness == item for item in LIVENESS_STATES}


def liveness_of(context: Context, rows: Iterable[RunRow]) -> dict[str, str]:
    """Return the state of each run that no process executes."""
    result = find_unattended(context, rows)
    if "interrupted" in result.values():
        result |= {id: "answered" for id in answered_run_ids(context) if result.get(id) == "interrupted"}
    return result


def error_of(context: Context, row: RunRow, liveness: str | None) -> Any:
    """Return the recorded error of a run; of one that lost its process, the calls that it was in, if they are known."""
    calls_at_death = getattr(context.store, "calls_at_death", None)
    if row.error is not None or liveness is None or calls_at_death is None:
        return row.error
    calls = calls_at_death(row.id)
    if not calls:
        return None
    deaths = max(call["deaths"] for call in calls)
    died = "the process ended while it" if deaths == 1 else f"{deaths} processes ended while they"
    place = {"place": calls[0]["place"]} if len(calls) == 1 and "place" in calls[0] else {}
    return {"kind": "ProcessDied", "message": f"{died} executed {named_calls(calls)}", "calls": calls, **place}
