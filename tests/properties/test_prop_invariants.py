"""The nine invariants of the house, each by its number; `test_every_invariant_has_a_test` counts them.

4 to 9 are also what the comparisons with the plain interpreter and the crashes are about.
"""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

from engine.lab import call, compute, flow, graph, job, line, lit, node, obj, once, out, turns
from properties.made_flows import World, brief, flows
from properties.reference import Reference
from ropewalk.check import check
from ropewalk.engine.engine import Engine
from ropewalk.expr.ast import Ref
from ropewalk.ir import Flow, Graph, Node, node_parts
from ropewalk.journal.memory import MemoryStore
from ropewalk.ops import Compute, Loop, Map
from ropewalk.testing import ScriptedTools, held
from tiers import examples

INPUT = {"n": 2}
pytestmark = pytest.mark.timeout(1800)


def regions(body: Graph) -> Iterator[Graph]:
    yield body
    for one in body.nodes:
        for _, part in node_parts(one):
            if isinstance(part, Graph):
                yield from regions(part)


def with_node(body: Graph, new: Node) -> Graph:
    return replace(body, nodes=(*body.nodes, new))


def problems(what: Flow, body: Graph) -> list[str]:
    return [str(p) for p in check(replace(what, body=body)).problems]


@examples(30)
@given(flows(), st.data())
def test_ids_are_unique_regions_acyclic_and_loops_bounded(made: Flow, data: Any) -> None:
    """Invariant 1."""
    body = made.body
    ids = [one.id for region in regions(body) for one in region.nodes]
    assert len(ids) == len(set(ids))
    twice = data.draw(st.sampled_from([one.id for one in body.nodes]))
    assert any(twice in p for p in problems(made, with_node(body, compute(twice))))
    endless = node("endless", Loop(body=line(compute("inside"))))
    assert any("endless" in p for p in problems(made, with_node(body, endless)))
    ring = (compute("r1", after="r2"), compute("r2", out("r1")))
    if not body.ordered:
        assert problems(made, replace(body, nodes=(*body.nodes, *ring)))


@examples(30)
@given(flows())
def test_a_reference_reaches_only_ancestors_and_enclosing_regions(made: Flow) -> None:
    """Invariant 2."""
    inner = [one.id for region in list(regions(made.body))[1:] for one in region.nodes]
    for id in inner:
        assert problems(made, with_node(made.body, compute("peeps", out(id)))), f"{id} is inside another region"
    first = replace(made.body, nodes=(compute("early", out(made.body.nodes[-1].id)), *made.body.nodes), ordered=True)
    assert problems(made, first), "a node of a line reads a later one"
    assert problems(made, with_node(made.body, compute("lost", out("nobody"))))


@examples(40)
@given(flows(), st.integers(0, 2**32), st.booleans(), st.booleans())
def test_no_run_changes_its_definition_or_its_input(made: Flow, seed: int, direct: bool, durable: bool) -> None:
    """Invariant 3, with tools that spoil whatever they are given (see `World`)."""
    note(brief(made))

    before, given_input = copy.deepcopy(made), copy.deepcopy(INPUT)
    engine = Engine(MemoryStore(durable=durable))
    asyncio.run(engine.run(job(made, World(seed, direct=direct), input=INPUT)))
    assert made == before
    assert given_input == INPUT


@examples(40)
@given(flows(), st.integers(0, 2**32), st.booleans())
def test_a_definition_may_be_run_any_number_of_times_and_gives_the_same(made: Flow, seed: int, durable: bool) -> None:
    """Invariant 3: nothing of a run is left in flow, program, or literals."""
    note(brief(made))

    async def test() -> None:
        engine = Engine(MemoryStore(durable=durable))
        results = []
        for number in range(2):
            result = await engine.run(job(made, World(seed), str(number), input=INPUT))
            results.append((result["status"], result["value"], result["state"]))
        assert results[0] == results[1]

    asyncio.run(test())


