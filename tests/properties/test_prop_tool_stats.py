"""The statistics of tools and the success rates are the same with every store, also with one that keeps no journal."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

from ropewalk import App, ToolError, tool
from ropewalk.app.runs.statistics import success_rates

SEED = 39
FLOWS = 30


class Tools:
    """Tools that work, fail, or fail every second time."""

    def __init__(self) -> None:
        self.calls = 0

    def list(self) -> list[Any]:
        @tool
        async def works(n: int) -> int:
            return n

        @tool
        async def fails(n: int) -> int:
            raise ToolError(f"no luck with {n}")

        @tool
        async def flaky(n: int) -> int:
            self.calls += 1
            if self.calls % 2:
                raise ValueError("every second time")
            return n

        @tool
        def thread(n: int) -> int:
            return n if n < 5 else 1 // 0

        return [works, fails, flaky, thread]


def node_of(dice: random.Random, id: str, depth: int = 0) -> dict[str, Any]:
    more = dice.choice(
        [
            {},
            {"errorStrategy": "continue"},
            {"errorStrategy": "skip"},
            {"errorStrategy": "fallback", "fallback": {"seen": "$error.message"}},
            {"errorStrategy": "retry", "maxRetries": dice.randint(1, 2), "retryDelay": 0},
        ]
    )
    if depth < 2 and dice.random() < 0.3:
        nodes = [node_of(dice, f"{id}{i}", depth + 1) for i in range(2)]
        return {"id": id, "type": "loop", "items": [1, 2], "nodes": nodes, **more}
    n: Any = dice.choice([dice.randint(0, 9), "$var.n", "${$var.list.toolong}", "$var.text"])
    name = dice.choice(["works", "fails", "flaky", "thread"])
    return {"id": id, "type": "tool", "tool": name, "params": {"n": n}, **more}


async def run_all(store: str) -> list[Any]:
    """Run the flows, and return after each one its outcome and what is counted of all so far."""
    dice, seen = random.Random(SEED), list[Any]()
    async with App(store, tools=Tools().list()) as app:
        for i in range(FLOWS):
            nodes = [node_of(dice, f"n{j}") for j in range(dice.randint(1, 4))]
            variables = {"n": 7, "text": "seven", "list": [1]}
            flow = {"kind": "chain", "name": f"c{i}", "variables": variables, "nodes": nodes}
            outcome = await app.run(flow, run_id=f"r{i}")
            counted: Any = app.runs.tool_stats()["tools"]
            of_tools = [{key: one[key] for key in ("tool", "calls", "failed", "lastError")} for one in counted]
            seen.append((nodes, outcome.status, of_tools, success_rates(app.context)))
    return seen


def test_a_store_without_a_journal_counts_the_same_calls_and_failures(tmp_path: Path) -> None:
    in_memory, in_sqlite = (asyncio.run(run_all(store)) for store in ("memory", str(tmp_path / "runs.db")))
    assert {status for _, status, _, _ in in_memory} == {"completed", "partial", "failed"}
    for of_memory, of_sqlite in zip(in_memory, in_sqlite, strict=True):
        assert of_memory == of_sqlite
