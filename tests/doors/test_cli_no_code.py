# ruff: noqa: E501 - documents in few lines
"""`--no-code` runs nothing of a project, and says what it could not check; `tools import`, `trust`, its question."""

from __future__ import annotations

import json
import os
import pty
import sys
import tomllib
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

import fork_server
from ropewalk.errors import InvalidFlow

COMMAND = str(Path(sys.executable).with_name("ropewalk"))

PLANTED = "from pathlib import Path\nPath({!r}).touch()\n"
CALL = {"kind": "Call", "tool": "own:x", "args": {"obj": []}}
# What a definition calls: a tool of a module, of a server, and a flow in Python, which all leave a mark.
DEFINITIONS = {
    "chain.yaml": "kind: chain\nname: ch\nnodes:\n  - {id: a, type: tool, tool: upper, params: {text: x}}\n"
    "  - {id: b, type: tool, tool: 'own:x'}\n  - {id: c, type: tool, tool: sneaky, params: {x: 1}}\n",
    "composition.yaml": "kind: composition\nname: cn\nnodes:\n  - {id: a, type: tool, tool: 'own:y', inputMapping: {x: 1}}\n"
    "  - {id: b, type: tool, tool: './flows.py:sneaky', inputMapping: {x: 1}}\n",
    "composite.yaml": "kind: composite\nname: ce\ndescription: d\nmode: compose\nsteps:\n"
    "  - {name: a, tool: 'own:x', inputMapping: {x: 1}}\n  - {name: b, tool: sneaky, inputMapping: {x: 1}}\n",
    "plan.yaml": "kind: plan\nname: pl\ncode: |\n  await own.x(x=1)\n  return await sneaky(x=1)\n",
    "model.yaml": "kind: plan\nname: mo\norigin: model\ncode: |\n  return await sneaky(x=1)\n",
    "runchain.yaml": "kind: runchain\nname: rc\nsteps: [{toolId: 'own:x'}, {toolId: sneaky, args: {x: 1}}]\n",
    "flow.json": json.dumps(
        {"kind": "flow", "ropewalk": 1, "name": "fl", "body": 0, "regions": [{"nodes": [{"id": "a", "op": CALL}]}]}
    ),
    "trip/experience.yaml": "name: ex\nversion: 0.1.0\nstate: {schema: {n: {type: array}}}\ngraph:\n  nodes:\n"
    "    - {id: a, kind: tool, impl: ./tools/a.py, args: {}}\n    - {id: b, kind: tool, impl: ./tools/b.mjs, args: {}}\n"
    "  edges: [{from: a, to: b}]\n",
}  # fmt: skip


@pytest.fixture
def planted(project):
    """A cloned project in which everything that can run leaves a mark."""
    home = project.home
    python = PLANTED.format(str(home / "ran"))
    mark = {"command": "/bin/sh", "args": ["-c", f"touch {home / 'ran'}"]}
    for name in ("evil/__init__.py", "evil/part.py", "trip/tools/__init__.py", "yaml.py", "httpx2.py", "anthropic.py"):
        project.write(name, python)
    project.write(
        "flows.py", f"{python}from ropewalk import plan\n@plan\nasync def sneaky(x: int) -> int:\n    return x\n"
    )
    project.write("trip/tools/a.py", f"{python}def run():\n    return {{}}\n")
    project.write(
        "trip/tools/b.mjs",
        f"import fs from 'node:fs'; fs.writeFileSync('{home / 'ran'}', ''); export default () => 1;\n",
    )
    project.write(".mcp.json", json.dumps({"mcpServers": {"shared": mark}}))
    project.write(
        "ropewalk.toml",
        "[tools]\nmodules = ['evil', 'evil.part']\nflows = ['*.yaml', 'flows.py:sneaky']\n[mcp.own]\ncommand = '/bin/sh'\n"
        f"args = ['-c', 'touch {home / 'ran'}']\n"
        "[providers.far]\nurl = 'http://127.0.0.1:1'\nopenapi = 'http://127.0.0.1:1/x.json'\n"
        "[backends.shell]\nkind = 'evil.part:Backend'\n[undo.tools]\n'own:x' = 'own:y'\n"
        "[schedules.s]\ncron = '0 0 * * *'\nflow = 'flows.py:sneaky'\n"
        "[schedules.t]\ncron = '0 1 * * *'\nflow = 'chain.yaml'\n"
        "[limits.tools.'own:*']\nper_second = 1\n",
    )
    for name, text in DEFINITIONS.items():
        project.write(name, text)
    return project


