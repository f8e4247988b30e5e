"""Compiled schemas: what fits, every problem with its place, and nothing a hostile schema can do."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ropewalk.errors import UnsupportedSchema
from ropewalk.schema import compile_schema


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


def doubling(levels: int) -> dict[str, Any]:
    """2 ** levels ways to try one value."""
    defs: dict[str, Any] = {f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(levels)}
    return {"$defs": {**defs, f"a{levels}": {"type": "string"}}, "$ref": "#/$defs/a0"}


def test_every_problem_is_listed_with_its_json_path() -> None:
    schema = compile_schema(
        {
            "type": "object",
            "properties": {
                "q": {"type": "string"},
                "n": {"type": "integer", "minimum": 1},
                "tags": {"items": {"type": "string"}},
            },
            "required": ["q"],
        }
    )
    problems = schema.problems({"n": 0, "tags": ["a", 1], "extra": 1}, "args")
    assert {p.path for p in problems} == {"args", "args.n", "args.tags[1]"}
    assert any("required" in p.message for p in problems)
    assert schema.problems({"q": "x"}) == []
    assert schema.is_valid({"q": "x"}) is True


def test_misspelt_property_and_choice_are_met_with_a_suggestion() -> None:
    schema = compile_schema({"properties": {"snippet": {"enum": ["red", "green"]}}, "additionalProperties": False})
    (unknown,) = schema.problems({"snipet": "red"}, "args")
    assert (unknown.path, unknown.suggestion) == ("args.snipet", "snippet")
    (wrong,) = schema.problems({"snippet": "gren"}, "args")
    assert (wrong.path, wrong.suggestion) == ("args.snippet", "green")


def test_default_draft_is_2020_12_and_draft_07_is_known_by_its_name() -> None:
    assert not compile_schema({"prefixItems": [{"type": "integer"}]}).is_valid(["a"])
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}]}
    assert not compile_schema(old).is_valid(["a"])


@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": "http://json-schema.org/draft-04/schema#"},
        {"$schema": "https://json-schema.org/draft/2019-09/schema"},
        {"$schema": "https://example.com/mine"},
        {"$schema": 7},
        {"type": "strin"},
        {"items": [{"type": "integer"}]},
        {"$ref": "#/$defs/absent"},
        {"pattern": "(?=a)b"},
        {"pattern": r"(a)\1"},
        {"pattern": "("},
        [1],
        "text",
        None,
        {"const": float("nan")},
    ],
)
def test_schema_that_cannot_be_used_is_refused_when_compiled(schema: Any) -> None:
    with pytest.raises(UnsupportedSchema):
        compile_schema(schema)


def test_reference_to_elsewhere_is_refused_and_not_fetched(lab: Any, tmp_path: Path) -> None:
    lab.on("/s.json", {"type": "string"})
    file = tmp_path / "s.json"
    file.write_text('{"type": "string"}')
    for ref in (f"{lab.url}/s.json", file.as_uri(), "https://example.com/s.json", "s.json"):
        for schema in ({"$ref": ref}, {"properties": {"a": {"$ref": ref}}}, {"$id": f"{lab.url}/", "$ref": ref}):
            with pytest.raises(UnsupportedSchema):
                compile_schema(schema)
    assert lab.asked == []


def test_format_is_not_enforced() -> None:
    assert compile_schema({"format": "email"}).is_valid("not an address")


def test_hostile_pattern_is_answered_at_once() -> None:
    schema = compile_schema({"type": "string", "pattern": "^(a+)+$"})
    assert schema.is_valid("a" * 50_000)
    assert not schema.is_valid("a" * 50_000 + "b")


def test_pattern_that_would_be_enormous_is_refused() -> None:
    with pytest.raises(UnsupportedSchema):
        compile_schema({"pattern": "(((a{1,100}){1,100}){1,100}){1,100}"})


@pytest.mark.parametrize("levels", [20, 60])
def test_references_that_double_at_every_step_are_refused(levels: int) -> None:
    with pytest.raises(UnsupportedSchema, match="unfold"):
        compile_schema(doubling(levels))


def test_recursive_schema_is_no_hostile_one() -> None:
    tree = compile_schema({"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}})
    assert tree.is_valid({"kids": [{"kids": []}]})
    (problem,) = tree.problems({"kids": [{"kids": [1]}]})
    assert problem.path == "value.kids[0].kids[0]"
    assert compile_schema({"allOf": [{"$ref": "#"}]}).is_valid(1)


def test_deep_schema_is_refused_and_does_not_crash_the_process() -> None:
    code = (
        "from ropewalk.schema import compile_schema\n"
        "from ropewalk.errors import UnsupportedSchema\n"
        "for levels in (150, 1_000, 100_000):\n"
        "    schema = {'type': 'string'}\n"
        "    for _ in range(levels): schema = {'not': schema}\n"
        "    try: compile_schema(schema); print('compiled')\n"
        "    except UnsupportedSchema: print('refused')\n"
        "chain = {f'a{i}': {'$ref': f'#/$defs/a{i+1}'} for i in range(50_000)}\n"
        "try: compile_schema({'$defs': {**chain, 'a50000': {}}, '$ref': '#/$defs/a0'})\n"
        "except UnsupportedSchema: print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["compiled", "refused", "refused", "refused"]


def test_equal_schemas_are_compiled_once_and_never_changed() -> None:
    given = {"type": "object", "properties": {"a": {"type": "string"}}}
    first = compile_schema(given)
    assert compile_schema({"properties": {"a": {"type": "string"}}, "type": "object"}) is first
    given["properties"]["a"]["type"] = "integer"  # type: ignore[index]
    assert first.is_valid({"a": "text"})
    assert compile_schema(given).is_valid({"a": 1})


@pytest.mark.parametrize(
    ("schema", "open_"),
    [
        ({}, True),
        (True, True),
        ({"type": "object"}, True),
        ({"type": "object", "properties": {}}, True),
        ({"type": "object", "additionalProperties": False}, False),
        ({"type": "object", "required": ["a"]}, False),
        ({"type": "array"}, False),
        (False, False),
    ],
)
def test_schema_knows_whether_every_object_fits(schema: Any, open_: bool) -> None:
    assert compile_schema(schema).open is open_


def test_list_of_problems_ends() -> None:
    problems = compile_schema({"items": {"type": "string"}}).problems(list(range(1_000)))
    assert len(problems) == 201
    assert "more than 200" in problems[-1].message


@pytest.mark.parametrize("alternatives", [1, 300])
def test_of_a_very_large_wrong_value_the_first_problem_is_listed(alternatives: int) -> None:
    """The library builds every error before it gives the first: a million of them take minutes and all memory."""
    wrong = {"oneOf": [{"const": -n - 1} for n in range(alternatives)]}
    schema = compile_schema({"type": "array", "items": wrong})
    began = time.process_time()
    first, more = schema.problems(list(range(1_000_000)))
    assert time.process_time() - began < 10  # it takes 0.3; building every error takes 7 seconds, or 2,000
    assert first.path == "value[0]"
    assert more.message == "the value is large, so only its first problem is listed"


def test_all_problems_of_a_value_of_some_size_are_listed() -> None:
    schema = compile_schema({"type": "array", "items": {"type": "string"}})
    assert len(schema.problems([*map(str, range(5_000)), *range(150)])) == 150
