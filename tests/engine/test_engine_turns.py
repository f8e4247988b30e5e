"""Runs in which nothing suspends, and tools that do not let a cancellation through: deadlines and stops hold all the
same, others get their turns, and what is told of the run is what was finished."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from ropewalk.app.app import App
from ropewalk.tools.tool import tool

ROUNDS = 100_000_000  # more than anybody waits for
TURNING = {"mode": "loop", "maxIterations": ROUNDS, "nodes": [{"id": "t", "type": "TRANSFORM", "input": "${1 + 1}"}]}
AGAIN = {"errorStrategy": "retry", "maxRetries": ROUNDS, "retryDelay": 0}
TRIED = {"nodes": [{"id": "a", "type": "TOOL", "tool": "fails", **AGAIN}]}
BUSY = [{"id": f"n{n}", "type": "TOOL", "tool": "busy"} for n in range(100)]
BLOCKING = {mode: {"mode": mode, "nodes": BUSY} for mode in ("sequential", "parallel", "dag")}


@tool
async def fails() -> None:
    """Fails at once."""
    raise ValueError("no")


@tool
async def busy() -> int:
    """Holds the loop for a while, as it should not."""
    threading.Event().wait(0.02)
    return 1


@tool
async def slow() -> int:
    """Holds the loop for a while, and then lets others have it."""
    await busy()
    await asyncio.sleep(0)
    return 1


@tool
async def stubborn() -> str:
    """Goes on for a while, whatever it is told."""
    for _ in range(8):
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            continue
    return "late"


@tool
async def hangs() -> None:
    """Waits for ever."""
    await asyncio.Event().wait()


@tool
async def one() -> int:
    """Gives 1."""
    return 1


@pytest.fixture(params=["memory", "sqlite"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    store = "memory" if request.param == "memory" else str(tmp_path / "runs.db")
    app = App(store, tools=[fails, busy, stubborn, hangs, one])
    yield app
    app.store.close()


async def executed(app: App, chain: dict[str, Any], **context: Any) -> Any:
    made = await app.chains.create_chain({"name": "c", **chain})
    return await app.chains.execute_chain(made.id, context)


@pytest.mark.parametrize("chain", [TURNING, TRIED, *BLOCKING.values()], ids=["loop", "retries", *BLOCKING])
async def test_a_timeout_holds_where_nothing_suspends(app: App, chain: dict[str, Any]) -> None:
    done = await executed(app, {**chain, "timeout": 100})
    assert done["status"] == "timeout"


async def test_the_timeout_of_a_block_holds_where_nothing_suspends(app: App) -> None:
    loop = {"id": "l", "type": "LOOP", "maxIterations": ROUNDS, "timeout": 100, "nodes": TURNING["nodes"]}
    done = await executed(app, {"nodes": [loop]})
    assert done["status"] == "failed"
    assert "not done within" in str(done["errors"])


async def test_others_have_their_turns_and_stop_is_heard(app: App) -> None:
    running = asyncio.ensure_future(executed(app, TURNING, executionId="turning"))
    while "turning" not in app.engine.live:  # noqa: ASYNC110 - nothing tells when a run begins
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)  # which comes round while the chain goes on
    assert not running.done()
    stopping = threading.Thread(target=lambda: app.chains.core.stop_execution("turning"))
    stopping.start()
    done = await running
    stopping.join()
    assert done["status"] == "stopped"


async def test_a_run_whose_tools_suspend_gives_no_more_turns_than_they_do() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while not over:
            turns += 1
            await asyncio.sleep(0)

    over = False
    async with App("memory", tools=[slow]) as app:
        nodes = [{"id": f"n{n}", "type": "TOOL", "tool": "slow"} for n in range(10)]
        counting = asyncio.ensure_future(others())
        done = await executed(app, {"nodes": nodes})
        over = True
        await counting
    assert done["success"]
    assert turns < 15  # ten of the tools, and a few around the run


LATE = {
    "timeout of the chain": {"timeout": 60, "nodes": [{"id": "a", "type": "TOOL", "tool": "stubborn"}]},
    "in parallel": {"timeout": 60, "mode": "parallel", "nodes": [{"id": "a", "type": "TOOL", "tool": "stubborn"}]},
    "beside one that fails": {
        "mode": "parallel",
        "nodes": [{"id": "a", "type": "TOOL", "tool": "stubborn"}, {"id": "b", "type": "TOOL", "tool": "fails"}],
    },
}


@pytest.mark.parametrize("chain", LATE.values(), ids=list(LATE))
async def test_what_a_tool_gives_after_the_end_is_no_result(app: App, chain: dict[str, Any]) -> None:
    done = await executed(app, chain, executionId="late")
    assert done["status"] in ("timeout", "failed")
    assert done["results"].get("a") is None
    assert "late" not in str((await app.chains.get_execution_details("late")).to_dict()["results"])


async def test_of_a_broken_round_only_what_it_finished_is_told(app: App) -> None:
    nodes = [
        {"id": "a", "type": "TRANSFORM", "input": "${iteration}"},
        {"id": "b", "type": "TRANSFORM", "input": "${1 / (1 - iteration)}"},
    ]
    done = await executed(app, {"mode": "loop", "maxIterations": 3, "nodes": nodes, "errorStrategy": "stop"})
    assert done["status"] == "failed"
    assert done["results"] == {"a": 1}


async def test_a_cancelled_caller_keeps_what_was_finished_in_memory() -> None:
    async with App("memory", tools=[hangs, one]) as app:
        nodes = [
            {"id": "a", "type": "TOOL", "tool": "one", "outputVar": "v"},
            {"id": "b", "type": "TOOL", "tool": "hangs"},
        ]
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(executed(app, {"nodes": nodes}, executionId="w"), 0.1)
        details = (await app.chains.get_execution_details("w")).to_dict()
        assert (details["status"], details["results"], details["variables"]) == ("stopped", {"a": 1}, {"v": 1})
