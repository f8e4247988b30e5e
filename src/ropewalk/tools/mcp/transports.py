"""The transports of an MCP server: the pipes of a child process, and streamable HTTP.

- `StdioStreams`: newline-delimited JSON-RPC. It is ours and not the SDK's, because it splits lines
  in linear time, limits the size of a message, notices the end of the other side at once, and keeps
  what a server wrongly prints for the error text. `spawn` starts the program.
- `http_streams`: keeps the failure of one request apart from all others. In the SDK a POST that
  cannot be delivered ends the whole connection and looks like cancellation. Here it becomes the
  JSON-RPC error of its request, with a text that says what happened, and with `UNDELIVERED` as its
  data if the server cannot have executed anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson

from ...config.secrets import Secrets
from ...values import MAX_BYTES
from ..backends.http_answers import retry_after
from ..child_process import Child, find_program, start
from .auth_settings import LOGIN, NO_AUTH
from .config import ServerConfig, child_environment
from .login_errors import LoginRequired
from .requests import OpenRequests, refusal_of

if TYPE_CHECKING:
    import httpx2
    from mcp.shared.message import SessionMessage
    from pydantic import ValidationError

    from .oauth import ServerAuth

_MAX_GARBAGE: Final = 2**24  # bytes without a message in between; a server that prints more has no end to wait for


class Reader(Protocol):
    """A source of bytes; an empty read means its end."""

    async def read(self, n: int, /) -> bytes: ...


class Writer(Protocol):
    """A sink of bytes; `drain` waits until it can take more."""

    def write(self, data: bytes, /) -> None: ...
    async def drain(self) -> None: ...


class StdioStreams:
    """The two message streams of a session over a pair of pipes."""

    # `garbage`: The beginning of the last line that was not a JSON-RPC message.
    # `broken`: Why we stopped reading, if it was not the end of the other side.
    # `ended`: Set when no further message will come.
    # `answers`: True on the side of the server, which answers every line that it cannot read.

    def __init__(self, reader: Reader, writer: Writer, *, answers: bool = False) -> None:
        self._reader, self._writer, self._answers = reader, writer, answers
        self.garbage = ""
        self.broken = ""
        self.ended = asyncio.Event()
        self._outward: Any = None
        self._open = OpenRequests()
        self._printed = 0  # bytes of garbage since the last message

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Any, Any]]:
        """Open the streams (read, write); at the end of the block, close them and end all tasks."""
        import anyio
        from mcp.shared.message import SessionMessage

        inward, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, outward = anyio.create_memory_object_stream[SessionMessage](0)
        self._outward = outward
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._receive, inward)
                group.start_soon(self._send, outward, inward)
                try:
                    yield read, write
                finally:
                    group.cancel_scope.cancel()
        finally:
            for stream in (inward, read, write, outward):
                stream.close()

    def hang_up(self) -> None:
        """Take no more messages, and release a writer that waits for a child that does not read."""
        if self._outward is not None:
            self._outward.close()

    async def _receive(self, inward: Any) -> None:
        import anyio
        import mcp_types
        from mcp.shared.message import SessionMessage
        from pydantic import ValidationError

        parse = mcp_types.jsonrpc_message_adapter.validate_json
        try:
            with inward:
                async for line in self._lines():
                    if not (self._answers or self._open.may_read(line)):
                        self._note_garbage(line)
                        continue
                    try:
                        message = self._open.received(parse(line, by_name=False))
                        self._printed = 0
                    except ValidationError as error:
                        self._note_garbage(line)
                        message = self._open.failed(line, error)
                        if message is None:
                            await self._refuse(line, error)
                            continue
                    await inward.send(SessionMessage(message))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the session has ended
        finally:
            self.ended.set()

    async def _refuse(self, line: bytes, error: ValidationError) -> None:
        """Answer a message of a client that cannot be read: without an answer it would wait for its timeout."""
        refusal = refusal_of(line, error) if self._answers else None
        if refusal is not None:
            with contextlib.suppress(OSError):  # nobody reads the answer; `_send` ends the connection
                self._writer.write(refusal.model_dump_json(exclude_unset=True).encode() + b"\n")
                await self._writer.drain()

    def _note_garbage(self, line: bytes) -> None:
        """Remember garbage for the error text, and how much of it there was."""
        self._printed += len(line) + 1
        if line.strip():
            self.garbage = line[:200].decode(errors="replace")

    async def _lines(self) -> AsyncIterator[bytes]:
        parts: list[bytes] = []
        size = 0
        while chunk := await self._reader.read(2**18):
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                parts.append(line)
                yield b"".join(parts)
                parts, size = [], 0
            if self._printed > _MAX_GARBAGE:
                self.broken = f"printed {_MAX_GARBAGE // 2**20} MiB that are not JSON-RPC, and no message"
                return
            await asyncio.sleep(0)  # a pipe that is never empty must not keep the loop from everything else
            parts.append(rest)
            size += len(rest)
            if size > MAX_BYTES:
                self.broken = f"sent a message of more than {MAX_BYTES // 10**6} MB"
                return

    async def _send(self, outward: Any, inward: Any) -> None:
        import anyio

        writer = self._writer
        try:
            async for item in outward:
                self._open.sent(item.message)
                writer.write(_encoded(item))
                await writer.drain()
        except OSError:
            # It closed its stdin but may live on: without this the call would wait for its timeout.
            self.broken = self.broken or "closed its stdin"
            self.ended.set()
            self.hang_up()
            inward.close()
        except anyio.ClosedResourceError:
            pass  # we hung up


def _encoded(item: SessionMessage) -> bytes:
    return item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"


UNDELIVERED: Final = "ropewalk.undelivered"
"""`data` of an error whose request the server did not execute: it may be sent again."""

LOST: Final = "ropewalk.lost"
"""`data` of an error whose request the server may or may not have executed."""

RETRY_AFTER: Final = "ropewalk.retryAfter"
STATUS: Final = "ropewalk.status"
"""The key, in `data` of an error, of the HTTP status that refused a request of a session; `data` has its own data."""

ANSWER: Final = "ropewalk.answer"
"""The key, in `data` of an error, of the HTTP status and the body of a refusal that is no message of the protocol."""

LOGIN_WANTED: Final = "ropewalk.login"
"""The key, in `data` of an error, of why a request was not authorized."""

SESSION_HEADER: Final = "mcp-session-id"
_MAX_ERROR_BODY: Final = 65536
_MAX_QUOTED: Final = 4096  # bytes of a refusal that errors can quote
_COURTESY_TIMEOUT: Final = 2.0  # seconds for a notification or a good-bye to be taken
_INTERNAL_ERROR: Final = -32603
_CONNECTION_CLOSED: Final = -32000  # the code the SDK gives to a closed connection


@contextlib.asynccontextmanager
async def http_streams(
    url: str, headers: Mapping[str, str], connect_timeout: float, auth: ServerAuth | None = None
) -> AsyncIterator[tuple[Any, Any]]:
    """Open the message streams (read, write) with a server."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    from .oauth import FAILURES

    class Client(httpx2.AsyncClient):
        async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            try:
                # Nothing waits for an answer to these, and the next message waits for them.
                async with asyncio.timeout(_COURTESY_TIMEOUT if _is_courtesy(request) else None):
                    response = await super().send(request, **options)
            except TimeoutError:
                return httpx2.Response(202, request=request)
            except httpx2.TransportError as error:
                if request.method != "POST":
                    raise
                is_unsent = isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout))
                data = UNDELIVERED if is_unsent else LOST
                return _error_response(request, 502, _CONNECTION_CLOSED, str(error) or type(error).__name__, data)
            except FAILURES as error:
                if request.method != "POST":
                    return httpx2.Response(401, request=request)
                wanted: dict[str, Any] = {LOGIN_WANTED: _wanted(error)}
                if SESSION_HEADER in request.headers and "authorization" not in request.headers:
                    wanted = {STATUS: 401, "data": wanted}  # a server without logins says so of an unknown session
                return _error_response(request, 401, _INTERNAL_ERROR, str(error) or type(error).__name__, wanted)
            if request.method == "POST" and response.status_code >= 400:
                return await _refusal_response(request, response)
            return response

    # No read timeout: every call has one of its own, and a quiet event stream is not a dead one.
    timeout = httpx2.Timeout(connect_timeout, read=None)
    # The default of 100 connections would make the 101st concurrent call wait for another's end.
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    async with (
        Client(headers=dict(headers), timeout=timeout, limits=limits, auth=auth) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_BYTES) as (read, write),
    ):
        yield read, write


