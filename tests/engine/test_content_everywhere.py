"""Content of MCP results in every notation: over `kill -9` and resume, and out of `ropewalk mcp` as real blocks."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import fork_server
from mcp_servers.pictures import EVERYTHING, PDF, PNG, WAV
from patience import wait_until
from ropewalk import flow
from ropewalk.tools.mcp.servers import McpServers
from tools.mcp_lab import forked, python

from .test_content import NOTATIONS, SEEN, VALUE

pytestmark = pytest.mark.process

COMMAND = str(Path(sys.executable).with_name("ropewalk"))
SCRIPT = """
import asyncio, json, sys
from pathlib import Path
from ropewalk import App, tool
from ropewalk.content import content_bytes

store, verb, server, document = sys.argv[1:]

@tool
async def sizes(parts: list) -> list:
    if verb == "hang":
        Path(store + ".held").touch()
        await asyncio.sleep(60)
    return [len(content_bytes(part)) for part in parts if isinstance(part, dict) and "blob" in part["$content"]]

async def main():
    async with App(store, tools=[sizes]) as app:
        app.toolbox.add_mcp("pics", {"command": PYTHON, "args": [server]})
        if verb == "hang":
            await app.run(json.loads(document), run_id="r")
        else:
            await app.resume("r")
            print(json.dumps(app.runs.get("r")["nodes"]))

asyncio.run(main())
"""


def document(notation: str) -> dict[str, Any]:
    """The document of a notation; that of a flow written in Python is the graph that it exports."""
    made = NOTATIONS[notation]
    return dict(made.export("flow") if notation == "flow" else made)


@pytest.mark.parametrize("notation", NOTATIONS)
def test_a_killed_run_has_its_content_when_it_is_resumed(notation: str, tmp_path: Path) -> None:
    script, store = tmp_path / "script.py", tmp_path / "s.db"
    script.write_text(f"PYTHON = {fork_server.program('python')!r}\n{SCRIPT}")
    words = [python("pictures.py")["args"][0], json.dumps(document(notation))]
    process = fork_server.Popen([sys.executable, script, store, "hang", *words])
    held = Path(f"{store}.held")
    wait_until(lambda: held.exists() or process.poll() is not None)
    assert held.exists()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = fork_server.run([sys.executable, script, store, "go", *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    nodes = json.loads(done.stdout)
    assert [value for value in (VALUE, SEEN, [261, 104, 8]) if value not in [node["value"] for node in nodes]] == []


def one_call() -> dict[str, dict[str, Any]]:
    """A flow in each notation that gives what `pics:everything` gives."""
    with flow("flow") as written:
        written.result(written.call("pics:everything"))
    chain, composition, composite = (NOTATIONS[kind] for kind in ("chain", "composition", "composite"))
    experience = NOTATIONS["experience"]
    graph = {"nodes": experience["graph"]["nodes"][:1], "edges": []}
    made = {
        "chain": {**chain, "nodes": chain["nodes"][:1]},
        "composition": {**composition, "nodes": composition["nodes"][:1]},
        "composite": {**composite, "steps": composite["steps"][:1]},
        "experience": {**experience, "graph": graph, "state": {"schema": {"got": {"type": "array"}}}},
        "flow": dict(written.done().export("flow")),
        "runchain": {"kind": "runchain", "steps": [{"toolId": "pics:everything"}]},
    }
    return {kind: {**document, "name": kind} for kind, document in made.items()}


def test_content_leaves_every_notation_over_mcp_as_real_blocks(tmp_path: Path) -> None:
    server = forked("pictures.py")
    settings = f"[mcp.pics]\ncommand = {json.dumps(server['command'])}\nargs = {json.dumps(server['args'])}\n"
    (tmp_path / "ropewalk.toml").write_text(settings + '[mcp_server]\nflows = ["flows"]\n')
    for kind, made in one_call().items():
        file = tmp_path / "flows" / ("experience/experience.yaml" if kind == "experience" else f"{kind}.json")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(made))

    async def answers() -> dict[str, list[Any]]:
        servers = McpServers()
        servers.add("here", {"command": fork_server.program("ropewalk"), "args": ["mcp"], "cwd": str(tmp_path)})
        async with servers:
            await servers.connect("here")
            names = {tool.name for tool in servers.tools("here")}
            assert names == {*one_call(), "resume_run"}  # the server is of the newest revision, and so may ask
            return {name: list((await servers.call_tool("here", name, {})).content) for name in one_call()}

    found = asyncio.run(answers())
    expected = [block for block in EVERYTHING if getattr(block, "text", None) != ""]
    for kind, content in found.items():
        if kind in ("chain", "experience"):  # whose value is an object, which comes first as text
            assert content[0].type == "text"
            assert json.loads(content[0].text) == {"got": VALUE}
            assert content[1:] == expected[1:], kind
        else:
            assert content == expected, kind
        [image] = [block for block in content if block.type == "image"]
        [sound] = [block for block in content if block.type == "audio"]
        assert (image.data, image.mime_type, sound.data) == (PNG, "image/png", WAV)
        assert PDF in [getattr(block.resource, "blob", None) for block in content if block.type == "resource"]
