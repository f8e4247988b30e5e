"""A conversation's tools are run by the toolbox that was given for them, whatever stands behind them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ropewalk import Runner, Toolbox, tool
from ropewalk.agents import Completion, complete_with_tools, resume_completion
from ropewalk.app.app import App
from ropewalk.errors import InvalidFlow, InvalidTool, StoreError
from ropewalk.journal.memory import MemoryStore
from ropewalk.testing import DyingStore, ScriptedModel, results_in, wants
from ropewalk.tools.tool import Tool
from tools.mcp_lab import forked

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


@tool(namespace="lab")
async def act(text: str) -> str:
    """Does something."""
    return text


def shouting() -> Toolbox:
    """A toolbox whose only tool has its handler beside its definition."""

    async def shout(text: str) -> str:
        return text.upper()

    box = Toolbox()
    box.register(Tool("shout", "Says it loudly.", TEXT), handler=shout)
    return box


@pytest.mark.parametrize("with_app", [False, True])
def test_the_toolbox_that_was_given_runs_its_tools(with_app: bool) -> None:
    """Its servers are connected where they were not; one that cannot be is said."""

    async def run() -> None:
        box = shouting()
        box.add_mcp("odd", forked("odd.py"))
        box.add_mcp("away", {"command": "/no/such/program"})
        box.register(Tool("nobody", "Nothing runs it.", TEXT))
        model = ScriptedModel([wants("echo", {"text": "a"}), wants("shout", {"text": "b"}), wants("fails")], "done")
        if with_app:
            async with App("memory", model=model) as app, box:
                done = await complete_with_tools("go", tools=box, app=app)
        else:
            done = await complete_with_tools("go", tools=box, client=model)
            await box.close()
        outcomes = [use["outcome"] for use in done.trace]
        assert outcomes[:2] == [{"value": "a"}, {"value": "B"}]
        assert "it went wrong" in outcomes[2]["error"]  # type: ignore[index, operator, call-overload]
        told = [one["name"] for one in model.requests[0].tools]
        assert {"echo", "shout"} < set(told)
        assert "nobody" not in told
        said = "\n".join(done.warnings)
        assert "away: MCP server 'away'" in said
        assert "nobody is left out: it has no handler and no backend" in said

    asyncio.run(run())


def test_a_tool_that_a_toolbox_lends_is_run_by_it() -> None:
    async def run() -> Completion:
        box = shouting()
        assert (await Runner(Toolbox([box.lend("shout")])).run("shout", {"text": "c"})).structured == "C"
        model = ScriptedModel(wants("shout", {"text": "d"}), "done")
        return await complete_with_tools("go", tools=[box.lend("shout")], client=model)

    assert asyncio.run(run()).trace[0]["outcome"] == {"value": "D"}


def test_a_definition_that_nothing_runs_is_refused_before_anything_is_asked() -> None:
    model = ScriptedModel("never")
    alone = shouting().get("shout")
    with pytest.raises(InvalidTool, match=r"it cannot be called, .* pass toolbox.lend\('shout'\)"):
        asyncio.run(complete_with_tools("go", tools=[alone], client=model))
    assert not model.requests


def test_a_second_toolbox_with_the_same_definition_runs_its_own() -> None:
    async def run() -> list[Any]:
        model = ScriptedModel(wants("where"), "done", wants("where"), "done")
        found = []
        async with App("memory", model=model) as app:
            for place in ("here", "there"):

                async def where(place: str = place) -> str:
                    return place

                box = Toolbox()
                box.register(Tool("where", "Says where.", {"type": "object"}), handler=where)
                found.append((await complete_with_tools("go", tools=box, app=app)).trace[0]["outcome"])
        return found

    assert asyncio.run(run()) == [{"value": "here"}, {"value": "there"}]


def test_a_conversation_goes_on_with_the_toolbox_it_began_with() -> None:
    """What was recorded is not called again; what was not, the toolbox calls that is given again."""

    async def run() -> None:
        dying = DyingStore(MemoryStore(durable=True), at=6)
        turns: list[Any] = [wants("shout", {"text": "e"}), wants("shout", {"text": "f"}), "done"]
        model = ScriptedModel(lambda request: turns[sum(one["role"] == "assistant" for one in request.messages)])
        with pytest.raises(StoreError):
            await complete_with_tools("go", tools=shouting(), app=App(dying, model=model), run_id="talk")
        assert any(entry.path.endswith("call.shout") for entry in dying.store.history("talk"))
        async with App(await dying.survivor(), model=model) as app:
            done = await resume_completion("talk", app=app, tools=shouting())
        assert [use["outcome"] for use in done.trace] == [{"value": "E"}, {"value": "F"}]
        assert results_in(model.requests[-1])[0]["content"] == "F"

    asyncio.run(run())


@pytest.mark.parametrize("given", [[act], Toolbox([act])], ids=["functions", "toolbox"])
def test_an_approval_for_what_is_none_of_the_tools_is_refused(given: Any) -> None:
    model = ScriptedModel(wants("act", {"text": "x"}), "never")
    with pytest.raises(InvalidFlow, match=r"approve\[1\]: 'actt' is not one of the tools; did you mean lab:act\?"):
        asyncio.run(complete_with_tools("go", tools=given, client=model, approve=["act", "actt"], ask=lambda *_: True))
    assert not model.requests


def test_a_tool_to_be_approved_may_be_named_without_its_server() -> None:
    model = ScriptedModel(wants("act", {"text": "x"}), "done")
    done = asyncio.run(complete_with_tools("go", tools=[act], client=model, approve=["act"], ask=lambda *_: "not now"))
    assert done.trace[0]["outcome"] == {"error": "lab:act was not called: not now"}
