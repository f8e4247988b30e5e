"""A gateway with a server that answers only when it is told to: nobody waits for it, and its tools come later."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp_project import ERAS, Served, served

import fork_server
from patience import until
from ropewalk.app.app import App
from ropewalk.tools.mcp.requests import ServerRefused
from ropewalk.tools.mcp.servers import McpServers
from tiers import sampled

pytestmark = pytest.mark.process

__all__ = ["served"]

SERVERS = Path(__file__).parents[1] / "mcp_servers"
FOREVER = 600  # seconds: more than any test may take


def project(served: Served, *more: str) -> Path:
    """A good server and a late one, which begins to answer when the file given back exists."""
    file = served.home / "begin"
    tables = ["[mcp_server]\ngateway = true\n", *more]
    for name, fault in (("good", "none"), ("late", "late")):
        words = [str(SERVERS / "faulty.py"), fault, str(file)]
        tables.append(f"[mcp.{name}]\ncommand = {sys.executable!r}\nargs = {words!r}\nconnect_timeout = {FOREVER}\n")
    served.write("ropewalk.toml", "".join(tables))
    return file


async def listed(mcp: McpServers) -> tuple[list[str], Any]:
    page = await mcp.ask("here", lambda session: session.list_tools(), "tools")
    return [tool.name for tool in page.tools], (page.meta or {}).get("ropewalk/connecting")


@pytest.mark.parametrize("era", sampled("conformance", ERAS, 1))
def test_nobody_waits_for_a_late_server_and_its_tools_are_announced(served: Served, era: str) -> None:
    file = project(served)

    async def case() -> None:
        async with served.client(mode=era) as mcp:
            lists: list[list[str]] = []
            mcp.on_tools(lambda _, tools: lists.append([tool.name for tool in tools]))
            assert (await mcp.call_tool("here", "good__go")).content[0].text == "fine"
            await until(lambda: "good__go" in lists[-1])
            assert await listed(mcp) == (["good__go", "good__second"], ["late"])
            found = await mcp.ask("here", lambda session: session.list_resources(), "resources")
            assert found.resources == []
            with pytest.raises(
                ServerRefused, match=r"Unknown tool: good__stop; .* the tools of late are not known yet"
            ):
                await mcp.call_tool("here", "good__stop")
            waiting = asyncio.create_task(mcp.call_tool("here", "late__go"))
            assert (await mcp.call_tool("here", "good__go")).content[0].text == "fine"
            assert not waiting.done()
            file.touch()
            assert (await waiting).content[0].text == "fine"
            await until(lambda: "late__go" in lists[-1])  # by an announcement: nobody asked for a list
            assert await listed(mcp) == (["good__go", "good__second", "late__go", "late__second"], None)

    asyncio.run(case())


LATE = """
import runpy, sys, time
from pathlib import Path

while not Path("begin").exists():
    time.sleep(0.05)
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize(("script", "tool", "can_ask"), [("pictures.py", "picture", True), ("faulty.py", "go", False)])
def test_a_flow_over_a_server_not_known_yet_can_be_resumed(
    served: Served, script: str, tool: str, can_ask: bool
) -> None:
    """Only a server of the newest revision may ask by default, and its revision is known when it has answered."""
    words = [str(served.write("late.py", LATE)), str(SERVERS / script), "none"]
    late = f"[mcp.late]\ncommand = {fork_server.program('python')!r}\nargs = {words!r}\nconnect_timeout = {FOREVER}\n"
    served.write("ropewalk.toml", f'[mcp_server]\nflows = ["go.json"]\n{late}')
    served.write("go.json", json.dumps({"kind": "runchain", "name": "go", "steps": [{"toolId": f"late:{tool}"}]}))

    async def case() -> None:
        async with served.client() as mcp:
            assert (await listed(mcp))[0] == ["go", "resume_run"]
            (served.home / "begin").touch()
            assert not (await mcp.call_tool("here", "go")).is_error
            assert (await listed(mcp))[0] == (["go", "resume_run"] if can_ask else ["go"])

    asyncio.run(case())


