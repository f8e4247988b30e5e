"""The tools with which an agent makes, runs and lists workflows of its own."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from ropewalk import App, ComposableToolBuilder, Toolbox, ToolError, ToolExecutionResult
from ropewalk.api.composite import workflow_tools
from ropewalk.api.run_chain import Runner
from ropewalk.errors import ConfigError
from ropewalk.journal.memory import MemoryStore
from ropewalk.testing import ScriptedTools, hangs

STEPS = [
    {"name": "find", "tool": "search", "inputMapping": {"q": "$input.topic"}},
    {"name": "sum", "tool": "write", "inputMapping": {"rows": "$prev"}},
]
WORKFLOW = {"name": "news", "description": "Find and write.", "steps": STEPS}


def run(body: Any) -> Any:
    return asyncio.run(body)


class Agent:
    """Calls tools by name, as the loop of an agent does."""

    def __init__(self, tools: Any) -> None:
        self.runner = Runner(Toolbox(tools))

    async def __call__(self, tool: str, /, **args: Any) -> Any:
        return (await self.runner.run(tool, args)).structured


def on_app(app: App, **more: Any) -> Agent:
    return Agent(workflow_tools(app, **{"allow": ["search", "write"], **more}))


def scripted() -> ScriptedTools:
    return ScriptedTools(search=lambda q: [q, "b"], write=lambda rows: f"{len(rows)} rows", secret=1)


def test_an_agent_makes_runs_and_lists_workflows() -> None:
    """COMPOSITE-FLOW-1"""

    async def body() -> None:
        async with App("memory", tools=scripted().tools()) as app:
            agent = on_app(app)
            assert await agent("list_workflows") == []
            assert await agent("create_workflow", **WORKFLOW) == {"name": "news", "steps": 2}
            assert (await agent("run_workflow", name="news", input={"topic": "rope"}))["result"] == "2 rows"
            assert await agent("list_workflows") == [
                {
                    "name": "news",
                    "description": "Find and write.",
                    "inputSchema": {"default": {}},
                    "steps": ["search", "write"],
                    "runCount": 1,
                }
            ]
            with pytest.raises(ToolError, match="no workflow 'new'; did you mean 'news'"):
                await agent("run_workflow", name="new")

    run(body())


def test_it_works_on_a_builder_alone() -> None:
    """COMPOSITE-FLOW-1"""
    tools = scripted()

    async def execute(name: str, args: dict[str, Any], context: Any) -> ToolExecutionResult:
        return ToolExecutionResult(True, await tools(name, args))

    async def body() -> None:
        agent = Agent(workflow_tools(ComposableToolBuilder(execute), allow=["search", "write"]))
        await agent("create_workflow", **WORKFLOW)
        assert (await agent("run_workflow", name="news", input={"topic": "rope"}))["result"] == "2 rows"

    run(body())


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"steps": [{"tool": "secret"}]}, "steps[0].tool: secret is not allowed here; allowed: search, write"),
        ({"steps": [{"tool": "serch"}]}, "did you mean search?"),
        ({"steps": [{"tool": "create_workflow"}]}, "create_workflow cannot be used inside a workflow"),
        ({"steps": [{"tool": "run_workflow"}]}, "run_workflow cannot be used inside a workflow"),
        ({"steps": [{"tool": "composable:news"}]}, "composable:news is not allowed here"),
        ({"steps": [{"tool": "search"}] * 4}, "4 steps; at most 3 are allowed"),
        ({"steps": [{"tool": "search", "inputMapping": {"q": "$typo"}}]}, 'Unresolved reference expression: "$typo"'),
        ({"steps": []}, "args.steps"),
        ({"name": "../x"}, "args.name"),
        ({"strict": False}, "strict"),
    ],
)
def test_what_is_not_allowed_is_refused_with_the_reason(more: dict[str, Any], said: str) -> None:
    """COMPOSITE-FLOW-2"""

    async def body() -> None:
        async with App("memory", tools=scripted().tools()) as app:
            agent = on_app(
                app, max_steps=3, allow=["search", "write", *(["create_workflow"] if "create" in said else [])]
            )
            with pytest.raises(ToolError) as refused:
                await agent("create_workflow", **{**WORKFLOW, **more})
            assert said in str(refused.value)
            assert await agent("list_workflows") == []

    run(body())


def test_there_are_at_most_so_many() -> None:
    """COMPOSITE-FLOW-2"""

    async def body() -> None:
        async with App("memory", tools=scripted().tools()) as app:
            agent = on_app(app, max_workflows=1)
            await agent("create_workflow", **WORKFLOW)
            await agent("create_workflow", **{**WORKFLOW, "description": "again"})
            with pytest.raises(ToolError, match="no more are allowed"):
                await agent("create_workflow", **{**WORKFLOW, "name": "other"})
            for wrong in ({"allow": "search"}, {"allow": [], "max_steps": 0}):
                with pytest.raises(ConfigError):
                    workflow_tools(app, **wrong)  # type: ignore[arg-type]

    run(body())


def test_a_session_sees_no_workflow_of_another_and_what_is_stored_outlives_the_tools() -> None:
    """COMPOSITE-FLOW-3"""

    async def body() -> None:
        async with App("memory", tools=scripted().tools()) as app:
            mine, theirs = on_app(app, session="a"), on_app(app, session="a/news")
            await mine("create_workflow", **WORKFLOW)
            assert await theirs("list_workflows") == []
            with pytest.raises(ToolError, match="no workflow"):
                await theirs("run_workflow", name="news", input={"topic": "x"})
            again = on_app(app, session="a")
            assert (await again("run_workflow", name="news", input={"topic": "x"}))["result"] == "2 rows"
            narrower = on_app(app, session="a", allow=["search"])
            with pytest.raises(ToolError, match="write is not allowed here"):
                await narrower("run_workflow", name="news", input={"topic": "x"})

    run(body())


def test_a_run_of_a_workflow_is_part_of_the_run_that_calls_it_and_goes_on_with_it() -> None:
    """COMPOSITE-FLOW-1 COMPOSITE-TOOL-2"""
    outer = {
        "kind": "chain",
        "name": "c",
        "nodes": [
            {"id": "n", "type": "tool", "tool": "run_workflow", "params": {"name": "news", "input": {"topic": "x"}}}
        ],
    }

    def opened(store: Any, tools: ScriptedTools) -> App:
        app = App(store, tools=tools.tools())
        for tool in workflow_tools(app, allow=["search", "write"]):
            app.toolbox.register(tool)
        return app

    async def body() -> None:
        store = MemoryStore(durable=True)
        app = opened(store, tools := ScriptedTools(search=lambda q: [q], write=hangs()))
        await app.call_tool("create_workflow", WORKFLOW)
        task = asyncio.ensure_future(app.run(outer, run_id="r"))
        await tools.called("write")
        assert {row.id: row.parent for row in app.runs.list(all=True)} == {"r": None, "r/n": "r"}
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        later = opened(store, more := ScriptedTools(search=1, write="done"))
        assert (await later.resume("r")).results["n"]["result"] == "done"
        assert [call.tool for call in more.calls] == ["write"]

    run(body())


def test_steps_may_say_args_and_the_input_may_be_of_any_type() -> None:
    """COMPOSITE-FLOW-1"""

    async def body() -> None:
        async with App("memory", tools=scripted().tools()) as app:
            agent = on_app(app)
            steps = [{"tool": "search", "args": {"q": "$input"}}, {"tool": "write", "args": {"rows": "$prev"}}]
            await agent("create_workflow", name="any", inputSchema={"type": "string"}, steps=steps)
            done = await agent("run_workflow", name="any", input="rope")
            assert done["result"] == "2 rows"
            assert [(step["tool"], step["status"], step["output"]) for step in done["steps"]] == [
                ("search", "completed", ["rope", "b"]),
                ("write", "completed", "2 rows"),
            ]
            assert (done["runCount"], (await agent("run_workflow", name="any", input="x"))["runCount"]) == (1, 2)
            with pytest.raises(ToolError, match='7 is not of type "string"'):
                await agent("run_workflow", name="any", input=7)
            assert (await agent("list_workflows"))[0]["inputSchema"] == {"type": "string"}
            both = [{"tool": "search", "args": {}, "inputMapping": {}}]
            with pytest.raises(ToolError, match="remove one of them"):
                await agent("create_workflow", name="both", steps=both)

    run(body())


def test_a_star_allows_every_tool_but_these() -> None:
    """COMPOSITE-FLOW-2"""

    async def body() -> None:
        async with App("memory", tools=scripted().tools()) as app:
            agent = on_app(app, allow=["*"])
            await agent("create_workflow", name="any", steps=[{"tool": "secret"}])
            assert (await agent("run_workflow", name="any"))["result"] == 1
            with pytest.raises(ToolError, match="run_workflow cannot be used inside a workflow"):
                await agent("create_workflow", name="more", steps=[{"tool": "run_workflow"}])

    run(body())
