"""Serving on standard input and output: newline-delimited JSON-RPC.

The two streams are taken before any of a project's code is imported, so that nothing it prints gets between the
messages: what is written to standard output goes to standard error. They are read and written by threads, whatever
they are (pipes, files, terminals); no thread keeps the process from ending, also when nobody closes its input.

Serving over streamable HTTP, behind the guard that all HTTP doors share: token, Host list, Origin check.

Refused here: listening on all interfaces without a name to come by, or beyond this machine without a token.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import queue
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Final

from ...errors import ConfigError
from ...fast_dataclass import dataclass
from ...tools.mcp.transports import StdioStreams
from ..security import AuthMiddleware, Receive, Scope, Send, Site, refuse, serve_until_cancelled
from .large_answers import LargeAnswers
from .server import McpDoor
from .session_limit import SessionLimit

_CHUNK: Final = 2**16
_MOST_CHUNKS: Final = 16  # read and not yet looked at
_MOST_WAITING: Final = 2**22  # bytes to be written


class Wire:
    """Standard input and output, kept for the protocol."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self._in, self._out = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)

    async def serve(self, door: McpDoor) -> None:
        """Answer until the client closes its end, then stop the calls that are running."""
        door.has_one_client = True
        loop = asyncio.get_running_loop()
        reader, writer = _Reader(loop), _Writer(loop, self._out)
        threading.Thread(target=reader.read_all, args=(self._in,), daemon=True, name="mcp stdin").start()
        threading.Thread(target=writer.write_all, daemon=True, name="mcp stdout").start()
        async with door.open(), StdioStreams(reader, writer, answers=True).open() as (read, write):
            await door.server.run(read, write, door.server.create_initialization_options())
        await writer.finish()


class _Reader:
    """A descriptor read by a thread, which waits while much of it is unread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue(_MOST_CHUNKS)

    async def read(self, _: int, /) -> bytes:
        return await self._chunks.get()

    def read_all(self, fd: int) -> None:
        chunk = b" "
        while chunk:
            try:
                chunk = os.read(fd, _CHUNK)
            except OSError:  # of a terminal that is gone, for one
                chunk = b""
            try:
                asyncio.run_coroutine_threadsafe(self._chunks.put(chunk), self._loop).result()
            except (RuntimeError, CancelledError):  # the loop ends or is closed: there is nobody to tell
                return


class _Writer:
    """A stream that a thread writes to in order; `drain` waits while much is unwritten."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        self._loop, self._fd = loop, fd
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._waiting = 0
        self._room = asyncio.Event()
        self._ended = asyncio.Event()
        self._error: OSError | None = None

    def write(self, data: bytes) -> None:
        self._waiting += len(data)
        self._lines.put(data)

    async def drain(self) -> None:
        while self._waiting > _MOST_WAITING and self._error is None:
            self._room.clear()
            await self._room.wait()
        if self._error is not None:
            raise self._error

    async def finish(self) -> None:
        """Wait until everything is written."""
        self._lines.put(None)
        await self._ended.wait()

    def write_all(self) -> None:
        error: OSError | None = None
        while error is None and (data := self._lines.get()) is not None:
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(self._fd, view) :]
            except OSError as gone:
                error = gone
            self._tell(len(data), error)
        self._tell(0, error, ended=True)

    def _tell(self, written: int, error: OSError | None, *, ended: bool = False) -> None:
        def told() -> None:
            self._waiting -= written
            self._error = self._error or error
            self._room.set()
            if ended:
                self._ended.set()

        try:
            self._loop.call_soon_threadsafe(told)
        except RuntimeError:  # the loop is closed
            return


PATH: Final = "/mcp"
_EVERYWHERE: Final = ("0.0.0.0", "::")
_MOST_BYTES: Final = 10_000_000
_WAY: Final = "send the header Authorization: Bearer TOKEN, with the token that the server was given or printed"
_LEAVING: Final = 5  # seconds that requests under way are given when the server ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The address to listen on, and the further host names of the server."""

    host: str = "127.0.0.1"
    port: int = 0
    names: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str, names: Sequence[str] = ()) -> Address:
        """From `HOST:PORT` or `PORT`; ConfigError for anything else, and for all interfaces without a name."""
        host, _, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
        if not port.isdecimal() or int(port) > 65535:
            raise ConfigError(f"--http {text}: must be HOST:PORT or PORT, as 127.0.0.1:8700")
        if host in _EVERYWHERE and not names:
            raise ConfigError(
                f"--http {text}: this listens on all interfaces, so name the host that clients use: --allow-host NAME"
            )
        return cls(host=host, port=int(port), names=tuple(names))

    @property
    def local(self) -> bool:
        """True if only this machine can reach the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def shown(self) -> str:
        """Return the host in the form that a URL has."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def hosts(self) -> list[str]:
        """Return the names for the Host header, in addition to the local ones."""
        return [*self.names, *([] if self.host in _EVERYWHERE else [self.shown])]

    def listen(self) -> socket.socket:
        """The listening socket; ConfigError when the address cannot be had."""
        try:
            family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
            return socket.create_server((self.host, self.port), family=family)
        except (OSError, UnicodeError, TypeError) as error:  # what is no name of a host
            why = error.strerror if isinstance(error, OSError) else None
            raise ConfigError(f"cannot listen on {self.shown}:{self.port}: {why or error}") from error


async def serve(
    door: McpDoor, address: Address, token: str | None, ready: Callable[[str], None], max_sessions: int
) -> None:
    """Serve until cancelled."""

    # Call `ready` with the URL once the server listens.
    if token is None and not address.local:
        raise ConfigError(f"{address.shown} can be reached from other machines, so a token is required")
    listening = address.listen()
    site = AuthMiddleware(_site(door, max_sessions), token, address.hosts, _MOST_BYTES, way=_WAY)
    async with door.open():
        ready(f"http://{address.shown}:{listening.getsockname()[1]}{PATH}")
        await serve_until_cancelled(site, listening, _LEAVING)


def _site(door: McpDoor, max_sessions: int) -> Site:
    from mcp.server.transport_security import TransportSecuritySettings

    guarded = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # the guard has looked already
    site = door.server.streamable_http_app(
        streamable_http_path=PATH,
        transport_security=guarded,
        max_request_body_size=_MOST_BYTES,
        max_sessions=max_sessions,
    )
    limited = LargeAnswers(SessionLimit(site, max_sessions))

    async def at_path(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].rstrip("/") != PATH:
            await refuse(scope, send, 404, "NotFound", f"there is nothing at this path; the MCP server is at {PATH}")
        else:
            await limited(scope, receive, send)

    return at_path
