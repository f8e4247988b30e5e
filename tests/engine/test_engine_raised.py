"""What tools may raise: all of it is a failure of the tool, obeyed by strategies, and never ends the process."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from engine.lab import HANDLED, Way, call, each, every_way, flow, graph, line, obj, once, out
from ropewalk import Toolbox
from ropewalk.api.run_chain import Runner
from ropewalk.errors import ExpressionError, NodeFailed, ToolError
from ropewalk.expr.ast import Fn, Ref
from ropewalk.ir import Graph, Node, OnError, Policy, Retry
from ropewalk.tools.runner import ExecutorCaller
from ropewalk.tools.tool import Tool, ToolBackend


class Evil(Exception):
    def __str__(self) -> str:
        raise RuntimeError("x")


def _closed() -> None:
    raise GeneratorExit("c")


def _evil() -> None:
    raise Evil


def _exit() -> None:
    sys.exit(3)


def _base() -> None:
    raise BaseException("b")


def _mute() -> None:
    raise SystemExit


ENDS = pytest.mark.parametrize(
    ("ends", "said"),
    [
        (_exit, "it raised SystemExit: 3"),
        (_base, "it raised BaseException: b"),
        (_mute, "it raised SystemExit"),
        (_closed, "it raised GeneratorExit: c"),
        (_evil, "Evil"),
    ],
)
Handler = Callable[[Callable[[], None]], Any]


def at_once(ends: Callable[[], None]) -> Any:
    async def handler() -> None:
        ends()

    return handler


def later(ends: Callable[[], None]) -> Any:
    async def handler() -> None:
        await asyncio.sleep(0)
        ends()

    return handler


def in_thread(ends: Callable[[], None]) -> Any:
    return lambda: ends()


def streams(ends: Callable[[], None]) -> Any:
    async def handler() -> AsyncIterator[int]:
        yield 1
        ends()

    return handler


HANDLERS = pytest.mark.parametrize("made", [at_once, later, in_thread, streams], ids=lambda made: made.__name__)


def index(handler: Callable[..., Any]) -> Toolbox:
    async def fine() -> str:
        await asyncio.sleep(0)
        return "fine"

    tools = [Tool("t", "", {"type": "object"}, handler=handler), Tool("fine", "", {"type": "object"}, handler=fine)]
    return Toolbox(tools)


@ENDS
@HANDLERS
@every_way
async def test_whatever_a_tool_raises_fails_its_node(
    way: Way, made: Handler, ends: Callable[[], None], said: str
) -> None:
    ended = await way(flow(line(call("t"))), Runner(index(made(ends))))
    assert (ended["status"], ended["failures"]) == ("failed", [f"t: {said}"])


@ENDS
@pytest.mark.parametrize(
    "policy",
    [
        HANDLED,
        Policy(timeout=20, on_error=HANDLED.on_error),
        Policy(retry=Retry(attempts=2), on_error=HANDLED.on_error),
    ],
    ids=["handled", "timed", "retried"],
)
@every_way
async def test_policies_hold_for_whatever_a_tool_raises(
    way: Way, policy: Policy, ends: Callable[[], None], said: str
) -> None:
    ended = await way(flow(line(call("t", policy=policy), result=out("t"))), Runner(index(later(ends))))
    assert ended["value"] == "handled"


def beside(node: Node) -> Graph:
    return graph(call("fine"), node, call("also", "fine"), result=obj(fine=out("fine"), t=out("t")))


@ENDS
@every_way
async def test_it_fails_among_others_that_run_at_the_same_time(way: Way, ends: Callable[[], None], said: str) -> None:
    ended = await way(flow(beside(call("t", policy=HANDLED))), Runner(index(later(ends))))
    assert ended["value"] == {"fine": "fine", "t": "handled"}
    ended = await way(flow(beside(call("t"))), Runner(index(later(ends))))
    assert ended["failures"] == [f"t: {said}"]
    ended = await way(flow(line(each("e", [1, 2, 3], call("t")))), Runner(index(later(ends))))
    assert ended["failures"][0].endswith(f"/t: {said}")


@ENDS
@every_way
async def test_an_executor_may_raise_as_a_tool_may(way: Way, ends: Callable[[], None], said: str) -> None:
    async def executor(tool: str, params: dict[str, Any]) -> None:
        ends()

    ended = await way(flow(line(call("t"))), ExecutorCaller(executor))
    assert ended["failures"] == [f"t: {said}"]


@ENDS
async def test_the_executors_of_a_runner_may_raise_as_a_tool_may(ends: Callable[[], None], said: str) -> None:
    class Mcp:
        async def call_tool(self, server: str, tool: str, args: dict[str, Any]) -> None:
            ends()

    runner = Runner(
        tool_resolver=lambda id: Tool(id, "", {"type": "object"}),
        backends_resolver=lambda id: [ToolBackend.mcp("s")],
        mcp=Mcp(),
    )
    assert await _said(runner.run("t")) == f"tool t: {said}"


@ENDS
@HANDLERS
async def test_a_call_of_its_own_fails_as_one_of_a_run(made: Handler, ends: Callable[[], None], said: str) -> None:
    assert await _said(Runner(index(made(ends))).run("t")) == f"tool t: {said}"


@ENDS
async def test_a_stream_ends_in_an_error_whatever_is_raised(ends: Callable[[], None], said: str) -> None:
    events = [event async for event in Runner(index(streams(ends))).run_stream("t")]
    assert [event.kind for event in events] == ["chunk", "error"]
    assert events[-1].error.message == f"tool t: {said}"


async def test_ctrl_c_is_never_a_tools_failure() -> None:
    """Python raises it in whatever runs just then."""

    async def handler() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await Runner(index(handler)).run("t")


async def _said(call: Awaitable[Any]) -> str:
    with pytest.raises(ToolError) as caught:
        await call
    return caught.value.message


async def test_the_tools_own_error_is_among_the_causes_where_the_fallback_fails_too() -> None:
    policy = Policy(retry=Retry(attempts=2), on_error=OnError(value=Fn("int", (Ref("error", ("message",)),))))
    raised, said = (
        ValueError("boom"),
        "fallback: int cannot read 'boom', in `int($error.message)`; the failure was: boom",
    )

    async def handler() -> None:
        raise raised

    ending = await once(flow(line(call("t", policy=policy))), Runner(index(handler)))
    (failed,) = ending.failures
    assert (failed.message, failed.attempts) == (said, 2)
    causes: list[BaseException] = [failed]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    kinds = [type(cause) for cause in causes[:3]]
    assert kinds == [NodeFailed, ExpressionError, NodeFailed]
    assert raised in causes


@every_way
@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "with a policy"])
async def test_a_run_whose_coroutine_is_closed_has_not_failed(way: Way, wrapped: bool) -> None:
    """As one that is thrown away with its loop: the tool is closed, no strategy takes that for its failure."""
    seen: list[str] = []
    began = asyncio.Event()

    async def handler() -> None:
        seen.append("called")
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("closed")

    policy = Policy(timeout=20, retry=Retry(attempts=3), on_error=HANDLED.on_error) if wrapped else Policy()
    running = way(flow(line(call("t", policy=policy))), Runner(index(handler)))
    assert inspect.iscoroutine(running)
    task = asyncio.ensure_future(running)
    await began.wait()
    running.close()
    assert seen == ["called", "closed"]
    task.cancel()
    with pytest.raises((asyncio.CancelledError, RuntimeError)):
        await task
    assert seen == ["called", "closed"]
