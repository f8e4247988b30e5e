"""`tools login` and `tools logout`: log in at an MCP server with OAuth, in a browser, and delete the login.

With `--no-browser`, and where no browser can be opened, the command prints the address. The browser may run on another
machine: then the person pastes the address at which it ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import webbrowser
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ...errors import NotFound, RopewalkError
from ...source.document import escape_invisible
from ...values import did_you_mean
from .dispatch import Answer, UsageError
from .options import Json, Project
from .output import notify
from .session import Interrupts, with_app

if TYPE_CHECKING:
    from ...app.app import App
    from ...tools.mcp.login import Loopback
    from ...tools.mcp.server_tools import ServerTools


def login(
    server: str,
    /,
    *,
    scope: Annotated[
        str | None, Parameter(help="Rights to request in addition to those of the present login, separated by spaces.")
    ] = None,
    no_browser: Annotated[
        bool, Parameter(name="--no-browser", negative=(), help="Print the address; do not open a browser.")
    ] = False,
    json: Json = False,
    project: Project = None,
) -> Answer:
    """Log in at an MCP server in a browser. Runs use the login until it ends or `tools logout` deletes it."""

    async def work(app: App, _: Interrupts) -> Answer:
        from ...tools.mcp.requests import ServerRefused  # loaded late: its imports take long

        servers = _servers(app, server)

        async def show(address: str, loopback: Loopback) -> None:
            opened = not no_browser and await asyncio.to_thread(_open_browser, address)
            notify(f"{'opened' if opened else 'open'} this address to log in at {server}:\n{escape_invisible(address)}")
            _take_pasted(loopback)

        try:
            was_needed = await servers.client.log_in(server, show, scope=scope)
        except (ServerRefused, ConnectionError, TimeoutError) as error:
            # The reason that every list of servers shows, which begins with the line of the settings.
            raise RopewalkError(app.toolbox.failures.get(server) or str(error)) from error
        finally:
            _stop_pasting()
        await servers.forget_list(server)
        tools = len(servers.definitions(server))
        count = f"{tools} {'tool' if tools == 1 else 'tools'}"
        text = f"logged in at {server}: {count}" if was_needed else f"{server} needs no login now: {count}"
        return Answer(data={"server": server, "loggedIn": was_needed, "tools": tools}, text=text)

    return with_app(work, project=project, store="memory")


def logout(server: str, /, *, json: Json = False, project: Project = None) -> Answer:
    """Delete the login at an MCP server from this machine."""

    async def work(app: App, _: Interrupts) -> Answer:
        servers = _servers(app, server)
        deleted = await servers.client.log_out(server)
        await servers.forget_list(server)
        text = f"deleted the login at {server}" if deleted else f"there is no login at {server}"
        return Answer(data={"server": server, "deleted": deleted}, text=text)

    return with_app(work, project=project, store="memory")


def _servers(app: App, server: str) -> ServerTools:
    """Return the servers of the project, which must have this one."""
    servers = app.toolbox.servers
    if servers is None or server not in servers.names:
        if server in app.toolbox.failures:
            raise UsageError(f"{server}: {app.toolbox.failures[server]}")
        known = [] if servers is None else servers.names
        raise NotFound("MCP server", server, suggestion=did_you_mean(server, known))
    return servers


def _open_browser(address: str) -> bool:
    try:
        return webbrowser.open(address)
    except (OSError, webbrowser.Error):
        return False


def _take_pasted(loopback: Loopback) -> None:
    """Read the address at which a browser on another machine ended, if somebody sits at a terminal."""
    if not sys.stdin.isatty():
        return
    notify("if the browser runs on another machine, paste the last address that it shows:")

    def take() -> None:
        line = sys.stdin.readline()
        if not line:
            _stop_pasting()
        elif line.strip():
            problem = loopback.receive(line)
            if problem is not None:
                notify(problem)

    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), take)


def _stop_pasting() -> None:
    with contextlib.suppress(OSError, ValueError):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
