"""The actions that a run would accept now, found with the checks of the actions themselves. Nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from ...errors import RESTART, NothingToRetry, NothingToUndo, PartOfRun, RopewalkError, RunBusy, StoreError, errors_in
from ...journal.protocol import ENDS, RunRow
from ..corrections import Corrections, require_in_effect
from ..recorded_run import outermost, require_run
from .liveness import RESUMABLE, liveness_of
from .rerun import plan_retry, require_retryable
from .undo import require_undoable
from .undo_plan import plan_undo
from .undone import require_not_undone, undo_report

if TYPE_CHECKING:
    from ..jobs import Jobs

_Check: TypeAlias = Callable[["Jobs", RunRow, tuple[str, ...]], object]


def actions_of(jobs: Jobs, run_id: str, node: str | None = None) -> list[str]:
    """Return what can be done with a run: stop, resume, retry, undo, fork; with `node`, to retry or fork from it."""
    row = require_run(jobs.context.store, run_id)
    checks = _CHECKS if node is None else {name: _CHECKS[name] for name in ("retry", "fork")}
    return [name for name, check in checks.items() if _is_accepted(check, jobs, row, () if node is None else (node,))]


def _is_accepted(check: _Check, jobs: Jobs, row: RunRow, nodes: tuple[str, ...]) -> bool:
    try:
        check(jobs, row, nodes)
    except RopewalkError:
        return False
    return True


def _stop(jobs: Jobs, row: RunRow, nodes: tuple[str, ...]) -> None:
    if row.status in ENDS:
        raise RunBusy(row.id, row.owner)


def _resume(jobs: Jobs, row: RunRow, nodes: tuple[str, ...]) -> None:
    if row.parent is not None:
        raise PartOfRun(row.id, outermost(jobs.context.store, row).id)
    if row.status in ENDS or (
        row.status == "running" and liveness_of(jobs.context, [row]).get(row.id) not in RESUMABLE
    ):
        raise RunBusy(row.id, row.owner)
    jobs.executor_for(row, None)
    jobs.context.definitions.get(row)


def _retry(jobs: Jobs, row: RunRow, nodes: tuple[str, ...]) -> None:
    context = jobs.context
    require_retryable(context.store, row.id, nodes)
    require_not_undone(context, row)
    errors = errors_in(row.result) if isinstance(row.result, dict) else []
    if not nodes and errors and all(isinstance(error, dict) and error.get("needs") == RESTART for error in errors):
        raise NothingToRetry(row.id, "it would fail in the same way")  # its nodes can start over
    jobs.executor_for(row, None)
    if row.kind == "plan" or row.forked_from is not None:
        require_in_effect(context, row)
    flow = context.definitions.get(row).flow
    plan_retry(flow, row, context.store.history(row.id), context.store, nodes)


def _undo(jobs: Jobs, row: RunRow, nodes: tuple[str, ...]) -> None:
    context = jobs.context
    require_undoable(context.store, row.id)
    if row.undo:
        is_left = (undo_report(context, row, brief=True) or {}).get("status") == "incomplete"
    else:
        is_left = bool(plan_undo(context, row).steps)
    if not is_left:
        raise NothingToUndo(row.id, "none of its finished steps has an undo")
    if row.kind == "plan":
        Corrections(context, row).require_idle()


def _fork(jobs: Jobs, row: RunRow, nodes: tuple[str, ...]) -> None:
    if not jobs.context.store.durable:
        raise StoreError("a store in memory records no steps")
    jobs.executor_for(row, None)
    jobs.context.definitions.get(row)


_CHECKS: Final[dict[str, _Check]] = {
    "stop": _stop, "resume": _resume, "retry": _retry, "undo": _undo, "fork": _fork,
}  # fmt: skip
