"""Large results of `call_tool`: handles, which `read_value` and plans read."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from ropewalk import App, tool
from ropewalk.config.settings import PlanSettings
from ropewalk.doors.mcp.catalogue import Catalogue, Finder
from ropewalk.doors.mcp.flows import Flows
from ropewalk.doors.mcp.gateway import Tools
from ropewalk.doors.mcp.server import McpDoor

LIMIT = 1000
FLOW = """
kind: composite
name: many
inputSchema: {type: object, properties: {count: {type: integer}}, required: [count]}
mode: compose
steps: [{name: look, tool: rows, inputMapping: {count: $input.count}}]
"""


@tool
def rows(count: int) -> dict[str, Any]:
    """Give rows."""
    return {"rows": [{"id": number} for number in range(count)]}


@tool
def page() -> Any:
    """Give a picture with a long text."""
    image = types.ImageContent(type="image", data="AAAA", mime_type="image/png")
    return types.CallToolResult(content=[types.TextContent(type="text", text="é" * LIMIT), image])


@tool
def fails() -> str:
    """Fail at length."""
    raise ValueError("no " * LIMIT)


async def call(client: Client, name: str, **arguments: Any) -> Any:
    return await client.call_tool("call_tool", {"name": name, "arguments": arguments})


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
def test_a_large_result_is_a_handle(tmp_path: Path, era: str) -> None:
    (tmp_path / "many.yaml").write_text(FLOW)

    async def case() -> None:
        async with App("memory", tools=[rows, page, fails]) as app:
            app.context.plans = PlanSettings(max_result=LIMIT)
            sources = [Flows(app, ["many.yaml"], tmp_path), Tools(app)]
            door = McpDoor(Catalogue(Finder(app), [], sources, max_listed=1))
            async with door.open(), Client(door.server, mode=era) as client:
                assert [item.name for item in (await client.list_tools()).tools] == [
                    "find_tools",
                    "call_tool",
                    "read_value",
                ]
                small = await call(client, "rows", count=3)
                assert small.structured_content == {"rows": [{"id": 0}, {"id": 1}, {"id": 2}]}
                whole = {"rows": [{"id": number} for number in range(300)]}
                for name in ("rows", "many"):
                    result = await call(client, name, count=300)
                    handle = result.structured_content
                    assert (handle["type"], handle["size"]) == ("object", len(json.dumps(whole, separators=(",", ":"))))
                    assert handle["preview"].startswith('{"rows":[{"id":0},')
                    assert json.loads(result.content[0].text) == handle
                    assert len(result.content) == 1
                    # The model reads the part that it needs, or all of it piece by piece.
                    part = {"value": handle["$value"], "path": "$.rows[-1].id"}
                    assert (await client.call_tool("read_value", part)).structured_content == {
                        "text": "[299]",
                        "size": 5,
                    }
                    text, offset = "", 0
                    while offset is not None:
                        read = {"value": handle["$value"], "offset": offset}
                        piece = (await client.call_tool("read_value", read)).structured_content
                        text, offset = text + piece["text"], piece.get("next")
                    assert json.loads(text) == whole
                    plan = await app.plans.run_plan(f"return len(value({handle['$value']!r})['rows'])")
                    assert plan["result"] == 300
                picture = await call(client, "page")
                assert [block.type for block in picture.content] == ["text", "image"]
                assert picture.structured_content["preview"].startswith('{"result":["éé')
                assert (await call(client, "fails")).is_error
                direct = await client.call_tool("rows", {"count": 300})
                assert direct.structured_content == whole

    asyncio.run(case())


def test_read_value_refuses_what_is_no_handle() -> None:
    async def case() -> None:
        async with App("memory", tools=[rows, page]) as app:
            door = McpDoor(Catalogue(Finder(app), [], [Tools(app)], max_listed=1))
            async with door.open(), Client(door.server) as client:
                for arguments, message in (
                    (
                        {"value": "nobody/result"},
                        "value: there is no value 'nobody/result'; use the `$value` of a handle",
                    ),
                    ({"value": 1}, 'value: 1 is not of type "string"'),
                    ({"value": "x", "offset": -1}, "offset: -1 is less than the minimum of 0"),
                ):
                    refused = await client.call_tool("read_value", arguments)
                    assert refused.is_error
                    assert refused.content[0].text.endswith(message)
                kept = await app.plans.run_plan("return [1]")
                path = await client.call_tool("read_value", {"value": f"{kept['runId']}/result", "path": "$["})
                assert path.content[0].text.startswith("path: ")

    asyncio.run(case())
