"""Runs in line are taken by workers and executed once, whatever happens to the workers."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from ropewalk import App
from ropewalk.errors import StoreError

from .crew import STEPS, Crew, ended, kill

WHO = """
kind: chain
name: who
nodes:
  - {id: first, type: tool, tool: who, params: {at: first}}
  - {id: long, type: tool, tool: wait_for_file, params: {at: long, name: go}}
  - {id: last, type: tool, tool: who, params: {at: last}}
"""
DEADLY = """
kind: chain
name: deadly
nodes:
  - {id: first, type: tool, tool: async_step, params: {at: first}}
  - {id: deadly, type: tool, tool: die, params: {at: deadly, until: mended}}
"""
ASKS = """
kind: chain
name: asks
nodes:
  - {id: first, type: tool, tool: who, params: {at: first}}
  - {id: ask, type: wait, approval: "Go on?"}
  - {id: last, type: tool, tool: who, params: {at: last}}
"""
Start = Callable[..., Crew]


def test_a_run_that_waits_says_so_and_goes_on_when_it_is_approved(crew: Start) -> None:
    scene = crew(ASKS)
    scene.hire()
    done = scene.run("run", "chain.yaml", "--json", "--id", "x")
    assert (done.code, done.data["status"]) == (4, "waiting"), done.err
    assert [(wait["node"], wait["approval"]) for wait in done.data["waitingFor"]] == [("ask", "Go on?")]
    assert scene.run("runs", "approve", "x").code == 0
    assert scene.until_ended("x") == "completed"
    assert scene.started() == ["first", "last"]


def test_a_run_is_executed_by_workers_and_its_result_comes_back(crew: Start) -> None:
    scene = crew()
    scene.hire(2)
    done = scene.run("run", "chain.yaml", "--json", "--id", "x")
    assert (done.code, done.data["status"]) == (0, "completed"), done.err
    assert set(Counter(scene.started()).values()) == {1}
    assert scene.recorded("x") == set(scene.started())


def test_many_runs_are_shared_and_each_is_run_once(crew: Start) -> None:
    scene = crew(WHO)
    workers = scene.hire(2, "--concurrency", "2")
    runs = scene.submit_all("chain.yaml", {f"r{i}": None for i in range(8)})
    assert scene.submit("chain.yaml", id="r0") == "r0"
    scene.until(lambda: scene.started().count("long") == 4)  # as many as both can have
    (scene.folder / "go").touch()
    for run in runs:
        assert scene.until_ended(run) == "completed"
    assert len(scene.pids("first")) == 8
    assert set(scene.pids("first")) == {worker.pid for worker in workers}


def test_the_run_of_a_worker_killed_in_a_step_goes_on_elsewhere(crew: Start) -> None:
    scene = crew(WHO)
    scene.hire(2)
    scene.submit("chain.yaml", id="x")
    scene.until(lambda: scene.started().count("long") == 1)
    victim = scene.pids("first")[0]
    kill(scene.worker(victim))
    scene.until(lambda: scene.started().count("long") == 2)
    (scene.folder / "go").touch()
    assert scene.until_ended("x") == "completed"
    assert len(scene.pids("first")) == 1  # recorded: never again
    assert scene.pids("last")[0] != victim


def test_a_worker_that_is_told_to_stop_ends_its_runs_first(crew: Start) -> None:
    scene = crew(WHO)
    [worker] = scene.hire()
    scene.submit("chain.yaml", id="x")
    scene.until(lambda: "long" in scene.started())
    worker.send_signal(signal.SIGTERM)
    late = scene.submit("chain.yaml", id="late")
    (scene.folder / "go").touch()
    assert ended(worker).code == 0
    assert (scene.status("x"), scene.status(late)) == ("completed", "running")
    scene.hire()
    assert scene.until_ended(late) == "completed"


@pytest.mark.parametrize("how", ["grace", "twice"])
def test_a_worker_that_has_to_go_lets_others_go_on_at_once(crew: Start, how: str) -> None:
    scene = crew(WHO)
    [first] = scene.hire(1, *(["--grace", "0.1"] if how == "grace" else []))
    scene.submit("chain.yaml", id="x")
    scene.until(lambda: "long" in scene.started())
    scene.hire()
    first.send_signal(signal.SIGTERM)
    if how == "twice":
        assert first.stderr is not None
        assert "takes no more runs; 1 " in first.stderr.readline()
        first.send_signal(signal.SIGTERM)
    scene.until(lambda: scene.started().count("long") == 2)
    assert ended(first).code == 0
    (scene.folder / "go").touch()
    assert scene.until_ended("x") == "completed"
    assert len(scene.pids("first")) == 1


def test_a_stop_reaches_the_worker(crew: Start) -> None:
    scene = crew(WHO)
    scene.hire()
    scene.submit("chain.yaml", id="x")
    scene.until(lambda: "long" in scene.started())
    stop = scene.start("runs", "stop", "x")
    scene.until(lambda: any(line.startswith("cancelled long") for line in scene.lines()))
    assert scene.status("x") == "stopped"
    assert ended(stop).code == 0
    scene.hire()
    assert "last" not in scene.started()


def test_a_run_that_kills_its_workers_is_parked_until_it_is_released(crew: Start) -> None:
    scene = crew(DEADLY, "[workers]\nrecoveries = 1\n")
    scene.submit("chain.yaml", id="x")
    while scene.status("x") == "running":
        [worker] = scene.hire()
        scene.until(lambda: scene.status("x") != "running", worker)
    assert scene.status("x") == "parked"
    assert scene.started().count("deadly") == 2  # the first time, and one recovery
    row = scene.row("x")
    assert row is not None
    assert "release the run" in row.error["message"]
    assert scene.run("runs", "release", "nothing").code == 2
    (scene.folder / "mended").touch()
    assert scene.run("runs", "release", "x").code == 0
    assert scene.until_ended("x") == "completed"
    assert scene.started().count("first") == 1


def test_a_run_whose_tool_no_worker_has_goes_to_one_that_has_it(crew: Start) -> None:
    able, lacking = crew(WHO), crew(WHO)
    (able.folder / "go").touch()
    (lacking.folder / "tools.py").write_text("")
    [without] = lacking.hire()
    able.submit("chain.yaml", id="x")
    assert able.until_ended("x") == "failed"  # nobody there has it
    row = able.row("x")
    assert row is not None
    assert "who" in row.error["message"]
    able.hire()
    able.submit("chain.yaml", id="y")
    assert able.until_ended("y") == "completed"
    assert without.poll() is None


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_workers_need_a_store_in_postgres(tmp_path: Path, store: str) -> None:
    where = str(tmp_path / "store.db") if store == "sqlite" else store
    app = App(where, engine="dbos")
    with pytest.raises(StoreError, match="postgresql://"):
        _ = app.engine
    app.store.close()


@pytest.mark.campaign("recovery", only=True)
def test_steps_of_every_kind_survive_a_worker_killed_again_and_again(crew: Start) -> None:
    scene = crew(STEPS)
    scene.submit("chain.yaml", id="x")
    since, recorded = 0, set[str]()
    for most in (3, 12, 99):
        [worker] = scene.hire()
        scene.until(lambda most=most: len(scene.started()) >= most or scene.status("x") != "running")  # type: ignore[misc]
        kill(worker)
        assert recorded.isdisjoint(scene.started(since))
        since, recorded = len(scene.lines()), scene.recorded("x")
    assert scene.status("x") == "completed"
    assert recorded == set(scene.started())
