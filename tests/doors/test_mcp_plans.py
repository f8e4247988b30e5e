"""`ropewalk mcp --plans`: a client writes programs, which wait, resume and become tools."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
from mcp_project import COMMAND, ERAS, Served, served

import fork_server
from ropewalk.app.plan_operations import OPERATIONS

pytestmark = pytest.mark.process

__all__ = ["served"]

TOOLS = '''
from pathlib import Path
from ropewalk import tool

@tool(annotations={"readOnlyHint": True})
def upper(text: str) -> str:
    """Make it upper case."""
    return text.upper()

@tool
def unmake(name: str) -> str:
    """Take back a table."""
    return name

@tool(undo=unmake)
def make(name: str) -> str:
    """Make a table."""
    return name

@tool(annotations={"destructiveHint": True})
def drop(name: str) -> str:
    """Drop a table."""
    with Path("dropped").open("a") as file:
        file.write(name + "\\n")
    return name
'''
CODE = 'words = [await upper(text=w) for w in ["a", "b"]]\nreturn "".join(words)'


@pytest.fixture
def project(served: Served) -> Served:
    served.write("mcp_door_tools.py", TOOLS)
    return served


async def answer(mcp: Any, name: str, args: dict[str, Any]) -> dict[str, Any]:
    result = await mcp.call_tool("here", name, args)
    assert not result.is_error, result
    content: dict[str, Any] = result.structured_content
    return content


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("gateway", [(), ("--gateway",)])
def test_the_operations(project: Served, era: str, gateway: tuple[str, ...]) -> None:
    async def case() -> None:
        async with project.client("--plans", *gateway, mode=era) as mcp:
            await mcp.connect("here")
            tools = {tool.name: tool for tool in mcp.tools("here")}
            assert OPERATIONS.keys() <= tools.keys()
            found = await answer(mcp, "find_tools", {"request": "upper case"})
            assert "async def upper(*, text: str) -> str:" in found["stubs"]
            checked = await answer(mcp, "check_plan", {"code": CODE})
            assert checked["facts"]["maxCalls"] == 2
            wrong = await answer(mcp, "run_plan", {"code": "await uper(text='a')"})
            assert "did you mean upper" in wrong["problems"][0]["message"]
            done = await answer(mcp, "run_plan", {"code": CODE, "budget": {"calls": 2}})
            assert (done["status"], done["result"]) == ("completed", "AB")
            failed = await answer(mcp, "run_plan", {"code": "await make(name='t')\n1 // 0"})
            assert [step["tool"] for step in failed["undo"]["steps"]] == ["unmake"]
            undone = await answer(mcp, "undo_run", {"run_id": failed["runId"]})
            assert (undone["status"], undone["undone"][0]["args"]) == ("undone", {"name": "t"})

    asyncio.run(case())


def test_a_destructive_call_waits_for_a_person(project: Served) -> None:
    dropped = project.home / "dropped"

    async def case() -> None:
        async with project.client("--plans") as mcp:
            await mcp.connect("here")
            waiting = await answer(mcp, "run_plan", {"code": 'return await drop(name="t")'})
            assert waiting["status"] == "waiting"
            own = {"run_id": waiting["runId"], "decision": {"approved": True}}
            refused = await mcp.call_tool("here", "resume_run", own)
            assert refused.is_error
            assert "a person must decide" in str(refused.content)
            assert not dropped.exists()
            fork_server.run(
                [COMMAND, "runs", "approve", waiting["runId"]], cwd=project.home, env={**os.environ}, check=True
            )
            done = await answer(mcp, "resume_run", {"run_id": waiting["runId"]})
            assert done["result"] == "t"

    asyncio.run(case())
    assert dropped.read_text() == "t\n"


def test_a_saved_plan_is_listed_to_the_next_client(project: Served) -> None:
    code = "word: str\nreturn await upper(text=word)"
    save = {"name": "shout_it", "code": code, "description": "Say a word loud."}
    config = project.home / "ropewalk.toml"
    config.write_text(config.read_text() + '[plans]\noffer = true\nsave = "allow"\n')

    async def case() -> None:
        async with project.client() as mcp:
            await mcp.connect("here")
            saved = await answer(mcp, "save_plan", save)
            assert (saved["status"], saved["version"]) == ("saved", 1)
        async with project.client() as mcp:
            await mcp.connect("here")
            tools = {tool.name: tool for tool in mcp.tools("here")}
            assert tools["shout_it"].input_schema["required"] == ["word"]
            assert (await answer(mcp, "shout_it", {"word": "ho"}))["result"] == "HO"

    asyncio.run(case())


def test_the_operations_are_off_unless_asked_for(project: Served) -> None:
    async def case() -> None:
        async with project.client() as mcp:
            await mcp.connect("here")
            assert not OPERATIONS.keys() & {tool.name for tool in mcp.tools("here")}

    asyncio.run(case())
