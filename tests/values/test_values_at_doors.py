"""The value of a flow of every kind, as each door gives it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fork_server
from ropewalk.tools.mcp.servers import McpServers
from serve.server import Served, serve

from .flow_kinds import DOCUMENTS, INPUT, KINDS, SCHEMAS, VALUES, source

pytestmark = pytest.mark.process

COMMAND = str(Path(sys.executable).with_name("ropewalk"))
TESTS = str(Path(__file__).parents[1])
MODULE = f"""\
import sys

sys.path.insert(0, {TESTS!r})
from pathlib import Path

from values.flow_kinds import KINDS, app, ping, search, source

home = app()
made = [home.as_tool(source(kind, Path(__file__).parent), name=kind.replace(" ", "_")) for kind in KINDS]
globals().update({{tool.name: tool for tool in made}})
"""
FLOWS = '[mcp_server]\nflows = ["flows"]\n'


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("values")
    (folder / "flows").mkdir()
    for kind, document in DOCUMENTS.items():
        if kind != "agent":  # which needs a model
            (folder / "flows" / f"{kind}.json").write_text(json.dumps({**document, "name": f"file {kind}"}))
    source("experience", folder / "flows")
    yield from serve(folder, settings=FLOWS, tools=MODULE)


def tool_name(kind: str) -> str:
    return kind.replace(" ", "_")


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_line_calls_it_as_a_tool(kind: str, served: Served) -> None:
    words = [COMMAND, "tools", "call", tool_name(kind), "topic=rope", "--json"]
    done = subprocess.run(words, cwd=served.folder, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] == VALUES[kind]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind in DOCUMENTS and kind != "agent"])
def test_http_runs_it(kind: str, served: Served) -> None:
    done = served.post("/api/runs", {"document": DOCUMENTS[kind], "input": INPUT, "wait": 20}).json()
    assert (done["status"], done["result"]) == ("completed", VALUES[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_http_calls_it_as_a_tool(kind: str, served: Served) -> None:
    node = {"id": "a", "type": "tool", "tool": tool_name(kind), "params": INPUT}
    done = served.post("/api/runs", {"document": {"kind": "chain", "nodes": [node]}, "wait": 20}).json()
    assert done["result"] == {"a": VALUES[kind]}
    listed = {tool["name"]: tool for tool in served.get("/api/tools").json()["tools"]}
    assert listed[tool_name(kind)]["outputSchema"] == SCHEMAS[kind]


def test_mcp_offers_every_kind_with_its_schema_and_its_value(served: Served) -> None:
    async def body() -> None:
        servers = McpServers()
        env = {"PYTHONPATH": os.environ["PYTHONPATH"]} if os.environ.get("PYTHONPATH") else {}
        servers.add(
            "here",
            {
                "command": fork_server.program("ropewalk"),
                "args": ["mcp", "--tools"],
                "cwd": str(served.folder),
                "env": env,
            },
        )
        async with servers:
            await servers.connect("here")
            offered = {tool.name: tool for tool in servers.tools("here")}
            names = {tool_name(kind): kind for kind in KINDS}
            files = {f"file_{tool_name(kind)}": kind for kind in DOCUMENTS if kind != "agent"}
            for name, kind in {**names, **files, "k": "experience"}.items():
                shown, value = SCHEMAS[kind], VALUES[kind]
                if shown["type"] != "object":
                    shown = {"type": "object", "properties": {"result": shown}, "required": ["result"]}
                    value = {"result": value}
                found: Any = offered[name]
                assert found.output_schema == shown, name
                result = await servers.call_tool("here", name, INPUT)
                assert result.structured_content == value, name

    asyncio.run(body())
