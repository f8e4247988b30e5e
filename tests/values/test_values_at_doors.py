"""The value of a flow of every kind, as each door gives it."""

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
from ropewalk.tools.mcp.servers import McpServers
from serve.server import Served, serve

from .flow_kinds import DOCUMENTS, INPUT, KINDS, SCHEMAS, VALUES, app, source

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
IN_PYTHON = """\
from ropewalk import flow

written = flow("written", topic=str)
written.result(written.call("search", query=written.input.topic))
"""
HITS = {"chain": "$output.s", "composition": "$output.s", "composite": "$steps.s"}
DECLARED = {f"{kind} with a result": {**DOCUMENTS[kind], "result": {"text": f"{HITS[kind]}.snippet"}} for kind in HITS}
FILED = {**{kind: DOCUMENTS[kind] for kind in DOCUMENTS if kind != "agent"}, **DECLARED}  # an agent needs a model
VALUE_OF: dict[str, Any] = {**VALUES, **{kind: {"text": "rope"} for kind in DECLARED}}
PLACES = {
    **{kind: f"flows/{kind}.json" for kind in FILED}, "experience": "flows/k", "python": "flows/written.py:written"
}  # fmt: skip
FORMER_NAMES = {"id", "executionId", "data", "finalState"}
"""Members that named the run and its value before `runId` and `result`."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("values")
    (folder / "flows").mkdir()
    for kind, document in FILED.items():
        (folder / "flows" / f"{kind}.json").write_text(json.dumps({**document, "name": f"file {kind}"}))
    (folder / "flows" / "written.py").write_text(IN_PYTHON)
    source("experience", folder / "flows")
    yield from serve(folder, settings=FLOWS, tools=MODULE)


def tool_name(kind: str) -> str:
    return kind.replace(" ", "_")


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_line_calls_it_as_a_tool(kind: str, served: Served) -> None:
    words = [COMMAND, "tools", "call", tool_name(kind), "topic=rope", "--json"]
    done = fork_server.run(words, cwd=served.folder, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] == VALUES[kind]


async def in_process(kind: str, served: Served) -> dict[str, Any]:
    async with app() as made:
        outcome = await made.run(DECLARED.get(kind) or source(kind, served.folder / "flows"), INPUT)
    assert outcome.run_id == outcome["runId"]
    return outcome.to_answer()


async def as_text(kind: str, served: Served) -> dict[str, Any]:
    done = ropewalk(served, "run", PLACES[kind], "--input", json.dumps(INPUT), "--id", f"text {kind}")
    [named] = [line for line in done.splitlines() if line.endswith(f"(run text {kind})")]
    [value] = [line.removeprefix("result: ") for line in done.splitlines() if line.startswith("result: ")]
    return {"runId": named.partition("(run ")[2][:-1], "result": json.loads(value)}


async def as_json(kind: str, served: Served) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(
        ropewalk(served, "run", PLACES[kind], "--input", json.dumps(INPUT), "--id", f"json {kind}", "--json")
    )
    if kind in DECLARED:  # the record of a run has what its answer had
        record = json.loads(ropewalk(served, "runs", "show", f"json {kind}", "--json"))
        assert (record["runId"], record["result"]) == (answer["runId"], answer["result"])
    return answer


async def over_http(kind: str, served: Served) -> dict[str, Any]:
    body = {"definition": {"kind": "file", "id": PLACES[kind]}, "input": INPUT, "wait": 20}
    answer: dict[str, Any] = served.post("/api/runs", body).json()
    return answer


def ropewalk(served: Served, *words: str) -> str:
    done = fork_server.run([COMMAND, *words], cwd=served.folder, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


@pytest.mark.parametrize("interface", [in_process, as_text, as_json, over_http])
@pytest.mark.parametrize("kind", PLACES)
def test_every_answer_has_the_result_and_the_run_id(kind: str, interface: Any, served: Served) -> None:
    answer = asyncio.run(interface(kind, served))
    assert answer["result"] == VALUE_OF[kind]
    assert answer["runId"]
    assert FORMER_NAMES.isdisjoint(answer)
    assert ("results" in answer) == (kind == "chain with a result" and interface is not as_text)


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
            files = {f"file_{tool_name(kind)}": kind for kind in FILED} | {"k": "experience", "written": "python"}
            for name, kind in {**names, **files}.items():
                shown, value = SCHEMAS.get(kind), VALUE_OF[kind]
                if not isinstance(value, dict):
                    shown = {"type": "object", "properties": {"result": shown}, "required": ["result"]}
                    value = {"result": value}
                found: Any = offered[name]
                assert kind in DECLARED or found.output_schema == shown, name
                result = await servers.call_tool("here", name, INPUT)
                assert result.structured_content == value, name
                run = (result.meta or {}).get("ropewalk/run")
                if name in files:
                    record = served.get(f"/api/runs/{run['runId']}").json()
                    assert (run["status"], record["result"]) == ("completed", VALUE_OF[kind]), name

    asyncio.run(body())
