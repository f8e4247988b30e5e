"""Programs that workers execute: an approval and a kill between two workers, a stop, a lost lease, another language."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tiers import sampled

from .crew import Crew, ended, kill

PLAN = """
kind: plan
name: asks
{origin}code: |
  import asyncio
  first = await who(at="first")
  both = await asyncio.gather(who(at="left"), wait_for_file(at="long", name="go"))
  answer = await approve("Go on?")
  return {{"answer": bool(answer), "last": await who(at="last")}}
"""
COMPUTES = """
kind: plan
name: computes
origin: model
code: |
  first = await who(at="first")
  total = 0
  for n in range(300_000):
      total += n
  return await who(at="next")
"""
ORIGINS = {"person": "", "model": "origin: model\n"}
Start = Callable[..., Crew]


@pytest.mark.parametrize("origin", sampled("recovery", ORIGINS, 1))
def test_a_program_continues_on_other_workers_after_a_kill_and_after_an_approval(crew: Start, origin: str) -> None:
    scene = crew(PLAN.format(origin=ORIGINS[origin]))
    scene.hire(2)
    scene.submit("chain.yaml", id="x")
    scene.until(lambda: "long" in scene.started() and sum(line.startswith("ack ") for line in scene.lines()) == 2)
    kill(scene.worker(scene.pids("first")[0]))
    scene.until(lambda: scene.started().count("long") == 2)
    (scene.folder / "go").touch()
    scene.until(lambda: scene.status("x") == "waiting")
    waiting = scene.workers[:]
    [other] = scene.hire()
    for worker in waiting:
        if worker.poll() is None:
            kill(worker)
    assert scene.run("runs", "approve", "x").code == 0
    assert scene.until_ended("x") == "completed"
    row = scene.row("x")
    assert row is not None
    assert row.result["result"] == {"answer": True, "last": other.pid}
    assert (len(scene.pids("first")), len(scene.pids("left")), scene.pids("last")) == (1, 1, [other.pid])


def test_a_stop_reaches_the_calls_of_a_program(crew: Start) -> None:
    scene = crew(PLAN.format(origin=ORIGINS["model"]))
    scene.hire()
    scene.submit("chain.yaml", id="x")
    scene.until(lambda: "long" in scene.started())
    stop = scene.start("runs", "stop", "x")
    scene.until(lambda: any(line.startswith("cancelled long") for line in scene.lines()))
    assert scene.status("x") == "stopped"
    assert ended(stop).code == 0


@pytest.mark.campaign("reliability", only=True)
def test_a_worker_that_lost_its_lease_answers_no_request_of_the_program(crew: Start) -> None:
    scene = crew(COMPUTES, "[workers]\nlease = 1.5\n")
    scene.hire(2)
    scene.submit("chain.yaml", id="x")
    scene.until(lambda: scene.pids("first", "end") != [])
    [asleep] = scene.pids("first")
    os.kill(asleep, signal.SIGSTOP)  # its child computes on, and then requests the next call
    assert scene.until_ended("x") == "completed"
    os.kill(asleep, signal.SIGCONT)
    assert any("others have taken over its runs" in line for line in scene.logged(scene.worker(asleep)))
    again = scene.submit("chain.yaml", id="y")  # awake, it is a worker as before
    assert scene.until_ended(again) == "completed"
    assert scene.pids("next")[0] != asleep
    assert len(scene.pids("next")) == 2  # one of each run


@pytest.mark.campaign("reliability", only=True)
def test_a_worker_without_the_language_of_a_program_leaves_its_run(crew: Start) -> None:
    scene = crew(PLAN.format(origin=ORIGINS["person"]))
    (scene.folder / "go").touch()
    tools = scene.folder / "tools.py"
    text = tools.read_text()
    scene.hire()
    scene.submit("chain.yaml", id="x")
    scene.until(lambda: scene.status("x") == "waiting")
    kill(scene.workers[0])
    tools.write_text(text + "\nfrom ropewalk.plans import rows\nrows.LANGUAGE = 99\n")
    [other] = scene.hire()
    assert scene.run("runs", "approve", "x").code == 0
    scene.until(lambda: scene.status("x") == "parked", other)
    row = scene.row("x")
    assert row is not None
    assert "resume it where that version is installed" in row.error["message"]
    kill(other)
    tools.write_text(text)
    scene.hire()
    assert scene.run("runs", "release", "x").code == 0
    assert scene.until_ended("x") == "completed"
    assert len(scene.pids("first")) == 1
