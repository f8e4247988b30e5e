"""The example of a support desk, used as its page says: by commands, over HTTP and over MCP, killed in the middle."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

import fork_server
from patience import wait_until
from ropewalk.tools.mcp.servers import McpServers

pytestmark = pytest.mark.process

EXAMPLE = Path(__file__).parents[1] / "examples" / "support_desk"
COMMAND = str(Path(sys.executable).with_name("ropewalk"))
TOKEN = "only-for-tests"
LETTER = "Dear Ada, thank you for your 2 tickets. We have paid your money back."


class Desk:
    """A copy of the example, and its mail service, which can hold the next answer back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.requests: list[tuple[str, Any]] = []
        self.hold, self.reached, self.released = False, threading.Event(), threading.Event()
        spec = importlib.util.spec_from_file_location("support_desk_mail", folder / "mail.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        desk = self

        class Mail(module.Mail):  # type: ignore[misc,name-defined]
            def record(self, body: Any) -> None:
                desk.requests.append((self.path, body))
                if desk.hold and self.path == "/answers":
                    desk.reached.set()
                    desk.released.wait(60)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Mail)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        path = os.pathsep.join([str(fork_server.programs()), str(Path(sys.executable).parent), os.environ["PATH"]])
        url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.env = {**os.environ, "PATH": path, "DESK_URL": url, "ROPEWALK_TOKEN": TOKEN}

    def start(self, *args: str) -> subprocess.Popen[str]:
        return fork_server.Popen(
            [COMMAND, *args], cwd=self.folder, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def __call__(self, *args: str, code: int = 0) -> Any:
        """Return what one `ropewalk ... --json` prints."""
        with self.start(*args, "--json") as child:
            out, error = child.communicate(timeout=100)
        assert child.returncode == code, error or out
        return json.loads(out)

    def sent(self, path: str, customer: str) -> int:
        return sum(1 for where, body in self.requests if (where, body["customer"]) == (path, customer))

    def status(self, ticket: str) -> str:
        return str(json.loads((self.folder / "tickets.json").read_text())[ticket]["status"])


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    ignore = shutil.ignore_patterns("runs.db*", "__pycache__", ".ropewalk")
    result = Desk(Path(shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("desk") / "support_desk", ignore=ignore)))
    yield result
    result.released.set()
    result.server.shutdown()
    result.server.server_close()


def test_every_flow_is_valid_and_listed(desk: Desk) -> None:
    flows = {"classify", "desk", "digest", "history", "refund"}
    listed = desk("tools", "ls")
    names = {each["name"] for each in listed["tools"] if not each.get("namespace")}
    assert (names, listed["failures"]) == (flows, {})


def test_a_refund_waits_for_a_person_and_survives_a_kill(desk: Desk) -> None:
    given = ("run", "desk.yaml", "--input", '{"id": "t1"}', "--id", "one")
    waiting = desk(*given, code=4)
    assert [wait["approval"] for wait in waiting["waitingFor"]] == ["Pay 40 back to Ada?"]
    assert desk.requests == []
    desk("runs", "approve", "one", "--by", "eva")
    # The process dies while the answer is being sent: the refund is paid, and recorded.
    desk.hold = True
    with desk.start("resume", "one") as child:
        assert desk.reached.wait(60)
        os.kill(child.pid, signal.SIGKILL)
    desk.hold = False
    desk.released.set()
    assert desk.status("t1") == "open"
    assert desk("resume", "one")["result"] == LETTER
    assert (desk.sent("/refunds", "Ada"), desk.sent("/answers", "Ada"), desk.status("t1")) == (1, 2, "closed")
    parts = {
        run["runId"].partition("/")[2].rpartition("/")[2] for run in desk("runs", "ls", "--all") if "/" in run["runId"]
    }
    assert parts == {"classify", "digest", "history", "refund"}


def test_over_http_with_its_events(desk: Desk) -> None:
    with desk.start("serve", "--port", "0") as child:
        try:
            assert child.stdout is not None
            url = child.stdout.readline().partition("/?")[0]
            with httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as client:
                _approve_over_http(client)
        finally:
            child.terminate()
    assert (desk.sent("/refunds", "Bob"), desk.status("t3")) == (1, "closed")


def _approve_over_http(client: httpx2.Client) -> None:
    body = {"definition": {"kind": "file", "id": "desk.yaml"}, "input": {"id": "t3"}, "runId": "three"}
    assert client.post("/api/runs", json=body).json()["runId"] == "three"
    answered: list[str] = []

    def is_answered() -> bool:  # once the run waits
        answer = client.post("/api/runs/three/approve", json={"by": "eva", "note": "wrong size"})
        answered.append(answer.text)
        return answer.status_code == 200

    wait_until(is_answered)
    assert json.loads(answered[-1])["answered"]["approval"] == "Pay 900 back to Bob?"
    with client.stream("GET", "/api/runs/three/events") as events:
        kinds = [line.partition(": ")[2] for line in events.iter_lines() if line.startswith("event: ")]
    assert {"node.finished", "run.finished", "end"} <= set(kinds)
    assert client.get("/api/runs/three").json()["result"].startswith("Dear Bob")
    names = {each["name"] for each in client.get("/api/tools").json()["tools"]}
    assert {"desk", "refund", "digest"} <= names


def test_over_mcp(desk: Desk) -> None:
    async def work() -> tuple[set[str], Any, list[str]]:
        steps: list[str] = []
        async with McpServers() as servers:
            env = {name: desk.env[name] for name in ("PATH", "DESK_URL", "PYTHONPATH") if name in desk.env}
            servers.add("desk", {"command": "ropewalk", "args": ["mcp", "-C", str(desk.folder)], "env": env})
            await servers.connect("desk")
            names = {tool.name for tool in servers.tools("desk")}

            async def on_progress(step: Any) -> None:
                steps.append(step.message)

            answer = await servers.call_tool("desk", "desk", {"id": "t2"}, on_progress=on_progress)
            return names, answer.structured_content, steps

    names, answer, steps = asyncio.run(work())
    assert names == {"classify", "desk", "digest", "history", "refund", "resume_run"}
    assert answer == {"result": "Dear Ada, thank you for your 2 tickets. Read our page about splices."}
    assert any(step.endswith(": done") for step in steps)
    assert desk.status("t2") == "closed"
