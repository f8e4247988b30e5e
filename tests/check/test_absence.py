"""What a caller may leave out of the input: a warning where null, which it is then, does not fit."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.check import ToolCard, check
from ropewalk.notations.registry import notation_of

TAKES = ToolCard({
    "type": "object",
    "properties": {"n": {"type": "integer"}, "maybe": {"type": ["integer", "null"]}, "any": {}},
})  # fmt: skip
NUMBER = {"type": "integer"}


def warned(value: Any, input: Any, argument: str = "n", **more: Any) -> list[str]:
    node = {"id": "a", "type": "TOOL", "tool": "take", "params": {argument: value}, **more}
    chain = {"kind": "chain", "inputSchema": input, "nodes": [node]}
    found = check(notation_of(chain).compile(chain).flow, {"take": TAKES}.get)
    assert found.problems == ()
    return [str(warning) for warning in found.warnings]


def test_a_property_that_is_neither_required_nor_has_a_default() -> None:
    assert warned("$input.count", {"properties": {"count": NUMBER}}) == [
        "nodes[0].params.n: input 'count' is optional, so this may be null, but it must be an integer; "
        "make 'count' required, or give it a default"
    ]


INNER = {"properties": {"count": NUMBER}, "required": ["count"]}


@pytest.mark.parametrize("input", [
    {"properties": {"count": NUMBER}, "required": ["count"]},
    {"properties": {"count": {**NUMBER, "default": 5}}},
    {"properties": {"count": {"$ref": "#/$defs/n"}}, "$defs": {"n": {**NUMBER, "default": 5}}},
    {"allOf": [{"properties": {"count": NUMBER}, "required": ["count"]}]},
    {"properties": {"count": NUMBER}, "anyOf": [{"required": ["count"]}, {"required": ["other"]}]},
    {"type": "object"},
    {"type": "object", "additionalProperties": NUMBER},
])  # fmt: skip
def test_what_is_there_or_may_be_meant_to_be_is_not_told(input: Any) -> None:
    assert warned("$input.count", input) == []


def test_the_way_to_it_counts() -> None:
    left_out = warned("$input.o.count", {"properties": {"o": INNER}})
    assert len(left_out) == 1
    assert "'o' is optional" in left_out[0]
    assert warned("$input.o.count", {"properties": {"o": INNER}, "required": ["o"]}) == []
    assert warned("$input.o.count", {"properties": {"o": {**INNER, "default": {"count": 1}}}}) == []


def test_null_may_fit_and_who_asks_first_is_not_warned() -> None:
    input = {"properties": {"count": NUMBER, "more": NUMBER}}
    assert warned("$input.count", input, "maybe") == warned("$input.count", input, "any") == []
    assert warned("${coalesce($input.count, 5)}", input) == []
    assert warned("$input.count", input, condition="has($input.count)") == []
    assert warned("$input.count", input, condition="$input.count != null") == []
    assert len(warned("$input.count", input, condition="$input.more == 1")) == 1
