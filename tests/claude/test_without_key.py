"""Without a key for the Messages API: said beforehand, and refused before anything is asked or called."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fork_server
from ropewalk import tool
from ropewalk.agents import complete_with_tools
from ropewalk.app.app import App
from ropewalk.config.providers import no_model_message
from ropewalk.errors import CompletionFailed, ModelError
from ropewalk.testing import ScriptedModel

COMMAND = str(Path(sys.executable).with_name("ropewalk"))
SAID = no_model_message({})
TOOLS = '''
from pathlib import Path
from ropewalk import tool

@tool
def note(text: str) -> str:
    """Notes something."""
    Path("noted").write_text(text)
    return text
'''
AGENT = "kind: agent\nname: one\nprompt: Note it.\ntools: [note]\n"
MIXED = """
name: mixed
version: 1.0.0
state: {schema: {a: {type: string}, b: {type: string}}}
graph:
  nodes:
    - {id: first, kind: call, tool: note, args: {text: x}, writes: [a]}
    - {id: then, kind: agent, prompt: "About ${$state.a}", writes: [b]}
  edges: [{from: first, to: then}]
"""
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def project(tmp_path: Path) -> Run:
    (tmp_path / "ropewalk.toml").write_text("[tools]\nmodules = ['rw_noted']\n[store]\nurl = 'runs.db'\n")
    (tmp_path / "rw_noted.py").write_text(TOOLS)
    path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"])

    def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        given = {**os.environ, "PATH": path, **env}
        return fork_server.run([COMMAND, *words], cwd=tmp_path, env=given, capture_output=True, text=True, timeout=300)

    return run


def finding(project: Run, name: str, **env: str) -> tuple[int, str, str]:
    done = project("doctor", "--json", **env)
    [found] = [one for one in json.loads(done.stdout)["findings"] if one["name"] == name]
    return done.returncode, found["state"], found["message"]


def test_doctor_says_it_where_a_project_has_agents(project: Run, tmp_path: Path) -> None:
    assert finding(project, "model") == (0, "note", f"{SAID}; only agents need it")
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "one.yaml").write_text(AGENT)
    code, state, said = finding(project, "model")
    assert (code, state, said.startswith(SAID)) == (1, "fault", True)
    assert finding(project, "model", ANTHROPIC_API_KEY="k")[:2] == (0, "ok")


def test_doctor_says_how_n8n_mcp_is_installed(project: Run, tmp_path: Path) -> None:
    code, state, said = finding(project, "n8n-mcp")
    assert (code, state) == (0, "note")
    assert "npm install n8n-mcp" in said
    there = tmp_path / "node_modules" / ".bin" / "n8n-mcp"
    there.parent.mkdir(parents=True)
    there.write_text("#!/bin/sh\n")
    there.chmod(0o755)
    assert finding(project, "n8n-mcp") == (0, "ok", str(there))


@pytest.mark.parametrize(("name", "text"), [("one.yaml", AGENT), ("mixed.yaml", "kind: experience" + MIXED)])
def test_validate_and_plan_warn_and_run_refuses_before_a_call(
    project: Run, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    done = project("validate", name)
    assert (done.returncode, f"warning: {name}: {SAID}" in done.stdout) == (0, True), done.stdout
    assert json.loads(project("validate", name, "--json").stdout)["warnings"][0]["message"] == SAID
    assert project("validate", name, ANTHROPIC_API_KEY="k").stdout == f"{name}: valid\n"
    assert SAID in project("preview", name).stdout
    done = project("run", name)
    assert (done.returncode, done.stderr) == (1, f"error: {SAID}\n")
    assert project("runs", "ls").stdout.startswith("no runs")
    assert not (tmp_path / "noted").exists()


@pytest.mark.parametrize("words", [("chat", "hi"), ("n8n", "build", "Ping a page", "-o", "ping.json")])
def test_chat_and_n8n_build_refuse_at_once(project: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    done = project(*words)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"error: {SAID}, or use --model PROVIDER:MODEL\n")
    assert project("runs", "ls").stdout.startswith("no runs")


def test_a_build_without_n8n_mcp_says_so_before_the_model_is_asked(project: Run, tmp_path: Path) -> None:
    (tmp_path / "ropewalk.toml").write_text("[claude]\nmax_retries = 0\n")
    nobody = "http://127.0.0.1:1"
    done = project("n8n", "build", "Ping a page", ANTHROPIC_API_KEY="k", ANTHROPIC_BASE_URL=nobody)
    first = done.stderr.splitlines()[:3]
    assert first[0].startswith("build ")
    assert first[1].startswith("! n8n-mcp is not installed; install it with `npm install n8n-mcp`")
    assert first[2] == "· discovery"


def test_in_python_too_also_through_a_flow_that_has_an_agent_as_a_tool() -> None:
    called: list[str] = []

    @tool
    def first() -> str:
        """Begins."""
        called.append("first")
        return "x"

    agent = {"kind": "agent", "name": "asks", "prompt": "?"}
    chain: dict[str, Any] = {"kind": "chain", "name": "c", "nodes": [
        {"id": "a", "type": "tool", "tool": "first"}, {"id": "b", "type": "tool", "tool": "asks"},
    ]}  # fmt: skip

    async def body() -> None:
        async with App("memory", tools=[first]) as app:
            app.toolbox.register(app.as_tool(agent))
            for document in (agent, chain):
                with pytest.raises(ModelError, match="set ANTHROPIC_API_KEY"):
                    await app.run(document)
            with pytest.raises(CompletionFailed, match="set ANTHROPIC_API_KEY"):
                await complete_with_tools("hi", app=app)
            assert (called, app.runs.list(all=True)) == ([], [])
            app.model = ScriptedModel("said", "said")  # which needs no key
            assert [(await app.run(document)).success for document in (agent, chain)] == [True, True]
            assert (await app.validate(agent)).warnings == ()

    asyncio.run(body())


def calls(*tools: str) -> dict[str, Any]:
    nodes = [{"id": f"n{i}", "type": "tool", "tool": name} for i, name in enumerate(tools)]
    return {"kind": "chain", "id": "c", "name": "c", "nodes": nodes}


HELPER = {"kind": "agent", "name": "helper", "prompt": "hello"}


def test_a_flow_of_another_app_asks_the_model_of_that_one() -> None:
    async def case() -> None:
        other = App("memory", model=ScriptedModel("hi"))
        async with other, App("memory", tools=[other.as_tool(HELPER, name="inner")]) as app:
            assert not (await app.validate(calls("inner"))).warnings
            assert (await app.run(calls("inner"))).status == "completed"

    asyncio.run(case())


def test_and_has_the_tools_of_that_one() -> None:
    @tool
    def same() -> str:
        return "no agent"

    async def case() -> None:
        other = App("memory", tools=[same])
        async with other, App("memory", tools=[other.as_tool(calls("same"), name="inner")]) as app:
            app.toolbox.register(app.as_tool(HELPER, name="same"))
            assert (await app.run(calls("inner"))).status == "completed"

    asyncio.run(case())


def test_one_whose_own_app_cannot_ask_its_model_is_refused_before_a_call() -> None:
    called = []

    @tool
    def first() -> str:
        called.append(1)
        return "x"

    async def case() -> None:
        async with App("memory") as other:
            other.toolbox.register(other.as_tool(HELPER, name="ask"))
            inner = other.as_tool(calls("ask"), name="inner")
            async with App("memory", tools=[first, inner], model=ScriptedModel("hi")) as app:
                assert [one.message for one in (await app.validate(calls("first", "inner"))).warnings] == [SAID]
                with pytest.raises(ModelError, match=re.escape(SAID)):
                    await app.run(calls("first", "inner"))

    asyncio.run(case())
    assert called == []
