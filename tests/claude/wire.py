"""The Messages API without a model: npm `@copilotkit/aimock`, a third party's stand-in, behind a proxy that keeps every
request body as it went over the wire."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

NODE = Path(__file__).parent.parent / "node"


def stand_in_script() -> str:
    """The script of aimock; without it the test is skipped, but never in CI, where that is a failure."""
    script = NODE / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
    missing = "node is not on the PATH" if shutil.which("node") is None else ""
    if not missing and not script.exists():
        missing = "@copilotkit/aimock is not installed; run: npm ci --prefix tests/node"
    if missing and os.environ.get("CI") == "true":
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)
    return str(script)


class StandIn:
    """aimock in a child process, and the proxy before it. `url` is the base URL for the SDK; `bodies` are the
    requests so far; `answer` says what comes next."""

    def __init__(self, directory: Path) -> None:
        nothing = directory / "fixtures.json"
        nothing.write_text('{"fixtures": [{"match": {"userMessage": "never asked"}, "response": {"content": "-"}}]}')
        argv = ["node", stand_in_script(), "-h", "127.0.0.1", "-f", str(nothing), "--strict"]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.process = subprocess.Popen(
            [*argv, "-p", str(self.port)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "listening" in line:
                break
        else:
            raise AssertionError(f"aimock ended with {self.process.wait()}")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.ends_after: int | None = None  # bytes of the next answer, which then ends as if that were all
        self.content: list[dict[str, Any]] | None = None  # of the next answer, where aimock has no words for it
        self.proxy = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.proxy.daemon_threads = True
        threading.Thread(target=self.proxy.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.proxy.server_port}"

    def answer(self, *responses: dict[str, Any], message: str | None = None) -> None:
        """The turns of the next conversation in order: the n-th answers the n-th request."""
        match = {} if message is None else {"userMessage": message}
        fixtures = [
            {"match": {**match, "sequenceIndex": i}, "response": _response(response), **_framing(response)}
            for i, response in enumerate(responses)
        ]
        self._control("/__aimock/fixtures", {"fixtures": fixtures})

    def reset(self) -> None:
        self.bodies.clear()
        self.headers.clear()
        self.ends_after = self.content = None
        self._control("/__aimock/reset", {})

    def close(self) -> None:
        self.proxy.shutdown()
        self.proxy.server_close()
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            with contextlib.suppress(ValueError):
                self.process.stdout.close()

    def _control(self, path: str, body: dict[str, Any]) -> None:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=json.dumps(body).encode(),
            headers={"content-type": "application/json"},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=10) as said:
            assert said.status < 300, said.read()


_FRAMING = ("truncateAfterChunks", "disconnectAfterMs", "chunkSize", "latency")


def _framing(response: dict[str, Any]) -> dict[str, Any]:
    return {key: response[key] for key in _FRAMING if key in response}


def _response(response: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in response.items() if key not in _FRAMING}


def _handler(stand: StandIn) -> type[BaseHTTPRequestHandler]:
    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # the head and the body are two packets: 40 ms between them

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            stand.bodies.append(json.loads(body))
            stand.headers.append({key.lower(): value for key, value in self.headers.items()})
            if stand.content is not None:
                self._say(stand.content)
                stand.content = None
                return
            behind = http.client.HTTPConnection("127.0.0.1", stand.port, timeout=30)
            kept = {key: value for key, value in self.headers.items() if key.lower() not in ("host", "connection")}
            with contextlib.closing(behind):
                behind.request("POST", self.path, body, {**kept, "accept-encoding": "identity"})
                self._copy(behind.getresponse())

        def _say(self, content: list[dict[str, Any]]) -> None:
            usage = {"input_tokens": 1, "output_tokens": 1}
            about = {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "claude-sonnet-5-5",
                "usage": usage,
            }
            body = json.dumps({**about, "content": content, "stop_reason": "tool_use", "stop_sequence": None}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _copy(self, said: http.client.HTTPResponse) -> None:
            self.send_response(said.status)
            for key, value in said.getheaders():
                if key.lower() not in ("transfer-encoding", "content-length", "connection"):
                    self.send_header(key, value)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            most, stand.ends_after = stand.ends_after, None
            try:
                if most is not None:
                    piece = said.read(most)
                    self.wfile.write((b"%x\r\n%s\r\n" % (len(piece), piece) if piece else b"") + b"0\r\n\r\n")
                    return
                while piece := said.read1(65536):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    self.wfile.flush()
            except (http.client.IncompleteRead, ConnectionError):
                self.close_connection = True  # cut off there is cut off here
                return
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *args: object) -> None:
            return

    return Proxy


def calls(*wanted: tuple[str, dict[str, Any]], text: str = "", **more: Any) -> dict[str, Any]:
    """A response that asks for tools."""
    listed = [{"name": name, "arguments": given} for name, given in wanted]
    return {"toolCalls": listed, **({"content": text} if text else {}), **more}


def check_pairs(messages: list[dict[str, Any]]) -> None:
    """Each tool_use is answered exactly once, in the next message, in order, before anything else in it."""
    waiting: list[str] = []
    for message in messages:
        blocks = message["content"] if isinstance(message["content"], list) else []
        assert blocks or message["content"], "an empty message"
        answers = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert answers == waiting
        assert [block["type"] for block in blocks[: len(answers)]] == ["tool_result"] * len(answers)
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert not waiting or message["role"] == "assistant"
    assert not waiting, "calls that nobody answered"
