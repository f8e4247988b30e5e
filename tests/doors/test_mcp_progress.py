"""Progress of flows that `ropewalk mcp` serves: what is told of each node, how often, and with which total."""

from __future__ import annotations

import asyncio

import pytest
from mcp_project import ERAS, Served, served

from ropewalk.tools.tool import ProgressEvent

__all__ = ["served"]


@pytest.mark.parametrize("era", ERAS)
def test_progress_is_told_per_node_and_only_grows(served: Served, era: str) -> None:
    async def case() -> None:
        told: list[ProgressEvent] = []
        async with served.client(mode=era) as mcp:
            await mcp.call_tool("here", "shout", {"text": "a"}, on_progress=told.append)
        assert [event.message for event in told] == ["up: started", "up: done", "again: started", "again: done"]
        assert [(event.progress, event.total) for event in told] == [(1, 4), (2, 4), (3, 4), (4, 4)]

    asyncio.run(case())


@pytest.mark.parametrize("era", ERAS)
def test_a_loop_has_no_total_and_its_progress_is_thinned(served: Served, era: str) -> None:
    inner = "{id: up, type: tool, tool: upper, params: {text: a}}"
    each = f"{{id: each, type: loop, items: {list(range(100))}, nodes: [{inner}]}}"
    served.write("flows/many.yaml", f"kind: chain\nname: many\nnodes: [{each}]\n")

    async def case() -> None:
        told: list[ProgressEvent] = []
        async with served.client(mode=era) as mcp:
            begun = asyncio.get_running_loop().time()
            await mcp.call_tool("here", "many", on_progress=told.append)
            seconds = asyncio.get_running_loop().time() - begun
        assert (told[0].message, told[-1].message) == ("each: started", "each: done")
        assert {event.total for event in told} == {None}
        assert told[-1].progress == 202
        assert 2 <= len(told) <= 10 * (seconds + 1) + 1

    asyncio.run(case())
