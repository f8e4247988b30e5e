"""Jumps in lists of nodes, few and many: what runs is what one finds who goes through the list; gates stay short."""

from __future__ import annotations

import asyncio
import random
from itertools import count
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from ropewalk.app.app import App
from ropewalk.expr.ast import refs
from ropewalk.notations.chain.compile import MAX_LISTED_JUMPS
from ropewalk.notations.chain.render import compile_document
from tiers import examples

Fields = dict[str, Any]
ROUNDS = 2


def made(chance: random.Random, size: int) -> list[Fields]:
    """Nodes that lead to a few they share, or to any that is later; some are skipped."""
    nodes: list[Fields] = [{"id": f"n{i}", "type": "tool", "tool": "t"} for i in range(size)]
    shared = sorted(chance.sample(range(size), min(size, 4)))
    often = chance.choice((0.2, 0.9, 1.0))
    for i, node in enumerate(nodes):
        node["params"] = {"node": i, "round": "$index"}
        for key in ("onSuccess", "onError"):
            later = [to for to in shared if to > i] if chance.random() < 0.7 else range(i + 1, size)
            if later and chance.random() < (often if key == "onError" else often / 4):
                node[key] = f"n{chance.choice(later)}"
        if chance.random() < 0.1:
            node["condition"] = "false"
    return nodes


def walked(nodes: list[Fields], failing: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """The calls, as one finds them who goes through the list and jumps where it says so."""
    found = []
    for turn in range(ROUNDS):
        i = 0
        while i < len(nodes):
            to = None
            if "condition" not in nodes[i]:
                found.append((i, turn))
                to = nodes[i].get("onError" if (i, turn) in failing else "onSuccess")
            i = int(to[1:]) if to else i + 1
    return found


@examples(60)
@given(
    seed=st.integers(0, 2**32), size=st.sampled_from([3, 8, 30, 90, 200]), share=st.sampled_from([0.02, 0.1, 0.5, 1])
)
def test_jumps_lead_where_they_say(seed: int, size: int, share: float) -> None:
    """CHAIN-NODE-6"""
    chance = random.Random(seed)
    nodes = made(chance, size)
    failing = {(i, turn) for i in range(size) for turn in range(ROUNDS) if chance.random() < share}
    note(nodes)
    called: list[tuple[int, int]] = []

    async def call(name: str, params: Fields) -> None:
        called.append((params["node"], params["round"]))
        if called[-1] in failing:
            raise RuntimeError("failed")

    async def body() -> None:
        async with App("memory") as app:
            each = {"id": "each", "type": "loop", "items": list(range(ROUNDS)), "nodes": nodes}
            await app.chains.create_chain(id="c", errorStrategy="skip", timeout=0, nodes=[each])
            result = await app.chains.execute_chain("c", None, call)
            assert (result.status, result.errors) == ("completed", [])

    asyncio.run(body())
    assert called == walked(nodes, failing)


def to_one(size: int) -> list[Fields]:
    return [{"onError": f"n{size - 1}"} for _ in range(size - 1)]


def to_two(size: int) -> list[Fields]:
    """Each to the last on failure, and to the one after the next when it went well."""
    return [{"onError": f"n{size - 1}", "onSuccess": f"n{min(i + 2, size - 1)}"} for i in range(size - 1)]


def to_fifty_on(size: int) -> list[Fields]:
    return [{"onSuccess": f"n{min(i + 50, size - 1)}"} for i in range(size - 1)]


@pytest.mark.parametrize("routes", [to_one, to_two, to_fifty_on])
def test_gates_grow_with_the_number_of_nodes(routes: Any) -> None:
    """CHAIN-NODE-6. Who checks, compiles and asks them goes through all of each."""
    size = 1000
    ids = ({"id": f"n{i}", "type": "delay", "delay": 0} for i in count())
    nodes = [{**node, **more} for node, more in zip(ids, [*routes(size), {}], strict=False)]
    body = compile_document({"id": "c", "nodes": nodes}).flow.body
    read = sum(len(list(refs(node.gate))) for node in body.nodes if node.gate is not None)
    assert 0 < read <= (MAX_LISTED_JUMPS + 3) * size
