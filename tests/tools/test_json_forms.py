"""Results, events and steps as JSON, with the names of the source documents, and back."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk import ChainStep, Runner, RunResult, StreamEvent, Tool, ToolBackend, Toolbox
from ropewalk.errors import (
    ExecutionFailed,
    InvalidInput,
    OutputValidationFailed,
    ToolError,
    ValidationFailed,
    wrap_error,
)
from ropewalk.tools import StepResult
from ropewalk.tools.tool import RecordedError, backend_to_dict

names = st.text("abc", min_size=1, max_size=4)
objects = st.dictionaries(names, st.none() | st.integers(0, 9) | st.lists(names, max_size=2), max_size=3)
backends = st.one_of(
    st.builds(ToolBackend.local, names),
    st.builds(ToolBackend.provider, names, names),
    st.builds(ToolBackend.mcp, names, st.none() | names),
)
tools = st.builds(
    lambda name, space, output, notes, icons, meta: Tool(
        name, "d", {"type": "object"}, output, space, annotations=notes, icons=icons, meta=meta
    ),
    names,
    st.none() | names,
    st.none() | st.just({"type": "string"}),
    st.none() | objects,
    st.none() | st.just([{"src": "https://example.org/i.png"}]),
    st.none() | objects,
)
results = st.builds(RunResult, tools, backends, objects, st.none() | st.just({"content": []}))
errors = st.none() | st.builds(lambda text: ExecutionFailed("t", "execute", text), names)


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


@given(results)
def test_results_come_back(result: RunResult) -> None:
    assert RunResult.from_dict(through_json(result.to_dict())) == result


@given(names, st.none() | backends, st.none() | results, errors)
def test_steps_come_back(name: str, backend: Any, result: Any, error: Any) -> None:
    step = StepResult(name, backend, result, error)
    back = StepResult.from_dict(through_json(step.to_dict()))
    assert (back.tool_id, back.backend, back.result) == (name, backend, result)
    assert back.to_dict().keys() == step.to_dict().keys()
    if error is not None:
        assert (str(back.error), back.error.kind) == (error.message, "ExecutionFailed")  # type: ignore[union-attr]


@given(st.sampled_from(["progress", "chunk", "done", "error"]), st.just("") | names, st.none() | objects)
def test_events_come_back(kind: Any, name: str, data: Any) -> None:
    event = StreamEvent(kind, name, data)
    assert StreamEvent.from_dict(through_json(event.to_dict())) == event


@given(names, objects, st.booleans())
def test_steps_of_a_chain_come_back(name: str, args: Any, use: bool) -> None:
    step = ChainStep(name, args, use)
    assert ChainStep.from_dict(through_json(step.to_dict())) == step


def test_the_names_are_those_of_the_documents() -> None:
    tool = Tool("t", "d", {"type": "object"}, namespace="ns")
    made = RunResult(tool, ToolBackend.provider("p", "x"), 7, SimpleNamespace(model_dump=lambda **_: {"content": []}))
    assert made.to_dict() == {
        "tool": {"name": "t", "namespace": "ns", "description": "d", "inputSchema": {"type": "object"}},
        "backend": {"kind": "provider", "provider": {"providerId": "p", "toolId": "x"}},
        "structured": 7,
        "mcpResult": {"content": []},
    }
    assert backend_to_dict(ToolBackend.mcp("s")) == {"kind": "mcp", "mcp": {"serverName": "s"}}
    assert ChainStep("t", {"a": 1}, True).to_dict() == {"toolId": "t", "args": {"a": 1}, "usePrevious": True}
    assert ChainStep("t").to_dict() == {"toolId": "t"}
    failed = StreamEvent("error", "t", {"message": "no"}, ExecutionFailed("t", "execute", "no"))
    assert failed.to_dict() == {
        "kind": "error",
        "toolId": "t",
        "data": {"message": "no"},
        "error": {"kind": "ExecutionFailed", "message": "tool t: no", "toolId": "t", "op": "execute"},
    }
    assert isinstance(StreamEvent.from_dict(failed.to_dict()).error, RecordedError)


@pytest.mark.parametrize(
    ("read", "data", "said"),
    [
        (ChainStep.from_dict, {"toolID": "t"}, "step.toolID: unknown key; did you mean toolId?"),
        (ChainStep.from_dict, [], "step: must be an object, not list"),
        (StreamEvent.from_dict, {"kind": "dnoe"}, "event.kind: must be one of chunk, done, error, progress"),
        (RunResult.from_dict, {"backend": {"kind": "mcp", "mcp": {"server": "s"}}}, "backend.mcp.server: unknown key"),
        (StepResult.from_dict, {}, "step.toolId: required"),
    ],
)
def test_what_is_no_such_form_is_refused(read: Any, data: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(data)
    assert said in "; ".join(map(str, caught.value.problems))


def test_a_chain_of_nothing_is_empty() -> None:
    async def run() -> Any:
        runner = Runner(Toolbox())
        progress: list[Any] = []
        return await runner.run_chain(None), await runner.run_chain_with_progress(None, progress.append), progress

    one, other, progress = asyncio.run(run())
    assert (one.final, one.steps, other.final, progress) == (None, (), None, [])


def test_an_error_is_wrapped_with_its_tool() -> None:
    cause = ValueError("no luck")
    backend = ToolBackend.local("t")
    wrapped = wrap_error("ns:t", "execute", cause, backend=backend)
    assert isinstance(wrapped, ExecutionFailed)
    assert wrapped.message == "tool ns:t: no luck"
    assert (wrapped.__cause__, wrapped.backend) == (cause, backend)
    assert wrap_error("ns:t", "execute", None) is None
    assert wrap_error("ns:t", "execute", wrapped) is wrapped
    assert isinstance(wrap_error("t", "validate_input", cause), ValidationFailed)
    assert isinstance(wrap_error("t", "validate_output", cause), OutputValidationFailed)
    assert type(wrap_error("t", "resolve", cause)) is ToolError
