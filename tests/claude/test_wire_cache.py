"""What a request asks the API to keep, what that costs, and which tool it wants, as it goes over the wire."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ropewalk import tool
from ropewalk.agents import ClaudeClient, Completion, Settings, complete_with_tools
from ropewalk.agents.client import estimate_cost
from ropewalk.errors import CompletionFailed, InvalidFlow

from .wire import StandIn, calls

pytestmark = pytest.mark.node
MARK = {"type": "ephemeral"}


@tool(namespace="time")
async def get_current_time(zone: str) -> str:
    """The time."""
    return f"noon in {zone}"


@tool
async def other() -> str:
    """Another one."""
    return "x"


def marks(value: Any) -> int:
    """How many breakpoints a request has."""
    if isinstance(value, dict):
        return int("cache_control" in value) + sum(map(marks, value.values()))
    return sum(map(marks, value)) if isinstance(value, list) else 0


def talk(client: ClaudeClient, **options: Any) -> Completion:
    return asyncio.run(complete_with_tools("go", tools=[get_current_time, other], client=client, **options))


@pytest.mark.parametrize("system", [None, "Be brief."])
def test_each_round_is_marked_for_the_next_one(api: StandIn, client: ClaudeClient, system: str | None) -> None:
    api.answer(calls(("get_current_time", {"zone": "a"})), {"content": "done"})
    talk(client, system=system)
    for body in api.bodies:
        assert (body["cache_control"], marks(body)) == (MARK, 2)
        if system is None:
            assert "cache_control" not in body["tools"][0]
            assert body["tools"][-1]["cache_control"] == MARK
        else:
            assert body["system"] == [{"type": "text", "text": system, "cache_control": MARK}]
    first, second = api.bodies
    assert (first["tools"], first.get("system")) == (second["tools"], second.get("system"))


def test_marks_are_left_out_where_they_are_not_wanted(api: StandIn, client: ClaudeClient) -> None:
    api.answer(*[{"content": "done"}] * 4)
    talk(client, prompt_cache=False)
    talk(ClaudeClient(Settings(base_url=api.url, prompt_cache=False), api_key="no-key"))
    asyncio.run(complete_with_tools("alone", client=client))
    own = [{"role": "user", "content": [{"type": "text", "text": "long", "cache_control": MARK}]}]
    asyncio.run(complete_with_tools(messages=own, tools=[other], client=client))
    assert list(map(marks, api.bodies)) == [0, 0, 0, 1]


def test_what_is_read_from_the_cache_has_its_own_price() -> None:
    model, many = "claude-sonnet-5-5", 1_000_000
    plain, read, written = (
        estimate_cost(model, {key: many})
        for key in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )
    assert plain is not None
    assert read is not None
    assert written is not None
    assert 0 < read <= plain / 10
    assert plain < written <= 2 * plain
    mixed = {"input_tokens": many, "cache_read_input_tokens": many, "cache_creation_input_tokens": many}
    assert estimate_cost(model, mixed) == pytest.approx(plain + read + written)


@pytest.mark.parametrize("name", ["time:get_current_time", "get_current_time"])
def test_a_tool_is_chosen_by_its_id_or_name(api: StandIn, client: ClaudeClient, name: str) -> None:
    api.answer({"content": "done"})
    talk(client, tool_choice={"type": "tool", "name": name})
    assert api.bodies[0]["tool_choice"] == {"type": "tool", "name": "get_current_time"}


def test_a_choice_that_is_none_is_not_sent(api: StandIn, client: ClaudeClient) -> None:
    with pytest.raises(CompletionFailed, match="tool_choice: 'get_curent_time' is not one of the tools; did you mean"):
        talk(client, tool_choice={"type": "tool", "name": "get_curent_time"})
    with pytest.raises(InvalidFlow, match=r"tool_choice\.type: unknown value 'nonsense'; expected one of: auto"):
        talk(client, tool_choice={"type": "nonsense"})
    with pytest.raises(InvalidFlow, match=r"tool_choice\.name: required: the name of the tool"):
        talk(client, tool_choice={"type": "tool"})
    assert not api.bodies
