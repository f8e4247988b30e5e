"""A worker that is paused beyond its lease: its runs go on elsewhere, and awake it does nothing to them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from .crew import Crew

STEPS = """
kind: chain
name: steps
nodes:
  - {id: first, type: tool, tool: who, params: {at: first}}
  - {id: long, type: tool, tool: wait_for_file, params: {at: long, name: go}}
  - {id: next, type: tool, tool: who, params: {at: next}}
  - {id: last, type: tool, tool: who, params: {at: last}}
"""
Start = Callable[..., Crew]


def test_a_paused_worker_calls_and_writes_nothing_more_for_runs_that_others_have(crew: Start) -> None:
    scene = crew(STEPS, "[workers]\nlease = 1.5\n")
    scene.hire(2)
    scene.submit("chain.yaml", id="x")
    scene.until(lambda: "long" in scene.started())
    asleep = scene.pids("first")[0]
    os.kill(asleep, signal.SIGSTOP)
    scene.until(lambda: scene.started().count("long") == 2)  # somewhere else, after the lease
    (scene.folder / "go").touch()
    assert scene.until_ended("x") == "completed"
    recorded = scene.history("x")
    os.kill(asleep, signal.SIGCONT)
    # Awake, it finds itself given up, says so, and is a worker as before.
    worker = scene.worker(asleep)
    assert worker.stderr is not None
    said = iter(worker.stderr.readline, "")
    assert any("others have taken over its runs" in line for line in said)
    again = scene.submit("chain.yaml", id="y")
    assert scene.until_ended(again) == "completed"
    assert scene.history("x") == recorded
    assert len([pid for pid in scene.pids("next") if pid == asleep]) <= 1  # y may be its; x is not
    row = scene.row("x")
    assert row is not None
    assert row.epoch == 3  # put in line, taken, taken over
