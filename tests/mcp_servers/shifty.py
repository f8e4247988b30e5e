"""A server whose tools are what a JSON file says, read again at each call of `reload`: `shifty.py FILE [PORT] [quiet]`.

The file holds the list of tools as MCP spells them. Every tool answers with its own name, and is noted in FILE.calls;
`die` ends the process. With a PORT it speaks streamable HTTP, and prints "ready" once it listens; it is another process
each time, as far as its clients can see, since it keeps no sessions. With `quiet` it announces no changes.
"""

from __future__ import annotations

import json
import os
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
    with FILE.with_suffix(".calls").open("a") as file:
        file.write(params.name + "\n")
    if params.name == "die":
        os._exit(3)
    if params.name == "reload":
        await bus.publish(ToolsListChanged())
        await ctx.session.send_tool_list_changed()
    return types.CallToolResult(content=[types.TextContent(type="text", text=params.name)])


server: Server[Any] = Server(
    "shifty",
    on_list_tools=tools,
    on_call_tool=call,
    **({} if "quiet" in sys.argv else {"on_subscriptions_listen": ListenHandler(bus)}),
)


async def main() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options(NotificationOptions(tools_changed=True)))


def http(port: int) -> None:
    import uvicorn

    class Said(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            print("ready", flush=True)

    app = server.streamable_http_app(stateless_http=True)
    Said(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", timeout_graceful_shutdown=1)).run()


if len(sys.argv) > 2:
    http(int(sys.argv[2]))
else:
    anyio.run(main)
