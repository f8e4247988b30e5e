"""Serving over streamable HTTP, safe where nothing is said: on 127.0.0.1, with a token, for known hosts only.

A page in a browser reaches local ports: by a name that it makes point here (DNS rebinding), or straight away. The
Host header must be one of ours, an Origin, where there is one, too, and without the token there is no answer at all.
No CORS headers are sent. The token is compared in constant time and never goes further than this file.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...errors import ConfigError
from ...frozen import dataclass
from .server import McpDoor

if TYPE_CHECKING:
    import uvicorn

PATH: Final = "/mcp"
_LEAVING: Final = 5.0  # seconds that requests under way are given when the server ends
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to listen, and by which other names clients may come (`allowed`, `NAME` or `NAME:PORT`)."""

    host: str = "127.0.0.1"
    port: int = 0
    allowed: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str, allowed: Sequence[str] = ()) -> Address:
        """From `HOST:PORT` or `PORT`; ConfigError for anything else, and for all interfaces without a name."""
        host, _, port = text.rpartition(":")
        host = host.strip("[]") or "127.0.0.1"
        if not port.isdecimal() or int(port) > 65535:
            raise ConfigError(f"--http {text}: must be HOST:PORT or PORT, as 127.0.0.1:8700")
        if host in ("0.0.0.0", "::", "*") and not allowed:
            raise ConfigError(f"--http {text}: all interfaces; say by which name clients come: --allow-host NAME")
        return cls(host="0.0.0.0" if host == "*" else host, port=int(port), allowed=tuple(allowed))

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def hosts(self, port: int) -> list[str]:
        """The Host headers that are ours."""
        own = ["127.0.0.1", "localhost", "[::1]"] if self.local else []
        shown = f"[{self.host}]" if ":" in self.host else self.host
        named = [name if _has_port(name) else f"{name}:{port}" for name in self.allowed]
        return list(dict.fromkeys([f"{shown}:{port}", *(f"{name}:{port}" for name in own), *named]))

    def listen(self) -> socket.socket:
        """The listening socket; ConfigError when the address cannot be had."""
        try:
            family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
            return socket.create_server((self.host, self.port), family=family)
        except OSError as error:
            raise ConfigError(f"cannot listen on {self.host}:{self.port}: {error.strerror or error}") from error


class Guard:
    """An ASGI app that asks for the token before another one sees a request."""

    def __init__(self, app: Any, token: str | None) -> None:
        self._app = app
        self._expected = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or (scope["type"] == "http" and self._known(scope)):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain"), (b"content-length", b"13")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b"token needed\n"})

    def _known(self, scope: Scope) -> bool:
        if self._expected is None:
            return True
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(given) == 1 and hmac.compare_digest(given[0], self._expected)


async def serve(
    door: McpDoor, address: Address, token: str | None, ready: Callable[[str], None], *, most_bytes: int = 2**22
) -> None:
    """Serve until cancelled; `ready` is told the URL once it listens."""
    listening = address.listen()
    port = listening.getsockname()[1]
    app = door.server.streamable_http_app(
        streamable_http_path=PATH,
        host=address.host,
        transport_security=_security(address.hosts(port)),
        max_request_body_size=most_bytes,
    )
    server = _server(Guard(app, token))
    async with door.open():
        task = asyncio.ensure_future(server.serve(sockets=[listening]))
        shown = f"[{address.host}]" if ":" in address.host else address.host
        ready(f"http://{shown}:{port}{PATH}")
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            server.should_exit = True
            await asyncio.wait([task], timeout=2 * _LEAVING)
            raise
        finally:
            listening.close()


def _security(hosts: list[str]) -> Any:
    from mcp.server.transport_security import TransportSecuritySettings

    origins = [f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


def _server(app: Any) -> uvicorn.Server:
    """Uvicorn without handlers of signals: the command has its own."""
    import uvicorn

    class Quiet(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    return Quiet(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=int(_LEAVING),
        )
    )


def _has_port(name: str) -> bool:
    return name.rpartition(":")[2].isdecimal() and not name.endswith("]")
