"""Calls of coroutine handlers: one closure leads from a frame to the handler's own coroutine.

Runs spend most of their time here, so the commonest shapes (nothing to check, one or two arguments) are written out by
hand. A handler may change its arguments, so lists and objects are copied for it.

The protocols describe where calls go: to the toolbox's Runner, to an executor of the user, or to the queue of the
workers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import FunctionType, MethodType
from typing import Any, Protocol, TypeAlias

from ...errors import ToolTimeout, is_interruption
from ...ir import Getter
from ...tools.call_errors import CANCELLED_ITSELF
from ...values import NOT_JSON, Json, fresh
from ..frame import RUN, Frame, NodeSlot, path_of
from ..offload import evaluated
from ..timeouts import Deadline, clock, deadline_of_task


class Direct(Protocol):
    """The call of an async local handler in parts, which the engine runs in its own loop."""

    # If the arguments do not pass `fits`, `check` refuses or repairs them. Then `raw = await handler(**args)`. The
    # result is `take(raw)`, or `settle(raw)` if that is NOT_JSON. `failed(error)` makes the failure of an exception.
    # The engine keeps the timeout.

    @property
    def handler(self) -> Callable[..., Awaitable[Any]]:
        """The coroutine function of the tool."""
        ...

    @property
    def fits(self) -> Callable[[dict[str, Json]], bool] | None:
        """Returns True for arguments that need no check; None if every call needs one."""
        ...

    @property
    def check(self) -> Callable[[dict[str, Json]], dict[str, Json]] | None:
        """Returns arguments that fit, or raises; None if there is nothing to check."""
        ...

    @property
    def take(self) -> Callable[[Any], Any]:
        """Returns a plain result as a JSON value, or NOT_JSON."""
        ...

    @property
    def settle(self) -> Callable[[Any], tuple[Json, tuple[str, ...]]]:
        """Returns any other result as a JSON value with its warnings, or raises."""
        ...

    @property
    def failed(self) -> Callable[[BaseException], Exception]:
        """Returns the ToolError of an exception."""
        ...


class Bound(Protocol):
    """A tool that is resolved for a program."""

    @property
    def direct(self) -> Direct | None:
        """The call in parts, for an async local handler; None for any other tool."""
        ...

    @property
    def timeout(self) -> float | None:
        """Seconds for one call; None for no limit."""
        ...

    @property
    def call(self) -> Callable[..., Awaitable[Json]]:
        """Makes a whole call: `await call(args, key)` validates, dispatches and returns the result."""
        ...


class Lease(Protocol):
    """Says until when a process is certain to own its runs."""

    @property
    def until(self) -> float:
        """A reading of the clock `boottime`; a call may begin before it."""
        ...

    async def renewed(self, run_id: str, /) -> None:
        """Wait until the process is certain again."""
        ...


class Caller(Protocol):
    """Resolves tools."""

    # A caller that keeps something per run, such as a child process, may have `began(run_id)` and `async
    # ended(run_id)`. The engine calls them when a run begins to execute in this process, and when it has ended here in
    # any way. They must not raise. Before them it awaits `begins(row, store)`, which may refuse the run, and before it
    # records a success it calls `ends()`, which may refuse that. The idempotency keys of a run begin with its id and a
    # slash; the id itself may contain slashes.

    @property
    def version(self) -> int:
        """A number that changes when a tool may be another one than when it was bound."""
        ...

    def bind(self, tool_id: str, /) -> Any:
        """Resolve a tool."""
        ...


Start: TypeAlias = Callable[[Frame], Awaitable[Any]]
Args: TypeAlias = dict[str, Json]
Fields: TypeAlias = Sequence[tuple[str, Getter]]


def start_with(direct: Direct) -> Callable[[Args], Awaitable[Any]]:
    """Return a function from arguments to the handler's coroutine; it checks arguments that do not fit."""
    handler, fits, check = direct.handler, direct.fits, direct.check

    def start(args: Args) -> Awaitable[Any]:
        if check is not None and (fits is None or not fits(args)):
            args = check(args)
        for item in args.values():
            if type(item) is dict or type(item) is list:
                return handler(**fresh(args))
        return handler(**args)

    return start


def start_from(direct: Direct, fields: Fields) -> Start:
    """Return a function from a frame to the handler's coroutine, with one getter per argument."""
    gets = _in_places(direct.handler, dict(fields))
    if direct.check is not None:
        return _start_checked(direct, fields, gets)
    if gets is not None:
        return _start_by_place(direct.handler, [get for _, get in gets])
    start = start_with(direct)
    if len(fields) == 1:
        ((name, get),) = fields
        return lambda frame: start({name: get(frame)})
    pairs = tuple(fields)
    return lambda frame: start({name: get(frame) for name, get in pairs})


