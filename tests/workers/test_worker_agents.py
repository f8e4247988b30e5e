"""Agents are runs like any other: workers ask the model, and retry goes on with what is recorded."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from .crew import Crew

AGENT = """
kind: agent
name: asker
prompt: "Which process is at work?"
tools: [who]
"""
CALL = {"type": "tool_use", "id": "call_1", "name": "who", "input": {"at": "asked"}}


class Model(ThreadingHTTPServer):
    """The Messages API: first it wants a tool, then it is refused once (400), then it has an answer."""

    turns: list[Any]


class Answers(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        assert isinstance(self.server, Model)
        turn = self.server.turns.pop(0)
        said = "Your credit balance is too low"  # what a retry can find changed; any other 400 is final for a request
        body: dict[str, Any] = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
        if turn is not None:
            body = {
                "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [turn],
                "stop_reason": "tool_use" if turn["type"] == "tool_use" else "end_turn", "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }  # fmt: skip
        data = json.dumps(body).encode()
        self.send_response(400 if turn is None else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def model() -> Iterator[Model]:
    server = Model(("127.0.0.1", 0), Answers)
    server.turns = [CALL, None, {"type": "text", "text": "That one."}]
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_an_agent_is_run_and_retried_by_workers(
    crew: Callable[..., Crew], model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "no-key")
    scene = crew(settings=f'[claude]\nbase_url = "http://127.0.0.1:{model.server_port}"\nstream = false\n')
    scene.write("agent.yaml", AGENT)
    [worker] = scene.hire()
    failed = scene.run("run", "agent.yaml", "--id", "x", "--json")
    assert (failed.code, failed.data["status"]) == (1, "failed"), failed.err
    retried = scene.run("runs", "retry", "x", "--json")
    assert (retried.code, retried.data["result"]) == (0, "That one."), (retried.out, retried.err)
    assert scene.pids("asked") == [worker.pid]  # once: it was recorded
