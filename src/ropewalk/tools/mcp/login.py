"""Log a person in at an MCP server, and out again.

`log_in` takes the person through the authorization server in a browser and keeps the tokens; runs use them from then
on. To receive the answer in another way than with a loopback address, call `Loopback.receive` with the address that
the browser shows.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ...errors import ConfigError
from .auth_settings import LOGIN
from .config import ServerConfig
from .logins import LoginStore

if TYPE_CHECKING:
    from .loopback import Loopback

Show = Callable[[str, "Loopback"], Awaitable[None] | None]
"""Shows the person an address to open. The second argument receives the answer of the authorization server."""


async def log_in(config: ServerConfig, show: Show, *, scope: str | None = None, challenge: str = "") -> None:
    """Log in at a server, and keep the login.

    Args:
        config: The server.
        show: Shows the address to the person, for example in a browser; plain or async.
        scope: Rights to request, separated by spaces, in addition to those of the login that there is.
        challenge: The WWW-Authenticate header with which the server refused a request.

    Raises:
        ConfigError: The server has no logins, or the authorization server refuses this one.
    """
    import httpx2
    from mcp.client.auth import OAuthFlowError
    from pydantic import ValidationError

    from .loopback import Loopback
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
    """Delete the login at a server; return False if there was none.

    Raises:
        ConfigError: The server has no logins, or its login cannot be deleted.
    """
    _require_login(config)
    return await LoginStore(config.name, config.url).delete()


def _require_login(config: ServerConfig) -> None:
    if not config.url:
        raise ConfigError(f"{config} is a program; only servers with a url have logins")
    if config.auth.kind != LOGIN:
        raise ConfigError(f"{config}: auth is {config.auth.kind!r}, which needs no login")
    if any(name.lower() == "authorization" for name in config.headers):
        raise ConfigError(f"{config}: its headers have an Authorization; remove it to log in")
