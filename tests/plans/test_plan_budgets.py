"""Budgets of tokens and US dollars: they cover the models that a plan's run calls through agents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App
from ropewalk.errors import InvalidInput
from ropewalk.testing import ScriptedModel

pytestmark = pytest.mark.anyio

AGENT = {"kind": "agent", "name": "summarize", "prompt": "go", "description": "Summarize."}
FIVE = "return [await summarize() for i in range(5)]"


@asynccontextmanager
async def app_with_agent(path: Path, cost: float | None = 0.25) -> AsyncIterator[tuple[App, ScriptedModel]]:
    """Open an app whose agent uses 100 tokens a turn."""
    model = ScriptedModel("ok", usage={"input_tokens": 60, "output_tokens": 40}, cost=cost)
    async with App(f"sqlite:///{path / 'runs.db'}", model=model) as app:
        app.toolbox.register(app.as_tool(AGENT))
        yield app, model


@pytest.mark.parametrize(
    ("budget", "turns", "message"),
    [
        ({"tokens": 500}, 5, None),
        ({"tokens": 499, "cost": 9, "calls": 99}, 5, None),
        ({"tokens": 300}, 3, "the budget of 300 tokens is used up"),
        ({"tokens": 201}, 3, "the budget of 201 tokens is used up"),
        ({"tokens": 0}, 0, "the budget of 0 tokens is used up"),
        ({"cost": 1.25}, 5, None),
        ({"cost": 0.5}, 2, "the budget of 0.5 US dollars is used up"),
        ({"cost": 9, "tokens": 1}, 1, "the budget of 1 token is used up"),
    ],
)
async def test_a_call_is_made_only_within_the_budget(
    tmp_path: Path, budget: dict[str, Any], turns: int, message: str | None
) -> None:
    async with app_with_agent(tmp_path) as (app, model):
        answer: Any = await app.plans.run_plan(FIVE, budget=budget)
        assert len(model.requests) == turns
        if message is None:
            assert answer["status"] == "completed"
            return
        assert answer["status"] == "failed"
        assert message in answer["error"]["message"]
        await app.plans.resume_run(answer["runId"])  # what is recorded counts
        assert len(model.requests) == turns


async def test_dollars_are_not_limited_without_a_price(tmp_path: Path) -> None:
    async with app_with_agent(tmp_path, cost=None) as (app, model):
        answer: Any = await app.plans.run_plan(FIVE, budget={"cost": 5})
        assert answer["status"] == "failed"
        assert "limit tokens instead of cost" in answer["error"]["message"]
        assert len(model.requests) == 1
        assert (await app.plans.run_plan(FIVE, budget={"tokens": 5000}))["status"] == "completed"


async def test_every_wrong_limit_is_named(tmp_path: Path) -> None:
    async with app_with_agent(tmp_path) as (app, _):
        with pytest.raises(InvalidInput) as caught:
            await app.plans.run_plan(FIVE, budget={"tokens": 1.5, "cost": -1, "money": 3, "seconds": True})
    paths = {problem.path for problem in caught.value.problems}
    assert paths == {"budget.tokens", "budget.cost", "budget.money", "budget.seconds"}
