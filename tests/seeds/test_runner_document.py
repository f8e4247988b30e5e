"""The package document of the Runner: its own examples and sentences as tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ropewalk import App, ChainStep, ProgressEvent, Runner, StreamEvent, StreamEventKind, Tool, ToolBackend, Toolbox
from ropewalk import tool as as_tool
from ropewalk.doors.errors import error_message
from ropewalk.doors.remedies import Door
from ropewalk.errors import (
    ExecutionFailed,
    InvalidToolId,
    NoBackends,
    OutputValidationFailed,
    StreamNotSupported,
    ToolError,
    ToolNotFound,
    ValidationFailed,
    wrap_error,
)

OBJECT = {"type": "object"}


class SimpleLocalRegistry:
    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        return self.handlers.get(name)

    def register(self, name: str, handler: Any) -> None:
        self.handlers[name] = handler


def runner_of(names: list[str], handlers: dict[str, Any]) -> Runner:
    """Return a Runner as the examples make it: resolvers, a registry, and no validation."""
    registry = SimpleLocalRegistry()
    for name, handler in handlers.items():
        registry.register(name, handler)

    def resolve(tool_id: str) -> Tool:
        if tool_id in names:
            return Tool(tool_id, "", OBJECT)
        raise ToolNotFound(f"tool not found: {tool_id}")

    def backends(tool_id: str) -> list[ToolBackend]:
        return [ToolBackend.local(f"{tool_id}-handler")]

    return Runner(
        tool_resolver=resolve, backends_resolver=backends, local=registry, validate_input=False, validate_output=False
    )


async def test_example_basic_run() -> None:
    def greeter(args: dict[str, Any]) -> Any:
        return {"greeting": f"Hello, {args.get('name') or 'World'}!"}

    runner = runner_of(["greet"], {"greet-handler": greeter})
    result = await runner.run("greet", {"name": "Claude"})
    assert result.structured["greeting"] == "Hello, Claude!"  # type: ignore[index, call-overload]
    assert (await runner.run("greet")).structured == {"greeting": "Hello, World!"}
    with pytest.raises(ToolNotFound, match="run: resolve absent: tool not found: absent"):
        await runner.run("absent")


async def test_example_chain_execution() -> None:
    async def transform(args: dict[str, Any]) -> Any:
        return {"data": [f"processed-{item}" for item in args["previous"]["data"]]}

    def store(args: dict[str, Any]) -> Any:
        return {"stored": len(args["previous"]["data"]), "status": "success"}

    handlers = {
        "fetch-handler": lambda args: {"data": ["item1", "item2", "item3"]},
        "transform-handler": transform,
        "store-handler": store,
    }
    steps = [ChainStep("fetch"), ChainStep("transform", use_previous=True), ChainStep("store", use_previous=True)]
    runner = runner_of(["fetch", "transform", "store"], handlers)
    final, done = await runner.run_chain(steps)
    assert final.structured == {"stored": 3, "status": "success"}
    assert [step.tool_id for step in done] == ["fetch", "transform", "store"]
    seen: list[ProgressEvent] = []
    final, _ = await runner.run_chain_with_progress(steps, seen.append)
    assert final.structured == {"stored": 3, "status": "success"}
    assert [event.to_dict() for event in seen][::3] == [
        {"progress": 0, "total": 3, "message": "started"},
        {"progress": 3, "total": 3, "message": "step_completed"},
    ]
    assert ProgressEvent(2, 0).to_dict() == {"progress": 2}  # `total,omitempty`


LOCAL = ToolBackend.local("h")
TYPED = Tool("t", "d", {"type": "object", "required": ["a"]}, {"type": "string"})


@pytest.mark.parametrize(
    ("tool_id", "args", "kind", "text"),
    [
        ("t", {}, ValidationFailed, 'run: validate_input t [local]: args: "a" is a required property'),
        ("t", {"a": 1}, OutputValidationFailed, "run: validate_output t [local]: result: complex is not JSON"),
        ("t", {"a": 2}, ExecutionFailed, "run: execute t [local]: no luck"),
        ("absent", {}, ToolNotFound, "run: resolve absent: tool not found"),
        ("", {}, InvalidToolId, "run: validate_tool_id : empty tool id"),
    ],
)
async def test_error_returns_a_formatted_message_including_context(
    tool_id: str, args: Any, kind: type[ToolError], text: str
) -> None:
    def handle(args: dict[str, Any]) -> Any:
        if args["a"] == 2:
            raise ExecutionFailed("no luck")
        return 1j

    runner = Runner(
        tool_resolver=lambda name: TYPED if name == "t" else None,
        backends_resolver=lambda name: [LOCAL],
        local={"h": handle},
    )
    with pytest.raises(kind) as caught:
        await runner.run(tool_id, args)
    assert str(caught.value) == text
    assert error_message(caught.value, Door.CLI) == f"tool {tool_id}: {caught.value.reason}"
    assert error_message(caught.value, Door.MCP) == f"tool {tool_id}: {caught.value.reason}"


@pytest.mark.parametrize(
    "kind",
    [
        *(ToolError, ToolNotFound, InvalidToolId, NoBackends, ValidationFailed, ExecutionFailed),
        *(OutputValidationFailed, StreamNotSupported),
    ],
)
def test_sentinel_errors_are_raised_with_a_message_alone(kind: type[ToolError]) -> None:
    error = kind("no such tool: x")
    assert str(error) == error.message == error.reason == "no such tool: x"
    wrapped = wrap_error("ns:t", "resolve", error, backend=LOCAL)
    assert str(wrapped) == "run: resolve ns:t [local]: no such tool: x"
    assert wrapped is not None
    assert wrapped.matches(kind)


def test_wrap_error_returns_nil_if_err_is_nil() -> None:
    assert wrap_error("ns:t", "execute", None) is None


async def test_local_handlers_add_to_those_of_the_index_and_hide_none() -> None:
    @as_tool
    def greet() -> str:
        return "hi"

    toolbox = Toolbox([greet])
    toolbox.register(Tool("late", "", OBJECT), backend=ToolBackend.local("elsewhere"))
    runner = Runner(toolbox, local={"elsewhere": lambda: "there"})
    assert [(await runner.run(name)).structured for name in ("greet", "late")] == ["hi", "there"]
    assert (await Runner(toolbox, local={"greet": lambda: "mine"}).run("greet")).structured == "mine"


async def test_a_tool_with_an_argument_args_gets_it_by_name() -> None:
    async with App("memory", tools=[_counted]) as app:
        assert await app.call_tool("_counted", {"args": ["a", "b"]}) == 2


def _counted(args: list[str]) -> int:
    return len(args)


def test_stream_event_kinds_are_their_texts() -> None:
    kinds = ["progress", "chunk", "done", "error"]
    assert list(StreamEventKind) == kinds
    assert StreamEvent(StreamEventKind.CHUNK, "t", 1).to_dict() == {"kind": "chunk", "toolId": "t", "data": 1}


def test_the_index_updates_tags_and_lists_the_empty_namespace() -> None:
    toolbox = Toolbox([Tool("a", "", OBJECT, tags=["old"], handler=lambda: 1)])
    toolbox.register(Tool("b", "", OBJECT, namespace="n", handler=lambda: 1))
    toolbox.register(Tool("a", "", OBJECT, tags=["new"], handler=lambda: 1))
    assert toolbox.get("a").tags == ("new",)  # type: ignore[union-attr]
    assert toolbox.namespaces() == ["", "n"]


FLOW: dict[str, Any] = {"kind": "chain", "name": "c", "nodes": [{"id": "a", "type": "tool", "tool": "poem"}]}


@as_tool
async def poem() -> AsyncIterator[str]:
    """Stream two lines."""
    yield "line 0"
    yield "line 1"


async def test_a_flow_is_streamed_and_reports_progress_as_any_tool() -> None:
    async with App("memory", tools=[poem]) as app:
        app.toolbox.register(app.as_tool(FLOW))
        events = [event async for event in app.runner.run_stream("c")]
        seen: list[ProgressEvent] = []
        await app.runner.run_with_progress("c", {}, seen.append)
    assert [(event.kind, event.tool_id, event.data) for event in events] == [
        ("progress", "c", {"progress": 1, "total": 2, "message": "a: started"}),
        ("chunk", "c", "line 0"),
        ("chunk", "c", "line 1"),
        ("progress", "c", {"progress": 2, "total": 2, "message": "a: done"}),
        ("done", "c", {"a": ["line 0", "line 1"]}),
    ]
    assert [event.message for event in seen] == [
        *("started", "a: started", "a: line 0", "a: line 1", "a: done", "completed")
    ]


async def test_the_stream_of_a_flow_that_fails_ends_in_an_error_and_a_closed_one_ends_the_run() -> None:
    ended = asyncio.Event()

    @as_tool(name="poem")
    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    @as_tool(name="poem")
    async def broken() -> None:
        raise RuntimeError("no ink")

    async with App("memory", tools=[broken]) as app:
        app.toolbox.register(app.as_tool(FLOW))
        *_, last = [event async for event in app.runner.run_stream("c")]
    assert (last.kind, last.data) == ("error", {"message": "tool c: a: no ink"})
    async with App("memory", tools=[endless]) as app:
        app.toolbox.register(app.as_tool(FLOW))
        stream = app.runner.run_stream("c")
        assert (await anext(stream)).kind == "progress"
        await stream.aclose()
        assert ended.is_set()
