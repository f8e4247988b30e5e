"""Messages between a machine and its host survive JSON, and a malformed one is refused."""

from __future__ import annotations

import json

import pytest

from ropewalk.errors import InvalidValue
from ropewalk.plans import messages as m

EVERY = [
    m.Begin("return 1", {"get": ["n"], "any": None}, "{}", 7),
    m.Delivery("0/1:0#1", True, "[1]"),
    m.Reading(1.5),
    m.Schemas({"get": {"type": "object"}}),
    m.Call("0/1:0#1", "get", "get", '{"n": 1}'),
    m.Timer("0/2:0#1", "sleep", 2),
    m.Question("0/3:0#1", "approve", "Go?"),
    m.Cancel("0/2:0#1"),
    m.Clock("0/4:0#1", "now"),
    m.SchemaRequest(["get"]),
    m.Printed(0, "hello\n"),
    m.Blocked(),
    m.Ended("failed", error="ToolError", message="down", line=3, failed=["0/1:0#1"]),
]


@pytest.mark.parametrize("message", EVERY, ids=lambda message: type(message).__name__)
def test_a_message_survives_json(message: m.Message) -> None:
    assert m.from_json(json.loads(json.dumps(m.to_json(message)))) == message


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"is": "object"},
        {"is": "call", "path": 1, "id": "a", "tool": "a", "arguments": "{}"},
        {"is": "call", "path": "1", "id": "a", "tool": "a"},
        {"is": "cancel", "path": "1", "more": 1},
        {"is": "printed", "number": True, "text": ""},
    ],
)
def test_a_malformed_message_is_refused(value: object) -> None:
    with pytest.raises(InvalidValue):
        m.from_json(value)
