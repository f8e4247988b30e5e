"""Runs, definitions and values as resources, seen by the official client; the server runs in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_project import ERAS

from ropewalk import App
from ropewalk.config.project import read_config
from ropewalk.doors.cli.serve import _make_door

ALL = 'resources = ["runs", "definitions", "values"]'
SHIP = """\
kind: chain
name: ship
description: Ships an order.
nodes:
  - {id: label, type: tool, tool: label, params: {order: "${input.order}"}}
  - {id: stamp, type: tool, tool: stamp, params: {}}
  - {id: ok, type: wait, approval: "Ship ${input.order}?"}
"""
TOOLS = '''
import os
from ropewalk import tool
from ropewalk.content import content

@tool
def label(order: str) -> dict:
    """A label."""
    return {"order": order}

@tool
def stamp() -> dict:
    """A picture."""
    return content(b"png", "image/png")
'''


@asynccontextmanager
async def serving(home: Path, config: str = ALL, era: str = "legacy", **client: Any) -> AsyncIterator[tuple[App, Any]]:
    """A client of the MCP server of a project, without a process in between."""
    write_project(home, config)
    async with App.open(home) as app:
        door = _make_door(app, read_config(home), (), lambda: None)
        async with door.open(), Client(door.server, mode=era, **client) as mcp:  # type: ignore[arg-type]
            yield app, mcp


def write_project(home: Path, config: str) -> None:
    home.mkdir(exist_ok=True)
    text = f'[tools]\nmodules = ["resource_tools"]\n[store]\nurl = "../runs.db"\n[mcp_server]\n{config}\n'
    (home / "ropewalk.toml").write_text(text)
    (home / "resource_tools.py").write_text(TOOLS)
    (home / "ship.yaml").write_text(SHIP)


async def read(mcp: Any, uri: str) -> Any:
    [contents] = (await mcp.read_resource(uri)).contents
    return json.loads(contents.text) if contents.mime_type == "application/json" else contents


@pytest.mark.parametrize("era", ERAS)
def test_definitions_runs_and_values_are_listed_read_and_completed(tmp_path: Path, era: str) -> None:
    async def case() -> None:
        async with serving(tmp_path / "a", era=era) as (app, mcp):
            for number in range(51):
                await app.run(
                    Path(app.project or "") / "ship.yaml",
                    {"order": str(number)},
                    run_id=f"order-{number:02}",
                    park=True,
                )
            first = await mcp.list_resources()
            assert [item.uri for item in first.resources[:2]] == [
                "ropewalk://definitions/ship",
                "ropewalk://runs/order-50",
            ]
            second = await mcp.list_resources(cursor=first.next_cursor)
            assert [item.uri for item in second.resources] == ["ropewalk://runs/order-00"]
            assert second.next_cursor is None
            with pytest.raises(MCPError, match="cursor"):
                await mcp.list_resources(cursor="%%")

            templates = (await mcp.list_resource_templates()).resource_templates
            assert [item.uri_template for item in templates] == [
                "ropewalk://runs/{id}",
                "ropewalk://definitions/{name}",
                "ropewalk://values/{run}/{node}",
            ]
            definition = await read(mcp, "ropewalk://definitions/ship")
            assert definition["document"]["description"] == "Ships an order."
            run = await read(mcp, "ropewalk://runs/order-07")
            assert (run["status"], run["input"]) == ("waiting", {"order": "7"})
            assert run["waitingFor"][0]["approval"] == "Ship 7?"
            assert await read(mcp, "ropewalk://values/order-07/label") == {"order": "7"}
            picture = await read(mcp, "ropewalk://values/order-07/stamp")
            assert (picture.mime_type, picture.blob) == ("image/png", "cG5n")
            for uri in ("ropewalk://runs/order-77", "ropewalk://values/order-07/none", "ropewalk://secrets/x"):
                with pytest.raises(MCPError, match=f"Resource not found: {uri}"):
                    await mcp.read_resource(uri)

            async def complete(template: str, name: str, value: str, **known: str) -> list[str]:
                ref = types.ResourceTemplateReference(type="ref/resource", uri=template)
                result = await mcp.complete(ref, {"name": name, "value": value}, known or None)
                return list(result.completion.values)

            assert await complete("ropewalk://runs/{id}", "id", "order-4") == [f"order-4{n}" for n in range(9, -1, -1)]
            assert await complete("ropewalk://definitions/{name}", "name", "s") == ["ship"]
            assert await complete("ropewalk://values/{run}/{node}", "node", "", run="order-07") == ["label", "stamp"]

            if era != "legacy":  # only this revision has caching hints
                result = await mcp.read_resource("ropewalk://definitions/ship")
                assert (result.ttl_ms > 0, result.cache_scope) == (True, "private")
                assert (await mcp.read_resource("ropewalk://runs/order-07")).ttl_ms == 0

    asyncio.run(case())


def test_a_client_reads_only_what_is_offered_of_its_project_and_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "tok-48151623")
    echo = "nodes: [{id: label, type: tool, tool: label, params: {order: $secret.SHOP_TOKEN}}]"

    async def case() -> None:
        async with serving(tmp_path / "a") as (app, _):
            await app.run(Path(app.project or "") / "ship.yaml", {"order": "1"}, run_id="of-a", park=True)
        config = f'{ALL}\n[secrets]\nallow = ["SHOP_TOKEN"]'
        async with serving(tmp_path / "b", config) as (app, mcp):
            await app.run(f"kind: chain\nname: echo\n{echo}\n", run_id="of-b")
            listed = [item.uri for item in (await mcp.list_resources()).resources]
            assert listed == ["ropewalk://definitions/ship", "ropewalk://runs/of-b"]
            for uri in ("ropewalk://runs/of-a", "ropewalk://values/of-a/label"):
                with pytest.raises(MCPError, match="Resource not found"):
                    await mcp.read_resource(uri)
            for uri in ("ropewalk://runs/of-b", "ropewalk://values/of-b/label"):
                [contents] = (await mcp.read_resource(uri)).contents
                assert "SHOP_TOKEN" in contents.text, uri
                assert "tok-48151623" not in contents.text, uri
        async with serving(tmp_path / "b", 'resources = ["definitions"]') as (_, mcp):
            assert [item.uri for item in (await mcp.list_resources()).resources] == ["ropewalk://definitions/ship"]
            with pytest.raises(MCPError, match="Resource not found"):
                await mcp.read_resource("ropewalk://runs/of-b")
        async with serving(tmp_path / "b", "") as (_, mcp):
            assert mcp.server_capabilities.resources is None

    asyncio.run(case())


def test_changes_of_runs_and_definitions_are_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ropewalk.doors.mcp.server._LOOK", 0.05)
    uri = "ropewalk://runs/order-1"

    async def case() -> None:
        updated, relisted = asyncio.Event(), asyncio.Event()

        async def hear(message: Any) -> None:
            if isinstance(message, types.ResourceUpdatedNotification) and str(message.params.uri) == uri:
                updated.set()
            if isinstance(message, types.ResourceListChangedNotification):
                relisted.set()

        async with serving(tmp_path / "a", message_handler=hear) as (app, mcp):
            await app.run(Path(app.project or "") / "ship.yaml", {"order": "1"}, run_id="order-1", park=True)
            await mcp.list_resources()
            await mcp.session.send_request(
                types.SubscribeRequest.model_validate({"params": {"uri": uri}}), types.EmptyResult
            )
            with pytest.raises(MCPError, match="Resource not found"):
                await mcp.session.send_request(
                    types.SubscribeRequest.model_validate({"params": {"uri": f"{uri}23"}}), types.EmptyResult
                )
            app.runs.approve("order-1")
            await app.resume("order-1")
            await updated.wait()
            (tmp_path / "a" / "more.yaml").write_text(SHIP.replace("name: ship", "name: more"))
            await relisted.wait()
            assert "ropewalk://definitions/more" in [item.uri for item in (await mcp.list_resources()).resources]

        async with serving(tmp_path / "a", era="2026-07-28") as (app, mcp):
            await app.run(Path(app.project or "") / "ship.yaml", {"order": "2"}, run_id="order-2", park=True)
            async with mcp.listen(resource_subscriptions=["ropewalk://runs/order-2"]) as events:
                app.runs.stop("order-2")
                async with asyncio.timeout(60):
                    async for event in events:
                        assert event.uri == "ropewalk://runs/order-2"
                        break

    asyncio.run(case())
