"""Judged by the protocol's own conformance tests: our server, and our client as their driver, in both revisions.

`conformance/expected-REVISION.yaml` lists what does not pass, with the reason; the tool fails where something else
fails and where something listed passes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import conformance_logins as logins
import pytest
from mcp_project import Served
from test_mcp_http import listening

from ropewalk.errors import ConfigError
from ropewalk.tools.mcp.login_errors import LoginRequired
from ropewalk.tools.mcp.requests import ServerRefused
from ropewalk.tools.mcp.servers import McpServers
from tools.mcp_lab import node_tool

HERE = Path(__file__).parent / "conformance"
REVISIONS = ["2026-07-28", "2025-11-25"]
# What every run plays; the campaign plays all that the revisions require, and all of the extension.
SERVER = "tools-call-with-progress"
TASK = "tasks-request-headers"
CLIENT = ["request-metadata", "auth/scope-step-up"]
TASKS = [
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-status-notifications",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
]


def judge(role: str, revision: str) -> list[str]:
    """The command line of the conformance tool."""
    expected = str(HERE / f"expected-{revision}.yaml")
    tool = node_tool("conformance", "dist/index.js")
    return [*tool, role, "--requirements", revision, "--expected-failures", expected]


def place(served: Served, revision: str) -> None:
    """Write the project of the scenarios. The server behind its gateway speaks the same revision as the client."""
    shutil.rmtree(served.home / "flows")
    shutil.copytree(HERE, served.home, dirs_exist_ok=True)
    mode = revision if revision == "2026-07-28" else "legacy"
    settings = (HERE / "ropewalk.toml").read_text().replace("MODE", mode).replace("PYTHON", sys.executable)
    served.write("ropewalk.toml", settings)


def judged(said: str) -> str:
    """The end of what it prints: the summary."""
    at = max(said.find("=== SUMMARY ==="), said.find("=== SUITE SUMMARY ==="))
    return said[at:] if at >= 0 else said[-4000:]


@pytest.mark.node
@pytest.mark.campaign("conformance", only=True)
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_server_conforms(tmp_path: Path, revision: str) -> None:
    command = judge("server", revision)
    served = Served(tmp_path)
    place(served, revision)
    with listening(served, "--no-token", token=None) as found:
        done = subprocess.run([*command, "--url", found.url], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, judged(done.stdout + done.stderr)


@pytest.mark.node
@pytest.mark.campaign("conformance", only=True)
@pytest.mark.parametrize("scenario", TASKS)
def test_flows_are_tasks_by_the_extension(tmp_path: Path, scenario: str) -> None:
    """No revision requires an extension, so `--requirements` only reports these."""
    serve(tmp_path, scenario)


@pytest.mark.node
def test_the_server_passes_scenarios_of_the_protocol_and_of_its_extension(tmp_path: Path) -> None:
    serve(tmp_path, SERVER, TASK)


def serve(home: Path, *scenarios: str) -> None:
    """Serve the project to some scenarios, all at once."""
    tool = node_tool("conformance", "dist/index.js")
    served = Served(home)
    place(served, REVISIONS[0])
    with listening(served, "--no-token", token=None) as found:
        commands = [[*tool, "server", "--scenario", scenario, "--url", found.url] for scenario in scenarios]
        judges = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=home)
            for command in commands
        ]
        said = [judge.communicate()[0] for judge in judges]
    assert [judge.returncode for judge in judges] == [0] * len(judges), "\n".join(map(judged, said))


@pytest.mark.node
@pytest.mark.campaign("conformance", only=True)
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_client_conforms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, revision: str) -> None:
    connect_client(tmp_path, monkeypatch, judge("client", revision))


@pytest.mark.node
@pytest.mark.parametrize("scenario", CLIENT)
def test_the_client_passes_a_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: str) -> None:
    tool = node_tool("conformance", "dist/index.js")
    connect_client(tmp_path, monkeypatch, [*tool, "client", "--scenario", scenario, "--spec-version", REVISIONS[0]])


def connect_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    """Let the conformance tool drive our client, and fail as it does."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # the logins of the scenarios are not those of the user
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    command = [*words, "--timeout", "300000", "--command", f"{sys.executable} -S -E {HERE / 'client.py'}"]

    async def case() -> tuple[int | None, str]:
        place = tmp_path / "line"
        env = {**os.environ, "ROPEWALK_CONFORMANCE_SOCKET": str(place)}
        async with await asyncio.start_unix_server(answer, place):
            judge = await asyncio.create_subprocess_exec(
                *command, env=env, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
            )
            said, _ = await judge.communicate()
            return judge.returncode, said.decode()

    code, said = asyncio.run(asyncio.wait_for(case(), 900))
    if code != 0:  # scenarios have limits of a few seconds of their own, which a busy machine exceeds
        code, said = asyncio.run(asyncio.wait_for(case(), 900))
    assert code == 0, judged(said)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One scenario: drive our client, and say how that went."""
    asked = json.loads(await reader.readline())
    try:
        said, code = await drive(asked), 0
    except (ConnectionError, TimeoutError, ServerRefused, ConfigError, LoginRequired) as error:
        said, code = str(error), 1
    writer.write(json.dumps({"said": said, "code": code}).encode() + b"\n")
    await writer.drain()
    writer.close()


async def drive(asked: dict[str, Any]) -> str:
    """Connect, list the tools and call each, or those that the scenario names; log in where the server wants it."""
    revision = asked["MCP_CONFORMANCE_PROTOCOL_VERSION"]
    context = json.loads(asked["MCP_CONFORMANCE_CONTEXT"] or "{}")
    config = await logins.settings(asked["MCP_CONFORMANCE_SCENARIO"] or "", asked["url"], context)
    mode = revision if revision == "2026-07-28" else "legacy"
    said = []
    name = asked["MCP_CONFORMANCE_SCENARIO"].replace("/", "-")  # scenarios run at once, and each has its own login
    async with McpServers() as servers:
        servers.on_elicit = lambda question: {}  # a user who takes the defaults
        servers.add(name, {"url": asked["url"], "mode": mode, "timeout": 20, **config})
        await connect(servers, name)
        tools = servers.tools(name)
        named = context.get("toolCalls") or [{"name": tool.name, "arguments": arguments(tool, tools)} for tool in tools]
        for call in named:
            said.append(await call_once(servers, name, call))
    return "\n".join(said)


async def connect(servers: McpServers, name: str) -> None:
    """Connect as a user does: log in when the server wants it, and again if it has moved to other logins meanwhile."""
    for _ in range(2):
        try:
            return await servers.connect(name)
        except LoginRequired as error:
            with contextlib.suppress(LoginRequired):
                await servers.log_in(name, logins.browse, scope=error.scope)
    return await servers.connect(name)


async def call_once(servers: McpServers, name: str, call: dict[str, Any]) -> str:
    """Call a tool as a user does: after a login, if it needs one with more rights."""
    for may_log_in in (True, False):
        try:
            return str(await servers.call_tool(name, call["name"], call["arguments"]))
        except ServerRefused as error:
            return str(error)
        except LoginRequired as error:
            if not may_log_in:
                return str(error)
            await servers.log_in(name, logins.browse, scope=error.scope)
    raise AssertionError("unreachable")


def arguments(tool: Any, tools: list[Any]) -> dict[str, Any]:
    """What a scenario's tool wants to be called with."""
    if "schema" in (tool.input_schema.get("properties") or {}):
        return {"schema": next(other.input_schema for other in tools if other.name != tool.name)}
    return {"a": 2, "b": 3} if tool.name == "add_numbers" else {}
