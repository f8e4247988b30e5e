"""Flows called as tools, on the command line: listed when asked for, and not resumed by themselves."""

from __future__ import annotations

from typing import Any

COMPOSITE = """
from ropewalk import ComposableToolBuilder, ToolExecutionResult

async def execute(name, args, context):
    return ToolExecutionResult(True, args["text"].upper())

steps = [{"name": "up", "tool": "upper", "inputMapping": {"text": "$input.text"}}]
loud = ComposableToolBuilder(execute).build("loud", "Upper case.", {"type": "object"}, {"steps": steps})
"""
CHAIN = """\
kind: chain
name: outer
nodes: [{id: a, type: tool, tool: "composable:loud", params: {text: $input.text}}]
"""


def test_parts_of_a_run_are_listed_with_all(project: Any) -> None:
    project.write("ropewalk.toml", "[tools]\nmodules = ['rw_cli_composites']\n[store]\nurl = 'runs.db'\n")
    project.write("rw_cli_composites.py", COMPOSITE)
    project.write("outer.yaml", CHAIN)
    done = project("run", "outer.yaml", "--input", '{"text": "x"}', "--id", "r", "--json")
    assert done.data["result"] == {"a": "X"}, done.err
    assert [run["runId"] for run in project("runs", "ls", "--json").data] == ["r"]
    listed = project("runs", "ls", "--all", "--json").data
    assert {run["runId"]: run["kind"] for run in listed} == {"r": "chain", "r/a": "composite"}
    shown = project("runs", "show", "r/a", "--json").data
    assert (shown["parent"], [node["path"] for node in shown["nodes"]]) == ("r", ["up"])
