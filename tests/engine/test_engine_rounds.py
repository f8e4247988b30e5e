"""Rounds of loops: what is recorded of each, while they run, when one fails, and with regions inside."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from engine.lab import Way, block, call, compute, every_way, flow, job, line, lit, node, obj, out
from ropewalk import App, tool
from ropewalk.engine.engine import Engine
from ropewalk.expr.ast import Fn, Ref
from ropewalk.ir import Graph, Policy, Retry
from ropewalk.journal.memory import MemoryStore
from ropewalk.ops import Loop
from ropewalk.testing import ScriptedTools, fails, hangs, in_turn

ROUND = Ref("round", ())


def rounds(*nodes: Any, limit: int = 3, **more: Any) -> Graph:
    loop = Loop(body=line(*nodes, result=out(nodes[-1].id)), limit=limit, **more)
    return line(node("l", loop), result=out("l"))


FLAT = rounds(call("a", "t", obj(x=ROUND)), compute("b", obj(seen=out("a"))))
NESTED = rounds(call("a", "t", obj(x=ROUND)), block("in", compute("b", obj(seen=out("a"))), result=out("b")))


def record(store: MemoryStore, run_id: str = "r") -> dict[str, Any]:
    return {entry.path: entry.data for entry in store.history(run_id) if entry.kind in ("call", "node")}


@every_way
async def test_each_round_sees_its_number_and_gives_its_value(way: Way) -> None:
    ended = await way(flow(FLAT), ScriptedTools(t=lambda x: x * 10))
    assert ended["value"] == [{"seen": 0}, {"seen": 10}, {"seen": 20}]


@pytest.mark.parametrize("body", [FLAT, NESTED], ids=["flat", "nested"])
@pytest.mark.parametrize("durable", [False, True])
async def test_the_record_has_every_round_under_its_own_path(body: Graph, durable: bool) -> None:
    store = MemoryStore(durable=durable)
    await Engine(store).run(job(flow(body), ScriptedTools(t=lambda x: x * 10)))
    found = record(store)
    assert {path: found[path] for path in found if path.endswith("/a")} == {"l[0]/a": 0, "l[1]/a": 10, "l[2]/a": 20}


async def test_rounds_follow_each_other_in_the_record() -> None:
    store = MemoryStore()
    await Engine(store).run(job(flow(FLAT), ScriptedTools(t=lambda x: x)))
    steps = [entry for entry in store.history("r") if entry.path.startswith("l[")]
    assert [entry.path for entry in steps] == [f"l[{i}]/{id}" for i in range(3) for id in "ab"]
    assert all(entry.started <= entry.ended for entry in steps)
    assert all(one.ended <= next.started for one, next in pairwise(steps))


async def test_a_round_under_way_is_looked_at_with_those_before() -> None:
    store, tools = MemoryStore(), ScriptedTools(t=in_turn(1, 2, hangs()))
    engine = Engine(store)
    task = asyncio.ensure_future(engine.run(job(flow(FLAT), tools)))
    await tools.called("t", 3)
    assert record(store) == {"l[0]/a": 1, "l[0]/b": {"seen": 1}, "l[1]/a": 2, "l[1]/b": {"seen": 2}}
    assert engine.live["r"].position() == "a"
    engine.stop("r")
    assert (await task)["status"] == "stopped"


@pytest.mark.parametrize("body", [FLAT, NESTED], ids=["flat", "nested"])
async def test_a_failure_names_its_round_and_keeps_those_before(body: Graph) -> None:
    store = MemoryStore()
    ended = await Engine(store).run(job(flow(body), ScriptedTools(t=in_turn(1, 2, fails("down")))))
    assert ended["failures"] == ["l[2]/a: down"]
    assert [path for path in record(store) if path.endswith("/a")] == ["l[0]/a", "l[1]/a"]


@every_way
async def test_a_loop_that_counts_in_state_ends_with_its_last_round(way: Way) -> None:
    more = Fn("<", (Ref("state", ("n",)), lit(4)))
    body = line(compute("step", Fn("+", (Ref("state", ("n",)), lit(1))), writes=obj(n=out("step"))), result=out("step"))
    for given in ({"again": more}, {"until": Fn("!", (more,))}):
        made = flow(line(node("l", Loop(body=body, limit=10, **given)), result=out("l")), state={"n": 0})
        ended = await way(made, ScriptedTools())
        assert (ended["value"], ended["state"]) == ([1, 2, 3, 4], {"n": 4})


@every_way
async def test_conditions_that_fail_between_rounds_are_the_loops_failure(way: Way) -> None:
    body = Loop(body=line(call("a"), result=out("a")), limit=3, until=Fn("<", (out("a"), lit(1))))
    ended = await way(flow(line(node("l", body))), ScriptedTools(a="x"))
    assert ended["status"] == "failed"
    assert [text.split(":")[0] for text in ended["failures"]] == ["l"]


@every_way
async def test_before_a_round_prev_is_what_its_first_node_gets(way: Way) -> None:
    body = line(compute("a", Fn("+", (Ref("prev"), lit(1)))), compute("b", lit(9)), result=out("a"))
    loop = Loop(body=body, limit=9, again=Fn("<", (Ref("prev"), lit(4))))
    ended = await way(flow(line(compute("one", lit(1)), node("l", loop), result=out("l"))), ScriptedTools())
    assert ended["value"] == [2, 3, 4]


@pytest.mark.parametrize("durable", [False, True])
async def test_the_record_of_a_round_says_which_attempt_gave_its_value(durable: bool) -> None:
    store, twice = MemoryStore(durable=durable), Policy(retry=Retry(attempts=2))
    tools = ScriptedTools(t=in_turn(fails("once"), 1, 2, fails("again"), 3))
    await Engine(store).run(job(flow(rounds(call("a", "t", policy=twice))), tools))
    calls = [(entry.path, entry.data) for entry in store.history("r") if entry.kind == "call"]
    assert calls == [("l[0]/a@2", 1), ("l[1]/a", 2), ("l[2]/a@2", 3)]


@pytest.mark.parametrize("more", [{"until": "false"}, {"while": "true"}, {"while": "true", "maxIterations": 3}])
def test_a_loop_whose_condition_never_ends_it_ends_at_its_limit(more: dict[str, Any]) -> None:
    ran: list[int] = []

    @tool
    def count() -> int:
        """Count the rounds."""
        ran.append(1)
        return len(ran)

    loop = {"id": "l", "type": "loop", **more, "nodes": [{"id": "i", "type": "tool", "tool": "count"}]}

    async def case() -> Any:
        async with App("memory", tools=[count]) as app:
            return await app.run({"kind": "chain", "nodes": [loop]})

    assert asyncio.run(case()).status == "completed"
    assert len(ran) == more.get("maxIterations", 10)
