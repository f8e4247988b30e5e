"""The steps of a run that is journaled: what was recorded is read back, never done again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from types import FrameType
from typing import Any

from ..errors import (
    ExecutionFailed,
    InvalidValue,
    JournalConflict,
    NodeFailed,
    OutputValidationFailed,
    Problem,
    ToolError,
)
from ..expr.compile import needs_budget
from ..ir import Getter, Step, whole
from ..journal.boottime import boottime
from ..journal.journal import Entry
from ..journal.past import load
from ..ops import Call
from ..tools.raw import RawResult, shortened
from ..values import NOT_JSON, Json, digest
from .caller import Direct, Lease
from .direct import raised, start_with
from .frame import RUN, Frame, Spot, key_of, path_of
from .lane import Deadline, Late, clock
from .offload import evaluated

Send = Callable[[Frame, Any], Awaitable[Json]]


class PastFailure(ExecutionFailed):
    """A tool failure read back from the journal; its original exception is gone with its process."""

    def __init__(self, recorded: dict[str, Any]) -> None:
        super().__init__(recorded["tool"], recorded["op"], recorded["message"])
        self.retryable, self.ran = bool(recorded["retryable"]), bool(recorded.get("ran"))
        self.kind, self.result = recorded["kind"], recorded.get("result")


class Pledge:
    """The result of a call that is about to be committed: awaited, it is the value once it is."""

    __slots__ = ("_value", "committed")

    def __init__(self, value: Json, committed: asyncio.Future[None]) -> None:
        self._value, self.committed = value, committed

    def __await__(self) -> Generator[Any, None, Json]:
        yield from self.committed
        return self._value

    def kept(self) -> Json:
        """The value, where the commit is done, as for most of a batch: nothing is awaited for it."""
        self.committed.result()
        return self._value


def call(
    tool: str, made: Send | tuple[Direct, float], get: Getter, spot: Spot, *,
    lease: Lease | None = None, pledges: bool = False,
) -> Step:  # fmt: skip
    """A tool call: its result is committed before anything depends on it. `made` makes the call, or is a direct one
    with its timeout. With a `lease`, none begins while it may be that the run has been given to another process. One
    that `pledges` leaves it to its region to wait for the commit. Of the arguments only a digest is kept, with secrets
    as references. A recorded call with other ones is a JournalConflict.
    """
    send, start, take, settle, failed, seconds = _parts(made)
    within = spot.node.policy.timeout
    slow = needs_budget(spot.node.op.args) if isinstance(spot.node.op, Call) else False

    async def run(frame: Frame) -> Json | Pledge:
        run_ = frame[RUN]
        log = run_.log
        args = await evaluated(get, frame) if slow else get(frame)
        path = path_of(frame, spot)
        mark = digest([tool, run_.redact(args) if run_.secrets else args])
        if log.past and (known := await _recorded(run_, frame, spot, path, mark)) is not None:
            return known.data
        if lease is not None and boottime() >= lease.until:
            await lease.renewed(run_.id)
        began = clock()
        started = run_.begins(spot.id, began)
        try:
            if send is not None:
                value = await send(frame, args)
            else:  # not in a coroutine of its own: most of what a durable run does is this
                timer = Deadline(began + seconds, run_.watch)
                try:
                    raw = await start(args)
                    if timer.late or (run_.ending and timer.task.cancelling() > timer.before):
                        raise asyncio.CancelledError  # as in `in_time`
                except BaseException as exc:  # noqa: BLE001 - it goes on
                    error = raised(exc, timer, failed, tool, seconds)
                    raise error from error.__cause__
                finally:
                    timer.over()
                value = take(raw)
                value = settle(raw) if value is NOT_JSON else value
        except ToolError as exc:
            await _record_failure(run_, spot, path, exc, mark, started)
            raise
        if within is not None and clock() - began >= within:
            raise Late  # what comes after the node's own time is no result
        value = run_.redact(value) if run_.secrets else value
        entry = Entry(path, "call", spot.id, value, mark, started, started + clock() - began)
        try:
            committed = log.append(entry)
        except InvalidValue as exc:
            raise await _too_large(run_, spot, entry, exc) from exc
        if pledges and not committed.done():
            return Pledge(value, committed)
        await committed
        return value

    return Step(whole, run)


def call_of(frame: FrameType) -> str | None:
    """Return the tool and the run of a call made by `call`, if this is its frame."""
    if frame.f_code.co_name != "run" or frame.f_code.co_filename != __file__:
        return None
    found = frame.f_locals
    return f"{found['tool']} of run {found['run_'].id}" if "tool" in found and "run_" in found else None


async def _recorded(run_: Any, frame: Frame, spot: Spot, path: str, mark: str) -> Entry | None:
    """What the journal holds of this call. Raises its failure, and where it was another call."""
    past = run_.log.past
    if type(past) is not dict:
        await load(past, (path, "call"))
    known: Entry | None = past.get((path, "call")) or past.get((path, "call_failed"))
    if known is None:
        offer: Entry | None = past.get((key_of(frame, spot), "offer"))
        if offer is None or offer.digest != mark:
            return None
        # A fork takes what the other run has.
        await run_.log.append(Entry(path, "call", spot.id, offer.data, mark, offer.started, offer.ended))
        return offer
    if known.digest != mark:
        root, call_path = run_.outermost()  # a part of another run cannot be retried by itself
        again = f"ropewalk runs retry {root} --from {call_path or spot.name}"
        said = f"the journal holds a call of {spot.tool} with other arguments than now; to call it again: {again}"
        raise JournalConflict(run_.id, path, said)
    if known.kind == "call_failed":
        raise PastFailure(known.data)
    return known


async def _record_failure(run: Any, spot: Spot, path: str, exc: ToolError, mark: str, started: float) -> None:
    """Journal a failed call; a rejected result that no store takes is kept as a short text."""
    data = _as_data(run, exc)
    try:
        await run.log.append(Entry(path, "call_failed", spot.id, data, mark, started, run.now()))
    except InvalidValue:
        data["result"] = {"text": shortened(data.get("result"))}
        await run.log.append(Entry(path, "call_failed", spot.id, data, mark, started, run.now()))


async def _too_large(run: Any, spot: Spot, entry: Entry, cause: InvalidValue) -> OutputValidationFailed:
    """Journal a call whose result the store does not take, and return its failure: the tool ran all the same."""
    error = OutputValidationFailed(spot.tool or "", "validate_output", cause)
    error.result = RawResult(False, text=shortened(entry.data))
    error.retryable, error.ran = spot.repeatable, not spot.repeatable
    await _record_failure(run, spot, entry.path, error, entry.digest, entry.started)
    return error


def _as_data(run: Any, failed: ToolError) -> dict[str, Json]:
    """Write down a failure for `PastFailure`; a rejected result is kept, so that a person can accept it."""
    data: dict[str, Json] = {
        "tool": failed.tool_id,
        "op": failed.op,
        "message": run.redact(failed.reason),
        "retryable": failed.retryable,
        "kind": type(failed).__name__,
    }
    if failed.ran:
        data["ran"] = True
    if isinstance(failed, OutputValidationFailed) and failed.result is not None:
        data["result"] = run.redact(failed.result.to_dict())
    return data


def _parts(made: Send | tuple[Direct, float]) -> tuple[Any, ...]:
    if not isinstance(made, tuple):
        return made, None, None, None, None, None
    called, seconds = made
    return None, start_with(called), called.take, called.settle, called.failed, seconds


def sleep(seconds: Getter, spot: Spot) -> Step:
    """A pause until an absolute time that is journaled before the waiting begins."""

    async def run(frame: Frame) -> None:
        run_ = frame[RUN]
        path = path_of(frame, spot)
        known = run_.log.past.get((path, "timer"))
        if known is None:
            due = run_.now() + seconds(frame)
            await run_.log.append(Entry(path, "timer", spot.id, due, "", run_.now(), due))
        else:
            due = known.data
        await wait_until(run_, due)

    return Step(whole, run)


def remember(kind: str, decide: Getter, spot: Spot) -> Getter:
    """A decision, journaled without waiting: what it was made from is journaled already."""

    def decided(frame: Frame) -> Json:
        run_ = frame[RUN]
        path = path_of(frame, spot)
        known = run_.log.past.get((path, kind))
        if known is not None:
            return known.data
        value = decide(frame)
        now = run_.now()
        run_.log.append(Entry(path, kind, spot.id, value, "", now, now))
        return value

    return decided


async def remember_attempt(
    run: Any, frame: Frame, spot: Spot, failed: NodeFailed, due: float | None, took: float, handled: bool
) -> None:
    """Journal that an attempt failed after so many seconds, and when the next one is due, or that it was handled."""
    data = attempt_data(failed, due, handled)
    now = run.now()
    entry = Entry(path_of(frame, spot), "attempt", spot.id, data, "", now - took, now)
    if run.waits is not None:
        await run.waits.gave_up(entry)
    await run.log.append(entry)


def attempt_data(failed: NodeFailed, due: float | None, handled: bool) -> dict[str, Any]:
    """A failed attempt as JSON. `handled` is there only where a fallback, `onError` or skip took over."""
    data = {**said_of(failed), "due": due}
    return {**data, "handled": True} if handled else data


def attempt_of(entry: Entry) -> tuple[NodeFailed, float | None]:
    """What `remember_attempt` wrote."""
    return failed_of(entry.data), entry.data["due"]


def said_of(failed: NodeFailed) -> dict[str, Any]:
    """A failure as JSON."""
    return {
        "path": failed.path,
        "message": failed.message,
        "node": failed.node,
        "tool": failed.tool,
        "kind": failed.kind,
        "attempts": failed.attempts,
        "problems": [[p.path, p.message, p.keyword] for p in failed.problems],
        **({} if failed.retryable else {"retryable": False}),
        **({"ran": True} if failed.ran else {}),
    }


def failed_of(said: Any) -> NodeFailed:
    """What `said_of` wrote."""
    problems = tuple(Problem(path=p, message=m, keyword=k) for p, m, k in said.get("problems", ()))
    given = {key: said[key] for key in ("node", "tool", "kind", "attempts")}
    more = {"retryable": said.get("retryable", True), "ran": said.get("ran", False)}
    return NodeFailed(said["path"], said["message"], problems=problems, **given, **more)


async def wait_until(run: Any, due: float) -> None:
    """Sleep until the wall-clock time `due`."""
    if run.waits is not None:
        await run.waits.pause(due)
        return
    left = due - run.now()
    if left <= 0:
        await asyncio.sleep(0)  # a pause of nothing is a turn for others all the same
    while left > 0:
        # In pieces, so that a clock that is set forward or back is noticed.
        await asyncio.sleep(min(left, 60.0))
        left = due - run.now()
