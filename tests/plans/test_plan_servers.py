"""Plans in files and functions that name tools of MCP servers, which are connected when the plan is loaded."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fork_server
from patience import until
from ropewalk import App
from ropewalk.errors import InvalidFlow
from ropewalk.tools.mcp.servers import McpServers
from serve.server import Served, serve
from tools.mcp_lab import forked

PLAN = "kind: plan\nname: fetch\ncode: |\n  answer = await shop_1.go()\n  return answer\n"
FUNCTION = """
from ropewalk import plan

@plan
async def get() -> object:
    return await shop_1.go()
"""
VALUE = "fine"
SHOP = forked("faulty.py", "none", "none")
SETTINGS = f"""
[mcp.shop-1]
command = {json.dumps(SHOP["command"])}
args = {json.dumps(SHOP["args"])}
[mcp_server]
flows = ["fetch.yaml"]
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "ropewalk.toml").write_text(SETTINGS)
    (tmp_path / "fetch.yaml").write_text(PLAN)
    (tmp_path / "fetch.py").write_text(FUNCTION)
    return tmp_path


def ropewalk(home: Path, *words: str) -> tuple[int, str]:
    done = fork_server.run(
        [Path(sys.executable).with_name("ropewalk"), *words], cwd=home, env=os.environ | {"NO_COLOR": "1"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.process
@pytest.mark.parametrize("source", ["fetch.yaml", "fetch.py:get"])
@pytest.mark.parametrize(
    "command",
    [["validate"], ["preview"], ["graph"], ["convert", "--to", "flow"], ["run"]],
    ids=lambda words: words[0],
)
def test_commands(home: Path, command: list[str], source: str) -> None:
    code, text = ropewalk(home, command[0], source, *command[1:])
    assert code == 0, text
    assert {"validate": "valid", "run": VALUE}.get(command[0], "shop-1:go") in text


@pytest.mark.process
def test_what_a_command_says_of_a_wrong_plan(home: Path) -> None:
    (home / "fetch.yaml").write_text(PLAN.replace("shop_1.go()", "shop_1.gone()"))
    code, text = ropewalk(home, "validate", "fetch.yaml")
    assert (code, "there is no tool 'shop_1.gone'; did you mean shop_1.go?" in text) == (3, True), text


@pytest.mark.process
def test_a_server_that_cannot_be_reached_is_named(home: Path) -> None:
    (home / "ropewalk.toml").write_text('[mcp.shop-1]\ncommand = "no-such-program"\n')
    code, text = ropewalk(home, "run", "fetch.yaml")
    assert code == 3
    assert "the tools of server 'shop-1' are not known: " in text
    assert "no-such-program" in text
    assert "is not defined" not in text


@pytest.mark.parametrize("source", ["fetch.yaml", "fetch.py:get"])
def test_an_app_connects_the_servers_that_a_plan_names(home: Path, source: str) -> None:
    async def case() -> None:
        async with App.open(home, store="memory") as app:
            with pytest.raises(
                InvalidFlow, match="the tools of server 'shop-1' are not known: it is not connected yet"
            ):
                app.load(home / source)
            done = await app.run(home / source)
            assert done.value == VALUE
            assert app.load(home / source).name in ("fetch", "get")  # the server is connected now

    asyncio.run(case())


@pytest.mark.process
def test_a_run_is_resumed_retried_and_forked_with_its_file(home: Path) -> None:
    """Each command is a process that has not connected the server."""
    (home / "fetch.yaml").write_text(PLAN.replace("return answer", 'await wait_for("go")\n  return answer'))
    assert ropewalk(home, "run", "fetch.yaml", "--id", "r")[0] == 4
    assert ropewalk(home, "runs", "send", "r", "go")[0] == 0
    code, text = ropewalk(home, "resume", "r", "fetch.yaml")
    assert (code, VALUE in text) == (0, True), text
    code, text = ropewalk(home, "runs", "fork", "r", "--definition", "fetch.yaml", "--id", "again")
    assert (code, VALUE in text) == (0, True), text
    (home / "fetch.yaml").write_text(PLAN.replace("return answer", "return [answer]"))
    code, text = ropewalk(home, "runs", "fork", "r", "--definition", "fetch.yaml", "--id", "changed")
    assert (code, VALUE in text) == (0, True), text


@pytest.mark.process
@pytest.mark.parametrize(("words", "name"), [([], "fetch"), (["fetch.py:get"], "get")])
def test_an_mcp_server_offers_the_plan(home: Path, words: list[str], name: str) -> None:
    async def case() -> None:
        async with McpServers() as servers:
            servers.add("here", {"command": fork_server.program("ropewalk"), "args": ["mcp", *words], "cwd": str(home)})
            result: Any = await servers.call_tool("here", name, {})
            assert VALUE in result.content[0].text

    asyncio.run(case())


@pytest.mark.campaign("plans", only=True)
@pytest.mark.process
def test_no_client_waits_for_the_silent_server_of_a_plan(home: Path) -> None:
    late = forked("faulty.py", "late", str(home / "begin"))
    (home / "ropewalk.toml").write_text(SETTINGS.replace(json.dumps(SHOP["args"]), json.dumps(late["args"])))

    async def case() -> None:
        async with McpServers() as servers:
            words = ["mcp", "fetch.py:get"]
            servers.add("here", {"command": fork_server.program("ropewalk"), "args": words, "cwd": str(home)})
            lists: list[list[str]] = []
            servers.on_tools(lambda _, tools: lists.append([tool.name for tool in tools]))
            await servers.connect("here")
            assert lists == [[]]
            (home / "begin").touch()
            await until(lambda: "get" in lists[-1])
            assert VALUE in (await servers.call_tool("here", "get", {})).content[0].text

    asyncio.run(case())


@pytest.fixture
def server(home: Path) -> Iterator[Served]:
    yield from serve(home, settings=SETTINGS)


@pytest.mark.process
def test_http(server: Served) -> None:
    document = {"kind": "plan", "name": "fetch", "code": "return await shop_1.go()"}
    for body in ({"definition": {"kind": "file", "id": "fetch.yaml"}}, {"document": document}, {"document": PLAN}):
        done = server.post("/api/runs", {**body, "wait": 30}).json()
        assert (done["status"], VALUE in json.dumps(done)) == ("completed", True)


@pytest.mark.process
@pytest.mark.parametrize("path", ["", "/file/fetch.yaml", "/file/fetch.yaml/drawing?format=text"])
def test_http_shows_the_file(server: Served, path: str) -> None:
    answer = server.get(f"/api/definitions{path}")
    assert (answer.status_code, "fetch" in answer.text) == (200, True)


@pytest.mark.process
@pytest.mark.parametrize("path", ["validate", "preview"])
def test_http_checks_a_document(server: Served, path: str) -> None:
    answer = server.post(f"/api/{path}", {"document": PLAN})
    assert answer.status_code == 200
    assert "shop-1:go" in answer.text
