"""Secrets that a run uses come to the tools, and nowhere else: no store, log, span, metric, answer, page or test.

There are three ways to use one: in the `env` of an MCP server, in a header of an HTTP provider, and by `$secret.NAME`
in an argument. Every tool here gives back what it was given, and one fails with it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import fork_server
from ropewalk.tools.mcp.servers import McpServers

from .server import COMMAND, Served, serve

pytestmark = pytest.mark.process

ODD = Path(__file__).parents[1] / "mcp_servers" / "odd.py"
SECRETS = {"ODD_TOKEN": "of-the-env-4711", "WEB_TOKEN": "of-the-header-4712", "ARG_KEY": 'of-the-"argument"-4713'}
CHAIN = {
    "kind": "chain",
    "name": "spill",
    "nodes": [
        {"id": "env", "type": "tool", "tool": "odd:environment"},
        {"id": "header", "type": "tool", "tool": "web:whoami", "params": {"also": "$secret.ARG_KEY"}},
        {"id": "refused", "type": "tool", "tool": "web:refuse", "errorStrategy": "continue"},
        {"id": "arg", "type": "tool", "tool": "tell", "params": {"text": "Key ${ $secret.ARG_KEY }"}},
        {"id": "fails", "type": "tool", "tool": "complain", "params": {"text": "$secret.ARG_KEY"}, "maxRetries": 1,
         "retryDelay": 1, "errorStrategy": "continue"},
    ],
}  # fmt: skip
TOOLS = '''
import hashlib, logging
from pathlib import Path
from ropewalk import tool

@tool
def tell(text: str) -> dict:
    """Gives back and logs what it gets, and notes its digest."""
    Path("got").write_text(hashlib.sha256(text.encode()).hexdigest())
    logging.getLogger("told").warning("got %s", text)
    return {"text": text, "list": [text]}

@tool
def complain(text: str) -> str:
    """Fails with what it gets, and logs it with its traceback."""
    try:
        raise RuntimeError(f"no luck with {text}")
    except RuntimeError:
        logging.getLogger("told").exception("this went wrong")
        raise
'''


class Web(BaseHTTPRequestHandler):
    """A provider that gives back all that it is sent, and a collector of traces and metrics."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.setdefault(self.path, []).append((dict(self.headers), body))  # type: ignore[attr-defined]
        answer = json.dumps({"headers": dict(self.headers), "body": body.decode(errors="replace")}).encode()
        self.send_response(403 if self.path.endswith("/refuse") else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def web() -> Iterator[HTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Web)
    server.got = {}  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def served(tmp_path: Path, web: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    address = f"http://127.0.0.1:{web.server_port}"
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    (tmp_path / "spill.yaml").write_text(json.dumps(CHAIN))
    settings = f"""
[secrets]
allow = ["ARG_KEY", "LOCAL_KEY"]
http = ["ARG_KEY"]

[mcp.odd]
command = {fork_server.program("python")!r}
args = [{str(ODD)!r}]
env = {{TOKEN = "${{ODD_TOKEN}}"}}

[providers.web]
url = "{address}/web"
headers = {{Authorization = "Bearer ${{WEB_TOKEN}}"}}
tools = [{{name = "whoami", inputSchema = {{type = "object"}}}}, {{name = "refuse", inputSchema = {{type = "object"}}}}]

[mcp_server]
flows = ["spill.yaml"]
gateway = true
stored = false
"""
    yield from serve(tmp_path, "--log", "json", settings=settings, tools=TOOLS)


def found(text: str | bytes) -> list[str]:
    """The secrets in a text, as they are or as JSON spells them."""
    raw = text if isinstance(text, bytes) else text.encode()
    spelled = {name: {value.encode(), json.dumps(value)[1:-1].encode()} for name, value in SECRETS.items()}
    return [name for name, ways in spelled.items() if any(way in raw for way in ways)]


def test_a_secret_that_a_run_uses_comes_to_its_tools_and_nowhere_else(served: Served, web: Any) -> None:
    done = served.post("/api/runs", {"document": CHAIN, "runId": "r", "wait": 60})
    assert done.json()["status"] == "partial", done.text
    assert done.json()["result"]["env"]["TOKEN"] == "***"
    assert done.json()["result"]["header"]["headers"]["Authorization"] == "Bearer ***"
    assert done.json()["result"]["header"]["body"] == json.dumps({"also": "$secret.ARG_KEY"}, separators=(",", ":"))

    # The tools had them.
    [(headers, body)] = web.got["/web/whoami"]
    assert headers["Authorization"] == f"Bearer {SECRETS['WEB_TOKEN']}"
    assert json.loads(body) == {"also": SECRETS["ARG_KEY"]}
    assert (served.folder / "got").read_text() == hashlib.sha256(f"Key {SECRETS['ARG_KEY']}".encode()).hexdigest()

    # The answers have not.
    said = {"the run": done.text}
    served.post("/api/definitions/chain", {"document": CHAIN})
    for path in (
        "/", "/api/runs", "/api/runs/r", "/api/runs/r/events", "/api/runs/r/graph", "/api/runs/r/waiting",
        "/api/runs/r/arguments", "/api/runs/r/diff?with=r", "/api/definitions", "/api/tools",
        "/api/tools/odd:environment", "/api/waiting", "/metrics",
    ):  # fmt: skip
        answer = served.get(path)
        assert answer.status_code == 200, path
        said[path] = answer.text
    assert 'ropewalk_tool_calls_total{outcome="ok",tool="odd:environment"} 1.0' in said["/metrics"]
    for path in ("/api/validate", "/api/preview"):
        said[path] = served.post(path, {"document": CHAIN}).text
    said["a call"] = served.post("/api/tools/odd:environment", {"arguments": {}}).text
    assert '"TOKEN":"***"' in said["a call"]
    commands = (
        ("runs", "show", "r", "--json"), ("runs", "export", "r"), ("runs", "export", "r", "--as-test"), ("doctor",),
        ("tools", "ls", "--json"), ("tools", "call", "odd:environment"), ("run", "spill.yaml", "--log", "json"),
    )  # fmt: skip
    with ThreadPoolExecutor(4) as threads:
        for words, command in zip(
            commands, threads.map(lambda words: run(served.folder, words), commands), strict=True
        ):
            assert command.returncode == 0, command.stderr
            said[" ".join(words)] = command.stdout + command.stderr
    said["by MCP"] = asyncio.run(by_mcp(served.folder))

    # The log has not, nor have traces and metrics, nor any file.
    served.process.terminate()
    said["stdout"], said["stderr"] = served.process.communicate(timeout=300)
    lines = [json.loads(line) for line in said["stderr"].splitlines()]
    assert any(line["message"] == "got Key ***" and line["node"] == "arg" for line in lines)
    assert any("no luck with ***" in line.get("exception", "") and line["runId"] == "r" for line in lines)
    sent = {path: b"".join(body for _, body in got) for path, got in web.got.items() if path.startswith("/v1/")}
    assert b"execute_tool odd:environment" in sent["/v1/traces"]
    assert b"gen_ai.execute_tool.duration" in sent["/v1/metrics"]
    files = {str(file): file.read_bytes() for file in served.folder.rglob("*") if file.is_file()}
    assert any(file.endswith(".db") for file in files)
    leaks = {where: found(text) for where, text in {**said, **sent, **files}.items()}
    assert {where: names for where, names in leaks.items() if names} == {}


def run(folder: Path, words: tuple[str, ...]) -> Any:
    return fork_server.run([COMMAND, *words], cwd=folder, capture_output=True, text=True, timeout=300)


def test_a_document_that_is_sent_reads_no_other_secret(served: Served) -> None:
    """Neither one that only the project's own definitions may read, nor the server's token."""
    for name in ("LOCAL_KEY", "ROPEWALK_TOKEN", "HOME"):
        node = {"id": "arg", "type": "tool", "tool": "tell", "params": {"text": f"$secret.{name}"}}
        sly = {"kind": "chain", "name": "sly", "nodes": [node]}
        for path in ("/api/runs", "/api/validate", "/api/preview", "/api/definitions/chain"):
            answer = served.post(path, {"document": sly})
            assert f"$secret.{name}: a definition that is sent over HTTP may not read it" in answer.text, path
            assert path == "/api/validate" or answer.status_code == 422, (path, answer.status_code)


async def by_mcp(folder: Path) -> str:
    """What an MCP client is told: by the flow, by a tool of the gateway, by one that fails."""
    servers = McpServers()
    environment = {name: os.environ[name] for name in (*SECRETS, "PYTHONPATH") if name in os.environ}
    # Words of its own, so that it is this client's server, and not this client, that hides them.
    settings = {f"GIVEN_{i}": value for i, value in enumerate(environment.values())}
    wrapped = "; ".join(f'export {name}="$GIVEN_{i}"' for i, name in enumerate(environment))
    line = f"{wrapped}; exec {fork_server.program('ropewalk')} mcp --log json"
    servers.add("door", {"command": "sh", "args": ["-c", line], "cwd": str(folder), "env": settings})
    async with servers:
        flow = await servers.call_tool("door", "spill", {})
        assert flow.structured_content["env"]["TOKEN"] == "***", flow
        through = await servers.call_tool("door", "odd__environment", {})
        assert through.structured_content["TOKEN"] == "***"
        return flow.model_dump_json() + through.model_dump_json()
