"""`Runner.run_chain`: steps in order, each seeing the result before where it asks for it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from ropewalk.api.run_chain import Runner
from ropewalk.errors import ToolNotFound, ValidationFailed
from ropewalk.tools import ChainStep
from ropewalk.tools.tool import ProgressEvent, tool
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


@pytest.mark.parametrize("second", ["add", "ad"])
def test_a_progress_callback_may_be_async_and_sees_everything_in_order(second: str) -> None:
    steps = [ChainStep("add", {"a": 1}), ChainStep(second, {"a": 2})]

    async def told(callback: Any) -> None:
        with contextlib.suppress(ToolNotFound):
            await Runner(Toolbox([add])).run_chain_with_progress(steps, callback)

    plain: list[Any] = []
    asyncio.run(told(plain.append))
    ends = "step_completed" if second == "add" else "step_error"
    assert plain == [ProgressEvent(0, 2, "started"), ProgressEvent(1, 2, "step_completed"), ProgressEvent(2, 2, ends)]
    later: list[Any] = []

    async def slow(event: ProgressEvent) -> None:
        for _ in range(3 - int(event.progress)):  # the first takes the longest
            await asyncio.sleep(0)
        later.append(event)

    asyncio.run(told(slow))
    assert later == plain


def test_a_progress_callback_that_raises_is_logged_and_the_chain_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(event: ProgressEvent) -> None:
        raise ValueError(event.message)

    done = asyncio.run(Runner(Toolbox([add])).run_chain_with_progress([ChainStep("add", {"a": 1})], broken))
    assert done.final.structured == 1
    assert [str(record.exc_info[1]) for record in caplog.records] == ["started", "step_completed"]


@pytest.mark.parametrize(("args", "kind"), [([1], "list"), ("x", "str"), ([], "list")])
def test_arguments_that_are_no_object_are_told_before_anything_runs(args: Any, kind: str) -> None:
    told: list[Any] = []
    steps = [ChainStep("add", {"a": 1}), ChainStep("add", args), ChainStep("other", args)]
    with pytest.raises(ValidationFailed) as caught:
        asyncio.run(Runner(Toolbox([add])).run_chain_with_progress(steps, told.append))
    said = [f"steps[{i}].args: arguments must be an object, not {kind}" for i in (1, 2)]
    assert [str(problem) for problem in caught.value.problems] == said
    assert [(step.tool_id, step.error) for step in caught.value.steps] == [("add", caught.value)]
    assert told == []


def test_what_is_no_list_of_steps_is_told() -> None:
    with pytest.raises(TypeError, match=r"^steps are a list of ChainStep, not ChainStep$"):
        asyncio.run(Runner(Toolbox([add])).run_chain(ChainStep("add", {"a": 1})))  # type: ignore[arg-type]


def test_what_is_no_step_is_told_with_what_a_step_is() -> None:
    with pytest.raises(TypeError, match=r"steps\[1\] is a tuple, not a step: ChainStep\(tool_id, args, use_previous\)"):
        chain(ChainStep("add", {"a": 1}), ("add", {"a": 1}))
