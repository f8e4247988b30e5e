"""The steps of a journaled run: a recorded step is read back and never repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from types import FrameType
from typing import Any

from ...errors import (
    Action,
    ExecutionFailed,
    InvalidValue,
    JournalConflict,
    NodeFailed,
    OutputValidationFailed,
    Problem,
    ToolError,
    ran_data,
)
from ...expr.compile import needs_budget
from ...ir import Getter, Step, whole
from ...journal.past import load
from ...journal.protocol import Entry
from ...journal.sql.leases import boottime
from ...ops import Call
from ...tools.raw_result import RawResult, shortened
from ...values import NOT_JSON, Json, digest
from ..frame import RUN, Frame, NodeSlot, key_of, path_of
from ..offload import evaluated
from ..timeouts import Deadline, TimedOut, clock
from .calls import Direct, Lease, call_error, start_with
from .failures import inside

Send = Callable[[Frame, Any], Awaitable[Json]]


class PastFailure(ExecutionFailed):
    """A tool failure read back from the journal; its original exception is gone with its process."""

    def __init__(self, recorded: dict[str, Any], run_id: str) -> None:
        super().__init__(recorded["tool"], recorded["op"], recorded["message"])
        if "ranAt" in recorded:
            self.ran_at = tuple(f"{run_id}/{path}" for path in recorded["ranAt"])
        self.retryable, self.ran = bool(recorded["retryable"]), bool(recorded.get("ran"))
        self.kind, self.result = recorded["kind"], recorded.get("result")
        self.recorded_classes = tuple(recorded.get("classes", ()))


class PendingCommit:
    """The result of a call whose commit is in progress; awaiting it waits for the commit."""

    __slots__ = ("_value", "committed")

    def __init__(self, value: Json, committed: asyncio.Future[None]) -> None:
        self._value, self.committed = value, committed

    def __await__(self) -> Generator[Any, None, Json]:
        yield from self.committed
        return self._value

    def result(self) -> Json:
        """Return the value if the commit is done, without awaiting anything; raise if it failed."""
        self.committed.result()
        return self._value


def call(
    tool: str, target: Send | tuple[Direct, float], get: Getter, spot: NodeSlot, *,
    lease: Lease | None = None, defers_commit: bool = False,
) -> Step:  # fmt: skip
    """Compile a tool call whose result is committed before anything depends on it.

    `target` makes the call; or it is a direct call with its timeout in seconds. A `lease` delays the call until it is
    certain that this process owns the run. With `defers_commit`, the region waits for the commit. The journal gets a
    digest of the arguments; a recorded call with other arguments is a JournalConflict.
    """
    send, start, take, settle, failed, seconds = _parts_of(target)
    within = spot.node.policy.timeout
    slow = needs_budget(spot.node.op.args) if isinstance(spot.node.op, Call) else False

    async def run(frame: Frame) -> Json | PendingCommit:
        run_ = frame[RUN]
        log = run_.log
        args = await evaluated(get, frame) if slow else get(frame)
        path = path_of(frame, spot)
        mark = digest([tool, run_.redact(args) if run_.secrets else args])
        if log.past and (recorded := await _recorded(run_, frame, spot, path, mark)) is not None:
            return recorded.data
        if lease is not None and boottime() >= lease.until:
            await lease.renewed(run_.id)
        began = clock()
        started = run_.begins(spot.id, began)
        try:
            if send is not None:
                value = await send(frame, args)
            else:  # inline instead of in its own coroutine: durable runs spend most of their time here
                timer = Deadline(began + seconds, run_.watch)
                try:
                    raw = await start(args)
                    if timer.late or (run_.ending and timer.task.cancelling() > timer.before):
                        raise asyncio.CancelledError  # as in `in_time`
                except BaseException as exc:  # noqa: BLE001 - raised again below
                    error = call_error(exc, timer, failed, tool, seconds)
                    raise error from error.__cause__
                finally:
                    timer.over()
                value = take(raw)
                value = settle(raw) if value is NOT_JSON else value
        except ToolError as exc:
            await _record_failure(run_, spot, path, exc, mark, started)
            raise
        if within is not None and clock() - began >= within:
            raise TimedOut  # a result after the node's own timeout does not count
        # Commit the result before anything depends on it.
        entry = _call_entry(run_, spot, path, args, value, mark, started, started + clock() - began)
        value = entry.data
        try:
            committed = log.append(entry)
        except InvalidValue as exc:
            raise await _too_large(run_, spot, entry, exc) from exc
        if defers_commit and not committed.done():
            return PendingCommit(value, committed)
        await committed
        return value

    return Step(whole, run)


def _call_entry(
    run: Any, spot: NodeSlot, path: str, args: Any, value: Any, mark: str, started: float, ended: float
) -> Entry:
    """Return the entry of a finished call without secrets, and journal its undo before it."""
    entry = Entry(path, "call", spot.id, run.redact(value) if run.secrets else value, mark, started, ended)
    if spot.undo is not None:
        spot.undo.record(run, entry, args, value)
    return entry


def call_of(frame: FrameType) -> str | None:
    """Return the tool and the run if this is the frame of a call that `call` compiled; else None."""
    if frame.f_code.co_name != "run" or frame.f_code.co_filename != __file__:
        return None
    variables = frame.f_locals
    return f"{variables['tool']} of run {variables['run_'].id}" if "tool" in variables and "run_" in variables else None


async def _recorded(run_: Any, frame: Frame, spot: NodeSlot, path: str, mark: str) -> Entry | None:
    """Return the journal's entry of a call, or None.

    Raises:
        PastFailure: The recorded call failed.
        JournalConflict: The recorded call had other arguments.
    """
    past = run_.log.past
    if type(past) is not dict:
        await load(past, (path, "call"))
    recorded: Entry | None = past.get((path, "call")) or past.get((path, "call_failed"))
    if recorded is None:
        offer: Entry | None = past.get((key_of(frame, spot), "offer"))
        if offer is None or offer.digest != mark:
            return None
        # A fork takes the result of the run that it was forked from.
        await run_.log.append(Entry(path, "call", spot.id, offer.data, mark, offer.started, offer.ended))
        return offer
    if recorded.digest != mark:
        root, call_path = run_.outermost()  # a part of another run cannot be retried by itself
        error = JournalConflict(run_.id, path, f"the recorded call of {spot.tool} had other arguments than this one")
        raise error.with_remedy(Action.RETRY_FROM, run_id=root, node=call_path or spot.name)
    if recorded.kind == "call_failed":
        raise PastFailure(recorded.data, run_.id)
    return recorded


async def _record_failure(run: Any, spot: NodeSlot, path: str, exc: ToolError, mark: str, started: float) -> None:
    """Journal a failed call; a rejected result that the store refuses is replaced by a short text."""
    data = _call_failure_data(run, exc)
    try:
        await run.log.append(Entry(path, "call_failed", spot.id, data, mark, started, run.now()))
    except InvalidValue:
        data["result"] = {"text": shortened(data.get("result"))}
        await run.log.append(Entry(path, "call_failed", spot.id, data, mark, started, run.now()))


async def _too_large(run: Any, spot: NodeSlot, entry: Entry, cause: InvalidValue) -> OutputValidationFailed:
    """Journal a call whose result the store refuses, and return its failure: the tool has run all the same."""
    error = OutputValidationFailed(spot.tool or "", "validate_output", cause)
    error.result = RawResult(False, text=shortened(entry.data))
    error.retryable, error.ran = spot.repeatable, not spot.repeatable
    await _record_failure(run, spot, entry.path, error, entry.digest, entry.started)
    return error


def _call_failure_data(run: Any, failed: ToolError) -> dict[str, Json]:
    """Return a failed call as JSON for `PastFailure`, with its rejected result, so that a person can accept it."""
    data: dict[str, Json] = {
        "tool": failed.tool_id,
        "op": failed.op,
        "message": run.redact(failed.reason),
        "retryable": failed.retryable,
        "kind": type(failed).__name__,
    }
    if failed.classes:
        data["classes"] = list(failed.classes)
    if failed.ran:
        data["ran"] = True
        places = inside(run.id, failed)
        if places is not None:
            data["ranAt"] = list(places)
    if isinstance(failed, OutputValidationFailed) and failed.result is not None:
        data["result"] = run.redact(failed.result.to_dict())
    return data


def _parts_of(target: Send | tuple[Direct, float]) -> tuple[Any, ...]:
    if not isinstance(target, tuple):
        return target, None, None, None, None, None
    direct, seconds = target
    return None, start_with(direct), direct.take, direct.settle, direct.failed, seconds


def sleep(seconds: Getter, spot: NodeSlot) -> Step:
    """Compile a pause until an absolute time, which is journaled before the pause begins."""

    async def run(frame: Frame) -> None:
        run_ = frame[RUN]
        path = path_of(frame, spot)
        recorded = run_.log.past.get((path, "timer"))
        if recorded is None:
            due = run_.now() + seconds(frame)
            await run_.log.append(Entry(path, "timer", spot.id, due, "", run_.now(), due))
        else:
            due = recorded.data
        await wait_until(run_, due)

    return Step(whole, run)


def remember(kind: str, decide: Getter, spot: NodeSlot) -> Getter:
    """Wrap a decision so that it is journaled, without waiting: its inputs are journaled already."""

    def decided(frame: Frame) -> Json:
        run_ = frame[RUN]
        path = path_of(frame, spot)
        recorded = run_.log.past.get((path, kind))
        if recorded is not None:
            return recorded.data
        value = decide(frame)
        now = run_.now()
        run_.log.append(Entry(path, kind, spot.id, value, "", now, now))
        return value

    return decided


async def remember_attempt(
    run: Any, frame: Frame, spot: NodeSlot, failed: NodeFailed, due: float | None, took: float, handled: bool
) -> None:
    """Journal a failed attempt.

    Args:
        failed: The failure.
        due: Wall-clock seconds of the next attempt; None if there is none.
        took: Seconds that the attempt took.
        handled: Whether the error strategy takes the failure.
    """
    data = attempt_data(failed, due, handled)
    now = run.now()
    entry = Entry(path_of(frame, spot), "attempt", spot.id, data, "", now - took, now)
    if run.waits is not None:
        await run.waits.gave_up(entry)
    await run.log.append(entry)


def attempt_data(failed: NodeFailed, due: float | None, handled: bool) -> dict[str, Any]:
    """Return a failed attempt as JSON; `handled` is present only if an error strategy took the failure."""
    data = {**failure_to_json(failed), "due": due}
    return {**data, "handled": True} if handled else data


def attempt_of(entry: Entry) -> tuple[NodeFailed, float | None]:
    """Return the failure of an `attempt` entry, and when the next attempt is due."""
    return failure_from_json(entry.data), entry.data["due"]


def failure_to_json(failed: NodeFailed) -> dict[str, Any]:
    """Return a failure as JSON that `failure_from_json` reads."""
    return {
        "path": failed.path,
        "message": failed.message,
        "node": failed.node,
        "tool": failed.tool,
        "kind": failed.kind,
        "attempts": failed.attempts,
        "problems": [[p.path, p.message, p.keyword] for p in failed.problems],
        **({"classes": list(failed.classes)} if failed.classes else {}),
        **({} if failed.retryable else {"retryable": False}),
        **ran_data(failed, failed.path),
    }


def failure_from_json(data: Any) -> NodeFailed:
    """Return the failure that `failure_to_json` wrote."""
    return NodeFailed(
        data["path"],
        data["message"],
        node=data["node"],
        tool=data["tool"],
        kind=data["kind"],
        attempts=data["attempts"],
        problems=[Problem(path=p, message=m, keyword=k) for p, m, k in data.get("problems", ())],
        retryable=data.get("retryable", True),
        ran=data.get("ran", False),
        ran_at=data.get("ranAt"),
        classes=data.get("classes", ()),
    )


async def wait_until(run: Any, due: float) -> None:
    """Sleep until a wall-clock time, in seconds since the epoch."""
    if run.waits is not None:
        await run.waits.pause(due)
        return
    remaining = due - run.now()
    if remaining <= 0:
        await asyncio.sleep(0)  # an empty pause still lets other tasks run
    while remaining > 0:
        # Sleep in short pieces to notice when the clock is set forward or back.
        await asyncio.sleep(min(remaining, 60.0))
        remaining = due - run.now()
