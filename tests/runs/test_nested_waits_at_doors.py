"""Waits of inner flows, answered through the outer run over HTTP and on the command line."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

import fork_server
from patience import wait_until
from serve.server import COMMAND, Served, serve

pytestmark = pytest.mark.process

TOOLS = '''
import asyncio
from pathlib import Path

from ropewalk import App, tool


def call(name):
    with open("calls", "a") as file:
        file.write(name + "\\n")
    return name


@tool
def before() -> str:
    """Run before the approval."""
    return call("before")


@tool
async def after() -> str:
    """Run after the approval; wait as long as the file `hold` exists."""
    call("after")
    while Path("hold").exists():
        await asyncio.sleep(0.01)
    return "after"


@tool
def last() -> str:
    """Run in the outer flow."""
    return call("last")


LEAF = {"kind": "chain", "name": "leaf", "nodes": [
    {"id": "before", "type": "tool", "tool": "before"},
    {"id": "ask", "type": "wait", "approval": "Ship it?"},
    {"id": "after", "type": "tool", "tool": "after"},
]}
leaf = App("memory", tools=[before, after]).as_tool(LEAF)
'''
LEAF_CALL = {"type": "tool", "tool": "leaf"}
OUTER = {"kind": "chain", "name": "outer", "nodes": [
    {"id": "call", **LEAF_CALL}, {"id": "last", "type": "tool", "tool": "last"},
]}  # fmt: skip
TWICE = {"kind": "chain", "name": "twice", "mode": "parallel", "nodes": [
    {"id": "a", **LEAF_CALL}, {"id": "b", **LEAF_CALL},
]}  # fmt: skip
Start = Callable[[], AbstractContextManager[Served]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Start a server over the same project and store, as often as it is called."""

    @contextmanager
    def server() -> Any:
        yield from serve(tmp_path, settings="[store]\nurl = 'runs.db'\n", tools=TOOLS)

    return server


def run_of(served: Served) -> Any:
    return served.get("/api/runs/r").json()


def wait_paths(served: Served) -> list[str]:
    """The paths of the waits of run r, as its page has them."""
    return sorted(wait["path"] for wait in served.get("/api/runs/r/waiting").json()["waiting"])


def kill(served: Served) -> None:
    served.process.send_signal(signal.SIGKILL)
    served.process.wait(timeout=300)


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().split()


def command(folder: Path, *words: str) -> Any:
    return fork_server.run([COMMAND, *words], cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("node", ["ask", "call", "call/ask", None])
def test_http_approves_a_nested_wait_after_the_server_was_killed(
    node: str | None, start: Start, tmp_path: Path
) -> None:
    with start() as served:
        assert served.post("/api/runs", {"document": OUTER, "runId": "r"}).status_code == 202
        wait_until(lambda: wait_paths(served) == ["call/ask"])
        kill(served)
    with start() as served:
        assert wait_paths(served) == ["call/ask"]
        wrong = served.post("/api/runs/r/approve", {"node": "asc"})
        assert (wrong.status_code, wrong.json()["error"]["kind"]) == (409, "NotWaiting")
        answered = served.post("/api/runs/r/approve", {"node": node, "by": "ann"})
        assert answered.status_code == 200, answered.text
        assert (answered.json()["runId"], answered.json()["answered"]["path"]) == ("r", "call/ask")
        run = wait_until(lambda: (run := run_of(served))["status"] == "completed" and run)
        inner = {"before": "before", "ask": {"approved": True, "by": "ann", "note": None}, "after": "after"}
        assert run["result"] == {"call": inner, "last": "last"}
        assert served.get("/api/waiting").json()["waiting"] == []
    assert calls(tmp_path) == ["before", "after", "last"]


def test_an_approval_of_a_nested_wait_survives_the_server_that_took_it(start: Start, tmp_path: Path) -> None:
    (tmp_path / "hold").touch()
    with start() as served:
        served.post("/api/runs", {"document": OUTER, "runId": "r"})
        wait_until(lambda: wait_paths(served) == ["call/ask"])
        assert served.post("/api/runs/r/approve", {"node": "ask"}).status_code == 200
        wait_until(lambda: "after" in calls(tmp_path))
        kill(served)
    (tmp_path / "hold").unlink()
    with start() as served:
        assert wait_paths(served) == [], "the answer is recorded"
        twice = served.post("/api/runs/r/approve", {"node": "ask"})
        assert twice.status_code == 409, twice.text
        wait_until(lambda: served.post("/api/runs/r/resume", {}).status_code in (200, 202))
        wait_until(lambda: run_of(served)["status"] == "completed")
    assert calls(tmp_path) == ["before", "after", "after", "last"], "only the call that was cut off is made again"


def test_equally_named_inner_waits_are_refused_with_the_list(start: Start, tmp_path: Path) -> None:
    with start() as served:
        served.post("/api/runs", {"document": TWICE, "runId": "r"})
        wait_until(lambda: wait_paths(served) == ["a/ask", "b/ask"])
        refused = served.post("/api/runs/r/approve", {"node": "ask"})
        assert refused.status_code == 409
        assert "there are 2 open approvals; name one of them: a/ask, b/ask" in refused.json()["error"]["message"]
        kill(served)
    for words in (("r", "ask"), ("r",)):
        done = command(tmp_path, "runs", "approve", *words)
        assert done.returncode == 2, done.stdout
        assert "there are 2 open approvals; name one of them: a/ask, b/ask" in done.stderr
    assert calls(tmp_path) == ["before", "before"]
    first = command(tmp_path, "runs", "approve", "r", "b/ask")
    assert (first.returncode, first.stdout.splitlines()[0]) == (0, "approved b/ask of r: Ship it?"), first.stderr
    second = command(tmp_path, "runs", "approve", "r", "ask")
    assert second.stdout.splitlines()[0] == "approved a/ask of r: Ship it?", (second.stderr, "the only one left")
    done = command(tmp_path, "resume", "r", "--json")
    assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "completed"), done.stderr
    assert sorted(calls(tmp_path)) == ["after", "after", "before", "before"]
