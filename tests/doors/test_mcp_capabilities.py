"""What a server of an older revision behind the gateway learns of the client: what that client can do, no more."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp_project import ERAS

import fork_server
from ropewalk import App, Toolbox
from ropewalk.doors.mcp.catalogue import Catalogue, Finder
from ropewalk.doors.mcp.gateway import GatewayPassthrough, Tools
from ropewalk.doors.mcp.primitives import Primitives
from ropewalk.doors.mcp.prompts import FlowPrompts
from ropewalk.doors.mcp.server import McpDoor
from tiers import sampled

pytestmark = pytest.mark.process

SERVER = """
import asyncio, json, os
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def tools(ctx, params):
    names = ["who", *(["asks"] if ctx.session.client_capabilities.elicitation else [])]
    return types.ListToolsResult(tools=[types.Tool(name=name, input_schema={"type": "object"}) for name in names])

async def who(ctx, params):
    known = ctx.session.client_capabilities.model_dump(by_alias=True, mode="json", exclude_none=True)
    return types.CallToolResult(content=[types.TextContent(type="text", text=json.dumps([os.getpid(), known]))])

async def main():
    server = Server("who", on_list_tools=tools, on_call_tool=who)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

asyncio.run(main())
"""


async def accept(_: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={})


async def roots(_: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[])


@pytest.mark.parametrize("era", sampled("conformance", ERAS, 1))
def test_a_server_learns_what_each_client_can_be_asked(tmp_path: Path, era: str) -> None:
    server = tmp_path / "who.py"
    server.write_text(SERVER)
    config = {"command": fork_server.program("python"), "args": [str(server)], "mode": "legacy"}

    async def who(client: Client) -> tuple[int, dict[str, Any]]:
        pid, known = json.loads((await client.call_tool("who", {})).content[0].text)  # type: ignore[union-attr]
        return pid, known

    async def names(client: Client) -> list[str]:
        return sorted(tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools)

    async def case() -> None:
        async with App("memory", toolbox=Toolbox(mcp={"w": config})) as app:
            catalogue = Catalogue(Finder(app), [], [Tools(app, prefix=False)])
            gateway = GatewayPassthrough(app, prefix=False)
            door = McpDoor(
                catalogue, primitives=Primitives(FlowPrompts(lambda: catalogue.tools), None, gateway), patience=300
            )
            async with door.open(), Client(door.server, mode=era) as ben:  # type: ignore[arg-type]
                _, known = await who(ben)
                assert (known, await names(ben)) == ({}, ["who"])
                able: dict[str, Any] = {"elicitation_callback": accept, "list_roots_callback": roots}
                async with Client(door.server, mode=era, **able) as ann:  # type: ignore[arg-type]
                    assert await names(ann) == ["asks", "who"]  # its first list
                    assert await names(ben) == ["who"]
                    pid, known = await who(ann)
                    assert known == {"elicitation": {"form": {}, "url": {}}, "roots": {}}
                    assert await who(ann) == (pid, known)
                assert ((await who(ben))[1], await names(ben)) == ({}, ["who"])

    asyncio.run(case())
