"""How many run at once: never more than the limit, and as many where there is work."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.lab import Way, call, each, every_way, graph, line, lit, node, once
from ropewalk.ir import Graph
from ropewalk.ops import Map
from ropewalk.testing import ScriptedTools, gives, held
from tiers import examples


@every_way
@pytest.mark.parametrize("limit", [1, 2, 7])
async def test_a_graph_reaches_its_limit_and_keeps_it(way: Way, limit: int) -> None:
    tools = ScriptedTools(t=gives(1, after=0.002))
    done = await way(graph(*[call(f"n{i}", "t") for i in range(20)], limit=limit), tools)
    assert (done["status"], tools.peak, tools.count("t")) == ("completed", limit, 20)


@every_way
@pytest.mark.parametrize("limit", [1, 2, 7, None])
async def test_a_map_reaches_its_limit_and_keeps_it(way: Way, limit: int | None) -> None:
    tools = ScriptedTools(t=gives(1, after=0.002))
    done = await way(line(each("m", list(range(20)), call("t"), limit=limit)), tools)
    assert (done["status"], tools.peak, tools.count("t")) == ("completed", limit or 20, 20)


@every_way
async def test_without_a_limit_everything_that_can_runs_at_once(way: Way) -> None:
    tools = ScriptedTools(t=held(1))
    task = asyncio.ensure_future(way(graph(*[call(f"n{i}", "t") for i in range(50)]), tools))
    await tools.called("t", 50)
    tools.release("t", 50)
    assert (await task)["status"] == "completed"


@every_way
async def test_work_that_becomes_ready_late_fills_the_limit_again(way: Way) -> None:
    """First there is one node at a time, of which each worker could be the last one awake."""
    tools = ScriptedTools(quick=gives(1, after=0.001), t=held(1))
    body = graph(
        call("a", "quick"), call("b", "quick"), call("c", "quick", after="b"), call("d", "quick", after="c"),
        *[call(f"t{i}", "t", after="d") for i in range(6)], limit=3,
    )  # fmt: skip
    task = asyncio.ensure_future(way(body, tools))
    await tools.called("t", 3)
    assert tools.count("t") == 3
    tools.release("t", 6)
    await task
    assert tools.peak == 3


@every_way
async def test_a_node_waits_only_for_what_it_needs(way: Way) -> None:
    """No barrier between levels."""
    tools = ScriptedTools(slow=held(1), quick=1, last=1)
    body = graph(call("slow"), call("quick"), call("last", after="quick"))
    task = asyncio.ensure_future(way(body, tools))
    await tools.called("last")
    tools.release("slow")
    assert (await task)["status"] == "completed"


@every_way
async def test_limits_inside_limits_multiply_and_no_more(way: Way) -> None:
    tools = ScriptedTools(t=gives(1, after=0.002))
    inner = Graph(nodes=tuple(call(f"n{i}", "t") for i in range(6)), limit=2)
    body = line(node("m", Map(items=lit([1, 2, 3, 4, 5]), body=inner, limit=3)))
    await way(body, tools)
    assert tools.peak == 6


@examples(25)
@given(st.lists(st.tuples(st.integers(0, 4), st.sets(st.integers(0, 14), max_size=3)), max_size=15), st.integers(1, 4))
def test_no_limit_is_ever_exceeded(shape: list[tuple[int, set[int]]], limit: int) -> None:
    async def work(steps: int) -> None:
        for _ in range(steps):
            await asyncio.sleep(0)

    tools: Any = ScriptedTools(t=work)
    from engine.lab import obj

    nodes = [
        call(f"n{i}", "t", obj(steps=lit(steps)), after={f"n{j}" for j in after if j < i})
        for i, (steps, after) in enumerate(shape)
    ]
    ending = asyncio.run(once(graph(*nodes, limit=limit), tools))
    assert ending.status == "completed"
    assert tools.peak <= limit
