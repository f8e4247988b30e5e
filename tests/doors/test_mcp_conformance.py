"""Judged by the protocol's own conformance tests: our server, and our client as their driver, in both revisions.

`conformance/expected-REVISION.yaml` lists what does not pass, with the reason; the tool fails where something else
fails and where something listed passes.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp_project import Served
from test_mcp_http import listening

from ropewalk.tools.mcp import McpServers, ServerRefused
from tools.mcp_lab import node_tool

HERE = Path(__file__).parent / "conformance"
REVISIONS = ["2025-11-25", "2026-07-28"]


def judge(role: str, revision: str) -> list[str]:
    """The command line of the conformance tool."""
    expected = str(HERE / f"expected-{revision}.yaml")
    tool = node_tool("conformance", "dist/index.js")
    return [*tool, role, "--requirements", revision, "--expected-failures", expected]


def judged(said: str) -> str:
    """The end of what it prints: the summary."""
    at = max(said.find("=== SUMMARY ==="), said.find("=== SUITE SUMMARY ==="))
    return said[at:] if at >= 0 else said[-4000:]


@pytest.mark.node
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_server_conforms(tmp_path: Path, revision: str) -> None:
    command = judge("server", revision)
    served = Served(tmp_path)
    shutil.rmtree(tmp_path / "flows")
    shutil.copytree(HERE, tmp_path, dirs_exist_ok=True)
    with listening(served, "--no-token", token=None) as found:
        done = subprocess.run([*command, "--url", found.url], capture_output=True, text=True, timeout=100, cwd=tmp_path)
    assert done.returncode == 0, judged(done.stdout + done.stderr)


@pytest.mark.node
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_client_conforms(tmp_path: Path, revision: str) -> None:
    command = [*judge("client", revision), "--command", f"{sys.executable} -S -E {HERE / 'client.py'}"]

    async def case() -> tuple[int | None, str]:
        place = tmp_path / "line"
        env = {**os.environ, "ROPEWALK_CONFORMANCE_SOCKET": str(place)}
        async with await asyncio.start_unix_server(answer, place):
            judge = await asyncio.create_subprocess_exec(
                *command, env=env, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
            )
            said, _ = await judge.communicate()
            return judge.returncode, said.decode()

    code, said = asyncio.run(asyncio.wait_for(case(), 100))
    assert code == 0, judged(said)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One scenario: drive our client, and say how that went."""
    asked = json.loads(await reader.readline())
    try:
        said, code = await drive(asked), 0
    except (ConnectionError, TimeoutError, ServerRefused) as error:
        said, code = str(error), 1
    writer.write(json.dumps({"said": said, "code": code}).encode() + b"\n")
    await writer.drain()
    writer.close()


async def drive(asked: dict[str, Any]) -> str:
    """Connect, list the tools and call each, or those that the scenario names."""
    revision = asked["MCP_CONFORMANCE_PROTOCOL_VERSION"]
    context = json.loads(asked["MCP_CONFORMANCE_CONTEXT"] or "{}")
    mode = revision if revision == "2026-07-28" else "legacy"
    said = []
    async with McpServers() as servers:
        servers.add("scenario", {"url": asked["url"], "mode": mode, "timeout": 20})
        await servers.connect("scenario")
        tools = servers.tools("scenario")
        named = context.get("toolCalls") or [{"name": tool.name, "arguments": arguments(tool)} for tool in tools]
        for call in named:
            try:
                said.append(str(await servers.call_tool("scenario", call["name"], call["arguments"])))
            except ServerRefused as error:
                said.append(str(error))
    return "\n".join(said)


def arguments(tool: Any) -> dict[str, Any]:
    """What a scenario's tool wants to be called with."""
    if tool.name == "json_schema_echo":
        shown = next(name for name in tool.input_schema["properties"])
        return {shown: tool.input_schema} if shown == "schema" else {"schema": tool.input_schema}
    return {"a": 2, "b": 3} if tool.name == "add_numbers" else {}
