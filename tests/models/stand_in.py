"""Stand-ins for the APIs of four makers: each judges a request by its maker's types and rules, and answers by a script.

A `Turn` says what the model does next, in no maker's words. A `Wire` is one API: `judge` says everything for which it
would refuse a request, `answer` and `events` write a turn as it does, whole or as a stream.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol


@dataclass(frozen=True)
class Call:
    """A tool that the model asks for."""

    name: str
    input: dict[str, Any]


@dataclass(frozen=True)
class Turn:
    """What the model does next."""

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    refusal: str = ""
    cached: int = 0  # tokens of the request that its cache held, of 100
    status: int = 200
    retry_after: str | None = None
    cut: bool = False  # the stream ends in the middle
    raw: tuple[str, bytes] | None = None  # type and content, in place of what the API would answer


class Wire(Protocol):
    """One API."""

    def judge(self, path: str, body: dict[str, Any]) -> list[str]: ...
    def error(self, status: int, message: str) -> dict[str, Any]: ...
    def streams(self, path: str, body: dict[str, Any]) -> bool: ...
    def answer(self, turn: Turn, number: int, body: dict[str, Any]) -> dict[str, Any]: ...
    def events(self, turn: Turn, number: int, body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """The events of a stream: the name, if they have one, and the data."""
        ...


class StandIn:
    """A server of one API; `bodies` are all requests, `invalid` what was wrong with them."""

    def __init__(self, wire: Wire, *turns: Turn) -> None:
        self.wire, self.turns, self.answered = wire, list(turns), 0
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.invalid: list[list[str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *rest: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def script(self, *turns: Turn) -> None:
        """Begin again, with these turns; the last one is given again and again."""
        self.turns, self.answered, self.bodies, self.invalid = list(turns), 0, [], []

    def next_turn(self) -> tuple[Turn, int]:
        turn = self.turns[min(self.answered, len(self.turns) - 1)]
        self.answered += 1
        return turn, self.answered


def _handler(stand: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # the head and the body are two packets: 40 ms between them

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            stand.bodies.append(body)
            stand.headers.append({name.lower(): value for name, value in self.headers.items()})
            problems = stand.wire.judge(self.path, body)
            if problems:
                stand.invalid.append(problems)
                return self.whole(400, stand.wire.error(400, problems[0]))
            turn, number = stand.next_turn()
            if turn.raw is not None:
                return self.send(200, *turn.raw)
            if turn.status != 200:
                return self.whole(turn.status, stand.wire.error(turn.status, "try later"), turn.retry_after)
            if not stand.wire.streams(self.path, body):
                return self.whole(200, stand.wire.answer(turn, number, body))
            return self.stream(list(stand.wire.events(turn, number, body)), turn.cut)

        def whole(self, status: int, answer: Mapping[str, Any], retry_after: str | None = None) -> None:
            self.send(status, "application/json", json.dumps(answer).encode(), retry_after)

        def send(self, status: int, kind: str, data: bytes, retry_after: str | None = None) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            if retry_after is not None:
                self.send_header("retry-after", retry_after)
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # the client may be dead
                self.wfile.write(data)

        def stream(self, events: list[tuple[str, Any]], cut: bool) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True
            kept = events[: max(1, len(events) // 2)] if cut else events
            with contextlib.suppress(ConnectionError):
                for name, data in kept:
                    head = f"event: {name}\n" if name else ""
                    text = data if isinstance(data, str) else json.dumps(data)
                    self.wfile.write(f"{head}data: {text}\n\n".encode())

        def log_message(self, *args: object) -> None:
            return

    return Handler


def pieces(text: str) -> list[str]:
    """A text in two pieces."""
    half = len(text) // 2
    return [piece for piece in (text[:half], text[half:]) if piece]
