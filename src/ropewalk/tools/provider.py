"""A generic JSON-over-HTTP provider: `POST <url>/<tool id>` with the arguments, a JSON answer.

Streams come as server-sent events or as JSON lines. A line or event that is an object with a `kind` of
progress, chunk, done or error is that event; anything else is the data of a chunk.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final
from urllib.parse import quote

import orjson

from ..values import Json, parsed
from .http import Http, HttpFailure, Request
from .result import STREAM_KINDS, StreamEvent

_SSE: Final = "text/event-stream"
_WHOLE: Final = "application/json"


class HttpProvider:
    """Calls the tools of one provider; safe for concurrent use."""

    def __init__(self, url: str, headers: Mapping[str, str], *, place: str) -> None:
        self._base, mark, query = url.partition("?")
        self._query = mark + query
        self._http = Http(headers, place=place, base=self._base)

    async def call_tool(self, tool_id: str, args: dict[str, Json], *, key: str | None = None) -> Json:
        """The JSON answer of one call; HttpFailure quotes an answer that is an error."""
        return await self._http.fetch(self._request(tool_id, args, key, "application/json"))

    async def call_tool_stream(self, tool_id: str, args: dict[str, Json], *, key: str | None = None) -> Any:
        """The events of one call, or None when the answer is neither of the two kinds of stream."""
        request = self._request(tool_id, args, key, "text/event-stream, application/x-ndjson")
        return await open_events(self._http, request)

    async def close(self) -> None:
        await self._http.close()

    def _request(self, tool_id: str, args: dict[str, Json], key: str | None, accept: str) -> Request:
        url = f"{self._base}/{quote(tool_id, safe='')}{self._query}"
        return Request(method="POST", url=url, headers={"Accept": accept}, json=args, has_json=True, key=key)


async def open_events(http: Http, request: Request) -> AsyncGenerator[StreamEvent, None] | None:
    """Send a request and give its answer as events; raises before the first one when it is refused."""
    async with AsyncExitStack() as stack:
        kind, lines = await stack.enter_async_context(http.lines(request))
        if kind == _SSE:
            return _until_closed(_sse(lines), stack.pop_all())
        if "json" in kind:
            return _until_closed(_json_lines(lines, whole=kind == _WHOLE), stack.pop_all())
    return None


async def _until_closed(
    events: AsyncGenerator[StreamEvent, None], stack: AsyncExitStack
) -> AsyncGenerator[StreamEvent, None]:
    async with stack:
        async for event in events:
            yield event


async def _json_lines(lines: AsyncIterator[str], *, whole: bool) -> AsyncGenerator[StreamEvent, None]:
    """One event per line; a `whole` JSON document may also spread over several."""
    pending = ""
    async for line in lines:
        pending = f"{pending}\n{line}" if pending else line.strip()
        if not pending:
            continue
        try:
            value = parsed(pending)
        except orjson.JSONDecodeError as error:
            if whole:
                continue
            raise HttpFailure("a line of the stream is not JSON", 200, pending[:200]) from error
        pending = ""
        yield _event(value, None)
    if pending:
        raise HttpFailure("the stream ended inside a JSON value", 200, pending[:200])


async def _sse(lines: AsyncIterator[str]) -> AsyncGenerator[StreamEvent, None]:
    name: str | None = None
    data: list[str] = []
    async for line in lines:
        if line:
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                name = value
            elif field == "data":
                data.append(value)
            continue
        if data:
            yield _sse_event(name, "\n".join(data))
        name, data = None, []
    if data:
        yield _sse_event(name, "\n".join(data))


def _sse_event(name: str | None, text: str) -> StreamEvent:
    if text == "[DONE]":
        return StreamEvent("done")
    try:
        value = parsed(text)
    except orjson.JSONDecodeError:
        value = text
    return _event(value, name)


def _event(value: Json, name: str | None) -> StreamEvent:
    if isinstance(value, dict) and value.get("kind") in STREAM_KINDS:
        tool_id = value.get("toolId", value.get("tool_id"))
        data = value.get("data", value.get("error"))
        return StreamEvent(value["kind"], tool_id if isinstance(tool_id, str) else "", data)
    if name in STREAM_KINDS:
        return StreamEvent(name, "", value)  # type: ignore[arg-type]  # narrowed by the set
    return StreamEvent("chunk", "", value)
