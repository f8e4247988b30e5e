"""A server whose tools are what a JSON file says, read again at each call of `reload`: `shifty.py FILE`.

The file holds the list of tools as MCP spells them. Every tool answers with its own name.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import ToolsListChanged

FILE = Path(sys.argv[1])
RELOAD = {"name": "reload", "description": "Reads the file again.", "inputSchema": {"type": "object"}}

bus = InMemorySubscriptionBus()


def current() -> list[types.Tool]:
    return [types.Tool.model_validate(tool, by_name=False) for tool in [RELOAD, *json.loads(FILE.read_text())]]


async def tools(ctx: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=current())


async def call(ctx: Any, params: Any) -> types.CallToolResult:
    if params.name == "reload":
        await bus.publish(ToolsListChanged())
        await ctx.session.send_tool_list_changed()
    return types.CallToolResult(content=[types.TextContent(type="text", text=params.name)])


server: Server[Any] = Server(
    "shifty", on_list_tools=tools, on_call_tool=call, on_subscriptions_listen=ListenHandler(bus)
)


async def main() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options(NotificationOptions(tools_changed=True)))


anyio.run(main)
