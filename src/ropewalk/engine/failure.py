"""What a raised exception means for the node it came from."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from ..errors import (
    ExpressionError,
    InvalidValue,
    NodeFailed,
    SchemaMismatch,
    ToolError,
    ToolTimeout,
)
from ..errors.foreign import PASSES
from ..values import Json
from .frame import RUN, Frame, Spot, path_of
from .lane import Lane, Late


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
    if spot.direct is not None and not isinstance(exc, (ExpressionError, *PASSES)):
        # Whatever else comes out of a direct call came out of the tool, a nested run's error too.
        return named(spot.direct.failed(exc), spot, frame)
    if isinstance(exc, (ToolError, ExpressionError, InvalidValue)):
        return named(exc, spot, frame)
    return exc


def named(exc: Exception, spot: Spot, frame: Frame, attempts: int = 1) -> NodeFailed:
    """A NodeFailed that names the node; the cause is chained."""
    message = frame[RUN].redact(exc.reason if isinstance(exc, ToolError) else str(exc))
    kind = getattr(exc, "kind", None) or type(exc).__name__  # a failure read back keeps its kind
    failed = NodeFailed(path_of(frame, spot), message, node=spot.name, tool=spot.tool, kind=kind, attempts=attempts)
    if isinstance(exc, SchemaMismatch):
        failed.problems = tuple(replace(p, message=frame[RUN].redact(p.message)) for p in exc.problems)
    failed.__cause__ = exc
    return failed


def late(spot: Spot, frame: Frame, seconds: float) -> NodeFailed:
    """The failure of a node whose own timeout passed."""
    if spot.tool is not None:
        return named(ToolTimeout(spot.tool, seconds), spot, frame)
    failed = NodeFailed(
        path_of(frame, spot), f"not done within {seconds:g} s", node=spot.name, tool=None, kind="ToolTimeout"
    )
    failed.__cause__ = Late()
    return failed


def retryable(failed: NodeFailed) -> bool:
    """Whether trying again could help: not where the definition or the arguments are at fault."""
    cause: BaseException | None = failed
    while isinstance(cause, NodeFailed):
        cause = cause.__cause__
    return getattr(cause, "retryable", True) and not isinstance(cause, ExpressionError)


def as_error(failed: NodeFailed) -> dict[str, Json]:
    """What `$error` is."""
    return {"node": failed.node, "tool": failed.tool, "message": failed.message, "kind": failed.kind}
