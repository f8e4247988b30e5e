"""Failures, cancellations and tools that answer them in their own way: nothing is left running,
nothing starts afterwards, and the caller's task is as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from engine.lab import (
    HANDLED,
    Way,
    block,
    call,
    durably,
    each,
    every_way,
    graph,
    in_memory,
    job,
    leaves_nothing,
    line,
    node,
    on,
    once,
    swallows,
)  # fmt: skip
from ropewalk.engine.engine import Engine
from ropewalk.expr.ast import Lit
from ropewalk.ir import Graph, OnError, Policy, Retry
from ropewalk.journal.memory import MemoryStore
from ropewalk.ops import Block
from ropewalk.testing import ScriptedTools, fails, hangs, held, in_turn


def cleans_up(steps: int = 5) -> Callable[[], Any]:
    """A tool that needs the loop for a while when it is cancelled."""

    async def tool() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(steps):
                await asyncio.sleep(0)

    return tool


# --- fail-fast -----------------------------------------------------------------------------------


@every_way
@pytest.mark.parametrize("failing", ["first", "last"])
async def test_a_failure_cancels_the_siblings_and_starts_nothing_more(way: Way, failing: str) -> None:
    tools = ScriptedTools(slow=hangs(), bad=fails("no", after=0.005), never=1)
    nodes = [call("s1", "slow"), call("s2", "slow"), call("never", after="s1")]
    nodes.insert(0 if failing == "first" else 3, call("bad"))
    done = await way(graph(*nodes), tools)
    assert (done["status"], done["failures"]) == ("failed", ["bad: no"])
    assert sorted((c.tool, c.status) for c in tools.calls) == [
        ("bad", "failed"), ("slow", "cancelled"), ("slow", "cancelled"),
    ]  # fmt: skip


@every_way
async def test_a_failure_deep_inside_cancels_everything_beside_it(way: Way) -> None:
    tools = ScriptedTools(slow=hangs(), bad=fails("no", after=0.005))
    inner = each("m", [1, 2, 3], block("b", call("s1", "slow"), call("bad"), call("s2", "slow")))
    done = await way(graph(call("s0", "slow"), inner, each("m2", [1, 2], call("s3", "slow"))), tools)
    assert done["status"] == "failed"
    assert {c.status for c in tools.calls if c.tool == "slow"} == {"cancelled"}
    assert tools.running == 0


@every_way
async def test_a_handled_failure_inside_cancels_only_its_own_region(way: Way) -> None:
    tools = ScriptedTools(slow=hangs(), held=held(1), bad=fails("no", after=0.005), frees=lambda: tools.release("held"))
    body = graph(
        block("b", call("bad"), call("slow"), policy=HANDLED), call("held"), call("frees", after="b"),
        result=Lit("whole"),
    )  # fmt: skip
    done = await way(body, tools)
    assert (done["status"], done["value"]) == ("completed", "whole")
    assert [c.status for c in tools.calls if c.tool == "slow"] == ["cancelled"]


@every_way
async def test_several_failures_at_once_end_the_run_once(way: Way) -> None:
    tools = ScriptedTools(bad=fails("no", after=0.001))
    done = await way(graph(*[call(f"n{i}", "bad") for i in range(5)]), tools)
    assert (done["status"], len(done["failures"])) == ("failed", 1)


@every_way
async def test_a_failing_map_starts_no_further_item(way: Way) -> None:
    tools = ScriptedTools(bad=fails("no", after=0.001))
    done = await way(line(each("m", list(range(50)), call("bad"), limit=2)), tools)
    assert done["status"] == "failed"
    assert tools.count("bad") <= 2


# --- cancelled from outside ----------------------------------------------------------------------

SHAPES: dict[str, Graph] = {
    "line": line(call("slow")),
    "graph": graph(call("s1", "slow"), call("s2", "slow"), call("s3", "slow")),
    "map": line(each("m", [1, 2, 3], call("slow"))),
    "deep": graph(each("m", [1, 2], block("b", call("s1", "slow"), call("s2", "slow"))), call("s3", "slow")),
    "retried": line(call("slow", policy=Policy(retry=Retry(attempts=5), timeout=20, on_error=OnError()))),
}
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))


@every_way
@every_shape
async def test_an_outer_cancellation_cancels_every_tool_and_comes_out(way: Way, shape: Graph) -> None:
    tools = ScriptedTools(slow=hangs())
    task = asyncio.ensure_future(way(shape, tools))
    await tools.called("slow")
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert {c.status for c in tools.calls} == {"cancelled"}


async def within(limit: asyncio.Timeout, work: Awaitable[object]) -> None:
    async with limit:
        await work


@every_way
@every_shape
async def test_an_outer_timeout_is_a_timeout_error_outside(way: Way, shape: Graph) -> None:
    tools = ScriptedTools(slow=hangs())

    async def is_over(limit: asyncio.Timeout) -> None:
        await tools.called("slow")
        limit.reschedule(asyncio.get_running_loop().time())

    with leaves_nothing():
        limit = asyncio.timeout(None)
        ending = asyncio.ensure_future(is_over(limit))
        with pytest.raises(TimeoutError):
            await within(limit, way(shape, tools))
        await ending
    assert {c.status for c in tools.calls} == {"cancelled"}


@every_shape
async def test_cancelling_again_and_again_leaves_no_tool_behind(shape: Graph) -> None:
    tools = ScriptedTools(slow=cleans_up(20))
    task = asyncio.ensure_future(once(shape, tools))
    await tools.called("slow")
    for _ in range(4):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert tools.running == 0


@pytest.mark.virtual_time
async def test_an_outer_cancellation_at_the_moment_of_a_handled_failure_is_not_lost() -> None:
    tools = ScriptedTools(quick=held(1), bad=held(), after=1)

    async def fail() -> None:
        tools.release("quick")
        await asyncio.sleep(1)  # by now the run waits for this tool alone, with nothing of its own
        task.cancel()
        raise RuntimeError("no")

    tools = ScriptedTools(quick=held(1), bad=fail, after=1)
    body = line(block("b", call("quick"), call("bad"), policy=HANDLED), call("after"))
    task = asyncio.ensure_future(once(body, tools))
    await asyncio.wait([task])
    assert task.cancelled()
    assert tools.count("after") == 0


async def test_a_cancelled_run_in_memory_is_stopped_and_a_durable_one_can_go_on() -> None:
    for store, status in ((MemoryStore(), "stopped"), (MemoryStore(durable=True), "running")):
        tools = ScriptedTools(first=1, slow=in_turn(hangs(), 2))
        body = line(call("first"), call("slow"))
        task = asyncio.ensure_future(on(store, body, tools))
        await tools.called("slow")
        task.cancel()
        await asyncio.wait([task])
        row = store.get_run("r")
        assert row is not None
        assert row.status == status
        if status == "running":
            assert (await on(store, body, tools))["status"] == "completed"
            assert tools.count("first") == 1


# --- tools that answer in their own way ----------------------------------------------------------


@every_way
async def test_a_tool_that_swallows_its_cancellation_does_not_keep_a_failed_region_going(way: Way) -> None:
    tools = ScriptedTools(swallow=swallows(), bad=fails("no", after=0.005), next=1, after=1)
    inside = block("b", call("swallow"), call("bad"), call("next", after="swallow"), policy=HANDLED)
    done = await way(line(inside, call("after")), tools)
    assert done["status"] == "completed"
    assert (tools.count("next"), tools.count("after")) == (0, 1)


@every_way
async def test_a_tool_that_swallows_its_cancellation_does_not_keep_a_failed_map_going(way: Way) -> None:
    tools = ScriptedTools(swallow=swallows(), bad=fails("no", after=0.005), after=1)
    each_item = block("b", call("swallow"), call("bad"))
    inside = block("whole", each("m", list(range(9)), each_item, limit=2), policy=HANDLED, ordered=True)
    done = await way(line(inside, call("after")), tools)
    assert done["status"] == "completed"
    assert tools.count("swallow") <= 2
    tools = ScriptedTools(odd=in_turn(swallows(), fails("no", after=0.005), 1), after=1)
    done = await way(line(each("m", list(range(9)), call("odd"), limit=2, policy=HANDLED), call("after")), tools)
    assert done["status"] == "completed"
    assert tools.count("odd") == 2


@every_way
async def test_what_was_reported_inside_a_handled_failure_goes_with_it(way: Way) -> None:
    """Whether it was reported in time before the failure depends on time; so it counts in no case."""
    reported = Policy(on_error=OnError(value=Lit(0), reported=True))
    for first in ("early", "late"):
        tools = ScriptedTools(early=fails("e"), late=fails("l", after=0.005), bad=fails("no", after=0.002))
        done = await way(line(block("b", call("r", first, policy=reported), call("bad"), policy=HANDLED)), tools)
        assert (done["status"], done["failures"]) == ("completed", [])
    tools = ScriptedTools(early=fails("e"), t=1)
    done = await way(line(block("b", call("r", "early", policy=reported), call("t"), policy=HANDLED)), tools)
    assert (done["status"], done["failures"]) == ("partial", ["b/r: e"])


@pytest.mark.virtual_time
@every_way
async def test_after_a_swallowed_timeout_the_next_nodes_are_timed_all_the_same(way: Way) -> None:
    tools = ScriptedTools(swallow=swallows(), stuck=hangs(), timeout=0.03)
    done = await way(line(call("swallow"), call("stuck")), tools)
    assert done["status"] == "failed"
    assert tools.calls[-1].status in ("cancelled", "done")


@pytest.mark.virtual_time
@every_way
async def test_the_same_node_is_timed_again_in_the_next_round(way: Way) -> None:
    from ropewalk.ops import Loop

    tools = ScriptedTools(odd=in_turn(_step_swallowing(), hangs()), timeout=0.03)
    body = line(node("l", Loop(body=line(call("odd")), limit=2)))
    done = await way(body, tools)
    assert done["status"] == "failed"


def _step_swallowing() -> Any:
    return swallows()


@pytest.mark.virtual_time
@every_way
async def test_a_swallowed_node_timeout_leaves_no_cancellation(way: Way) -> None:
    tools = ScriptedTools(swallow=swallows(), after=lambda: asyncio.sleep(0, "fine"))
    short = Policy(timeout=0.02, on_error=OnError(value=Lit("late")))
    done = await way(line(call("swallow", policy=short), call("after")), tools)
    assert done["status"] == "completed"
    assert tools.count("after") == 1


@pytest.mark.virtual_time
@every_way
@pytest.mark.parametrize("answer", ["value", "error"])
async def test_a_run_timeout_that_a_tool_answers_is_still_a_timeout(way: Way, answer: str) -> None:
    from engine.lab import flow

    async def tool() -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if answer == "error":
                raise RuntimeError("cleaning up failed") from None
            return 1

    tools = ScriptedTools(odd=tool, after=1)
    done = await way(flow(line(call("odd")), timeout=0.02), tools)
    assert done["status"] == "timeout"


@every_way
async def test_a_tool_that_raises_cancelled_error_itself_has_failed(way: Way) -> None:
    async def tool() -> None:
        raise asyncio.CancelledError

    for body in (line(call("odd")), graph(call("odd"), call("o2", "odd")), line(each("m", [1, 2], call("odd")))):
        done = await way(body, ScriptedTools(odd=tool))
        assert done["status"] == "failed"
        assert "the tool raised CancelledError although nobody cancelled the call" in done["error"]


@every_way
async def test_a_tool_that_raises_timeout_error_itself_has_failed_and_is_not_late(way: Way) -> None:
    tools = ScriptedTools(odd=fails(TimeoutError("the database")))
    done = await way(line(call("odd")), tools)
    assert done["status"] == "failed"
    assert "the database" in done["error"]
    assert "no answer within" not in done["error"]


class Boom(KeyboardInterrupt):
    pass


@every_way
@pytest.mark.parametrize("shape", ["line", "graph"])
async def test_what_is_no_failure_of_a_tool_goes_through_and_leaves_nothing(way: Way, shape: str) -> None:
    def boom() -> None:
        raise Boom

    tools = ScriptedTools(boom=boom, slow=cleans_up())
    body = line(call("boom")) if shape == "line" else graph(call("boom"), call("slow"))
    loop = asyncio.get_running_loop()
    told: list[Any] = []
    loop.set_exception_handler(lambda loop, context: told.append(context))
    with pytest.raises(Boom), leaves_nothing():
        await way(body, tools)
    assert tools.running == 0


@pytest.mark.virtual_time
async def test_stopping_a_run_that_is_timing_out_ends_it_as_stopped() -> None:
    from engine.lab import flow

    cleaning = asyncio.Event()

    async def tool() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await asyncio.sleep(5)

    for store in (MemoryStore(), MemoryStore(durable=True)):
        cleaning.clear()
        engine = Engine(store)
        task = asyncio.ensure_future(engine.run(job(flow(line(call("slow")), timeout=0.01), ScriptedTools(slow=tool))))
        await cleaning.wait()
        assert engine.stop("r")
        assert (await task)["status"] == "stopped"


@pytest.mark.virtual_time
@every_way
async def test_a_block_that_is_late_cancels_what_is_inside(way: Way) -> None:
    tools = ScriptedTools(slow=hangs(), after=1)
    late = Policy(timeout=0.3, on_error=OnError(value=Lit("late")))
    inner = Block(body=graph(call("s1", "slow"), each("m", [1, 2], call("s2", "slow"))))
    done = await way(graph(node("b", inner, policy=late), call("after", after="b")), tools)
    assert done["status"] == "completed"
    assert [c.status for c in tools.calls] == ["cancelled"] * 3 + ["done"]


@pytest.mark.parametrize("way", [in_memory, durably])
async def test_cancelled_before_it_begins_a_run_calls_nothing(way: Way) -> None:
    tools = ScriptedTools(first=1)
    task = asyncio.ensure_future(way(line(call("first")), tools))
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert tools.calls == []
