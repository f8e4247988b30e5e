"""A document that was converted without losses makes the same calls and gives the same value."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import currently_in_test_context, given, note
from hypothesis import strategies as st

from properties import documents
from properties.made_flows import answer
from properties.test_prop_chain_write import built_flows
from ropewalk import App
from ropewalk.errors import InvalidFlow
from ropewalk.expr.ast import NULL
from ropewalk.ir import Graph, nodes_of
from ropewalk.notations.registry import NOTATIONS, value_in
from ropewalk.ops import Block, Map
from ropewalk.source.load import dump
from ropewalk.values import canonical
from tiers import examples

KINDS = ("chain", "composition", "composite", "experience", "runchain", "flow")
MAKERS: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "chain": documents.chain,
    "composition": documents.composition,
    "composite": documents.composite,
    "experience": documents.experience,
    "runchain": documents.runchain,
}


def value_of(kind: str, outcome: dict[str, Any]) -> Any:
    """What a run of each notation gives: see "What is equal" on the page about converting."""
    return value_in(outcome, kind)


async def played(app: App, source: Any, kind: str, n: int) -> dict[str, Any]:
    calls: list[Any] = []
    failed: Counter[bytes] = Counter()

    async def tools(name: str, params: dict[str, Any]) -> Any:
        calls.append((name, params))
        key = canonical([name, params])
        failed[key] += 1
        return answer(name, params, failed[key] - 1)

    outcome = (await app.run(source, {"n": n, "rows": [1, None, "$5"]}, executor=tools)).to_dict()
    done = outcome["status"] in ("completed", "partial")
    return {"status": outcome["status"], "value": value_of(kind, outcome) if done else None, "calls": calls}


def at_once(body: Graph) -> bool:
    """Whether nodes may run at the same time, so that the order of their calls is open."""
    inner = [node.op for node in nodes_of(body)]
    return not body.ordered or any(
        (isinstance(op, Block) and not op.body.ordered) or (isinstance(op, Map) and op.limit != 1) for op in inner
    )


async def compare(source: Any, kind: str, to: str, n: int) -> bool:
    """Convert and run both; True if it could be converted without losses. With losses every loss has a name, and
    what was converted is a document."""
    async with App("memory") as app:
        made = app.convert(source, to, allow_loss=True)
        if currently_in_test_context():
            note(dump(dict(made)))
        if made.losses:
            with pytest.raises(InvalidFlow) as refused:
                app.convert(source, to)
            assert list(refused.value.problems) == list(made.losses)
            app.load(dict(made))
            return False
        before, after = await played(app, source, kind, n), await played(app, dict(made), to, n)
        if (kind, to) == ("flow", "experience") and app.load(source).flow.body.result == NULL:
            after["value"] = None  # a result that is null has no field in the final state
        if at_once(app.load(source).flow.body):
            before["calls"].sort(key=canonical)
            after["calls"].sort(key=canonical)
        assert after == before
        if kind in NOTATIONS and kind not in ("flow", to):
            try:
                back = app.convert(dict(made), kind)
            except InvalidFlow:
                return True  # what the second notation says in its own way
            again = await played(app, dict(back), kind, n)
            assert (again["status"], again["value"]) == (before["status"], before["value"])
        return True


@pytest.mark.parametrize("to", KINDS)
@pytest.mark.parametrize("kind", MAKERS)
@examples(25)
@given(seed=st.integers(0, 10**9), n=st.sampled_from([1, 5]))
def test_a_converted_document_does_the_same(kind: str, to: str, seed: int, n: int) -> None:
    source = MAKERS[kind](random.Random(seed))
    note(dump(source))
    asyncio.run(compare(source, kind, to, n))


@pytest.mark.parametrize("to", KINDS)
@examples(25)
@given(built=built_flows(), n=st.sampled_from([1, 2]))
def test_a_converted_python_flow_does_the_same(to: str, built: Any, n: int) -> None:
    asyncio.run(compare(built, "flow", to, n))


EXPECTED = {"flow": 75, "composition": 74, "experience": 74, "composite": 36}
"""One is a dag in which a node is not reached when another one failed (continue). A composite computes no transform."""


def seeded(seed: int = 7) -> list[dict[str, Any]]:
    """75 random chains."""
    r = random.Random(seed)
    chains = []
    while len(chains) < 75:
        made = documents.chain(r)
        if made["mode"] != "parallel" and made["nodes"][-1]["id"] != "result":
            chains.append(made)
    return chains


@pytest.mark.parametrize("to", EXPECTED)
def test_how_many_of_75_random_chains_are_converted(to: str) -> None:
    async def main() -> tuple[int, int]:
        whole = some = 0
        async with App("memory") as app:
            for chain in seeded():
                try:
                    app.convert(chain, to)
                    whole += 1
                except InvalidFlow:
                    made = app.convert(chain, to, allow_loss=True)
                    some += 1
                    assert made.losses
                    assert all(loss.path and loss.message for loss in made.losses)
                    app.load(dict(made))
        return whole, some

    whole, some = asyncio.run(main())
    assert whole + some == 75
    assert whole == EXPECTED[to]


def test_tools_in_a_row_with_a_declared_result_become_a_composite() -> None:
    async def main() -> None:
        r, rows = random.Random(7), 0
        for chain in seeded(8):
            nodes = [node for node in chain["nodes"] if node["type"] == "tool" and "errorStrategy" not in node]
            if not nodes or any("$output" in str(node) or "$var" in str(node) for node in nodes):
                continue
            for node in nodes:
                node.pop("outputVar", None)
                node.pop("dependsOn", None)
            nodes[-1].pop("condition", None)
            rows += 1
            row = {"kind": "chain", "name": "row", "nodes": nodes, "result": f"$output.{nodes[-1]['id']}"}
            assert await compare(row, "chain", "composite", r.choice([1, 5]))
        assert rows > 20, rows

    asyncio.run(main())
