"""Agents that a stranger starts over HTTP or MCP: whatever input comes through, the API gets valid requests."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ropewalk.agents import ClaudeClient, Settings
from ropewalk.app.app import App
from ropewalk.doors.http.site import make_site
from ropewalk.doors.mcp.catalogue import Catalogue, Finder
from ropewalk.doors.mcp.flows import Flows
from ropewalk.doors.mcp.server import McpDoor
from tiers import Scale

from .strict_api import StrictApi, use
from .test_poison import CONVERSATIONS, tool_of

TOKEN = "a-token-of-this-test"
AGENT = {
    "kind": "agent",
    "name": "keeper",
    "messages": "$input.messages",
    "system": "Answer ${$input.how}",
    "tools": ["look"],
}
OLD = {"type": "object", "properties": {"at": {"items": [{"type": "string"}], "type": "array"}}}


def app_of(api: StrictApi) -> App:
    client = ClaudeClient(Settings(base_url=api.url, stream=False, max_retries=0), api_key="no-key")
    return App("memory", tools=[tool_of(OLD)], model=client)


def inputs(share: int = 1) -> list[dict[str, Any]]:
    """One conversation of each `share`."""
    return [{"messages": messages, "how": "\t"} for messages, _ in list(CONVERSATIONS.values())[::share]]


@pytest.mark.campaign("fuzz")
def test_what_http_sends_through_is_valid(scale: Scale) -> None:
    given = inputs(scale(4, 1))

    async def run(api: StrictApi) -> None:
        async with app_of(api) as app:
            site = httpx2.ASGITransport(make_site(app, TOKEN))
            headers = {"authorization": f"Bearer {TOKEN}"}
            async with httpx2.AsyncClient(transport=site, base_url="http://localhost", headers=headers) as client:
                for input in given:
                    body = {"document": AGENT, "input": input, "wait": 60}
                    answer = await client.post("/api/runs", json=body, timeout=90)
                    done = answer.json()
                    assert (answer.status_code, done.get("status")) == (200, "completed"), done
                    assert any(line.startswith("look: ") for line in done["warnings"])

    with StrictApi(use("look", 1), "done") as api:
        asyncio.run(run(api))
        assert api.refused == []
        assert len(api.bodies) > len(given)


@pytest.mark.campaign("fuzz")
@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
def test_what_mcp_sends_through_is_valid(tmp_path: Path, scale: Scale, era: str) -> None:
    given = inputs(scale(12, 1))
    from mcp import Client

    (tmp_path / "keeper.json").write_text(json.dumps({**AGENT, "inputSchema": {"type": "object"}}))

    async def run(api: StrictApi) -> None:
        async with app_of(api) as app:
            door = McpDoor(Catalogue(Finder(app), [Flows(app, ["keeper.json"], tmp_path)], []))
            async with door.open(), Client(door.server, mode=era) as client:
                for input in given:
                    result = await client.call_tool("keeper", input)
                    assert not result.is_error, result

    with StrictApi(use("look", 1), "done") as api:
        asyncio.run(run(api))
        assert api.refused == []
        assert len(api.bodies) > len(given)
