"""Whoever waits for a run that a worker executes sees what happens in it, as `runs watch` does."""

from __future__ import annotations

import json
import os
import pty
import re
from collections.abc import Callable

import httpx2

import fork_server
from faults.scene import COMMAND

from .crew import Crew, ended
from .test_worker_runs import ASKS, WHO

Start = Callable[..., Crew]


def test_run_tells_the_nodes_that_a_worker_has_done_while_it_is_at_it(crew: Start) -> None:
    scene = crew(WHO)
    scene.hire()
    plain = scene.start("run", "chain.yaml", "--id", "x")
    assert plain.stderr is not None
    assert plain.stderr.readline().startswith("✓ first  ")  # before the run goes on
    (scene.folder / "go").touch()
    assert re.sub(r"  [\d.]+ m?s", "", ended(plain).err).splitlines() == ["✓ long", "✓ last"]


def test_watch_tells_every_event_once_and_as_runs_watch_does(crew: Start) -> None:
    scene = crew(WHO)
    (scene.folder / "go").touch()
    scene.hire()
    done = scene.run("run", "chain.yaml", "--id", "x", "--watch", "--json")
    told = [json.loads(line) for line in done.out.splitlines()[:-1]]
    kinds = [(event["kind"], event["path"]) for event in told]
    nodes = [("node.finished", name) for name in ("first", "long", "last")]
    assert kinds == [("run.queued", ""), ("run.started", ""), *nodes, ("run.finished", "")]
    assert told[1]["data"]["nodes"] == 3
    followed = [json.loads(line) for line in scene.run("runs", "watch", "x", "--json").out.splitlines()[:-1]]
    assert [event for event in followed if event["path"]] == [event for event in told if event["path"]]


def test_a_run_that_comes_to_an_approval_is_followed_until_then_and_afterwards(crew: Start) -> None:
    scene = crew(ASKS)
    scene.hire()
    waiting = scene.start("run", "chain.yaml", "--id", "x", "--wait", "--watch")
    assert waiting.stderr is not None
    told = iter(waiting.stderr.readline, "")
    assert any(line.startswith("wait.started  ask") for line in told)
    assert scene.run("runs", "approve", "x").code == 0
    rest = ended(waiting).err
    assert (rest.count("node.finished  last"), rest.count("node.finished  first")) == (1, 0)


def test_the_bar_on_a_terminal_knows_how_many_nodes_there_are(crew: Start) -> None:
    scene = crew(WHO)
    (scene.folder / "go").touch()
    scene.hire()
    master, slave = pty.openpty()
    env = {**os.environ, "ROPEWALK_STORE": scene.address, "TERM": "xterm"}
    done = fork_server.Popen([COMMAND, "run", "chain.yaml"], cwd=scene.folder, env=env, stdout=slave, stderr=slave)
    os.close(slave)
    shown = b""
    try:
        while more := os.read(master, 65536):
            shown += more
    except OSError:  # the other end is closed
        pass
    os.close(master)
    assert done.wait(timeout=300) == 0
    assert b"3/3" in shown


def test_over_http_the_events_of_nodes_come_as_they_are_recorded(
    crew: Start, serve: Callable[[Crew], httpx2.Client]
) -> None:
    scene = crew(WHO)
    scene.hire()
    with serve(scene) as http:
        began = http.post("/api/runs", json={"document": {"kind": "chain", "nodes": _nodes()}, "runId": "x"})
        assert began.status_code == 202, began.text
        with http.stream("GET", "/api/runs/x/events") as stream:
            kinds = []
            for line in stream.iter_lines():
                if line.startswith("data: {") and "kind" in line:
                    event = json.loads(line.removeprefix("data: "))
                    kinds.append((event["kind"], event["path"]))
                    if kinds[-1] == ("node.finished", "first"):
                        (scene.folder / "go").touch()
    nodes = [("node.finished", name) for name in ("first", "long", "last")]
    assert [one for one in kinds if one[0] != "run.queued"] == [*nodes, ("run.finished", "")]


def _nodes() -> list[dict[str, object]]:
    return [
        {"id": "first", "type": "tool", "tool": "who", "params": {"at": "first"}},
        {"id": "long", "type": "tool", "tool": "wait_for_file", "params": {"at": "long", "name": "go"}},
        {"id": "last", "type": "tool", "tool": "who", "params": {"at": "last"}},
    ]
