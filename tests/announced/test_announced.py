"""Every announced type is true: what a flow gives over each interface fits the output schema that it announces.

The flows are those of strangers (`strangers.py`), and the validator is not Ropewalk's. In a slice there are a few per
kind; `./test.sh --campaigns types` has 300, and with `--seed N` others.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import fork_server
from announced import tools
from announced.strangers import KINDS, TOOLS, Made, made, traits
from ropewalk import App
from ropewalk.doors.mcp.results import shown_output, shown_value
from ropewalk.errors import ExecutionFailed, InvalidFlow, OutputValidationFailed, ValidationFailed
from ropewalk.notations.registry import value_in
from ropewalk.tools.mcp.servers import McpServers
from serve.server import COMMAND, serve
from tiers import Scale

pytestmark = [pytest.mark.campaign("types"), pytest.mark.timeout(1800)]
FUNCTIONS = [getattr(tools, name) for name in (*TOOLS, "fails")]
MODULE = f"""\
import sys

sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from announced.tools import {", ".join((*TOOLS, "fails"))}
"""
SETTINGS = '[mcp_server]\nflows = ["flows"]\n'


@dataclass
class Case:
    """A flow in its file, what it announces, and what it gives in Python: a value, or `misfit`, why it is refused."""

    made: Made
    path: Path
    tool: str
    schema: Any
    has_value: bool = True
    value: Any = None
    misfit: str = ""


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, scale: Scale) -> list[Case]:
    """The flows of strangers that have no problem, the same number of each kind."""
    folder = tmp_path_factory.mktemp("announced")
    (folder / "flows").mkdir()
    first, count = 10_000 * int(request.config.getoption("--seed")), scale(7, 60)

    async def found() -> list[Case]:
        async with App("memory", tools=FUNCTIONS) as app:
            result = []
            for kind in KINDS:
                cases_of_kind: list[Case] = []
                seed = first
                while len(cases_of_kind) < count:
                    seed += 1
                    if (case := await _case(app, made(kind, seed), f"{kind}_{seed}", folder)) is not None:
                        cases_of_kind.append(case)
                result += cases_of_kind
            return result

    return asyncio.run(found())


async def _case(app: App, flow: Made, name: str, folder: Path) -> Case | None:
    """Write a flow to its file and call it in Python; None, and no file, if the flow or its input is refused."""
    path = folder / "flows" / (name if flow.kind == "experience" else f"{name}.json")
    _write(flow, name, path)
    try:
        loaded = app.load(path)
        app.ensure(loaded)
        tool = app.as_tool(loaded)
        app.toolbox.register(tool)
        case = Case(flow, path, name, tool.output_schema)
        case.value = await app.call_tool(tool.id, flow.input)
    except (InvalidFlow, ValidationFailed):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        return None
    except ExecutionFailed:
        case.has_value = False
    except OutputValidationFailed as error:
        case.has_value, case.misfit = False, str(error)
    return case


def _write(flow: Made, name: str, path: Path) -> None:
    document = json.dumps({**flow.document, "name": name})
    if flow.kind != "experience":
        path.write_text(document)
        return
    for file, text in {"experience.json": document, **flow.files}.items():
        (path / file).parent.mkdir(parents=True, exist_ok=True)
        (path / file).write_text(text)


@pytest.fixture(scope="module")
def project(cases: list[Case]) -> Path:
    """The project of the flows."""
    folder = cases[0].path.parents[1]
    (folder / "ropewalk.toml").write_text(f'[tools]\nmodules = ["tools"]\n{SETTINGS}')
    (folder / "tools.py").write_text(MODULE)
    return folder


def is_as_announced(case: Case, value: Any) -> None:
    """Check that an interface gives the value that Python gives, and that it fits."""
    assert value == case.value, case.tool
    fits(case, case.schema, value)


def fits(case: Case, schema: Any, value: Any) -> None:
    """Check a value as any client would."""
    if schema is not None:
        Draft202012Validator.check_schema(schema)
        problems = [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(value)]
        assert problems == [], (case.tool, case.made.document, case.made.input, schema, value)


def test_strangers_write_what_makes_types_hard(cases: list[Case]) -> None:
    """Most flows give a value, and enough of them have conditions, loops, failures, and null where a value was."""
    found = [traits(case.made) for case in cases]
    assert sum(case.has_value for case in cases) > 0.6 * len(cases)
    assert sum("doubtful" in names for names in found) >= len(cases) / 2
    for trait in ("condition", "loop", "failure"):
        assert sum(trait in names for names in found) > len(cases) / 5, trait


def test_in_python(cases: list[Case]) -> None:
    assert [case.misfit for case in cases if case.misfit] == []
    for case in cases:
        if case.has_value:
            fits(case, case.schema, case.value)


@pytest.mark.process
def test_on_the_command_line(cases: list[Case], project: Path, scale: Scale) -> None:
    for case in cases[:: scale(7, 1)]:
        words = [COMMAND, "run", str(case.path), "--json", "--input", json.dumps(case.made.input), "--store", "memory"]
        done = fork_server.run(words, cwd=project, capture_output=True, text=True, env=os.environ)
        assert (done.returncode == 0) == case.has_value, (case.tool, done.stderr)
        if case.has_value:
            is_as_announced(case, value_in(json.loads(done.stdout), case.made.kind))


@pytest.mark.process
def test_over_http(cases: list[Case], project: Path) -> None:
    for server in serve(project, settings=SETTINGS, tools=MODULE):
        for case in cases:
            definition = {"kind": "file", "id": str(case.path.relative_to(project))}
            body = {"definition": definition, "input": case.made.input, "wait": 60}
            done = server.post("/api/runs", body).json()
            assert (done["status"] in ("completed", "partial")) == case.has_value, (case.tool, done)
            if case.has_value:
                is_as_announced(case, value_in(done, case.made.kind))


@pytest.mark.process
def test_over_mcp(cases: list[Case], project: Path) -> None:
    env = {"PYTHONPATH": os.environ["PYTHONPATH"]} if os.environ.get("PYTHONPATH") else {}
    program = {
        "command": fork_server.program("ropewalk"),
        "args": ["mcp", "--max-listed", "1000"],
        "cwd": str(project),
        "env": env,
    }

    async def calls() -> None:
        servers = McpServers()
        servers.add("here", program)
        async with servers:
            await servers.connect("here")
            offered: Any = {tool.name: tool for tool in servers.tools("here")}
            for case in cases:
                announced = offered[case.tool].output_schema
                assert announced == shown_output(case.schema), case.tool
                result = await servers.call_tool("here", case.tool, case.made.input)
                assert result.is_error != case.has_value, (case.tool, result)
                if case.has_value:
                    assert result.structured_content == shown_value(case.schema, case.value)
                    fits(case, announced, result.structured_content)

    asyncio.run(calls())
