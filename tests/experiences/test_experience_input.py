"""The input of an experience: declared, inferred, and the state that begins with it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from experiences.conftest import Make
from experiences.running import asked, run
from ropewalk import App
from ropewalk.errors import InvalidFlow, InvalidInput
from ropewalk.testing import ScriptedModel


def schema_of(home: Path) -> Any:
    return App().load(home).flow.input_schema


ASK = """
nodes:
  - {id: seed, kind: tool, impl: ./seed.py, writes: [rows]}
  - {id: ask, kind: agent, prompt: "{{topic}} {{rows}} {{$input.of}}", writes: [said]}
  - {id: more, kind: agent, prompt: "{{said}}", writes: [rest]}
edges: [{from: seed, to: ask, when: $.level > 1}, {from: ask, to: more}]
"""
FIELDS = """{topic: {type: string, description: what about, merge: set_once}, level: {type: number, default: 2},
  rows: {type: array}, said: {type: string}, rest: {type: string}}"""


def test_the_input_is_inferred_from_the_state_that_is_read_before_it_is_written(make: Make) -> None:
    home = make(ASK, FIELDS, seed_py="def run(args): return {'state_delta': {'rows': [args['_state'].get('topic')]}}")
    assert schema_of(home) == {
        "type": "object",
        "properties": {"topic": {"type": "string", "description": "what about"}, "level": {"type": "number"}, "of": {}},
    }
    model = ScriptedModel("a", "b")
    result = run(home, {"topic": "tea", "of": 1, "rows": "not read first"}, model=model)
    assert asked(model) == ['tea ["tea"] 1', "a"]
    assert result.final_state == {"topic": "tea", "level": 2, "rows": ["tea"], "said": "a", "rest": "b"}
    assert run(home, {"level": 1}, model=ScriptedModel("x")).final_state == {"level": 1, "rows": [None]}


def test_a_declared_input_schema_holds(make: Make) -> None:
    schema = "{type: object, required: [topic], properties: {of: {}, topic: {type: string, minLength: 2}}}"
    home = make(ASK, FIELDS, more=f"inputSchema: {schema}", seed_py="def run(args): return {'state_delta': {}}")
    assert schema_of(home)["required"] == ["topic"]
    with pytest.raises(InvalidInput, match="topic"):
        run(home, {}, model=ScriptedModel("x"))
    assert run(home, {"topic": "tea"}, model=ScriptedModel("x")).final_state["topic"] == "tea"


def test_a_declared_input_that_fits_no_field_is_a_problem(make: Make) -> None:
    home = make(ASK, FIELDS, more="inputSchema: {type: object, properties: {rows: {type: string}}}")
    with pytest.raises(InvalidFlow, match="is a string, but sets the state field 'rows', which takes a list"):
        App().load(home)


def test_an_experience_as_a_tool_takes_its_input(make: Make) -> None:
    home = make(
        "nodes: [{id: a, kind: tool, impl: ./a.py, reads: [name], writes: [greeting]}]",
        "{name: {type: string}, greeting: {type: string}}",
        a_py="def run(args): return {'state_delta': {'greeting': 'hello, ' + args['_state']['name']}}",
    )

    async def called() -> Any:
        async with App() as app:
            tool = app.as_tool(home)
            return tool.input_schema, await tool.handler(name="Ada")

    schema, value = asyncio.run(called())
    assert schema["properties"] == {"name": {"type": "string"}}
    assert value == {"name": "Ada", "greeting": "hello, Ada"}


def test_fields_written_by_a_loop_before_they_are_read_are_no_input(make: Make) -> None:
    home = make(
        """
        nodes:
          - {id: one, kind: tool, impl: ./one.py, writes: [a]}
          - {id: two, kind: tool, impl: ./one.py, reads: [a, b], writes: [b]}
          - {id: end, kind: agent, prompt: "{{a}} {{b}}"}
        edges: [{from: one, to: two}, {from: l, to: end}]
        loops: [{id: l, body: [one, two], max_iters: 1}]
        """,
        "{a: {type: string}, b: {type: string}}",
        one_py="def run(args): return {'state_delta': {}}",
    )
    assert schema_of(home)["properties"].keys() == {"b"}


def test_a_member_that_is_only_read_as_input_begins_no_field(make: Make) -> None:
    home = make(
        "nodes: [{id: a, kind: tool, impl: ./a.py, args: {n: $input.n}, writes: [got]}]",
        "{n: {type: number}, got: {type: number}}",
        a_py="def run(args): return {'state_delta': {'got': args['n']}}",
    )
    assert schema_of(home) == {"type": "object", "properties": {"n": {}}}
    assert run(home, {"n": 3}).final_state == {"got": 3}


WORDS = "nodes: [{id: k, kind: value, value: '${length($.words)}', writes: [n]}]"
COUNTED = "{words: {type: array, items: {type: string}}, n: {type: number}}"
DECLARED = "inputSchema: {type: object, properties: {words: {type: array, items: {type: string}}}, required: [words]}"


def announced(home: Path) -> Any:
    schema = App().as_tool(home).output_schema
    assert schema is not None
    return schema["properties"], schema.get("required")


@pytest.mark.parametrize(("declared", "required"), [(DECLARED, ["words", "n"]), ("", ["n"])])
def test_a_field_that_the_input_fills_is_announced_with_its_type(make: Make, declared: str, required: Any) -> None:
    properties, needed = announced(make(WORDS, COUNTED, more=declared))
    assert properties["words"] == {"type": "array", "items": {"type": "string"}}
    assert sorted(needed) == sorted(required)


def test_a_declared_input_without_a_type_has_that_of_the_field_that_it_fills(make: Make) -> None:
    home = make(WORDS, COUNTED, more="inputSchema: {type: object, properties: {words: {description: all of them}}}")
    assert schema_of(home)["properties"]["words"] == {"description": "all of them", "type": ["array", "null"]}
    with pytest.raises(InvalidInput, match="words"):
        run(home, {"words": "one"})
    assert run(home, {"words": None}).final_state == {"words": None, "n": 0}


@pytest.mark.parametrize(
    "member", ["{type: [array, string]}", "{anyOf: [{type: array}, {type: integer}]}", "{enum: [1]}"]
)
def test_a_declared_input_that_may_not_fit_its_field_is_a_problem(make: Make, member: str) -> None:
    home = make(WORDS, COUNTED, more=f"inputSchema: {{type: object, properties: {{words: {member}}}}}")
    with pytest.raises(InvalidFlow, match=r"inputSchema.properties.words: .* which takes a list"):
        App().load(home)


def test_a_null_leaves_a_field_that_is_set_once_as_it_was(make: Make) -> None:
    home = make(
        "nodes: [{id: k, kind: value, value: null, writes: [f]}]", "{f: {type: number, merge: set_once, default: 5}}"
    )
    assert announced(home) == ({"f": {"type": ["integer", "null"]}}, ["f"])
    assert run(home).final_state == {"f": 5}


def test_an_inner_experience_takes_only_its_input(make: Make) -> None:
    make(WORDS, COUNTED, at="outer/inner", more=DECLARED)
    outer = "nodes: [{id: sub, kind: experience, impl: ./inner, args: {words: $input.words}, writes: [got]}]"
    home = make(outer, "{got: {type: object}}", at="outer", more="inputSchema: {type: object}")
    assert run(home, {"words": ["a"]}).final_state == {"got": {"words": ["a"], "n": 1}}
    failed = run(home, {"words": "one"})
    assert (failed.status, failed.final_state) == ("failed", {})
    assert "words" in failed.errors[0]["message"]


def test_the_state_that_an_inner_experience_shares_may_be_that_of_its_caller(make: Make) -> None:
    make("nodes: [{id: k, kind: delay, delay: 1}]", "{f: {type: any, default: 1}}", at="outer/inner")
    outer = """
        nodes:
          - {id: first, kind: value, value: text, writes: [f]}
          - {id: sub, kind: experience, impl: ./inner, state_scope: shared}
          - {id: copy, kind: value, value: $output.sub.finalState.f, writes: [g]}
        edges: [{from: first, to: sub}, {from: sub, to: copy}]
        """
    home = make(outer, "{f: {type: any}, g: {type: any}}", at="outer")
    assert announced(home)[0]["g"] in ({}, True)
    assert run(home).final_state == {"f": "text", "g": "text"}
