"""Stopping, cancelling and timing out, with tools that behave badly, on every store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from chains.conftest import run
from chains.scripted import ScriptedTools
from engine.lab import turns
from patience import until
from ropewalk.app.app import App


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
            # Until its result is recorded: a stop cancels every tool at once.
            await until(lambda: any(step["node"] == "q" for step in app.runs.get("e")["nodes"]))
            assert app.chains.core.stop_execution("e") is True
            assert tools.cancelled == []  # it only signals
            assert (await app.chains.get_execution_status("e")).status == "stopped"
            result = await running
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
            await turns()
            assert await app.chains.stop_execution("e")
            assert (await running).status == "stopped"

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
            result = await second
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


def one_of_each(mode: str) -> list[dict[str, Any]]:
    """Nodes of every kind that has a value, and at last one that waits."""
    nodes: list[dict[str, Any]] = [
        tool("a", outputVar="v"),
        {"id": "both", "type": "parallel", "nodes": [tool("p"), tool("q")], "outputVar": "w"},
        {"id": "each", "type": "loop", "items": [1, 2], "nodes": [tool("l")]},
        {"id": "which", "type": "condition", "condition": "true", "then": [tool("t")], "otherwise": []},
        {**tool("bad", errorStrategy="fallback", maxRetries=0), "fallback": {"instead": "${output.a}"}},
        tool("worse", errorStrategy="continue", maxRetries=0),
        tool("no", condition="false"),
        {"id": "ask", "type": "wait", "approval": "Go on?", "dependsOn": []},
    ]
    if mode == "dag":
        nodes[-1]["dependsOn"] = ["both", "each", "which", "bad", "no"]
        nodes[4]["dependsOn"] = ["a"]
    else:
        del nodes[-1]["dependsOn"]
    return nodes


@pytest.mark.parametrize("mode", ["sequential", "dag"])
def test_a_run_that_was_stopped_while_nobody_ran_it_has_all_that_had_finished(tmp_path: Path, mode: str) -> None:
    """Values of blocks, fallbacks and earlier errors too, as if its process had been there; wherever one looks."""
    tools = ScriptedTools(
        {**{id: {"gives": id.upper()} for id in "apqlt"}, "bad": {"fails": "oh"}, "worse": {"fails": "no"}}
    )

    async def body() -> None:
        async with App(tmp_path / "runs.db") as app:
            await app.chains.create_chain(id="c", mode=mode, nodes=one_of_each(mode))
            context = {"executionId": "e"}
            running = asyncio.create_task(app.chains.execute_chain("c", context, tools))
            while {("ask", "wait"), ("worse", "attempt")} - {(e.path, e.kind) for e in app.runs.history("e")}:  # noqa: ASYNC110
                await asyncio.sleep(0)
            running.cancel()
            await asyncio.wait([running])
            calls = len(tools.calls)
            assert await app.chains.stop_execution("e")
            details = await app.chains.get_execution_details("e")
            assert details is not None
            assert details.results == {
                "a": "A",
                "both": {"p": "P", "q": "Q"},
                "each": ["L", "L"],
                "which": "T",
                "bad": {"instead": "A"},
                "worse": None,
                "no": None,
            }
            assert details.variables == {"v": "A", "w": details.results["both"]}
            assert [(error["nodeId"], error["kind"]) for error in details.errors] == [
                ("worse", "ExecutionFailed"),
                (None, "RunStopped"),
            ]
            assert (details["resultCount"], details["errorCount"]) == (7, 2)
            (line,) = await app.chains.list_executions("c")
            (row,) = app.runs.list()
            told = app.runs.get("e")
            assert told is not None
            assert line["resultCount"] == row.result_count == told["resultCount"] == 7
            assert line["errorCount"] == row.error_count == told["errorCount"] == 1
            assert (told["result"], told["status"]) == (details.results, "stopped")
            assert told["duration"] == details["duration"] == round(row.spent * 1000, 3)
            assert (await app.chains.execute_chain("c", context, tools)).results == told["result"]
            assert len(tools.calls) == calls

    run(body())
