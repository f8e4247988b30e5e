"""What limits workers: queues, priorities, the pace of tools. Counted by what the tools wrote down, wherever."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from .crew import Crew

ONE = """
kind: chain
name: one
nodes:
  - {id: one, type: tool, tool: who, params: {at: $input.at, ms: $input.ms}}
"""
Start = Callable[..., Crew]


def at_once(crew: Crew) -> int:
    """The most calls of `who` that were under way at one time."""
    moments = sorted(
        (float(line.split()[3]), 1 if line.startswith("start") else -1)
        for line in crew.lines()
        if len(line.split()) == 4
    )
    most = now = 0
    for _, step in moments:
        now += step
        most = max(most, now)
    return most


def put(crew: Crew, count: int, ms: int, **how: Any) -> list[str]:
    return crew.submit_all(
        "chain.yaml", {name: {"at": name, "ms": ms} for name in (f"r{i}" for i in range(count))}, **how
    )


def test_a_queue_has_so_many_runs_at_once_in_all_workers_and_so_many_in_one(crew: Start) -> None:
    scene = crew(ONE, "[queues.narrow]\nconcurrency = 3\nworker_concurrency = 2\n")
    workers = scene.hire(2)
    runs = put(scene, 6, 1000, queue="narrow")
    assert {scene.until_ended(run) for run in runs} == {"completed"}
    assert at_once(scene) <= 3
    assert {pid for run in runs for pid in scene.pids(run)} == {worker.pid for worker in workers}


def test_a_worker_has_at_most_its_own_concurrency(crew: Start) -> None:
    scene = crew(ONE)
    runs = put(scene, 6, 200)
    scene.hire(1, "--concurrency", "2")
    assert {scene.until_ended(run) for run in runs} == {"completed"}
    assert at_once(scene) == 2


def test_what_is_urgent_is_taken_first(crew: Start) -> None:
    scene = crew(ONE)
    runs = [
        scene.submit("chain.yaml", id=name, input={"at": name, "ms": 1}, priority=priority)
        for name, priority in (("late", 300), ("usual", 100), ("first", 1), ("soon", 50))
    ]
    scene.hire(1, "--concurrency", "1")
    assert {scene.until_ended(run) for run in runs} == {"completed"}
    assert [line.split()[1] for line in scene.lines() if line.startswith("start")] == ["first", "soon", "usual", "late"]


def test_a_worker_takes_only_from_the_queues_it_is_told(crew: Start) -> None:
    scene = crew(ONE, "[queues.aside]\n")
    put(scene, 1, 1)
    aside = scene.submit("chain.yaml", input={"at": "aside", "ms": 1}, queue="aside")
    scene.hire(1, "--queue", "aside")
    assert scene.until_ended(aside) == "completed"
    assert scene.status("r0") == "running"
    wrong = scene.run("run", "chain.yaml", "--queue", "asside", "--no-wait", "-i", '{"at": "x", "ms": 1}')
    assert (wrong.code, "aside" in wrong.err) == (2, True)


def test_a_tool_is_called_no_faster_than_its_limit_in_all_workers_together(crew: Start) -> None:
    scene = crew(ONE, '[limits.tools."wh*"]\nper_second = 5\nburst = 2\n')
    scene.hire(2)
    begun = time.time()
    runs = put(scene, 8, 1)
    assert {scene.until_ended(run) for run in runs} == {"completed"}
    starts = sorted(float(line.split()[3]) for line in scene.lines() if line.startswith("start"))
    # Two at once, then five in a second. A busy machine may delay a call, but none comes early.
    assert all(start - begun >= (at - 1) / 5 for at, start in enumerate(starts)), [start - begun for start in starts]


@pytest.mark.campaign("reliability", only=True)
def test_a_queue_begins_no_more_runs_in_a_period_than_its_limit(crew: Start) -> None:
    scene = crew(ONE, "[queues.slow]\nlimit = 3\nperiod = 1\n")
    runs = put(scene, 9, 1, queue="slow")
    scene.hire(2)
    assert {scene.until_ended(run) for run in runs} == {"completed"}
    taken = scene.sql("SELECT started_at_epoch_ms FROM {dbos}.workflow_status WHERE name = 'ropewalk.run' ORDER BY 1")
    moments = [int(at) for (at,) in taken]  # by the clock of the server
    assert len(moments) == 9
    assert all(later - earlier >= 1000 for earlier, later in zip(moments, moments[3:], strict=False)), moments
