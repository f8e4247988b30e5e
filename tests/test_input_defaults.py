"""Defaults of an `inputSchema`: what a run has that was started without them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ropewalk import ComposableToolBuilder, ToolExecutionResult, tool
from ropewalk.app.app import App
from ropewalk.errors import InvalidFlow, InvalidInput, RunExists
from ropewalk.schema import compile_schema, default_errors, without_required_defaults
from ropewalk.testing import ScriptedModel

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "default": 5},
        "where": {"type": "object", "properties": {"lang": {"type": "string", "default": "en"}}},
        "tags": {"type": "array", "default": []},
    },
    "required": ["count"],
}
GIVEN, FILLED = {"where": {}}, {"where": {"lang": "en"}, "count": 5, "tags": []}
ARGS = {"count": "$input.count", "lang": "$input.where.lang"}

CHAIN = {"kind": "chain", "nodes": [{"id": "a", "type": "tool", "tool": "take", "params": ARGS}]}
COMPOSITION = {"kind": "composition", "nodes": [{"id": "a", "type": "TOOL", "tool": "take", "inputMapping": ARGS}]}
COMPOSITE = {"kind": "composite", "mode": "compose", "steps": [{"name": "a", "tool": "take", "inputMapping": ARGS}]}
AGENT = {"kind": "agent", "prompt": "Take ${$input.count} ${$input.where.lang}."}
NOTATIONS = {
    document["kind"]: {"name": "counted", "inputSchema": SCHEMA, **document}
    for document in (CHAIN, COMPOSITION, COMPOSITE, AGENT)
}


@tool
async def take(count: int, lang: str | None = None) -> dict[str, Any]:
    """Take some."""
    return {"count": count, "lang": lang}


def app(address: str = "memory") -> App:
    return App(address, tools=[take], model=ScriptedModel("done"))


@pytest.mark.parametrize("kind", NOTATIONS)
def test_a_run_has_the_defaults_of_what_it_was_not_given_and_records_them(kind: str, tmp_path: Path) -> None:
    async def body() -> None:
        async with app(str(tmp_path / "runs.db")) as made:
            done = await made.run(NOTATIONS[kind], GIVEN, run_id="r")
            assert done.status == "completed", done.to_dict()
            assert made.runs.row("r").input == FILLED
            if kind == "agent":
                assert made.model.requests[0].messages[0]["content"] == "Take 5 en."
            else:
                assert {"count": 5, "lang": "en"} in (done.to_dict()["result"], *done.to_dict()["result"].values())
            again = await made.run(NOTATIONS[kind], FILLED, run_id="r")  # the very same run
            assert again.status == "completed"
            with pytest.raises(RunExists):
                await made.run(NOTATIONS[kind], {"count": 6}, run_id="r")

    asyncio.run(body())


@pytest.mark.parametrize("kind", [kind for kind in NOTATIONS if kind != "agent"])
def test_a_flow_that_is_called_as_a_tool_has_them_too(kind: str, tmp_path: Path) -> None:
    caller = {"kind": "chain", "nodes": [{"id": "call", "type": "tool", "tool": "inner", "params": {}}]}

    async def body() -> None:
        async with app(str(tmp_path / "runs.db")) as made:
            made.toolbox.register(made.as_tool(NOTATIONS[kind], name="inner"))
            assert made.check(made.load(caller)).problems == ()  # count is required, but has a default
            done = await made.run(caller, run_id="outer")
            assert done.success, done.to_dict()
            [part] = made.store.list_runs(parent="outer")
            assert made.runs.row(part.id).input == {"count": 5, "tags": []}

    asyncio.run(body())


def test_a_built_composite_tool_has_them() -> None:
    async def execute(name: str, args: dict[str, Any], context: Any) -> ToolExecutionResult:
        return ToolExecutionResult(True, args)

    built = ComposableToolBuilder(execute).build("counted", "Counts.", SCHEMA, COMPOSITE | {"kind": "composite"})
    assert asyncio.run(built.execute({"where": {}})).output == {"count": 5, "lang": "en"}


def test_a_fork_with_another_input_and_a_resumed_run_have_them(tmp_path: Path) -> None:
    async def body() -> None:
        async with app(str(tmp_path / "runs.db")) as made:
            await made.run(NOTATIONS["chain"], {"count": 1}, run_id="r")
            done = await made.runs.fork("r", input={}, new_id="f")
            assert done.to_dict()["results"]["a"] == {"count": 5, "lang": None}
            assert made.runs.row("f").input == {"count": 5, "tags": []}
            assert (await made.resume("f")).to_dict()["results"]["a"]["count"] == 5

    asyncio.run(body())


def test_a_value_that_is_given_stays_also_when_it_is_null() -> None:
    async def body() -> None:
        async with app() as made:
            with pytest.raises(InvalidInput) as refused:
                await made.run(NOTATIONS["chain"], {"count": None})
            assert [problem.path for problem in refused.value.problems] == ["input.count"]

    asyncio.run(body())


def test_a_default_that_does_not_fit_is_a_problem_at_its_place() -> None:
    wrong = {"type": "object", "properties": {"count": {"type": "integer", "default": "five"}}}
    for kind, document in NOTATIONS.items():
        with pytest.raises(InvalidFlow) as refused:
            asyncio.run(app().run({**document, "inputSchema": wrong}))
        [problem] = refused.value.problems
        where = "inputSchema.properties.count.default"
        assert (problem.path, problem.message) == (
            where,
            'the default does not fit: "five" is not of type "integer"',
        ), kind


FILLS: list[tuple[Any, Any, Any]] = [
    ({"properties": {"a": {"default": {}, "properties": {"b": {"default": 1}}}}}, {}, {"a": {"b": 1}}),
    ({"properties": {"a": {"properties": {"b": {"default": 1}}}}}, {}, {}),
    ({"items": {"properties": {"b": {"default": 1}}}}, [{}, {"b": 2}, 3], [{"b": 1}, {"b": 2}, 3]),
    ({"properties": {"a": {"$ref": "#/$defs/a%20b"}}, "$defs": {"a b": {"default": 1}}}, {}, {"a": 1}),
    ({"properties": {"a": {"$ref": "#/$defs/A", "default": 2}}, "$defs": {"A": {"default": 1}}}, {}, {"a": 2}),
    ({"allOf": [{"properties": {"a": {"default": 1}}}]}, {}, {"a": 1}),
    ({"anyOf": [{"properties": {"a": {"default": 1}}}]}, {}, {}),
    ({"properties": {"n": {"default": 0}, "sub": {"$ref": "#"}}}, {"sub": {"sub": {}}},
     {"n": 0, "sub": {"n": 0, "sub": {"n": 0}}}),
    ({"properties": {"a": {"default": 1}}}, "text", "text"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "given", "filled"), FILLS)
def test_what_is_filled_in(schema: Any, given: Any, filled: Any) -> None:
    before = repr(given)
    compiled = compile_schema(schema)
    assert compiled.with_defaults(given) == filled
    assert repr(given) == before
    assert compiled.with_defaults(filled) is filled  # nothing is missing: nothing is copied


def test_defaults_are_not_shared_between_runs() -> None:
    compiled = compile_schema({"properties": {"a": {"default": []}}})
    compiled.with_defaults({})["a"].append(1)
    assert compiled.with_defaults({}) == {"a": []}


def test_a_schema_without_defaults_is_asked_once() -> None:
    compiled = compile_schema({"type": "object", "properties": {"default": {"type": "string"}}})
    assert compiled.defaults is None


def test_what_has_a_default_is_not_required_of_who_calls_a_flow() -> None:
    schema = {
        "properties": {
            "a": {"default": 1},
            "b": {"properties": {"c": {"default": 1}, "d": {}}, "required": ["c", "d"]},
            "my key": {"default": 1},
        },
        "required": ["a", "b", "my key"],
    }
    loose = without_required_defaults(schema)
    assert loose["required"] == ["b"]
    assert loose["properties"]["b"]["required"] == ["d"]
    assert schema["required"] == ["a", "b", "my key"]


MISFITS: list[tuple[Any, list[str]]] = [
    ({"properties": {"a": {"type": "string", "default": "x"}}}, []),
    ({"type": "integer", "default": "x"}, [".default"]),
    ({"properties": {"a b": {"type": "integer", "default": "x"}}}, [".properties['a b'].default"]),
    ({"properties": {"a": {"default": {"b": 1}, "properties": {"b": {"type": "string"}}}}},
     [".properties.a.default.b"]),
    ({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"maxLength": 1, "default": "xy"}}},
     [".$defs.A.default"]),
    ({"properties": {"sub": {"$ref": "#", "default": {}}}}, [".properties.sub.default"]),
    # What is required and has a default is not missing in another default.
    ({"properties": {"a": {"default": {}, "properties": {"b": {"default": 1}}, "required": ["b"]}}}, []),
    ({"properties": {"a": {"default": {}, "properties": {"b": {}}, "required": ["b"]}}}, [".properties.a.default"]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "places"), MISFITS)
def test_where_defaults_do_not_fit(schema: Any, places: list[str]) -> None:
    assert [place.replace("['$defs']", ".$defs") for place, _ in default_errors(schema)] == places


def test_hostile_schemas_are_refused_not_followed_without_end() -> None:
    deep = {"properties": {"a": {"$ref": "#/$defs/n0"}}, "$defs": {
        f"n{i}": {"properties": {"a": {"$ref": f"#/$defs/n{i + 1}"}}} for i in range(2000)
    }}  # fmt: skip
    deep["$defs"]["n2000"] = {"default": 1}
    [(place, why)] = default_errors(deep)
    assert (place, why) == ("", "its references are nested too deep to look for defaults")
