"""A model searches for tools in its own words where its prompt has found none that fits."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ropewalk import tool
from ropewalk.agents import complete_with_tools, select
from ropewalk.agents.session import Session
from ropewalk.app.app import App
from ropewalk.errors import InvalidFlow
from ropewalk.testing import ScriptedModel, results_in, wants

SEARCH = "find_more_tools"
sent: list[str] = []


@tool(namespace="mail", annotations={"destructiveHint": True})
async def send_mail(to: str) -> str:
    """Send an e-mail message to somebody."""
    sent.append(to)
    return "sent"


@tool(annotations={"readOnlyHint": True})
async def get_weather(city: str) -> str:
    """Weather forecast for a city."""
    return f"rain in {city}"


@tool(annotations={"readOnlyHint": True})
async def list_files(path: str) -> str:
    """List the files in a directory."""
    return path


TOOLS = [send_mail, get_weather, list_files]
IDS = ["mail:send_mail", "get_weather", "list_files"]
WEAK = "Drop Ann a line, would you?"


def seen(model: ScriptedModel) -> list[list[str]]:
    """Return the names of the tools that the model saw in each request."""
    return [sorted(str(item["name"]) for item in request.tools) for request in model.requests]


async def chat(model: ScriptedModel, prompt: str, **options: Any) -> Session:
    async with App("memory", tools=TOOLS, model=model) as app:
        session = Session(app, tools=IDS, max_tools=1, **options)
        await session.say(prompt)
    return session


def test_a_model_finds_the_tool_that_the_words_of_the_prompt_did_not() -> None:
    sent.clear()
    asked: list[tuple[str, dict[str, Any]]] = []

    def allow(tool: str, arguments: dict[str, Any]) -> bool:
        asked.append((tool, arguments))
        return True

    model = ScriptedModel(
        wants(SEARCH, {"queries": ["send message", "weather forecast"]}), wants("send_mail", {"to": "Ann"}), "Done."
    )
    asyncio.run(chat(model, WEAK, approve=["mail:send_mail"], ask=allow))
    first, second, third = seen(model)
    assert len(first) == 2  # the search, and the nearest tool
    assert {SEARCH, "send_mail"} & {*first} == {SEARCH}
    assert second == third
    assert {*first, "send_mail", "get_weather"} <= {*second}
    assert sent == ["Ann"]
    assert asked == [("mail:send_mail", {"to": "Ann"})]  # a search is not asked about
    found = json.loads(str(results_in(model.requests[1])[0]["content"]))["found"]
    assert {query: ids[0] for query, ids in found.items()} == {
        "send message": "mail:send_mail",
        "weather forecast": "get_weather",
    }


def test_a_prompt_that_fits_costs_no_search_and_no_call_of_the_model() -> None:
    model = ScriptedModel(wants("get_weather", {"city": "Rome"}), "Rain.")
    session = asyncio.run(chat(model, "weather forecast for the city of Rome"))
    assert seen(model) == [["get_weather"]] * 2
    assert session.messages[-1]["content"] == [{"type": "text", "text": "Rain."}]


def test_a_search_that_finds_nothing_says_so() -> None:
    model = ScriptedModel(wants(SEARCH, {"queries": ["knit sock"]}), "No.")
    asyncio.run(chat(model, WEAK))
    [result] = results_in(model.requests[1])
    assert "no tool here fits this request" in str(result["content"])


def test_a_tool_that_was_found_stays_for_the_next_prompt_and_the_search_does_not() -> None:
    async def run() -> list[list[str]]:
        script = (wants(SEARCH, {"queries": ["list files"]}), wants("list_files", {"path": "."}), "Two.", "Rain.")
        model = ScriptedModel(*script)
        async with App("memory", tools=TOOLS, model=model) as app:
            session = Session(app, tools=IDS, max_tools=2)
            await session.say(WEAK)
            await session.say("weather forecast for the city of Rome")
        return seen(model)

    assert asyncio.run(run())[-1] == ["get_weather", "list_files"]


@pytest.mark.parametrize(
    ("options", "searches"), [({}, True), ({"threshold": 0.3}, False), ({"exclude_tools": IDS[1:]}, False)]
)
def test_select_adds_a_search_unless_a_threshold_or_a_filter_forbids_it(
    options: dict[str, Any], searches: bool
) -> None:
    async def run() -> list[list[str]]:
        model = ScriptedModel("Done.")
        async with App("memory", tools=TOOLS, model=model) as app:
            await complete_with_tools("go", tools=select(WEAK, max_results=1, **options), app=app)
        return seen(model)

    [names] = asyncio.run(run())
    assert (SEARCH in names) is searches


@tool
async def weather_forecast(city: str) -> str:
    """Weather forecast: a tool that no agent here has."""
    return city


def test_an_agent_sees_the_offered_tools_and_of_its_own_those_that_it_finds() -> None:
    document = {"kind": "agent", "name": "a", "prompt": "go", "tools": IDS, "offered": ["list_files"]}
    script = (wants("get_weather", {"city": "Rome"}), wants(SEARCH, {"queries": ["weather forecast"]}), "Rain.")

    async def run() -> ScriptedModel:
        model = ScriptedModel(*script)
        async with App("memory", tools=[*TOOLS, weather_forecast], model=model) as app:
            assert (await app.run(document)).result == "Rain."
        return model

    model = asyncio.run(run())
    assert seen(model)[0] == seen(model)[1] == [SEARCH, "list_files"]
    assert "get_weather" in seen(model)[2]
    assert "weather_forecast" not in seen(model)[2]
    assert "weather_forecast" not in str(results_in(model.requests[2]))
    [hidden] = results_in(model.requests[1])
    assert "there is no tool 'get_weather' here" in str(hidden["content"])


def test_an_offered_tool_must_be_one_of_the_tools() -> None:
    document = {"kind": "agent", "name": "a", "prompt": "go", "tools": IDS, "offered": ["list_file"]}
    with pytest.raises(
        InvalidFlow, match=r"offered\[0\]: 'list_file' is not one of the tools; did you mean list_files"
    ):
        App("memory", tools=TOOLS).load(document)
