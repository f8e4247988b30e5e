"""A run that waits is `waiting` in every interface, and an answer counts even if the run cannot continue."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2

from ropewalk import App, tool

ASKS = {"id": "ask", "type": "wait", "approval": "Ship it?"}
CHAIN = {"kind": "chain", "name": "c", "nodes": [ASKS, {"id": "t", "type": "tool", "tool": "ship"}]}
WORKING = {"kind": "chain", "name": "c", "nodes": [{"id": "t", "type": "tool", "tool": "ship"}]}


def client_of(app: App) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app=app.asgi(hosts=["testserver"]))
    return httpx2.AsyncClient(transport=transport, base_url="http://testserver/api")


async def _listed(app: App, http: httpx2.AsyncClient, status: str) -> list[tuple[str, str]]:
    """Return the runs with a status, as the HTTP interface and `app.runs.list` give them."""
    lines = (await http.get("/runs", params={"status": status})).json()["runs"]
    listed = [(line["runId"], line["status"]) for line in lines]
    assert listed == [(row.id, row["status"]) for row in app.runs.list(status=status)]
    return listed


def test_a_run_that_waits_in_its_process_is_waiting_everywhere(tmp_path: Path) -> None:
    begun, asks, goes_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tool
    async def ship() -> str:
        begun.set()
        await goes_on.wait()
        return "shipped"

    async def case() -> None:
        async with App(f"sqlite:///{tmp_path / 'runs.db'}", tools=[ship]) as app, client_of(app) as http:
            app.watch(lambda event: asks.set() if event.kind == "wait.started" else None)
            first: Any = (await http.post("/runs", json={"document": WORKING, "runId": "works"})).json()
            await begun.wait()
            second = (await http.post("/runs", json={"document": CHAIN, "runId": "waits", "wait": 0.01})).json()
            await asks.wait()
            assert first["status"] == "running"
            assert second["status"] in ("running", "waiting")
            assert await _listed(app, http, "waiting") == [("waits", "waiting")]
            assert await _listed(app, http, "running") == [("works", "running")]
            assert (await http.get("/runs/waits")).json()["status"] == "waiting"
            again = (await http.post("/runs", json={"document": CHAIN, "runId": "waits"})).json()
            assert again["status"] == "waiting"
            answer = (await http.post("/runs/waits/approve", json={})).json()
            assert answer["status"] == "running"  # nothing is open any more
            goes_on.set()
            for id in ("works", "waits"):
                ended = await http.post(
                    "/runs", json={"document": WORKING if id == "works" else CHAIN, "runId": id, "wait": 60}
                )
                assert ended.json()["status"] == "completed"

    asyncio.run(case())


def test_an_approval_is_answered_though_the_run_cannot_continue(tmp_path: Path) -> None:
    async def ship() -> str:
        return "shipped"

    async def case() -> None:
        async with App(f"sqlite:///{tmp_path / 'runs.db'}", tools=[tool(ship)]) as app:
            assert (await app.run(CHAIN, run_id="r", park=True)).status == "waiting"
        async with App(f"sqlite:///{tmp_path / 'runs.db'}") as app, client_of(app) as http:
            answer = await http.post("/runs/r/approve", json={"by": "Ann"})
            body = answer.json()
            assert (answer.status_code, body["runId"], body["answered"]["by"]) == (200, "r", "Ann")
            assert body["error"]["kind"] == "InvalidFlow"
            assert body["error"]["problems"][0]["message"] == "unknown tool 'ship'"
            app.toolbox.register(tool(ship))
            resumed = (await http.post("/runs/r/resume", json={"wait": 20})).json()
            assert resumed["result"]["t"] == "shipped"

    asyncio.run(case())
