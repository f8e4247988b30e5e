"""Runs that no worker takes: whoever waits hears of it, and they are listed as what they are."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Callable

import pytest

from ropewalk import App
from ropewalk.errors import NotFound

from .crew import Crew, ended
from .test_worker_runs import ASKS, WHO

Start = Callable[..., Crew]


def test_who_waits_for_a_run_hears_that_no_worker_is_there(crew: Start) -> None:
    scene = crew(WHO)
    (scene.folder / "go").touch()
    tools = scene.folder / "tools.py"
    tools.write_text(f"{tools.read_text()}\nfrom ropewalk.workers import queues\nqueues._UNATTENDED_AFTER = 0.2\n")
    waiting = scene.start("run", "chain.yaml", "--id", "x", "--json")
    assert waiting.stderr is not None
    said = waiting.stderr.readline()
    assert "run x is waiting in queue default, but no worker is running" in said
    assert "start a worker" in said
    put = scene.run("run", "chain.yaml", "--id", "y", "--no-wait")
    assert (put.out.strip(), "no worker is running" in put.err) == ("y", True)
    [worker] = scene.hire()
    assert ended(waiting).code == 0
    assert "no worker" not in scene.run("run", "chain.yaml", "--no-wait").err
    assert worker.poll() is None


def test_workers_of_other_queues_are_not_there_for_it(crew: Start) -> None:
    scene = crew(WHO, "[queues.a]\n[queues.b]\n")
    scene.hire(1, "--queue", "a")
    put = scene.run("run", "chain.yaml", "--no-wait", "--queue", "b")
    assert "none of the 1 workers serves this queue" in put.err


def test_a_run_in_line_is_listed_as_queued_and_followed(crew: Start) -> None:
    scene = crew(WHO)
    (scene.folder / "go").touch()
    scene.submit("chain.yaml", id="x")
    [row] = scene.run("runs", "ls", "--json").data
    assert (row["status"], row["queued"], row["interrupted"]) == ("running", True, False)
    assert " queued " in scene.run("runs", "ls").out
    for status, ids in (("queued", ["x"]), ("running", ["x"]), ("interrupted", []), ("completed", [])):
        assert [row["runId"] for row in scene.run("runs", "ls", "--status", status, "--json").data] == ids
    shown = scene.run("runs", "show", "x").out
    assert "status   queued: waiting in queue default, but no worker is running" in shown
    assert "resume" not in shown
    watching = scene.start("runs", "watch", "x")
    assert watching.stderr is not None
    assert "no worker is running" in watching.stderr.readline()
    scene.hire()
    done = ended(watching)
    assert (done.code, "run completed" in done.out) == (0, True)
    assert scene.run("runs", "ls", "--json").data[0]["queued"] is False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_who_waits_for_a_run_leaves_the_run_to_its_worker(crew: Start, number: int) -> None:
    scene = crew(WHO)
    scene.hire()
    waiting = scene.start("run", "chain.yaml", "--id", "x")
    scene.until(lambda: "long" in scene.started())
    waiting.send_signal(number)
    gone = ended(waiting)
    assert (gone.code, "ropewalk runs stop x" in gone.err) == (130, True), gone.err
    (scene.folder / "go").touch()
    assert scene.until_ended("x") == "completed"


def test_what_is_answered_goes_on_with_a_worker_and_not_by_hand(crew: Start) -> None:
    scene = crew(ASKS)
    [worker] = scene.hire()
    asked = scene.run("run", "chain.yaml", "--id", "x", "--queue", "default")
    assert asked.code == 4  # and does not wait for ever
    for said in (asked.out, scene.run("runs", "show", "x").out, scene.run("runs", "watch", "x").err):
        assert ("then a worker continues it" in said, "resume" in said) == (True, False), said
    worker.send_signal(signal.SIGTERM)
    ended(worker)
    said = scene.run("runs", "approve", "x").out
    assert "no worker is running" in said
    assert "resume" not in said
    scene.hire()
    assert scene.until_ended("x") == "completed"


def test_a_worker_says_nothing_but_json_when_that_is_asked_for(crew: Start) -> None:
    scene = crew(WHO)
    (scene.folder / "go").touch()
    worker = scene.start("worker", "--log", "json")
    assert worker.stderr is not None
    first = json.loads(worker.stderr.readline())
    assert re.fullmatch(r"worker \S+ takes runs", first["message"])
    scene.submit("chain.yaml", id="x")
    assert scene.until_ended("x") == "completed"
    worker.send_signal(signal.SIGTERM)
    rest = [json.loads(line) for line in ended(worker).err.splitlines()]
    assert [line["runId"] for line in rest if line["message"] == "run.finished"] == ["x"]


def test_a_run_in_a_file_goes_on_here_though_the_project_has_workers(crew: Start) -> None:
    scene = crew(ASKS)
    here = ("--store", "here.db", "--engine", "local")
    asked = scene.run("run", "chain.yaml", "--id", "x", *here)
    assert asked.code == 4, asked.err
    [command] = re.findall("then: ropewalk (.*)", asked.out)
    assert scene.run("runs", "approve", "x", "--store", "here.db").code == 0
    assert "or --engine local on the command line" in scene.run("resume", "x", "--store", "here.db").err
    assert scene.run(*command.split()).code == 0
    again = scene.run("runs", "retry", "x", "--from", "last", "--json", *here)
    assert (again.code, again.data["status"]) == (0, "completed"), again.err
    assert scene.run("runs", "fork", "x", "--from", "last", *here).code == 0
    assert scene.started() == ["first", "last", "last", "last"]


@pytest.mark.campaign("reliability", only=True)
def test_what_is_answered_of_a_run_that_was_never_in_line_goes_on_with_a_worker_too(crew: Start) -> None:
    scene = crew(ASKS)
    assert "ropewalk resume x" in scene.run("run", "chain.yaml", "--id", "x", "--engine", "local").out
    scene.hire()
    said = scene.run("runs", "approve", "x").out
    assert ("a worker continues it" in said, "resume" in said) == (True, False), said
    assert scene.until_ended("x") == "completed"


def test_a_tool_that_came_after_the_workers_is_missed_with_what_is_to_be_done(crew: Start) -> None:
    scene = crew(WHO)
    scene.hire()
    tools = scene.folder / "tools.py"
    tools.write_text(tools.read_text() + "\n@tool\nasync def newtool() -> int:\n    return 1\n")
    scene.write("new.yaml", "kind: chain\nnodes: [{id: a, type: tool, tool: newtool}]\n")
    done = scene.run("run", "new.yaml")
    assert (done.code, "unknown tool 'newtool'" in done.out) == (1, True), done.out + done.err
    assert "after a change of tools, restart the workers" in done.out


def test_a_run_or_a_queue_that_never_was_is_refused_as_that(postgres_url: str) -> None:
    chain = {"kind": "chain", "nodes": [{"id": "a", "type": "delay", "delay": 1}]}

    async def body() -> None:
        async with App(postgres_url, engine="dbos") as app:
            with pytest.raises(NotFound) as refused:
                await app.wait("nope")
            assert str(refused.value) == "no run 'nope'"
            with pytest.raises(NotFound, match=r"App\(settings=WorkerSettings\(queues=\{"):
                await app.submit(chain, queue="reports")

    asyncio.run(body())
