"""A flow of every kind, called in every way, gives the same value; its schema says what that is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App, ChainStep, Runner, Toolbox, flow, tool
from ropewalk.agents import complete_with_tools
from ropewalk.api.composite import workflow_tools
from ropewalk.engine.flow_tool import flow_tool_of
from ropewalk.errors import InvalidFlow, NotFound, ToolError
from ropewalk.schema import compile_schema
from ropewalk.tools.tool import tool_from

from .flow_kinds import DOCUMENTS, INPUT, KINDS, SCHEMAS, VALUES, app, source

TOPIC = {"topic": "$input.topic"}


async def in_a_chain(made: App, folder: Path) -> Any:
    node = {"id": "a", "type": "tool", "tool": "k", "params": TOPIC}
    return (await made.run({"kind": "chain", "nodes": [node]}, INPUT)).results["a"]


async def in_a_composition(made: App, folder: Path) -> Any:
    node = {"id": "a", "type": "tool", "tool": "k", "inputMapping": TOPIC}
    return (await made.run({"kind": "composition", "nodes": [node]}, INPUT)).data


async def in_a_composite(made: App, folder: Path) -> Any:
    steps = [{"name": "a", "tool": "k", "inputMapping": TOPIC}]
    return (await made.run({"kind": "composite", "name": "c", "mode": "compose", "steps": steps}, INPUT)).result


async def in_an_experience(made: App, folder: Path) -> Any:
    home = folder / "outer"
    home.mkdir()
    kind = made.toolbox.get("k").output_schema["type"]
    (home / "experience.yaml").write_text(
        f"name: outer\nversion: 0.1.0\nstate: {{schema: {{got: {{type: {kind}}}}}}}\n"
        "graph: {nodes: [{id: a, kind: call, tool: k, args: {topic: $input.topic}, writes: [got]}], edges: []}\n"
    )
    return (await made.run(home, INPUT)).finalState["got"]


async def in_an_agent(made: App, folder: Path) -> Any:
    done = await made.run({"kind": "agent", "prompt": "Call it.", "tools": ["k"]})
    assert done.result == "called"
    [use] = done.conversation["trace"]
    return use["outcome"]["value"]


async def in_a_python_flow(made: App, folder: Path) -> Any:
    outer = flow("outer", topic=str)
    outer.result(outer.call("k", topic=outer.input.topic))
    return (await made.run(outer, INPUT)).result


async def in_a_run_chain(made: App, folder: Path) -> Any:
    done = await Runner(index=made.toolbox).run_chain([ChainStep("k", INPUT)])
    return done.final.structured


async def by_call_tool(made: App, folder: Path) -> Any:
    return await made.call_tool("k", INPUT)


async def for_claude(made: App, folder: Path) -> Any:
    done = await complete_with_tools("Call it.", tools=["k"], app=made)
    [use] = done.trace
    return use["outcome"]["value"]


async def in_a_workflow_of_an_agent(made: App, folder: Path) -> Any:
    agent = Runner(Toolbox(workflow_tools(made, allow=["k"])))
    steps = [{"name": "a", "tool": "k", "inputMapping": TOPIC}]
    await agent.run("create_workflow", {"name": "w", "steps": steps})
    ended = await agent.run("run_workflow", {"name": "w", "input": INPUT})
    return ended.structured["result"]


WAYS: tuple[Callable[[App, Path], Awaitable[Any]], ...] = (
    in_a_chain,
    in_a_composition,
    in_a_composite,
    in_an_experience,
    in_an_agent,
    in_a_python_flow,
    in_a_run_chain,
    by_call_tool,
    for_claude,
    in_a_workflow_of_an_agent,
)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_gives_its_value_in_every_way(kind: str, way: Any, tmp_path: Path) -> None:
    async with app() as made:
        made.toolbox.register(made.as_tool(source(kind, tmp_path), name="k"))
        assert await way(made, tmp_path) == VALUES[kind]


@pytest.mark.parametrize("kind", KINDS)
async def test_the_outcome_of_a_run_has_the_value_and_a_tool_its_schema(kind: str, tmp_path: Path) -> None:
    async with app() as made:
        done = await made.run(source(kind, tmp_path), INPUT)
        assert done.result == VALUES[kind]
        made_tool = made.as_tool(source(kind, tmp_path), name="k")
        assert made_tool.output_schema == SCHEMAS[kind]
        assert compile_schema(SCHEMAS[kind]).problems(done.result) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_recorded_run_gives_its_value_again(kind: str, tmp_path: Path) -> None:
    made_of = source(kind, tmp_path)
    async with app(str(tmp_path / "runs.db")) as made:
        await made.run(made_of, INPUT, run_id="r")
    async with app(str(tmp_path / "runs.db")) as made:
        assert (await made.resume("r")).result == VALUES[kind]
        assert (await made.run(made_of, INPUT, run_id="r")).result == VALUES[kind]


@pytest.mark.parametrize("kind", ["chain", "composition"])
@pytest.mark.parametrize("form", ["id", "object", "to_dict"])
async def test_a_stored_definition_is_a_tool(kind: str, form: str) -> None:
    async with app() as made:
        service: Any = made.chains if kind == "chain" else made.compositions
        create = service.create_chain if kind == "chain" else service.create_composition
        # Without fields that only one kind has, so that the shape alone does not tell which it is.
        node = {"id": "s", "type": "tool", "tool": "ping"}
        stored = await create({"id": "stored", "name": "stored one", "nodes": [node]})
        given = {"id": "stored", "object": stored, "to_dict": stored.to_dict()}[form]
        found = made.as_tool(given, name="k")
        made.toolbox.register(found)
        assert await made.call_tool("k", {}) == VALUES[kind]
        assert (await made.run(given)).result == VALUES[kind]
        assert found.output_schema == SCHEMAS[kind]


async def test_an_id_that_nothing_has_is_not_found_with_what_was_meant() -> None:
    async with app() as made:
        await made.chains.create_chain({**DOCUMENTS["chain"], "id": "daily"})
        with pytest.raises(NotFound, match=r"no file or stored definition 'dayly'; did you mean 'daily'\?"):
            made.as_tool("dayly")
        with pytest.raises(NotFound, match=r"no file 'daily\.yaml'"):
            made.as_tool("daily.yaml")
        await made.compositions.create_composition({**DOCUMENTS["composition"], "id": "daily"})
        with pytest.raises(InvalidFlow, match="a chain and a composition have the id 'daily'"):
            made.as_tool("daily")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "agent"])
async def test_a_misspelt_member_of_a_flow_that_is_a_tool_is_found_before_the_run(kind: str, tmp_path: Path) -> None:
    way = {"chain": ".s", "chain in loop mode": ".s", "experience": ".found"}.get(kind, "")
    outer = {
        "kind": "chain",
        "nodes": [
            {"id": "a", "type": "tool", "tool": "k", "params": TOPIC},
            {"id": "b", "type": "tool", "tool": "search", "params": {"query": f"$steps.a{way}.snipet"}},
        ],
    }
    async with app() as made:
        made.toolbox.register(made.as_tool(source(kind, tmp_path), name="k"))
        (problem,) = (await made.validate(outer)).problems
        assert (problem.path, problem.suggestion) == ("nodes[1].params.query", "snippet")
        outer["nodes"][1]["params"]["query"] = f"$steps.a{way}.snippet"  # type: ignore[index]
        assert (await made.validate(outer)).problems == ()


@pytest.mark.parametrize(("member", "suggestion"), [("snippet", None), ("snipet", "snippet")])
@pytest.mark.parametrize("inside", [False, True])
async def test_a_misspelt_member_of_a_state_field_is_found(
    member: str, suggestion: str | None, inside: bool, tmp_path: Path
) -> None:
    source("experience", tmp_path)
    first = "{id: a, kind: experience, impl: ./k, args: {topic: $input.topic}, writes: [s]}"
    if not inside:
        first = "{id: a, kind: call, tool: search, args: {query: $input.topic}, writes: [s]}"
    way = f"$.s.found.{member}" if inside else f"$.s.{member}"
    (tmp_path / "experience.yaml").write_text(
        "name: outer\nversion: 0.1.0\nstate: {schema: {s: {type: object}, r: {type: object}}}\ngraph:\n"
        f"  nodes:\n  - {first}\n"
        f"  - {{id: b, kind: call, tool: search, args: {{query: {way}}}, writes: [r]}}\n"
        "  edges: [{from: a, to: b}]\n"
    )
    async with app() as made:
        problems = (await made.validate(tmp_path)).problems
        assert [problem.suggestion for problem in problems] == ([suggestion] if suggestion else [])
        if not problems:
            assert (await made.run(tmp_path, INPUT)).result["r"] == VALUES["composition"]


async def test_a_state_field_that_may_be_as_the_run_began_is_no_problem(tmp_path: Path) -> None:
    (tmp_path / "experience.yaml").write_text(
        "name: outer\nversion: 0.1.0\nstate: {schema: {s: {type: object}, r: {type: object}}}\ngraph:\n  nodes:\n"
        "  - {id: a, kind: call, tool: search, args: {query: $input.topic}, writes: [s]}\n"
        "  - {id: b, kind: call, tool: search, args: {query: $.s.title}, writes: [r]}\n  edges: []\n"
    )
    async with app() as made:
        assert (await made.validate(tmp_path)).problems == ()
        done = await made.run(tmp_path, INPUT, state={"s": {"title": "before"}})
        assert done.result["r"] == {"snippet": "before"}


async def test_the_schema_of_a_flow_follows_the_tools_that_it_calls() -> None:
    outer = {
        "kind": "chain",
        "nodes": [
            {"id": "a", "type": "tool", "tool": "k", "params": TOPIC},
            {"id": "b", "type": "tool", "tool": "search", "params": {"query": "$steps.a.s.title"}},
        ],
    }

    async def found_by_title(query: str) -> dict[str, str]:
        return {"title": query}

    async with app() as made:
        made.toolbox.register(made.as_tool(DOCUMENTS["chain"], name="k"))
        assert len((await made.validate(outer)).problems) == 1
        made.toolbox.remove("search")
        made.toolbox.register(tool_from(found_by_title, {"name": "search"}))
        assert (await made.validate(outer)).problems == ()


async def test_flows_that_reach_each_other_are_refused_and_not_inferred_for_ever() -> None:
    def calls(name: str) -> dict[str, Any]:
        return {"kind": "chain", "nodes": [{"id": "x", "type": "tool", "tool": name, "params": {}}]}

    async with app() as made:
        made.toolbox.register(made.as_tool(calls("b"), name="a"))
        made.toolbox.register(made.as_tool(calls("a"), name="b"))
        assert any("calls itself" in problem.message for problem in (await made.validate(calls("a"))).problems)


def test_every_notation_is_in_the_matrix() -> None:
    from ropewalk.notations.registry import NOTATIONS

    assert set(NOTATIONS) - {"flow"} <= set(KINDS)  # a flow written in Python is that notation


async def test_the_value_of_a_flow_must_be_what_it_announces(tmp_path: Path) -> None:
    async with app() as made:
        tool = made.as_tool(source("chain", tmp_path), name="k")
        handler = flow_tool_of(tool)
        assert handler is not None
        false = handler.with_host(value_schema=lambda: {"type": "string"})
        made.toolbox.register(replace(tool, handler=false))
        with pytest.raises(ToolError, match='is not of type "string"'):
            await made.call_tool("k", INPUT)


@tool(output_schema={"anyOf": [{"properties": {name: {"type": "integer"}}, "type": "object"} for name in ("a", "b")]})
def parcel(n: int) -> Any:
    """An object of one of two shapes, which may have members that its shape does not declare."""
    return [{"b": 1, "a": "not declared here"}, {"a": 2, "output": {"a": "deep"}}, {"b": 3}][n]


@pytest.mark.parametrize(
    ("read", "values"),
    [("$output.p.a", ["not declared here", 2, None]), ("$output.p.output.a", ["not declared here", "deep", None])],
)
async def test_a_member_that_one_of_two_shapes_declares_may_be_anything_in_the_other(read: str, values: Any) -> None:
    nodes = [
        {"id": "p", "type": "tool", "tool": "parcel", "params": {"n": "$input.n"}},
        {"id": "t", "type": "transform", "input": read},
    ]
    async with App("memory", tools=[parcel]) as made:
        made.toolbox.register(made.as_tool({"kind": "chain", "name": "k", "nodes": nodes}))
        assert [(await made.call_tool("k", {"n": n}))["t"] for n in range(3)] == values
