"""The HTTP client under the streamable HTTP transport: one request's failure stays its own.

In the SDK a POST that cannot be delivered ends the whole connection and looks like cancellation.
Here every such failure becomes the JSON-RPC error of the one request it belongs to, with a text
that says what happened, and `UNDELIVERED` where the server cannot have executed anything.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson

from ..values import MAX_BYTES

if TYPE_CHECKING:
    import httpx2

UNDELIVERED: Final = "ropewalk.undelivered"
"""`data` of an error whose request the server did not execute: it may be sent again."""

LOST: Final = "ropewalk.lost"
"""`data` of an error whose request the server may or may not have executed."""

_MOST_ERROR: Final = 65536
_COURTESY: Final = 2.0  # seconds for a notification or a good-bye to be taken
_CLOSED: Final = -32000  # the code the SDK gives to a closed connection


@contextlib.asynccontextmanager
async def http_streams(url: str, headers: Mapping[str, str], connect_timeout: float) -> AsyncIterator[tuple[Any, Any]]:
    """The pair (read, write) of message streams with the server at `url`."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    class Client(httpx2.AsyncClient):
        async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            try:
                # Nothing waits for an answer to these, and the next message waits for them.
                async with asyncio.timeout(_COURTESY if _is_courtesy(request) else None):
                    response = await super().send(request, **options)
            except TimeoutError:
                return httpx2.Response(202, request=request)
            except httpx2.TransportError as error:
                if request.method != "POST":
                    raise
                unsent = isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout))
                return _answer(
                    request, 502, _CLOSED, str(error) or type(error).__name__, UNDELIVERED if unsent else LOST
                )
            if request.method == "POST" and response.status_code >= 400:
                return await _refusal(request, response)
            return response

    # No read timeout: every call has one of its own, and a quiet event stream is not a dead one.
    timeout = httpx2.Timeout(connect_timeout, read=None)
    # The default of 100 connections would make the 101st concurrent call wait for another's end.
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    async with (
        Client(headers=dict(headers), timeout=timeout, limits=limits) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_BYTES) as (read, write),
    ):
        yield read, write


async def _refusal(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """The same refusal as a JSON-RPC error that says the HTTP status; a lost session is marked."""
    import httpx2

    body = b""
    with contextlib.suppress(httpx2.HTTPError, httpx2.StreamError):  # a refusal that breaks off is still a refusal
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > _MOST_ERROR:
                break
    await response.aclose()
    had_session = "mcp-session-id" in request.headers
    code, message, data = -32603, f"HTTP {response.status_code} {response.reason_phrase}".strip(), None
    try:
        error = orjson.loads(body)["error"]
        code, message, data = int(error["code"]), str(error["message"]), error.get("data")
    except (ValueError, TypeError, KeyError, AttributeError):
        if response.status_code == 404 and not had_session:
            code = -32601
    # 404 is the protocol's word for an unknown session; widespread servers say 400 and this text.
    if had_session and (
        response.status_code == 404
        or (response.status_code == 400 and code == _CLOSED and "session" in message.lower())
    ):
        data = UNDELIVERED
    return _answer(request, response.status_code, code, message, data)


def _answer(request: httpx2.Request, status: int, code: int, message: str, data: Any) -> httpx2.Response:
    import httpx2

    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    content = orjson.dumps({"jsonrpc": "2.0", "id": None, "error": error})
    return httpx2.Response(status, headers={"content-type": "application/json"}, content=content, request=request)


def _is_courtesy(request: httpx2.Request) -> bool:
    """Whether this is a good-bye or a notification, which has no id."""
    if request.method != "POST":
        return request.method == "DELETE"
    return len(request.content) < 4096 and "id" not in orjson.loads(request.content)
