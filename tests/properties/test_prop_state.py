"""State in graphs, closely: few channels, many writers that may be skipped, fail, or stand in any order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from engine.lab import lit, obj, once, out
from properties.made_flows import World, brief
from properties.reference import Reference
from ropewalk.expr.ast import Arr, Fn, Ref
from ropewalk.ir import Channel, Flow, Graph, Node, OnError, Policy
from ropewalk.ops import Block, Call, Compute
from tiers import examples

pytestmark = pytest.mark.timeout(1800)
STATE = {"last": Channel(initial=0), "list": Channel(reduce="array_append", initial=[])}
LOOK = Compute(value=obj(last=Ref("state", ("last",)), list=Ref("state", ("list",))))
FAILS = Call(tool="bad", args=obj(v=lit(0)))


@st.composite
def graphs(draw: Any) -> Flow:
    """Nodes that look at state and write to it; each after some of the others."""
    count = draw(st.integers(2, 7))
    nodes = []
    for i in range(count):
        id = f"n{i}"
        kind = draw(st.sampled_from(["look", "whole", "fail", "inside"]))
        # A literal: which channels a node writes is not known before it runs.
        known = [obj(last=lit(i)), obj(list=Arr((lit(i),))), obj(last=out(id))]
        writes = draw(st.sampled_from([None, *known, lit({"list": [i]}), lit({"last": i, "list": [i]})]))
        passes = draw(st.sampled_from([None, None, Fn("==", (lit(1), lit(1))), Fn("==", (lit(1), lit(2)))]))
        op: Any = {"look": LOOK, "whole": Compute(value=Ref("state")), "fail": FAILS}.get(kind)
        if op is None:
            inner = Node(id=f"i{i}", op=LOOK, when=passes, writes=writes)
            op, passes = Block(body=Graph(nodes=(inner,), result=out(f"i{i}"))), None
            writes = draw(st.sampled_from([None, obj(list=Arr((Ref("state", ("list",)),)))]))
        gate = draw(st.booleans())
        nodes.append(
            Node(
                id=id,
                op=op,
                after=frozenset(f"n{j}" for j in draw(st.sets(st.integers(0, i - 1), max_size=2)) if i),
                gate=passes if gate else None,
                when=None if gate else passes,
                writes=writes,
                policy=Policy(on_error=OnError(value=lit("failed"))) if kind == "fail" else Policy(),
            )
            if i
            else Node(id=id, op=LOOK, writes=writes)
        )
    nodes = draw(st.permutations(nodes))
    result = obj(**{f"n{i}": out(f"n{i}") for i in range(count)})
    return Flow(name="state", body=Graph(nodes=tuple(nodes), result=result), state=STATE)


@examples(400)
@given(graphs(), st.integers(0, 2**32))
def test_every_node_of_a_graph_sees_the_folded_writes_of_its_ancestors(made: Flow, seed: int) -> None:
    """Invariants 4 and 5."""
    note(brief(made))
    expected = Reference(made)
    ending = asyncio.run(once(made, World(seed)))
    assert (ending.status, ending.value, ending.state) == (expected.status, expected.value, expected.state)
