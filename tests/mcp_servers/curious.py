"""An MCP server over stdio whose tool asks its client: `what` is form, url, roots or sample. It answers in JSON.

With `uncaught` it asks for a form, and the refusal becomes the error of the call.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

FORM = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}},
    "required": ["city"],
}


async def list_tools(_: object, __: object) -> types.ListToolsResult:
    schema = {"type": "object", "properties": {"what": {"type": "string"}}}
    return types.ListToolsResult(tools=[types.Tool(name="ask", input_schema=schema)])


async def ask(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    what, session = (params.arguments or {})["what"], ctx.session
    if what == "uncaught":
        await session.elicit_form("Where to?", FORM, related_request_id=ctx.request_id)
    try:
        if what == "form":
            answer = await session.elicit_form("Where to?", FORM, related_request_id=ctx.request_id)
        elif what == "url":
            answer = await session.elicit_url(
                "Pay here", "https://pay.example/1", "1", related_request_id=ctx.request_id
            )
        elif what == "roots":
            answer = await session.list_roots()
        else:
            content = types.TextContent(type="text", text="Hello?")
            message = types.SamplingMessage(role="user", content=content)
            answer = await session.create_message([message], max_tokens=9, related_request_id=ctx.request_id)
        text = answer.model_dump_json(by_alias=True, exclude_none=True)
    except MCPError as error:
        text = json.dumps({"refused": error.error.message})
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


async def main() -> None:
    server = Server("curious", on_list_tools=list_tools, on_call_tool=ask)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


asyncio.run(main())