async def _seen(first_done: bool) -> Any:
    """What a node sees of a sibling that is no ancestor of it, done before it or not."""
    tools = ScriptedTools(writer=held(1), look=held(2))
    body = flow(
        graph(
            call("above", "writer", writes=obj(a=lit("above"))),
            call("beside", "writer", writes=obj(a=lit("beside"), b=lit("beside"))),
            call("look", writes=obj(seen=Ref("state"))),
            call("below", "look", after=("above", "look"), writes=obj(seen=Ref("state"))),
            result=Ref("state"),
        ),
        state={"a": 0, "b": 0, "seen": None},
    )
    task = asyncio.ensure_future(once(body, tools))
    await tools.called("look")
    for name in ("writer", "look") if first_done else ("look", "writer"):
        tools.release(name, 2)
        await turns(50)
    return (await task).value


def test_a_node_sees_what_its_ancestors_wrote_and_never_whatever_has_finished() -> None:
    """Invariant 4."""
    values = [asyncio.run(_seen(first_done)) for first_done in (True, False)]
    assert values[0] == values[1]
    # Of two writers side by side the later declared wins; what `below` saw were `above` and `look` alone.
    assert values[0]["a"] == "beside"
    assert {k: values[0]["seen"][k] for k in ("a", "b")} == {"a": "above", "b": 0}
    assert values[0]["seen"]["seen"]["a"] == 0


@examples(40)
@given(flows(), st.integers(0, 2**32))
def test_writes_fold_in_declared_order_under_any_timing(made: Flow, seed: int) -> None:
    """Invariant 5."""
    note(brief(made))
    states = [asyncio.run(once(made, World(seed + n), INPUT)).state for n in range(4)]
    assert all(state == states[0] for state in states)


@examples(40)
@given(flows(), st.integers(0, 2**32))
def test_a_failed_region_leaves_no_writes(made: Flow, seed: int) -> None:
    """Invariant 6: a flow inside a handled block that fails at its very end leaves state as it was."""
    from ropewalk.ir import OnError, Policy
    from ropewalk.ops import Block, Call

    assume(Reference(made, INPUT).status != "failed")
    last = Node(id="fails", op=Call(tool="bad", args=obj(v=lit(1))))
    inner = Graph(nodes=(Node(id="whole", op=Block(body=made.body)), last), ordered=True)
    tried = Node(id="tried", op=Block(body=inner), policy=Policy(on_error=OnError(value=lit("handled"))))
    outer = Node(id="before", op=Compute(value=lit(0)), writes=obj(last=lit("before")))
    whole = replace(made, body=line(outer, tried, result=out("tried")))
    note(brief(whole))
    ending = asyncio.run(once(whole, World(seed), INPUT))
    start = {name: c.initial for name, c in made.state.items() if c.present}
    assert (ending.value, ending.state) == ("handled", {**start, "last": "before"})


@examples(40)
@given(flows(), st.integers(0, 2**32))
def test_paths_do_not_depend_on_time(made: Flow, seed: int) -> None:
    """Invariant 7."""
    note(brief(made))

    async def paths(world: World) -> tuple[set[Any], Any]:
        store = MemoryStore(durable=True)
        await Engine(store).run(job(made, world, input=INPUT))
        return {(e.path, e.kind, e.digest) for e in store.history("r")}, world.started

    found = [asyncio.run(paths(World(None if n == 0 else seed + n))) for n in range(3)]
    assert found[0] == found[1] == found[2]


def test_a_map_remembers_its_items_before_the_first_of_them_is_worked_on() -> None:
    """Invariants 8 and 9, in little; the crashes try every position."""
    store = MemoryStore(durable=True)
    seen: list[Any] = []
    tools = ScriptedTools(t=lambda: seen.append([e.kind for e in store.history("r")]))
    body = line(node("m", Map(items=lit([1]), body=line(call("t")))))
    asyncio.run(Engine(store).run(job(body, tools)))
    assert seen == [["items"]]


def test_every_invariant_has_a_test() -> None:
    here = Path(__file__).parents[1]
    text = "".join(
        p.read_text("utf-8") for folder in ("properties", "engine") for p in (here / folder).glob("test_*.py")
    )
    named = set()
    for numbers in re.findall(r'"""Invariants? (\d(?:(?: to | and |, )\d)*)', text):
        low, *more = (int(n) for n in re.findall(r"\d", numbers))
        named |= set(range(low, more[-1] + 1)) if " to " in numbers else {low, *more}
    assert named == set(range(1, 10))
