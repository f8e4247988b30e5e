"""Progress, chunks and events of inner flows are events of the run around them; `app.stream` iterates over them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from patience import until
from ropewalk import App, Event, InvalidFlow, StreamEvent, Tool, ToolBackend, flow, tool
from ropewalk.agents import complete_with_tools
from ropewalk.agents.scripted import ScriptedModel
from ropewalk.events import bounded
from ropewalk.tools.tool import ProgressEvent


@tool
async def parts(n: int) -> AsyncIterator[Any]:
    """Give parts, and say how far it is."""
    for i in range(n):
        yield StreamEvent("progress", data={"progress": i + 1, "total": n, "message": "part"})
        yield f"part{i}"


@tool
async def big(size: int) -> str:
    """Give a long text."""
    return "x" * size


def chain(tool_id: str, name: str = "c", node: str = "g", **params: Any) -> dict[str, Any]:
    return {"kind": "chain", "name": name, "nodes": [{"id": node, "type": "tool", "tool": tool_id, "params": params}]}


def python_flow() -> Any:
    with flow("outer") as f:
        f.result(f.call("middle"))
    return f.done()


OUTER: dict[str, Any] = {
    "chain": chain("middle", "outer", "sub"),
    "composition": {"kind": "composition", "name": "outer", "nodes": [{"id": "sub", "type": "tool", "tool": "middle"}]},
    "composite": {
        "kind": "composite", "name": "outer", "description": "d", "inputSchema": {"type": "object"},
        "steps": [{"name": "sub", "tool": "middle"}],
    },
    "experience": {
        "kind": "experience", "name": "outer", "version": "0.1.0", "state": {"schema": {"x": {"type": "object"}}},
        "graph": {"nodes": [{"id": "sub", "kind": "call", "tool": "middle", "writes": ["x"]}], "edges": []},
    },
    "flow": python_flow(),
}  # fmt: skip


def inner_tools(app: App) -> None:
    app.toolbox.register(app.as_tool(chain("parts", "inner", n=2)))
    app.toolbox.register(app.as_tool(chain("inner", "middle", "mid")))


async def test_chunks_and_progress_of_a_generator_are_events_of_its_node() -> None:
    events: list[Event] = []
    async with App("memory", tools=[parts]) as app:
        done = await app.run(chain("parts", n=2), on_event=events.append)
    assert done.results == {"g": ["part0", "part1"]}
    told = [(event.kind, event.path, event.data) for event in events if event.kind in ("node.progress", "node.chunk")]
    assert told == [
        ("node.progress", "g", {"progress": 1.0, "total": 2.0, "message": "part"}),
        ("node.chunk", "g", {"chunk": "part0"}),
        ("node.progress", "g", {"progress": 2.0, "total": 2.0, "message": "part"}),
        ("node.chunk", "g", {"chunk": "part1"}),
    ]


@pytest.mark.parametrize("store", ["memory", "file"])
@pytest.mark.parametrize("kind", OUTER)
async def test_events_of_inner_flows_are_events_of_the_outer_run(kind: str, store: str, tmp_path: Path) -> None:
    """Two flows deep; whoever watches every run hears of each event once, from the run that it happened in."""
    events: list[Event] = []
    everything: list[Event] = []
    async with App("memory" if store == "memory" else tmp_path / "s.db", tools=[parts]) as app:
        inner_tools(app)
        app.watch(everything.append)
        done = await app.run(OUTER[kind], on_event=events.append)
        assert done.success
    paths = [
        (event.kind, event.path) for event in events if event.kind.startswith("node.") and event.kind != "node.ready"
    ]
    sub = paths[0][1].partition("/")[0]
    want = [("node.started", ""), ("node.started", "/mid"), ("node.started", "/mid/g")]
    want += [("node.progress", "/mid/g"), ("node.chunk", "/mid/g")] * 2
    want += [("node.finished", "/mid/g"), ("node.finished", "/mid"), ("node.finished", "")]
    assert [(kind, path.removeprefix(sub)) for kind, path in paths if path.startswith(sub)] == want
    assert {event.run_id for event in events} == {done.run_id}
    assert [event.kind for event in events if event.kind.startswith("run.")] == ["run.started", "run.finished"]
    chunks = [event for event in everything if event.kind == "node.chunk"]
    assert [event.path for event in chunks] == ["g", "g"]
    assert chunks[0].run_id != done.run_id


async def test_the_text_of_a_model_and_the_calls_of_an_agent_are_events() -> None:
    """An agent is a tool of a chain, and calls a flow itself."""
    model = ScriptedModel([{"type": "tool_use", "id": "1", "name": "inner", "input": {}}], "all done")
    events: list[Event] = []
    async with App("memory", tools=[parts], model=model) as app:
        inner_tools(app)
        app.toolbox.register(app.as_tool({"kind": "agent", "name": "ask", "prompt": "go", "tools": ["inner"]}))
        assert (await app.run(chain("ask", node="sub"), on_event=events.append)).success
    chunks = [(event.path, event.data["chunk"]) for event in events if event.kind == "node.chunk"]  # type: ignore[index, call-overload]
    assert [chunk for _, chunk in chunks] == ["part0", "part1", {"type": "text", "text": "all done"}]
    assert all(path.startswith("sub/") for path, _ in chunks)
    assert chunks[0][0].endswith("/g")


async def test_a_conversation_hears_only_of_the_tools_that_its_model_asked_for() -> None:
    model = ScriptedModel([{"type": "tool_use", "id": "1", "name": "middle", "input": {}}], "done")
    told: list[Any] = []
    async with App("memory", tools=[parts], model=model) as app:
        inner_tools(app)
        await complete_with_tools("go", tools=["middle"], app=app, on_event=told.append)
    assert [event["tool"] for event in told if event["type"] == "tool_started"] == ["middle"]


async def test_a_run_that_only_an_app_watches_does_not_repeat_inner_events() -> None:
    events: list[Event] = []
    async with App("memory", tools=[parts]) as app:
        inner_tools(app)
        app.watch(events.append)
        done = await app.run(chain("middle", "outer", "sub"))
    own = [event.path for event in events if event.run_id == done.run_id and event.path]
    assert own == ["sub", "sub"]


async def test_a_flow_called_as_a_tool_reports_its_nodes_as_progress() -> None:
    told: list[ProgressEvent] = []
    async with App("memory", tools=[parts]) as app:
        inner_tools(app)
        await app.call_tool("middle", {}, on_progress=told.append)
    numbers = [event.progress for event in told]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == told[-1].total == 2
    assert "mid/g: part (1 of 2)" in [event.message for event in told]
    assert "mid/g: part1" in [event.message for event in told]


async def test_no_event_is_made_where_nobody_listens() -> None:
    heard: list[Any] = []

    class Provider:
        async def call_tool(self, provider: str, name: str, args: dict[str, Any], *, on_progress: Any = None) -> str:
            heard.append(on_progress)
            if on_progress is not None:
                on_progress(ProgressEvent(1, 2, "half"))
            return "done"

    events: list[Event] = []
    async with App("memory") as app:
        app.toolbox.add_provider("p", Provider())
        backend = ToolBackend.provider("p", "t")
        app.toolbox.register(Tool("t", "d", {"type": "object"}, namespace="p", backend=backend))
        assert (await app.run(chain("p:t"))).success
        assert (await app.run(chain("p:t"), on_event=events.append)).success
    assert heard[0] is None
    assert heard[1] is not None
    [progress] = [event for event in events if event.kind == "node.progress"]
    assert progress.data == {"progress": 1, "total": 2, "message": "half"}
    heard[1](ProgressEvent(2, 2, "too late"))
    assert events[-1].kind == "run.finished"


@pytest.mark.parametrize(("size", "cut"), [(9_998, False), (9_999, True), (300_000, True)])
async def test_the_output_in_an_event_is_bounded(size: int, cut: bool) -> None:
    events: list[Event] = []
    async with App("memory", tools=[big]) as app:
        await app.run(chain("big", size=size), on_event=events.append)
    [ended] = [event for event in events if event.kind == "node.finished"]
    data: Any = ended.data
    if cut:
        assert data["output"] == '"' + 999 * "x"
        assert data["truncated"] is True
    else:
        assert data["output"] == size * "x"
        assert "truncated" not in data


async def test_a_recorded_run_shows_the_same_outputs(tmp_path: Path) -> None:
    live: list[Event] = []
    async with App(tmp_path / "s.db", tools=[big]) as app:
        await app.run(chain("big", size=20_000), run_id="r", on_event=live.append)
        recorded = [event async for event in app.runs.watch("r")]
    outputs = [
        {key: value for key, value in event.data.items() if key != "ms"}  # type: ignore[union-attr]
        for event in (*live, *recorded)
        if event.kind == "node.finished"
    ]
    assert len(outputs) == 2
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize(
    "value",
    [None, True, 1.5, 'é\n"', [], {}, [[]], {"a": [1, {"b": "c"}], "d": {}}, list(range(5_000)), {"k" * 11_000: 1}],
)
def test_a_preview_is_the_beginning_of_the_json(value: Any) -> None:
    import orjson

    text = orjson.dumps(value).decode()
    shown = bounded("output", value)
    assert shown == ({"output": value} if len(text) <= 10_000 else {"output": text[:1_000], "truncated": True})


async def test_stream_gives_the_events_and_then_the_outcome() -> None:
    heard: list[Event] = []
    async with App("memory", tools=[parts]) as app:
        stream = app.stream(chain("parts", n=1), on_event=heard.append, run_id="mine")
        assert stream.outcome is None
        events = [event async for event in stream]
    assert [event.kind for event in events] == [
        "run.started", "node.started", "node.progress", "node.chunk", "node.finished", "run.finished", "run.outcome",
    ]  # fmt: skip
    assert stream.outcome is not None
    assert stream.outcome.results == {"g": ["part0"]}
    assert events[-1].data == stream.outcome.to_answer()
    assert events[:-1] == heard
    assert {event.run_id for event in events} == {"mine"} == {stream.run_id}


async def test_stream_raises_what_run_raises() -> None:
    async with App("memory", tools=[parts]) as app:
        with pytest.raises(InvalidFlow):
            async for _ in app.stream(chain("nothing")):
                pass
        with pytest.raises(Exception, match="on_event"):
            app.stream(chain("parts", n=1), on_event=3)


@tool
async def slow() -> str:
    """Never end."""
    await asyncio.Event().wait()
    return "done"


def status(app: App) -> str | None:
    row = app.store.get_run("r")
    return None if row is None else row.status


@pytest.mark.parametrize("how", ["aclose", "with", "break"])
async def test_closing_a_stream_stops_the_run(how: str, tmp_path: Path) -> None:
    async with App(tmp_path / "s.db", tools=[slow]) as app:
        if how == "break":
            async for event in app.stream(chain("slow"), run_id="r"):
                if event.kind == "node.started":
                    break
            await until(lambda: status(app) not in (None, "running"))
        elif how == "with":
            async with app.stream(chain("slow"), run_id="r") as stream:
                async for event in stream:
                    if event.kind == "node.started":
                        break
        else:
            stream = app.stream(chain("slow"), run_id="r")
            while (await anext(stream)).kind != "node.started":
                pass
            await stream.aclose()
        assert status(app) == "stopped"


async def test_a_cancelled_reader_leaves_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def read(app: App) -> None:
        async for event in app.stream(chain("slow"), run_id="r"):
            if event.kind == "node.started":
                begun.set()

    async with App(tmp_path / "s.db", tools=[slow]) as app:
        task = asyncio.create_task(read(app))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert status(app) == "running"
        assert [row.id for row in app.store.orphans()] == ["r"]
