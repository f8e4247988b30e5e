"""Experiences on the command line: a directory is run, watched, resumed; templates and schemas."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from patience import wait_until

EXPERIENCE = """\
name: steps
version: 0.1.0
runtime: {concurrency: 1}
phases: [{id: first}, {id: second}]
state:
  schema: {seen: {type: array, merge: array_append}, to: {type: string}}
graph:
  nodes:
    - {id: a, kind: tool, impl: ./step.py, args: {name: a, to: $input.to}, phase: first, writes: [seen]}
    - {id: b, kind: tool, impl: ./step.py, args: {name: b}, phase: second, writes: [seen]}
  edges: [{from: a, to: b}]
"""
STEP = """
import os, time
from pathlib import Path

def step(args):
    with open("called", "a") as file:
        file.write(args["name"])
    if args["name"] == "b" and Path("hang").exists():
        Path("hanging").touch()
        time.sleep(60)
    if Path("fail").exists():
        raise RuntimeError("no luck")
    return {"state_delta": {"seen": [[args["name"], args.get("to")]]}}
"""


@pytest.fixture
def home(project) -> Path:  # type: ignore[no-untyped-def]
    project.write("steps/experience.yaml", EXPERIENCE)
    project.write("steps/step.py", STEP)
    return project.home


def test_a_directory_is_run(project, home: Path) -> None:  # type: ignore[no-untyped-def]
    """EXP-RUN-1, EXP-RUN-3, EXP-RUN-2, EXP-NODE-9"""
    done = project("run", "steps", "--args", '{"to": "x"}')
    assert done.code == 0, done.err
    assert 'result: {"seen":[["a","x"],["b",null]]}' in done.out
    assert [line.split()[:3] for line in done.err.splitlines() if line[0] == "✓"] == [
        ["✓", "first:", "a"],
        ["✓", "second:", "b"],
    ]
    data = project("run", "steps", "--json", "--input", "{}").data
    assert (data["status"], data["success"], data["result"]["seen"][1]) == ("completed", True, ["b", None])


def test_exit_codes(project, home: Path) -> None:  # type: ignore[no-untyped-def]
    """EXP-RUN-2"""
    project.write("fail", "")
    done = project("run", "steps")
    assert (done.code, "no luck" in done.out, "result: " in done.out) == (1, True, False)
    assert project("run", "nowhere").code == 2
    project.write("state.json", '{"to": 5}')
    done = project("run", "steps", "--state", "state.json")
    assert (done.code, "declared as type string" in done.err) == (2, True)
    project.write("steps/experience.yaml", EXPERIENCE.replace("edges", "egdes"))
    done = project("run", "steps")
    assert done.code == 3
    assert "steps/experience.yaml:11:3: graph.egdes: unknown key; did you mean edges?" in done.err
    assert "^" in [line.strip() for line in done.err.splitlines()]


def test_validate_plan_and_graph_run_nothing(project, home: Path) -> None:  # type: ignore[no-untyped-def]
    """EXP-RUN-6"""
    assert project("validate", "steps").out == "steps: valid\n"
    plan = project("preview", "steps", "--json").data
    assert [node["path"] for node in plan["nodes"]] == ["a", "b"]
    assert "impl:./step.py" in project("preview", "steps").out
    assert "a" in project("graph", "steps", "--format", "mermaid").out
    assert not (home / "called").exists()


def test_every_event_is_told_when_it_is_watched(project, home: Path) -> None:  # type: ignore[no-untyped-def]
    """EXP-RUN-9, EXP-RUN-4"""
    lines = [json.loads(line) for line in project("run", "steps", "--watch", "--json").out.splitlines()]
    assert [event["kind"] for event in lines[:-1]] == [
        "run.started", "node.ready", "node.started", "state.write", "node.finished",
        "node.ready", "node.started", "state.write", "node.finished", "run.finished",
    ]  # fmt: skip
    assert lines[-1]["status"] == "completed"
    assert "state.write  a" in project("run", "steps", "--watch", "--concurrency", "2").err


def test_state_is_seeded_and_kept(project, home: Path) -> None:  # type: ignore[no-untyped-def]
    """EXP-STATE-13, EXP-STATE-14"""
    project.write("state.yaml", "seen: [[z, null]]\nto: me\n")
    state = project("run", "steps", "--json", "--state", "state.yaml").data["result"]
    assert (len(state["seen"]), state["to"]) == (3, "me")
    assert len(project("run", "steps", "--json", "--keep-state").data["result"]["seen"]) == 5
    assert len(project("run", "steps", "--json").data["result"]["seen"]) == 2


def test_a_killed_run_is_resumed(project, home: Path, started: Callable[..., subprocess.Popen[str]]) -> None:  # type: ignore[no-untyped-def]
    """EXP-RUN-7"""
    project.write("hang", "")
    child = started("run", "steps", "--id", "r1", "--input", '{"to": "y"}')
    wait_until(lambda: (home / "hanging").exists() or child.poll() is not None)
    assert child.poll() is None
    child.send_signal(signal.SIGKILL)
    child.wait()
    (home / "hang").unlink()
    done = project("resume", "r1", "--json", "--watch")
    assert done.code == 0, done.err
    *events, result = [json.loads(line) for line in done.out.splitlines()]
    told = [(event["kind"], event["path"]) for event in events if (event["data"] or {}).get("replayed")]
    assert told == [("node.started", "a"), ("node.finished", "a")]
    assert result["result"] == {"seen": [["a", "y"], ["b", None]]}
    assert (home / "called").read_text() == "abb"


def test_a_template_runs_and_validates_against_the_schema(project) -> None:  # type: ignore[no-untyped-def]
    """EXP-RUN-8, EXP-DOC-7"""
    from ropewalk.schema import compile_schema
    from ropewalk.source.load import load

    assert project("new", "mine", "--kind", "experience").code == 0
    data = project("run", "mine", "--json").data
    assert data["result"]["summary"] == "3 greetings, the last one: hello, Alan"
    schema = project("schema", "experience", "--json").data
    assert schema == json.loads(project("schema", "experience").out)
    assert compile_schema(schema).problems(load(project.home / "mine").data, "") == []
