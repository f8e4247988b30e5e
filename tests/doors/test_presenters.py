"""The same JSON at every interface: what the command line, HTTP and MCP say of one run, wait, tool or definition."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ropewalk import App
from ropewalk.doors.http.flow_files import FlowFiles
from ropewalk.doors.http.site import make_site
from ropewalk.doors.mcp.catalogue import Catalogue, Finder
from ropewalk.doors.mcp.flows import Flows
from ropewalk.doors.mcp.resources import ProjectResources

pytestmark = pytest.mark.process

FAILING = "kind: chain\nname: off\nnodes: [{id: a, type: tool, tool: fail, params: {}}]\n"
ASKING = "kind: chain\nname: ask\ninputSchema: {type: object}\nnodes: [{id: ok, type: wait, approval: 'Ship it?'}]\n"


def over_http(home: Path, ask: Callable[[httpx2.AsyncClient], Any]) -> Any:
    """Return what a client of the HTTP API of a project gets."""

    async def case() -> Any:
        async with App.open(home) as app:
            transport = httpx2.ASGITransport(make_site(app, None, files_of=lambda app: FlowFiles(app, home)))
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await ask(client)

    return asyncio.run(case())


@pytest.fixture
def ran(project: Any) -> Any:
    """A project with a run that failed and one that waits for an approval."""
    project.write("off.yaml", FAILING)
    project.write("ask.yaml", ASKING)
    assert project("run", "off.yaml", "--id", "failed").code == 1
    assert project("run", "ask.yaml", "--id", "asks").code == 4
    return project


def test_lists_of_runs_have_the_same_fields(ran: Any) -> None:
    async def ask(client: httpx2.AsyncClient) -> Any:
        return (await client.get("/api/runs")).json()["runs"]

    lines = ran("runs", "ls", "--json").data
    assert lines == over_http(ran.home, ask)
    by_id = {line["runId"]: line for line in lines}
    assert by_id["failed"]["errorMessage"] is not None
    assert (by_id["failed"]["waiting"], by_id["asks"]["waiting"]) == (False, True)


def test_answers_and_stops_name_the_run_and_its_status(ran: Any) -> None:
    async def ask(client: httpx2.AsyncClient) -> Any:
        return (await client.post("/api/runs/failed/stop")).json()

    stopped = ran("runs", "stop", "failed", "--json").data
    assert stopped == over_http(ran.home, ask)
    approved = ran("runs", "approve", "asks", "--json").data
    assert (approved["runId"], approved["status"]) == ("asks", "running")
    assert approved["answered"]["approved"] is True


@pytest.mark.parametrize(
    "words",
    [
        ("show", "asking"),
        ("stop", "asking"),
        ("approve", "asking"),
        ("undo", "asking"),
        ("diff", "asks", "asking"),
        ("export", "asking", "--as-test"),
        ("ls", "--after", "asking"),
    ],
)
def test_every_command_suggests_the_id_of_a_run(ran: Any, words: tuple[str, ...]) -> None:
    done = ran("runs", *words)
    assert done.code != 0
    assert "no run 'asking'; did you mean 'asks'?: searched " in done.err
    assert "to search another store, add -C PROJECT or --store URL" in done.err


def test_selected_tools_flows_and_saved_plans_come_with_the_way_to_run_them(ran: Any) -> None:
    async def ask(client: httpx2.AsyncClient) -> Any:
        queries = ("ask whether to ship it", "greet somebody twice", "add two numbers")
        return [(await client.post("/api/tools/select", json={"query": query})).json() for query in queries]

    async def save() -> None:
        async with App.open(ran.home) as app:
            await app.plans.save_plan("greet_twice", "return await upper(text='hi hi')", "Greet somebody twice.")

    asyncio.run(save())
    answers = over_http(ran.home, ask)
    assert [{key: answer["results"][0].get(key) for key in ("name", "source", "flow")} for answer in answers] == [
        {"name": "ask", "source": "flow", "flow": "ask.yaml"},
        {"name": "plans:greet_twice", "source": "plan", "flow": None},
        {"name": "add", "source": "local", "flow": None},
    ]
    assert "ask is a flow: ropewalk run ask.yaml" in ran("tools", "select", "ask whether to ship it").out
    selected = ran("tools", "select", "greet somebody twice", "--json").data
    assert selected.keys() == answers[1].keys()
    assert selected["failures"] == answers[1]["failures"] == {}
    assert selected["results"] == answers[1]["results"]


def test_a_definition_has_the_same_content_over_http_and_mcp(ran: Any) -> None:
    async def ask(client: httpx2.AsyncClient) -> Any:
        return (await client.get("/api/definitions/file/ask.yaml")).json()

    async def read() -> Any:
        async with App.open(ran.home) as app:
            catalogue = Catalogue(Finder(app), [Flows(app, ["ask.yaml"], ran.home)])
            resources = ProjectResources(app, lambda: catalogue.tools, ["definitions"])
            return json.loads((await resources.read("ropewalk://definitions/ask")).contents[0].text)

    definition = over_http(ran.home, ask)
    resource = asyncio.run(read())
    shared = {name: definition[name] for name in ("name", "fingerprint", "inputSchema", "document")}
    # Over HTTP the id of a file is its path. Over MCP it has the id that was made for it.
    assert definition["document"].pop("id") == "ask.yaml"
    resource["document"].pop("id")
    assert resource == {**shared, "kind": "chain"}
