"""A real HTTP server for provider tests: answers by path, notes what it was asked."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request as the server saw it."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Lab:
    """The server: `answers` maps a path to what writes the answer; `asked` holds every request."""

    url: str
    answers: dict[str, Callable[[Any, Asked], None]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def on(
        self, path: str, body: Any = None, *, status: int = 200, kind: str | None = "application/json", **headers: str
    ) -> None:
        """Answer `path` with this body (JSON unless bytes)."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()

        def write(handler: BaseHTTPRequestHandler, _: Asked) -> None:
            handler.send_response(status)
            if kind is not None:
                handler.send_header("Content-Type", kind)
            handler.send_header("Content-Length", str(len(data)))
            for name, value in headers.items():
                handler.send_header(name.replace("_", "-"), value)
            handler.end_headers()
            handler.wfile.write(data)

        self.answers[path] = write

    def chunks(self, path: str, kind: str, *parts: bytes | threading.Event) -> None:
        """Answer `path` in chunks; an event is waited for before the next one."""

        def write(handler: BaseHTTPRequestHandler, _: Asked) -> None:
            handler.send_response(200)
            handler.send_header("Content-Type", kind)
            handler.send_header("Transfer-Encoding", "chunked")
            handler.end_headers()
            for part in parts:
                if isinstance(part, threading.Event):
                    handler.wfile.flush()
                    part.wait(50)
                else:
                    handler.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            handler.wfile.write(b"0\r\n\r\n")

        self.answers[path] = write

    def echo(self, path: str) -> None:
        """Answer `path` with what was asked."""

        def write(handler: Any, asked: Asked) -> None:
            self.on(
                "/echoed",
                {"method": asked.method, "path": asked.path, "query": asked.query, "body": asked.body.decode()},
            )
            self.answers["/echoed"](handler, asked)

        self.answers[path] = write


@pytest.fixture
def lab() -> Iterator[Lab]:
    """A server on 127.0.0.1 for as long as the test lasts."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # the head and the body are two packets: 40 ms between them

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            parts = urlsplit(self.path)
            asked = Asked(
                method=self.command,
                path=parts.path,
                query=parse_qsl(parts.query, keep_blank_values=True),
                headers={name.lower(): value for name, value in self.headers.items()},
                body=self.rfile.read(length),
            )
            lab.asked.append(asked)
            write = lab.answers.get(parts.path)
            if write is None:
                lab.on("/absent", {"detail": "no such thing"}, status=404)
                write = lab.answers["/absent"]
            with contextlib.suppress(ConnectionError):
                write(self, asked)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    lab = Lab(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield lab
    finally:
        server.shutdown()
        server.server_close()
