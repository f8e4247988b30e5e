"""A flow as a tool: a run of its own that is part of the one that calls it, through crashes, stops and retries."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from ropewalk.api.run_chain import Runner
from ropewalk.app.app import App
from ropewalk.errors import InvalidFlow, NotFound, PartOfRun, RopewalkError, StoreError, ToolError
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.protocol import Store
from ropewalk.journal.sqlite.store import SqliteStore
from ropewalk.testing import DyingStore, ScriptedTools, fails, hangs, held, in_turn
from ropewalk.tools.toolbox import Toolbox

Document = dict[str, Any]
STORES = ["memory", "durable", "sqlite"]


def made(kind: str, folder: Path) -> Store:
    return SqliteStore(folder / "s.db") if kind == "sqlite" else MemoryStore(durable=kind == "durable")


def step(id: str, tool: str | None = None, **more: Any) -> Document:
    return {"id": id, "type": "tool", "tool": tool or id, **more}


def chain(*nodes: Document, **more: Any) -> Document:
    return {"kind": "chain", "name": "c", "nodes": list(nodes), **more}


def files_with(text: bytes, folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir() if text in file.read_bytes()]


INNER = chain(step("one"), step("two", params={"x": "$output.one"}), name="inner", description="Two calls.")


def with_flow(store: Any, tools: ScriptedTools, inner: Document = INNER, **more: Any) -> App:
    """An app whose toolbox holds the tools and the flow `inner`."""
    app = App(store, tools=tools.tools(), **more)
    app.toolbox.register(app.as_tool(inner))
    return app


@pytest.mark.parametrize("kind", STORES)
async def test_any_definition_is_a_tool_whose_value_is_its_result(kind: str, tmp_path: Path) -> None:
    tools = ScriptedTools(one=1, two=lambda x: x + 1, last=lambda v: v)
    async with with_flow(made(kind, tmp_path), tools) as app:
        tool = app.toolbox.get("inner")
        assert tool is not None
        assert (tool.description, tool.input_schema) == ("Two calls.", {"type": "object"})
        result = await app.run(chain(step("a", "inner"), step("last", params={"v": "$prev"})), run_id="r")
        assert result.results == {"a": {"one": 1, "two": 2}, "last": {"one": 1, "two": 2}}
        assert [row.id for row in app.runs.list()] == ["r"]
        assert {row.id: row.parent for row in app.runs.list(all=True)} == {"r": None, "r/a": "r"}
        part = app.runs.get("r/a")
        assert part is not None
        assert [node["path"] for node in part["nodes"]] == ["one", "two"]


async def test_outside_a_run_it_is_a_run_like_any_other() -> None:
    tools = ScriptedTools(one=1, two=lambda x: x + 1)
    async with with_flow("memory", tools) as app:
        assert await app.call_tool("inner") == {"one": 1, "two": 2}
        assert await app.call_tool("inner") == {"one": 1, "two": 2}
        rows = app.runs.list()
        assert [(row.name, row.parent, row.status) for row in rows] == [("inner", None, "completed")] * 2
        assert await Runner(app.toolbox).run("inner", key="theirs")
        assert len(app.runs.list()) == 3


async def test_its_arguments_are_the_input_and_are_checked() -> None:
    inner = chain(
        step("one", params={"n": "$input.n"}),
        name="inner",
        inputSchema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    )
    tools = ScriptedTools(one=lambda n: n)
    async with with_flow("memory", tools, inner) as app:
        assert await app.call_tool("inner", {"n": 5}) == {"one": 5}
        with pytest.raises(ToolError, match="required"):
            await app.call_tool("inner", {})
        found = await app.validate(chain(step("a", "inner", params={"n": "text"})))
        assert "nodes[0].params.n" in [p.path for p in found.problems]


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("at", range(1, 9))
async def test_after_a_crash_at_any_write_nothing_finished_is_called_again(at: int, written: bool) -> None:
    outer = chain(step("before"), step("a", "inner"), step("after", params={"v": "$output.a.two"}))
    tools = ScriptedTools(before=0, one=1, two=lambda x: x + 1, after=lambda v: v)
    dying = DyingStore(MemoryStore(durable=True), at, written=written)
    async with with_flow(dying, tools) as app:
        with contextlib.suppress(StoreError):
            await app.run(outer, run_id="r")
        assert dying.dead == (at <= 7)
        recorded = {(entry.node) for entry in dying.appended}
    again = ScriptedTools(before=0, one=1, two=lambda x: x + 1, after=lambda v: v)
    async with with_flow(await dying.survivor(), again) as app:
        result = await app.resume("r")
        assert result.status == "completed"
        assert result.results == {"before": 0, "a": {"one": 1, "two": 2}, "after": 2}
        assert {call.tool for call in again.calls}.isdisjoint(recorded), recorded
        assert all(row.status == "completed" for row in app.runs.list(all=True))
        assert app.runs.interrupted() == set()


@pytest.mark.parametrize("kind", ["durable", "sqlite"])
async def test_interrupted_with_its_caller_it_goes_on_with_it(kind: str, tmp_path: Path) -> None:
    store = made(kind, tmp_path)
    app = with_flow(store, tools := ScriptedTools(one=1, two=hangs()))
    task = asyncio.ensure_future(app.run(chain(step("a", "inner")), run_id="r"))
    await tools.called("two")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert app.runs.interrupted() == {"r", "r/a"}
    with pytest.raises(PartOfRun, match="part of run r"):
        await app.resume("r/a")
    later = with_flow(store, more := ScriptedTools(one=1, two=2))
    assert (await later.resume("r")).results == {"a": {"one": 1, "two": 2}}
    assert [call.tool for call in more.calls] == ["two"]
    store.close()


@pytest.mark.parametrize("kind", STORES)
async def test_a_stopped_run_stops_its_parts(kind: str, tmp_path: Path) -> None:
    store = made(kind, tmp_path)
    app = with_flow(store, tools := ScriptedTools(one=1, two=hangs()))
    outer = chain(step("a", "inner"), step("b", "inner"), mode="parallel")
    task = asyncio.ensure_future(app.run(outer, run_id="r"))
    await tools.called("two", 2)
    assert app.runs.stop("r")
    assert (await task).status == "stopped"
    assert [call.status for call in tools.calls if call.tool == "two"] == ["cancelled"] * 2
    assert {row.id: row.status for row in app.runs.list(all=True)} == dict.fromkeys(("r", "r/a", "r/b"), "stopped")
    assert app.runs.interrupted() == set()
    store.close()


async def test_a_run_that_is_stopped_while_nobody_runs_it_stops_its_parts() -> None:
    store = MemoryStore(durable=True)
    app = with_flow(store, tools := ScriptedTools(one=1, two=hangs()))
    task = asyncio.ensure_future(app.run(chain(step("a", "inner")), run_id="r"))
    await tools.called("two")
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert app.runs.stop("r")
    assert {row.status for row in app.runs.list(all=True)} == {"stopped"}


async def test_a_part_that_is_given_up_ends_with_the_run() -> None:
    store = MemoryStore(durable=True)
    app = with_flow(store, tools := ScriptedTools(one=1, two=hangs(), other=held(7)))
    outer = chain(step("a", "inner", timeout=30, errorStrategy="skip"), step("other"))
    task = asyncio.ensure_future(app.run(outer, run_id="r"))
    await tools.called("other")
    tools.release("other")
    assert (await task).results == {"a": None, "other": 7}
    assert {row.id: row.status for row in app.runs.list(all=True)} == {"r": "completed", "r/a": "stopped"}


async def test_parts_that_an_earlier_process_left_end_with_the_run() -> None:
    store = MemoryStore(durable=True)
    app = with_flow(store, tools := ScriptedTools(one=1, two=hangs(), other=hangs()))
    outer = chain(step("a", "inner", timeout=30, errorStrategy="skip"), step("other"))
    task = asyncio.ensure_future(app.run(outer, run_id="r"))
    await tools.called("other")
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    later = with_flow(store, more := ScriptedTools(one=1, two=hangs(), other=7))
    assert (await later.resume("r")).results == {"a": None, "other": 7}
    assert [call.tool for call in more.calls] == ["other"]
    assert {row.id: row.status for row in app.runs.list(all=True)} == {"r": "completed", "r/a": "stopped"}


@pytest.mark.parametrize("kind", STORES)
async def test_each_try_is_a_run_of_its_own(kind: str, tmp_path: Path) -> None:
    tools = ScriptedTools(one=in_turn(1, 10), two=in_turn(fails("busy"), 2))
    async with with_flow(made(kind, tmp_path), tools) as app:
        outer = chain(step("a", "inner", errorStrategy="retry", retryDelay=1))
        assert (await app.run(outer, run_id="r")).results == {"a": {"one": 10, "two": 2}}
        rows = {row.id: row.status for row in app.runs.list(all=True)}
        assert rows == {"r": "completed", "r/a": "failed", "r/a@2": "completed"}


async def test_its_failure_names_the_node_and_the_reason() -> None:
    async with with_flow("memory", ScriptedTools(one=fails("broken"), two=2)) as app:
        result = await app.run(chain(step("a", "inner")))
        assert [(e["nodeId"], e["message"]) for e in result.errors] == [("a", "one: broken")]
        with pytest.raises(ToolError, match="one: broken"):
            await app.call_tool("inner")


async def test_what_went_on_past_a_failure_is_a_value() -> None:
    inner = {**INNER, "errorStrategy": "continue"}
    async with with_flow("memory", ScriptedTools(one=fails("broken"), two=2), inner) as app:
        assert await app.call_tool("inner") == {"one": None, "two": 2}


async def test_its_time_is_its_own_and_not_that_of_tools() -> None:
    pause = {"id": "p", "type": "delay", "delay": 120}
    async with with_flow("memory", ScriptedTools(one=1, two=hangs()), chain(pause, name="inner"), timeout=0.05) as app:
        assert (await app.run(chain(step("a", "inner")))).status == "completed"
    async with with_flow("memory", ScriptedTools(one=1, two=hangs()), {**INNER, "timeout": 30}) as app:
        result = await app.run(chain(step("a", "inner")))
        assert "longer than its timeout of 0.03 s" in result.errors[0]["message"]
        assert {row.status for row in app.runs.list(all=True)} == {"failed", "timeout"}


async def test_a_flow_that_reaches_itself_is_refused_by_name() -> None:
    async with App("memory", tools=ScriptedTools(one=1).tools()) as app:
        app.toolbox.register(app.as_tool(chain(step("one"), step("x", "b"), name="a")))
        app.toolbox.register(app.as_tool(chain(step("y", "a"), name="b")))
        found = await app.validate(chain(step("start", "one"), step("go", "a")))
        assert [str(p) for p in found.problems] == ["nodes[1].tool: a calls itself: a -> b -> a"]
        with pytest.raises(InvalidFlow, match="a -> b -> a"):
            await app.run(chain(step("go", "a")))
        with pytest.raises(ToolError, match="calls itself"):
            await app.call_tool("b")


async def test_a_flow_that_reaches_itself_on_a_way_nobody_sees_is_refused_at_the_call() -> None:
    toolbox = Toolbox()
    async with App("memory", toolbox=toolbox) as app:

        async def around() -> Any:
            return await app.call_tool("inner")

        toolbox.register(around)
        toolbox.register(app.as_tool(chain(step("one", "around"), name="inner")))
        with pytest.raises(ToolError, match="inner calls itself: inner -> inner"):
            await app.call_tool("inner")


async def test_a_secret_given_to_a_flow_is_written_nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TOKEN", "s3cr3t-value")
    inner = chain(step("one", params={"auth": "$input.token"}), name="inner")
    tools = ScriptedTools(one=lambda auth: {"sent": auth})
    file = tmp_path / "s.db"
    async with with_flow(str(file), tools, inner, secrets=["TOKEN"]) as app:
        result = await app.run(chain(step("a", "inner", params={"token": "$secret.TOKEN"})), run_id="r")
        assert tools.calls[0].args == {"auth": "s3cr3t-value"}
        assert result.results == {"a": {"one": {"sent": "$secret.TOKEN"}}}
        part = app.runs.get("r/a")
        assert part is not None
        assert part["input"] == {"token": "$secret.TOKEN"}
    assert not files_with(b"s3cr3t-value", tmp_path)


async def test_flows_in_flows_in_loops_have_their_own_runs() -> None:
    store = MemoryStore(durable=True)
    async with with_flow(store, ScriptedTools(one=1, two=lambda x: x), INNER) as app:
        app.toolbox.register(app.as_tool(chain(step("deep", "inner"), name="middle")))
        loop = {"id": "l", "type": "loop", "items": [1, 2], "nodes": [step("m", "middle")]}
        assert (await app.run(chain(loop), run_id="r")).status == "completed"
        rows = {row.id: row.parent for row in app.runs.list(all=True)}
        assert rows == {
            "r": None,
            **{f"r/l[{i}]/m": "r" for i in (0, 1)},
            **{f"r/l[{i}]/m/deep": f"r/l[{i}]/m" for i in (0, 1)},
        }


async def test_many_calls_at_once_leave_nothing_behind() -> None:
    async with with_flow("memory", ScriptedTools(one=1, two=lambda x: x)) as app:
        await asyncio.gather(*(app.call_tool("inner") for _ in range(300)))
        assert (app.engine.live, app.engine._parts) == ({}, {})


async def test_a_definition_that_cannot_be_a_tool_says_why() -> None:
    async with App("memory") as app:
        with pytest.raises(RopewalkError, match="must be the schema of an object"):
            app.as_tool(chain(step("one"), inputSchema={"type": "number"}))
        with pytest.raises(InvalidFlow):
            app.as_tool({"kind": "chain", "nodes": []})
        with pytest.raises(NotFound):
            await app.resume("nothing")


async def test_a_flow_whose_own_app_lacks_its_tools_is_refused_before_anything_runs() -> None:
    sub = App("memory").as_tool(INNER)  # its app has neither `one` nor `two`
    middle = App("memory", tools=[sub]).as_tool(chain(step("s", "inner"), name="middle"))
    tools = ScriptedTools(one=1, two=2, first=0)
    async with App("memory", tools=[*tools.tools(), sub, middle]) as app:
        for tool in ("inner", "middle"):  # also where it is a flow inside the flow
            outer = chain(step("first"), step("a", tool))
            [problem] = (await app.validate(outer)).problems
            assert str(problem) == (
                f"nodes[1].tool: {tool}: this tool is a flow, and the app that made it lacks the tools that the "
                "flow calls: one, two; "
                "make the tool with App(..., tools=[one, two]).as_tool(...)"
            )
            with pytest.raises(
                InvalidFlow, match=f"nodes.1..tool: {tool}: this tool is a flow, and the app that made it lacks"
            ):
                await app.run(outer)
        assert tools.calls == []


async def test_a_flow_of_another_app_that_has_its_tools_is_called() -> None:
    sub = App("memory", tools=ScriptedTools(one=1, two=lambda x: x + 1).tools()).as_tool(INNER)
    async with App("memory", tools=[sub]) as app:
        outer = chain(step("a", "inner"))
        assert (await app.validate(outer)).warnings == ()
        result = await app.run(outer, run_id="r")
        assert result.results == {"a": {"one": 1, "two": 2}}
        assert {row.id: row.parent for row in app.runs.list(all=True)} == {"r": None, "r/a": "r"}


async def test_tools_of_servers_that_are_not_connected_yet_may_be_any() -> None:
    servers = Toolbox(mcp={"far": {"command": "no-such-program"}})
    sub = App("memory", toolbox=servers).as_tool(chain(step("one", "far:one"), name="inner"))
    async with App("memory", tools=[sub]) as app:
        assert (await app.validate(chain(step("a", "inner")))).warnings == ()
