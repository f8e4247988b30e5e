"""The pipeline, sentence by sentence, up to the backend: order, resolving, selecting, arguments, dispatching."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ropewalk.errors import (
    ExecutionFailed,
    InvalidInput,
    InvalidToolId,
    InvalidValue,
    NoBackends,
    NotFound,
    OutputValidationFailed,
    Problem,
    ToolNotFound,
    UnsupportedSchema,
    ValidationFailed,
)
from ropewalk.tools.runner import Runner
from ropewalk.tools.tool import Tool, ToolBackend, tool
from ropewalk.tools.toolbox import Toolbox

from .pipeline import LOCAL, MCP, PROVIDER, Recorder, T, failing, resolving, run

# --- the errors ------------------------------------------------------------------------------


def test_an_error_has_the_exception_as_its_cause_or_else_the_text() -> None:
    def broken() -> None:
        raise KeyError("x")

    box = Toolbox()
    box.register(T, broken)
    error = failing(Runner(box))
    assert isinstance(error.cause, KeyError)
    assert error.cause is error.__cause__
    assert failing(Runner(), "a b").cause == "'a b' has characters outside [A-Za-z0-9_.-]"


@pytest.mark.parametrize("timeout", ["5", -1, 0, float("nan"), True, [1]])
def test_a_timeout_that_is_no_number_above_0_is_refused_before_anything_runs(timeout: Any) -> None:
    called: list[Any] = []
    runner = resolving([LOCAL], local={"h": lambda: called.append("tool")})

    async def streamed() -> None:
        async for _ in runner.run_stream("ns:t", timeout=timeout):
            pass

    for making in (
        lambda: runner.run("ns:t", timeout=timeout),
        lambda: runner.run_with_progress("ns:t", None, called.append, timeout=timeout),
        streamed,
    ):
        with pytest.raises(InvalidInput, match=r"^timeout: must be a number of seconds above 0, not "):
            asyncio.run(making())
    with pytest.raises(ValueError, match=r"^timeout must be a number of seconds above 0, not "):
        Runner(timeout=timeout)
    assert called == []


# --- 1, 2: cancelled, id ---------------------------------------------------------------------


def test_cancelled_caller_calls_nothing() -> None:
    called: list[str] = []
    runner = Runner(
        tool_resolver=lambda _: called.append("resolver"),
        index=SimpleNamespace(get=lambda _: called.append("index"), backends=lambda _: []),
    )

    async def case() -> None:
        async def caller() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await runner.run("")

        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(caller())

    asyncio.run(case())
    assert called == []


@pytest.mark.parametrize("tool_id", ["", "a b", "a:b:c:d", "a:"])
def test_id_is_checked_before_anybody_is_asked_for_it(tool_id: str) -> None:
    asked: list[str] = []
    error = failing(Runner(tool_resolver=asked.append), tool_id)
    assert isinstance(error, InvalidToolId)
    assert error.op == "validate_tool_id"
    assert asked == []


# --- 3: resolve ------------------------------------------------------------------------------


def test_index_comes_first_and_only_not_found_falls_through() -> None:
    box = Toolbox()
    box.register(T, lambda: "index")
    other = Tool("other", "", {"type": "object"})
    asked: list[str] = []

    def resolver(tool_id: str) -> Tool:
        asked.append(tool_id)
        return other

    runner = Runner(box, tool_resolver=resolver, backends_resolver=lambda _: [ToolBackend.local("ns:t")])
    assert run(runner).structured == "index"
    assert asked == []
    assert run(runner, "other").structured == "index"
    assert asked == ["other"]


@pytest.mark.parametrize("missing", [lambda _: None, NotFound("tool", "ns:t")])
def test_index_may_say_not_found_in_two_ways(missing: Any) -> None:
    def get(tool_id: str) -> Any:
        if isinstance(missing, Exception):
            raise missing
        return missing(tool_id)

    index = SimpleNamespace(get=get, backends=lambda _: [])
    runner = Runner(index, tool_resolver=lambda _: T, backends_resolver=lambda _: [MCP], mcp=Recorder("text"))
    assert run(runner).structured == "text"


def test_any_other_failure_of_the_index_stops() -> None:
    broken = OSError("index down")

    def get(_: str) -> Any:
        raise broken

    asked: list[str] = []
    error = failing(Runner(SimpleNamespace(get=get), tool_resolver=asked.append))
    assert error.message == "tool ns:t: index down"
    assert error.__cause__ is broken
    assert asked == []


@pytest.mark.parametrize("which", ["tool_resolver", "backends_resolver"])
def test_resolver_that_raises_is_reported(which: str) -> None:
    broken = RuntimeError("resolver down")

    def raises(_: str) -> Any:
        raise broken

    given = {"tool_resolver": lambda _: T, "backends_resolver": lambda _: [LOCAL], which: raises}
    error = failing(Runner(**given))
    assert error.message == "tool ns:t: resolver down"
    assert error.matches(RuntimeError)


@pytest.mark.parametrize("resolver", [None, lambda _: None])
def test_tool_that_nobody_knows_is_not_found(resolver: Any) -> None:
    error = failing(Runner(tool_resolver=resolver))
    assert isinstance(error, ToolNotFound)
    assert error.message == "tool ns:t: tool not found"


def test_not_found_says_what_may_have_been_meant() -> None:
    box = Toolbox([Tool("search", "", {"type": "object"}, namespace="web")])
    assert "did you mean web:search?" in str(failing(Runner(box), "web:serch"))
    assert "did you mean web:search?" in str(failing(Runner(box), "search"))


@pytest.mark.parametrize("backends", [None, []])
def test_tool_without_backends_has_no_backends(backends: Any) -> None:
    error = failing(resolving(backends))
    assert isinstance(error, NoBackends)
    assert error.message == "tool ns:t: no backends available"
    assert isinstance(failing(Runner(Toolbox([T]))), NoBackends)


@pytest.mark.parametrize("found", ["text", {"name": "t"}])
def test_resolver_that_gives_no_tool_is_reported(found: Any) -> None:
    assert failing(resolving([LOCAL], found)).op == "resolve"
    assert failing(resolving(["local"])).op == "resolve"


def test_everything_given_may_be_async() -> None:
    async def resolve_tool(_: str) -> Tool:
        return T

    async def resolve_backends(_: str) -> list[ToolBackend]:
        return [MCP, PROVIDER]

    async def select(backends: list[ToolBackend]) -> ToolBackend:
        return backends[0]

    runner = Runner(
        tool_resolver=resolve_tool, backends_resolver=resolve_backends, backend_selector=select, mcp=Recorder("m")
    )
    assert run(runner).structured == "m"


def test_executors_may_be_plain_functions() -> None:
    class Plain:
        def call_tool(self, provider_id: str, tool_id: str, args: dict[str, Any]) -> Any:
            return [provider_id, tool_id, args]

    assert run(resolving([PROVIDER], provider=Plain()), args={"q": 1}).structured == ["p", "remote", {"q": 1}]


# --- 4: select -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backends", "chosen"),
    [
        ([MCP, PROVIDER, LOCAL], LOCAL),
        ([MCP, PROVIDER], PROVIDER),
        ([MCP], MCP),
        ([PROVIDER, ToolBackend.provider("p", "second")], PROVIDER),
        ([MCP, ToolBackend.mcp("z")], MCP),
    ],
)
def test_local_comes_before_provider_before_mcp_in_list_order(backends: list[ToolBackend], chosen: ToolBackend) -> None:
    runner = resolving(backends, mcp=Recorder(), provider=Recorder(), local={"h": lambda: None})
    assert run(runner).backend == chosen


def test_selector_of_ones_own_replaces_the_rule_and_its_failure_is_reported() -> None:
    runner = resolving([LOCAL, MCP], backend_selector=lambda backends: backends[-1], mcp=Recorder("m"))
    assert run(runner).backend == MCP
    for wrong in (lambda _: None, lambda _: 1 / 0):
        error = failing(resolving([LOCAL], backend_selector=wrong))
        assert error.op == "select_backend"
        assert error.message.startswith("tool ns:t: ")


# --- 5: validate input -----------------------------------------------------------------------


def test_wrong_arguments_are_refused_before_anything_is_called() -> None:
    executor = Recorder()
    error = failing(resolving([MCP], mcp=executor), args={"q": "one"})
    assert isinstance(error, ValidationFailed)
    assert error.message == 'tool ns:t: args.q: "one" is not of type "integer"'
    assert [p.path for p in error.problems] == ["args.q"]
    assert executor.asked == []


def test_every_problem_is_listed() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"items": {"type": "string"}}}}
    found = Tool("t", "", {**schema, "required": ["c"]}, namespace="ns")
    error = failing(resolving([MCP], found, mcp=Recorder()), args={"a": "x", "b": ["y", 1]})
    assert {p.path for p in error.problems} == {"args", "args.a", "args.b[1]"}
    assert all(p.path in str(error) for p in error.problems)


@pytest.mark.parametrize("args", [{"q": {1}}, {"q": float("nan")}, {1: 2}, [1], "text", {"q": 2**64}])
def test_arguments_that_are_not_a_json_object_are_refused(args: Any) -> None:
    error = failing(resolving([MCP], mcp=Recorder()), args=args)
    assert isinstance(error, ValidationFailed)
    assert error.matches(InvalidValue)


def test_validation_can_be_switched_off() -> None:
    executor = Recorder("not an object")
    strict = Tool("t", "", T.input_schema, {"type": "object"}, namespace="ns")
    runner = resolving([MCP], strict, mcp=executor, validate_input=False, validate_output=False)
    assert run(runner, args={"q": "one"}).structured == "not an object"


def test_validator_of_ones_own_is_asked_for_both() -> None:
    class Picky:
        def problems(self, schema: Any, value: Any, place: str) -> list[Any]:
            seen.append((schema, value, place))
            return [] if value else [Problem(path=place, message="empty"), "and dull"]

    seen: list[Any] = []
    strict = Tool("t", "", T.input_schema, {"type": "array"}, namespace="ns")
    error = failing(resolving([MCP], strict, mcp=Recorder([]), validator=Picky(), strict_output=True), args={"q": 1})
    assert isinstance(error, OutputValidationFailed)
    assert str(error).endswith("result: empty; result: and dull")
    assert seen == [(T.input_schema, {"q": 1}, "args"), ({"type": "array"}, [], "result")]


@pytest.mark.parametrize(("where", "op"), [("input_schema", "validate_input"), ("output_schema", "validate_output")])
def test_unsupported_schema_is_reported_before_the_call(where: str, op: str) -> None:
    executor = Recorder()
    schemas: dict[str, Any] = {"input_schema": {}, where: {"$schema": "https://example.com/mine"}}
    error = failing(resolving([MCP], Tool("t", "", namespace="ns", **schemas), mcp=executor))
    assert error.op == op
    assert error.matches(UnsupportedSchema)
    assert executor.asked == []


# --- 6: dispatch -----------------------------------------------------------------------------


def test_mcp_gets_the_bare_name_and_a_provider_its_own_ids() -> None:
    mcp, provider = Recorder(), Recorder()
    run(resolving([MCP], mcp=mcp), args={"q": 1})
    run(resolving([PROVIDER], provider=provider))
    run(resolving([ToolBackend.mcp("s", "its/own name")], mcp=mcp))
    assert mcp.asked == [("s", "t", {"q": 1}), ("s", "its/own name", {})]
    assert provider.asked == [("p", "remote", {})]


@pytest.mark.parametrize(
    ("backend", "given", "text"),
    [
        (LOCAL, {"local": {}}, 'tool ns:t: local handler "h" not found'),
        (LOCAL, {}, "tool ns:t: local registry not configured"),
        (MCP, {}, "tool ns:t: MCP executor not configured"),
        (PROVIDER, {}, "tool ns:t: provider executor not configured"),
    ],
)
def test_missing_executor_or_handler_is_named(backend: ToolBackend, given: Any, text: str) -> None:
    error = failing(resolving([backend], **given))
    assert isinstance(error, ExecutionFailed)
    assert error.message == text
    assert not error.retryable


def test_handler_that_changes_its_arguments_changes_none_of_ours() -> None:
    def spoil(rows: list[int], more: dict[str, Any]) -> None:
        rows.append(9)
        more["deep"]["x"] = 9

    async def spoil_async(rows: list[int], more: dict[str, Any]) -> None:
        spoil(rows, more)

    for handler in (spoil, spoil_async):
        args: dict[str, Any] = {"rows": [1], "more": {"deep": {"x": 1}}}
        run(resolving([LOCAL], Tool("t", "", {}), local={"h": handler}), args=args)
        assert args == {"rows": [1], "more": {"deep": {"x": 1}}}


@pytest.mark.parametrize("backend", [LOCAL, MCP, PROVIDER])
def test_what_was_raised_is_the_cause(backend: ToolBackend) -> None:
    broken = KeyError("gone")

    def handler() -> None:
        raise broken

    executor = Recorder(broken)
    error = failing(resolving([backend], local={"h": handler}, mcp=executor, provider=executor))
    assert type(error) is ExecutionFailed
    assert error.message == "tool ns:t: KeyError: 'gone'"
    assert error.__cause__ is broken
    assert error.matches(KeyError)
    assert error.backend == backend


def test_key_is_handed_to_executors_that_take_one() -> None:
    class Keyed:
        async def call_tool(
            self, server: str, name: str, args: Any, *, key: str | None = None, timeout: float = 0
        ) -> Any:
            return [key, timeout]

    assert run(resolving([MCP], mcp=Keyed(), timeout=7), key="k1").structured == ["k1", 7]


def test_toolbox_alone_is_enough() -> None:
    @tool
    def double(n: int) -> int:
        return 2 * n

    result = run(Runner(Toolbox([double])), "double", {"n": 4})
    assert (result.structured, result.tool.id, result.backend.kind, result.mcp_result) == (8, "double", "local", None)
