"""The functions of compositions: stored, made from less, run by an app's tools, resumed after a crash."""

from __future__ import annotations

import inspect
import uuid
from pathlib import Path
from typing import Any

import pytest

from chains.conftest import run
from ropewalk import App, toolchain, transform
from ropewalk.errors import InvalidFlow, InvalidInput, JournalConflict, NotFound, RunExists
from ropewalk.expr import TRANSFORM_TYPES, TRANSFORMS
from ropewalk.notations.node_types import NodeType, TransformType
from ropewalk.notations.registry import notation_of
from ropewalk.testing import ScriptedTools

FUNCTIONS = ["create_composition", "execute_composition", "get_composition", "list_compositions", "delete_composition"]
FUNCTIONS += ["compose_tools", "create_validation_chain", "create_transform_pipeline"]
ECHO = {"id": "a", "type": "tool", "tool": "echo"}


async def echo(name: str, params: dict[str, Any]) -> Any:
    return {"tool": name, **params}


def test_the_functions_are_there_plain_and_as_coroutines(tmp_path: Path) -> None:
    """COMP-FN-1 COMP-FN-2"""
    app = App("memory")
    for name in FUNCTIONS:
        plain = getattr(toolchain, name)
        assert name in toolchain.__all__
        assert inspect.iscoroutinefunction(plain) is (name == "execute_composition")
        assert inspect.iscoroutinefunction(getattr(app.compositions, name))


@pytest.fixture
def default_app(monkeypatch: pytest.MonkeyPatch, file: str) -> App:
    app = App(file)
    monkeypatch.setattr(toolchain, "_app", app)
    return app


def test_compositions_are_stored_and_survive_a_restart(default_app: App, file: str) -> None:
    """COMP-FN-3 COMP-FN-4 COMP-FN-5 COMP-CONFIG-1"""
    made = toolchain.create_composition({"name": "n", "description": "d", "nodes": [ECHO]})
    assert str(uuid.UUID(made.id)) == made.id
    bare = toolchain.create_composition(id="bare", nodes=[ECHO])
    assert (bare.name, bare.description, bare.variables, bare.metadata["runCount"]) == ("", "", {}, 0)

    async def body() -> None:
        done = await toolchain.execute_composition(made.id, {"x": 1}, echo)
        assert (done.success, done.data, done["executionPath"]) == (True, {"tool": "echo", "x": 1}, ["a"])
        with pytest.raises(NotFound, match="did you mean 'bare'"):
            await toolchain.execute_composition("bar", {})

    run(body())
    line = {"id": made.id, "name": "n", "description": "d", "nodeCount": 1, "runCount": 1}
    [first] = [one for one in toolchain.list_compositions() if one.id == made.id]
    assert first == {**line, "created": made.metadata["created"]}
    default_app.store.close()

    async def after() -> None:
        async with App(file) as app:
            assert await app.compositions.get_composition(made.id) == {
                **made.to_dict(),
                "metadata": {**made.metadata, "runCount": 1},
            }
            assert (await app.compositions.execute_composition(made.id, {"x": 2}, echo)).data["x"] == 2
            assert await app.compositions.get_composition("nope") is None
            assert await app.chains.get_chain(made.id) is None
            assert await app.compositions.delete_composition(made.id) is True
            assert await app.compositions.delete_composition(made.id) is False
            assert [one.id for one in await app.compositions.list_compositions()] == ["bare"]

    run(after())


def test_enumerations_are_exported_and_their_values_are_accepted(default_app: App) -> None:
    """COMP-FN-6"""
    words = {"TOOL", "MAP", "FILTER", "REDUCE", "TRANSFORM", "VALIDATE", "BRANCH", "MERGE", "CONDITIONAL",
             "PARALLEL", "DELAY", "WAIT", "CONDITION", "LOOP"}  # fmt: skip
    assert set(toolchain.ComposerNodeType.__members__) == words
    assert {one.upper() for one in TransformType} == set(TRANSFORM_TYPES) == set(toolchain.TransformType.__members__)
    sort = {"type": TransformType.SORT, "config": {}}
    made = toolchain.create_composition(nodes=[{"id": "s", "type": NodeType.TRANSFORM, "transform": sort}])
    assert made.nodes[0] == {"id": "s", "type": "transform", "transform": {"type": "sort", "config": {}}}


