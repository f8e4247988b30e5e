"""Serving over streamable HTTP, behind the guard that all HTTP doors share: token, Host list, Origin check.

Refused here: listening on all interfaces without a name to come by, or beyond this machine without a token.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

from ...errors import ConfigError
from ...frozen import dataclass
from ...guard import Guard
from ...listening import serve_until_cancelled
from .server import McpDoor

PATH: Final = "/mcp"
_EVERYWHERE: Final = ("0.0.0.0", "::")
_MOST_BYTES: Final = 10_000_000
_WAY: Final = "send the header Authorization: Bearer TOKEN, with the token that the server was given or printed"
_LEAVING: Final = 5  # seconds that requests under way are given when the server ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to listen, and by which other names clients may come."""

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
            raise ConfigError(f"--http {text}: all interfaces; say by which name clients come: --allow-host NAME")
        return cls(host=host, port=int(port), names=tuple(names))

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def shown(self) -> str:
        """The host as it stands in a URL."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def hosts(self) -> list[str]:
        """By which names requests come, beside the local ones."""
        return [*self.names, *([] if self.host in _EVERYWHERE else [self.shown])]

    def listen(self) -> socket.socket:
        """The listening socket; ConfigError when the address cannot be had."""
        try:
            family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
            return socket.create_server((self.host, self.port), family=family)
        except (OSError, UnicodeError, TypeError) as error:  # what is no name of a host
            why = error.strerror if isinstance(error, OSError) else None
            raise ConfigError(f"cannot listen on {self.shown}:{self.port}: {why or error}") from error


async def serve(door: McpDoor, address: Address, token: str | None, ready: Callable[[str], None]) -> None:
    """Serve until cancelled; `ready` is told the URL once it listens."""
    if token is None and not address.local:
        raise ConfigError(f"{address.shown} can be reached from other machines: a token is needed")
    listening = address.listen()
    site = Guard(_site(door), token, address.hosts, _MOST_BYTES, way=_WAY)
    async with door.open():
        ready(f"http://{address.shown}:{listening.getsockname()[1]}{PATH}")
        await serve_until_cancelled(site, listening, _LEAVING)


def _site(door: McpDoor) -> Any:
    from mcp.server.transport_security import TransportSecuritySettings

    guarded = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # the guard has looked already
    return door.server.streamable_http_app(
        streamable_http_path=PATH, transport_security=guarded, max_request_body_size=_MOST_BYTES
    )
