"""The steps of a durable run: each is recorded in the journal, and a recorded step is never repeated.

When the program of a durable run is built, `site.CompileContext` puts these in the place of the plain steps:

- a tool call: `DurableCall`, whose result is an entry of the kind `call` or `call_failed`,
- a pause: `sleep`, whose end is an entry `timer`,
- a decision that time makes, such as an arm of a branch: `remember`,
- a failed attempt of a node with a policy: `remember_attempt`.

An entry is found again by the path of its node instance and its kind. `run.log.past` holds the entries of the earlier
executions of the run; a new run has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from types import FrameType
from typing import Any, Final, NamedTuple

from ...errors import (
    Action,
    ExecutionFailed,
    InvalidValue,
    JournalConflict,
    NodeFailed,
    OutputValidationFailed,
    Problem,
    ToolError,
    failure_data,
    trace_in,
)
from ...ir import Getter, Step, whole
from ...journal.past import load
from ...journal.protocol import Entry
from ...journal.sql.leases import boottime
from ...tools.call_errors import CANCELLED_ITSELF
from ...tools.raw_result import RawResult, shortened
from ...values import NOT_JSON, Json, digest
from ..frame import PARENT, RUN, Frame, NodeSlot, key_of, path_of
from ..offload import evaluated
from ..stack_trace import trace_of
from ..timeouts import Deadline, TimedOut, clock
from .calls import Direct, Lease, call_error, settled, start_with
from .failures import inside, needs_of, reason_of, retry_after_of

Send = Callable[[Frame, Any], Awaitable[Json]]
"""Makes a call with the arguments that it gets; the frame gives its idempotency key."""


class PastFailure(ExecutionFailed):
    """A tool failure read back from the journal; its original exception is gone with its process."""

    is_recorded = True

    def __init__(self, recorded: dict[str, Any], run_id: str) -> None:
        super().__init__(recorded["tool"], recorded["op"], recorded["message"])
        if "ranAt" in recorded:
            self.ran_at = tuple(f"{run_id}/{path}" for path in recorded["ranAt"])
        self.retryable, self.ran = bool(recorded["retryable"]), bool(recorded.get("ran"))
        self.kind, self.result = recorded["kind"], recorded.get("result")
        self.retry_after = recorded.get("retryAfter")
        self.recorded_classes, self.budgets = tuple(recorded.get("classes", ())), recorded.get("budgets", ())
        self.trace, self.needs = trace_in(recorded), recorded.get("needs")


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


class HandlerCall(NamedTuple):
    """A call of an async handler that the engine makes in parts, because that needs no further coroutine."""

    # The parts of the call.
    direct: Direct
    # Seconds for one call.
    timeout: float


_HELD_STOP: Final = 0.05  # seconds for a stop that a tool has held back


class DurableCall:
    """A tool call whose result is committed to the journal before anything depends on it."""

    # A recorded result is returned without a call. The journal keeps a digest of the arguments; a recorded call with
    # other arguments is a JournalConflict.

    __slots__ = (
        "_defers_commit", "_direct", "_ends_run", "_evaluates_long", "_failed", "_failure_ends_run", "_get_args",
        "_lease", "_node_timeout", "_runs_alone", "_send", "_start", "_take", "_timeout", "node_slot", "tool",
    )  # fmt: skip

    _send: Send | None
    # The rest is set only where `_send` is None.
    _start: Callable[[dict[str, Json]], Awaitable[Any]]
    _direct: Direct
    _take: Callable[[Any], Any]
    _failed: Callable[[BaseException], Exception]
    _timeout: float

    def __init__(
        self, tool: str, target: Send | HandlerCall, get_args: Getter, node_slot: NodeSlot, *,
        lease: Lease | None = None, defers_commit: bool = False, ends_run: bool = False, failure_ends_run: bool = False,
        runs_alone: bool = False,
    ) -> None:  # fmt: skip
        self.tool, self.node_slot, self._get_args = tool, node_slot, get_args
        self._lease, self._defers_commit = lease, defers_commit
        self._ends_run, self._failure_ends_run, self._runs_alone = ends_run, failure_ends_run, runs_alone
        self._node_timeout = node_slot.node.policy.timeout
        self._evaluates_long = node_slot.evaluates_long
        if isinstance(target, HandlerCall):
            # Copied here, so that `run` looks up one attribute for each part.
            direct = target.direct
            self._send, self._start, self._timeout = None, start_with(direct), target.timeout
            self._direct, self._take, self._failed = direct, direct.take, direct.failed
        else:
            self._send = target

    async def run(self, frame: Frame) -> Json | PendingCommit:
        """Return the recorded result of the call, or make the call and commit its result."""

        # One long function: each further coroutine would cost every call, and every suspension of its tool.
        run, node_slot = frame[RUN], self.node_slot
        log = run.log
        args = await evaluated(self._get_args, frame) if self._evaluates_long else self._get_args(frame)
        path = path_of(frame, node_slot)
        args_digest = digest([self.tool, run.redact(args) if run.secrets else args])
        # A run that is resumed takes the results of its earlier executions.
        if log.past and (recorded := await _recorded(run, frame, node_slot, path, args_digest)) is not None:
            return recorded.data
        if self._lease is not None and boottime() >= self._lease.until:
            await self._lease.renewed(run.id)
        if run.begun is not None:
            await run.begun.add(path, node_slot, self.tool)
        began = clock()
        started = run.begins(node_slot.id, began)
        try:
            if self._send is not None:
                value = await self._send(frame, args)
            else:  # `calls.in_time`, written out to save its coroutine
                timer = Deadline(began + self._timeout, run.deadline_timer)
                try:
                    raw = await self._start(args)
                    if timer.late or (run.ending and timer.task.cancelling() > timer.before):
                        raise asyncio.CancelledError  # the tool swallowed the cancellation, so its result is too late
                except BaseException as exc:  # noqa: BLE001 - raised again below
                    error = call_error(exc, timer, self._failed, self.tool, self._timeout)
                    raise error from error.__cause__
                finally:
                    timer.over()
                value = self._take(raw)
                value = settled(frame, node_slot, raw, self._direct) if value is NOT_JSON else value
        except ToolError as exc:
            committed = _append_failure(run, node_slot, path, exc, args_digest, started)
            if exc.__cause__ is not None and exc.__cause__.args == (CANCELLED_ITSELF,):
                # An interrupted tool held the loop, which has yet to hear of the stop that the run ends with.
                await asyncio.sleep(_HELD_STOP)
            if not (self._failure_ends_run and run.ends_with(committed)):
                await committed
            raise
        if self._node_timeout is not None and clock() - began >= self._node_timeout:
            raise TimedOut  # a result after the node's own timeout does not count
        entry = _call_entry(run, node_slot, path, args, value, args_digest, started, started + clock() - began)
        value = entry.data
        try:
            committed = log.append(entry)
        except InvalidValue as exc:
            raise await _too_large(run, node_slot, entry, exc) from exc
        if node_slot.host_slot is not None:
            frame[PARENT][node_slot.host_slot].ended(frame, entry)
        if self._defers_commit and not committed.done():
            return PendingCommit(value, committed)
        if self._ends_run and run.ends_with(committed):
            return value
        if self._runs_alone and (write_early := getattr(log, "write_early", None)) is not None:
            write_early()
        await committed
        return value


_CALL_CODE: Final = DurableCall.run.__code__


def describe_call(frame: FrameType) -> str | None:
    """Return the tool and the run of a durable call whose Python frame this is; None for any other frame."""

    # The heartbeat of a worker looks at the stack of a thread to name the tool that keeps the process busy.
    if frame.f_code is not _CALL_CODE:
        return None
    # The first variables of a frame are the parameters of its function.
    call, engine_frame = (frame.f_locals[name] for name in _CALL_CODE.co_varnames[:2])
    return f"{call.tool} of run {engine_frame[RUN].id}"


def _call_entry(
    run: Any, node_slot: NodeSlot, path: str, args: Any, value: Any, args_digest: str, started: float, ended: float
) -> Entry:
    """Return the entry of a finished call without secrets, and journal its undo before it."""
    if run.begun is not None:
        run.begun.remove(path)
    entry = Entry(path, "call", node_slot.id, run.redact(value) if run.secrets else value, args_digest, started, ended)
    if node_slot.undo is not None:
        node_slot.undo.record(run, entry, args, value)
    return entry


async def _recorded(run: Any, frame: Frame, node_slot: NodeSlot, path: str, args_digest: str) -> Entry | None:
    """Return the journal's entry of a call, or None."""
    past = run.log.past
    if type(past) is not dict:
        await load(past, (path, "call"))
    recorded: Entry | None = past.get((path, "call")) or past.get((path, "call_failed"))
    if recorded is None:
        offer: Entry | None = past.get((key_of(frame, node_slot), "offer"))
        if offer is None or offer.digest != args_digest:
            return None
        # A fork takes the result of the run that it was forked from.
        await run.log.append(Entry(path, "call", node_slot.id, offer.data, args_digest, offer.started, offer.ended))
        return offer
    if recorded.digest != args_digest:
        root, call_path = run.outermost()  # a part of another run cannot be retried by itself
        error = JournalConflict(
            run.id, path, f"the recorded call of {node_slot.tool} had other arguments than this one"
        )
        raise error.with_remedy(Action.RETRY_FROM, run_id=root, node=call_path or node_slot.name)
    if recorded.kind == "call_failed":
        raise PastFailure(recorded.data, run.id)
    return recorded


