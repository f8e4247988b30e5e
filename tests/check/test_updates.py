"""Whether a read of the state certainly sees a written value: what the check infers, and what runs do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ropewalk.check import check
from ropewalk.check.inference import infer
from ropewalk.engine.engine import run_flow
from ropewalk.expr.ast import NULL, Arr, Fn, Lit, Ref
from ropewalk.ir import Channel, Flow, Graph, Node, OnError, Policy
from ropewalk.ops import Block, Branch, Compute, Loop, Map, Require
from ropewalk.tools.runner import Runner
from ropewalk.tools.toolbox import Toolbox

from .flows import Cards, compute, dag, flow, node, obj, ordered

INITIAL, WRITTEN = {"initial": 1}, {"written": 1}
YES = Ref("input", ("yes",))
FALLBACK = Policy(on_error=OnError(value=Lit("fallback")))
DISCARDS = Policy(on_error=OnError(value=Lit("fallback"), writes=False))


LOOK = obj(seen=Arr((Ref("state", ("x",)),)))


def write(id: str = "w", value: Any = WRITTEN, **more: Any) -> Node:
    return compute(id, NULL, writes=obj(x=Lit(value)), **more)


def read(**more: Any) -> Node:
    """Collect what the channel holds. The value, which no run needs, is a property that only the initial value has."""
    value = Fn("?:", (Ref("input", ("never",)), Ref("state", ("x", "initial")), NULL))
    return node("r", Compute(value=value), writes=LOOK, **more)


def fail(id: str = "q") -> Node:
    return node(id, Require(value=NULL, holds=YES, message=Lit("no")))


def block(id: str, *nodes: Node, **more: Any) -> Node:
    return node(id, Block(body=ordered(*nodes)), **more)


def choice(yes: tuple[Node, ...], no: tuple[Node, ...] | None = None, **more: Any) -> Node:
    default = ordered(*no) if no is not None else None
    return node("c", Branch(arms=((YES, ordered(*yes)),), default=default), **more)


def loop(id: str, *nodes: Node, **more: Any) -> Node:
    return node(id, Loop(body=ordered(*nodes), **more))


def each(id: str, *nodes: Node, items: Any = (1, 2)) -> Node:
    return node(id, Map(items=Lit(list(items)), body=ordered(*nodes)))


def after(*ids: str) -> dict[str, Any]:
    return {"after": frozenset(ids)}


NEXT_ROUND = Fn("<", (Ref("round"), Lit(1)))

CERTAIN = {
    "before, in a sequence": ordered(write(), read()),
    "long before": ordered(write(), compute("a"), read()),
    "a dependency": dag(write(), read(**after("w"))),
    "a dependency of a dependency": dag(write(), compute("a", **after("w")), read(**after("a"))),
    "a later node that depends on it, listed first": dag(read(**after("w")), write()),
    "in a block before": ordered(block("b", write()), read()),
    "in blocks of blocks": ordered(block("b", block("d", write())), block("e", block("g", read()))),
    "before, in the same block": ordered(block("b", write(), read())),
    "before, in the same arm": ordered(choice((write(), read()), (compute("n", writes=obj(seen=Lit([WRITTEN]))),))),
    "before the choice": ordered(write(), choice((read(),), (compute("n", writes=obj(seen=Lit([WRITTEN]))),))),
    "before a block in a loop": ordered(loop("l", write(), block("b", read()), limit=2)),
    "before a map": ordered(write(), each("m", read())),
    "earlier in the same iteration": ordered(loop("l", write(), read(), limit=2)),
    "in a loop that always begins": ordered(loop("l", write(), limit=2), read()),
    "in a loop until something holds": ordered(loop("l", write(), until=Lit(True), limit=3), read()),
    "with a fallback that keeps writes": ordered(write(policy=FALLBACK), read()),
    "by one of two that certainly runs": ordered(write("v", when=YES), write(), read()),
    "by one in a choice and one after it": ordered(choice((write("v"),)), write(), read()),
}
"""Every run that reads sees a written value."""

UNCERTAIN = {
    "after, in a sequence": ordered(read(), write()),
    "at the same time": dag(read(), write()),
    "a dependent": dag(read(), write(**after("r"))),
    "itself": ordered(compute("r", writes=obj(seen=Arr((Ref("state", ("x",)),)), x=Lit(WRITTEN)))),
    "with a condition": ordered(write(when=YES), read()),
    "with a gate": ordered(write(gate=YES), read()),
    "in a block with a condition": ordered(block("b", write(), when=YES), read()),
    "in a block with a gate": ordered(block("b", write(), gate=YES), read()),
    "with a condition, in a block": ordered(block("b", write(when=YES)), read()),
    "in one arm": ordered(choice((write(),)), read()),
    "in the arm that does not run": ordered(choice((write(),), (read(),))),
    "in the default": ordered(choice((compute("a"),), (write(),)), read()),
    "in a map of items": ordered(each("m", write(), items=()), read()),
    "in a loop over items": ordered(loop("l", write(), items=Lit([])), read()),
    "in a loop with a condition": ordered(loop("l", write(), again=YES, limit=1), read()),
    "later in the same iteration": ordered(loop("l", read(), write(), limit=2)),
    "with a fallback that discards writes": ordered(block("b", write(), fail(), policy=FALLBACK), read()),
    "in a block whose fallback discards writes": ordered(block("b", fail(), write(), policy=DISCARDS), read()),
    "after a failure, in a block with a fallback": ordered(block("b", fail(), write(), policy=FALLBACK), read()),
}
"""Some run reads the initial value."""

CAUTIOUS = {
    "in both arms": ordered(choice((write("v"),), (write(),)), read()),
    "in a map that has items": ordered(each("m", write()), read()),
    # For a reader in a loop, the check does not look at what ran before the loop.
    "before a loop": ordered(write(), loop("l", read(), limit=2)),
}
"""Every run that reads sees a written value, but nothing is inferred."""


SCENES = CERTAIN | UNCERTAIN | CAUTIOUS


def make_flow(body: Graph, **channel: Any) -> Flow:
    channels = {"x": Channel(**{"initial": INITIAL, **channel}), "seen": Channel(reduce="array_append", initial=[])}
    return flow(body, state=channels)


def is_known_to_be_written(made: Flow) -> bool:
    """Return True if the check knows that the reader never sees the initial value."""
    return any("has no 'initial'" in problem.message for problem in check(made).problems)


def final_states(made: Flow) -> list[dict[str, Any]]:
    """Run a flow with both inputs, and return the states at the end."""
    runner = Runner(Toolbox())
    inputs = ({"yes": yes, "never": False} for yes in (True, False))
    return [asyncio.run(run_flow(made, runner, input)).state for input in inputs]


@pytest.mark.parametrize("name", SCENES)
def test_what_is_known_of_a_read_holds_in_every_run(name: str) -> None:
    made = make_flow(SCENES[name])
    seen = [value for state in final_states(made) for value in state["seen"]]
    assert seen
    assert (INITIAL in seen) == (name in UNCERTAIN)
    assert is_known_to_be_written(made) == (name in CERTAIN)


@pytest.mark.parametrize("name", SCENES)
def test_a_field_of_the_final_state_is_required_where_every_run_writes_it(name: str) -> None:
    made = make_flow(SCENES[name], initial=None, present=False)
    schema = infer(made, Cards(), "state")
    assert schema is not None
    is_written = all("x" in state for state in final_states(made))
    assert ("x" in schema["required"]) == (is_written and name not in ("in both arms", "in a map that has items"))
    assert schema["properties"]["x"]["type"] == "object"


@pytest.mark.parametrize(("reduce", "is_known"), [("last_wins", True), ("set_once", True), ("object_merge", False)])
def test_only_a_reducer_that_stores_the_update_gives_its_type(reduce: str, is_known: bool) -> None:
    assert is_known_to_be_written(make_flow(ordered(write(), read()), reduce=reduce)) == is_known


@pytest.mark.parametrize("count", [2, 8, 9])
def test_a_read_may_see_the_value_of_any_writer(count: int) -> None:
    writers = [write(f"w{i}", {f"k{i}": i}) for i in range(count)]
    problems = [str(problem) for problem in check(make_flow(ordered(*writers, read()))).problems]
    names = ", ".join(f"k{i}" for i in range(count))
    # More writers than eight are not told apart.
    assert problems == ([f"r.value: 'state.x' has no 'initial'; it has: {names}"] if count <= 8 else [])


def test_writes_whose_names_are_unknown_may_be_writes_of_any_channel() -> None:
    unknown = compute("u", writes=Ref("input", ("anything",)))
    for body in (ordered(write(), unknown, read()), ordered(unknown, write(), read())):
        assert not is_known_to_be_written(make_flow(body))
    schema = infer(make_flow(ordered(write(), unknown)), Cards(), "state")
    assert schema is not None
    assert schema["properties"]["x"] in ({}, True)


@pytest.mark.parametrize("is_ordered", [True, False])
def test_a_write_of_another_channel_says_nothing(is_ordered: bool) -> None:
    nodes = (compute("w", writes=obj(seen=Lit([WRITTEN]))), read(**({} if is_ordered else after("w"))))
    assert not is_known_to_be_written(make_flow(ordered(*nodes) if is_ordered else dag(*nodes)))