def _wanted(error: Exception) -> dict[str, Any] | None:
    """Return what a login needs to know, or None for a failure that no login helps."""
    return {"scope": error.scope, "challenge": error.challenge} if isinstance(error, LoginRequired) else None


def authorization(config: ServerConfig) -> ServerAuth | None:
    """Return what authorizes the requests to a server, or None if its settings say how, or that nothing does."""
    if config.auth.kind == NO_AUTH or any(name.lower() == "authorization" for name in config.headers):
        return None
    if config.auth.kind == LOGIN:
        from .oauth import LoginAuth

        return LoginAuth(config)
    from .machine_auth import MachineAuth  # its imports take long

    return MachineAuth(config)


async def _refusal_response(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """Return a refusal as a JSON-RPC error that names the HTTP status; `data` has it, the pause that is wanted, and
    the answer.
    """
    import httpx2

    body = b""
    with contextlib.suppress(httpx2.HTTPError, httpx2.StreamError):  # an interrupted refusal is still a refusal
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > _MAX_ERROR_BODY:
                break
    await response.aclose()
    had_session = SESSION_HEADER in request.headers
    code, message, data = _INTERNAL_ERROR, f"HTTP {response.status_code} {response.reason_phrase}".strip(), None
    answer: dict[str, Any] | None = None
    try:
        error = orjson.loads(body)["error"]
        code, message, data = int(error["code"]), str(error["message"]), error.get("data")
    except (ValueError, TypeError, KeyError, AttributeError):
        answer = {"status": response.status_code, "body": body[:_MAX_QUOTED].decode(errors="replace")}
        if response.status_code == 404 and not had_session:
            code = -32601
    pause = retry_after(response.headers.get("retry-after")) if response.status_code in (429, 503) else None
    if had_session or pause is not None or answer is not None:
        status = response.status_code if had_session else None
        data = {STATUS: status, RETRY_AFTER: pause, ANSWER: answer, "data": data}
    return _error_response(request, response.status_code, code, message, data)


def _error_response(request: httpx2.Request, status: int, code: int, message: str, data: Any) -> httpx2.Response:
    import httpx2

    error = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    content = orjson.dumps({"jsonrpc": "2.0", "id": None, "error": error})
    return httpx2.Response(status, headers={"content-type": "application/json"}, content=content, request=request)


def _is_courtesy(request: httpx2.Request) -> bool:
    """Return True for the end of a session, and for a notification, which has no id."""
    if request.method != "POST":
        return request.method == "DELETE"
    return len(request.content) < 4096 and "id" not in orjson.loads(request.content)


async def spawn(config: ServerConfig, on_stderr: Callable[[bytes], None]) -> tuple[Child, Secrets]:
    """Start the program of a server."""
    env, secrets = child_environment(config)
    if config.cwd is not None and not os.path.isdir(config.cwd):  # noqa: ASYNC240 - one stat next to a fork
        raise ConnectionError(f"{config}: cwd {config.cwd!r} is not a directory")
    try:
        child = await start([find_program(config.command, env), *config.args], env, config.cwd, on_stderr=on_stderr)
    except FileNotFoundError as error:
        remedy = 'arguments belong in "args"' if " " in config.command else "install it, or give its path"
        raise ConnectionError(f"{config}: no program {config.command!r} on the PATH; {remedy}") from error
    except (OSError, ValueError) as error:
        raise ConnectionError(f"{config}: cannot start {config.command!r}: {error}") from error
    return child, secrets
