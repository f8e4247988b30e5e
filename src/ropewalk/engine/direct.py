"""Calls of coroutine handlers: from a frame to the handler's own coroutine in one closure.

Most of what a run does is this, so the commonest shapes (nothing to check, one or two arguments)
are written out by hand. A handler may change what it gets: lists and objects are copied for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import FunctionType, MethodType
from typing import Any, TypeAlias

from ..errors import ToolTimeout
from ..errors.foreign import passes
from ..ir import Getter
from ..values import NOT_JSON, Json, fresh
from .caller import Direct
from .frame import Frame
from .lane import Deadline, clock, lane_of_task

Start: TypeAlias = Callable[[Frame], Awaitable[Any]]
Args: TypeAlias = dict[str, Json]
Fields: TypeAlias = Sequence[tuple[str, Getter]]


def start_with(direct: Direct) -> Callable[[Args], Awaitable[Any]]:
    """From arguments to the handler's coroutine; from what `check` makes of those that do not fit."""
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
    """From a frame to the handler's coroutine, each argument by its own getter."""
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
    """The fields in the order of the handler's parameters, where they are its first ones: a call
    by place takes half the time of one by name."""
    function, skipped = (handler.__func__, 1) if type(handler) is MethodType else (handler, 0)
    if type(function) is not FunctionType:
        return None
    code = function.__code__
    names = code.co_varnames[skipped : code.co_argcount][: len(fields)]
    if code.co_posonlyargcount > skipped or fields.keys() != set(names):
        return None
    return [(name, fields[name]) for name in names]


def _start_by_place(handler: Callable[..., Awaitable[Any]], gets: list[Getter]) -> Start:
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


def plain(direct: Direct) -> Callable[[Args], Awaitable[Json]]:
    """A direct call as one coroutine, for wrappers around it; without a timeout."""
    start, take, settle, failed = start_with(direct), direct.take, direct.settle, direct.failed

    async def run(args: Args) -> Json:
        try:
            raw = await start(args)
        except asyncio.CancelledError:
            lane = lane_of_task()
            if lane.task.cancelling() > lane.before:
                raise
            raise failed(RuntimeError("it was cancelled from inside")) from None
        except BaseException as exc:
            if passes(exc):
                raise
            error = failed(exc)
            raise error from error.__cause__
        value = take(raw)
        return settle(raw) if value is NOT_JSON else value

    return run


def in_time(direct: Direct, seconds: float, tool: str) -> Callable[[Args], Awaitable[Json]]:
    """`timed(plain(direct))` in one coroutine."""
    start, take, settle, failed = start_with(direct), direct.take, direct.settle, direct.failed

    async def run(args: Args) -> Json:
        timer = Deadline(clock() + seconds)
        try:
            raw = await start(args)
            if timer.late:
                raise asyncio.CancelledError  # the tool kept its own to itself: what it gives comes too late
        except BaseException as exc:  # noqa: BLE001 - it goes on
            error = raised(exc, timer, failed, tool, seconds)
            raise error from error.__cause__
        finally:
            timer.over()
        value = take(raw)
        return settle(raw) if value is NOT_JSON else value

    return run


def raised(
    exc: BaseException, timer: Deadline, failed: Callable[[BaseException], Exception], tool: str, seconds: float
) -> BaseException:
    """What is said of what a handler has raised that had this long."""
    if isinstance(exc, asyncio.CancelledError):
        if not timer.alone():
            return exc  # not ours, or not ours alone
        return ToolTimeout(tool, seconds) if timer.late else failed(RuntimeError("it was cancelled from inside"))
    return exc if passes(exc) else failed(exc)  # whatever a tool raises is its failure
