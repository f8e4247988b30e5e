"""What a raised exception means for the node it came from."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Final

from ..errors import (
    ExpressionError,
    InvalidValue,
    NodeFailed,
    SchemaMismatch,
    ToolError,
    ToolTimeout,
    ValidationFailed,
)
from ..errors.foreign import passes
from ..expr.ast import Arr, Obj, Ref
from ..values import Json
from .frame import RUN, Frame, Spot, path_of
from .lane import Lane, Late

_STEP: Final = r"\.([^.\[\]]+)|\[([0-9]+)\]"


def failure(exc: BaseException, spot: Spot, frame: Frame, lane: Lane | None = None) -> BaseException:
    """The exception to raise instead: NodeFailed where a node gave up, `exc` itself otherwise."""
    if isinstance(exc, asyncio.CancelledError):
        if lane is None or lane.late is None:
            ours = lane is None or lane.task.cancelling() > lane.before or frame[RUN].ending
            if spot.direct is None or ours:
                return exc
            return named(spot.direct.failed(RuntimeError("it was cancelled from inside")), spot, frame)
        lane.forgive()
        if lane.task.cancelling() > lane.before:
            return exc  # somebody else cancels too
        return named(ToolTimeout(spot.tool or spot.id, spot.limit or 0.0), spot, frame)
    if lane is not None:
        lane.forgive()  # it answered its cancellation with an error of its own
    if spot.direct is not None and not isinstance(exc, ExpressionError) and not passes(exc):
        # Whatever else comes out of a direct call came out of the tool, a nested run's error too.
        return named(spot.direct.failed(exc), spot, frame)
    if isinstance(exc, (ToolError, ExpressionError, InvalidValue)):
        return named(exc, spot, frame)
    return exc


def named(exc: Exception, spot: Spot, frame: Frame, attempts: int = 1) -> NodeFailed:
    """A NodeFailed that names the node; the cause is chained."""
    said = exc.reason if isinstance(exc, ToolError) else str(exc)
    if isinstance(exc, ValidationFailed):
        said += _null_ones(exc, spot)
    message = frame[RUN].redact(said)
    kind = getattr(exc, "kind", None) or type(exc).__name__  # a failure read back keeps its kind
    failed = NodeFailed(path_of(frame, spot), message, node=spot.name, tool=spot.tool, kind=kind, attempts=attempts)
    failed.ran = getattr(exc, "ran", False) is True
    failed.retryable = getattr(exc, "retryable", True) is not False and not isinstance(exc, ExpressionError)
    if isinstance(exc, SchemaMismatch):
        failed.problems = tuple(replace(p, message=frame[RUN].redact(p.message)) for p in exc.problems)
    failed.__cause__ = exc
    return failed


def _null_ones(exc: ValidationFailed, spot: Spot) -> str:
    """Which references of the document were null where an argument must not be."""
    found: list[str] = []
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
            from ..expr.show import told

            found.append(f"{told(expr)} is null")
    return f" ({', '.join(dict.fromkeys(found))})" if found else ""


def late(spot: Spot, frame: Frame, seconds: float) -> NodeFailed:
    """The failure of a node whose own timeout passed."""
    if spot.tool is not None:
        return named(ToolTimeout(spot.tool, seconds), spot, frame)
    failed = NodeFailed(
        path_of(frame, spot), f"not done within {seconds:g} s", node=spot.name, tool=None, kind="ToolTimeout"
    )
    failed.__cause__ = Late()
    return failed


def without_stand_in(exc: Exception, failed: NodeFailed, spot: Spot, frame: Frame) -> NodeFailed:
    """The failure of a node whose fallback fails, too: both are told, and both are among its causes."""
    own = named(exc, spot, frame)
    message = f"fallback: {own.message}; the failure was: {failed.message}"
    told = NodeFailed(own.path, message, node=own.node, tool=own.tool, kind=own.kind, attempts=failed.attempts)
    told.ran, told.retryable = failed.ran or own.ran, failed.retryable and own.retryable
    exc.__cause__, told.__cause__ = failed, exc
    return told


def as_error(failed: NodeFailed) -> dict[str, Json]:
    """What `$error` is."""
    return {
        "node": failed.node,
        "tool": failed.tool,
        "message": failed.message,
        "kind": failed.kind,
        "ran": failed.ran,
    }
