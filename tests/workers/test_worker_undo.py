"""Undo with workers: they make the undo calls, also those of the policy, and continue an undo whose worker died."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .crew import Crew

pytestmark = pytest.mark.process
TOOLS = '''

@tool
async def back(at: str) -> str:
    """Takes a call of `who` back."""
    note("back", at, os.getpid())
    return at

@tool
async def back_after_a_kill(at: str) -> str:
    """Kills its worker the first time, then takes a call of `who` back."""
    if not os.path.exists(f"killed-{at}"):
        open(f"killed-{at}", "w").close()
        os.kill(os.getpid(), 9)
    note("back", at, os.getpid())
    return at

@tool
async def refuse() -> str:
    """Fails."""
    raise ValueError("no")
'''
FAILS = """
kind: chain
name: fails
nodes:
  - {id: a, type: tool, tool: who, params: {at: a}}
  - {id: b, type: tool, tool: who, params: {at: b}}
  - {id: f, type: tool, tool: refuse}
"""
Start = Callable[..., Crew]


def undone(scene: Crew) -> list[str]:
    return [line.split()[1] for line in scene.lines() if line.startswith("back ")]


def with_undo(crew: Start, tool: str) -> Crew:
    scene = crew(FAILS, f'[undo.tools.who]\ntool = "{tool}"\nargs = {{at = "$args.at"}}\n')
    tools = scene.folder / "tools.py"
    tools.write_text(tools.read_text() + TOOLS)
    return scene


def test_workers_undo_a_run_on_request(crew: Start) -> None:
    scene = with_undo(crew, "back")
    [worker] = scene.hire()
    assert scene.run("run", "chain.yaml", "--id", "x").code == 1
    assert undone(scene) == []
    done = scene.run("runs", "undo", "x", "--json")
    assert (done.code, done.data["status"]) == (0, "undone"), done.err
    assert undone(scene) == ["b", "a"]
    assert {int(line.split()[2]) for line in scene.lines() if line.startswith("back ")} == {worker.pid}


def test_an_undo_by_policy_goes_on_after_its_worker_died(crew: Start) -> None:
    scene = with_undo(crew, "back_after_a_kill")
    scene.hire(3)
    run_id = scene.submit("chain.yaml", id="x", undo="on_failure")
    assert scene.until_ended(run_id) == "failed"
    scene.until(lambda: scene.status("x~undo") == "completed")
    assert undone(scene) == ["b", "a"]
