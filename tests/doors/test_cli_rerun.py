"""Runs that have ended, gone on with from the command line."""

from __future__ import annotations

from typing import Any

CHAIN = """\
kind: chain
name: luck
nodes:
  - {id: up, type: tool, tool: upper, params: {text: $input.text}}
  - {id: lucky, type: tool, tool: lucky, params: {text: $output.up}}
"""
LUCKY = '''

@tool
def lucky(text: str) -> str:
    """Works once there is a file named luck."""
    with open("tried", "a") as file:
        file.write("x")
    if not Path("luck").exists():
        raise RuntimeError("no luck")
    return text + "!"
'''


def prepare(project: Any) -> None:
    project.write("rw_cli_tools.py", (project.home / "rw_cli_tools.py").read_text() + LUCKY)
    project.write("luck.yaml", CHAIN)


def test_retry_goes_on_with_what_failed(project: Any) -> None:
    prepare(project)
    assert project("run", "luck.yaml", "-i", '{"text": "a"}', "--id", "r").code == 1
    assert project("runs", "retry", "r").code == 1
    project.write("luck", "")
    done = project("runs", "retry", "r", "--json")
    assert (done.code, done.data["runId"], done.data["results"]) == (0, "r", {"up": "A", "lucky": "A!"})
    assert (project.home / "tried").read_text() == "xxx"
    assert project("runs", "show", "r").out.count("before   failed") == 2
    again = project("runs", "retry", "r", "--from", "lucky")
    assert (again.code, (project.home / "tried").read_text()) == (0, "xxxx")


def test_retry_says_what_is_wrong(project: Any) -> None:
    prepare(project)
    project.write("luck", "")
    project("run", "luck.yaml", "-i", '{"text": "a"}', "--id", "r")
    done = project("runs", "retry", "r")
    assert done.code == 1
    assert "name the node" in done.err
    assert "--from NODE" in done.err
    done = project("runs", "retry", "r", "--from", "luck")
    assert done.code == 2
    assert "did you mean 'lucky'?" in done.err
    assert project("runs", "retry", "nope").code == 2
