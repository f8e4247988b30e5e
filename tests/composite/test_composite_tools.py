"""Composite tools as tools: shape, context, concurrency, in a toolbox, in durable runs, in each other."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fork_server
from ropewalk import App, ComposableToolBuilder, InvalidFlow, Tool, Toolbox, ToolError, ToolExecutionResult
from ropewalk.api.composite_builder import ComposableTool
from ropewalk.api.run_chain import Runner
from ropewalk.errors import InvalidTool, NoExecutor, StoreError
from ropewalk.journal.memory import MemoryStore
from ropewalk.testing import DyingStore

OBJECT = {"type": "object"}
SPEC = {
    "mode": "compose",
    "steps": [
        {"name": "search", "tool": "web_search", "inputMapping": {"query": "$input.topic"}},
        {"name": "sum", "tool": "summarise", "inputMapping": {"text": "$prev.snippet"}},
    ],
}


class World:
    """`execute_tool` of a builder: what was called with which context; `gives` are functions by tool."""

    def __init__(self, **gives: Any) -> None:
        self.gives = {
            "web_search": lambda query: {"snippet": f"about {query}"},
            "summarise": lambda text: text.upper(),
            **gives,
        }
        self.calls: list[str] = []
        self.contexts: list[Any] = []
        self.cancelled: list[str] = []
        self.reached = asyncio.Event()

    async def __call__(self, name: str, args: dict[str, Any], context: Any) -> ToolExecutionResult:
        self.calls.append(name)
        self.contexts.append(context)
        give = self.gives[name]
        if give == "hangs":
            self.reached.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.append(name)
                raise
        value = give(**args)
        if asyncio.iscoroutine(value):
            value = await value
        return value if isinstance(value, ToolExecutionResult) else ToolExecutionResult(True, value)


def research(world: Any, **more: Any) -> ComposableTool:
    return ComposableToolBuilder(world, **more).build("research", "Search, then summarise.", OBJECT, SPEC)


def run(body: Any) -> Any:
    return asyncio.run(body)


def test_it_is_a_tool_of_the_package() -> None:
    """COMPOSITE-BUILD-1 COMPOSITE-BUILD-4"""
    tool = research(World())
    assert isinstance(tool, Tool)
    assert (tool.id, tool.name, tool.display_name) == ("research", "research", "research")
    assert tool.aliases == ("composable:research",)
    assert (tool.description, tool.input_schema, tool.has_side_effects) == ("Search, then summarise.", OBJECT, True)
    assert run(tool.execute({"topic": "rope"}, None)) == ToolExecutionResult(
        True,
        "ABOUT ROPE",
        None,
        {
            "steps": [
                {"name": "search", "tool": "web_search", "status": "completed", "output": {"snippet": "about rope"}},
                {"name": "sum", "tool": "summarise", "status": "completed", "output": "ABOUT ROPE"},
            ]
        },
    )


def test_the_outer_context_goes_to_every_call_as_it_is() -> None:
    """COMPOSITE-BUILD-2"""
    world, context = World(), {"user": object()}
    run(research(world).execute({"topic": "x"}, context))
    assert [one is context for one in world.contexts] == [True, True]
    assert run(research(world).execute({"topic": "x"})).success
    assert world.contexts[2:] == [None, None]


def test_contexts_of_executions_at_the_same_time_are_kept_apart() -> None:
    """COMPOSITE-BUILD-2"""
    seen: list[tuple[str, int]] = []

    async def execute(name: str, args: dict[str, Any], context: int) -> ToolExecutionResult:
        await asyncio.sleep(0)
        seen.append((args.get("query") or args.get("text"), context))
        return ToolExecutionResult(True, {"snippet": args.get("query")})

    async def body() -> None:
        tool = research(execute)
        await asyncio.gather(*(tool.execute({"topic": str(i)}, i) for i in range(50)))

    run(body())
    assert sorted(seen) == sorted((str(i), i) for i in range(50) for _ in range(2))


def test_a_plain_function_may_execute_too() -> None:
    """COMPOSITE-BUILD-1"""

    def execute(name: str, args: dict[str, Any], context: Any) -> ToolExecutionResult:
        return ToolExecutionResult(True, {"snippet": [name, context]})

    assert run(research(execute).execute({}, "c")).output == {"snippet": ["summarise", "c"]}


@pytest.mark.parametrize("gives", [None, "text", {"output": 1}])
def test_an_executor_that_gives_no_result_fails_the_step(gives: Any) -> None:
    """COMPOSITE-FAIL-2"""

    async def execute(name: str, args: dict[str, Any], context: Any) -> Any:
        return gives

    result = run(research(execute).execute({}))
    assert result.error.startswith('Step "search" (tool: "web_search") failed: execute_tool returned ')


def test_an_output_that_is_no_json_fails_the_step() -> None:
    """COMPOSITE-FAIL-1"""
    result = run(research(World(web_search=lambda query: 1j)).execute({"topic": "x"}))
    assert result.error == 'Step "search" (tool: "web_search") failed: result: complex is not JSON'


@pytest.mark.parametrize("args", [None, {}, [("topic", "x")], 5, {"topic": object()}])
def test_arguments_that_are_none_are_an_answer_too(args: Any) -> None:
    """COMPOSITE-INPUT-1"""
    schema = {"type": "object", "properties": {"topic": {"type": "string"}}, "required": ["topic"]}
    world = World()
    result = run(ComposableToolBuilder(world).build("r", "", schema, SPEC).execute(args))
    if args == [("topic", "x")]:
        assert result.success
    else:
        assert (result.success, world.calls) == (False, [])
        assert result.error.startswith("Invalid input of r: ")


def test_validate_tells_one_message_per_failing_check() -> None:
    """COMPOSITE-VALID-1 COMPOSITE-VALID-2 COMPOSITE-VALID-3"""
    builder = ComposableToolBuilder(World())
    for spec in (None, 5, {}, {"steps": []}, {"steps": {}}, {"steps": "abc"}):
        found = builder.validate(spec)
        assert (found.valid, found.errors) == (False, ["ComposableToolSpec.steps must be a non-empty array."])
    found = builder.validate({"steps": [{"tool": ""}, {"tool": "ok"}, {"tool": " \t"}, {"name": "x"}, 3]})
    assert found.errors == [f'Step at index {i} has an empty or missing "tool" name.' for i in (0, 2, 3, 4)]
    assert (builder.validate(SPEC).valid, builder.validate(SPEC).errors) == (True, None)
    with pytest.raises(InvalidFlow, match="must be a non-empty array"):
        builder.build("r", "", OBJECT, {"mode": "compose", "steps": []})


def test_what_cannot_be_a_tool_is_refused() -> None:
    """COMPOSITE-BUILD-1"""
    builder = ComposableToolBuilder(World())
    for name, schema in (("has space", OBJECT), ("r", {"type": "string"})):
        with pytest.raises(InvalidTool):
            builder.build(name, "", schema, SPEC)
    with pytest.raises(InvalidFlow, match="unknown value 'parallel'"):
        builder.build("r", "", OBJECT, {**SPEC, "mode": "parallel"})
    with pytest.raises(TypeError, match="execute_tool is an async function"):
        ComposableToolBuilder("web_search")  # type: ignore[arg-type]


def test_its_output_schema_is_that_of_the_last_tool_where_known() -> None:
    """COMPOSITE-TOOL-4"""
    text = {"type": "string"}
    known = {"summarise": Tool("summarise", "", OBJECT, text)}
    builder = ComposableToolBuilder(World(), tools=known.get)
    inner = builder.build("inner", "", OBJECT, SPEC)
    assert inner.output_schema == text
    assert builder.build("outer", "", OBJECT, {"steps": [{"tool": "composable:inner"}]}).output_schema == text
    maybe = {"steps": [*SPEC["steps"][:1], {**SPEC["steps"][1], "condition": "$prev.ok"}]}  # type: ignore[index,dict-item]
    assert builder.build("maybe", "", OBJECT, maybe).output_schema is None
    assert research(World()).output_schema is None


def test_composites_contain_composites() -> None:
    """COMPOSITE-TOOL-5"""
    world = World()
    builder = ComposableToolBuilder(world)
    inner = builder.build("inner", "", OBJECT, SPEC)
    world.gives["composable:inner"] = lambda topic: inner.execute({"topic": topic}, "inner's")
    outer = builder.build(
        "outer",
        "",
        OBJECT,
        {"steps": [{"name": "a", "tool": "composable:inner", "inputMapping": {"topic": "$input.t"}}]},
    )
    assert run(outer.execute({"t": "rope"}, "outer's")).output == "ABOUT ROPE"
    assert world.contexts == ["outer's", "inner's", "inner's"]
    world.gives["summarise"] = lambda text: ToolExecutionResult(False, error="tired")
    assert run(outer.execute({"t": "rope"})).error == (
        'Step "a" (tool: "composable:inner") failed: Step "sum" (tool: "summarise") failed: tired'
    )


def test_a_composite_that_reaches_itself_is_refused_by_name() -> None:
    """COMPOSITE-TOOL-5"""
    builder = ComposableToolBuilder(World())
    with pytest.raises(InvalidFlow, match=r"steps\[0\].tool: a calls itself: a -> a"):
        builder.build("a", "", OBJECT, {"steps": [{"tool": "composable:a"}]})
    kept = [builder.build(x, "", OBJECT, {"steps": [{"tool": "free"}, {"tool": y}]}) for x, y in ("ab", "bc")]
    with pytest.raises(InvalidFlow, match=r"steps\[0\].tool: c calls itself: c -> a -> b -> c"):
        builder.build("c", "", OBJECT, {"steps": [{"tool": "composable:a"}]})
    assert len(kept) == 2


def test_a_circle_that_is_seen_at_the_call_only_is_an_answer() -> None:
    """COMPOSITE-TOOL-5"""
    world = World()
    one = ComposableToolBuilder(world).build("one", "", OBJECT, {"steps": [{"name": "s", "tool": "two"}]})
    two = ComposableToolBuilder(world).build("two", "", OBJECT, {"steps": [{"name": "s", "tool": "uno"}]})
    world.gives |= {"two": lambda: two.execute({}), "uno": lambda: one.execute({})}
    result = run(one.execute({}))
    assert "one calls itself: one -> two -> one" in result.error


@pytest.mark.process
def test_thousands_of_executions_leave_nothing_behind() -> None:
    """COMPOSITE-TOOL-2"""

    async def body() -> int:
        tool = research(World())
        await asyncio.gather(*(tool.execute({"topic": "x"}) for _ in range(500)))
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(8):
            await asyncio.gather(*(tool.execute({"topic": "x"}) for _ in range(500)))
        gc.collect()
        return len(gc.get_objects()) - before

    # What the world remembers of 8,000 calls is text and None, which the collector does not count.
    assert run(body()) < 1000


# --- in a toolbox and in runs -----------------------------------------------------------------


def chain(*tools: str) -> dict[str, Any]:
    nodes = [{"id": f"n{i}", "type": "tool", "tool": tool, "params": "$input"} for i, tool in enumerate(tools)]
    return {"kind": "chain", "name": "c", "nodes": nodes}


def test_it_is_called_by_runners_and_in_chains() -> None:
    """COMPOSITE-TOOL-1"""

    async def body() -> None:
        world = World()
        toolbox = Toolbox([research(world)])
        for name in ("research", "composable:research"):
            assert (await Runner(toolbox).run(name, {"topic": "a"})).structured == "ABOUT A"
        assert toolbox.ids() == ["research"]
        async with App("memory", toolbox=toolbox) as app:
            result = await app.run(chain("composable:research"), {"topic": "b"}, run_id="r")
            assert result.results == {"n0": "ABOUT B"}
            assert {row.id: row.kind for row in app.runs.list(all=True)} == {"r": "chain", "r/n0": "composite"}
            world.gives["summarise"] = lambda text: ToolExecutionResult(False, error="tired")
            result = await app.run(chain("composable:research"), {"topic": "b"})
            assert [e["message"] for e in result.errors] == ['Step "sum" (tool: "summarise") failed: tired']
            with pytest.raises(ToolError, match="tired"):
                await app.call_tool("composable:research", {"topic": "c"})

    run(body())


@pytest.mark.parametrize("at", range(1, 6))
def test_in_a_durable_run_no_finished_step_is_called_again(at: int) -> None:
    """COMPOSITE-TOOL-2"""

    async def body() -> None:
        dying, first, second = DyingStore(MemoryStore(durable=True), at), World(), World()
        async with App(dying, tools=[research(first)]) as app:
            with contextlib.suppress(StoreError):
                await app.run(chain("composable:research"), {"topic": "x"}, run_id="r")
        recorded = [entry.node for entry in dying.appended]
        async with App(await dying.survivor(), tools=[research(second)]) as app:
            assert (await app.resume("r")).results == {"n0": "ABOUT X"}
        finished = [name for name, node in (("web_search", "search"), ("summarise", "sum")) if node in recorded]
        assert not set(finished) & set(second.calls)
        assert len(first.calls + second.calls) <= 3

    run(body())


def test_a_run_of_its_own_needs_its_function_to_go_on() -> None:
    """COMPOSITE-TOOL-2"""

    async def body() -> None:
        store, world = MemoryStore(durable=True), World(summarise="hangs")
        app = App(store, tools=[research(world)])
        task = asyncio.ensure_future(app.call_tool("composable:research", {"topic": "x"}))
        await world.reached.wait()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        [row] = app.runs.list()
        with pytest.raises(NoExecutor):
            await app.resume(row.id)

    run(body())


@pytest.mark.parametrize("store", ["alone", "memory", "durable"])
def test_it_is_cancelled_with_whoever_calls_it(store: str) -> None:
    """COMPOSITE-TOOL-3"""

    async def body() -> None:
        world = World(summarise="hangs")
        tool = research(world)
        app = App(MemoryStore(durable=store == "durable"), tools=[tool])
        called = (
            tool.execute({"topic": "x"})
            if store == "alone"
            else app.run(chain("composable:research"), {"topic": "x"}, run_id="r")
        )
        task = asyncio.ensure_future(called)
        await world.reached.wait()
        if store == "alone":
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            assert app.runs.stop("r")
            assert (await task).status == "stopped"
            assert {row.status for row in app.runs.list(all=True)} == {"stopped"}
        assert world.cancelled == ["summarise"]

    run(body())


KILLED = """
import asyncio, os, sys
from ropewalk import App, ComposableToolBuilder, ToolExecutionResult

