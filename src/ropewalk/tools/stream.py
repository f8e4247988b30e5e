"""A call as a stream: events in order, and always a `done` or an `error` at the end.

Arguments are checked first; that, and a backend without streams, raises at the first step of the
iteration. What fails later is an `error` event. `timeout` is the longest wait for one event.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Any, TypeAlias

from ..errors import InvalidValue, StreamNotSupported, ToolError, ValidationFailed
from ..errors.foreign import passes
from ..values import check_json, fresh
from .failures import Failures
from .local import aclose, failure_of
from .result import STREAM_KINDS, StreamEvent
from .route import Args, Route

Stream: TypeAlias = Callable[[Args, str | None, float | None], AsyncGenerator[StreamEvent, None]]


def streamer(route: Route, check_in: Callable[[Any], Any] | None, limit: float, fail: Failures) -> Stream:
    """The stream of one bound tool: (args, idempotency key, seconds) -> events."""

    async def stream(args: Args, key: str | None, timeout: float | None) -> AsyncGenerator[StreamEvent, None]:
        if check_in is not None:
            args = check_in(args)
        source = await _open(route, args, key, fail)
        seconds = limit if timeout is None else timeout
        try:
            async for event in _events(source, seconds, fail):
                yield event
        finally:
            await aclose(source)

    return stream


async def _open(route: Route, args: Args, key: str | None, fail: Failures) -> Any:
    if route.open is None:
        raise fail.no_stream("streaming not supported")
    try:
        source = await route.open(fresh(args), key)
    except StreamNotSupported as error:
        raise fail.no_stream(error) from error
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        if passes(error):
            raise
        raise fail.executing(error, "stream") from error
    if source is None:
        raise fail.no_stream("streaming not supported")
    return source


async def _events(source: Any, seconds: float, fail: Failures) -> AsyncGenerator[StreamEvent, None]:
    iterator, begun = aiter(source), False
    while True:
        scope = asyncio.timeout(None if seconds == math.inf else seconds)
        try:
            async with scope:
                event = _stamped(await anext(iterator), fail)
        except StopAsyncIteration:
            yield StreamEvent("done", fail.tool_id)
            return
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # it leaves as the last event, the cause chained
            if passes(error):
                raise
            late = isinstance(error, TimeoutError) and scope.expired()
            failure = fail.no_answer(seconds) if late else fail.executing(error, "stream")
            if isinstance(failure, ValidationFailed) and not begun:
                raise failure from error  # it is the types of its arguments that refuse them
            yield _ended(failure, fail)
            return
        begun = True
        yield event
        if event.kind in ("done", "error"):
            return


def _stamped(given: Any, fail: Failures) -> StreamEvent:
    """An event of ours from what the source sent: an event, or the data of a chunk."""
    if not isinstance(given, StreamEvent):
        return StreamEvent("chunk", fail.tool_id, _checked(given))
    if given.kind not in STREAM_KINDS:
        raise InvalidValue("event.kind", f"{given.kind!r} is not one of {', '.join(sorted(STREAM_KINDS))}")
    event = given if given.tool_id else replace(given, tool_id=fail.tool_id)
    _checked(event.data)
    if event.kind == "error" and not isinstance(event.error, ToolError):
        return replace(event, error=fail.executing(failure_of(event), "stream"))
    return event


def _checked(data: Any) -> Any:
    return check_json(data, "event.data")


def _ended(failure: ToolError, fail: Failures) -> StreamEvent:
    return StreamEvent("error", fail.tool_id, {"message": str(failure)}, failure)
