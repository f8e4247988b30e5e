"""Saved plans as tools of chains and plans: each call is a durable run inside the run that makes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ropewalk import App, tool

pytestmark = pytest.mark.anyio
INNER = """
n: int
first = await count(n=n)
ok = await approve(f"Go on with {first}?")
return [first, ok.by, await count(n=2 * n)]
"""
CALLERS: dict[str, dict[str, Any]] = {
    "a chain": {
        "kind": "chain",
        "name": "outer",
        "nodes": [
            {"id": "before", "type": "tool", "tool": "count", "params": {"n": 1}},
            {"id": "inner", "type": "tool", "tool": "plans:steps", "params": {"n": 5}},
        ],
    },
    "a plan": {"kind": "plan", "name": "outer", "code": "await count(n=1)\nreturn await plans.steps(n=5)"},
    "a plan of a model": {
        "kind": "plan",
        "name": "outer",
        "origin": "model",
        "code": "await count(n=1)\nreturn await plans.steps(n=5)",
    },
}


@pytest.mark.parametrize("name", CALLERS)
@pytest.mark.parametrize("store", ["sqlite", "memory"])
async def test_a_saved_plan_waits_inside_its_caller_and_repeats_nothing(name: str, store: str, tmp_path: Path) -> None:
    counted: list[int] = []

    @tool
    async def count(n: int) -> int:
        """Count a number."""
        counted.append(n)
        return n

    url = "memory" if store == "memory" else f"sqlite:///{tmp_path / 'runs.db'}"
    async with App(url, tools=[count]) as app:
        await app.plans.save_plan("steps", INNER, "Count twice.")
        if store == "memory":  # a run in memory cannot be resumed, so it is answered while it runs
            outcome = await app.run(CALLERS[name], run_id="r", on_event=lambda event: _approve(app, event.kind))
        else:
            outcome = await app.run(CALLERS[name], run_id="r", park=True)
            assert outcome["status"] == "waiting", outcome
    if store == "sqlite":
        async with App(url, tools=[count]) as later:  # as another process
            later.runs.approve("r", by="ann")
            outcome = await later.resume("r", park=True)
    assert outcome["status"] == "completed", outcome
    result = outcome["result"] if name != "a chain" else outcome["results"]["inner"]
    assert result == [5, "ann", 10]
    assert counted == [1, 5, 10]


def _approve(app: App, kind: str) -> None:
    if kind == "wait.started":
        app.runs.approve("r", by="ann")
