"""`--no-code` runs nothing of a project, and says what it could not check; `tools import`, `trust`, its question."""

from __future__ import annotations

import json
import os
import pty
import sys
import tomllib
from pathlib import Path

import pytest

import fork_server

COMMAND = str(Path(sys.executable).with_name("ropewalk"))

PLANTED = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n"
FLOW = "kind: chain\nname: f\nnodes: [{id: a, type: tool, tool: upper, params: {text: x}}]\n"


@pytest.fixture
def planted(project):
    """A cloned project in which everything that can run leaves a mark."""
    mark = {"command": "/bin/sh", "args": ["-c", f"touch {project.home / 'ran'}"]}
    project.write("evil.py", PLANTED)
    project.write("plan.py", PLANTED)
    project.write(".mcp.json", json.dumps({"mcpServers": {"shared": mark}}))
    project.write(
        "ropewalk.toml",
        "[tools]\nmodules = ['evil']\n[mcp.own]\ncommand = '/bin/sh'\n"
        f"args = ['-c', 'touch {project.home / 'ran'}']\n"
        "[providers.far]\nurl = 'http://127.0.0.1:1'\nopenapi = 'http://127.0.0.1:1/x.json'\n"
        "[limits.tools.'own:*']\nper_second = 1\n",
    )
    project.write("f.yaml", FLOW)
    return project


@pytest.mark.parametrize(
    "words", [("validate", "f.yaml"), ("graph", "f.yaml"), ("preview", "f.yaml"), ("convert", "f.yaml", "--to", "flow")]
)
def test_nothing_of_a_project_runs_without_code(planted, words):
    done = planted(*words, "--no-code")
    assert (done.code, "Traceback" in done.err) == (0, False), done.err
    assert "not checked, because of --no-code: modules evil; servers own, shared; providers far" in done.err
    assert not (planted.home / "ran").exists()


def test_doctor_names_what_it_did_not_check_and_python_files_are_refused(planted):
    done = planted("doctor", "--no-code")
    for said in ("modules evil", "servers own, shared", "providers far"):
        assert f"not checked    {said}" in done.out
    refused = planted("validate", "plan.py:flow", "--no-code")
    assert (refused.code, "a flow in Python is code" in refused.err) == (3, True), refused.err
    assert not (planted.home / "ran").exists()


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
    assert (doctor.code, "- server s" in doctor.out) == (0, True), doctor.out
    assert project("trust", "--yes").code == 0
    shown = at_terminal(project.home, project.env(), words, "s3cret")
    assert "The key (or set ROPEWALK_SECRET_KEY; Enter leaves the server out)" in shown
    assert "s3cret" not in shown
    assert "nobody has agreed" not in shown
    assert project("trust", "--revoke").out.strip() == "the agreement is withdrawn"
    assert "ropewalk trust" in project(*words).err
