"""What a runner tells its learner and the log, what it binds, and what progress reports give."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from ropewalk.errors import (
    ConfigError,
    ExecutionFailed,
    InvalidInput,
    InvalidValue,
    NoBackends,
    OutputValidationFailed,
    ToolError,
    ToolNotFound,
    ValidationFailed,
)
from ropewalk.tools.runner import MAX_LOGGED, ExecutorCaller, Runner, log_text, logged
from ropewalk.tools.tool import ProgressEvent, Tool, ToolBackend
from ropewalk.tools.toolbox import Toolbox


def double(n: int) -> int:
    """Double a number."""
    if n == 0:
        raise ValueError("no zero")
    return 2 * n if n > 0 else "text"  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("args", "error", "learned"),
    [
        ({"n": 2}, None, [True]), ({"n": 0}, ExecutionFailed, [False]), ({"n": -1}, OutputValidationFailed, [False]),
        ({"n": "x"}, ValidationFailed, []), ({}, ValidationFailed, []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("request_", ["double it", None])
def test_a_learner_hears_how_each_call_for_a_request_ended(
    args: Any, error: type[Exception] | None, learned: list[bool], request_: str | None
) -> None:
    heard: list[tuple[str, Mapping[str, bool]]] = []
    runner = Runner(
        Toolbox([double], strict_output=True), learner=lambda request, used: heard.append((request, dict(used)))
    )
    call = runner.run("double", args, request=request_)
    if error is None:
        assert asyncio.run(call).structured == 4
    else:
        with pytest.raises(error):
            asyncio.run(call)
    assert heard == ([("double it", {"double": outcome}) for outcome in learned] if request_ else [])


def test_a_request_is_text_for_a_learner() -> None:
    with pytest.raises(ConfigError, match="request needs a learner"):
        asyncio.run(Runner(Toolbox([double])).run("double", {"n": 1}, request="x"))
    for wrong in (1, b"x", "\ud800"):
        with pytest.raises((InvalidInput, InvalidValue), match="request"):
            asyncio.run(Runner(Toolbox([double]), learner=print).run("double", {"n": 1}, request=wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize("watches", [True, False])
@pytest.mark.parametrize(("n", "end"), [(2, "completed"), (0, "error")])
def test_a_call_with_progress_gives_its_result(watches: bool, n: int, end: str) -> None:
    events: list[ProgressEvent] = []
    call = Runner(Toolbox([double])).run_with_progress("double", {"n": n}, events.append if watches else None)
    if end == "error":
        with pytest.raises(ExecutionFailed):
            asyncio.run(call)
    else:
        assert asyncio.run(call).structured == 4
    shown = [(event.progress, event.total, event.message) for event in events]
    assert shown == ([(0, 1, "started"), (1, 1, end)] if watches else [])


class Index:
    """An index that has a tool, perhaps with a backend, and no version."""

    def __init__(self, backends: list[ToolBackend]) -> None:
        self.listed, self.asked = backends, 0

    def get(self, id: str) -> Tool | None:
        self.asked += 1
        return Tool("t", "", {}) if id == "t" else None

    def backends(self, id: str) -> list[ToolBackend]:
        return self.listed


def test_what_cannot_run_is_refused_when_it_is_bound() -> None:
    runner = Runner(Index([]), local={}.get)
    with pytest.raises(NoBackends) as raised:
        runner.bind("t")
    assert (raised.value.op, str(raised.value.cause)) == ("resolve", "no backends available")
    with pytest.raises(ToolNotFound):
        runner.bind("u")
    with pytest.raises(InvalidInput, match="a Tool"):
        runner.bind_handler("t", print)  # type: ignore[arg-type]


def test_only_an_index_with_a_version_is_asked_once() -> None:
    index = Index([ToolBackend.local("h")])
    runner = Runner(index, local={"h": lambda: 1}.get)
    for _ in range(3):
        runner.bind("t")
    assert index.asked == 3  # it may have changed
    box = Toolbox([double])
    runner = Runner(box)
    assert runner.bind("double") is runner.bind("double")
    first = runner.bind("double")
    box.register(Tool("other", "", {}), lambda: 1)
    assert runner.bind("double") is not first


def test_an_index_that_fails_is_a_failure_to_resolve() -> None:
    class Broken(Index):
        def get(self, id: str) -> Tool | None:
            raise OSError("no disk")

    with pytest.raises(ToolError) as raised:
        asyncio.run(Runner(Broken([])).run("t"))
    assert (raised.value.op, raised.value.reason) == ("resolve", "no disk")


# --- the log -------------------------------------------------------------------------------------


def tell(value: Any) -> int:
    """Give back anything, although a number was promised."""
    return value  # type: ignore[no-any-return]


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING])
@pytest.mark.parametrize(
    ("value", "shown", "recorded"),
    [
        (7, "7", None),
        ("text", '"text"', {"value": "text"}),
        ({"token": "abc"}, '{"token":"***"}', {"value": {"token": "abc"}}),
    ],
)
def test_a_logged_tool_logs_its_input_and_result(
    value: Any, shown: str, recorded: Any, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    bound = logged(Runner(Toolbox([tell], strict_output=True)).bind("tell"), "tell")
    caplog.set_level(level, "ropewalk.tools")
    if recorded is None:
        assert asyncio.run(bound.call({"value": value})) == value
    else:
        with pytest.raises(OutputValidationFailed) as raised:
            asyncio.run(bound.call({"value": value}))
        assert raised.value.result is not None
        assert raised.value.result.value == recorded
    kind = "result" if recorded is None else "rejected result"
    wanted = [f'tool tell input: {{"value":{shown}}}', f"tool tell {kind}: {shown}"]
    assert [record.getMessage() for record in caplog.records] == (wanted if level == logging.INFO else [])


def test_a_logged_result_in_an_envelope_is_shown_without_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ropewalk.tools")

    async def envelope(name: str, args: Any) -> Any:
        return {"value": {"a": 1}}

    asyncio.run(logged(ExecutorCaller(envelope).bind("any"), "any").call({}))
    assert caplog.records[-1].getMessage() == 'tool any result: {"a":1}'


def test_log_text_is_short_and_without_secrets() -> None:
    secrets = {"password": "p", "list": [{"api_key": "k", "plain": 1}], "token": None}
    assert log_text(secrets) == '{"password":"***","list":[{"api_key":"***","plain":1}],"token":null}'
    longest = "x" * (MAX_LOGGED - 2)
    assert log_text(longest) == f'"{longest}"'
    assert log_text(longest + "x") == f'"{longest}…'


def test_an_executor_needs_a_name_and_a_function() -> None:
    caller = ExecutorCaller(lambda name, args: [name, args])
    assert asyncio.run(caller.bind("any name").call({"a": 1})) == ["any name", {"a": 1}]
    assert caller.bind("t") is caller.bind("t") is not caller.bind("u")
    with pytest.raises(ToolNotFound) as raised:
        caller.bind("")
    assert (raised.value.op, str(raised.value.cause)) == ("resolve", "empty tool name")
    with pytest.raises(TypeError, match="executor must be a function"):
        ExecutorCaller("x")  # type: ignore[arg-type]