UNCHECKED = "modules evil, evil.part; servers own, shared; providers far; backends shell; flows flows.py:sneaky"


@pytest.mark.parametrize("name", DEFINITIONS)
def test_nothing_of_a_project_runs_without_code_and_what_is_unknown_is_said(planted, monkeypatch, capfd, name):
    from ropewalk.doors.cli import definitions
    from ropewalk.doors.cli.validate import validate

    monkeypatch.chdir(planted.home)
    text = DEFINITIONS[name]
    commands = {
        "graph": definitions.graph,
        "preview": definitions.preview,
        "convert": partial(definitions.convert, to="flow"),
        "validate": validate,
    }
    for command, function in commands.items():
        # A program is not compiled without the tools that it names, and modules have no place in a flow of its own.
        refused = command != "validate" and ("kind: plan" in text or (command, "trip" in name) == ("convert", True))
        with pytest.raises(InvalidFlow) if refused else nullcontext():
            answer = function(Path(name), no_code=True)
        assert f"not checked, because of --no-code: {UNCHECKED}" in capfd.readouterr().err
        assert not (planted.home / "ran").exists(), command
    assert f"{name}: valid as far as it was checked" in answer.text
    assert ("own" in text) == (
        "own" in answer.text and "not loaded, because no code of the project runs" in answer.text
    )
    assert ("sneaky" in text) == ("sneaky is a flow in Python, and was not imported" in answer.text)


def test_doctor_names_what_it_did_not_check_and_python_files_are_refused(planted):
    done = planted("doctor", "--no-code")
    for said in UNCHECKED.split("; "):
        assert f"not checked    {said}" in done.out
    assert "no server 'own'" not in done.out
    assert "server own" not in done.out
    assert "- schedule t     chain.yaml at 0 1 * * * UTC; it was not checked with its code" in done.out
    assert "✗ schedule" not in done.out, done.out
    planted.write("agent.yaml", "kind: agent\nname: a\nprompt: hi\ntools: [upper, 'own:x', sneaky]\nmax_rounds: 3\n")
    agent = planted("validate", "agent.yaml", "--no-code")
    assert (agent.code, "valid as far as it was checked: 3 unknown tools" in agent.out) == (0, True), agent.err
    refused = planted("validate", "flows.py:sneaky", "--no-code")
    assert (refused.code, "is a flow in Python, and was not imported" in refused.err) == (3, True), refused.err
    assert not (planted.home / "ran").exists()


def test_the_list_of_tools_says_who_has_not_agreed_to_servers_and_how_to(project, monkeypatch):
    from ropewalk.doors.cli.tools import ls

    monkeypatch.setenv("XDG_CONFIG_HOME", str(project.home / "config"))
    (project.home / "ropewalk.toml").write_text("")
    project.write(
        ".mcp.json", '{"mcpServers": {"s": {"command": "no-such-program"}, "old": {"type": "sse", "url": "https://o"}}}'
    )
    text = ls(project=project.home).text
    agree = f"to agree to them: ropewalk trust -C {project.home}, or set ROPEWALK_TRUST=all"
    assert text.startswith(
        f"no tools; nobody has agreed to these servers yet: s; {agree}; these cannot be used: old\n"
    ), text
    assert ".mcp.json:1:" in text
    assert ": not started, because nobody has agreed" in text
    assert "did not answer" not in text


