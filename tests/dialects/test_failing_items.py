"""Loops over items: outputs that collect into state, and failures that leave the other items' results."""

import asyncio

import pytest

from ropewalk import App, tool
from ropewalk.errors import InvalidFlow


@tool
def up(s: str) -> str:
    """Write a word in capitals."""
    if s == "bad":
        raise ValueError("bad item")
    return s.upper()


@tool
def pair(s: str) -> list[str]:
    """Return a word twice."""
    return [s, s]


def run(document: dict, words: list[str]):
    async def once():
        async with App("memory", tools=[up, pair]) as app:
            return await app.run(document, {"words": words})

    return asyncio.run(once())


def fan_out(field: dict, **node) -> dict:
    return {
        "kind": "experience",
        "name": "fan_out",
        "version": "0.1.0",
        "inputSchema": {"type": "object", "properties": {"words": {"type": "array", "items": {"type": "string"}}}},
        "state": {"schema": {"words": {"type": "array"}, "out": field}},
        "graph": {
            "nodes": [
                {"id": "a", "kind": "call", "tool": "up", "args": {"s": "$item"}, "writes": ["out"]}
                | {"for_each": {"source": "$.words"}}
                | node
            ]
        },
    }


@pytest.mark.parametrize(
    ("merge", "node", "words", "expected"),
    [
        ("array_append", {}, ["a", "b", "a"], ["A", "B", "A"]),
        ("union", {}, ["a", "b", "a"], ["A", "B"]),
        ("array_append", {"tool": "pair"}, ["a", "b"], ["a", "a", "b", "b"]),
        ("array_append", {"on_error": "skip"}, ["a", "bad", "c"], ["A", "C"]),
        ("array_append", {"on_error": "continue"}, ["a", "bad", "c"], ["A", "C"]),
    ],
)
def test_a_for_each_over_a_call_collects_into_state(merge, node, words, expected):
    outcome = run(fan_out({"type": "array", "merge": merge}, **node), words)
    assert outcome.result["out"] == expected


def test_a_field_that_keeps_one_item_says_how_to_collect():
    with pytest.raises(
        InvalidFlow, match=r"each item writes a string\. To collect them, declare out with merge: array_"
    ):
        run(fan_out({"type": "array"}), ["a"])


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize(("strategy", "status"), [("continue", "partial"), ("skip", "completed")])
def test_a_loop_that_survives_failures_keeps_the_other_results(strategy, status, concurrency):
    node = {"id": "a", "type": "tool", "tool": "up", "params": {"s": "$item"}}
    loop = {"id": "l", "type": "loop", "items": "$input.words", "errorStrategy": strategy, "nodes": [node]}
    document = {"kind": "chain", "name": "c", "nodes": [{**loop, "concurrency": concurrency}]}
    outcome = run(document, ["a", "bad", "c"])
    assert (outcome.status, outcome.result) == (status, {"l": ["A", None, "C"]})
