"""Random flows and their undo against a model in plain Python, which goes forward and then back in reverse."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ropewalk import App, tool
from tiers import examples

Node = tuple[str, Any]
leaves = st.sampled_from([("order", None), ("read", None), ("fail", None)])
nodes = st.one_of(
    st.just(("order", None)),
    leaves,
    st.tuples(st.just("loop"), st.tuples(st.integers(0, 3), st.lists(leaves, min_size=1, max_size=2))),
    st.just(("inner", None)),
)


class Failed(Exception):
    """The model has reached a failing call."""


def model(flow: list[Node], prefix: str, book: list[str]) -> None:
    """Append the orders that a flow makes until it fails."""
    for place, (kind, more) in enumerate(flow):
        if kind == "order":
            book.append(f"{prefix}{place}")
        elif kind == "fail":
            raise Failed
        elif kind == "inner":
            book += ["inner-a", "inner-b"]
        elif kind == "loop":
            count, body = more
            for _ in range(count):
                model(body, f"{prefix}{place}-", book)


def document(flow: list[Node], prefix: str) -> list[dict[str, Any]]:
    made = []
    for place, (kind, more) in enumerate(flow):
        id = f"{prefix}{place}"
        if kind == "loop":
            count, body = more
            made.append({"id": id, "type": "loop", "items": list(range(count)), "nodes": document(body, f"{id}-")})
        else:
            params = {"item": id} if kind in ("order", "read") else {}
            made.append({"id": id, "type": "tool", "tool": kind, "params": params})
    return made


async def undone(flow: list[Node]) -> tuple[list[str], list[str]]:
    """Return the orders of a run, and its cancellations."""
    made: list[str] = []
    cancelled: list[str] = []

    @tool
    async def cancel(number: int, item: str) -> str:
        cancelled.append(item)
        assert made[number] == item
        return item

    @tool(undo=cancel)
    async def order(item: str) -> dict[str, int]:
        made.append(item)
        return {"number": len(made) - 1}

    @tool(annotations={"readOnlyHint": True})
    async def read(item: str) -> str:
        return item

    @tool
    async def fail() -> str:
        raise ValueError("no")

    async with App("memory", tools=[order, cancel, read, fail]) as app:
        pair = [{"id": id, "type": "tool", "tool": "order", "params": {"item": f"inner-{id}"}} for id in "ab"]
        app.toolbox.register(app.as_tool({"kind": "chain", "name": "inner", "nodes": pair}))
        outcome = await app.run({"kind": "chain", "name": "random", "nodes": document(flow, "n")})
        if made:
            report = await app.runs.undo(outcome.run_id)
            assert report["status"] == "undone"
            assert len(report["undone"]) == len(made)
    return made, cancelled


@examples(60)
@given(st.lists(nodes, min_size=1, max_size=6))
def test_an_undo_is_the_run_backwards(flow: list[Node]) -> None:
    expected: list[str] = []
    with contextlib.suppress(Failed):
        model(flow, "n", expected)
    made, cancelled = asyncio.run(undone(flow))
    assert made == expected
    assert cancelled == expected[::-1]