def _append_failure(
    run: Any, node_slot: NodeSlot, path: str, exc: ToolError, args_digest: str, started: float
) -> asyncio.Future[None]:
    """Journal a failed call; a rejected result that the store refuses is replaced by a short text."""
    if run.begun is not None:
        run.begun.remove(path)
    data = _call_failure_data(run, node_slot, exc)
    committed: asyncio.Future[None]
    try:
        committed = run.log.append(Entry(path, "call_failed", node_slot.id, data, args_digest, started, run.now()))
    except InvalidValue:
        data["result"] = {"text": shortened(data.get("result"))}
        committed = run.log.append(Entry(path, "call_failed", node_slot.id, data, args_digest, started, run.now()))
    return committed


async def _too_large(run: Any, node_slot: NodeSlot, entry: Entry, cause: InvalidValue) -> OutputValidationFailed:
    """Journal a call whose result the store refuses, and return its failure: the tool has run all the same."""
    error = OutputValidationFailed(node_slot.tool or "", "validate_output", cause)
    error.result = RawResult(False, text=shortened(entry.data))
    error.retryable, error.ran = node_slot.repeatable, not node_slot.repeatable
    await _append_failure(run, node_slot, entry.path, error, entry.digest, entry.started)
    return error


def _call_failure_data(run: Any, node_slot: NodeSlot, failure: ToolError) -> dict[str, Json]:
    """Return a failure call as JSON for `PastFailure`, with its rejected result, so that a person can accept it."""
    data: dict[str, Json] = {
        "tool": failure.tool_id,
        "op": failure.op,
        "message": reason_of(failure, node_slot, run),
        "retryable": failure.retryable,
        "kind": type(failure).__name__,
    }
    if failure.classes:
        data["classes"] = list(failure.classes)
    if (trace := trace_of(failure, run, node_slot.handler)) is not None:
        data |= trace.to_dict()
    if budgets := getattr(failure, "budgets", ()):
        data["budgets"] = list(budgets)
    if (seconds := retry_after_of(failure)) is not None:
        data["retryAfter"] = seconds
    if (needs := needs_of(failure)) is not None:
        data["needs"] = needs
    if failure.ran:
        data["ran"] = True
        places = inside(run.id, failure)
        if places is not None:
            data["ranAt"] = list(places)
    if isinstance(failure, OutputValidationFailed) and failure.result is not None:
        data["result"] = run.redact(failure.result.to_dict())
    return data


