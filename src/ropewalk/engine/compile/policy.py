"""Retry, timeout, fallback, conditions and state: wrapped around a node only if it uses them.

Each wrapper takes `go(frame) -> value or Outcome` and returns another. From the inside out, they are: the op itself,
the state writes of the regions inside it, the node's own result, the gate and the condition, the node's own writes, the
timeout of one attempt, and the retries with the fallback. A refused own write fails the attempt. A node with regions
has its own writes outermost, because the writes of its regions are not undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ...errors import ExpressionError, InvalidValue, NodeFailed, ToolError
from ...expr.ast import Obj, Ref
from ...expr.operators import weigh
from ...ir import Channel, Getter, Node, OnError, Policy, Writes, Yield
from ...state import fitting_types, fold_into, write_check
from ...values import Json
from ..frame import DEAD, LOG, RUN, SKIPPED, STATE, Frame, NodeSlot, Outcome, Region, path_of
from ..timeouts import CUT, TimedOut, clock, lane_of_task, timed
from .durable import FailedAttempt, remember_attempt, wait_until
from .failures import error_value, fallback_failure, late, node_failure

Go = Callable[[Frame], Awaitable[Any]]
Channels = dict[str, Channel]


def _stop_if_cut() -> None:
    """Raise CancelledError if something around the node has ended and the tool swallowed the cancellation.

    A result or failure that arrives after that changes nothing.
    """
    if lane_of_task().late is CUT:
        raise asyncio.CancelledError


def settled(go: Callable[[Any], Awaitable[Any]], get: Callable[[Frame], Any], spot: NodeSlot, write: Any) -> Go:
    """Split the Yield of an op that enters regions into the value and the writes, which are passed on."""

    async def run(frame: Frame) -> Any:
        result = await go(get(frame))
        _stop_if_cut()
        if type(result) is Yield:
            if result.writes:
                write(frame, result.writes)
            return result.value
        return result

    return run


def shaped(go: Go, result: Callable[[Frame], Json], spot: NodeSlot) -> Go:
    """Make the value of a node from the result of its op."""
    slot = spot.slot

    async def run(frame: Frame) -> Any:
        frame[slot] = await go(frame)
        value = result(frame)
        weigh(value)  # a value that shares its parts may be too large as JSON
        return value

    return run


def state_writer(channels: Channels) -> Callable[[Frame, Writes], None]:
    """Return a function that folds writes into the state at once, for regions where nodes run in order."""

    def write(frame: Frame, writes: Writes) -> None:
        fold_into(channels, frame[STATE], writes)
        frame[LOG].extend(writes)

    return write


def own_writes(
    channels: Channels,
    spot: NodeSlot,
    updates: Callable[[Frame], Json],
    write: Callable[[Frame, Writes], None],
    report: Callable[[Frame, dict[str, Json]], None] | None = None,
) -> Callable[[Frame], None]:
    """Return a function that applies a node's own `writes`.

    An update with a wrong type or an undeclared channel fails the node before any update is folded in.
    """
    declared = spot.node.writes
    names = [key for key, _ in declared.fields] if isinstance(declared, Obj) else None
    check = write_check(channels, names, spot.name)

    def apply(frame: Frame) -> None:
        changes = updates(frame)
        if changes is not None:
            if type(changes) is not dict:
                raise InvalidValue("writes", f"must be an object of state updates, not {type(changes).__name__}")
            writes = list(changes.items())
            if check is not None:
                check(writes)
            write(frame, writes)
            if report is not None and writes:
                report(frame, changes)

    return _after_call(apply, spot)


def _after_call(apply: Callable[[Frame], None], spot: NodeSlot) -> Callable[[Frame], None]:
    """Mark the failure of a refused write of a tool's result: another attempt would repeat the effects of the call."""
    if spot.tool is None or spot.repeatable:
        return apply

    def write(frame: Frame) -> None:
        try:
            apply(frame)
        except InvalidValue as exc:
            exc.ran, exc.retryable = True, False  # type: ignore[attr-defined]  # `failures.node_failure` reads these
            raise

    return write


def write_hook(
    channels: Channels, node: Node, apply: Callable[[Frame], None], region: Region
) -> Callable[[Frame, Json], None]:
    """Return a function that applies a node's writes after its call, without a coroutine around the node.

    Only for nodes without policies and conditions; others need `writing`.
    """
    declared = node.writes
    # The commonest write, the node's own output into one channel, needs no evaluation.
    if isinstance(declared, Obj) and len(declared.fields) == 1 and declared.fields[0][1] == Ref("out", (node.id,)):
        name = declared.fields[0][0]
        channel = channels.get(name)
        if region.sequential and channel is not None and channel.reduce == "last_wins":
            fitting = fitting_types(channel)

            def keep_output(frame: Frame, value: Json) -> None:
                if fitting is not None and type(value) not in fitting:
                    apply(frame)  # raises the error
                    return
                frame[STATE][name] = value
                frame[LOG].append((name, value))

            return keep_output
    return lambda frame, value: apply(frame)


