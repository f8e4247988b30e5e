"""Whom MCP over HTTP counts as the source of what is learnt: the address, not the session or a header."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import httpx2

from doors.test_mcp_sessions import lifespan
from ropewalk import App, tool
from ropewalk.doors.mcp.catalogue import Catalogue, Finder
from ropewalk.doors.mcp.gateway import Tools
from ropewalk.doors.mcp.server import McpDoor
from ropewalk.doors.mcp.transports import PATH, _site
from ropewalk.doors.security import AuthMiddleware, serve_until_cancelled
from ropewalk.journal.tool_usage import address_source

TOKEN = "of-this-server"
HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "authorization": f"Bearer {TOKEN}",
}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


@tool
def zork(text: str = "") -> str:
    """A plugin."""
    return text


async def call_from(site: Any, host: str, request: str, **headers: str) -> None:
    """Open a session from an address and call the tool for a request."""
    transport = httpx2.ASGITransport(site, client=(host, 4711))
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://127.0.0.1", headers=HEADERS | headers
    ) as client:
        begun = await client.post(PATH, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE})
        session = {"mcp-session-id": begun.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        await client.post(PATH, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
        params = {"name": "call_tool", "arguments": {"name": "zork", "request": request}}
        done = await client.post(
            PATH, json={"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}, headers=session
        )
        assert done.status_code == 200, done.text
        assert '"isError":true' not in done.text.replace(" ", "")


def test_every_session_of_an_address_is_one_source() -> None:
    """SELECT-LEARN-7"""

    async def case() -> dict[str, str]:
        async with App("memory", tools=[zork]) as app:
            door = McpDoor(Catalogue(Finder(app), [], [Tools(app)], max_listed=0))
            inner = _site(door, 10)
            site = AuthMiddleware(inner, TOKEN)
            async with door.open(), lifespan(inner):
                await call_from(site, "203.0.113.7", "one")
                await call_from(site, "203.0.113.7", "two", **{"x-forwarded-for": "198.51.100.1"})
                await call_from(site, "203.0.113.8", "three")
                await call_from(site, "127.0.0.1", "here")
            return {use.request: use.source for use in app.selector.learnt()}

    sources = asyncio.run(case())
    one, other = address_source("203.0.113.7", TOKEN), address_source("203.0.113.8", TOKEN)
    assert sources == {"one": one, "two": one, "three": other, "here": ""}


def test_an_address_that_a_header_claims_is_not_believed() -> None:
    """SELECT-LEARN-7: not even from this machine, whose proxies uvicorn trusts by default."""
    clients: list[str] = []

    async def site(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        clients.append(scope["client"][0])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def case() -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        serving = asyncio.ensure_future(serve_until_cancelled(site, listening, 1))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        async with httpx2.AsyncClient(timeout=30) as client:
            await client.get(url, headers={"x-forwarded-for": "198.51.100.1"})
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(case())
    assert clients == ["127.0.0.1"]
