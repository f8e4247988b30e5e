"""Names and schemas as MCP clients need them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.doors.mcp.catalogue import LONGEST, unique_names
from ropewalk.doors.mcp.results import shown_input, shown_output, shown_value
from ropewalk.schema import compile_schema


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=80), max_size=8), st.randoms())
def test_names_are_safe_unique_and_the_same_in_any_order(wanted: dict[str, str], random: Any) -> None:
    names = unique_names(wanted.items())
    assert set(names) == set(wanted)
    assert all(re.fullmatch(rf"[A-Za-z0-9_-]{{1,{LONGEST}}}", name) for name in names.values())
    assert len(set(names.values())) == len(names)
    shuffled = list(wanted.items())
    random.shuffle(shuffled)
    assert unique_names(shuffled) == names


def test_who_wants_exactly_a_name_keeps_it() -> None:
    names = unique_names([("a", "git log"), ("b", "git_log"), ("c", "git.log"), ("d", "naïve"), ("e", "x" * 60)])
    assert names["b"] == "git_log"
    assert names["d"] == "na_ve"
    assert re.fullmatch("git_log_[0-9a-f]{6}", names["a"])
    assert re.fullmatch("x{41}_[0-9a-f]{6}", names["e"])
    assert unique_names([("a", "find_tools")], taken=["find_tools"])["a"] != "find_tools"


def test_of_several_who_want_a_name_the_projects_own_keeps_it() -> None:
    names = unique_names([("a", "report"), ("b", "report"), ("c", "report!")], own={"b"})
    assert names["b"] == "report"
    assert re.fullmatch("report_[0-9a-f]{6}", names["a"])
    two = unique_names([("a", "report"), ("b", "report")], own={"a", "b"})
    assert all(re.fullmatch("report_[0-9a-f]{6}", name) for name in two.values())


SCHEMAS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"type": "object"}),
    ({"type": ["object", "null"]}, {"type": "object"}),
    (
        {"$ref": "#/$defs/q", "$defs": {"q": {"type": "object", "required": ["a"]}}},
        {"$defs": {"q": {"type": "object", "required": ["a"]}}, "type": "object", "required": ["a"]},
    ),
    (
        {
            "oneOf": [
                {"properties": {"a": {"type": "string"}, "n": {"type": "integer"}}, "required": ["a", "n"]},
                {"properties": {"b": {"type": "string"}, "n": {"type": "string"}}, "required": ["b", "n"]},
            ]
        },
        {
            "type": "object",
            "properties": {
                "a": {"type": "string"},
                "n": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                "b": {"type": "string"},
            },
            "required": ["n"],
        },
    ),
    (
        {"properties": {"a": {}}, "allOf": [{"required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}]},
        {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]},
    ),
]


@pytest.mark.parametrize(("schema", "shown"), SCHEMAS)
def test_an_input_schema_is_shown_as_an_object_without_choices(schema: dict[str, Any], shown: dict[str, Any]) -> None:
    assert shown_input(schema) == shown
    compile_schema(shown)
    assert shown_input(schema, choices=True) == {**schema, "type": "object"}


def test_a_value_that_is_no_object_is_wrapped_with_its_schema() -> None:
    schema = {"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}
    shown = shown_output(schema)
    assert compile_schema(shown).problems(shown_value(schema, [1, 2]), "") == []
    assert compile_schema(shown).problems(shown_value(schema, ["x"]), "") != []
    assert shown_output({"type": "object", "properties": {}}) == {"type": "object", "properties": {}}
    assert shown_value({"type": "object"}, {"a": 1}) == {"a": 1}
    assert shown_value(None, {"a": 1}) == {"result": {"a": 1}}
