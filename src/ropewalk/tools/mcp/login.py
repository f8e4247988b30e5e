"""Log a person in at an MCP server, and out again.

`log_in` takes the person through the authorization server in a browser and keeps the tokens; runs use them from then
on. The browser comes back to an address of this machine (RFC 8252): `Loopback` listens on 127.0.0.1 until it has come
back with the `state` of the login. Any other request gets an error page and changes nothing, so that no other site can
end or take over a login. To receive the answer in another way, call `Loopback.receive` with the address that the
browser shows.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import secrets
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import parse_qs, urlsplit

from ...errors import ConfigError
from .auth_settings import LOGIN
from .config import ServerConfig
from .logins import LoginStore

if TYPE_CHECKING:
    from mcp.client.auth import AuthorizationCodeResult

_PATH: Final = "/callback"
_MAX_HEAD: Final = 16_384  # bytes of a request
_HEAD_TIMEOUT: Final = 10.0  # seconds for the head of a request
_PAGE: Final = (
    "<!doctype html><meta charset=utf-8><title>Ropewalk</title>"
    "<p style='font: 1.2em sans-serif; margin: 4em auto; max-width: 30em'>{text}</p>"
)


class Loopback:
    """Waits for the browser of one login."""

    # `uri`: The address to which the authorization server sends the browser.

    def __init__(self, port: int = 0, *, may_differ: bool = False) -> None:
        self._port, self._may_differ = port, may_differ
        self._state = ""
        self._server: asyncio.Server | None = None
        self._result: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
        self.uri = ""

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, limit=_MAX_HEAD)
        except OSError as error:
            if self._may_differ and self._port:
                self._port = 0
                return await self.__aenter__()
            raise ConfigError(f"cannot wait for the browser on port {self._port}") from error
        self.uri = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{_PATH}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        self._result.cancel()

    def expect(self, address: str) -> None:
        """Take the state of the login from the address that the person opens."""
        self._state = parse_qs(urlsplit(address).query).get("state", [""])[0]

    def receive(self, target: str) -> str | None:
        """Take the address, or its path and query, with which the browser came back."""
        from mcp.client.auth import AuthorizationCodeResult

        parts = urlsplit(target.strip())
        values = {name: texts[0] for name, texts in parse_qs(parts.query).items()}
        if parts.path != _PATH:
            return "There is nothing here."
        if not self._state or not secrets.compare_digest(values.get("state", "").encode(), self._state.encode()):
            return "This address belongs to another login. Return to the terminal."
        if self._result.done():
            return "This login has ended. Return to the terminal."
        if "error" in values:
            reason = values.get("error_description") or values["error"]
            self._result.set_exception(ConfigError(f"the authorization server refuses the login: {reason[:500]}"))
            return "The login was refused. Return to the terminal."
        self._result.set_result(
            AuthorizationCodeResult(code=values.get("code", ""), state=values["state"], iss=values.get("iss"))
        )
        return None

    async def result(self) -> AuthorizationCodeResult:
        """Wait for the browser."""
        return await self._result

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_TIMEOUT):
                head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.split(b"\r\n", 1)[0].decode("ascii", "replace").split(" ", 2)
            problem = self.receive(target) if method == "GET" else "There is nothing here."
            text = problem or "You are logged in. You can close this page."
            body = _PAGE.format(text=text).encode()
            lines = (
                "HTTP/1.1 404 Not Found" if problem else "HTTP/1.1 200 OK",
                "content-type: text/html; charset=utf-8",
                "content-security-policy: default-src 'none'; style-src 'unsafe-inline'",
                "referrer-policy: no-referrer",
                "cache-control: no-store",
                f"content-length: {len(body)}",
                "connection: close",
            )
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            await writer.drain()
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # not a browser
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


Show = Callable[[str, Loopback], Awaitable[None] | None]
"""Shows the person an address to open. The second argument receives the answer of the authorization server."""


async def log_in(config: ServerConfig, show: Show, *, scope: str | None = None, challenge: str = "") -> None:
    """Log in at a server, and keep the login."""
    import httpx2
    from mcp.client.auth import OAuthFlowError
    from pydantic import ValidationError

    from .oauth import LoginAuth, load_login

    _require_login(config)
    # Authorization servers compare the redirect address, so reuse the port of the registered client.
    client = (await load_login(LoginStore(config.name, config.url))).client
    registered = client.redirect_uris[0].port if client is not None and client.redirect_uris else None
    port = config.auth.redirect_port or registered or 0
    loopback = Loopback(port, may_differ=not config.auth.redirect_port)

    async def open_address(address: str) -> None:
        if urlsplit(address).scheme not in ("http", "https"):
            raise ConfigError(f"{config}: its authorization server is not at an http or https address")
        # Before the person sees the address: the answer may arrive before `show` returns.
        loopback.expect(address)
        shown = show(address, loopback)
        if inspect.isawaitable(shown):
            await shown

    async with loopback:
        auth = LoginAuth(config, loopback.uri, open_address, loopback.result, scope)
        try:
            await auth.log_in(challenge, more=scope is not None)
        except (OAuthFlowError, ValidationError, httpx2.HTTPError) as error:
            why = str(error) if not isinstance(error, ValidationError) else "its OAuth metadata is not valid"
            raise ConfigError(f"{config}: the login failed: {why or type(error).__name__}") from error


async def log_out(config: ServerConfig) -> bool:
    """Delete the login at a server; return False if there was none."""
    _require_login(config)
    return await LoginStore(config.name, config.url).delete()


def require_address(config: ServerConfig) -> None:
    """Raise ConfigError for a program: only servers with an address have logins."""
    if not config.url:
        raise ConfigError(f"{config} is a program; only servers with a url have logins")


def _require_login(config: ServerConfig) -> None:
    require_address(config)
    if config.auth.kind != LOGIN:
        raise ConfigError(f"{config}: auth is {config.auth.kind!r}, which needs no login")
    if any(name.lower() == "authorization" for name in config.headers):
        raise ConfigError(f"{config}: its headers have an Authorization; remove it to log in")
