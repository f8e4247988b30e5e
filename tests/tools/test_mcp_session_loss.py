"""A server that has lost our session, in every way that servers say so: what is called again, and the words."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ropewalk import App, Toolbox
from ropewalk.events import Event
from ropewalk.tools.mcp.requests import ServerRefused
from ropewalk.tools.mcp.servers import McpServers

pytestmark = pytest.mark.process

INFO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
SCHEMA = {"type": "object"}
TOOLS = [
    {"name": "read", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
    {"name": "set", "inputSchema": SCHEMA, "annotations": {"idempotentHint": True}},
    {"name": "write", "inputSchema": SCHEMA},
    {"name": "slow", "inputSchema": SCHEMA},
]
JSON_ERROR = '{"jsonrpc": "2.0", "id": ID, "error": {"code": %d, "message": "%s"}}'
LOSSES = {
    "404": (404, "Not Found"),
    "400, SDK": (400, JSON_ERROR % (-32000, "Bad Request: No valid session ID provided")),
    "400, other code": (400, JSON_ERROR % (-32600, "unknown connection")),
    "400, text": (400, "<p>Please initialise first</p>"),
    "401": (401, '{"error": "unauthorized"}'),
    "410": (410, ""),
    "503": (503, "upstream gone"),
    "error in 200": (200, JSON_ERROR % (-32001, "Session not found")),
}
UNCLEAR = ("503", "error in 200")
"""The losses after which a call may have been executed."""


class Handler(BaseHTTPRequestHandler):
    """A server with sessions, which refuses requests of unknown ones in the way of `server.loss`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Forgetful

    def log_message(self, *_: object) -> None:
        pass

    def reply(self, status: int, body: str = "", **headers: str) -> None:
        self.send_response(status)
        kind = "application/json" if body.startswith("{") else "text/html"
        for name, value in {"content-type": kind, "content-length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body.encode())

    def do_GET(self) -> None:
        self.reply(405)

    def do_DELETE(self) -> None:
        self.reply(200)

    def do_POST(self) -> None:
        server, message = self.server, json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, id = message.get("method"), json.dumps(message.get("id"))
        server.asked[message["params"]["name"] if method == "tools/call" else method] += 1
        if server.away and method == "initialize":
            self.reply(server.away, "{}")
        elif method == "initialize":
            server.session += 1
            self.result(id, INFO, mcp_session_id=str(server.session))
        elif self.headers.get("mcp-session-id") != str(server.session) or server.is_strict(method):
            status, body = server.loss
            self.reply(status, body.replace("ID", id))
        elif id == "null":
            self.reply(202)
        elif method == "tools/call" and server.busy:
            self.reply(server.busy, JSON_ERROR.replace("ID", id) % (-32000, "too many"), retry_after="7")
        elif method == "tools/call":
            server.executed[message["params"]["name"]] += 1
            if message["params"]["name"] == "slow":
                server.begun.set()
                server.released.wait(60)
            self.result(id, {"content": [{"type": "text", "text": "done"}]})
        else:
            self.result(id, {"tools": TOOLS} if method == "tools/list" else server.pong)

    def result(self, id: str, value: Any, **headers: str) -> None:
        self.reply(200, json.dumps({"jsonrpc": "2.0", "id": json.loads(id), "result": value}), **headers)


class Forgetful(ThreadingHTTPServer):
    """The server: what it was asked, and what it executed."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.start((404, ""))

    def start(self, loss: tuple[int, str]) -> None:
        self.loss, self.session, self.away, self.refused, self.pong = loss, 0, 0, "", dict[str, Any]()
        self.busy = 0  # the status of calls that are refused with `Retry-After: 7`
        self.begun, self.released = threading.Event(), threading.Event()
        self.asked: Counter[str] = Counter()
        self.executed: Counter[str] = Counter()

    def is_strict(self, method: str) -> bool:
        return method == self.refused

    def client(self, **more: Any) -> McpServers:
        servers = McpServers()
        servers.add("s", {"url": f"http://127.0.0.1:{self.server_port}/mcp", "mode": "legacy", **more})
        return servers


@pytest.fixture(scope="module")
def forgetful() -> Iterator[Forgetful]:
    server = Forgetful()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_lost_session_comes_back_and_only_what_may_be_repeated_is(forgetful: Forgetful, loss: str) -> None:
    async def case(tool: str, key: str | None, times: int) -> None:
        forgetful.start(LOSSES[loss])
        async with forgetful.client() as mcp:
            await mcp.call_tool("s", tool)
            forgetful.session += 1  # it has forgotten ours
            if times:
                assert (await mcp.call_tool("s", tool, key=key)).content[0].text == "done"
            else:
                with pytest.raises(ConnectionError, match=r"lost its session at .* may have executed it") as caught:
                    await mcp.call_tool("s", tool, key=key)
                assert str(caught.value).startswith("MCP server 's' lost its session")
            assert forgetful.executed[tool] == 1 + times
            assert forgetful.asked[tool] == 2 + times  # the refused one is one of them
            assert (await mcp.call_tool("s", tool)).content[0].text == "done"
            assert forgetful.asked["initialize"] == 2
            assert mcp.failures == {}

    async def all() -> None:
        await case("read", None, 1)
        await case("write", None, 0 if loss in UNCLEAR else 1)
        if loss == "503":
            await case("set", None, 1)
            await case("write", "k", 0)  # the server may not know what the key means

    asyncio.run(all())


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss != "404"])
def test_a_refusal_in_a_session_that_is_known_is_the_failure_of_the_call(forgetful: Forgetful, loss: str) -> None:
    async def case() -> None:
        forgetful.start(LOSSES[loss])
        async with forgetful.client() as mcp:
            await mcp.connect("s")
            forgetful.refused = "tools/call"
            with pytest.raises(Exception, match="tool 'read': "):
                await mcp.call_tool("s", "read")
            assert (forgetful.asked["read"], forgetful.asked["ping"], forgetful.asked["initialize"]) == (1, 1, 1)

    asyncio.run(case())


def test_a_ping_with_a_broken_answer_says_nothing_and_harms_no_other_call(forgetful: Forgetful) -> None:
    async def case() -> None:
        forgetful.start(LOSSES["503"])
        forgetful.pong = {"_meta": 5}
        async with forgetful.client() as mcp:
            await mcp.connect("s")
            slow = asyncio.create_task(mcp.call_tool("s", "slow"))
            await asyncio.to_thread(forgetful.begun.wait)
            forgetful.refused = "tools/call"
            with pytest.raises(Exception, match="tool 'read': HTTP 503"):
                await mcp.call_tool("s", "read")
            forgetful.released.set()
            assert (await slow).content[0].text == "done"
            assert (forgetful.asked["read"], forgetful.asked["ping"], forgetful.asked["initialize"]) == (1, 1, 1)

    asyncio.run(case())


def test_calls_that_meet_the_loss_together_all_come_back(forgetful: Forgetful) -> None:
    async def case() -> None:
        forgetful.start(LOSSES["404"])
        async with forgetful.client() as mcp:
            await mcp.connect("s")
            forgetful.session += 1
            results = await asyncio.gather(*(mcp.call_tool("s", "write") for _ in range(8)))
            assert [result.content[0].text for result in results] == ["done"] * 8
        assert (forgetful.executed["write"], forgetful.asked["initialize"]) == (8, 2)

    asyncio.run(case())


def test_a_call_in_progress_gets_its_answer_when_another_meets_the_loss(forgetful: Forgetful) -> None:
    async def case(is_closed: bool) -> None:
        forgetful.start(LOSSES["404"])
        async with forgetful.client() as mcp:
            await mcp.connect("s")
            slow = asyncio.create_task(mcp.call_tool("s", "slow"))
            await asyncio.to_thread(forgetful.begun.wait)
            forgetful.session += 1
            await mcp.call_tool("s", "write")
            if not is_closed:
                forgetful.released.set()
                assert (await slow).content[0].text == "done"
        with contextlib.suppress(ConnectionError):
            await slow
        forgetful.released.set()
        assert (forgetful.executed["slow"], forgetful.asked["initialize"]) == (1, 2)

    asyncio.run(case(False))
    asyncio.run(case(True))


def test_a_session_that_cannot_come_back_says_why(forgetful: Forgetful) -> None:
    async def case(loss: str, away: int, error: type[Exception], words: str) -> None:
        forgetful.start(LOSSES[loss])
        async with forgetful.client() as mcp:
            await mcp.connect("s")
            forgetful.session, forgetful.away = 7, away
            with pytest.raises(error, match=words):
                await mcp.call_tool("s", "write")
        assert (forgetful.executed["write"], forgetful.asked["write"]) == (0, 1)

    asyncio.run(case("401", 401, ServerRefused, "HTTP 401"))
    asyncio.run(case("404", 503, Exception, "HTTP 503"))
    asyncio.run(case("503", 503, ConnectionError, "may have executed it"))


@pytest.mark.parametrize("status", [429, 503])
def test_a_retry_waits_as_long_as_the_server_wants(forgetful: Forgetful, status: int) -> None:
    node = {"id": "a", "type": "tool", "tool": "s:write", "maxRetries": 1, "errorStrategy": "retry"}

    async def case() -> None:
        forgetful.start((404, ""))
        forgetful.busy, failed = status, asyncio.Queue[Event]()
        url = f"http://127.0.0.1:{forgetful.server_port}/mcp"
        async with App("memory", toolbox=Toolbox(mcp={"s": {"url": url, "mode": "legacy"}})) as app:
            running = asyncio.ensure_future(app.run({"kind": "chain", "nodes": [node]}, on_event=failed.put_nowait))
            while (event := await asyncio.wait_for(failed.get(), 60)).kind != "attempt.failed":
                pass
            running.cancel()
            await asyncio.wait([running])
        data: Any = event.data
        assert 6 < data["due"] - event.at <= 7
        assert "too many" in data["message"]

    asyncio.run(case())
