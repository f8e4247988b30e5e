"""Experiences that die at any write and go on: the same final state, no recorded call again."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from experiences.scripted_nodes import ScriptedNodes
from ropewalk.app.app import App
from ropewalk.errors import StoreError
from ropewalk.journal.memory import MemoryStore
from ropewalk.testing import DyingStore

DOCUMENT: dict[str, Any] = {
    "name": "crash",
    "version": "0.1.0",
    "state": {
        "schema": {
            "rows": {"type": "array", "default": [1, 2, 3]},
            "out": {"type": "array", "merge": "array_append"},
            "n": {"type": "number", "merge": "sum", "default": 0},
            "said": {"type": "string"},
        }
    },
    "graph": {
        "nodes": [
            {"id": "each", "kind": "tool", "impl": "./each.py", "for_each": {"source": "$.rows"}, "writes": ["out"]},
            {"id": "flaky", "kind": "tool", "impl": "./flaky.py", "on_error": {"policy": "retry", "base_ms": 1}},
            {"id": "skipped", "kind": "tool", "impl": "./skipped.py", "on_error": "skip"},
            {"id": "never", "kind": "tool", "impl": "./never.py"},
            {"id": "count", "kind": "tool", "impl": "./count.py", "writes": ["n"]},
            {"id": "say", "kind": "tool", "impl": "./say.py", "writes": ["said"]},
        ],
        "edges": [
            {"from": "each", "to": "loop", "when": "length($.out) == 3"},
            {"from": "skipped", "to": "never"},
            {"from": "loop", "to": "say"},
            {"from": "flaky", "to": "say"},
        ],
        "loops": [{"id": "loop", "body": ["count"], "until": "$.n >= 2"}],
    },
}
SCRIPT: dict[str, Any] = {
    "each": {"delta": {"out": ["$input._item"]}},
    "flaky": [{"fails": "busy"}, {"delta": {}}],
    "skipped": {"fails": "broken"},
    "count": {"delta": {"n": 1}},
    "say": {"delta": {"said": "${ $input._state.n } of ${ length($input._state.out) }"}},
}
FINAL = {"rows": [1, 2, 3], "out": [1, 2, 3], "n": 2, "said": "2 of 3"}
CALLS = ("call", "call_failed")


def recorded(store: Any) -> Counter[str]:
    return Counter(entry.path for entry in store.history("r") if entry.kind in CALLS)


async def ends_after_a_death(at: int, written: bool) -> bool:
    """Die at a write and go on; whether it died at all."""
    dying = DyingStore(MemoryStore(durable=True), at, written=written)
    try:
        await App(dying).run(DOCUMENT, executor=ScriptedNodes(SCRIPT), run_id="r")
        return False
    except StoreError:
        pass
    survivor = await dying.survivor()
    before = recorded(survivor)
    second = DyingStore(survivor)
    # A failure that nobody recorded is met again; one that is recorded is not.
    left = {**SCRIPT, "flaky": SCRIPT["flaky"][min(before["flaky"], 1) :]}
    tools = ScriptedNodes(left)
    result = await App(second).resume("r", executor=tools)
    assert (result.status, result.final_state) == ("partial", FINAL)
    assert [error["nodeId"] for error in result.errors] == ["skipped"]
    again = [entry.path for entry in second.appended if entry.kind in CALLS and entry.path in before]
    assert again == []
    assert len(tools.calls) == sum(1 for entry in second.appended if entry.kind in CALLS)
    return True


@pytest.mark.parametrize("written", [False, True])
def test_a_run_that_dies_at_any_write_goes_on_to_the_same_end(written: bool) -> None:
    """EXP-RUN-7, DUR-1, DUR-2"""

    async def body() -> int:
        at = 1
        while await ends_after_a_death(at, written):
            at += 1
        return at

    assert asyncio.run(asyncio.wait_for(body(), 100)) > 10
