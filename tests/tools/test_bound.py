"""Tools bound for the engine: the same pipeline, built once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ropewalk.errors import (
    ExecutionFailed,
    NoBackends,
    OutputValidationFailed,
    ToolError,
    ToolNotFound,
    ToolTimeout,
    ValidationFailed,
)
from ropewalk.tools.bound_call import Bound
from ropewalk.tools.runner import ExecutorCaller, Runner
from ropewalk.tools.tool import Tool, ToolBackend, tool
from ropewalk.tools.toolbox import Toolbox
from ropewalk.values import NOT_JSON, fresh


@tool
async def half(n: int) -> int:
    """Half of an even number."""
    if n % 2:
        raise ValueError("odd")
    return n // 2


@tool
def thread(n: int) -> int:
    return n


@tool
async def wrong() -> int:
    return "text"  # type: ignore[return-value]


async def spoils(rows: list[int]) -> int:
    rows.clear()
    return 0


RUNNER = Runner(Toolbox([half, thread, wrong, spoils, Tool("bare", "", {})]))


async def directly(bound: Bound, args: dict[str, Any]) -> Any:
    """What an engine does with the parts of a call."""
    parts = bound.direct
    assert parts is not None
    try:
        if parts.check is not None and (parts.fits is None or not parts.fits(args)):
            parts.check(args)
        raw = await parts.handler(**fresh(args))
    except Exception as error:
        raise parts.failed(error) from error
    value = parts.take(raw)
    return parts.settle(raw)[0] if value is NOT_JSON else value


async def outcome(call: Any) -> Any:
    try:
        return await call
    except ToolError as error:
        return type(error), str(error), [p.path for p in error.problems]


@pytest.mark.parametrize(
    ("tool_id", "args"),
    [
        ("half", {"n": 4}),
        ("half", {"n": 3}),
        ("half", {"n": "x"}),
        ("half", {}),
        ("wrong", {}),
        ("spoils", {"rows": [1]}),
    ],
)
def test_run_call_and_its_parts_agree(tool_id: str, args: dict[str, Any]) -> None:
    async def case() -> None:
        bound = RUNNER.bind(tool_id)

        async def value() -> Any:
            return (await RUNNER.run(tool_id, args)).structured

        expected = await outcome(value())
        assert await outcome(bound.call(args)) == expected
        assert await outcome(directly(bound, args)) == expected
        assert args in ({}, {"rows": [1]}) or "n" in args

    asyncio.run(case())


def test_result_is_ours_whatever_the_handler_does_with_it_afterwards() -> None:
    kept: list[int] = [1]

    async def shares() -> dict[str, Any]:
        return {"kept": kept}

    async def case() -> None:
        bound = Runner(Toolbox([shares])).bind("shares")
        found = [await bound.call({}), await directly(bound, {})]
        kept.append(2)
        assert found == [{"kept": [1]}, {"kept": [1]}]

    asyncio.run(case())


def test_parts_are_for_coroutine_handlers_only() -> None:
    assert RUNNER.bind("half").direct is not None
    assert RUNNER.bind("thread").direct is None


def test_bound_keeps_tool_backend_and_timeout() -> None:
    bound = RUNNER.bind("half")
    assert bound.tool is not None
    assert (bound.tool.id, bound.backend, bound.timeout) == ("half", ToolBackend.local("half"), 60)
    assert RUNNER.bind("half") is bound


@pytest.mark.parametrize(("tool_id", "kind"), [("absent", ToolNotFound), ("bare", NoBackends), ("", ToolError)])
def test_binding_what_cannot_be_run_raises_at_once(tool_id: str, kind: type[ToolError]) -> None:
    with pytest.raises(kind):
        RUNNER.bind(tool_id)


def test_binding_follows_the_index() -> None:
    box = Toolbox([half])
    runner = Runner(box)
    before, version = runner.bind("half"), runner.version
    box.register(half, handler=thread)
    assert runner.version != version
    assert runner.bind("half") is not before
    box.remove("half")
    with pytest.raises(ToolNotFound):
        runner.bind("half")


def test_with_resolvers_a_bound_tool_resolves_at_each_call() -> None:
    answers = [half, thread]

    async def resolver(tool_id: str) -> Any:
        from ropewalk.tools.tool import tool_from

        return tool_from(answers.pop(0)) if answers else None

    async def case() -> None:
        bound = Runner(tool_resolver=resolver).bind("anything")
        assert bound.direct is None
        assert await bound.call({"n": 4}) == 2
        assert await bound.call({"n": 4}) == 4
        with pytest.raises(ToolNotFound):
            await bound.call({"n": 4})

    asyncio.run(case())


def test_call_takes_a_timeout_and_cancels_at_it() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    async def case() -> None:
        with pytest.raises(ToolTimeout):
            await Runner(Toolbox([forever])).bind("forever").call({}, None, 0.02)

    asyncio.run(case())


def test_cancelled_caller_calls_nothing() -> None:
    called: list[int] = []

    async def note() -> None:
        called.append(1)

    async def case() -> None:
        async def caller() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await Runner(Toolbox([note])).bind("note").call({})

        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(caller())

    asyncio.run(case())
    assert called == []


def test_tool_called_while_a_cancelled_caller_cleans_up_still_runs() -> None:
    async def case() -> int:
        async def caller() -> Any:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return await RUNNER.bind("half").call({"n": 4})

        task = asyncio.create_task(caller())
        await asyncio.sleep(0)
        task.cancel()
        found: int = await task
        return found

    assert asyncio.run(case()) == 2


@pytest.mark.parametrize("style", ["async", "sync"])
def test_executor_of_ones_own_is_called_with_name_and_params(style: str) -> None:
    async def later(name: str, params: dict[str, Any]) -> Any:
        return [name, params]

    def now(name: str, params: dict[str, Any]) -> Any:
        return [name, params]

    async def case() -> None:
        caller = ExecutorCaller(later if style == "async" else now)
        bound = caller.bind("any name/at all")
        assert await bound.call({"a": 1}) == ["any name/at all", {"a": 1}]
        assert (bound.direct is not None) is (style == "async")
        assert caller.bind("any name/at all") is bound
        assert caller.version == 0
        with pytest.raises(ToolNotFound):
            caller.bind("")

    asyncio.run(case())


def test_executor_that_fails_or_gives_no_json_is_reported() -> None:
    async def executor(name: str, params: dict[str, Any]) -> Any:
        if name == "set":
            return object()
        raise OSError("down")

    async def case() -> None:
        caller = ExecutorCaller(executor)
        for failing in (caller.bind("x").call({}), directly(caller.bind("x"), {})):
            with pytest.raises(ExecutionFailed, match="x: down"):
                await failing
        with pytest.raises(OutputValidationFailed, match="object is not JSON"):
            await caller.bind("set").call({})
        with pytest.raises(ValidationFailed):
            await RUNNER.bind("half").call({"n": None})

    asyncio.run(case())
