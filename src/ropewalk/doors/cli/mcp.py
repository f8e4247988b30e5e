"""`mcp`: serve flows, and when asked the toolbox, to MCP clients."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ...config import Config, read_config
from ...errors import ConfigError
from ...errors.given import install
from ...guard import TOKEN, new_token, token_given
from .answer import Answer
from .interrupts import Interrupts
from .logs import tell
from .options import Log, LogLevel, Project, StoreAddress
from .session import directory, with_app

if TYPE_CHECKING:
    from ...app import App
    from ..mcp.server import McpDoor


def mcp(
    *files: Path,
    tools: Annotated[
        bool | None, Parameter(name="--tools", help="Offer the project's tools, too, and those of its MCP servers.")
    ] = None,
    gateway: Annotated[
        bool | None, Parameter(name="--gateway", help="Offer the tools of the project's MCP servers, as they are.")
    ] = None,
    most_listed: Annotated[
        int | None, Parameter(help="With more tools than this, list find_tools and call_tool in their place.")
    ] = None,
    http: Annotated[
        str | None, Parameter(name="--http", help="HOST:PORT or PORT: streamable HTTP, with a token.")
    ] = None,
    allow_host: Annotated[
        tuple[str, ...], Parameter(name="--allow-host", negative=(), help="Another name clients come by; repeatable.")
    ] = (),
    no_token: Annotated[
        bool, Parameter(name="--no-token", negative=(), help="Ask for no token; on a loopback address only.")
    ] = False,
    log: Log = "text",
    log_level: LogLevel = None,
    project: Project = None,
    store: StoreAddress = None,
) -> Answer:
    """Serve flows as the tools of an MCP server: those of [mcp_server] in ropewalk.toml, the stored ones, and FILES.

    On standard input and output, which is how MCP clients start a server; with --http over HTTP.
    """
    if find_spec("mcp") is None:
        raise ConfigError(f"`ropewalk mcp` needs the mcp package: {install('mcp')}")
    near = files[0] if files else None
    config = read_config(directory(near, project))
    said = config.mcp_server
    given: dict[str, Any] = {"tools": tools, "gateway": gateway, "most_listed": most_listed}
    served = replace(said, **{key: value for key, value in given.items() if value is not None})
    config = replace(config, mcp_server=served)
    if http is None:
        from ..mcp.stdio import Wire

        wire = Wire()  # before a project's code is imported, which may print

        async def on_stdio(app: App, _: Interrupts) -> Answer:
            await wire.serve(_door(app, config, files))
            return Answer()

        return with_app(on_stdio, near=near, project=project, store=store, log=log, log_level=log_level)

    from ..mcp.http import Address, serve

    address = Address.read(http, allow_host)
    token = None if no_token else token_given() or new_token()

    async def on_http(app: App, _: Interrupts) -> Answer:
        await serve(_door(app, config, files), address, token, lambda url: _announce(url, token))
        return Answer()

    return with_app(on_http, near=near, project=project, store=store, log=log, log_level=log_level)


def _door(app: App, config: Config, files: tuple[Path, ...]) -> McpDoor:
    from ..mcp.catalogue import Catalogue
    from ..mcp.finder import Finder
    from ..mcp.flows import Flows
    from ..mcp.passed import Passed
    from ..mcp.server import McpDoor
    from ..mcp.tools import Tools

    for file in files:
        app.ensure(app.load(file))
    served = config.mcp_server
    places = [*served.flows, *(str(file.resolve()) for file in files)]
    flows = Flows(app, places, config.directory, stored=served.stored)
    others = [Tools(app, servers_only=not served.tools)] if served.tools or served.gateway else []
    catalogue = Catalogue(Finder(app), [flows], others, most_listed=served.most_listed)
    passed = Passed(app) if served.gateway else None
    patience = served.wait_for_servers
    return McpDoor(catalogue, instructions=served.instructions, passed=passed, patience=patience)


def _announce(url: str, token: str | None) -> None:
    said = [f"MCP server at {url}"]
    if token is None:
        said.append("no token is asked for: every program of this machine can call it")
    elif token_given() is not None:
        said.append(f"clients send: Authorization: Bearer (what {TOKEN} holds)")
    else:
        said.append(f"clients send: Authorization: Bearer {token}")
    for line in said:
        tell(line)
