"""Sessions of clients with the MCP server: how many there are, whose tasks are whose, and calls that ask meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.memory import create_client_server_memory_streams

from ropewalk import App
from ropewalk.doors.mcp.catalogue import Catalogue, Finder
from ropewalk.doors.mcp.flows import Flows
from ropewalk.doors.mcp.results import given
from ropewalk.doors.mcp.server import McpDoor
from ropewalk.doors.mcp.task_methods import TaskMethods
from ropewalk.doors.mcp.tasks import Tasks
from ropewalk.doors.mcp.tool_source import CallContext, ExposedTool, Source
from ropewalk.doors.mcp.transports import _site
from ropewalk.tools.mcp.transports import StdioStreams
from ropewalk.tools.tool import ProgressEvent

HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


def request(method: str, id: int = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


INITIALIZE = request(
    "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "t", "version": "1"}
)


class Session:
    """A client of 2025-11-25 over HTTP."""

    def __init__(self, client: httpx2.AsyncClient, app: Any, id: str, capabilities: dict[str, Any]) -> None:
        self._client, self._app, self.id, self.capabilities = client, app, id, capabilities

    async def post(self, body: Any) -> httpx2.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {**HEADERS, "mcp-protocol-version": "2025-11-25"}
        headers |= {"mcp-session-id": self.id} if self.id else {}
        return await self._client.post("/mcp", content=content, headers=headers)

    async def ask(self, method: str, **params: Any) -> Any:
        """Return the result, or the error."""
        [answer] = [line for line in (await self.post(request(method, **params))).text.splitlines() if "{" in line]
        message = json.loads(answer.removeprefix("data: "))
        return message.get("result", message.get("error"))

    async def open_stream(self) -> asyncio.Task[None]:
        """Open the stream of what the server sends of itself; it stays open until the task is cancelled."""
        began = asyncio.Event()

        async def send(message: Any) -> None:
            assert message.get("status", 200) == 200
            began.set()

        parts = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> Any:
            return next(parts, None) or await asyncio.Event().wait()

        headers = {**HEADERS, "mcp-session-id": self.id, "host": "127.0.0.1"}
        scope: dict[str, Any] = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET"}
        scope |= {"scheme": "http", "path": "/mcp", "raw_path": b"/mcp", "query_string": b"", "root_path": ""}
        scope |= {"headers": [(name.encode(), value.encode()) for name, value in headers.items()]}
        stream: asyncio.Task[None] = asyncio.create_task(self._app(scope, receive, send))
        await began.wait()
        return stream

    async def end(self) -> None:
        await self._client.delete("/mcp", headers={"mcp-session-id": self.id})


@contextlib.asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[None]:
    """The life of an ASGI app, as its server begins and ends it."""
    opened, ended = asyncio.Event(), asyncio.Event()
    events = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> Any:
        kind = next(events)
        if kind == "lifespan.shutdown":
            await ended.wait()
        return {"type": kind}

    async def send(message: Any) -> None:
        assert message["type"].endswith("complete")
        opened.set()

    life = asyncio.create_task(app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send))
    await opened.wait()
    try:
        yield
    finally:
        ended.set()
        await life


@contextlib.asynccontextmanager
async def site(door: McpDoor, max_sessions: int = 10) -> AsyncIterator[Callable[[], Any]]:
    """The server over HTTP, without a socket; gives what opens a session."""
    app = _site(door, max_sessions)
    transport = httpx2.ASGITransport(app=app)
    async with lifespan(app), httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:

        async def session() -> Session | None:
            answer = await client.post("/mcp", json=INITIALIZE, headers=HEADERS)
            if answer.status_code == 503:
                return None
            [line] = [line for line in answer.text.splitlines() if line.startswith("data: {")]
            opened = Session(
                client, app, answer.headers["mcp-session-id"], json.loads(line[6:])["result"]["capabilities"]
            )
            await opened.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
            return opened

        async with door.open():
            yield session


def test_a_new_session_ends_the_one_that_was_idle_longest_or_is_refused() -> None:
    async def case() -> None:
        async with App("memory") as app, site(McpDoor(Catalogue(Finder(app), [])), 3) as open_session:
            first, second, third = [await open_session() for _ in range(3)]
            assert await first.ask("ping") == {}  # so `second` is the one that was idle longest
            fourth = await open_session()
            alive = {name: (await one.post(request("ping"))).status_code
                     for name, one in {"1": first, "2": second, "3": third, "4": fourth}.items()}  # fmt: skip
            assert alive == {"1": 200, "2": 404, "3": 200, "4": 200}
            streams = [await one.open_stream() for one in (first, third, fourth)]
            assert await open_session() is None
            assert (await first.post(request("ping"))).status_code == 200
            await first.end()
            assert await open_session() is not None
            for stream in streams:
                stream.cancel()
            await asyncio.gather(*streams, return_exceptions=True)

    asyncio.run(case())


def test_only_a_request_that_opens_a_session_ends_one() -> None:
    async def case() -> None:
        async with App("memory") as app, site(McpDoor(Catalogue(Finder(app), [])), 3) as open_session:
            first, second = await open_session(), await open_session()
            third, fourth = await asyncio.gather(open_session(), open_session())  # at once, with room for one
            assert (await first.post(request("ping"))).status_code == 404
            first.id = ""
            for body in (b"garbage", b"[]", b"\xff", request("ping"), request("initialized")):
                assert (await first.post(body)).status_code >= 400
            alive = [(await one.post(request("ping"))).status_code for one in (second, third, fourth)]
            assert alive == [200, 200, 200]

    asyncio.run(case())


FLOW = "kind: chain\nname: ship\nnodes: [{id: ship, type: transform, input: done}]\n"


def test_a_task_belongs_to_its_session_and_nobody_lists_those_of_others(tmp_path: Path) -> None:
    (tmp_path / "ship.yaml").write_text(FLOW)

    async def case() -> None:
        async with App.open(tmp_path, store="memory") as app:
            door = McpDoor(
                Catalogue(Finder(app), [Flows(app, [str(tmp_path)], tmp_path)]), tasks=TaskMethods(app, Tasks(app))
            )
            async with site(door) as open_session:
                ann, ben = await open_session(), await open_session()
                assert ann.capabilities["tasks"] == {"cancel": {}, "requests": {"tools": {"call": {}}}}
                assert (await ann.ask("tasks/list"))["code"] == types.METHOD_NOT_FOUND
                id = (await ann.ask("tools/call", name="ship", arguments={}, task={}))["task"]["taskId"]
                for method in ("tasks/get", "tasks/cancel", "tasks/result"):
                    assert (await ben.ask(method, taskId=id))["message"] == f"Unknown task: {id}"
                assert "done" in str(await ann.ask("tasks/result", taskId=id))
                await ann.end()  # whoever knows the id can still read the result
                while "code" in await ben.ask("tasks/get", taskId=id):
                    await ben.ask("ping")

    asyncio.run(case())


@contextlib.asynccontextmanager
async def joined(door: McpDoor) -> AsyncIterator[Any]:
    """A transport to the server within this process."""
    async with create_client_server_memory_streams() as (ours, theirs):
        serving = asyncio.create_task(door.server.run(*theirs, door.server.create_initialization_options()))
        yield contextlib.nullcontext(ours)
    await serving


class Lonely(Source):
    """One tool that asks its client, and reports progress and logs before and after."""

    def version(self) -> Any:
        return 1

    async def connect(self) -> None:
        pass

    async def reach(self, name: str) -> None:
        pass

    def offered(self) -> Iterable[ExposedTool]:
        async def call(args: dict[str, Any], asked: CallContext) -> Any:
            assert asked.client is not None
            for step in (1, 2):
                if asked.on_progress is not None:
                    await asked.on_progress(ProgressEvent(step, 2, f"step {step}"))
                asked.client.log({"level": "info", "data": f"log {step}"})
                if step == 1:
                    question = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
                    await asked.client.ask("elicitation/create", question)
            return given("done", None)

        yield ExposedTool(id="ask", wanted="ask", description="Asks.", input_schema={"type": "object"}, call=call)


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
def test_progress_and_logs_of_a_call_continue_after_it_has_asked(era: str) -> None:
    heard: list[Any] = []

    async def elicit(_: Any, params: Any) -> types.ElicitResult:
        heard.append("asked")
        return types.ElicitResult(action="accept", content={})

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))

    async def log(params: Any) -> None:
        heard.append(params.data)

    async def case() -> None:
        async with App("memory") as app:
            door = McpDoor(Catalogue(Finder(app), [Lonely()]))
            callbacks: dict[str, Any] = {"elicitation_callback": elicit, "logging_callback": log}
            meta: Any = {} if era == "legacy" else {"io.modelcontextprotocol/logLevel": "info"}
            async with door.open(), joined(door) as streams, Client(streams, mode=era, **callbacks) as client:  # type: ignore[arg-type]
                await client.call_tool("ask", {}, progress_callback=progress, meta=meta)

    asyncio.run(case())
    assert sorted(map(str, heard)) == ["(1.0, 'step 1')", "(2.0, 'step 2')", "asked", "log 1", "log 2"]


BAD = [
    (b'{"jsonrpc": "2.0", "id": 5, "method": "ping", "params": {"a": "\xff"}}', 5, -32700),
    (b'{"jsonrpc": "2.0", "id": "x", "method": "ping", "params": {"a": "\\ud800"}}', "x", -32700),
    (b"\xff", None, -32700),
    (b'{"jsonrpc": "2.0", "id": 6}', 6, -32600),
    (b"[]", None, -32600),
]
UNANSWERED = [b"", b" \r", b'{"jsonrpc": "2.0", "id": 1, "result": {"a": "\xff"}}']


def test_a_request_that_cannot_be_read_gets_an_error_over_stdio() -> None:
    written: list[Any] = []

    class Writer:
        def write(self, data: bytes) -> None:
            written.append(json.loads(data))

        async def drain(self) -> None:
            pass

    async def case() -> None:
        reader = asyncio.StreamReader()
        for line in [*(line for line, *_ in BAD), *UNANSWERED]:
            reader.feed_data(line + b"\n")
        reader.feed_eof()
        async with StdioStreams(reader, Writer(), answers=True).open() as (read, _):
            assert [message async for message in read] == []

    asyncio.run(case())
    assert [(answer["id"], answer["error"]["code"]) for answer in written] == [(id, code) for _, id, code in BAD]


def test_a_request_that_cannot_be_read_gets_an_error_over_http() -> None:
    async def case() -> None:
        async with App("memory") as app, site(McpDoor(Catalogue(Finder(app), []))) as open_session:
            session = await open_session()
            for line, *_ in BAD:
                answer = await session.post(line)
                assert (answer.status_code, "code" in answer.json()["error"]) == (400, True), line

    asyncio.run(case())