@pytest.mark.campaign("conformance", only=True)
def test_prompts_and_resources_of_a_late_server_are_announced(served: Served) -> None:
    file = project(served)

    async def case() -> None:
        heard: list[str] = []

        async def take(message: object) -> None:
            heard.append(str(getattr(message, "method", "")))

        config = served.config()
        program = StdioServerParameters(
            command=config["command"], args=config["args"], cwd=config["cwd"], env=os.environ | config["env"]
        )
        async with (
            stdio_client(program) as (read, write),
            ClientSession(read, write, message_handler=take) as session,
        ):
            capabilities = (await session.initialize()).capabilities
            assert capabilities.prompts is not None
            assert capabilities.prompts.list_changed
            assert (await session.list_prompts()).prompts == []
            file.touch()
            await until(lambda: "notifications/resources/list_changed" in heard)
            assert "notifications/prompts/list_changed" in heard

    asyncio.run(case())


def test_a_list_waits_at_the_start_as_long_as_the_project_says(served: Served) -> None:
    file = project(served, "wait_for_servers = 60\n")

    async def case() -> None:
        async with served.client() as mcp:
            first = asyncio.create_task(mcp.connect("here"))
            await until(file.with_suffix(".started").exists)
            assert not first.done()
            file.touch()
            await first
            assert [tool.name for tool in mcp.tools("here")][-1] == "late__second"

    asyncio.run(case())


def test_find_tools_says_which_servers_it_does_not_know_yet(served: Served) -> None:
    file = project(served, "max_listed = 1\n")

    async def case() -> None:
        async with served.client() as mcp:
            await mcp.call_tool("here", "good__go")  # by now there is more than one tool
            found = (await mcp.call_tool("here", "find_tools", {"query": "knit a sock"})).structured_content
            assert found["connecting"] == ["late"]
            assert found["note"].endswith("; the tools of late are not known yet: ask again in a few seconds")
            file.touch()
            while "connecting" in found:
                found = (await mcp.call_tool("here", "find_tools", {"query": "knit a sock"})).structured_content
            assert found["total"] == 4

    asyncio.run(case())


def test_the_toolbox_says_who_has_not_answered_and_goes_on_connecting(served: Served) -> None:
    file = project(served)

    async def case() -> None:
        async with App.open(served.home, store="memory") as app:
            assert "late" in await app.toolbox.connect_within(0)
            await until(lambda: app.toolbox.get("good:go") is not None)
            assert await app.toolbox.connect_within(0.1) == ["late"]  # the same attempt, not another
            file.touch()
            assert await app.toolbox.connect_within(None) == []
            assert app.toolbox.get("late:go") is not None
            assert app.toolbox.failures == {}

    asyncio.run(case())


def test_closing_does_not_wait_for_a_late_server(served: Served) -> None:
    project(served)

    async def case() -> None:
        app = App.open(served.home, store="memory")
        assert "late" in await app.toolbox.connect_within(0)
        await app.close()

    asyncio.run(case())


@pytest.mark.campaign("conformance", only=True)
@pytest.mark.parametrize("era", sampled("conformance", reversed(ERAS), 1))
def test_find_tools_learns_for_the_projects_selector(served: Served, era: str) -> None:
    project(served, "max_listed = 1\n").touch()
    query = "hoist the blue peter"

    async def case() -> None:
        async with served.client(mode=era) as mcp:
            await mcp.call_tool("here", "late__go")

            async def find() -> dict[str, float]:
                found = (await mcp.call_tool("here", "find_tools", {"query": query})).structured_content
                return {tool["name"]: tool["score"] for tool in found["tools"]}

            before = await find()
            for _ in range(3):
                await mcp.call_tool("here", "call_tool", {"name": "late__second", "request": query})
            after = await find()
            assert after["late__second"] > before.get("late__second", 0)
            await mcp.call_tool("here", "late__second")  # found by the query, so called for it
            await mcp.call_tool("here", "late__second")  # by its name only
            wrong = await mcp.call_tool("here", "call_tool", {"name": "late__second", "request": 7})
            assert wrong.content[0].text == "request: must be the query with which the tool was found"

    asyncio.run(case())

    async def learnt() -> list[tuple[str, str, int]]:
        async with App.open(served.home) as app:
            return [(use.tool, use.request, use.successes) for use in app.selector.learnt()]

    assert asyncio.run(learnt()) == [("late:second", query, 4)]
