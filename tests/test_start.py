"""What a first run leaves alone: each of these costs milliseconds, which every short-lived process would pay."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import fork_server

CODE = """
import asyncio, sys
import ropewalk

async def step(x):
    return x + 1

async def main():
    nodes = [{"id": f"n{i}", "type": "tool", "tool": "step", "params": {"x": "$prev" if i else 0}} for i in range(3)]
    async with ropewalk.App("memory", tools=[step]) as app:
        done = await app.run({"kind": "chain", "nodes": nodes})
    assert done["results"]["n2"] == 3, done

asyncio.run(main())
print(*sys.modules)
"""
NOT_NEEDED = {
    "a project": ["tomllib", "pathlib", "ropewalk.config.toml", "ropewalk.app.open_project"],
    "files and their places": ["yaml", "ropewalk.source"],
    "a store in a file": ["apsw", "sqlite3", "ropewalk.journal.sqlite.store"],
    "expressions": ["re2", "ropewalk.expr.parser", "ropewalk.expr.functions", "ropewalk.expr.jsonpath"],
    "values that must fit a schema": ["jsonschema_rs"],
    "other tools": [
        "mcp",
        "httpx2",
        "ropewalk.tools.backends.provider_registry",
        "ropewalk.tools.backends.openapi",
        "ropewalk.tools.mcp.servers",
    ],
    "stored chains": ["ropewalk.app.chains", "ropewalk.app.runs.queries"],
    "messages": ["difflib"],
    "other notations": [
        *("ropewalk.notations.composition.read", "ropewalk.notations.composite", "ropewalk.notations.experience.read"),
        *("ropewalk.notations.flow", "ropewalk.builder"),
    ],
    "drawings": ["ropewalk.draw", "ropewalk.app.preview"],
}


def test_a_first_run_loads_nothing_that_only_others_need() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "ropewalk.app.app" in loaded
    assert {what: found for what, names in NOT_NEEDED.items() if (found := loaded.intersection(names))} == {}


COMMAND = """
import sys
from ropewalk.doors.cli.main import main

code = main(["run", "chain.yaml", "--json", "--input", '{"x": 1}'])
print(*sys.modules, file=sys.stderr)
sys.exit(code)
"""
CHAIN = """
kind: chain
nodes:
  - {id: one, type: tool, tool: step, params: {x: $input.x}}
  - {id: two, type: tool, tool: step, params: {x: $output.one}}
"""
MODULE = """
from ropewalk import tool

@tool
def step(x: int) -> int:
    return x + 1
"""
NOT_NEEDED_BY_A_COMMAND = {
    "a terminal": ["rich", "ropewalk.doors.cli.live_display", "ropewalk.doors.cli.agents"],
    "records of runs": ["ropewalk.app.runs.queries", "ropewalk.app.runs.instances", "ropewalk.doors.cli.undo"],
    "patterns and queries": ["re2", "jsonpath_rfc9535", "ropewalk.expr.jsonpath"],
    "directories": ["ropewalk.notations.experience", "ropewalk.tools.directory", "ropewalk.app.directories"],
    "agents and programs": ["ropewalk.agents", "ropewalk.notations.agent", "ropewalk.plans", "ropewalk.notations.plan"],
    "servers": ["mcp", "httpx2", "ropewalk.tools.mcp.servers", "ropewalk.tools.mcp.requests", "fastapi", "psycopg"],
}


def test_a_chain_that_a_command_runs_loads_nothing_that_only_others_need(tmp_path: Path) -> None:
    files = {"chain.yaml": CHAIN, "steps.py": MODULE, "ropewalk.toml": '[tools]\nmodules = ["steps"]\n'}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] == {"one": 2, "two": 3}
    loaded = set(done.stderr.splitlines()[-1].split())
    found = {what: loaded.intersection(names) for what, names in NOT_NEEDED_BY_A_COMMAND.items()}
    assert not any(found.values()), found


LOOKING = """
import sys
from ropewalk.doors.cli.main import main

code = main([*sys.argv[1:], "--json"])
print(*sys.modules, file=sys.stderr)
sys.exit(code)
"""


CLIENT = {"mcp", "mcp_types", "httpx2", "anyio", "pydantic"}
CLIENT |= {f"ropewalk.tools.mcp.{name}" for name in ("servers", "connection", "transports", "requests", "negotiation")}


def test_commands_that_have_lists_of_tools_load_no_client_of_servers(tmp_path: Path) -> None:
    program, server = fork_server.program("python"), str(Path(__file__).parent / "mcp_servers" / "counted.py")
    tables = [f'[mcp.s{n}]\ncommand = "{program}"\nargs = ["{server}", "starts", "step"]\n' for n in range(3)]
    (tmp_path / "ropewalk.toml").write_text("".join(tables))
    call = '{id: one, type: tool, tool: "s1:step", params: {text: a}}'
    (tmp_path / "chain.yaml").write_text(f"kind: chain\nnodes: [{call}]\n")
    program = str(Path(sys.executable).with_name("ropewalk"))
    assert fork_server.run([program, "tools", "ls"], cwd=tmp_path, capture_output=True).returncode == 0
    for words in (["tools", "ls"], ["validate", "chain.yaml"]):
        done = subprocess.run([sys.executable, "-c", LOOKING, *words], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        shown = json.loads(done.stdout)
        assert len(shown["tools"]) == 3 if "tools" in shown else shown["valid"]
        loaded = set(done.stderr.splitlines()[-1].split())
        assert "ropewalk.tools.mcp.server_tools" in loaded
        assert loaded.intersection(CLIENT) == set()
    assert len((tmp_path / "starts").read_text().splitlines()) == 3
