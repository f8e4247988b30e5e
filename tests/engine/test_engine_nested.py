"""Runs inside runs, many runs at once, and one App in two event loops."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from engine.lab import (
    HANDLED,
    Way,
    bare,
    call,
    durably,
    each,
    every_way,
    flow,
    graph,
    in_memory,
    leaves_nothing,
    line,
    once,
    turns,
)
from patience import until
from ropewalk.app.app import App
from ropewalk.errors import NotFound
from ropewalk.journal.sqlite.store import SqliteStore
from ropewalk.testing import ScriptedTools, fails, hangs, held
from ropewalk.tools.tool import tool


@every_way
@pytest.mark.parametrize("inner", [bare, in_memory, durably])
async def test_a_tool_that_runs_a_flow_gives_what_it_gives(way: Way, inner: Way) -> None:
    within = ScriptedTools(one=1)

    async def runs() -> Any:
        return (await inner(graph(call("a", "one"), call("b", "one"), result=HANDLED.on_error.value), within))["value"]

    outer = ScriptedTools(runs=runs)
    done = await way(graph(call("r1", "runs"), each("m", [1, 2], call("r2", "runs"))), outer)
    assert done["status"] == "completed"
    assert within.count("one") == 6


@every_way
async def test_a_failure_of_a_run_inside_a_tool_is_that_tools_failure(way: Way) -> None:
    async def runs() -> Any:
        ending = await once(graph(call("bad"), call("slow")), ScriptedTools(bad=fails("inside"), slow=hangs()))
        raise ending.error  # type: ignore[misc]

    done = await way(line(call("r", "runs", policy=HANDLED)), ScriptedTools(runs=runs))
    assert done["status"] == "completed"
    done = await way(line(call("r", "runs")), ScriptedTools(runs=runs))
    assert done["status"] == "failed"
    assert "inside" in done["error"]


@every_way
async def test_an_error_of_ours_raised_by_a_tool_fails_its_node_only(way: Way) -> None:
    done = await way(line(call("odd", policy=HANDLED)), ScriptedTools(odd=fails(NotFound("chain", "x"))))
    assert done["status"] == "completed"


@pytest.mark.virtual_time
@every_way
async def test_a_timeout_around_a_run_inside_a_tool_cuts_the_inner_tools_too(way: Way) -> None:
    within = ScriptedTools(slow=hangs())

    async def runs() -> Any:
        return (await once(graph(call("a", "slow"), call("b", "slow")), within)).value

    done = await way(line(call("r", "runs")), ScriptedTools(runs=runs, timeout=0.05))
    assert done["status"] == "failed"
    assert "no answer within" in done["error"]
    assert within.running == 0
    assert {c.status for c in within.calls} == {"cancelled"}


@pytest.mark.virtual_time
@every_way
async def test_the_timeout_of_a_run_inside_a_tool_is_its_own(way: Way) -> None:
    async def runs() -> Any:
        ending = await once(
            flow(graph(call("a", "slow"), call("b", "slow")), timeout=0.02), ScriptedTools(slow=hangs())
        )
        return ending.status

    from engine.lab import out

    done = await way(graph(call("r", "runs"), result=out("r")), ScriptedTools(runs=runs))
    assert (done["status"], done["value"]) == ("completed", "timeout")


async def test_a_tool_may_run_another_chain_of_its_own_app() -> None:
    chain = {"nodes": [{"id": "a", "type": "tool", "tool": "leaf", "params": {"n": "$input.n"}}]}
    outer = {"nodes": [{"id": f"n{i}", "type": "tool", "tool": "sub", "params": {"n": i}} for i in range(5)]}

    @tool
    async def leaf(n: int) -> int:
        """Gives n."""
        await asyncio.sleep(0)
        return n

    async with App("memory") as app:

        @tool
        async def sub(n: int) -> int:
            """Runs a chain."""
            return int((await app.run(chain, {"n": n})).results["a"])

        app.toolbox.register(leaf)
        app.toolbox.register(sub)
        for mode in ("sequential", "parallel"):
            done = await app.run({**outer, "mode": mode})
            assert done.status == "completed"
            assert done.results == {f"n{i}": i for i in range(5)}


async def test_hundreds_of_runs_at_once_keep_to_themselves() -> None:
    chain = {
        "mode": "parallel",
        "nodes": [{"id": f"n{i}", "type": "tool", "tool": "echo", "params": {"v": ["$input", i]}} for i in range(3)],
    }

    async def echo(name: str, params: dict[str, Any]) -> Any:
        await turns(params["v"][0] % 3)
        return params["v"]

    async with App("memory") as app:
        done = await asyncio.gather(*[app.run(chain, i, executor=echo) for i in range(300)])
    assert all(one.results == {f"n{j}": [i, j] for j in range(3)} for i, one in enumerate(done))


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_two_event_loops_share_an_app(store: str, tmp_path: Any) -> None:
    tools = [tool(_double)]
    app = App("memory" if store == "memory" else SqliteStore(tmp_path / "s.db"), tools=tools)
    chain = {
        "mode": "parallel",
        "nodes": [{"id": f"n{i}", "type": "tool", "tool": "_double", "params": {"n": "$input"}} for i in range(4)],
    }
    wrong: list[Any] = []
    runs = 60 if store == "memory" else 15

    async def many(base: int) -> None:
        with leaves_nothing():
            for i in range(base, base + runs):
                done = await app.run(chain, i)
                if done.status != "completed" or set(done.results.values()) != {2 * i}:
                    wrong.append(done)

    def work(base: int) -> None:
        try:
            asyncio.run(many(base))
        except BaseException as error:  # noqa: BLE001 - told to the main thread
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(1000 * n,)) for n in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    asyncio.run(app.close())
    assert wrong == []


async def _double(n: int) -> int:
    """Twice."""
    await asyncio.sleep(0)
    return 2 * n


def test_a_run_under_way_in_another_loop_is_waited_for() -> None:
    app, tools = App("memory"), ScriptedTools(slow=held("once"))
    chain = {"nodes": [{"id": "a", "type": "tool", "tool": "slow"}]}
    under_way, asking, results = threading.Event(), threading.Event(), []

    async def first() -> None:
        running = asyncio.create_task(app.run(chain, run_id="x", executor=tools))
        await tools.called("slow")
        under_way.set()
        await until(asking.is_set)
        await turns()
        tools.release("slow")
        results.append((await running).results)

    async def second() -> None:
        asking.set()
        results.append((await app.run(chain, run_id="x", executor=tools)).results)

    thread = threading.Thread(target=lambda: asyncio.run(first()))
    thread.start()
    under_way.wait(50)
    asyncio.run(second())
    thread.join(50)
    assert results == [{"a": "once"}] * 2
    assert tools.count("slow") == 1
