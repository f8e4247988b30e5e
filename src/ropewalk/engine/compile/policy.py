"""Retry, timeout, fallback, conditions and state: wrapped around a node only if it uses them.

`Builder.node` (`program.py`) calls these functions. Each takes a `NodeRunner`, a coroutine function from the frame to
the node's value or Outcome, and returns another one around it. From the inside out, they are: the op itself, the state
writes of the regions inside it (`with_inner_writes`), the node's own result (`with_result`), the gate and the condition
(`with_conditions`), the node's own writes (`with_writes`), the timeout of one attempt, and the retries with the
fallback (`with_attempts`). A refused own write fails the attempt. A node with regions has its own writes outermost,
because the writes of its regions are not undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from ...errors import ExpressionError, InvalidValue, NodeFailed, ToolError
from ...expr.ast import Obj, Ref
from ...expr.operators import weigh
from ...ir import Channel, Getter, Node, OnError, Policy, Retry, Writes, Yield
from ...state import fitting_types, fold_into, write_check
from ...values import Json
from ..frame import DEAD, LOG, RUN, SKIPPED, STATE, Frame, NodeSlot, Outcome, Region, path_of
from ..timeouts import INTERRUPTED, TimedOut, clock, deadline_of_task, timed
from .durable import FailedAttempt, remember_attempt, wait_until
from .failures import error_value, fallback_failure, late, node_failure

NodeRunner = Callable[[Frame], Awaitable[Any]]
"""Runs a node in a frame, and returns its value, or an Outcome if it did not run or failed."""
Channels = dict[str, Channel]


def _stop_if_interrupted() -> None:
    """Raise CancelledError if something around the node has ended and the tool swallowed the cancellation."""

    # A result or failure that arrives after that changes nothing.
    if deadline_of_task().late is INTERRUPTED:
        raise asyncio.CancelledError


def with_inner_writes(
    run_node: Callable[[Any], Awaitable[Any]], get: Callable[[Frame], Any], node_slot: NodeSlot, write: Any
) -> NodeRunner:
    """Split the Yield of an op that enters regions into the value and the writes, which are passed on."""

    async def run(frame: Frame) -> Any:
        result = await run_node(get(frame))
        _stop_if_interrupted()
        if type(result) is Yield:
            if result.writes:
                write(frame, result.writes)
            return result.value
        return result

    return run


def with_result(run_node: NodeRunner, result: Callable[[Frame], Json], node_slot: NodeSlot) -> NodeRunner:
    """Make the value of a node from the result of its op."""
    slot = node_slot.slot

    async def run(frame: Frame) -> Any:
        frame[slot] = await run_node(frame)
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
    node_slot: NodeSlot,
    updates: Callable[[Frame], Json],
    write: Callable[[Frame, Writes], None],
    report: Callable[[Frame, dict[str, Json]], None] | None = None,
) -> Callable[[Frame], None]:
    """Return a function that applies a node's own `writes`."""

    # An update with a wrong type or an undeclared channel fails the node before any update is folded in.
    declared = node_slot.node.writes
    names = [key for key, _ in declared.fields] if isinstance(declared, Obj) else None
    check = write_check(channels, names, node_slot.name)

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

    return _after_call(apply, node_slot)


def _after_call(apply: Callable[[Frame], None], node_slot: NodeSlot) -> Callable[[Frame], None]:
    """Mark the failure of a refused write of a tool's result: another attempt would repeat the effects of the call."""
    if node_slot.tool is None or node_slot.repeatable:
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
    """Return a function that applies a node's writes after its call, without a coroutine around the node."""

    # Only for nodes without policies and conditions; others need `with_writes`.
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


def with_writes(run_node: NodeRunner, apply: Callable[[Frame], None], node_slot: NodeSlot) -> NodeRunner:
    """Apply a node's own writes after it is done; they see its output."""
    slot, on_error = node_slot.slot, node_slot.node.policy.on_error
    writes_after_failure = on_error is None or on_error.writes

    async def run(frame: Frame) -> Any:
        value = await run_node(frame)
        if type(value) is Outcome and (value.status != "failed" or not writes_after_failure):
            return value
        frame[slot] = value
        apply(frame)
        return value

    return run