def sleep(seconds: Getter, node_slot: NodeSlot) -> Step:
    """Compile a pause until an absolute time, which is journaled before the pause begins."""

    async def pause(frame: Frame) -> None:
        run = frame[RUN]
        path = path_of(frame, node_slot)
        recorded = run.log.past.get((path, "timer"))
        if recorded is None:
            due = run.now() + seconds(frame)
            await run.log.append(Entry(path, "timer", node_slot.id, due, "", run.now(), due))
        else:
            due = recorded.data
        await wait_until(run, due)

    return Step(whole, pause)


def remember(kind: str, decide: Getter, node_slot: NodeSlot) -> Getter:
    """Wrap a decision so that a resumed run decides as before."""

    # The decision is journaled, but nothing waits for its commit, because it follows from steps that are journaled.

    def decide_once(frame: Frame) -> Json:
        run = frame[RUN]
        path = path_of(frame, node_slot)
        recorded = run.log.past.get((path, kind))
        if recorded is not None:
            return recorded.data
        value = decide(frame)
        now = run.now()
        run.log.append(Entry(path, kind, node_slot.id, value, "", now, now))
        return value

    return decide_once


class FailedAttempt(NamedTuple):
    """One failed attempt of a node."""

    # All times are wall-clock seconds.

    # The path of the node instance.
    path: str
    failure: NodeFailed
    # When the next attempt begins; None if there is none.
    due: float | None
    # When the attempt began.
    began: float
    ended: float
    # Whether the error strategy of the node takes the failure.
    handled: bool

    def to_entry(self, node: str) -> Entry:
        """Return the journal's entry of the attempt."""

        # Its data has `handled` only if it is true.
        data = {**failure_to_json(self.failure), "due": self.due}
        if self.handled:
            data["handled"] = True
        return Entry(self.path, "attempt", node, data, "", self.began, self.ended)


