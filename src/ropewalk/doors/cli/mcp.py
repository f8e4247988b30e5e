"""`mcp`: serve flows, and when asked the toolbox, to MCP clients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ...config import McpServed, read_config
from .answer import Answer
from .interrupts import Interrupts
from .options import Project, StoreAddress
from .session import with_app

if TYPE_CHECKING:
    from ...app import App


def mcp(
    *files: Path,
    tools: Annotated[
        bool | None,
        Parameter(name="--tools", help="Offer the tools of the project, too: its own and its MCP servers'."),
    ] = None,
    project: Project = None,
    store: StoreAddress = None,
) -> Answer:
    """Serve flows as the tools of an MCP server: those of [mcp_server] in ropewalk.toml, the stored ones, and FILES.

    On standard input and output, which is how MCP clients start a server.
    """
    from ..mcp.stdio import Wire

    near = files[0] if files else None
    config = read_config(_directory(near, project))
    served = config.mcp_server
    wire = Wire()

    async def work(app: App, _: Interrupts) -> Answer:
        for file in files:
            app.ensure(app.load(file))
        await wire.serve(_door(app, served, config.directory, files, served.tools if tools is None else tools))
        return Answer()

    return with_app(work, near=near, project=project, store=store)


def _directory(near: Path | None, project: Path | None) -> Path:
    from .session import directory

    return directory(near, project)


def _door(app: App, served: McpServed, home: Path, files: tuple[Path, ...], tools: bool) -> Any:
    from ..mcp.catalogue import Catalogue
    from ..mcp.flows import Flows
    from ..mcp.server import McpDoor

    places = [*served.flows, *(str(file.resolve()) for file in files)]
    return McpDoor(Catalogue([Flows(app, places, home, stored=served.stored)]), instructions=served.instructions)
