"""The document of ComposableToolBuilder: its own example and sentences as tests."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk import App, ComposableToolBuilder, Tool, Toolbox
from ropewalk.agents import ComposableStep, ComposableToolSpec, ToolExecutionResult
from ropewalk.api.composite import workflow_tools

SCHEMA = {"type": "object", "properties": {"topic": {"type": "string"}}}


async def test_example() -> None:
    registry = Toolbox()
    query = {"type": "object", "properties": {"query": {"type": "string"}}}
    text = {"type": "object", "properties": {"text": {"type": "string"}}}
    registry.register(Tool("web_search", "", query), handler=lambda query: {"snippet": f"about {query}"})
    registry.register(Tool("summarise_text", "", text), handler=lambda text: text.upper())

    async def execute_tool(tool_name: str, args: dict[str, Any], ctx: Any) -> ToolExecutionResult:
        tool = registry.get(tool_name)
        assert tool is not None
        return await tool.execute(args, ctx)

    builder = ComposableToolBuilder(execute_tool)
    steps: list[ComposableStep] = [
        {"name": "search", "tool": "web_search", "inputMapping": {"query": "$input.topic"}},
        {"name": "summarise", "tool": "summarise_text", "inputMapping": {"text": "$prev.snippet"}},
    ]
    spec: ComposableToolSpec = {"mode": "compose", "steps": steps}
    tool = builder.build("research", "Search then summarise a topic", SCHEMA, spec)  # type: ignore[arg-type]
    result = await tool.execute({"topic": "quantum computing"}, {"user": "u"})
    assert (result.success, result.output) == (True, "ABOUT QUANTUM COMPUTING")
    failed = await registry.get("web_search").execute({"query": 5})  # type: ignore[union-attr]
    assert (failed.success, failed.error) == (False, 'args.query: 5 is not of type "string"')


def test_validate_has_the_documented_members() -> None:
    async def execute_tool(tool_name: str, args: Any, context: Any) -> ToolExecutionResult:
        return ToolExecutionResult(True)

    builder = ComposableToolBuilder(execute_tool)
    result = builder.validate({"steps": []})
    assert not result["valid"]
    assert result["errors"] == ["ComposableToolSpec.steps must be a non-empty array."]
    assert builder.validate({"mode": "compose", "steps": [{"tool": "a"}]})["valid"]


@pytest.mark.parametrize("schema", [None, {"type": "string"}])
async def test_input_is_the_whole_input_also_a_text(schema: dict[str, Any] | None) -> None:
    shout = Tool("shout", "", {"type": "object", "properties": {"text": {"type": "string"}}})
    async with App("memory") as app:
        app.toolbox.register(shout, handler=lambda text: text.upper())
        for made in workflow_tools(app, allow=["shout"]):
            app.toolbox.register(made)
        steps = [{"tool": "shout", "inputMapping": {"text": "$input"}}]
        given = {"name": "loud", "steps": steps, **({} if schema is None else {"inputSchema": schema})}
        await app.call_tool("create_workflow", given)
        answer: Any = await app.call_tool("run_workflow", {"name": "loud", "input": "quantum computing"})
    assert answer["result"] == "QUANTUM COMPUTING"


async def test_a_reference_that_resembles_a_step_is_text_with_a_suggestion_and_a_result_reads_outputs() -> None:
    def say(text: str) -> str:
        return text

    def document(text: str, **more: Any) -> dict[str, Any]:
        mappings = ({"name": "search", "tool": "say", "inputMapping": {"text": word}} for word in ("a", text))
        return {"kind": "composite", "name": "c", "mode": "compose", "steps": list(mappings), **more}

    async with App("memory", tools=[say]) as app:
        for text, near in (("$output.search.x", "$steps.search.x"), ("$serach", "$steps.search"), ("$typo.x", None)):
            [warning] = (await app.validate(document(text))).warnings
            told = f'Unresolved reference "{text}" treated as literal'
            assert (warning.message, warning.suggestion) == (told, near)
            [problem] = (await app.validate(document(text, strict=True))).problems
            assert problem.suggestion == near
        # `result` means the same in every notation, so it has the references of the others, too.
        outcome = await app.run(document("b", result={"value": "$output.search", "typo": "$output.serach"}))
        assert outcome.result == {"value": "b", "typo": "$output.serach"}
