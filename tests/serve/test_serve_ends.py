"""How `ropewalk serve` ends: with its app, and every server that this has started."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from patience import wait_until
from serve.server import TOOLS, Served, serve
from tiers import sampled

pytestmark = pytest.mark.process

ODD = Path(__file__).parents[1] / "mcp_servers" / "odd.py"


@pytest.fixture
def with_server(tmp_path: Path) -> Iterator[Served]:
    """One whose MCP server is started by a shell that would go on after it."""
    script = tmp_path / "run.sh"
    script.write_text(f"{sys.executable} {ODD}\nsleep 600\n")
    yield from serve(tmp_path, settings=f"[mcp.odd]\ncommand = 'sh'\nargs = [{json.dumps(str(script))}]\n")


@pytest.mark.parametrize("number", sampled("faults", [signal.SIGTERM, signal.SIGINT], 1))
def test_a_signal_ends_it_with_the_servers_that_it_has_started(with_server: Served, number: signal.Signals) -> None:
    answer = with_server.post("/api/tools/odd:pid", {"arguments": {}})
    assert answer.status_code == 200, answer.text
    shell = parent(int(answer.json()["result"]))
    with_server.process.send_signal(number)
    assert with_server.process.wait(50) == 0
    assert not Path(f"/proc/{shell}").exists()


def test_a_stream_that_is_open_ends_with_it_and_nothing_is_said_of_that(with_server: Served) -> None:
    run = with_server.post("/api/runs", {"document": {"kind": "chain", "name": "w", "nodes": [WAITS]}}).json()["runId"]
    with with_server.client.stream("GET", f"/api/runs/{run}/events") as stream:
        next(stream.iter_lines())
        with_server.process.send_signal(signal.SIGTERM)
        assert with_server.process.wait(50) == 0
    assert with_server.process.stderr is not None
    assert "Traceback" not in with_server.process.stderr.read()


WAITS = {"id": "w", "type": "tool", "tool": "wait_for", "params": {"name": "never"}}


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_an_answer_to_what_an_ended_server_left_waiting_lets_it_go_on(tmp_path: Path) -> None:
    asks = {"kind": "chain", "name": "asks", "nodes": [{"id": "ask", "type": "wait", "approval": "Ship it?"}]}
    for served in serve(tmp_path):
        served.post("/api/runs", {"document": asks, "runId": "r"})
        with served.client.stream("GET", "/api/runs/r/events") as stream:
            assert any("wait.started" in line for line in stream.iter_lines())
        served.process.terminate()
        served.process.wait(50)
    for served in serve(tmp_path):
        assert served.post("/api/runs/r/approve", {}).status_code == 200
        with served.client.stream("GET", "/api/runs/r/events") as stream:
            assert any("run.finished" in line for line in stream.iter_lines())
        assert served.get("/api/runs/r").json()["status"] == "completed"


def test_dev_uses_a_changed_module_in_the_next_call_and_says_so(tmp_path: Path) -> None:
    for served in serve(tmp_path, command="dev"):
        assert served.post("/api/tools/add", {"arguments": {"a": 4}}).json()["result"] == 5
        assert served.process.stderr is not None
        (tmp_path / "unused.sqlite").touch()
        (tmp_path / "tools.py").write_text("def broken(:\n")
        assert "tools.py:1:12: " in served.process.stderr.readline()
        (tmp_path / "tools.py").write_text(TOOLS.replace("a + b", "a * b * 100"))
        wait_until(partial(is_answered, served, 400))
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(50) == 0
        assert "reloaded tools.py\n" in served.process.stderr.read()


def is_answered(served: Served, result: int) -> bool:
    return bool(served.post("/api/tools/add", {"arguments": {"a": 4}}).json()["result"] == result)
