"""A strict stand-in for the Messages API: it judges each request and refuses an invalid one as the API does.

It answers with the scripted turns in order, the last one again and again. `refuses` adds refusals of the test's own: a
function of the body that returns the message of a 400, or None.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .judge import judge
from .judged import counted

Refuses = Callable[[dict[str, Any]], "str | None"]


class StrictApi:
    """`url` is the base URL for the SDK; `bodies` are all requests, `refused` the bodies that got a 400."""

    def __init__(self, *turns: Any, refuses: Refuses = lambda body: None) -> None:
        self.turns: list[Any] = list(turns)
        self.bodies: list[dict[str, Any]] = []
        self.refused: list[dict[str, Any]] = []
        self.invalid: list[list[str]] = []
        self.refuses = refuses
        self.answered = 0
        self.hold: threading.Event | None = None  # answers wait for it
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> StrictApi:
        return self

    def __exit__(self, *rest: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The status and the answer to a request."""
        self.bodies.append(body)
        problems = judge(body)
        counted["judged"] += 1
        if problems:
            counted["invalid"] += 1
            self.invalid.append(problems)
        message = problems[0] if problems else self.refuses(body)
        if message is not None:
            self.refused.append(body)
            return 400, {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
        turn = self.turns[min(self.answered, len(self.turns) - 1)]
        self.answered += 1
        content = [{"type": "text", "text": turn}] if isinstance(turn, str) else turn
        calls = any(block["type"] == "tool_use" for block in content)
        return 200, {
            "id": f"msg_{self.answered}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 5},
        }

    def _handler(stand) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # the head and the body are two packets: 40 ms between them

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["content-length"]))
                status, answer = stand.answer(json.loads(raw))
                if stand.hold is not None and status == 200:
                    stand.hold.wait(60)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                with contextlib.suppress(ConnectionError):  # the client may be dead
                    self.wfile.write(data)

            def log_message(self, *args: object) -> None:
                return

        return Handler


def use(name: str, number: int = 1, **input: Any) -> list[dict[str, Any]]:
    """A turn with one call."""
    return [{"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": input}]
