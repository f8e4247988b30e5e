"""Turn exceptions into the failures of the nodes that raised them."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Final

from ...errors import (
    ExpressionError,
    InvalidValue,
    NodeFailed,
    SchemaMismatch,
    ToolError,
    ToolTimeout,
    ValidationFailed,
    is_interruption,
)
from ...expr.ast import Arr, Obj, Ref
from ...tools.call_errors import CANCELLED_ITSELF
from ...values import Json
from ..frame import RUN, Frame, NodeSlot, path_of
from ..timeouts import CUT, TaskDeadline, TimedOut

_STEP: Final = r"\.([^.\[\]]+)|\[([0-9]+)\]"


def failure(exc: BaseException, spot: NodeSlot, frame: Frame, lane: TaskDeadline | None = None) -> BaseException:
    """Return the exception to raise instead: NodeFailed if the node failed, otherwise `exc` itself."""
    if isinstance(exc, asyncio.CancelledError):
        # Without a passed timeout, the cancellation came from outside or from the tool itself.
        if lane is None or lane.late is None or lane.late is CUT:
            ours = lane is None or lane.task.cancelling() > lane.before or frame[RUN].ending
            if spot.direct is None or ours:
                return exc
            return node_failure(spot.direct.failed(RuntimeError(CANCELLED_ITSELF)), spot, frame)
        lane.forgive()
        if lane.task.cancelling() > lane.before:
            return exc  # another cancellation came from outside
        return node_failure(ToolTimeout(spot.tool or spot.id, spot.limit or 0.0), spot, frame)
    if lane is not None:
        lane.forgive()  # the tool answered its cancellation with its own error
    if spot.direct is not None and not isinstance(exc, ExpressionError) and not is_interruption(exc):
        # Any other exception of a direct call came from the tool, even the error of a nested run.
        return node_failure(spot.direct.failed(exc), spot, frame)
    if isinstance(exc, (ToolError, ExpressionError, InvalidValue)):
        return node_failure(exc, spot, frame)
    return exc


def node_failure(exc: Exception, spot: NodeSlot, frame: Frame, attempts: int = 1) -> NodeFailed:
    """Return a NodeFailed that names the node, with the exception as its cause."""
    reason = exc.reason if isinstance(exc, ToolError) else str(exc)
    if isinstance(exc, ValidationFailed):
        reason += _null_references(exc, spot)
    message = frame[RUN].redact(reason)
    kind = getattr(exc, "kind", None) or type(exc).__name__  # a failure read back keeps its kind
    failed = NodeFailed(path_of(frame, spot), message, node=spot.name, tool=spot.tool, kind=kind, attempts=attempts)
    failed.ran, failed.ran_at = getattr(exc, "ran", False) is True, inside(frame[RUN].id, exc)
    failed.retryable = getattr(exc, "retryable", True) is not False and not isinstance(exc, ExpressionError)
    failed.classes = exc.classes if isinstance(exc, ToolError) else ()
    if isinstance(exc, SchemaMismatch):
        failed.problems = tuple(replace(p, message=frame[RUN].redact(p.message)) for p in exc.problems)
    failed.__cause__ = exc
    return failed


def inside(run_id: str, exc: Exception) -> tuple[str, ...] | None:
    """Return the paths of the rejected results in flows that the failed call ran; None if it ran no flow.

    Flows that ran outside the store of the run are left out, because a retry of the run cannot reach them.
    """
    places: tuple[str, ...] | None = getattr(exc, "ran_at", None)
    if places is None:
        return None
    return tuple(place.removeprefix(f"{run_id}/") for place in places if place.startswith(f"{run_id}/"))


def _null_references(exc: ValidationFailed, spot: NodeSlot) -> str:
    """Return a text that names the references that were null where an argument must not be null; "" for none."""
    texts: list[str] = []
    for problem in exc.problems:
        expr = getattr(spot.node.op, "args", None)
        for key, position in re.findall(_STEP, problem.path.removeprefix("args")):
            if isinstance(expr, Obj):
                expr = dict(expr.fields).get(key)
            elif isinstance(expr, Arr) and position and int(position) < len(expr.items):
                expr = expr.items[int(position)]
            else:
                expr = None
        if isinstance(expr, Ref) and problem.message.startswith("null "):
            from ...expr.ast import show_in_document

            texts.append(f"{show_in_document(expr)} is null")
    return f" ({', '.join(dict.fromkeys(texts))})" if texts else ""


def late(spot: NodeSlot, frame: Frame, seconds: float) -> NodeFailed:
    """Return the failure of a node that exceeded its own timeout."""
    if spot.tool is not None:
        return node_failure(ToolTimeout(spot.tool, seconds), spot, frame)
    failed = NodeFailed(
        path_of(frame, spot), f"not done within {seconds:g} s", node=spot.name, tool=None, kind="ToolTimeout"
    )
    failed.__cause__ = TimedOut()
    return failed


def fallback_failure(exc: Exception, failed: NodeFailed, spot: NodeSlot, frame: Frame) -> NodeFailed:
    """Return the failure of a node whose fallback failed as well; it names both, and has both as causes."""
    second = node_failure(exc, spot, frame)
    message = f"fallback: {second.message}; the failure was: {failed.message}"
    both = NodeFailed(
        second.path, message, node=second.node, tool=second.tool, kind=second.kind, attempts=failed.attempts
    )
    both.ran, both.retryable = failed.ran or second.ran, failed.retryable and second.retryable
    both.ran_at = failed.ran_at if failed.ran else second.ran_at
    exc.__cause__, both.__cause__ = failed, exc
    return both


def error_value(failed: NodeFailed) -> dict[str, Json]:
    """Return the value of `$error` for a failure."""
    return {
        "node": failed.node,
        "tool": failed.tool,
        "message": failed.message,
        "kind": failed.kind,
        "ran": failed.ran,
        **({"classes": list(failed.classes)} if failed.classes else {}),
    }
