"""Timeouts of tools, nodes, blocks and runs, and pauses between attempts."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from engine.lab import (
    Way,
    bare,
    block,
    call,
    durably,
    each,
    every_way,
    flow,
    graph,
    in_memory,
    line,
    lit,
    node,
    once,
    turns,
)  # fmt: skip
from ropewalk.app.app import App
from ropewalk.errors import RunTimeout
from ropewalk.ir import Graph, OnError, Policy, Retry
from ropewalk.ops import Loop, Sleep
from ropewalk.testing import ScriptedTools, fails, gives, hangs, in_turn
from ropewalk.tools.tool import tool

pytestmark = pytest.mark.virtual_time
SHORT = 0.08


HANGING: dict[str, Graph] = {
    "alone": line(call("stuck")),
    "in a graph": graph(call("a", "quick"), call("stuck")),
    "after a map": line(each("m", [1, 2, 3], call("a", "slow")), call("stuck")),
    "after a block": line(block("b", call("a", "quick"), call("c", "slow")), call("stuck")),
    "in a map": line(each("m", [1, 2, 3], call("a", "quick"), call("stuck"))),
    "in a loop": line(node("l", Loop(body=line(call("stuck")), limit=2))),
    "after slower ones": line(call("a", "slow"), call("b", "slow"), call("stuck")),
    "in a worker, later": graph(call("a", "slow"), call("b", "slow"), call("stuck", after="b")),
    "under a limit": graph(*[call(f"a{i}", "quick") for i in range(5)], call("stuck"), limit=2),
    "after a pause": line(node("p", Sleep(seconds=lit(0.01))), call("stuck")),
}


@every_way
@pytest.mark.parametrize("body", HANGING.values(), ids=list(HANGING))
async def test_a_hanging_tool_is_cut_short_wherever_it_stands(way: Way, body: Graph) -> None:
    tools = ScriptedTools(
        quick=lambda: asyncio.sleep(0, 1), slow=gives(1, after=SHORT / 8), stuck=hangs(), timeout=SHORT
    )
    done = await way(body, tools)
    assert done["status"] == "failed"
    assert done["error"].startswith("NodeFailed")
    assert f"no answer within {SHORT:g} s" in done["error"]
    assert {c.status for c in tools.calls if c.tool == "stuck"} == {"cancelled"}


@pytest.mark.parametrize("store", ["memory", "runs.db"])
async def test_each_tool_keeps_its_own_timeout(store: str, tmp_path: Path) -> None:
    @tool(timeout=20)
    async def patient() -> int:
        """Takes a moment."""
        await asyncio.sleep(SHORT)
        return 1

    @tool(timeout=SHORT)
    async def hasty() -> int:
        """Never answers."""
        await asyncio.Event().wait()
        return 1

    def step(id: str, name: str) -> dict[str, Any]:
        return {"id": id, "type": "tool", "tool": name}

    address = store if store == "memory" else str(tmp_path / store)
    async with App(address, tools=[patient, hasty]) as app:
        chain = {"nodes": [step("a", "patient"), step("b", "hasty")], "errorStrategy": "stop"}
        done = await app.run(chain)
        assert done.status == "failed"


@pytest.mark.parametrize("store", ["memory", "runs.db"])
async def test_the_timeout_of_a_step_wins_over_a_shorter_one_of_its_tool(store: str, tmp_path: Path) -> None:
    @tool(timeout=SHORT)
    async def waits() -> int:
        """Takes longer than its timeout."""
        await asyncio.sleep(2 * SHORT)
        return 1

    @tool(timeout=SHORT)
    def sleeps() -> int:
        """Takes longer than its timeout, in a thread."""
        time.sleep(2 * SHORT)
        return 2

    address = store if store == "memory" else str(tmp_path / store)
    async with App(address, tools=[waits, sleeps], timeout=SHORT) as app:
        steps = [{"id": name, "type": "tool", "tool": name, "timeout": 60000} for name in ("waits", "sleeps")]
        for mode in ("sequential", "parallel"):
            done = await app.run({"mode": mode, "nodes": steps, "result": ["$output.waits", "$output.sleeps"]})
            assert (done.status, done.value) == ("completed", [1, 2])


@every_way
async def test_a_timeout_of_a_node_is_a_failed_attempt_like_any_other(way: Way) -> None:
    tools = ScriptedTools(t=in_turn(hangs(), hangs(), 7))
    policy = Policy(timeout=SHORT, retry=Retry(attempts=3))
    body = line(call("t", policy=policy), result=lit("end"))
    done = await way(body, tools)
    assert (done["status"], [c.status for c in tools.calls]) == ("completed", ["cancelled", "cancelled", "done"])


@every_way
async def test_a_timed_out_node_gives_its_stand_in_with_the_error_in_reach(way: Way) -> None:
    from ropewalk.expr.ast import Ref

    tools = ScriptedTools(t=hangs())
    policy = Policy(timeout=SHORT, on_error=OnError(value=Ref("error", ("kind",)), reported=True))
    done = await way(graph(call("t", policy=policy), result=Ref("out", ("t",))), tools)
    assert (done["status"], done["value"]) == ("partial", "ToolTimeout")


@every_way
async def test_the_timeout_of_a_node_wins_over_a_longer_one_of_its_tool(way: Way) -> None:
    tools = ScriptedTools(t=hangs(), timeout=20)
    done = await way(line(call("t", policy=Policy(timeout=SHORT))), tools)
    assert f"no answer within {SHORT:g} s" in done["error"]


@every_way
async def test_an_inner_and_an_outer_deadline_at_the_same_moment_are_the_outer_ones(way: Way) -> None:
    tools = ScriptedTools(t=hangs())
    same = Policy(timeout=SHORT, on_error=OnError(value=lit("late")))
    inner = block("b", call("t", policy=Policy(timeout=SHORT)), policy=same)
    done = await way(line(inner), tools)
    assert done["status"] == "completed"


@every_way
@pytest.mark.parametrize("body", [HANGING["alone"], HANGING["in a map"], graph(call("stuck"), call("s2", "stuck"))])
async def test_a_run_that_takes_too_long_ends_as_timeout(way: Way, body: Graph) -> None:
    tools = ScriptedTools(stuck=hangs(), quick=1)
    done = await way(flow(body, timeout=SHORT), tools)
    assert (done["status"], done["error"].partition(":")[0]) == ("timeout", "RunTimeout")
    assert {c.status for c in tools.calls if c.tool == "stuck"} == {"cancelled"}


async def test_the_timeouts_of_two_runs_in_one_loop_do_not_meet() -> None:
    long, short = ScriptedTools(t=gives(1, after=4 * SHORT), timeout=20), ScriptedTools(t=hangs(), timeout=SHORT)
    body = graph(call("t"), call("t2", "t"))
    slow, cut = await asyncio.gather(once(body, long), once(body, short))
    assert (slow.status, cut.status) == ("completed", "failed")


@pytest.mark.parametrize("way", [bare, in_memory, durably])
async def test_pauses_between_attempts_grow_as_told_and_cancel_at_once(way: Way) -> None:
    at: list[float] = []
    fourth = asyncio.Event()

    def busy() -> None:
        at.append(time.monotonic())
        if len(at) == 4:
            fourth.set()
        raise RuntimeError("busy")

    tools = ScriptedTools(t=busy)
    done = await way(line(call("t", policy=Policy(retry=Retry(attempts=3, delay=2, factor=3)))), tools)
    assert done["status"] == "failed"
    gaps = [b - a for a, b in pairwise(at)]
    assert gaps == [2, 6]
    task = asyncio.ensure_future(way(line(call("t", policy=Policy(retry=Retry(attempts=2, delay=3000)))), tools))
    await fourth.wait()
    await turns()
    task.cancel()
    await turns()
    assert task.cancelled()


@every_way
async def test_bad_arguments_are_not_tried_again(way: Way) -> None:
    from ropewalk.expr.ast import Fn, Lit, Ref

    tools = ScriptedTools(t=1, u="a")
    wrong = Fn("+", (Lit(1), Ref("out", ("u",))))
    retried = call("t", args=_args(wrong), policy=Policy(retry=Retry(attempts=5, delay=60)))
    done = await way(line(call("u"), retried), tools)
    assert (done["status"], len(tools.calls)) == ("failed", 1)


def _args(value: Any) -> Any:
    from ropewalk.expr.ast import Obj

    return Obj((("v", value),))


@every_way
async def test_attempts_are_counted_in_the_failure(way: Way) -> None:
    tools = ScriptedTools(t=fails("no"))
    ending = await once(line(call("t", policy=Policy(retry=Retry(attempts=3)))), tools)
    assert ending.failures[0].attempts == 3
    assert tools.count("t") == 3


def test_a_run_that_took_longer_than_its_timeout_names_the_timeout() -> None:
    assert str(RunTimeout("r", 0.05)).endswith("its timeout of 0.05 s (`timeout` of the definition)")
    assert str(RunTimeout("r", 30)).endswith("its timeout of 30 s (`timeout` of the definition)")


PER_ATTEMPT = Policy(timeout=0.1, retry=Retry(attempts=300))
TRIED: dict[str, Graph] = {
    "alone": line(call("stuck", policy=PER_ATTEMPT)),
    "in a graph": graph(call("a", "quick"), call("stuck", policy=PER_ATTEMPT)),
    "in a map": line(each("m", [1], call("stuck", policy=PER_ATTEMPT))),
    "a block": line(block("b", call("stuck"), policy=PER_ATTEMPT)),
    "a loop": line(node("l", Loop(body=line(call("stuck")), limit=1), policy=PER_ATTEMPT)),
}


@every_way
@pytest.mark.parametrize("body", TRIED.values(), ids=list(TRIED))
async def test_a_timeout_is_that_of_one_attempt(way: Way, body: Graph) -> None:
    """Each attempt has the whole timeout, and no more: here 0.1 s, where all of them together would have 30 s."""
    tools = ScriptedTools(quick=1, stuck=in_turn(hangs(), hangs(), hangs(), gives(1)))
    result = await way(body, tools)
    assert result["status"] == "completed", result
    assert [c.status for c in tools.calls if c.tool == "stuck"] == ["cancelled"] * 3 + ["done"]
