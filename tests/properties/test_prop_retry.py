"""Runs that fail, retried until they are done: the same answer as of a run that never failed, and nothing is called
again without need."""

from __future__ import annotations

import asyncio
import copy
import re
from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import assume, given, note
from hypothesis import strategies as st

from engine.lab import job
from properties.made_flows import FLAKY, World, answer, brief, flows, spoil
from properties.reference import Reference
from ropewalk.app.runs.instances import Instances
from ropewalk.app.runs.rerun import plan_retry
from ropewalk.app.runs.rerun_plan import latest_failures
from ropewalk.engine.engine import Engine
from ropewalk.ir import NO_POLICY, Flow, Graph, Node, OnError, bodies
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.protocol import Entry
from ropewalk.ops import Branch, Call
from ropewalk.tools.backends.route import Route
from ropewalk.tools.bound_call import Bound, Rules, bind_route
from tiers import examples

INPUT = {"n": 2}


class Unlucky(World):
    """Calls fail by chance, a few times in all, and give what they always give when they do not."""

    def __init__(self, seed: int, failures: int) -> None:
        super().__init__(seed)
        self.left, self.calls = failures, list[str]()

    def bind(self, tool: str) -> Bound:
        async def send(args: Any, key: Any, timeout: Any, on_progress: Any) -> Any:
            await self._pause()
            assert self.random is not None
            self.calls.append(key)
            if self.left and self.random.random() < 0.5:
                self.left -= 1
                raise RuntimeError("no luck")
            try:
                return copy.deepcopy(answer(tool, args, FLAKY.get(tool, 0)))
            finally:
                spoil(args)

        return bind_route(tool, None, None, Route(send=send), Rules())


def simple(graph: Graph, keep: Any) -> Graph:
    """The region without tools that always fail, every policy replaced."""
    return replace(graph, nodes=tuple(_simple(node, keep) for node in graph.nodes))


def _simple(node: Node, keep: Any) -> Node:
    op = node.op
    if isinstance(op, Call):
        return replace(node, op=replace(op, tool="mix" if op.tool == "bad" else op.tool), policy=keep(node))
    if isinstance(op, Branch):
        arms = tuple((test, simple(body, keep)) for test, body in op.arms)
        op = replace(op, arms=arms, default=simple(op.default, keep) if op.default is not None else None)
    elif bodies(node):
        op = replace(op, body=simple(op.body, keep))  # type: ignore[type-var]
    return replace(node, op=op, policy=NO_POLICY)


def bare_of_policies(node: Node) -> Any:
    return NO_POLICY


def reported(node: Node) -> Any:
    return replace(NO_POLICY, on_error=OnError(reported=True)) if int(node.id[1:]) % 4 else NO_POLICY


async def retried(flow: Flow, engine: Engine, world: Any) -> tuple[dict[str, Any], list[str]]:
    """Retry once; the result, and the keys of what must not be called: the calls recorded outside the cone."""
    store = engine.store
    row = store.get_run("r")
    assert row is not None
    log = await store.reopen("r", again=True)
    again = plan_retry(flow, row, list(log.past.values()), store, ())
    await log.forget(again.keys)
    kept = [e.path for e in log.past.values() if e.kind == "call"]
    return await engine.drive(job(flow, world, input=INPUT), log), kept


def key_of(path: str) -> str:
    return "r/" + re.sub(r"@\d+", "", path)


@examples(60)
@given(flows(most=14), st.integers(0, 2**32), st.integers(1, 5), st.integers(0, 3))
def test_a_run_retried_until_it_is_done_gives_what_one_gives_that_never_failed(
    made: Flow, seed: int, unlucky: int, handled: int
) -> None:
    flow = replace(made, body=simple(made.body, reported if handled else bare_of_policies))
    note(brief(flow))
    expected = Reference(flow, INPUT) if not has_flaky(flow) else None
    world, calm = Unlucky(seed, unlucky), Unlucky(seed, 0)

    async def test() -> None:
        whole = await Engine(MemoryStore(durable=True)).run(job(flow, calm, input=INPUT))
        assume(len(calm.calls) > 2)
        engine = Engine(MemoryStore(durable=True))
        result = await engine.run(job(flow, world, input=INPUT))
        for _ in range(20):
            if result["status"] == "completed" or (whole["status"] == result["status"] == "failed" and not world.left):
                break
            before = len(world.calls)
            result, kept = await retried(flow, engine, world)
            again = set(world.calls[before:]) & {key_of(path) for path in kept}
            assert not again, f"called again: {again}"
        assert (result["status"], result["value"], result["state"]) == (
            whole["status"],
            whole["value"],
            whole["state"],
        )
        if expected is not None and whole["status"] == "completed":
            assert (result["value"], result["state"]) == (expected.value, expected.state)

    asyncio.run(test())


def has_flaky(flow: Flow) -> bool:
    found = [flow.body]
    for graph in found:
        for node in graph.nodes:
            found += bodies(node)
            if isinstance(node.op, Call) and node.op.tool in FLAKY:
                return True
    return False


@examples(60)
@given(flows(most=14), st.integers(0, 2**32), st.data())
def test_from_any_node_only_what_depends_on_it_is_called_again(made: Flow, seed: int, data: Any) -> None:
    """With tools that give the same again, the same result; no node outside the cone is called."""
    flow = replace(made, body=simple(made.body, bare_of_policies))
    note(brief(flow))
    world = Unlucky(seed, 0)

    async def test() -> None:
        engine = Engine(MemoryStore(durable=True))
        first = await engine.run(job(flow, world, input=INPUT))
        found = Instances(flow.body, engine.store.history("r"))
        ids = sorted({one.node.id for one in found.current()})
        if first["status"] != "completed" or not ids:
            return
        row = engine.store.get_run("r")
        assert row is not None
        name = data.draw(st.sampled_from(ids))
        log = await engine.store.reopen("r", again=True)
        again = plan_retry(flow, row, list(log.past.values()), engine.store, [name])
        gone = {path for path, kind in again.keys if kind == "call"}
        await log.forget(again.keys)
        before = len(world.calls)
        second = await engine.drive(job(flow, world, input=INPUT), log)
        assert Counter(world.calls[before:]) == Counter(key_of(path) for path in gone)
        assert {**second, "failures": []} == {**first, "failures": []}

    asyncio.run(test())


def test_nothing_is_done_again_of_a_run_in_which_nothing_failed() -> None:
    assert list(latest_failures(Instances(Graph(nodes=()), [Entry("a", "call")]))) == []
