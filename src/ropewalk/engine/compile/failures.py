"""Turn exceptions into the failures of the nodes that raised them."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterator
from typing import Any, Final

from ...config.secrets import process_redaction
from ...errors import (
    CORRECTION,
    RESTART,
    ExpressionError,
    InvalidValue,
    NodeFailed,
    SchemaMismatch,
    ToolError,
    ToolTimeout,
    ValidationFailed,
    attribute_of,
    is_interruption,
)
from ...expr.ast import Arr, Obj, Ref
from ...tools.call_errors import CANCELLED_ITSELF, late_reason
from ...values import Json
from ..frame import RUN, Frame, NodeSlot, path_of
from ..stack_trace import trace_of
from ..timeouts import INTERRUPTED, TaskDeadline, TimedOut

_STEP: Final = r"\.([^.\[\]]+)|\[([0-9]+)\]"


def failure(
    exc: BaseException, node_slot: NodeSlot, frame: Frame, task_deadline: TaskDeadline | None = None
) -> BaseException:
    """Return the exception to raise instead: NodeFailed if the node failed, otherwise `exc` itself."""
    if isinstance(exc, asyncio.CancelledError):
        # Without a passed timeout, the cancellation came from outside or from the tool itself.
        if task_deadline is None or task_deadline.late is None or task_deadline.late is INTERRUPTED:
            ours = task_deadline is None or task_deadline.task.cancelling() > task_deadline.before or frame[RUN].ending
            if node_slot.direct is None or ours:
                return exc
            return node_failure(node_slot.direct.failed(RuntimeError(CANCELLED_ITSELF)), node_slot, frame)
        task_deadline.forgive()
        if task_deadline.task.cancelling() > task_deadline.before:
            return exc  # another cancellation came from outside
        seconds = node_slot.limit or 0.0
        late = ToolTimeout(node_slot.tool or node_slot.id, seconds, reason=late_reason(seconds, exc))
        return node_failure(late, node_slot, frame)
    if task_deadline is not None:
        task_deadline.forgive()  # the tool answered its cancellation with its own error
    if node_slot.direct is not None and not isinstance(exc, ExpressionError) and not is_interruption(exc):
        # Any other exception of a direct call came from the tool, even the error of a nested run.
        return node_failure(node_slot.direct.failed(exc), node_slot, frame)
    if isinstance(exc, (ToolError, ExpressionError, InvalidValue)):
        return node_failure(exc, node_slot, frame)
    return exc


def node_failure(exc: Exception, node_slot: NodeSlot, frame: Frame, *, is_of_call: bool = True) -> NodeFailed:
    """Return a NodeFailed that names the node, with the exception as its cause."""

    # A ToolError of a node with a tool is the failure of a call, unless the timeout of the node itself ended it.
    if isinstance(exc, SchemaMismatch):
        exc = frame[RUN].mismatch(exc.place, exc.problems)
    message = reason_of(exc, node_slot, frame[RUN])
    kind = attribute_of(exc, "kind") or type(exc).__name__  # a failure read back keeps its kind
    failed = NodeFailed(path_of(frame, node_slot), message, node=node_slot.name, tool=node_slot.tool, kind=kind)
    failed.ran, failed.ran_at = attribute_of(exc, "ran") is True, inside(frame[RUN].id, exc)
    failed.retryable = attribute_of(exc, "retryable") is not False and not isinstance(exc, ExpressionError)
    failed.classes = exc.classes if isinstance(exc, ToolError) else ()
    failed.budgets, failed.retry_after = attribute_of(exc, "budgets", ()), retry_after_of(exc)
    failed.needs = needs_of(exc)
    failed.trace = trace_of(exc, frame[RUN], node_slot.handler)
    if isinstance(exc, SchemaMismatch):
        failed.problems, failed.steps = exc.problems, exc.steps
    failed.__cause__ = exc
    if is_of_call and node_slot.tool is not None and isinstance(exc, ToolError):
        frame[RUN].add_failed_call(frame, node_slot, failed)
    return failed


def reason_of(exc: Exception, node_slot: NodeSlot, run: Any) -> str:
    """Return the message of a node's exception without secrets, with the references that were null and must not be."""
    reason = exc.reason if isinstance(exc, ToolError) else str(exc)
    if isinstance(exc, ValidationFailed):
        reason += _null_references(exc, node_slot)
    return process_redaction().text(run.redact(reason))


def retry_after_of(exc: BaseException) -> float | None:
    """Return the `retry_after` of an error or of its causes, in seconds."""
    for error in _with_causes(exc):
        seconds = attribute_of(error, "retry_after")
        if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and seconds >= 0:
            with contextlib.suppress(OverflowError):  # an integer beyond every float
                return float(seconds)
    return None


def needs_of(exc: BaseException) -> str | None:
    """Return what must come before a retry, as an error or one of its causes says; None if nothing must."""
    found = (attribute_of(error, "needs") for error in _with_causes(exc))
    return next((needs for needs in found if needs in (CORRECTION, RESTART, "")), None) or None  # "" hides the causes


def _with_causes(exc: BaseException | None) -> Iterator[BaseException]:
    seen = set[int]()  # an exception that is raised again and again may be its own cause
    while exc is not None and id(exc) not in seen:
        seen.add(id(exc))
        yield exc
        exc = exc.__cause__


def inside(run_id: str, exc: Exception) -> tuple[str, ...] | None:
    """Return the paths of the rejected results in flows that the failed call ran; None if it ran no flow."""

    # Flows that ran outside the store of the run are left out, because a retry of the run cannot reach them.
    places: tuple[str, ...] | None = attribute_of(exc, "ran_at")
    if places is None:
        return None
    return tuple(place.removeprefix(f"{run_id}/") for place in places if place.startswith(f"{run_id}/"))


def _null_references(exc: ValidationFailed, node_slot: NodeSlot) -> str:
    """Return a text that names the references that were null where an argument must not be null; "" for none."""
    texts: list[str] = []
    for problem in exc.problems:
        expr = getattr(node_slot.node.op, "args", None)
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


def late(node_slot: NodeSlot, frame: Frame, seconds: float) -> NodeFailed:
    """Return the failure of a node that exceeded its own timeout."""
    if node_slot.tool is not None:
        return node_failure(ToolTimeout(node_slot.tool, seconds), node_slot, frame, is_of_call=False)
    failed = NodeFailed(
        path_of(frame, node_slot), f"not done within {seconds:g} s", node=node_slot.name, tool=None, kind="ToolTimeout"
    )
    failed.__cause__ = TimedOut()
    return failed


def fallback_failure(exc: Exception, failed: NodeFailed, node_slot: NodeSlot, frame: Frame) -> NodeFailed:
    """Return the failure of a node whose fallback failed as well; it names both, and has both as causes."""
    second = node_failure(exc, node_slot, frame)
    message = f"fallback: {second.message}; the failure was: {failed.message}"
    both = NodeFailed(
        second.path, message, node=second.node, tool=second.tool, kind=second.kind, attempts=failed.attempts
    )
    both.ran, both.retryable = failed.ran or second.ran, failed.retryable and second.retryable
    both.ran_at = failed.ran_at if failed.ran else second.ran_at
    both.trace = failed.trace or second.trace
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