async def remember_attempt(run: Any, node_slot: NodeSlot, attempt: FailedAttempt) -> None:
    """Journal a failed attempt, so that a resumed run does not repeat it."""
    entry = attempt.to_entry(node_slot.id)
    if run.waits is not None:
        await run.waits.gave_up(entry)
    await run.log.append(entry)


class PastAttempt(NamedTuple):
    """A failed attempt as the journal holds it: the failure, and when the next attempt is due (None: never)."""

    failure: NodeFailed
    due: float | None


def attempt_from_entry(entry: Entry) -> PastAttempt:
    """Read an entry of the kind `attempt`."""
    return PastAttempt(failure_from_json(entry.data), entry.data["due"])


def failure_to_json(failure: NodeFailed) -> dict[str, Any]:
    """Return a failure as JSON that `failure_from_json` reads."""
    return {
        "path": failure.path,
        "message": failure.message,
        "node": failure.node,
        "tool": failure.tool,
        "kind": failure.kind,
        "attempts": failure.attempts,
        "problems": [[problem.path, problem.message, problem.keyword] for problem in failure.problems],
        **({"classes": list(failure.classes)} if failure.classes else {}),
        **({} if failure.retryable else {"retryable": False}),
        **failure_data(failure, failure.path),
    }


def failure_from_json(data: Any) -> NodeFailed:
    """Return the failure that `failure_to_json` wrote."""
    failed = NodeFailed(
        data["path"],
        data["message"],
        node=data["node"],
        tool=data["tool"],
        kind=data["kind"],
        attempts=data["attempts"],
        problems=[
            Problem(path=path, message=message, keyword=keyword) for path, message, keyword in data.get("problems", ())
        ],
        retryable=data.get("retryable", True),
        ran=data.get("ran", False),
        ran_at=data.get("ranAt"),
        classes=data.get("classes", ()),
        budgets=data.get("budgets", ()),
        trace=trace_in(data),
        needs=data.get("needs"),
    )
    failed.steps = tuple(data.get("steps", ()))
    return failed


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