def writing(go: Go, apply: Callable[[Frame], None], spot: NodeSlot) -> Go:
    """Apply a node's own writes after it is done; they see its output."""
    slot, on_error = spot.slot, spot.node.policy.on_error
    writes_after_failure = on_error is None or on_error.writes

    async def run(frame: Frame) -> Any:
        value = await go(frame)
        if type(value) is Outcome and (value.status != "failed" or not writes_after_failure):
            return value
        frame[slot] = value
        apply(frame)
        return value

    return run


def guarded(go: Go, gate: Callable[[Frame], bool] | None, when: Callable[[Frame], bool] | None, spot: NodeSlot) -> Go:
    """Run a node only if its gate and condition are true; otherwise it is dead (gate) or skipped (condition)."""

    async def run(frame: Frame) -> Any:
        if gate is not None and not gate(frame):
            return DEAD
        if when is not None and not when(frame):
            return SKIPPED
        return await go(frame)

    return run


def _once(go: Go, seconds: float | None, spot: NodeSlot) -> Go:
    """Return a function that makes one attempt, which fails if it takes longer than `seconds`."""
    once = timed(go, seconds) if seconds is not None else go

    async def attempt(frame: Frame) -> Any:
        try:
            return await once(frame)
        except TimedOut:
            raise late(spot, frame, seconds or 0.0) from None
        except (ToolError, ExpressionError, InvalidValue) as exc:
            raise node_failure(exc, spot, frame) from exc

    return attempt


def tried(
    go: Go,
    policy: Policy,
    fallback: Getter | None,
    write_own: Callable[[Frame], None] | None,
    spot: NodeSlot,
    durable: bool,
) -> Go:
    """Make attempts with pauses between them; after the last failure use the fallback value, if there is one.

    The journal gets everything that time decides (a timeout, a failed attempt, the time of the next one) before
    anything depends on it, so that a resumed run does not repeat what already failed. `write_own` applies the
    writes of the node.
    """
    attempts, slot = policy.retry.attempts, spot.attempt_slot
    attempt = _once(go, policy.timeout, spot)
    take_over = _error_handler(policy.on_error, fallback, write_own, spot)
    handles = policy.on_error is not None and not policy.on_error.reported

    async def make_attempts(frame: Frame) -> Any:
        run = frame[RUN]
        count = 1
        while True:
            if slot is not None:
                frame[slot] = count
            past = run.past_attempt(path_of(frame, spot)) if durable else None
            if past is None:
                began = clock()
                try:
                    return await attempt(frame)
                except NodeFailed as exc:
                    _stop_if_cut()
                    failure, will_retry = exc, count < attempts and exc.retryable
                took = clock() - began
                due = run.now() + policy.retry.pause(count) if will_retry else None
                run.disown(path_of(frame, spot))
            else:
                failure, due, took = past.failure, past.due, 0.0
            failure.attempts = max(failure.attempts, count)
            # The record of the failure says whether it was handled, so make the fallback value first.
            ended = take_over(frame, failure) if due is None else None
            handled = handles and type(ended) is Outcome
            now = run.now()
            failed_attempt = FailedAttempt(path_of(frame, spot), failure, due, now - took, now, handled)
            run.add_failed_attempt(spot, count, failed_attempt)
            if past is None and durable:
                await remember_attempt(run, spot, failed_attempt)
            # Without a next attempt, the failure or the fallback value is the end of the node.
            if isinstance(ended, NodeFailed):
                raise ended from ended.__cause__
            if due is None:
                return ended
            await wait_until(run, due)
            count += 1

    return make_attempts


def _error_handler(
    on_error: OnError | None, fallback: Getter | None, write_own: Callable[[Frame], None] | None, spot: NodeSlot
) -> Callable[[Frame, NodeFailed], Outcome | NodeFailed]:
    """Return a function that makes the outcome of a node that has failed for good: a fallback value, or the failure."""

    def take_over(frame: Frame, failure: NodeFailed) -> Outcome | NodeFailed:
        if on_error is None or fallback is None:
            return failure
        if spot.error_slot is not None:
            frame[spot.error_slot] = error_value(failure)
        if on_error.reported:
            frame[RUN].errors.append(failure)
        try:
            value: Outcome = Outcome("failed", fallback(frame), failure)
            frame[spot.slot] = value
            if write_own is not None and on_error.writes:
                write_own(frame)
        except (ExpressionError, InvalidValue) as exc:
            both = fallback_failure(exc, failure, spot, frame)
            both.__cause__ = exc
            return both
        return value

    return take_over