def _start_checked(direct: Direct, fields: Fields, gets: Fields | None) -> Start:
    handler, fits, check = direct.handler, direct.fits or _never, direct.check
    assert check is not None
    by_place, pairs = gets is not None, tuple(gets or fields)
    name, get = pairs[0] if len(pairs) == 1 else ("", None)

    def start(frame: Frame) -> Awaitable[Any]:
        args = {name: get(frame)} if get is not None else {name: get(frame) for name, get in pairs}
        if not fits(args):
            args = check(args)
        for value in args.values():
            if type(value) is dict or type(value) is list:
                args = fresh(args)
                break
        return handler(*args.values()) if by_place else handler(**args)

    return start


def _never(args: Args) -> bool:
    return False


def _in_places(handler: Callable[..., Any], fields: dict[str, Getter]) -> Fields | None:
    """Return the fields in the order of the handler's first parameters; None if they differ from these."""

    # A call with positional arguments takes half the time of one with keywords.
    function, skipped = (handler.__func__, 1) if type(handler) is MethodType else (handler, 0)
    if type(function) is not FunctionType:
        return None
    code = function.__code__
    names = code.co_varnames[skipped : code.co_argcount][: len(fields)]
    if code.co_posonlyargcount > skipped or fields.keys() != set(names):
        return None
    return [(name, fields[name]) for name in names]


def _start_by_place(handler: Callable[..., Awaitable[Any]], gets: list[Getter]) -> Start:
    # One and two arguments are written out, because a loop over them would cost as much as the call.
    if len(gets) == 1:
        (get,) = gets

        def start_one(frame: Frame) -> Awaitable[Any]:
            value = get(frame)
            if type(value) is dict or type(value) is list:
                value = fresh(value)
            return handler(value)

        return start_one
    if len(gets) == 2:
        get0, get1 = gets

        def start_two(frame: Frame) -> Awaitable[Any]:
            first, second = get0(frame), get1(frame)
            if type(first) is dict or type(first) is list:
                first = fresh(first)
            if type(second) is dict or type(second) is list:
                second = fresh(second)
            return handler(first, second)

        return start_two
    return lambda frame: handler(*fresh([get(frame) for get in gets]))


def settled(frame: Frame, node_slot: NodeSlot, raw: Any, direct: Direct | None = None) -> Json:
    """Return the result of a direct call that the quick path did not take; its run keeps the warnings."""
    value, warnings = (direct or node_slot.direct).settle(raw)
    if warnings:
        frame[RUN].warn(path_of(frame, node_slot), node_slot.id, node_slot.tool or "", warnings)
    return value


def plain(direct: Direct, get: Getter, node_slot: NodeSlot) -> Start:
    """Return a direct call as one coroutine without a timeout, for wrappers around it."""
    is_slow = node_slot.evaluates_long
    start, take, failed = start_with(direct), direct.take, direct.failed

    async def run(frame: Frame) -> Json:
        args = await evaluated(get, frame) if is_slow else get(frame)
        try:
            raw = await start(args)
        except asyncio.CancelledError:
            task_deadline = deadline_of_task()
            if task_deadline.task.cancelling() > task_deadline.before:
                raise
            raise failed(RuntimeError(CANCELLED_ITSELF)) from None
        except BaseException as exc:
            if is_interruption(exc):
                raise
            error = failed(exc)
            raise error from error.__cause__
        value = take(raw)
        return settled(frame, node_slot, raw, direct) if value is NOT_JSON else value

    return run


def in_time(direct: Direct, get: Getter, node_slot: NodeSlot, seconds: float) -> Start:
    """Return a direct call with a timeout as one coroutine: `plain` with an exact deadline."""
    start, take, failed, tool = start_with(direct), direct.take, direct.failed, node_slot.tool or ""
    is_slow = node_slot.evaluates_long

    async def run(frame: Frame) -> Json:
        args = await evaluated(get, frame) if is_slow else get(frame)
        timer = Deadline(clock() + seconds)
        try:
            raw = await start(args)
            if timer.late:
                raise asyncio.CancelledError  # the tool swallowed the cancellation, so its result is too late
        except BaseException as exc:  # noqa: BLE001 - raised again below
            error = call_error(exc, timer, failed, tool, seconds)
            raise error from error.__cause__
        finally:
            timer.over()
        value = take(raw)
        return settled(frame, node_slot, raw, direct) if value is NOT_JSON else value

    return run


def call_error(
    exc: BaseException, timer: Deadline, failed: Callable[[BaseException], Exception], tool: str, seconds: float
) -> BaseException:
    """Return the exception to raise for an exception of a handler, whose timeout was `seconds`."""
    if isinstance(exc, asyncio.CancelledError):
        if not timer.alone():
            return exc  # the cancellation came from outside, at least partly
        return ToolTimeout(tool, seconds) if timer.late else failed(RuntimeError(CANCELLED_ITSELF))
    return exc if is_interruption(exc) else failed(exc)
