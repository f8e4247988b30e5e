"""What an MCP client gets of a flow that streams, and of one that gives images: progress and real content blocks."""

from __future__ import annotations

import asyncio
import json

import pytest
from mcp_project import ERAS, TOOLS, Served, served

from agreement import agree
from mcp_servers.pictures import EVERYTHING, PNG
from ropewalk.tools.tool import ProgressEvent
from tools.mcp_lab import forked

__all__ = ["served"]

MORE = '''
from ropewalk import StreamEvent

@tool
async def parts(n: int):
    """Give parts, and say how far it is."""
    for i in range(n):
        yield StreamEvent("progress", data={"progress": i + 1, "total": n})
        yield f"part{i}"
'''
STREAMING = "kind: chain\nname: streaming\nnodes:\n  - {id: g, type: tool, tool: parts, params: {n: 2}}\n"
LOOK = "kind: composition\nname: look\nnodes:\n  - {id: got, type: tool, tool: 'pics:everything'}\n"


@pytest.fixture
def project(served: Served) -> Served:
    served.write("mcp_door_tools.py", TOOLS + MORE)
    served.write(".mcp.json", json.dumps({"mcpServers": {"pics": forked("pictures.py")}}))
    agree(served.home)
    served.write("flows/streaming.yaml", STREAMING)
    served.write("flows/look.yaml", LOOK)
    return served


@pytest.mark.parametrize("era", ERAS)
def test_chunks_and_progress_of_a_node_are_progress_that_grows_to_the_total(project: Served, era: str) -> None:
    async def case() -> None:
        told: list[ProgressEvent] = []
        async with project.client(mode=era) as mcp:
            await mcp.call_tool("here", "streaming", on_progress=told.append)
        assert [event.message for event in told] == [
            "g: started", "g: 1 of 2", "g: part0", "g: 2 of 2", "g: part1", "g: done",
        ]  # fmt: skip
        numbers = [event.progress for event in told]
        assert numbers == sorted(set(numbers))
        assert (numbers[0], numbers[-1]) == (1, 2)
        assert {event.total for event in told} == {2}

    asyncio.run(case())


@pytest.mark.parametrize("era", ERAS)
def test_a_client_gets_the_content_blocks_of_a_flow(project: Served, era: str) -> None:
    async def case() -> None:
        async with project.client(mode=era) as mcp:
            got = await mcp.call_tool("here", "look")
        wanted = [block for block in EVERYTHING if getattr(block, "text", None) != ""]
        assert [block.type for block in got.content] == [block.type for block in wanted]
        assert got.content[1].data == PNG
        assert list(got.content) == wanted

    asyncio.run(case())
