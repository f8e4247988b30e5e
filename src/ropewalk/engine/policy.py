"""Retry, timeout, fallback, conditions and state: wrapped around a node only where it has them.

Each wrapper takes `go(frame) -> value or Outcome` and gives another. The order, from the inside:
what the op does, the state writes of the regions it entered, the node's own result, the gate and the condition, the
node's own writes (so that one that is refused fails the attempt), one attempt's timeout, the retries and the fallback.
The own writes of a node that has regions come outermost: what those wrote is not undone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ..errors import ExpressionError, InvalidValue, NodeFailed, ToolError
from ..expr.ast import Obj, Ref
from ..expr.budget import weigh
from ..ir import Channel, Getter, Node, OnError, Policy, Writes, Yield
from ..state import fitting_types, fold_into, write_check
from ..values import Json
from .durable import remember_attempt, wait_until
from .failure import as_error, late, named, without_stand_in
from .frame import DEAD, LOG, RUN, SKIPPED, STATE, Frame, Outcome, Region, Spot, path_of
from .lane import Late, clock, timed

Go = Callable[[Frame], Awaitable[Any]]
Channels = dict[str, Channel]


def settled(go: Callable[[Any], Awaitable[Any]], get: Callable[[Frame], Any], spot: Spot, write: Any) -> Go:
    """Take apart the Yield of an op that enters regions: the value, and the writes handed on."""

    async def run(frame: Frame) -> Any:
        got = await go(get(frame))
        if type(got) is Yield:
            if got.writes:
                write(frame, got.writes)
            return got.value
        return got

    return run


def shaped(go: Go, result: Callable[[Frame], Json], spot: Spot) -> Go:
    """The node's value made from what its op gave."""
    slot = spot.slot

    async def run(frame: Frame) -> Any:
        frame[slot] = await go(frame)
        value = result(frame)
        weigh(value)  # built by reference, as a Compute's
        return value

    return run


def at_once(channels: Channels) -> Callable[[Frame, Writes], None]:
    """How the writes of a node reach the region's state where nodes run in order."""

    def write(frame: Frame, writes: Writes) -> None:
        fold_into(channels, frame[STATE], writes)
        frame[LOG].extend(writes)

    return write


def own_writes(
    channels: Channels,
    spot: Spot,
    updates: Callable[[Frame], Json],
    write: Callable[[Frame, Writes], None],
    tell: Callable[[Frame, dict[str, Json]], None] | None = None,
) -> Callable[[Frame], None]:
    """What a node's own `writes` do: updates of a wrong type, or to no declared channel, fail the
    node before any of them is folded in."""
    kept = spot.node.writes
    check = write_check(channels, [key for key, _ in kept.fields] if isinstance(kept, Obj) else None, spot.name)

    def apply(frame: Frame) -> None:
        changes = updates(frame)
        if changes is not None:
            if type(changes) is not dict:
                raise InvalidValue("writes", f"must be an object of state updates, not {type(changes).__name__}")
            made = list(changes.items())
            if check is not None:
                check(made)
            write(frame, made)
            if tell is not None and made:
                tell(frame, changes)

    return _after_call(apply, spot)


def _after_call(apply: Callable[[Frame], None], spot: Spot) -> Callable[[Frame], None]:
    """Mark a refused write of a tool's result: the call took effect, so another attempt would repeat it."""
    if spot.tool is None or spot.repeatable:
        return apply

    def write(frame: Frame) -> None:
        try:
            apply(frame)
        except InvalidValue as exc:
            exc.ran, exc.retryable = True, False  # type: ignore[attr-defined]  # read where the node's failure is made
            raise

    return write


def write_hook(
    channels: Channels, node: Node, apply: Callable[[Frame], None], region: Region
) -> Callable[[Frame, Json], None]:
    """The same as `writing` for a node without policies and conditions: no coroutine around it."""
    kept = node.writes
    if isinstance(kept, Obj) and len(kept.fields) == 1 and kept.fields[0][1] == Ref("out", (node.id,)):
        name = kept.fields[0][0]
        channel = channels.get(name)
        if region.sequential and channel is not None and channel.reduce == "last_wins":
            fitting = fitting_types(channel)

            def keep_output(frame: Frame, value: Json) -> None:
                if fitting is not None and type(value) not in fitting:
                    apply(frame)  # which says what is wrong
                    return
                frame[STATE][name] = value
                frame[LOG].append((name, value))

            return keep_output
    return lambda frame, value: apply(frame)


