"""An MCP server over HTTP whose path names its fault: `/FAULT`. `serving()` runs it in a thread of the test."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

INFO = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "h", "version": "1"}}
TOOLS = {"tools": [{"name": "go", "inputSchema": {"type": "object"}}]}
FINE = {"content": [{"type": "text", "text": "fine"}]}
REFUSALS: dict[str, tuple[int, bytes, dict[str, str]]] = {
    "unauthorised": (401, b'{"error":"invalid_token"}', {"WWW-Authenticate": "Bearer"}),
    "forbidden": (403, b"no", {}),
    "not_found": (404, b"nothing here", {}),
    "broken": (500, b"<h1>Internal error</h1>", {"Content-Type": "text/html"}),
    "busy": (429, b"slow down", {"Retry-After": "7"}),
    "page": (200, b"<html>log in</html>", {"Content-Type": "text/html"}),
    "elsewhere": (302, b"", {"Location": "http://127.0.0.1:1/there"}),
    "no_json": (200, b"{not json", {}),
}
"""The faults that show at the first request."""
ANSWERS: dict[str, tuple[int, bytes, dict[str, str]]] = {
    "no_json_later": (200, b"{not json", {}),
    "empty": (200, b"", {}),
    "null_result": (200, b'{"jsonrpc":"2.0","id":ID,"result":null}', {}),
    "text_error": (200, b'{"jsonrpc":"2.0","id":ID,"error":"just a text"}', {}),
    "deep": (200, b'{"jsonrpc":"2.0","id":ID,"result":{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}}", {}),
    "accepted": (202, b"", {}),
    "unauthorised_later": (401, b"", {"WWW-Authenticate": "Bearer"}),
    "events": (200, b"event: message\ndata: ANSWER\n\n", {"Content-Type": "text/event-stream"}),
    "no_json_event": (200, b"event: message\ndata: {not json\n\n", {"Content-Type": "text/event-stream"}),
    "null_event": (
        200, b'data: {"jsonrpc":"2.0","id":ID,"result":null}\n\n', {"Content-Type": "text/event-stream"},
    ),
}  # fmt: skip
"""The faults that show in a call."""


class Server(ThreadingHTTPServer):
    """Takes every client of a test at once, also on a machine that is busy."""

    daemon_threads = True
    request_queue_size = 256


class Handler(BaseHTTPRequestHandler):
    """Answers by the fault in the path."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the head and the body are two packets: 40 ms between them
    ended = threading.Event()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def reply(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (
            {"Content-Type": "application/json", "Content-Length": str(len(body))} | (headers or {})
        ).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.reply(405)

    def do_DELETE(self) -> None:
        self.reply(200)

    def do_POST(self) -> None:
        fault = self.path.strip("/")
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method, id = message.get("method"), message.get("id")
        if fault in REFUSALS:
            self.reply(*REFUSALS[fault])
        elif fault == "silent" or (fault == "silent_later" and method == "tools/call"):
            self.ended.wait()
        elif id is None:
            self.reply(202)
        elif method == "tools/call":
            self.call(fault, id)
        else:
            body: dict[str, Any] = {"error": {"code": -32601, "message": "Method not found"}}
            if method in ("initialize", "tools/list"):
                body = {"result": INFO if method == "initialize" else TOOLS}
            self.reply(200, json.dumps({"jsonrpc": "2.0", "id": id, **body}).encode(), {"Mcp-Session-Id": "s"})

    def call(self, fault: str, id: Any) -> None:
        if fault == "cut":
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b'data: {"jsonrpc":')
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        status, body, headers = ANSWERS[fault]
        answer = json.dumps({"jsonrpc": "2.0", "id": id, "result": FINE}).encode()
        self.reply(status, body.replace(b"ID", str(id).encode()).replace(b"ANSWER", answer), headers)


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """The address that faults are appended to."""
    Handler.ended.clear()
    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        Handler.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