async def execute(name, args, context):
    os.write(1, f"{name}\\n".encode())
    if name == "b" and sys.argv[2] == "hang":
        await asyncio.Event().wait()
    return ToolExecutionResult(True, {"from": name})

spec = {"steps": [{"name": n, "tool": n, "inputMapping": {"x": "$prev"}} for n in "abc"]}
tool = ComposableToolBuilder(execute).build("abc", "", {"type": "object"}, spec)
chain = {"kind": "chain", "name": "c", "nodes": [{"id": "n", "type": "tool", "tool": "composable:abc"}]}

async def main():
    async with App(sys.argv[1], tools=[tool]) as app:
        result = await (app.run(chain, run_id="r") if sys.argv[2] == "hang" else app.resume("r"))
        os.write(1, f"{result.status} {result.results}\\n".encode())

asyncio.run(main())
"""


def test_after_kill_9_the_same_step_is_called_and_none_before_it(tmp_path: Path) -> None:
    """COMPOSITE-TOOL-2 DUR-1"""
    command = [sys.executable, "-c", KILLED, str(tmp_path / "s.db")]
    with fork_server.Popen([*command, "hang"], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert [child.stdout.readline(), child.stdout.readline()] == ["a\n", "b\n"]
        os.kill(child.pid, signal.SIGKILL)
    done = fork_server.run([*command, "resume"], capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines() == ["b", "c", "completed {'n': {'from': 'c'}}"], done.stderr
