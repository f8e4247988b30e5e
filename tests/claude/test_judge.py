"""The judge of requests refuses what the Messages API refuses: a judge that accepts anything proves nothing."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from .judge import judge

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 24).decode()
TOOL: dict[str, Any] = {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}
USE = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "seen"}
MARK = {"type": "ephemeral"}


def body(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "claude", "max_tokens": 5000, "messages": list(messages) or [user("hi")], **more}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def image(data: str, media: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media, "data": data}}


def schema(**more: Any) -> dict[str, Any]:
    return body(tools=[{**TOOL, "input_schema": {"type": "object", **more}}])


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **more}


@pytest.mark.parametrize(
    "valid",
    [
        body(),
        body(user("a"), assistant([text("b"), USE]), user([RESULT, text("c")]), tools=[TOOL]),
        body(user([text("look"), image(PNG)]), assistant("ok")),
        body(tools=[TOOL], tool_choice={"type": "tool", "name": "look"}),
        body(system=[text("Be brief.", cache_control=MARK)], thinking={"type": "enabled", "budget_tokens": 2000}),
    ],
)
def test_valid_requests_pass(valid: dict[str, Any]) -> None:
    assert judge(valid) == []


@pytest.mark.parametrize(
    ("invalid", "said"),
    [
        (body(user("")), "non-empty"),
        (body(user(" \n")), "non-whitespace"),
        (body(user([text("")])), "non-whitespace"),
        (body(user("a"), assistant([text(""), USE]), user([RESULT])), "non-whitespace"),
        (body(user("a"), assistant("b ")), "trailing whitespace"),
        (body(assistant("b"), user("a")), "first message"),
        (body({"role": "tool", "content": "a"}), "role"),
        (body({**user("a"), "id": "1"}), "Extra inputs"),
        (body(user([text("a", extra=1)])), "Extra inputs"),
        (body(user("a"), assistant([USE])), "without `tool_result`"),
        (body(user("a"), assistant([USE]), user("b")), "without `tool_result`"),
        (body(user([RESULT])), "unexpected `tool_use_id`"),
        (body(user("a"), assistant([USE]), user([text("b"), RESULT])), "must come first"),
        (body(user("a"), assistant([USE]), user([RESULT, RESULT])), "a single result"),
        (body(user("a"), assistant([USE]), user([RESULT]), assistant([USE]), user([RESULT])), "must be unique"),
        (body(user("a"), assistant([{**USE, "id": "a.b"}]), user([{**RESULT, "tool_use_id": "a.b"}])), "pattern"),
        (body(user("a"), assistant([USE]), user([{**RESULT, "content": "", "is_error": True}])), "is_error"),
        (body(user([{"type": "audio", "data": "x"}])), "not permitted"),
        (body(user("a"), assistant([image(PNG)])), "not permitted"),
        (body(user([image("not base64!")])), "Invalid base64"),
        (body(user([image(PNG, "image/tiff")])), "SDK's types"),
        (body(user([image(PNG, "image/jpeg")])), "appears to be image/png"),
        (body(user("a"), assistant([{"type": "thinking", "thinking": "x"}])), "signature"),
        (body(system=" "), "system"),
        (body(system=[text("")]), "system"),
        (body(tool_choice={"type": "auto"}), "while providing tools"),
        (body(tools=[TOOL], tool_choice={"type": "tool", "name": "other"}), "not found"),
        (body(tools=[TOOL, TOOL]), "unique"),
        (body(tools=[{**TOOL, "name": "a.b"}]), "pattern"),
        (body(tools=[{**TOOL, "name": "n" * 65}]), "pattern"),
        (schema(oneOf=[{}]), "top level"),
        (schema(properties={"a": {"items": [{}]}}), "2020-12"),
        (schema(properties={"a": {"minimum": 0, "exclusiveMinimum": True}}), "2020-12"),
        (schema(properties={"a": {"type": "float"}}), "2020-12"),
        (schema(properties={"a b": {}}), "Property keys"),
        (schema(properties={"a": {"$ref": "#/$defs/b"}}), "does not resolve"),
        (body(stop_sequences=[" "]), "non-whitespace"),
        (body(thinking={"type": "enabled", "budget_tokens": 5000}), "must be greater than"),
        (body(thinking={"type": "enabled", "budget_tokens": 10}), "greater than or equal"),
        (body(user([text(str(n), cache_control=MARK) for n in range(5)])), "maximum of 4"),
        (body(user([text("\ud800")])), "surrogate"),
        (body(unknown=1), "Extra inputs"),
    ],
)
def test_invalid_requests_are_refused(invalid: dict[str, Any], said: str) -> None:
    try:
        problems = judge(invalid)
    except (TypeError, KeyError):  # a shape that the rules cannot read is refused by the types
        pytest.fail("the judge itself failed")
    assert any(said in problem for problem in problems), problems


@pytest.mark.parametrize("page", ["messages-api-reference.md", "security.md"])
def test_every_test_that_a_page_names_exists(page: str) -> None:
    tests = Path(__file__).parents[1]
    named = set(re.findall(r"\b(test_\w+)(?:\.py)?`", (tests.parent / "docs" / page).read_text()))
    files = [path for path in tests.rglob("test_*.py") if "node_modules" not in path.parts]
    there = {
        name for path in files for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert named
    assert not named - there - {path.stem for path in files}
