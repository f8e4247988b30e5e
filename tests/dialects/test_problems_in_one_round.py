"""One mistake gives one problem, and two independent mistakes are both reported in one round, in every notation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from copy import deepcopy
from itertools import combinations
from typing import Any

import pytest

from ropewalk import App, tool

Path = tuple[str | int, ...]
Mistake = tuple[Path, Any, str]
"""Where the document is changed, to what (DELETE: the key is taken out), and the path of the problem."""
DELETE = object()


@tool
def count(n: int, word: str = "") -> dict[str, int]:
    return {"n": n}


CHAIN = {
    "kind": "chain",
    "name": "c",
    "timeout": 1000,
    "variables": {"v": 1},
    "inputSchema": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
    "nodes": [
        {"id": "a", "type": "tool", "tool": "count", "params": {"n": 1, "word": "w"}, "maxRetries": 1},
        {"id": "b", "type": "tool", "tool": "count", "params": {"n": "$output.a.n"}, "condition": "$input.x > 1"},
        {"id": "l", "type": "loop", "items": [1, 2], "nodes": [
            {"id": "i", "type": "tool", "tool": "count", "params": {"n": "$item"}}]},
        {"id": "d", "type": "delay", "delay": 1},
    ],
}  # fmt: skip
CHAIN_MISTAKES: list[Mistake] = [
    (("timeout",), "soon", "timeout"),
    (("mode",), "sideways", "mode"),
    (("inputSchema", "properties", "x", "type"), "whole", "inputSchema.properties.x.type"),
    (("nodes", 0, "params", "word"), 5, "nodes[0].params.word"),
    (("nodes", 0, "maxRetries"), "often", "nodes[0].maxRetries"),
    (("nodes", 0, "retries"), 1, "nodes[0].retries"),
    (("nodes", 1, "params", "n"), "$output.zz.n", "nodes[1].params.n"),
    (("nodes", 1, "condition"), "$input.x >", "nodes[1].condition"),
    (("nodes", 1, "tool"), DELETE, "nodes[1].tool"),
    (("nodes", 2, "nodes", 0, "params"), {}, "nodes[2].nodes[0].params"),
    (("nodes", 2, "maxIterations"), 0, "nodes[2].maxIterations"),
    (("nodes", 3, "delay"), -1, "nodes[3].delay"),
]
COMPOSITION = {
    "kind": "composition",
    "name": "c",
    "timeout": 1000,
    "nodes": [
        {"id": "a", "type": "tool", "tool": "count", "inputMapping": {"n": 1, "word": "w"}},
        {"id": "m", "type": "map", "items": [1, 2], "tool": "count", "inputMapping": {"n": "$item"}},
        {"id": "f", "type": "conditional", "condition": "$output.a.n > 1", "then": 1},
        {"id": "s", "type": "transform", "transform": {"type": "PICK", "config": {"fields": ["a"]}}},
    ],
}
COMPOSITION_MISTAKES: list[Mistake] = [
    (("timeout",), "soon", "timeout"),
    (("concurrency",), 0, "concurrency"),
    (("variables",), 3, "variables"),
    (("nodes", 0, "inputMapping", "word"), 5, "nodes[0].inputMapping.word"),
    (("nodes", 0, "timeout"), "soon", "nodes[0].timeout"),
    (("nodes", 1, "inputMapping", "n"), "$output.zz", "nodes[1].inputMapping.n"),
    (("nodes", 1, "concurrency"), "all", "nodes[1].concurrency"),
    (("nodes", 2, "condition"), "$output.a.n >", "nodes[2].condition"),
    (("nodes", 2, "onError"), "never", "nodes[2].onError"),
    (("nodes", 3, "transform", "type"), "PIC", "nodes[3].transform.type"),
]
COMPOSITE = {
    "kind": "composite",
    "name": "c",
    "timeout": 1000,
    "steps": [
        {"name": "a", "tool": "count", "inputMapping": {"n": 1, "word": "w"}},
        {"name": "b", "tool": "count", "inputMapping": {"n": "$steps[0].n"}, "condition": "$input.x > 1"},
    ],
}
COMPOSITE_MISTAKES: list[Mistake] = [
    (("timeout",), "soon", "timeout"),
    (("strict",), "very", "strict"),
    (("outputSchema",), {"type": "whole"}, "outputSchema.type"),
    (("steps", 0, "inputMapping", "word"), 5, "steps[0].inputMapping.word"),
    (("steps", 0, "description"), 5, "steps[0].description"),
    (("steps", 1, "name"), 5, "steps[1].name"),
    (("steps", 1, "condition"), "$input.x >", "steps[1].condition"),
    (("steps", 1, "tool"), DELETE, "steps[1].tool"),
]
RUN_CHAIN = {
    "kind": "runchain",
    "name": "c",
    "steps": [
        {"toolId": "count", "args": {"n": 1}},
        {"toolId": "count", "args": {"n": 2, "word": "w"}},
        {"toolId": "count", "args": {"n": 3}},
    ],
}
RUN_CHAIN_MISTAKES: list[Mistake] = [
    (("name",), 3, "name"),
    (("description",), 3, "description"),
    (("steps", 0), "count", "steps[0]"),
    (("steps", 1, "toolId"), DELETE, "steps[1].toolId"),
    (("steps", 2, "args", "n"), "three", "steps[2].args.n"),
    (("steps", 2, "usePrevious"), "yes", "steps[2].usePrevious"),
]
AGENT = {"kind": "agent", "name": "c", "prompt": "Count $input.x", "tools": ["count"]}
AGENT_MISTAKES: list[Mistake] = [
    (("timeout",), "soon", "timeout"),
    (("max_rounds",), 0, "max_rounds"),
    (("tool_choice",), {"type": "some"}, "tool_choice.type"),
    (("effort",), "huge", "effort"),
    (("approve",), ["cuont"], "approve[0]"),
    (("prompt",), "Count ${$inptu.x}", "prompt"),
    (("output_schema",), {"type": "whole"}, "output_schema.type"),
    (("stream",), "yes", "stream"),
]
EXPERIENCE = {
    "kind": "experience",
    "name": "c",
    "version": "0.1.0",
    "state": {"schema": {"total": {"type": "number", "default": 0}}},
    "graph": {
        "nodes": [
            {"id": "a", "kind": "call", "tool": "count", "args": {"n": 1, "word": "w"}},
            {
                "id": "b",
                "kind": "call",
                "tool": "count",
                "args": {"n": "$output.a.n"},
                "writes": ["total"],
                "output": "n",
            },
            {"id": "d", "kind": "delay", "delay": 1},
        ],
        "edges": [{"from": "a", "to": "b", "when": "$output.a.n > 0"}, {"from": "b", "to": "d"}],
    },
}  # fmt: skip
EXPERIENCE_MISTAKES: list[Mistake] = [
    (("version",), "one", "version"),
    (("runtime",), {"concurrency": "all"}, "runtime.concurrency"),
    (("state", "schema", "total", "default"), "none", "state.schema.total.default"),
    (("graph", "nodes", 0, "args", "word"), 5, "graph.nodes[0].args.word"),
    (("graph", "nodes", 0, "on_error"), "ignore", "graph.nodes[0].on_error"),
    (("graph", "nodes", 1, "writes"), ["totl"], "graph.nodes[1].writes[0]"),
    (("graph", "nodes", 2, "delay"), "long", "graph.nodes[2].delay"),
    (("graph", "edges", 0, "when"), "$output.a.n >", "graph.edges[0].when"),
    (("graph", "edges", 1, "to"), "dd", "graph.edges[1].to"),
]
NOTATIONS = {
    "chain": (CHAIN, CHAIN_MISTAKES),
    "composition": (COMPOSITION, COMPOSITION_MISTAKES),
    "composite": (COMPOSITE, COMPOSITE_MISTAKES),
    "runchain": (RUN_CHAIN, RUN_CHAIN_MISTAKES),
    "agent": (AGENT, AGENT_MISTAKES),
    "experience": (EXPERIENCE, EXPERIENCE_MISTAKES),
}


def with_mistakes(document: dict[str, Any], *mistakes: Mistake) -> dict[str, Any]:
    changed = deepcopy(document)
    for path, value, _ in mistakes:
        holder: Any = changed
        for key in path[:-1]:
            holder = holder[key]
        if value is DELETE:
            del holder[path[-1]]
        else:
            holder[path[-1]] = value
    return changed


def combined(mistakes: list[Mistake]) -> Iterator[tuple[Mistake, ...]]:
    yield from ((mistake,) for mistake in mistakes)
    yield from combinations(mistakes, 2)


@pytest.mark.parametrize("notation", NOTATIONS)
def test_each_mistake_is_one_problem_and_two_are_reported_together(notation: str) -> None:
    document, mistakes = NOTATIONS[notation]

    async def differences() -> list[tuple[list[str], list[str]]]:
        found = []
        async with App("memory", tools=[count]) as app:
            assert (await app.validate(document)).problems == ()
            for chosen in combined(mistakes):
                checked = await app.validate(with_mistakes(document, *chosen))
                expected = sorted(path for _, _, path in chosen)
                if sorted(problem.path for problem in checked.problems) != expected:
                    found.append((expected, [str(problem) for problem in checked.problems]))
        return found

    assert asyncio.run(differences()) == []