def test_servers_of_another_program_are_added_and_the_rest_of_the_file_is_kept(project):
    before = (project.home / "ropewalk.toml").read_bytes() + b"# mine\n[mcp.have]\ncommand = 'x'  # kept"
    (project.home / "ropewalk.toml").write_bytes(before)
    entries = {
        "a b": {
            "command": ["npx", "-y", 'say "hi"\n'],
            "env": {"API_KEY": "s3cret", "LEVEL": 3},
            "disabledTools": ["d"],
        },
        "web": {"type": "http", "url": "https://w.example", "headers": {"Authorization": "Bearer s3cret"}},
        "have": {"command": "y"},
        "old": {"type": "sse", "url": "https://o.example"},
        "io.x": {"command": "z", "cwd": "sub", "tools": []},
    }  # fmt: skip
    project.write(".vscode/mcp.json", "// c\n" + json.dumps({"servers": entries}))
    done = project("tools", "import", ".vscode/mcp.json")
    assert done.code == 0, done.err
    text = (project.home / "ropewalk.toml").read_bytes()
    assert text.startswith(before)
    assert b"s3cret" not in text
    servers = tomllib.loads(text.decode())["mcp"]
    assert servers == {
        "have": {"command": "x"},
        "a_b": {
            "command": "npx", "args": ["-y", 'say "hi"\n'], "env": {"API_KEY": "${API_KEY}", "LEVEL": "3"},
            "exclude_tools": ["d"],
        },
        "web": {"url": "https://w.example", "headers": {"Authorization": "${WEB_AUTHORIZATION}"}},
        "io.x": {"command": "z", "cwd": "sub", "tools": []},
    }  # fmt: skip
    assert "set API_KEY: the value of a_b.env.API_KEY was not copied" in done.out
    assert "! have: [mcp.have] exists already" in done.err
    assert "! old: " in done.err
    again = project("tools", "import", ".vscode/mcp.json", "--json")
    assert (again.code, again.data["added"], (project.home / "ropewalk.toml").read_bytes()) == (1, [], text)
    project.write("none.json", '{"a": 1}')
    refused = project("tools", "import", "none.json")
    assert (refused.code, "none.json:1:1: lists no MCP servers" in refused.err) == (2, True), refused.err


def at_terminal(home: Path, env: dict[str, str], words: tuple[str, ...], *answers: str) -> str:
    """Run a command on a terminal, and answer each question when it is asked."""
    master, slave = pty.openpty()
    child = fork_server.Popen([COMMAND, *words], cwd=home, env=env, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    shown, waiting = "", list(answers)
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk.decode("utf-8", "replace")
        if waiting and shown.endswith(("[y/N] ", "leaves the server out): ")):
            os.write(master, f"{waiting.pop(0)}\n".encode())
    os.close(master)
    child.wait(timeout=300)
    return shown


def test_a_person_at_a_terminal_is_asked_once_and_a_refusal_is_kept(project):
    server = {"command": "no-such-\u202eprogram", "args": ["${input:key}"]}
    inputs = [{"type": "promptString", "id": "key", "description": "The key", "password": True}]
    project.write(".mcp.json", json.dumps({"servers": {"s": server}, "inputs": inputs}))
    words = ("validate", "shout.yaml")
    shown = at_terminal(project.home, project.env(), words, "n")
    assert "start them in this project" in shown
    assert "\u202e" not in shown
    assert "ropewalk trust" in shown
    shown = at_terminal(project.home, project.env(), words)
    assert "start them in this project" not in shown
    assert "ropewalk trust" in shown
    assert project("trust").code == 2
    project.write("ropewalk.toml", "")
    doctor = project("doctor")
    assert ("- server s" in doctor.out, "1 problem found" in doctor.out) == (True, True), doctor.out  # of the flow
    assert project("trust", "--yes").code == 0
    shown = at_terminal(project.home, project.env(), words, "s3cret")
    assert "The key (or set ROPEWALK_SECRET_KEY; Enter leaves the server out)" in shown
    assert "s3cret" not in shown
    assert "nobody has agreed" not in shown
    assert project("trust", "--revoke").out.strip() == "the agreement is withdrawn"
    assert "ropewalk trust" in project(*words).err
