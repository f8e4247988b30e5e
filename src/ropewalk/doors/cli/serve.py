"""`serve`: the HTTP API and the page."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ...config import read_config
from ...errors import ConfigError
from ...errors.given import install
from ...guard import TOKEN, new_token, token_given
from ...listening import serve_until_cancelled
from ...runs.recovery import recovering
from .answer import Answer
from .interrupts import Interrupts
from .options import Log, LogLevel, Project, StoreAddress
from .session import with_app
from .streams import put

if TYPE_CHECKING:
    from ...app import App

_LEAVING = 2  # seconds that open streams are given when the server ends


def serve(
    *,
    host: Annotated[
        str, Parameter(help="The address to listen on; others than this machine's own are open to the net.")
    ] = "127.0.0.1",
    port: Annotated[int, Parameter(help="The port; 0 takes a free one.")] = 8321,
    allow_host: Annotated[
        tuple[str, ...], Parameter(negative=(), help="A further name this server is reached by; repeatable.")
    ] = (),
    log: Log = "text",
    log_level: LogLevel = None,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Serve the HTTP API and the page. Every request needs the token: that of ROPEWALK_TOKEN, which is not printed,
    or a new one, which is in the address that is printed."""
    given = token_given()
    token = given or new_token()

    async def work(app: App, interrupts: Interrupts) -> Answer:
        try:
            import uvicorn  # noqa: F401

            from ..http import make_site
        except ModuleNotFoundError as error:
            raise ConfigError(f"`ropewalk serve` needs more: {install('serve')} ({error.name} is missing)") from None
        listening = _listen(host, port)
        names = (*allow_host, *(() if host in ("0.0.0.0", "::") else (f"[{host}]" if ":" in host else host,)))
        config = read_config(project)
        site = make_site(app, token, hosts=names, home=config.directory, flows=config.mcp_server.flows)
        shown = f"[{host}]" if ":" in host else "127.0.0.1" if host == "0.0.0.0" else host
        told = token if given is None else f"${TOKEN}"  # a shell puts it in; nobody else reads it here
        put(f"http://{shown}:{listening.getsockname()[1]}/?token={told}\n")
        async with recovering(app):
            await serve_until_cancelled(site, listening, _LEAVING)
        return Answer()

    return with_app(work, project=project, store=store, log=log, log_level=log_level)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(2048)  # from here on who comes waits to be served, and the address may be told
    except (OSError, OverflowError, UnicodeError, TypeError) as error:  # a port past 65535; no name of a host
        listening.close()
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"cannot listen on {host}:{port}: {why}; --port names another") from None
    return listening
