"""Nodes that run at once and whose calls have ended: they wait for their commits together."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App
from ropewalk.testing import ScriptedTools, held

pytestmark = pytest.mark.anyio


def call(id: str, tool: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "type": "tool", "tool": tool, **more}


async def at_once(n: int) -> int:
    return n


async def test_no_task_is_made_for_what_only_waits_for_its_commit(tmp_path: Path) -> None:
    made: list[Any] = []
    loop = asyncio.get_running_loop()

    def factory(loop: Any, coro: Any, **more: Any) -> asyncio.Task[Any]:
        made.append(coro)
        return asyncio.Task(coro, loop=loop, **more)

    async with App(str(tmp_path / "s.db"), tools=[at_once]) as app:
        nodes = [call(f"n{i}", "at_once", params={"n": i}) for i in range(200)]
        chain = {"kind": "chain", "mode": "parallel", "concurrency": 200, "nodes": nodes}
        await app.run(chain, run_id="first")
        loop.set_task_factory(factory)
        try:
            done = await app.run(chain, run_id="r")
        finally:
            loop.set_task_factory(None)
        assert done.results == {f"n{i}": i for i in range(200)}
        assert len(made) < 10
        assert len(app.runs.history("r")) == 200


async def test_a_commit_is_seen_while_another_tool_takes_its_time(tmp_path: Path) -> None:
    tools = ScriptedTools(quick=1, slow=held("late"), after=2)
    nodes = [call("a", "quick"), call("b", "slow"), call("c", "after", dependsOn=["a"])]
    async with App(str(tmp_path / "s.db"), tools=tools.tools()) as app:
        running = asyncio.create_task(app.run({"kind": "chain", "mode": "dag", "nodes": nodes}, run_id="r"))
        await tools.called("after")
        assert [entry.path for entry in app.runs.history("r")] == ["a"]
        tools.release("slow")
        assert (await running).results == {"a": 1, "b": "late", "c": 2}


async def test_what_follows_begins_after_the_commit(tmp_path: Path) -> None:
    app = App(str(tmp_path / "s.db"))
    seen: list[list[str]] = []

    async def second(n: int) -> int:
        seen.append([entry.path for entry in app.runs.history("r")])
        return n

    for tool in (at_once, second):
        app.toolbox.register(tool)
    nodes = [call(f"a{i}", "at_once", params={"n": i}) for i in range(20)]
    nodes += [call(f"b{i}", "second", params={"n": i}, dependsOn=[f"a{i}"]) for i in range(20)]
    async with app:
        done = await app.run({"kind": "chain", "mode": "dag", "concurrency": 50, "nodes": nodes}, run_id="r")
    assert done.status == "completed"
    assert all(len([path for path in known if path[0] == "a"]) == 20 for known in seen)


async def test_no_more_calls_await_their_commit_than_may_run_at_once(tmp_path: Path) -> None:
    app = App(str(tmp_path / "s.db"))
    unrecorded: list[int] = []
    begun = 0

    async def quick(n: int) -> int:
        nonlocal begun
        begun += 1
        unrecorded.append(begun - len(app.runs.history("r")))
        return n

    app.toolbox.register(quick)
    nodes = [call(f"n{i}", "quick", params={"n": i}) for i in range(40)]
    async with app:
        await app.run({"kind": "chain", "mode": "parallel", "concurrency": 3, "nodes": nodes}, run_id="r")
    assert 1 < max(unrecorded) <= 6


async def test_a_failure_ends_what_waits_for_its_commit(tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("no luck")

    async with App(str(tmp_path / "s.db"), tools=[at_once, fail]) as app:
        nodes = [call(f"n{i}", "at_once", params={"n": i}) for i in range(5)]
        done = await app.run({"kind": "chain", "mode": "parallel", "nodes": [*nodes, call("f", "fail")]}, run_id="r")
        assert done.status == "failed"
        assert {"n0", "f"} <= {entry.path for entry in app.runs.history("r")}
        assert (await app.resume("r")).status == "failed"