def with_conditions(
    run_node: NodeRunner,
    gate: Callable[[Frame], bool] | None,
    when: Callable[[Frame], bool] | None,
    node_slot: NodeSlot,
) -> NodeRunner:
    """Run a node only if its gate and condition are true; otherwise it is dead (gate) or skipped (condition)."""

    async def run(frame: Frame) -> Any:
        if gate is not None and not gate(frame):
            return DEAD
        if when is not None and not when(frame):
            return SKIPPED
        return await run_node(frame)

    return run


def _once(run_node: NodeRunner, seconds: float | None, node_slot: NodeSlot) -> NodeRunner:
    """Return a function that makes one attempt, which fails if it takes longer than `seconds`."""
    once = timed(run_node, seconds) if seconds is not None else run_node

    async def attempt(frame: Frame) -> Any:
        try:
            return await once(frame)
        except TimedOut:
            raise late(node_slot, frame, seconds or 0.0) from None
        except (ToolError, ExpressionError, InvalidValue) as exc:
            raise node_failure(exc, node_slot, frame) from exc

    return attempt


def with_attempts(
    run_node: NodeRunner,
    policy: Policy,
    fallback: Getter | None,
    write_own: Callable[[Frame], None] | None,
    node_slot: NodeSlot,
    durable: bool,
) -> NodeRunner:
    """Make attempts with pauses between them; after the last failure use the fallback value, if there is one."""

    # The journal gets everything that time decides (a timeout, a failed attempt, the time of the next one) before
    # anything depends on it, so that a resumed run does not repeat what already failed. `write_own` applies the writes
    # of the node.
    attempts, slot = policy.retry.attempts, node_slot.attempt_slot
    attempt = _once(run_node, policy.timeout, node_slot)
    take_over = _error_handler(policy.on_error, fallback, write_own, node_slot)
    handles = policy.on_error is not None and not policy.on_error.reported

    async def make_attempts(frame: Frame) -> Any:
        run = frame[RUN]
        count = 1
        while True:
            if slot is not None:
                frame[slot] = count
            past = run.past_attempt(path_of(frame, node_slot)) if durable else None
            if past is None:
                began = clock()
                try:
                    return await attempt(frame)
                except NodeFailed as exc:
                    _stop_if_interrupted()
                    failure, will_retry = exc, count < attempts and exc.retryable
                took = clock() - began
                due = run.now() + _pause(policy.retry, count, failure) if will_retry else None
                run.disown(path_of(frame, node_slot))
            else:
                failure, due, took = past.failure, past.due, 0.0
            failure.attempts = max(failure.attempts, count)
            # The record of the failure says whether it was handled, so make the fallback value first.
            ended = take_over(frame, failure) if due is None else None
            handled = handles and type(ended) is Outcome
            now = run.now()
            failed_attempt = FailedAttempt(path_of(frame, node_slot), failure, due, now - took, now, handled)
            run.add_failed_attempt(node_slot, count, failed_attempt)
            if past is None and durable:
                await remember_attempt(run, node_slot, failed_attempt)
            # Without a next attempt, the failure or the fallback value is the end of the node.
            if isinstance(ended, NodeFailed):
                raise ended from ended.__cause__
            if due is None:
                return ended
            await wait_until(run, due)
            count += 1

    return make_attempts


MAX_RETRY_AFTER: Final = 3600.0
"""Seconds of a provider's `Retry-After` that a retry waits at most."""


def _pause(retry: Retry, failed: int, failure: NodeFailed) -> float:
    """Return the seconds before the next attempt: those of the policy, or more if the provider wants it."""
    return max(retry.pause(failed), min(failure.retry_after or 0.0, MAX_RETRY_AFTER))


def _error_handler(
    on_error: OnError | None, fallback: Getter | None, write_own: Callable[[Frame], None] | None, node_slot: NodeSlot
) -> Callable[[Frame, NodeFailed], Outcome | NodeFailed]:
    """Return a function that makes the outcome of a node that has failed for good: a fallback value, or the failure."""

    def take_over(frame: Frame, failure: NodeFailed) -> Outcome | NodeFailed:
        if on_error is None or fallback is None:
            return failure
        if node_slot.error_slot is not None:
            frame[node_slot.error_slot] = error_value(failure)
        if on_error.reported:
            frame[RUN].errors.append(failure)
        try:
            value: Outcome = Outcome("failed", fallback(frame), failure)
            frame[node_slot.slot] = value
            if write_own is not None and on_error.writes:
                write_own(frame)
        except (ExpressionError, InvalidValue) as exc:
            both = fallback_failure(exc, failure, node_slot, frame)
            both.__cause__ = exc
            return both
        return value

    return take_over