def test_tools_are_composed_one_after_another(default_app: App) -> None:
    """COMP-FN-7"""
    names = ["web_search", "ns:analysis_search:1.0", "web_search", "odd/name"]
    mappings: list[dict[str, Any]] = [{"input": {"q": "$input.q"}}, {"output": {"x": "$output.analysis_search.tool"}}]
    made = toolchain.compose_tools(names, {"description": "d", "mappings": mappings, "inputSchema": {"type": "object"}})
    assert [(node["id"], node["tool"]) for node in made.nodes] == [
        ("web_search", "web_search"), ("analysis_search", "ns:analysis_search:1.0"), ("web_search_2", "web_search"),
        ("odd_name", "odd/name"),
    ]  # fmt: skip
    assert (made.description, made.name.startswith("web_search -> ")) == ("d", True)

    async def body() -> None:
        calls: list[Any] = []

        async def tools(name: str, params: dict[str, Any]) -> Any:
            calls.append((name, params))
            return {"tool": name}

        done = await toolchain.execute_composition(made.id, {"q": 1, "more": 2}, tools)
        assert calls[0] == ("web_search", {"q": 1})
        assert calls[1] == ("ns:analysis_search:1.0", {"tool": "web_search"})
        assert calls[2] == ("web_search", {"x": "ns:analysis_search:1.0"})
        assert done.node_count == 4

    run(body())


def test_validators_and_transforms_are_chained(default_app: App) -> None:
    """COMP-FN-8 COMP-FN-9"""
    checks = [{"schema": {"required": ["a"]}, "required": False}, {"schema": {"type": "object"}}]
    valid = toolchain.create_validation_chain(checks)
    pipe = toolchain.create_transform_pipeline([
        {"type": "FILTER", "config": {"expression": "$item > 1"}}, {"type": "SORT", "config": {"order": "desc"}},
    ], name="pipe")  # fmt: skip
    assert [(n["id"], n["type"]) for n in valid.nodes] == [("validate_1", "validate"), ("validate_2", "validate")]
    assert pipe.name == "pipe"

    async def body() -> None:
        done = await toolchain.execute_composition(valid.id, {"b": 1})
        assert (done.data, [e["keyword"] for e in done.errors]) == ({"b": 1}, ["required"])
        failed = await toolchain.execute_composition(valid.id, 5)
        assert (failed.success, failed.failed_node, failed.errors[-1]["keyword"]) == (False, "validate_2", "type")
        assert (await toolchain.execute_composition(pipe.id, [1, 3, 2])).data == [3, 2]

    run(body())


@pytest.mark.parametrize(
    ("make", "given", "problems"),
    [
        ("compose_tools", ["a", ""], ["tool_names[1].tool: must be a non-empty string"]),
        ("compose_tools", "a", ["tool_names: must be a list of tool names, not a string"]),
        ("compose_tools", ["a", 5], ["tool_names[1]: must be one of tool names, not a number"]),
        ("compose_tools", [], ["tool_names: must be a non-empty list of nodes"]),
        ("create_validation_chain", [{}], ["validators[0].schema: required for a validate node"]),
        (
            "create_validation_chain",
            [{"schema": {"minimum": "x"}}],
            ['validators[0].schema.minimum: "x" is not of type "number"'],
        ),
        (
            "create_transform_pipeline",
            [{"type": "SORT"}, {"type": "PCIK", "config": {}}],
            ["transforms[1].type: unknown transform 'PCIK'; did you mean PICK?"],
        ),
        (
            "create_transform_pipeline",
            [{"type": "MAP", "config": {}}],
            ["transforms[0].config.expression: is required"],
        ),
    ],
)
def test_what_is_wrong_is_told_in_the_callers_words(
    default_app: App, make: str, given: Any, problems: list[str]
) -> None:
    """COMP-BAD-1"""
    with pytest.raises(InvalidFlow) as refused:
        getattr(toolchain, make)(given)
    assert [str(problem) for problem in refused.value.problems] == problems


def test_mappings_that_belong_to_no_tool_are_refused(default_app: App) -> None:
    """COMP-FN-7"""
    with pytest.raises(InvalidFlow) as refused:
        toolchain.compose_tools(["a"], mappings=[{"inptu": 1}, {}], nodes=[])
    found = [str(problem) for problem in refused.value.problems]
    assert found == [
        "mappings[1]: there is no tool at this position; the number of tools is 1",
        "mappings[0].inptu: unknown key; did you mean input?",
    ]


