"""Flows that other apps made as tools: their runs are parts of the calling run, in its store, at every depth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ropewalk import App

pytestmark = pytest.mark.anyio


def chain(name: str, *nodes: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "chain", "id": name, "name": name, "nodes": list(nodes)}


def step(id: str, tool: str) -> dict[str, Any]:
    return {"id": id, "type": "tool", "tool": tool}


async def test_a_wait_three_apps_deep_is_answered_through_the_outer_run(tmp_path: Path) -> None:
    calls: list[str] = []

    def note() -> str:
        calls.append("note")
        return "noted"

    ask = {"id": "ask", "type": "wait", "approval": "Release?"}
    release = App("memory", tools=[note]).as_tool(chain("release", step("note", "note"), ask))
    middle = App("memory", tools=[release]).as_tool(chain("middle", step("rel", "release")))
    top = chain("top", step("ship", "middle"))
    url = f"sqlite:///{tmp_path}/s.db"
    async with App(url, tools=[middle]) as app:
        waiting = await app.run(top, run_id="o", park=True)
        assert waiting.status == "waiting"
        [wait] = waiting.waiting_for
        assert wait["path"] == "ship/rel/ask"
        assert {row.id for row in app.store.list_runs()} == {"o", "o/ship", "o/ship/rel"}
    async with App(url, tools=[middle]) as app:  # another process, after the first one is gone
        app.runs.approve("o", "ship/rel/ask")
        done = await app.resume("o")
        assert done.status == "completed"
        assert calls == ["note"]


async def test_a_run_that_a_tool_starts_in_an_app_of_its_own_stays_there(tmp_path: Path) -> None:
    other = App(f"sqlite:///{tmp_path}/other.db")
    other.toolbox.register(other.as_tool(chain("leaf", {"id": "t", "type": "transform", "input": 1})))

    async def starts() -> str:
        done = await other.run(chain("own", step("leaf", "leaf")), run_id="mine")
        return done.status

    flow = App("memory", tools=[starts]).as_tool(chain("flow", step("starts", "starts")))
    async with App(f"sqlite:///{tmp_path}/s.db", tools=[flow]) as app:
        done = await app.run(chain("top", step("call", "flow")), run_id="o")
        assert done.results["call"] == {"starts": "completed"}
        assert {row.id for row in app.store.list_runs()} == {"o", "o/call"}
    assert {row.id for row in other.store.list_runs()} == {"mine", "mine/leaf"}
    await other.aclose() if hasattr(other, "aclose") else other.store.close()
