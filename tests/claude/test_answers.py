"""JSON out of answers, and tools however they are named."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from ropewalk import Tool, tool
from ropewalk.agents import complete_json_with_tools, complete_with_tools, resume_completion, select
from ropewalk.agents.decision import _close_brackets
from ropewalk.app.app import App
from ropewalk.errors import CompletionFailed, ConfigError, InvalidInput, NotFound, StoreError
from ropewalk.journal.memory import MemoryStore
from ropewalk.testing import DyingStore, ScriptedModel, wants


@tool
async def look(at: str) -> str:
    """Looks at something."""
    return f"saw {at}"


@tool
async def act(what: str) -> str:
    """Does something."""
    return f"did {what}"


# --- JSON -----------------------------------------------------------------------------------------

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(
    "text",
    [
        '{"n": 3}',
        'Sure!\n```json\n{"n": 3}\n```\nAnything else?',
        'I think {"n": 3} it is, or {"n": 4}.',
        '{"n": 3,}',
        'Ends early: {"n": 3, "why": "because it',
        '{"n": 3, "more": [1, 2, {"a": ',
        'First [1, 2], then {"n": 3}',
        '{"thoughts": "{"}\n{"n": 3}',
    ],
)
def test_json_is_found_and_mended(text: str) -> None:
    done = asyncio.run(complete_json_with_tools("go", SCHEMA, client=ScriptedModel(text)))
    assert done.data["n"] == 3
    assert done.rounds == 1


@pytest.mark.parametrize("shape", ['{"n": %d}', 'Here:\n```json\n{"n": %d}\n```', 'It is {"n": %d, "more": [1,'])
def test_an_integer_past_64_bits_is_asked_for_again_and_never_changed(shape: str) -> None:
    model = ScriptedModel(shape % (2**64 + 1), '{"n": 3}')
    done = asyncio.run(complete_json_with_tools("go", SCHEMA, client=model))
    assert (done.data, done.rounds) == ({"n": 3}, 2)
    assert "- answer.n: integer past 64 bits; send it as a string" in model.requests[1].messages[-1]["content"]


def test_json_that_does_not_fit_is_asked_for_again_with_the_reason() -> None:
    model = ScriptedModel('{"n": "three"}', "no json at all", '{"n": 3}')
    done = asyncio.run(complete_json_with_tools("go", SCHEMA, client=model))
    assert (done.data, done.rounds) == ({"n": 3}, 3)
    assert 'answer.n: "three" is not of type "integer"' in model.requests[1].messages[-1]["content"]
    assert "contains no JSON" in model.requests[2].messages[-1]["content"]


@pytest.mark.parametrize(("most", "asked"), [(None, 3), (0, 1)])
def test_there_is_no_default_for_json_that_never_fits(most: int | None, asked: int) -> None:
    model = ScriptedModel("never")
    with pytest.raises(
        CompletionFailed, match=r"did not fit its schema, even after corrections: the answer contains no JSON"
    ) as failed:
        asyncio.run(complete_json_with_tools("go", SCHEMA, client=model, max_corrections=most))
    assert (failed.value.completion.text, failed.value.completion.data) == ("never", None)
    assert len(model.requests) == asked


def test_a_limit_before_the_json_is_an_error_too() -> None:
    with pytest.raises(CompletionFailed, match="reached max_rounds"):
        asyncio.run(
            complete_json_with_tools(
                "go", SCHEMA, client=ScriptedModel(wants("look", {"at": "x"})), tools=[look], max_rounds=2
            )
        )


# --- tools by name, gone, selected ----------------------------------------------------------------


def test_a_server_that_is_down_leaves_its_tools_out_and_a_wrong_name_is_an_error() -> None:
    async def run() -> None:
        model = ScriptedModel("done")
        async with App("memory", tools=[look], model=model) as app:
            app.toolbox.add_mcp("gone", {"command": "/no/such/program"})
            done = await complete_with_tools("go", tools=["look", "gone:read"], app=app)
            assert (done.text, [one["name"] for one in model.requests[0].tools]) == ("done", ["look"])
            [said] = done.warnings
            assert said.startswith("gone:read is left out: ")
        async with App("memory", tools=[look], model=model) as app:
            with pytest.raises(NotFound, match="did you mean 'look'"):
                await complete_with_tools("go", tools=["lok"], app=app)
            other = Tool("stock", "Counts.", {"type": "object"}, namespace="shop", handler=look)
            app.toolbox.register(other)
            for wrong in ("stok", "shp:stock", "shop:stok", "sales:stock"):
                with pytest.raises(NotFound, match="did you mean 'shop:stock'"):
                    await complete_with_tools("go", tools=[wrong], app=app)
            app.toolbox.add_mcp("gone", {"command": "/no/such/program"})
            [said] = (await complete_with_tools("go", tools=["stok"], app=app)).warnings
            assert said.startswith("stok is left out: gone: ")  # which may have it
            assert said.endswith("; did you mean 'shop:stock'?")
            with pytest.raises(
                NotFound, match="no tool 'look': no tools are registered; pass the function itself, or an app"
            ):
                await complete_with_tools("go", tools=["look"], client=model)
            with pytest.raises(NotFound, match="the agent loop itself"):
                await complete_with_tools("go", tools=["ropewalk:model"], app=app)

    asyncio.run(run())


def test_tools_are_selected_for_a_request() -> None:
    @tool(namespace="mail")
    async def send_mail(to: str, text: str) -> str:
        """Send an e-mail message to somebody."""
        return "sent"

    async def run() -> None:
        model = ScriptedModel("done")
        async with App("memory", tools=[look, act, send_mail], model=model) as app:
            for _ in range(2):  # the second time the loop's own tools are in the toolbox, too
                chosen = select("send an e-mail message to Ann", max_results=1)
                await complete_with_tools("go", tools=chosen, app=app)
        assert [[one["name"] for one in request.tools] for request in model.requests] == [["send_mail"]] * 2

    asyncio.run(run())


@pytest.mark.parametrize(
    ("options", "told"),
    [({"max_result": 3}, "did you mean max_results"), ({"exclude_tools": "act"}, "must be a list of strings, not str")],
)
def test_wrong_options_of_select_are_told_where_it_is_called(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        select("look at something", **options)


def test_an_option_of_select_that_is_none_is_as_if_it_were_not_given() -> None:
    async def run() -> None:
        model = ScriptedModel("done")
        async with App("memory", tools=[look, act], model=model) as app:
            chosen = select("play chess", exclude_tools=None, threshold=None)
            await complete_with_tools("go", tools=chosen, app=app)
        assert sorted(one["name"] for one in model.requests[0].tools) == ["act", "look"]  # however unlike they are

    asyncio.run(run())


def test_the_selector_learns_from_how_tools_did() -> None:
    @tool
    async def broken(at: str) -> str:
        """Never works."""
        raise RuntimeError("no")

    async def run() -> None:
        calls = [wants("look", {"at": "x"}), wants("broken", {"at": "x"})]
        model = ScriptedModel(calls, "done", wants("look", {"at": "x"}), "done", wants("look", {"at": "y"}), "done")
        async with App(MemoryStore(durable=True), tools=[look, broken], model=model) as app:
            await complete_with_tools("Where is Ann?", tools=["look", "broken"], app=app)
            learnt = {(use.tool, use.request, use.successes, use.failures) for use in app.selector.learnt()}
            assert learnt == {("look", "Where is Ann?", 1, 0), ("broken", "Where is Ann?", 0, 1)}
            await complete_with_tools("And Bob?", tools=["look"], app=app, request="")
            await complete_with_tools("And Cy?", tools=select("look at something"), app=app)
            assert {use.request for use in app.selector.learnt("look")} == {"Where is Ann?", "look at something"}
            assert app.selector.stats()["look"].successes == 3

    asyncio.run(run())


def test_the_selector_learns_once_from_a_run_that_waited_and_from_one_that_was_resumed() -> None:
    document = {"kind": "agent", "prompt": "go", "tools": ["look", "act"], "approve": ["act"]}
    turns = [wants("look", {"at": "x"})], [wants("act", {"what": "x"})], "done"

    async def waited() -> None:
        async with App(MemoryStore(durable=True), tools=[look, act], model=ScriptedModel(*turns)) as app:
            done = await app.run(document, run_id="r", park=True, request="Act on it")
            assert (done.status, app.selector.learnt()) == ("waiting", [])
            app.runs.approve("r", done.waiting_for[0]["path"])
            assert (await app.resume("r")).status == "completed"
            learnt = {(use.tool, use.request, use.successes) for use in app.selector.learnt()}
            assert learnt == {("look", "Act on it", 1), ("act", "Act on it", 1)}
            assert (await app.resume("r")).status == "completed"  # it has ended: nothing is learnt again
            assert app.selector.stats()["look"].successes == 1

    async def died() -> None:
        dying = DyingStore(MemoryStore(durable=True), at=4, written=True)
        app = App(dying, tools=[look, act], model=ScriptedModel(*turns))
        with pytest.raises(StoreError):
            await complete_with_tools("Look!", tools=["look", "act"], app=app, run_id="r")
        model = ScriptedModel(lambda request: turns[sum(one["role"] == "assistant" for one in request.messages)])
        async with App(await dying.survivor(), tools=[look, act], model=model) as app:
            assert (await resume_completion("r", app=app)).text == "done"
            assert {(use.tool, use.request) for use in app.selector.learnt()} == {("look", "Look!"), ("act", "Look!")}

    asyncio.run(waited())
    asyncio.run(died())


def test_without_an_app_there_is_no_selector() -> None:
    with pytest.raises(ConfigError, match="needs an app with a tool selector"):
        asyncio.run(complete_with_tools("go", tools=select("x"), client=ScriptedModel("x")))


def test_many_closing_brackets_after_a_comma_do_not_multiply_the_work() -> None:
    """The text since the comma was looked through again at every bracket: four times the work for twice the text."""

    def spent(n: int) -> float:
        text = "x [" + "," + " " * n + "]" * n
        return min(timed(text) for _ in range(3))

    def timed(text: str) -> float:
        began = time.process_time()
        _close_brackets(text)
        return time.process_time() - began

    small, large = spent(2000), spent(16_000)
    assert large < 24 * small + 0.02, "8 times the text; squared it would be 64 times the work"


def test_a_comma_before_a_closing_bracket_is_left_out_and_no_other() -> None:
    assert _close_brackets('{"a": [1, 2, ], "b": {"c": 1 , } , }') == '{"a": [1, 2 ], "b": {"c": 1  }  }'
    assert _close_brackets("[1, [2], ]") == "[1, [2] ]"
    assert _close_brackets('["a", "b"]') == '["a", "b"]'
