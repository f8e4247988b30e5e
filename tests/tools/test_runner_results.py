"""The end of the pipeline: what a backend gave is normalised, then checked."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import pytest

from ropewalk import App
from ropewalk.errors import ExecutionFailed, OutputValidationFailed
from ropewalk.tools.tool import Tool, ToolExecutionResult

from .pipeline import LOCAL, MCP, Recorder, failing, resolving, run

# --- 7: normalise ----------------------------------------------------------------------------


@dataclass
class Hit:
    url: str


def text(value: str) -> SimpleNamespace:
    return SimpleNamespace(type="text", text=value)


def picture() -> SimpleNamespace:
    return SimpleNamespace(type="image", data="AAAA", mimeType="image/png")


SHOWN = {"$content": {"type": "image", "mimeType": "image/png", "blob": sha256(bytes(3)).hexdigest(), "size": 3}}


@pytest.mark.parametrize(
    ("content", "structured", "value"),
    [
        ([text("ignored")], {"a": 1}, {"a": 1}),
        ([], None, None),
        ([text('{"a": [1]}')], None, {"a": [1]}),
        ([text("3")], None, 3),
        ([text("null")], None, None),
        ([text("plain words")], None, "plain words"),
        ([text("")], None, ""),
        ([text("NaN")], None, "NaN"),
        ([text("123456789012345678901234567890")], None, "123456789012345678901234567890"),
        ([text('"\\ud800"')], None, '"\\ud800"'),
        ([picture()], None, [SHOWN]),
        ([text("a"), text("b")], None, ["a", "b"]),
        ([text("a"), text(""), picture()], None, ["a", SHOWN]),
        ([text("1"), text("")], None, "1"),
        ([text(""), text("")], None, None),
    ],
)
@pytest.mark.parametrize("shape", ["new", "old", "dict"])
def test_mcp_result_is_normalised(content: Any, structured: Any, value: Any, shape: str) -> None:
    raw: Any = {"content": content, "structuredContent": structured, "isError": False}
    if shape == "dict":
        raw["content"] = [vars(part) for part in content]
    elif shape == "old":
        raw = SimpleNamespace(**raw)
    else:
        raw = SimpleNamespace(content=content, structured_content=structured, is_error=False)
    result = run(resolving([MCP], mcp=Recorder(raw)))
    assert result.structured == value
    assert result.mcp_result is raw


@pytest.mark.parametrize(
    ("content", "structured", "message"),
    [
        ([text("disk full"), text("sorry")], None, "disk full\nsorry"),
        ([], {"code": 5}, '{"code":5}'),
        ([], None, "the tool reported an error"),
    ],
)
def test_mcp_error_is_a_failure_with_its_text(content: Any, structured: Any, message: str) -> None:
    raw = SimpleNamespace(content=content, structured_content=structured, is_error=True)
    error = failing(resolving([MCP], mcp=Recorder(raw)))
    assert type(error) is ExecutionFailed
    assert error.message == f"tool ns:t: {message}"


def test_handler_may_give_a_tool_execution_result_or_an_mcp_one() -> None:
    def answers(value: Any) -> Any:
        return resolving([LOCAL], local={"h": lambda: value})

    assert run(answers(ToolExecutionResult(True, {"a": 1}))).structured == {"a": 1}
    assert str(failing(answers(ToolExecutionResult(False, error="no luck")))).endswith(": no luck")
    raw = SimpleNamespace(content=[text("7")], is_error=False)
    result = run(answers(raw))
    assert (result.structured, result.mcp_result) == (7, raw)
    assert run(answers({"content": "mine"})).structured == {"content": "mine"}


# --- 8: validate output ----------------------------------------------------------------------


def test_wrong_result_is_refused_with_its_place() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    error = failing(
        resolving(
            [MCP],
            Tool("t", "", {}, schema, namespace="ns"),
            mcp=Recorder({"structuredContent": {"n": "x"}}),
            strict_output=True,
        )
    )
    assert isinstance(error, OutputValidationFailed)
    assert error.message == 'tool ns:t: result.n: "x" is not of type "integer"'
    assert [p.path for p in error.problems] == ["result.n"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"rows": [object()]}, "result.rows[0]: object is not JSON"),
        (1j, "result: complex is not JSON"),
        ({(1, 2): 3}, "result: object key (1, 2) is tuple, not a string"),
    ],
)
def test_result_that_is_not_json_is_refused_naming_tool_and_type(value: Any, said: str) -> None:
    error = failing(resolving([LOCAL], local={"h": lambda: value}))
    assert isinstance(error, OutputValidationFailed)
    assert error.message == f"tool ns:t: {said}"


def test_a_dataclass_in_a_result_becomes_an_object() -> None:
    assert run(resolving([LOCAL], local={"h": lambda: [Hit("u")]})).structured == [{"url": "u"}]


def test_without_output_schema_any_json_passes_and_an_empty_one_means_any() -> None:
    for schema in (None, {}):
        runner = resolving([LOCAL], Tool("t", "", {}, schema), local={"h": lambda: [None, {"a": 1.5}]})
        assert run(runner).structured == [None, {"a": 1.5}]
    declared = resolving([LOCAL], Tool("t", "", {}, {"type": "object"}), local={"h": lambda: 3}, strict_output=True)
    assert isinstance(failing(declared), OutputValidationFailed)


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (KeyError("x"), "KeyError: 'x'"),
        (KeyError(), "KeyError"),
        (RuntimeError(""), "RuntimeError"),
        (RuntimeError("  "), "RuntimeError"),
        (AssertionError(), "AssertionError"),
        (ValueError(404), "ValueError: 404"),
        (ValueError("x is no number"), "x is no number"),
    ],
)
def test_an_error_whose_text_says_nothing_is_told_with_its_type(raised: Exception, said: str) -> None:
    def broken() -> None:
        raise raised

    async def body() -> None:
        async with App("memory", tools=[broken]) as app:
            done = await app.run({"kind": "chain", "nodes": [{"id": "a", "type": "tool", "tool": "broken"}]})
        assert done["errors"][0]["message"] == said

    asyncio.run(body())
