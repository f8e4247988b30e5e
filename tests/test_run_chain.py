"""`Runner.run_chain`: steps in order, each seeing the result before where it asks for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ropewalk.errors import ToolNotFound
from ropewalk.runchain import Runner
from ropewalk.tools.steps import ChainStep
from ropewalk.tools.tool import tool
from ropewalk.tools.toolbox import Toolbox


@tool
def add(a: int, previous: int = 0) -> int:
    """Add."""
    return a + previous


def chain(*steps: Any) -> Any:
    return asyncio.run(Runner(Toolbox([add])).run_chain(steps))


def test_steps_run_in_order_and_see_the_result_before_where_they_ask_for_it() -> None:
    done = chain(ChainStep("add", {"a": 1}), ChainStep("add", {"a": 2}, use_previous=True), ChainStep("add", {"a": 5}))
    assert [step.result.structured for step in done.steps] == [1, 3, 5]


def test_the_first_error_ends_it_and_carries_the_steps_so_far() -> None:
    with pytest.raises(ToolNotFound) as caught:
        chain(ChainStep("add", {"a": 1}), ChainStep("ad"), ChainStep("add", {"a": 1}))
    assert [(step.tool_id, step.error is None) for step in caught.value.steps] == [("add", True), ("ad", False)]


def test_what_is_no_step_is_told_with_what_a_step_is() -> None:
    with pytest.raises(TypeError, match=r"steps\[1\] is a tuple, not a step: ChainStep\(tool_id, args, use_previous\)"):
        chain(ChainStep("add", {"a": 1}), ("add", {"a": 1}))
