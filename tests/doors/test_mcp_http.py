"""`ropewalk mcp --http`: the same server over streamable HTTP, for those who show the token."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp_project import COMMAND, ERAS, Served, environment, served

import fork_server
from ropewalk.app.app import App
from ropewalk.tools.mcp.servers import McpServers
from ropewalk.tools.tool import ProgressEvent
from tiers import sampled

pytestmark = pytest.mark.process

__all__ = ["served"]

TOKEN = "shown-to-nobody-else"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
AUTHORIZED = {**JSON, "authorization": f"Bearer {TOKEN}"}
MODERN = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"}


@dataclass
class Listening:
    url: str
    said: list[str]
    process: subprocess.Popen[str]
    lines: queue.Queue[str]

    def client(self, era: str) -> McpServers:
        servers = McpServers()
        servers.add("here", {"url": self.url, "headers": {"Authorization": f"Bearer {TOKEN}"}, "mode": era})
        return servers


@contextlib.contextmanager
def listening(served: Served, *words: str, token: str | None = TOKEN) -> Iterator[Listening]:
    env = {**os.environ, **environment(), **({"ROPEWALK_TOKEN": token} if token else {})}
    process = fork_server.Popen(
        [COMMAND, "mcp", "--http", "127.0.0.1:0", *words],
        cwd=served.home,
        env=env,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines: queue.Queue[str] = queue.Queue()
    assert process.stderr is not None
    stderr = process.stderr
    reader = threading.Thread(target=lambda: [lines.put(line) for line in stderr], daemon=True)
    reader.start()
    said = []
    try:
        while not (said and said[-1].startswith(("clients send", "no token"))):
            said.append(lines.get(timeout=60).rstrip())
        url = next(line for line in said if line.startswith("MCP server at ")).rpartition(" ")[2]
        yield Listening(url, said, process, lines)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(50)
        reader.join(50)
        stderr.close()


@pytest.fixture
def here(served: Served) -> Iterator[Listening]:
    with listening(served) as found:
        yield found


@pytest.mark.parametrize("era", sampled("conformance", ERAS, 1))
def test_flows_are_served_over_http_with_progress_changes_and_cancellation(
    served: Served, here: Listening, era: str
) -> None:
    async def case() -> None:
        told: list[ProgressEvent] = []
        lists: asyncio.Queue[list[str]] = asyncio.Queue()
        async with here.client(era) as mcp:
            mcp.on_tools(lambda _, tools: lists.put_nowait([tool.name for tool in tools]))
            await mcp.connect("here")
            assert await lists.get() == ["broken", "shout", "slow_one"]
            result = await mcp.call_tool("here", "shout", {"text": "ahoy"}, on_progress=told.append)
            assert result.structured_content == {"result": "AHOY"}
            assert [event.message for event in told] == ["up: started", "up: done", "again: started", "again: done"]

            begun = asyncio.Event()
            slow = asyncio.create_task(mcp.call_tool("here", "slow_one", on_progress=lambda _: begun.set()))
            await begun.wait()
            slow.cancel()
            await asyncio.gather(slow, return_exceptions=True)
            while not (served.home / "cancelled").exists():
                await mcp.call_tool("here", "shout", {"text": "still here"})

            (served.home / "flows/broken.yaml").unlink()
            assert await asyncio.wait_for(lists.get(), 20) == ["shout", "slow_one"]
        async with App.open(served.home) as app:
            assert {row.name: row.status for row in app.runs.list()} == {"shout": "completed", "slow one": "stopped"}

    asyncio.run(case())


def test_both_eras_are_served_at_once(here: Listening) -> None:
    async def case() -> None:
        async with here.client("legacy") as old, here.client("2026-07-28") as new:
            calls = [mcp.call_tool("here", "shout", {"text": str(i)}) for i in range(5) for mcp in (old, new)]
            answers = [result.structured_content["result"] for result in await asyncio.gather(*calls)]
            assert answers == [str(i) for i in range(5) for _ in range(2)]

    asyncio.run(case())


@pytest.mark.parametrize("more", [{}, MODERN], ids=["legacy", "2026-07-28"])
def test_without_the_token_or_with_a_foreign_host_or_origin_there_is_no_answer(
    here: Listening, more: dict[str, str]
) -> None:
    port = here.url.split(":")[2].partition("/")[0]
    hostile: list[tuple[dict[str, str], int]] = [
        ({"authorization": ""}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": f"Basic {TOKEN}"}, 401),
        ({"host": "evil.example"}, 421),
        ({"host": f"127.0.0.1.evil.example:{port}"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost:1"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
    ]
    with httpx2.Client(timeout=20) as client:
        for headers, status in hostile:
            for method in ("POST", "GET", "DELETE", "OPTIONS"):
                answer = client.request(method, here.url, json=INITIALIZE, headers={**AUTHORIZED, **more, **headers})
                assert (answer.status_code, "access-control-allow-origin" in answer.headers) == (status, False), headers
                assert TOKEN not in answer.text
        own = client.post(here.url, json=INITIALIZE, headers={**AUTHORIZED, "origin": here.url.removesuffix("/mcp")})
        assert own.status_code == 200
        assert client.get(here.url.replace("/mcp", "/elsewhere"), headers=AUTHORIZED).status_code == 404
        huge = client.post(here.url, content=b" " * 11_000_000, headers=AUTHORIZED)
        assert huge.status_code == 413


def test_a_token_is_made_and_told_where_none_is_given(served: Served) -> None:
    with listening(served, token=None) as found:
        token = found.said[-1].rpartition(" ")[2]
        assert len(token) >= 32
        headers = {**JSON, "authorization": f"Bearer {token}"}
        assert httpx2.post(found.url, json=INITIALIZE, headers=headers).status_code == 200
        stranger = httpx2.post(found.url, json=INITIALIZE, headers=JSON)
        assert stranger.status_code == 401
        assert "send the header Authorization: Bearer TOKEN" in stranger.text


def test_it_ends_when_told_to_and_stops_what_is_under_way(served: Served, here: Listening) -> None:
    async def case() -> None:
        begun = asyncio.Event()
        async with here.client("legacy") as mcp:
            slow = asyncio.create_task(mcp.call_tool("here", "slow_one", on_progress=lambda _: begun.set()))
            await begun.wait()
            here.process.send_signal(signal.SIGTERM)
            with pytest.raises(ConnectionError, match=r"lost the connection|closed|reached"):
                await slow

    asyncio.run(case())
    assert here.process.wait(50) == 0
    assert App.open(served.home).runs.list()[0].status == "stopped"


WRONG = [
    (["--http", "8700x"], "must be HOST:PORT or PORT"),
    (["--http", "0.0.0.0:0"], "name the host that clients use: --allow-host NAME"),
    (["--http", "0.0.0.0:0", "--allow-host", "ship.example", "--no-token"], "a token is required"),
    (["--http", "203.0.113.1:0"], "cannot listen on 203.0.113.1:0"),
]


@pytest.mark.parametrize(("words", "said"), WRONG)
def test_an_unsafe_or_impossible_address_is_refused(served: Served, words: list[str], said: str) -> None:
    env = {**os.environ, **environment()}
    done = fork_server.run(
        [COMMAND, "mcp", *words], cwd=served.home, env=env, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_another_name_is_served_when_it_is_allowed(served: Served) -> None:
    with listening(served, "--allow-host", "ship.example") as found:
        headers: dict[str, Any] = {**AUTHORIZED, "host": "ship.example"}
        assert httpx2.post(found.url, json=INITIALIZE, headers=headers).status_code == 200


def test_the_official_client_gets_a_result_that_is_too_large_for_an_event(here: Listening) -> None:
    text = "a" * 3_000_000

    async def case() -> None:
        async with (
            httpx2.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}, timeout=None) as http,
            streamable_http_client(here.url, http_client=http) as (read, write),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            result = await session.call_tool("shout", {"text": text})
            assert result.structured_content == {"result": text.upper()}

    asyncio.run(case())


def test_a_wrong_path_is_refused_with_the_right_one_and_logged(served: Served) -> None:
    with listening(served) as here:
        for path in ("/mpc", "/"):
            answer = httpx2.post(here.url.replace("/mcp", path), json=INITIALIZE, headers=AUTHORIZED)
            assert (answer.status_code, answer.json()["error"]["kind"]) == (404, "NotFound")
            assert "the MCP server is at /mcp" in answer.json()["error"]["message"]
        assert httpx2.post(here.url, json=INITIALIZE, headers=AUTHORIZED).status_code == 200
        while not any("refused POST /mpc from 127.0.0.1: there is nothing at this path" in line for line in here.said):
            here.said.append(here.lines.get(timeout=60))
