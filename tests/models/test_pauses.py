"""A turn that the Messages API pauses continues with its unchanged content, and `extra` reaches every API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ropewalk import App, tool
from ropewalk.agents import complete_json_with_tools, complete_with_tools
from ropewalk.agents.models import create_models

from .makers import MAKERS, Maker
from .stand_in import Call, StandIn, Turn

MESSAGES = MAKERS[0]
THINKING = {"type": "thinking", "thinking": "Where to look? ", "signature": "sealed"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rope walks", "n": 1}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "url": "https://r.org", "title": "R", "encrypted_content": "E=="}],
}
CITED = {
    "type": "text",
    "text": "A rope walk is long. ",
    "citations": [
        {
            "type": "web_search_result_location",
            "cited_text": "long",
            "url": "https://r.org",
            "title": "R",
            "encrypted_index": "I==",
        }
    ],
}
BLANK, SPACED = {"type": "text", "text": "\n\n"}, {"type": "text", "text": "And "}
# A pause may come while a server's tool still runs, and after a text.
FIRST, SECOND = [THINKING, SEARCH, FOUND, CITED, BLANK, {**SEARCH, "id": "srvtoolu_2"}], [SPACED]


@tool(annotations={"readOnlyHint": True})
def add(a: int) -> int:
    """Add one."""
    return a + 1


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_KEY", "no-key")


def play(maker: Maker, scene: Callable[[StandIn, App], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        with StandIn(maker.create(), Turn(text="?")) as stand:
            models = create_models({"": maker.settings(stand.url, **settings)})
            async with App("memory", tools=[add], model=models) as app:
                await scene(stand, app)

    asyncio.run(run())


def message(content: list[dict[str, Any]], stop: str) -> dict[str, Any]:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "stop_sequence": None}
    return {**head, "content": content, "stop_reason": stop, "usage": {"input_tokens": 10, "output_tokens": 5}}


def paused(*content: dict[str, Any], stream: bool = False) -> Turn:
    answer = message(list(content), "pause_turn")
    if not stream:
        return Turn(raw=("application/json", json.dumps(answer).encode()))
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**answer, "content": [], "stop_reason": None}}
    ]
    for index, block in enumerate(content):
        start, *deltas = pieces(block)
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": "pause_turn", "stop_sequence": None}
    events += [{"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}}, {"type": "message_stop"}]
    return Turn(
        raw=("text/event-stream", "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events).encode())
    )


def pieces(block: dict[str, Any]) -> list[dict[str, Any]]:
    """Return how a stream begins a block, and the deltas that complete it."""
    if block["type"] == "thinking":
        deltas = [{"type": f"{key}_delta", key: block[key]} for key in ("thinking", "signature")]
        return [{**block, "thinking": "", "signature": ""}, *deltas]
    if block["type"] == "server_tool_use":
        return [{**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    if block["type"] == "text":
        cited = [{"type": "citations_delta", "citation": citation} for citation in block.get("citations", ())]
        return [{"type": "text", "text": ""}, *cited, {"type": "text_delta", "text": block["text"]}]
    return [block]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_paused_turn_comes_back_unchanged(stream: bool) -> None:
    async def scene(stand: StandIn, app: App) -> None:
        call = Turn(text="Let me add.", calls=(Call("add", {"a": 1}),))
        pauses = paused(*FIRST, stream=stream), paused(*SECOND, stream=stream)
        stand.script(call, *pauses, call, pauses[0], Turn(text="it is 2."))
        done = await complete_with_tools("go", app=app, tools=["add"], stream=stream)
        assert stand.invalid == []
        ends = [body["messages"][-1] for body in stand.bodies]
        expected = [FIRST, [*FIRST, *SECOND], None, FIRST]
        for body, content in zip(ends[2:], expected, strict=True):
            if content is not None:
                assert body == {"role": "assistant", "content": content}
        assert ends[4]["content"][0]["type"] == "tool_result"
        assert (done.text, done.finished, len(done.trace)) == ("A rope walk is long. \n\nit is 2.", True, 2)
        assert done.usage["input_tokens"] == 330

    play(MESSAGES, scene)


def test_a_json_answer_may_begin_before_a_pause() -> None:
    async def scene(stand: StandIn, app: App) -> None:
        stand.script(paused(SEARCH, {"type": "text", "text": '{"city": '}), Turn(text='"Oslo"}'))
        schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        done = await complete_json_with_tools("where?", schema, app=app, stream=False)
        assert (done.data, done.rounds, stand.invalid) == ({"city": "Oslo"}, 2, [])
        assert stand.bodies[1]["messages"][-1]["content"][1]["text"] == '{"city": '

    play(MESSAGES, scene)


def test_a_conversation_that_a_limit_ended_in_a_pause_continues_from_its_messages() -> None:
    async def scene(stand: StandIn, app: App) -> None:
        stand.script(paused(*FIRST), Turn(text="done"))
        stopped = await complete_with_tools("go", app=app, stream=False, max_rounds=1)
        assert stopped.stop_reason == "max_rounds"
        done = await complete_with_tools(messages=stopped.messages, app=app, stream=False)
        assert (done.text, stand.bodies[1]["messages"][-1]["content"]) == ("done", FIRST)

    play(MESSAGES, scene)


EXTRA: dict[str, dict[str, Any]] = {
    "messages": {"metadata": {"user_id": "u1"}, "service_tier": "auto"},
    "chat": {"metadata": {"team": "u1"}, "seed": 7},
    "responses": {"metadata": {"team": "u1"}, "safety_identifier": "s"},
    "gemini": {"labels": {"team": "u1"}, "cachedContent": "cachedContents/1"},
}


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.name)
def test_extra_members_arrive_in_the_body_and_those_of_the_request_win(maker: Maker) -> None:
    (name, value), (other, more) = EXTRA[maker.name].items()

    async def scene(stand: StandIn, app: App) -> None:
        await complete_with_tools("go", app=app, extra={name: value})
        document = {"kind": "agent", "name": "a", "prompt": "go", "extra": {name: value}}
        await app.run(document, {})
        assert [(body[name], body[other]) for body in stand.bodies] == [(value, more)] * 2
        assert stand.invalid == []

    play(maker, scene, extra={name: "the model's", other: more})