@pytest.fixture
def _double() -> Any:
    @transform("double every one")
    def double(rows: Any) -> Any:
        if rows is None:
            raise ValueError("nothing to double")
        return [row * 2 for row in rows]

    yield
    del TRANSFORMS["double every one"]


@pytest.mark.usefixtures("_double")
def test_a_custom_transform_calls_what_was_registered(address: str) -> None:
    """COMP-TRANS-8"""

    async def body() -> None:
        async with App(address) as app:
            spec = {"type": "CUSTOM", "config": {"function": "double every one"}}
            made = await app.compositions.create_transform_pipeline([spec])
            assert (await app.compositions.execute_composition(made.id, [1, 2])).data == [2, 4]
            failed = await app.compositions.execute_composition(made.id, None)
            assert "ValueError: nothing to double" in failed.error
            wrong = {"type": "CUSTOM", "config": {"function": "double every on"}}
            with pytest.raises(InvalidFlow, match="did you mean double every one"):
                await app.compositions.create_transform_pipeline([wrong])

    run(body())


def test_the_apps_own_tools_are_called_and_checked_before(address: str) -> None:
    """COMP-RUN-10"""
    tools = ScriptedTools(echo=lambda **args: args)
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}

    async def body() -> None:
        async with App(address, tools=tools.tools({"echo": schema})) as app:
            core = app.compositions
            made = await core.create_composition(nodes=[ECHO])
            assert (await core.execute_composition(made.id, {"x": 1})).data == {"x": 1}
            missing = await core.create_composition(nodes=[{"id": "a", "type": "tool", "tool": "ecko"}])
            with pytest.raises(InvalidFlow, match="unknown tool 'ecko'; did you mean echo"):
                await core.execute_composition(missing.id, {})
            with pytest.raises(InvalidFlow, match=r"nodes\[0\].inputMapping.x: must be an integer"):
                await core.create_composition(nodes=[{**ECHO, "inputMapping": {"x": "text"}}])
            with pytest.raises(InvalidInput, match=r"input\.x"):
                await app.run({"inputSchema": schema, "outputSchema": {}, "nodes": [ECHO]}, {"x": "1"})
            assert tools.count("echo") == 1

    run(body())


def test_one_execution_id_runs_once_and_belongs_to_one_composition() -> None:
    """COMP-RUN-4"""
    tools = ScriptedTools(echo=lambda **args: args)

    async def body() -> None:
        async with App("memory") as app:
            core = app.compositions
            for id in ("one", "two"):
                await core.create_composition(id=id, nodes=[ECHO])
            first = await core.execute_composition("one", {"x": 1}, tools, execution_id="monday")
            assert await core.execute_composition("one", {"x": 1}, tools, execution_id="monday") == first
            with pytest.raises(RunExists):
                await core.execute_composition("one", {"x": 2}, tools, execution_id="monday")
            assert tools.count("echo") == 1
            with pytest.raises(JournalConflict):
                await core.execute_composition("two", {"x": 2}, tools, execution_id="monday")

    run(body())


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({"nodes": [{"id": "a", "type": "tool", "tool": "t"}]}, "chain"),
        ({"nodes": [{"id": "a", "type": "transform", "transform": {}}]}, "chain"),
        ({"nodes": [{"id": "a", "type": "condition", "condition": "true"}]}, "chain"),
        ({"mode": "dag", "nodes": [{"id": "a", "type": "map"}]}, "chain"),
        ({"nodes": [{"id": "a", "type": "tool"}, {"id": "b", "type": " Merge "}]}, "composition"),
        ({"nodes": [{"id": "a", "type": "tool", "input_mapping": {}}]}, "composition"),
        ({"outputSchema": {}, "nodes": [{"id": "a", "type": "tool"}]}, "composition"),
        ({"kind": "composition", "nodes": [{"id": "a", "type": "tool"}]}, "composition"),
        ({"kind": "chain", "nodes": [{"id": "a", "type": "merge"}]}, "chain"),
        ({"nodes": [5, None]}, "chain"),
        ({"outputSchema": {}, "nodes": [{"id": "a", "type": "loop", "nodes": []}]}, "chain"),
        ({"output_schema": {}, "nodes": [{"id": "a", "type": "tool", "tool": "t"}]}, "composition"),
        ({"retryDelay": 5, "nodes": [{"id": "a", "type": "merge"}]}, "chain"),
    ],
)
def test_the_notation_is_told_by_kind_or_shape(document: dict[str, Any], kind: str) -> None:
    """COMP-CONFIG-3"""
    assert notation_of(document).kind == kind
