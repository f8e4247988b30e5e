"""How often a call over MCP looks at the flow files of the project, counted in system calls."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client import Client

from ropewalk import App
from ropewalk.doors.mcp.catalogue import Catalogue, Finder
from ropewalk.doors.mcp.flows import Flows
from ropewalk.doors.mcp.gateway import Tools
from ropewalk.doors.mcp.primitives import Primitives
from ropewalk.doors.mcp.prompts import FlowPrompts
from ropewalk.doors.mcp.server import McpDoor

SETTLED = 3  # calls after which the server has looked at the list that the client got


def write(home: Path, name: str, text: str) -> None:
    node = f"{{id: a, type: transform, input: '{text}'}}"
    (home / f"{name}.yaml").write_text(f"kind: chain\nname: {name}\nnodes: [{node}]\n")


@asynccontextmanager
async def serving(home: Path, **options: Any) -> AsyncIterator[tuple[App, Client]]:
    async with App("memory") as app:
        catalogue = Catalogue(Finder(app), [Flows(app, ["*.yaml"], home)], [Tools(app)])
        door = McpDoor(catalogue, primitives=Primitives(FlowPrompts(lambda: catalogue.tools), None, None))
        door.has_one_client = True
        async with door.open(), Client(door.server, **options) as client:
            await client.list_tools()
            yield app, client


async def said(client: Client, name: str) -> str:
    result: Any = await client.call_tool(name, {})
    assert not result.is_error, result
    return str(result.structured_content["a"])


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Counter[str]:
    """Counts the stats of files and the listings of the directory; the look that comes every second never comes."""
    monkeypatch.setattr("ropewalk.doors.mcp.server._LOOK", 3600.0)
    monkeypatch.setattr("ropewalk.doors.mcp.catalogue._MAX_AGE", 3600.0)
    counted: Counter[str] = Counter()

    def counting(name: str) -> Any:
        real = getattr(os, name)

        def look(path: Any = ".", *args: Any, **options: Any) -> Any:
            if isinstance(path, (str, os.PathLike)) and str(path).startswith(str(tmp_path)):
                counted[f"{name} {Path(path).name}"] += 1
            return real(path, *args, **options)

        return look

    for name in ("stat", "scandir", "listdir"):
        monkeypatch.setattr(os, name, counting(name))
    return counted


def test_a_call_stats_its_own_file_and_looks_at_no_other(tmp_path: Path, looks: Counter[str]) -> None:
    for number in range(40):
        write(tmp_path, f"f{number}", f"text {number}")

    async def case() -> None:
        async with serving(tmp_path) as (_, client):
            assert looks["stat f39.yaml"] > 0  # the list of tools looks at all
            assert looks[f"scandir {tmp_path.name}"] > 0
            for _ in range(SETTLED):
                await said(client, "f0")
            looks.clear()
            for _ in range(10):
                assert await said(client, "f0") == "text 0"
            assert looks["stat f0.yaml"] >= 10
            assert set(looks) == {"stat f0.yaml"}

    asyncio.run(case())


def test_a_changed_file_runs_as_it_is_now_and_a_new_one_at_once(tmp_path: Path, looks: Counter[str]) -> None:
    write(tmp_path, "f0", "old")

    async def case() -> None:
        async with serving(tmp_path) as (_, client):
            assert await said(client, "f0") == "old"
            write(tmp_path, "f0", "the newer text")
            assert await said(client, "f0") == "the newer text"
            write(tmp_path, "f1", "new")
            assert await said(client, "f1") == "new"
            assert [tool.name for tool in (await client.list_tools()).tools] == ["f0", "f1"]
            (tmp_path / "f1.yaml").unlink()
            assert [tool.name for tool in (await client.list_tools()).tools] == ["f0"]

    asyncio.run(case())


def test_a_call_that_brings_a_tool_is_announced_although_no_look_is_due(tmp_path: Path, looks: Counter[str]) -> None:
    write(tmp_path, "f0", "text")

    async def case() -> None:
        announced = asyncio.Event()

        async def hear(message: Any) -> None:
            if isinstance(message, types.ToolListChangedNotification):
                announced.set()

        async def late() -> str:
            return ""

        async with serving(tmp_path, mode="legacy", message_handler=hear) as (app, client):
            for _ in range(SETTLED):
                await said(client, "f0")
            app.toolbox.register(late)  # as a tool of the project may do
            await said(client, "f0")
            await asyncio.wait_for(announced.wait(), 60)

    asyncio.run(case())
