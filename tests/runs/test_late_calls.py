"""Attempts that their node's own `timeout` ended: what is recorded, counted and told of them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from ropewalk import App
from ropewalk.app.runs.statistics import tool_stats
from ropewalk.app.runs.steps import run_summary
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.protocol import Store

SECONDS = 0.05


async def slow() -> int:
    """Never ends."""
    await asyncio.Event().wait()
    return 1


def thread() -> int:
    """Takes a thread's time."""
    threading.Event().wait(4 * SECONDS)
    return 1


async def holding() -> int:
    """Keeps the loop to itself."""
    threading.Event().wait(4 * SECONDS)
    return 1


def chain(tool: str, **more: Any) -> dict[str, Any]:
    node = {"id": "a", "type": "tool", "tool": tool, "timeout": SECONDS * 1000, **more}
    return {"kind": "chain", "name": "c", "nodes": [node]}


TWICE = {"errorStrategy": "retry", "maxRetries": 1, "retryDelay": 1}


async def run(store: Any, flow: dict[str, Any]) -> tuple[Any, Any, Any]:
    async with App(store, tools=[slow, thread, holding]) as app:
        done = await app.run(flow, run_id="r")
        return done, app.runs.get("r"), tool_stats(app.context)


@pytest.mark.parametrize("tool", ["slow", "thread"])
async def test_an_attempt_that_is_late_took_its_time_and_is_counted(store: Store, tool: str) -> None:
    _, told, counted = await run(store, chain(tool, **TWICE))
    assert [(one["path"], one["status"]) for one in told["nodes"]] == [("a", "failed"), ("a@2", "failed")]
    assert all(one["ms"] >= SECONDS * 1000 and one["started"] < one["ended"] for one in told["nodes"])
    assert [one["error"]["attempts"] for one in told["nodes"]] == [1, 2]
    [of] = counted["tools"]
    assert (of["tool"], of["calls"], of["failed"], of["lastError"]) == (tool, 2, 2, "no answer within 0.05 s")
    assert of["p50Ms"] >= SECONDS * 1000


async def test_a_store_that_keeps_no_journal_says_the_same() -> None:
    _, told, _ = await run("memory", chain("slow", **TWICE))
    assert [(one["path"], one["status"]) for one in told["nodes"]] == [("a", "failed"), ("a@2", "failed")]
    assert all(one["ms"] >= SECONDS * 1000 for one in told["nodes"])


@pytest.mark.parametrize("kept", [False, True])
async def test_what_comes_when_the_time_is_over_is_no_result(kept: bool) -> None:
    store = MemoryStore(durable=True) if kept else "memory"
    done, told, _ = await run(store, chain("holding", errorStrategy="continue"))
    assert (done.status, done.results) == ("partial", {"a": None})
    assert [(one["path"], one["status"], one["value"]) for one in told["nodes"]] == [("a", "failed", None)]
    if kept:
        assert [entry.kind for entry in store.history("r")] == ["attempt"]


async def test_the_arguments_of_a_late_call_are_known(store: Store) -> None:
    async with App(store, tools=[slow]) as app:
        flow = {"kind": "chain", "nodes": [{**chain("slow")["nodes"][0], "params": {}}]}
        await app.run(flow, run_id="r")
        assert await app.runs.arguments("r") == {"a": {}}


async def test_the_duration_in_lists_is_that_of_the_run_itself(store: Store) -> None:
    wait = {"kind": "chain", "nodes": [{"id": "w", "type": "wait", "event": "go"}]}
    async with App(store) as app:
        await app.run(wait, run_id="r", park=True)
        assert run_summary(app.runs.list()[0])["duration"] is None
        app.runs.send("r", "go")
        done = await app.resume("r")
        [row], told = app.runs.list(), app.runs.get("r")
    assert run_summary(row)["duration"] == told["duration"] == pytest.approx(done.to_dict()["duration"], abs=50)
    assert told["duration"] < told["elapsed"]
