"""An MCP server whose tools give every kind of content, and tell what content they were given; over stdio."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server

PNG = base64.b64encode(b"\x89PNG " + bytes(range(256))).decode()
WAV = base64.b64encode(b"RIFF" + bytes(100)).decode()
PDF = base64.b64encode(b"%PDF-1.4").decode()
EVERYTHING: list[Any] = [
    types.TextContent(type="text", text="look"),
    types.ImageContent(type="image", data=PNG, mime_type="image/png"),
    types.TextContent(type="text", text=""),
    types.AudioContent(type="audio", data=WAV, mime_type="audio/wav"),
    types.ResourceLink(type="resource_link", uri="shelf://a", name="a", mime_type="text/csv", size=3),
    types.EmbeddedResource(
        type="resource", resource=types.TextResourceContents(uri="shelf://t", mime_type="text/plain", text="tëxt")
    ),
    types.EmbeddedResource(
        type="resource", resource=types.BlobResourceContents(uri="shelf://p", mime_type="application/pdf", blob=PDF)
    ),
]


async def call(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    args = params.arguments or {}
    if params.name == "everything":
        return types.CallToolResult(content=EVERYTHING)
    if params.name == "picture":
        return types.CallToolResult(content=EVERYTHING[1:2])
    # "seen": the types of the blocks among the arguments, and the hash of their bytes
    told = [
        part if isinstance(part, str) else [part["type"], hashlib.sha256(_data(part).encode()).hexdigest()[:8]]
        for part in args["parts"]
    ]
    return types.CallToolResult(content=[types.TextContent(type="text", text=json.dumps(told))])


def _data(part: dict[str, Any]) -> str:
    inner = part.get("resource") or part
    return str(part.get("data") or inner.get("blob") or inner.get("text") or part.get("uri"))


async def tools(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    takes = {"type": "object"}
    return types.ListToolsResult(
        tools=[types.Tool(name=name, input_schema=takes) for name in ("everything", "picture", "seen")]
    )


server: Server[Any] = Server("pictures", on_list_tools=tools, on_call_tool=call)


async def stdio() -> None:
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options(NotificationOptions()))


if __name__ == "__main__":
    anyio.run(stdio)
