"""Schemas that only ask for names: decided without the native validator, and as it would decide."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.errors import UnsupportedSchema
from ropewalk.schema import compile_schema

NAMES = st.sampled_from(["a", "b", "c", "é"])
NOTES = st.fixed_dictionaries({}, optional={"description": st.sampled_from(["", "words"]), "default": st.booleans()})
SCHEMAS = st.fixed_dictionaries(
    {"type": st.just("object")},
    optional={
        "properties": st.dictionaries(NAMES, NOTES),
        "required": st.lists(NAMES, unique=True),
        "additionalProperties": st.booleans(),
        "title": st.sampled_from(["", "words"]),
    },
)
VALUES = st.dictionaries(NAMES, st.none() | st.booleans() | st.lists(st.booleans())) | st.none() | st.lists(NAMES)


@given(SCHEMAS, VALUES)
def test_the_answer_is_that_of_the_native_validator(schema: dict[str, Any], value: Any) -> None:
    fits = jsonschema_rs.Draft202012Validator(schema).is_valid(value)
    compiled = compile_schema(schema)
    assert compiled.is_valid(value) is fits
    assert (compiled.problems(value) == []) is fits


def test_what_does_not_fit_is_told_as_ever() -> None:
    compiled = compile_schema(
        {"type": "object", "properties": {"query": {}}, "required": ["query"], "additionalProperties": False}
    )
    assert sorted(map(str, compiled.problems({"qury": 1}, "args"))) == [
        "args.qury: unknown property; did you mean query?",
        'args: "query" is a required property',
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "required": ["a", "a"]},
        {"type": "object", "required": [1]},
        {"type": "object", "required": "a"},
        {"type": "object", "properties": {"a": 1}},
        {"type": "object", "properties": {"a": {"description": 1}}},
        {"type": "object", "properties": []},
        {"type": "object", "additionalProperties": "no"},
        {"type": "object", "title": 1},
    ],
)
def test_a_schema_that_is_wrong_is_refused_when_it_is_compiled(schema: Any) -> None:
    with pytest.raises(UnsupportedSchema):
        compile_schema(schema)


def test_a_chain_of_functions_without_hints_loads_no_validator() -> None:
    code = (
        "import asyncio, sys, ropewalk\n"
        "async def step(x): return x + 1\n"
        "async def main():\n"
        "    nodes = [{'id': 'n', 'type': 'tool', 'tool': 'step', 'params': {'x': 1}}]\n"
        "    async with ropewalk.App('memory', tools=[step]) as app:\n"
        "        done = await app.run({'kind': 'chain', 'nodes': nodes})\n"
        "    print(done['results'], 'jsonschema_rs' in sys.modules)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "{'n': 2} False", done.stderr
