"""Nodes that run at once and whose calls have ended: they wait for their commits together."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from patience import until
from ropewalk import App
from ropewalk.errors import JournalConflict
from ropewalk.journal.memory import MemoryLog, MemoryStore
from ropewalk.journal.protocol import Entry
from ropewalk.journal.sqlite.store import SqliteStore
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


def small(*tools: str, mode: str = "sequential") -> dict[str, Any]:
    nodes = [call(f"n{i}", tool, params={"n": i}) for i, tool in enumerate(tools)]
    if mode == "dag":
        for before, node in pairwise(nodes):
            node["dependsOn"] = [before["id"]]
    return {"kind": "chain", "id": "small", "name": "small", "mode": mode, "nodes": nodes}


async def refuse(n: int) -> int:
    raise ValueError("no")


@pytest.mark.parametrize("mode", ["sequential", "dag"])
@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize(
    ("tools", "transactions"),
    [(["at_once"], 2), (["at_once"] * 2, 3), (["at_once"] * 5, 6), (["refuse"], 2), (["at_once", "refuse"], 3)],
)
async def test_the_last_step_is_committed_with_the_ending(
    tmp_path: Path, tools: list[str], transactions: int, watched: bool, mode: str
) -> None:
    """One transaction opens the run, and one records each step; the last step and the ending share theirs."""
    store = SqliteStore(tmp_path / "s.db", lease=600, poll=600)
    count = 0

    def committed() -> bool:
        nonlocal count
        count += 1
        return False

    async with App(store, tools=[at_once, refuse]) as app:
        watcher = (lambda event: None) if watched else None
        await app.run(small(*tools, mode=mode), on_event=watcher)
        await until(lambda: store._writer.watch.wait() > 1)  # the heartbeat is written
        with store._writer.lock:
            store._writer.connection.set_commit_hook(committed)
        done = await app.run(small(*tools, mode=mode), run_id="r", on_event=watcher)
        assert count == transactions
        assert done.status == ("failed" if "refuse" in tools else "completed")
        assert [entry.path for entry in app.runs.history("r")] == [f"n{i}" for i in range(len(tools))]


async def test_no_event_says_that_a_step_has_ended_before_it_is_recorded(tmp_path: Path) -> None:
    seen: list[tuple[str, str, list[str]]] = []
    async with App(str(tmp_path / "s.db"), tools=[at_once]) as app:

        def watch(event: Any) -> None:
            if event.kind in ("node.finished", "run.finished"):
                seen.append((event.kind, event.path, [entry.path for entry in app.runs.history("r")]))

        await app.run(small("at_once", "at_once"), run_id="r", on_event=watch)
    assert seen == [
        ("node.finished", "n0", ["n0"]),
        ("node.finished", "n1", ["n0", "n1"]),
        ("run.finished", "", ["n0", "n1"]),
    ]


async def test_a_last_step_that_the_store_refuses_ends_nothing(tmp_path: Path) -> None:
    """Somebody else has recorded another result in its place."""
    events: list[str] = []
    async with App(str(tmp_path / "s.db")) as app:

        async def late(n: int) -> int:
            log = app.engine.live["r"].log
            await log.append(Entry("n0", "call", "n0", "another result", "d"))
            return n

        app.toolbox.register(late)
        with pytest.raises(JournalConflict):
            await app.run(small("late"), run_id="r", on_event=lambda event: events.append(event.kind))
        row = app.store.get_run("r")
        assert row is not None
        assert row.status == "running"
        assert "node.finished" not in events


async def test_a_store_that_cannot_commit_both_together_gets_the_step_first(tmp_path: Path) -> None:
    order: list[str] = []

    class Log(MemoryLog):
        def append(self, entry: Entry) -> asyncio.Future[None]:
            committed = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(0.01, self._commit, entry, committed)
            return committed

        def _commit(self, entry: Entry, committed: asyncio.Future[None]) -> None:
            super().append(entry)
            order.append(entry.path)
            committed.set_result(None)

        async def finish(self, *args: Any, **more: Any) -> str:
            order.append("ending")
            return await super().finish(*args, **more)

    class Slow(MemoryStore):
        @property
        def log_class(self) -> type[MemoryLog]:
            return Log

    async with App(Slow(durable=True), tools=[at_once]) as app:
        await app.run(small("at_once", "at_once"))
    assert order == ["n0", "n1", "ending"]
