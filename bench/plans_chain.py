"""The run time of plans against chains of the same calls, both already compiled. A time is CPU time of the process."""

from __future__ import annotations

import statistics
import time
from typing import Any

from ropewalk import App, tool

CALLS = 10


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def chain() -> dict[str, Any]:
    """Return a chain of calls, each with the result of the one before."""
    sources = ["$input.n", *(f"$output.s{number}" for number in range(CALLS - 1))]
    nodes = [
        {"id": f"s{number}", "type": "tool", "tool": "add", "params": {"a": source, "b": 1}}
        for number, source in enumerate(sources)
    ]
    return {"kind": "chain", "name": "calls", "nodes": nodes}


def plan() -> dict[str, Any]:
    """Return a plan of the same calls."""
    lines = ["n: int", "x0 = await add(a=n, b=1)"]
    lines += [f"x{i} = await add(a=x{i - 1}, b=1)" for i in range(1, CALLS)]
    return {"kind": "plan", "name": "calls", "code": "\n".join([*lines, f"return x{CALLS - 1}"])}


async def measure(count: int) -> None:
    """Print the medians of `count` runs of each, in turns, and their ratio."""
    took: dict[str, list[float]] = {"chain": [], "plan": []}
    async with App("memory", tools=[add]) as app:
        definitions = {"chain": app.definitions.load(chain()), "plan": app.definitions.load(plan())}
        for number in range(count + 3):
            for name, definition in definitions.items():
                began = time.process_time()
                outcome = await app.run(definition, {"n": number})
                if number >= 3:  # the first runs compile
                    took[name].append(1000 * (time.process_time() - began))
                outcome.raise_if_failed()
    chain_ms, plan_ms = statistics.median(took["chain"]), statistics.median(took["plan"])
    ratio = plan_ms / chain_ms
    print(f"{CALLS} calls, {count} runs: chain {chain_ms:.2f} ms, plan {plan_ms:.2f} ms, ratio {ratio:.2f}")
