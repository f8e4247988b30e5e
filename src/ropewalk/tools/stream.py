"""A call as a stream: events in order, and always a `done` or an `error` at the end.

Arguments are checked first; that, and a backend without streams, raises at the first step of the
iteration. A later failure is an `error` event. `timeout` is the longest wait for one event.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Any, TypeAlias

from ..errors import InvalidValue, StreamNotSupported, ToolError, ValidationFailed, is_interruption, message_of
from ..values import check_json, fresh
from .backends.local import aclose, stream_failure
from .backends.route import Args, Route
from .call_errors import Failures
from .tool import STREAM_KINDS, StreamEvent

Stream: TypeAlias = Callable[[Args, str | None, float | None], AsyncGenerator[StreamEvent, None]]


def streamer(route: Route, check_in: Callable[[Any], Any] | None, limit: float, fail: Failures) -> Stream:
    """Make the stream of one bound tool."""

    # `limit`: The timeout in seconds, or None.

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
        if is_interruption(error):
            raise
        raise fail.executing(error, "stream") from error
    if source is None:
        raise fail.no_stream("streaming not supported")
    return source


async def _events(source: Any, seconds: float, fail: Failures) -> AsyncGenerator[StreamEvent, None]:
    iterator, has_begun = aiter(source), False
    while True:
        scope = asyncio.timeout(None if seconds == math.inf else seconds)
        try:
            async with scope:
                event = _to_event(await anext(iterator), fail)
        except StopAsyncIteration:
            yield StreamEvent("done", fail.tool_id)
            return
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # becomes the last event, with the exception as its cause
            if is_interruption(error):
                raise
            is_timeout = isinstance(error, TimeoutError) and scope.expired()
            failure = fail.timed_out(seconds, error) if is_timeout else fail.executing(error, "stream")
            if isinstance(failure, ValidationFailed) and not has_begun:
                raise failure from error  # the types of its parameters refuse the arguments
            yield _error_event(failure, fail)
            return
        has_begun = True
        yield event
        if event.kind in ("done", "error"):
            return


def _to_event(item: Any, fail: Failures) -> StreamEvent:
    """Convert an item of the source to a checked event; anything but an event becomes a chunk."""
    if not isinstance(item, StreamEvent):
        return StreamEvent("chunk", fail.tool_id, _check_data(item))
    if item.kind not in STREAM_KINDS:
        raise InvalidValue("event.kind", f"{item.kind!r} is not one of {', '.join(sorted(STREAM_KINDS))}")
    event = item if item.tool_id else replace(item, tool_id=fail.tool_id)
    _check_data(event.data)
    if event.kind == "error" and not isinstance(event.error, ToolError):
        return replace(event, error=fail.executing(stream_failure(event), "stream"))
    return event


def _check_data(data: Any) -> Any:
    return check_json(data, "event.data")


def _error_event(failure: ToolError, fail: Failures) -> StreamEvent:
    return StreamEvent("error", fail.tool_id, {"message": message_of(failure)}, failure)
