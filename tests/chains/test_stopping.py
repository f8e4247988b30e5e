"""Stopping, cancelling and timing out, with tools that behave badly, on every store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chains.conftest import run
from chains.scripted import ScriptedTools
from ropewalk.app import App


def tool(id: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "type": "tool", "tool": id, **more}


def test_stopping_is_at_once_and_cancels_what_is_in_flight(address: str) -> None:
    """CHAIN-EXEC-8 CHAIN-EXEC-9 CHAIN-FN-5"""

    async def body() -> None:
        async with App(address) as app:
            await app.chains.create_chain(id="c", mode="parallel", nodes=[tool("a"), tool("b"), tool("q")])
            tools = ScriptedTools({"a": {"hangs": True}, "b": {"hangs": True}, "q": {"gives": 1}})
            running = asyncio.create_task(app.chains.execute_chain("c", {"executionId": "e"}, tools))
            await tools.called("a")
            await tools.called("b")
            assert app.chains.core.stop_execution("e") is True
            assert tools.cancelled == []  # it only signals
            assert (await app.chains.get_execution_status("e")).status == "stopped"
            result = await asyncio.wait_for(running, 2)
            assert (result.status, result.success, result.results) == ("stopped", False, {"q": 1})
            assert sorted(tools.cancelled) == ["a", "b"]
            assert await app.chains.stop_execution("e") is False
            assert await app.chains.stop_execution("unknown") is False
            assert (await app.chains.get_execution_status("e")).status == "stopped"

    run(body())


@pytest.mark.parametrize(
    "node", [{"id": "d", "type": "delay", "delay": 1e6}, tool("bad", errorStrategy="retry", retryDelay=1e6)]
)
def test_stopping_reaches_delays_and_pauses(address: str, node: dict[str, Any]) -> None:
    """CHAIN-EXEC-8"""

    async def body() -> None:
        async with App(address) as app:
            await app.chains.create_chain(id="c", nodes=[tool("a"), node])
            tools = ScriptedTools({"a": {}, "bad": {"fails": "no"}})
            running = asyncio.create_task(app.chains.execute_chain("c", {"executionId": "e"}, tools))
            await tools.called("bad" if node["type"] == "tool" else "a")
            await asyncio.sleep(0.02)
            assert await app.chains.stop_execution("e")
            assert (await asyncio.wait_for(running, 2)).status == "stopped"

    run(body())


def test_a_second_caller_does_not_go_down_with_the_first(address: str) -> None:
    """DUR-5"""

    async def body() -> None:
        async with App(address) as app:
            await app.chains.create_chain(id="c", nodes=[tool("a"), tool("b")])
            tools = ScriptedTools({"a": {"gives": 1}, "b": [{"hangs": True}, {"gives": 2}]})
            first = asyncio.create_task(app.chains.execute_chain("c", {"executionId": "e"}, tools))
            await tools.called("b")
            second = asyncio.create_task(app.chains.execute_chain("c", {"executionId": "e"}, tools))
            await asyncio.sleep(0)
            first.cancel()
            result = await asyncio.wait_for(second, 5)
            if address == "memory":  # nothing to go on from: what was cancelled stays stopped
                assert result.status in ("stopped", "completed")
            else:
                assert (result.status, result.results) == ("completed", {"a": 1, "b": 2})
                assert tools.count("a") == 1

    run(body())


async def stubborn(name: str, params: dict[str, Any]) -> Any:
    """`s` answers when it is cancelled, `h` never does, anything else at once."""
    try:
        if name in ("s", "h"):
            await asyncio.Event().wait()
    except asyncio.CancelledError:
        if name == "s":
            return "swallowed"
        raise
    return name


@pytest.mark.parametrize("mode", ["sequential", "dag", "parallel"])
def test_a_tool_that_swallows_its_cancellation_does_not_keep_a_chain_from_timing_out(address: str, mode: str) -> None:
    """CHAIN-ERROR-9"""

    async def body() -> None:
        async with App(address) as app:
            await app.chains.create_chain(id="c", mode=mode, timeout=30, concurrency=1, nodes=[tool("s"), tool("h")])
            result = await app.chains.execute_chain("c", None, stubborn)
            assert result.status == "timeout"

    run(body(), 1)


def test_a_tool_that_swallows_its_cancellation_does_not_keep_a_chain_from_stopping(address: str) -> None:
    """CHAIN-EXEC-8"""

    async def body() -> None:
        async with App(address) as app:
            await app.chains.create_chain(id="c", nodes=[tool("s"), tool("b")])
            running = asyncio.create_task(app.chains.execute_chain("c", {"executionId": "e"}, stubborn))
            await asyncio.sleep(0.05)
            await app.chains.stop_execution("e")
            result = await running
            assert (result.status, "b" in result.results) == ("stopped", False)

    run(body(), 1)


def test_a_tool_that_is_cancelled_from_inside_fails_and_nothing_else_is_cancelled(address: str) -> None:
    """CHAIN-ERROR-2 DUR-8"""

    async def inside(name: str, params: dict[str, Any]) -> Any:
        if name == "a":
            raise asyncio.CancelledError
        return name

    async def body() -> None:
        async with App(address) as app:
            await app.chains.create_chain(id="c", errorStrategy="continue", nodes=[tool("a"), tool("b")])
            result = await app.chains.execute_chain("c", None, inside)
            assert (result.status, result.results) == ("partial", {"a": None, "b": "b"})

    run(body())


def test_failures_reported_inside_a_failed_block_are_the_same_after_a_resume(file: str) -> None:
    """DUR-7 DUR-8"""
    inside = [tool("reported", errorStrategy="continue"), tool("fatal", errorStrategy="stop")]
    nodes = [{"id": "l", "type": "loop", "items": [1], "errorStrategy": "skip", "nodes": inside}, tool("h")]
    script = {"reported": {"fails": "r"}, "fatal": {"fails": "f"}, "h": [{"hangs": True}, {"gives": 1}]}

    async def body() -> None:
        async with App(file) as app:
            await app.chains.create_chain(id="c", nodes=nodes)
            tools = ScriptedTools({**script, "h": {"gives": 1}})
            straight = await app.chains.execute_chain("c", None, tools)
            tools = ScriptedTools(script)
            first = asyncio.create_task(app.chains.execute_chain("c", {"executionId": "e"}, tools))
            await tools.called("h")
            first.cancel()
            await asyncio.wait([first])
            resumed = await app.chains.execute_chain("c", {"executionId": "e"}, tools)
            assert (resumed.status, resumed.errors) == (straight.status, straight.errors)

    run(body())


def test_what_had_finished_stays_when_a_run_that_nobody_runs_is_stopped(address: str) -> None:
    """CHAIN-EXEC-8"""

    async def body() -> None:
        nodes = [
            tool("a", outputVar="v"),
            tool("n", condition="false"),
            {"id": "p", "type": "parallel", "nodes": [tool("inner", outputVar="w"), tool("hangs", outputVar="x")]},
        ]
        async with App(address) as app:
            await app.chains.create_chain(id="c", variables={"kept": 1, "v": 0}, nodes=nodes)
            tools = ScriptedTools({"a": {"gives": "A"}, "inner": {"gives": 2}, "hangs": {"hangs": True}})
            context = {"executionId": "e", "variables": {"kept": 2}}
            running = asyncio.create_task(app.chains.execute_chain("c", context, tools))
            await tools.called("hangs")
            running.cancel()
            await asyncio.wait([running])
            if not app.store.durable:
                return  # which ends it as its caller is cancelled
            assert (await app.chains.get_execution_status("e")).result_count == 1
            assert await app.chains.stop_execution("e")
            result = await app.chains.execute_chain("c", context, tools)
            details = await app.chains.get_execution_details("e")
            status = await app.chains.get_execution_status("e")
            (line,) = await app.chains.list_executions("c")
            assert (result.status, result.results) == ("stopped", {"a": "A", "n": None})
            assert result.variables == {"kept": 2, "v": "A"}
            assert [error["kind"] for error in result.errors] == ["RunStopped"]
            for name in ("results", "variables", "errors", "duration"):
                assert details[name] == result[name]
            for told in (details, status, line):
                assert (told["resultCount"], told["errorCount"], told["status"]) == (2, 1, "stopped")

    run(body())