def writing(go: Go, apply: Callable[[Frame], None], spot: Spot) -> Go:
    """After the node is done, fold in its own writes, which see its output."""
    slot, on_error = spot.slot, spot.node.policy.on_error
    stands = on_error is None or on_error.writes

    async def run(frame: Frame) -> Any:
        value = await go(frame)
        if type(value) is Outcome and (value.status != "failed" or not stands):
            return value
        frame[slot] = value
        apply(frame)
        return value

    return run


def guarded(go: Go, gate: Callable[[Frame], bool] | None, when: Callable[[Frame], bool] | None, spot: Spot) -> Go:
    """A false gate: the node is dead; a false condition: it is skipped. Nothing of it runs."""

    async def run(frame: Frame) -> Any:
        if gate is not None and not gate(frame):
            return DEAD
        if when is not None and not when(frame):
            return SKIPPED
        return await go(frame)

    return run


def _once(go: Go, seconds: float | None, spot: Spot) -> Go:
    """One attempt, which fails when it takes longer than `seconds`."""
    once = timed(go, seconds) if seconds is not None else go

    async def attempt(frame: Frame) -> Any:
        try:
            return await once(frame)
        except Late:
            raise late(spot, frame, seconds or 0.0) from None
        except (ToolError, ExpressionError, InvalidValue) as exc:
            raise named(exc, spot, frame) from exc

    return attempt


def tried(
    go: Go, policy: Policy, stand_in: Getter | None, own: Callable[[Frame], None] | None, spot: Spot, durable: bool
) -> Go:
    """Attempts with pauses between them, then the stand-in value, with the node's `own` writes, or the failure.

    What time decided (a timeout, a failed attempt, when the next one is due) is journaled before
    anything depends on it, so a resumed run does not try again what already failed.
    """
    attempts, slot = policy.retry.attempts, spot.attempt_slot
    attempt = _once(go, policy.timeout, spot)
    take_over = _taking_over(policy.on_error, stand_in, own, spot)
    handles = policy.on_error is not None and not policy.on_error.reported

    async def run(frame: Frame) -> Any:
        run_ = frame[RUN]
        count = 1
        while True:
            if slot is not None:
                frame[slot] = count
            past = run_.past_attempt(path_of(frame, spot)) if durable else None
            if past is None:
                began = clock()
                try:
                    return await attempt(frame)
                except NodeFailed as exc:
                    failed, again = exc, count < attempts and exc.retryable
                took = clock() - began
                failed.attempts = max(failed.attempts, count)
                due = run_.now() + policy.retry.pause(count) if again else None
                run_.disown(path_of(frame, spot))
            else:
                took = 0.0
                failed, due = past
                failed.attempts = max(failed.attempts, count)
            # What takes over is known before the failure is recorded, which then says whether it was handled.
            ended = take_over(frame, failed) if due is None else None
            handled = handles and type(ended) is Outcome
            run_.failed_attempt(frame, spot, count, failed, due, took, handled)
            if past is None and durable:
                await remember_attempt(run_, frame, spot, failed, due, took, handled)
            if isinstance(ended, NodeFailed):
                raise ended from ended.__cause__
            if due is None:
                return ended
            await wait_until(run_, due)
            count += 1

    return run


def _taking_over(
    on_error: OnError | None, stand_in: Getter | None, own: Callable[[Frame], None] | None, spot: Spot
) -> Callable[[Frame, NodeFailed], Outcome | NodeFailed]:
    """What a node that has given up comes to: the value in its place, with the node's `own` writes, or the failure."""

    def take_over(frame: Frame, failed: NodeFailed) -> Outcome | NodeFailed:
        if on_error is None or stand_in is None:
            return failed
        if spot.error_slot is not None:
            frame[spot.error_slot] = as_error(failed)
        if on_error.reported:
            frame[RUN].errors.append(failed)
        try:
            value: Outcome = Outcome("failed", stand_in(frame), failed)
            frame[spot.slot] = value
            if own is not None and on_error.writes:
                own(frame)
        except (ExpressionError, InvalidValue) as exc:
            wrong = without_stand_in(exc, failed, spot, frame)
            wrong.__cause__ = exc
            return wrong
        return value

    return take_over
