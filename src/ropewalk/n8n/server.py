"""The n8n-mcp server: how it is started, and what its calls are here.

A project names it itself as `[mcp.n8n-mcp]`; else the command `n8n-mcp` is looked for in the project's `node_modules`
and on the PATH. Nothing is downloaded. Refused: to go on as if it had answered, see `ServerDown`.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ..errors import RopewalkError, ToolError
from ..tools.runner import Runner
from ..tools.toolbox import Toolbox
from ..values import Json

SERVER: Final = "n8n-mcp"
ENVIRONMENT: Final = {
    "MCP_MODE": "stdio",
    "LOG_LEVEL": "error",
    "DISABLE_CONSOLE_OUTPUT": "true",
    "N8N_MCP_TELEMETRY_DISABLED": "true",
}
HOW: Final = "install it with `npm install n8n-mcp`, or name it as [mcp.n8n-mcp] in ropewalk.toml"


class ServerDown(ConnectionError):
    """n8n-mcp cannot be reached."""


class Server:
    """Calls of n8n-mcp, through the toolbox that has it; one that died is started again by the next call."""

    def __init__(self, toolbox: Toolbox, directory: Path) -> None:
        self._toolbox, self._runner = toolbox, Runner(index=toolbox)
        if toolbox.mcp is None or SERVER not in toolbox.mcp.names:
            command = command_of(directory)
            if command is not None:
                toolbox.add_mcp(SERVER, {"command": command, "env": dict(ENVIRONMENT)})

    @property
    def not_installed(self) -> str | None:
        """How it is installed, where it is neither installed nor named."""
        known = self._toolbox.mcp is not None and SERVER in self._toolbox.mcp.names
        return None if known else f"n8n-mcp is not installed; {HOW}"

    async def reach(self) -> str | None:
        """Why it cannot be reached; None where it can."""
        if self.not_installed is not None:
            return self.not_installed
        try:
            await self._toolbox.connect(SERVER)
        except (OSError, RopewalkError) as error:
            return f"n8n-mcp cannot be reached: {error}"
        return None

    async def call(self, tool: str, arguments: Mapping[str, Json]) -> Any:
        """What a tool gives. ToolError where it refuses, ServerDown where it is not there; a server that died is
        started again once: its calls only read."""
        if self._toolbox.get(f"{SERVER}:{tool}") is None and (why := await self.reach()) is not None:
            raise ServerDown(why)
        try:
            return await self._run(tool, arguments)
        except ToolError as error:
            if (why := await self.reach()) is not None:
                raise ServerDown(why) from error
            if not isinstance(error.__cause__, ConnectionError):
                raise
        return await self._run(tool, arguments)

    async def _run(self, tool: str, arguments: Mapping[str, Json]) -> Any:
        return (await self._runner.run(f"{SERVER}:{tool}", dict(arguments))).structured


def command_of(directory: Path) -> str | None:
    """Where the command is, if it is installed."""
    here = directory / "node_modules" / ".bin"
    return shutil.which(SERVER, path=str(here)) or shutil.which(SERVER)
