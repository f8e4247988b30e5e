"""A generic JSON-over-HTTP provider: `POST <url>/<tool id>` with the arguments as JSON returns JSON.

Streams are server-sent events or JSON lines. A line or event that is an object with a `kind` of progress, chunk, done
or error is that event; anything else becomes the data of a chunk.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final
from urllib.parse import quote

import orjson

from ...values import Json, parse_answer
from ..tool import STREAM_KINDS, StreamEvent
from .http import Http, HttpFailure, Request

_SSE: Final = "text/event-stream"
_JSON_DOCUMENT: Final = "application/json"


class HttpProvider:
    """Calls the tools of one provider; safe for concurrent use."""

    def __init__(self, url: str, headers: Mapping[str, str], *, place: str) -> None:
        self._base, mark, query = url.partition("?")
        self._query = mark + query
        self._http = Http(headers, place=place, base=self._base)

    async def call_tool(self, tool_id: str, args: dict[str, Json], *, key: str | None = None) -> Json:
        """Call a tool and return its JSON."""
        return await self._http.fetch(self._request(tool_id, args, key, "application/json, */*;q=0.1"))

    async def call_tool_stream(self, tool_id: str, args: dict[str, Json], *, key: str | None = None) -> Any:
        """Call a tool and return its events; None if the answer is not a stream."""
        request = self._request(tool_id, args, key, "text/event-stream, application/x-ndjson")
        return await open_events(self._http, request)

    async def close(self) -> None:
        """Close the connections of this event loop."""
        await self._http.close()

    def _request(self, tool_id: str, args: dict[str, Json], key: str | None, accept: str) -> Request:
        url = f"{self._base}/{quote(tool_id, safe='')}{self._query}"
        return Request(method="POST", url=url, headers={"Accept": accept}, json=args, has_json=True, key=key)


async def open_events(http: Http, request: Request) -> AsyncGenerator[StreamEvent, None] | None:
    """Send a request and return the events of its answer."""
    async with AsyncExitStack() as stack:
        kind, lines = await stack.enter_async_context(http.lines(request))
        if kind == _SSE:
            return _until_closed(_read_sse(lines), stack.pop_all())
        if "json" in kind:
            return _until_closed(_read_json_lines(lines, is_document=kind == _JSON_DOCUMENT), stack.pop_all())
    return None


async def _until_closed(
    events: AsyncGenerator[StreamEvent, None], stack: AsyncExitStack
) -> AsyncGenerator[StreamEvent, None]:
    async with stack:
        async for event in events:
            yield event


async def _read_json_lines(lines: AsyncIterator[str], *, is_document: bool) -> AsyncGenerator[StreamEvent, None]:
    """Yield an event per line; a single JSON document (`is_document`) may span several lines."""
    pending = ""
    async for line in lines:
        pending = f"{pending}\n{line}" if pending else line.strip()
        if not pending:
            continue
        try:
            value = parse_answer(pending)
        except orjson.JSONDecodeError as error:
            if is_document:
                continue
            raise HttpFailure("a line of the stream is not JSON", 200, pending[:200]) from error
        pending = ""
        yield _to_event(value, None)
    if pending:
        raise HttpFailure("the stream ended inside a JSON value", 200, pending[:200])


async def _read_sse(lines: AsyncIterator[str]) -> AsyncGenerator[StreamEvent, None]:
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
        value = parse_answer(text)
    except orjson.JSONDecodeError:
        value = text
    return _to_event(value, name)


def _to_event(value: Json, name: str | None) -> StreamEvent:
    if isinstance(value, dict) and value.get("kind") in STREAM_KINDS:
        tool_id = value.get("toolId", value.get("tool_id"))
        data = value.get("data", value.get("error"))
        return StreamEvent(value["kind"], tool_id if isinstance(tool_id, str) else "", data)
    if name in STREAM_KINDS:
        return StreamEvent(name, "", value)  # type: ignore[arg-type]  # narrowed by the set
    return StreamEvent("chunk", "", value)
