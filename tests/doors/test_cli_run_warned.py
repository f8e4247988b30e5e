"""`run` tells what is doubtful in a definition before anything runs, and a failure what was null."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ropewalk import App, tool
from ropewalk.app import definitions
from ropewalk.errors import InvalidFlow

MISSPELT = """\
nodes:
  - {id: up, type: tool, tool: upper, params: {text: $var.raeder}}
variables: {reader: ann}
"""
SAID = "x.yaml:2:54: nodes[0].params.text: no node sets the variable 'raeder'"


def test_run_tells_warnings_on_standard_error_and_what_was_null(project: Any) -> None:
    project.write("x.yaml", MISSPELT)
    done = project("run", "x.yaml", "--json")
    assert done.code == 1
    assert f"warning: {SAID}; pass it when you start the run; did you mean reader?\n" in done.err
    (error,) = done.data["errors"]
    assert error["message"] == 'args.text: null is not of type "string" ($var.raeder is null)'


def test_a_variable_that_is_given_is_not_missed(project: Any) -> None:
    project.write("x.yaml", MISSPELT)
    done = project("run", "x.yaml", "--var", "raeder=bob")
    assert done.code == 0
    assert "warning" not in done.err
    assert "warning" in project("run", "x.yaml", "--var", "other=bob").err


def test_what_is_wrong_is_told_once(project: Any) -> None:
    project.write("x.yaml", "nodes: [{id: a, type: tool, tool: none, params: {q: 'a $input.x'}}]")
    done = project("run", "x.yaml")
    assert done.code == 3
    assert done.err.count("unknown tool 'none'") == 1


def test_an_errors_text_is_shown_up_to_a_length_and_kept_whole(project):
    node = f"{{id: a, type: tool, tool: fail, params: {{why: {'x' * 100_000}}}}}"
    project.write("long.yaml", f"kind: chain\nerrorStrategy: continue\nnodes:\n  - {node}\n")
    shown = project("run", "long.yaml")
    assert "98,000 more characters; --json shows all" in shown.out
    assert 2000 < len(shown.out) + len(shown.err) < 4000
    assert "x" * 100_000 in project("run", "long.yaml", "--json").out
    called = project("tools", "call", "fail", "why=" + "x" * 100_000)
    assert 2000 < len(called.out) + len(called.err) < 4000


def test_what_was_checked_to_warn_is_not_checked_again_to_run_unless_tools_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @tool
    def up(text: str) -> str:
        return text.upper()

    seen = []
    check = definitions.check

    def counted(flow: Any, *args: Any, **named: Any) -> Any:
        seen.append(named["unknown_tools"])
        return check(flow, *args, **named)

    monkeypatch.setattr(definitions, "check", counted)
    document = {"kind": "chain", "nodes": [{"id": "a", "type": "tool", "tool": "up", "params": {"text": "x"}}]}

    async def case() -> None:
        async with App("memory", tools=[up]) as app:
            loaded = app.load(document)
            app.definitions.check(loaded, unknown_tools="certain")
            assert (await app.run(loaded)).status == "completed"
            assert seen == ["certain"]
            app.toolbox.remove("up")
            app.definitions.check(loaded, unknown_tools="certain")
            with pytest.raises(InvalidFlow, match="unknown tool 'up'"):
                await app.run(loaded)
            assert seen[1:] == ["certain", "problem"]

    asyncio.run(case())
