"""A saved plan is a tool and a definition for every later process: Python, the command line and HTTP."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ropewalk import App
from ropewalk.doors.http.site import make_site
from ropewalk.errors import InvalidFlow, NotFound, ToolNotFound

pytestmark = pytest.mark.anyio

TOOLS = '''
from ropewalk import tool

@tool(annotations={"readOnlyHint": True})
async def get_order(id: int) -> dict[str, int]:
    """Get an order."""
    return {"id": id}
'''
CODE = "id: int\nreturn await get_order(id=id)"


async def save(home: Path) -> None:
    (home / "saved_plan_tools.py").write_text(TOOLS)
    (home / "ropewalk.toml").write_text('[tools]\nmodules = ["saved_plan_tools"]\n')
    async with App.open(home) as app:
        answer = await app.plans.save_plan("look", CODE, "Look at an order.")
        assert answer["status"] == "saved"


@pytest.mark.parametrize("source", ["look", "plans:look"])
async def test_a_saved_plan_is_run_by_its_id(tmp_path: Path, source: str) -> None:
    await save(tmp_path)
    async with App.open(tmp_path) as app:
        assert (await app.run(source, {"id": 3})).result == {"id": 3}
        assert (await app.validate(source)).problems == ()


async def test_a_saved_plan_is_called_as_a_tool(tmp_path: Path) -> None:
    await save(tmp_path)
    async with App.open(tmp_path) as app:
        assert await app.call_tool("plans:look", {"id": 4}) == {"id": 4}
        with pytest.raises(NotFound, match="did you mean 'look'"):
            await app.run("loook", {"id": 3})


def test_the_command_line_lists_shows_selects_and_calls_it(project: Any) -> None:
    asyncio.run(save(project.home))
    assert "plans:look  Look at an order." in project("tools", "ls").out
    shown = json.loads(project("tools", "show", "plans:look").out)
    assert shown["inputSchema"]["required"] == ["id"]
    assert "plans:look" in project("tools", "select", "look at an order", "--threshold", "0").out
    assert json.loads(project("tools", "call", "plans:look", "id=5").out) == {"id": 5}


NO_PLAN = "there is no saved plan 'lok'; did you mean plans:look?"


def test_a_missing_tool_with_a_prefix_of_our_own_is_no_missing_server(project: Any) -> None:
    async def work() -> None:
        await save(project.home)
        async with App.open(project.home) as app:
            for id, reason in {
                "plans:lok": NO_PLAN,
                "plans:weather": "there is no saved plan 'weather'; the saved plans are plans:look",
                "ropewalk:valeu": "there is no built-in tool 'valeu'; did you mean ropewalk:value?",
                "ropewalk:value": "'value' is built in, and only a flow can call it",
                "impl:look": "'impl' means a file in a directory of an experience",
            }.items():
                with pytest.raises(ToolNotFound, match=re.escape(reason)):
                    await app.call_tool(id)
                with pytest.raises(NotFound, match=re.escape(f"no tool '{id}': {reason}")):
                    await app.jobs.find_tool(id)
            nodes = [{"id": "a", "type": "tool", "tool": "plans:lok"}]
            with pytest.raises(InvalidFlow, match=re.escape(NO_PLAN)):
                await app.run({"kind": "chain", "name": "c", "nodes": nodes})
            transport = httpx2.ASGITransport(make_site(app, "t"))
            head = {"Authorization": "Bearer t"}
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=head) as client:
                refused = await client.post("/api/tools/plans:lok", json={"arguments": {}})
            assert (refused.status_code, NO_PLAN in refused.text) == (404, True)

    asyncio.run(work())
    refused = project("tools", "call", "plans:lok")
    assert refused.err.startswith(f"error: no tool 'plans:lok': {NO_PLAN}")


def test_listing_tools_creates_no_store(project: Any) -> None:
    (project.home / "saved_plan_tools.py").write_text(TOOLS)
    (project.home / "ropewalk.toml").write_text('[tools]\nmodules = ["saved_plan_tools"]\n')
    assert "get_order" in project("tools", "ls").out
    assert not (project.home / ".ropewalk").exists()
