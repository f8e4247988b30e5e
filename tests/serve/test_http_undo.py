"""Undo over HTTP: on request, by the policy in the body, where an undo fails; and the facts of what asks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2

from ropewalk import App, tool
from ropewalk.config.settings import UndoSettings
from ropewalk.doors.http.site import make_site

HEAD = {"Authorization": "Bearer t"}
UNDO = {"tool": "cancel", "args": {"id": "$result"}}
ORDER = {"id": "one", "type": "tool", "tool": "order", "params": {"item": "a"}, "undo": UNDO}
FAILING = {"kind": "chain", "name": "c", "nodes": [ORDER, {"id": "last", "type": "tool", "tool": "fail"}]}
ASKING = {"kind": "chain", "name": "c", "nodes": [{"id": "ask", "type": "wait", "approval": "Go?"}, ORDER]}


class Shop:
    """A shop whose book has every order and cancellation; `broken` makes cancellations fail."""

    def __init__(self) -> None:
        self.book: list[str] = []
        self.broken = False

    def tools(self) -> list[Any]:
        @tool
        async def order(item: str) -> str:
            self.book.append(f"order {item}")
            return item

        @tool
        async def cancel(id: str) -> str:
            if self.broken:
                raise ValueError("with the carrier")
            self.book.append(f"cancel {id}")
            return id

        @tool
        async def fail() -> str:
            raise ValueError("no more")

        return [order, cancel, fail]


def served(shop: Shop, folder: Path, steps: Callable[[App, httpx2.AsyncClient], Awaitable[None]]) -> None:
    async def scenario() -> None:
        app = App(f"sqlite:///{folder / 'runs.db'}", tools=shop.tools())
        app.context.undo = UndoSettings(attempts=1)
        transport = httpx2.ASGITransport(make_site(app, "t"))
        async with app, httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=HEAD) as client:
            await steps(app, client)

    asyncio.run(scenario())


async def until(client: httpx2.AsyncClient, path: str, holds: Callable[[Any], bool]) -> Any:
    """Get a path until its answer is as expected."""
    while not holds(answer := (await client.get(path)).json()):
        pass
    return answer


def test_a_failed_run_is_undone_and_then_neither_retried_nor_undone_twice(tmp_path: Path) -> None:
    shop = Shop()

    async def steps(app: App, client: httpx2.AsyncClient) -> None:
        begun = (await client.post("/api/runs", json={"document": FAILING, "runId": "r", "wait": 20})).json()
        assert begun["status"] == "failed"
        assert (await client.get("/api/runs/r")).json()["undo"] is None
        shop.broken = True
        failed = await client.post("/api/runs/r/undo", json={"wait": 20})
        assert (failed.status_code, failed.json()["status"]) == (200, "incomplete")
        assert failed.json()["left"][0]["error"] == "with the carrier"
        shop.broken = False
        done = (await client.post("/api/runs/r/undo", json={"wait": 20})).json()
        assert (done["status"], [step["path"] for step in done["undone"]]) == ("undone", ["one"])
        [undo, run] = (await client.get("/api/runs")).json()["runs"]
        assert [(line["runId"], line["undoStatus"]) for line in (undo, run)] == [("r~undo", None), ("r", "undone")]
        again = await client.post("/api/runs/r/undo")
        assert (again.status_code, again.json()["undone"]) == (200, done["undone"])
        resumed = (await client.post("/api/runs/r/resume")).json()
        assert (resumed["status"], resumed["undo"]) == ("failed", again.json())
        shown = (await client.get("/api/runs/r")).json()
        assert (shown["status"], shown["undo"]["status"], shown["undo"]["undoRun"]) == ("failed", "undone", "r~undo")
        refused = await client.post("/api/runs/r/retry", json={"wait": 20})
        assert (refused.status_code, refused.json()["error"]["kind"]) == (409, "RunUndone")
        nothing = await client.post("/api/runs/r~undo/undo", json={"wait": 20})
        assert (nothing.status_code, nothing.json()["error"]["kind"]) == (409, "NothingToUndo")

    served(shop, tmp_path, steps)
    assert shop.book == ["order a", "cancel a"]


def test_the_body_of_a_run_sets_the_policy(tmp_path: Path) -> None:
    shop = Shop()

    async def steps(app: App, client: httpx2.AsyncClient) -> None:
        wrong = await client.post("/api/runs", json={"document": FAILING, "undo": "on_failur"})
        assert wrong.status_code == 422
        body = {"document": FAILING, "runId": "r", "wait": 20, "undo": "on_failure"}
        assert (await client.post("/api/runs", json=body)).json()["undo"]["status"] == "undone"
        document = {**FAILING, "undo": "on_failure"}
        kept = {"document": document, "runId": "s", "wait": 20, "undo": "on_request"}
        assert (await client.post("/api/runs", json=kept)).json()["status"] == "failed"

    served(shop, tmp_path, steps)
    assert shop.book == ["order a", "cancel a", "order a"]


def test_what_asks_shows_its_facts_and_a_rejection_is_undone_by_policy(tmp_path: Path) -> None:
    shop = Shop()

    async def steps(app: App, client: httpx2.AsyncClient) -> None:
        again = {**ASKING, "undo": "on_failure", "nodes": [ORDER, ASKING["nodes"][0]]}
        await client.post("/api/runs", json={"document": again, "runId": "r"})
        waiting = await until(client, "/api/runs/r/waiting", lambda answer: bool(answer["waiting"]))
        [facts] = waiting["facts"]
        assert facts["tools"] == [
            {"tool": "order", "effect": "write", "undo": "cancel", "isFlow": False, "known": True, "calls": 1},
        ]
        assert (await client.get("/api/runs/r")).json()["facts"] == [facts]
        await client.post("/api/runs/r/approve", json={"approved": False})
        undone = await until(client, "/api/runs/r", lambda answer: answer["undo"]["status"] == "undone")
        assert undone["status"] == "failed"

    served(shop, tmp_path, steps)
    assert shop.book == ["order a", "cancel a"]
