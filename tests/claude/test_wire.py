"""Conversations over the wire, against a third party's stand-in for the Messages API."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ropewalk import tool
from ropewalk.agents import ClaudeClient, Settings, complete_json_with_tools, complete_with_tools
from ropewalk.errors import CompletionFailed
from tiers import sampled

from .wire import StandIn, calls

pytestmark = pytest.mark.node


@tool(annotations={"readOnlyHint": True})
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def shout(text: str) -> str:
    """Say it loudly."""
    return text.upper()


@tool
async def fail(why: str) -> str:
    """Always fails."""
    raise RuntimeError(f"no: {why}")


def results(body: dict[str, Any]) -> list[Any]:
    return [(block["content"], block.get("is_error", False)) for block in body["messages"][-1]["content"]]


@pytest.mark.parametrize("stream", [True, False], ids=["sse", "json"])
def test_several_rounds_with_parallel_calls(api: StandIn, client: ClaudeClient, stream: bool) -> None:
    api.answer(
        calls(("add", {"a": 1, "b": 2}), ("shout", {"text": "hey"}), ("fail", {"why": "luck"}), text="Let me see."),
        calls(("add", {"a": 3, "b": 4})),
        {"content": "It is 7, HEY.", "usage": {"input_tokens": 100, "output_tokens": 20}},
    )
    heard: list[dict[str, Any]] = []
    done = asyncio.run(
        complete_with_tools(
            "1+2?", tools=[add, shout, fail], client=client, stream=stream, system="Be brief.", on_event=heard.append
        )
    )
    assert (done.text, done.stop_reason, done.rounds, done.finished) == ("It is 7, HEY.", "end_turn", 3, True)
    assert [(use["tool"], use["outcome"]) for use in done.trace] == [
        ("add", {"value": 3}),
        ("shout", {"value": "HEY"}),
        ("fail", {"error": "no: luck"}),
        ("add", {"value": 7}),
    ]
    first, second, third = api.bodies
    assert first["messages"] == [{"role": "user", "content": "1+2?"}]
    assert [block["text"] for block in first["system"]] == ["Be brief."]
    assert [one["name"] for one in first["tools"]] == ["add", "shout", "fail"]
    assert results(second) == [("3", False), ("HEY", False), ("no: luck", True)]
    assert second["messages"][1]["content"][0] == {"type": "text", "text": "Let me see."}
    assert results(third) == [("7", False)]
    assert done.usage["output_tokens"] == 20
    assert done.cost is not None
    assert done.cost > 0
    assert "no-key" in api.headers[0].get("x-api-key", api.headers[0].get("authorization", ""))
    said = "".join(event["text"] for event in heard if event["type"] == "text")
    assert said == ("Let me see.It is 7, HEY." if stream else "")
    assert [e["tool"] for e in heard if e["type"] == "tool_started"].count("add") == 2


def test_without_tools_it_is_a_plain_request(api: StandIn, client: ClaudeClient) -> None:
    api.answer({"content": "Hello."})
    done = asyncio.run(complete_with_tools("hi", client=client))
    assert (done.text, done.rounds, done.trace) == ("Hello.", 1, [])
    assert "tools" not in api.bodies[0]


@pytest.mark.parametrize(
    ("finish", "why"),
    [
        ("max_tokens", "cut at max_tokens"),
        ("refusal", "refused"),
        ("model_context_window_exceeded", "longer than the model can read"),
        ("something_new", "something_new"),
    ],
)
def test_a_message_that_stops_for_another_reason_runs_no_call(
    api: StandIn, client: ClaudeClient, finish: str, why: str
) -> None:
    ran: list[str] = []

    @tool
    async def act(what: str) -> str:
        """Does something."""
        ran.append(what)
        return what

    api.answer(calls(("act", {"what": "harm"}), text="I will", finishReason=finish), {"content": "never asked"})
    done = asyncio.run(complete_with_tools("go", tools=[act], client=client))
    assert (done.stop_reason, done.finished, done.rounds, done.text) == (finish, False, 1, "I will")
    assert why in done.why
    assert ran == []
    assert done.messages[-1]["content"][0]["is_error"] is True  # so that the conversation can go on


def test_a_stop_sequence_ends_it(api: StandIn, client: ClaudeClient) -> None:
    api.answer({"content": "one two", "finishReason": "stop_sequence"})
    done = asyncio.run(complete_with_tools("count", client=client, stop_sequences=["three"]))
    assert (done.text, done.stop_reason, done.finished) == ("one two", "stop_sequence", True)
    assert api.bodies[0]["stop_sequences"] == ["three"]


def test_a_paused_turn_is_sent_back_as_it_is(api: StandIn, client: ClaudeClient) -> None:
    api.answer({"content": "Searching", "finishReason": "pause_turn"}, {"content": "found."})
    done = asyncio.run(complete_with_tools("look", client=client))
    assert (done.text, done.stop_reason, done.rounds) == ("Searchingfound.", "end_turn", 2)
    assert [message["role"] for message in api.bodies[1]["messages"]] == ["user", "assistant"]


REFUSALS = [(529, "overloaded_error"), (429, "rate_limit_error"), (500, "api_error")]


@pytest.mark.parametrize(("status", "kind"), sampled("faults", REFUSALS, 1))
def test_what_is_turned_away_is_sent_again(api: StandIn, client: ClaudeClient, status: int, kind: str) -> None:
    refused = {"error": {"message": "not now", "type": kind}, "status": status, "retryAfter": 1}
    api.answer(refused, calls(("add", {"a": 1, "b": 1})), refused, {"content": "2"})
    done = asyncio.run(complete_with_tools("1+1?", tools=[add], client=client))
    assert (done.text, done.rounds, len(api.bodies)) == ("2", 2, 4)
    assert api.bodies[0] == api.bodies[1]
    assert api.bodies[2] == api.bodies[3]


def test_what_stays_turned_away_is_an_error_that_says_so(api: StandIn) -> None:
    client = ClaudeClient(Settings(base_url=api.url, max_retries=1), api_key="no-key")
    refused = {"error": {"message": "come back later", "type": "overloaded_error"}, "status": 529}
    api.answer(refused, refused, refused)
    with pytest.raises(CompletionFailed, match=r"529 overloaded_error: come back later.* \(after 2 attempts\)$"):
        asyncio.run(complete_with_tools("hi", client=client))
    assert len(api.bodies) == 2


def test_a_wrong_key_is_not_tried_again(api: StandIn, client: ClaudeClient) -> None:
    api.answer({"error": {"message": "invalid x-api-key", "type": "authentication_error"}, "status": 401})
    with pytest.raises(CompletionFailed, match="invalid x-api-key; is ANTHROPIC_API_KEY right"):
        asyncio.run(complete_with_tools("hi", client=client))
    assert len(api.bodies) == 1


@pytest.mark.parametrize("cut", [{"truncateAfterChunks": 4, "chunkSize": 3}], ids=["stream"])
def test_an_answer_that_breaks_off_is_asked_for_again(api: StandIn, client: ClaudeClient, cut: dict[str, Any]) -> None:
    api.answer({"content": "a long answer that is cut", **cut}, {"content": "whole"})
    shown: list[str] = []

    def listen(event: dict[str, Any]) -> None:
        if event["type"] == "broken_off":
            assert "".join(shown) == event["text"] != ""
            shown.clear()
        elif event["type"] == "text":
            shown.append(event["text"])

    done = asyncio.run(complete_with_tools("hi", client=client, on_event=listen))
    assert (done.text, done.rounds, len(api.bodies)) == ("whole", 1, 2)
    assert "".join(shown) == "whole"


CUTS = [(200, True), (0, True), (0, False), (700, False), (700, True), (200, False)]  # bytes, streamed


@pytest.mark.parametrize(("most", "stream"), sampled("faults", CUTS, 2))
def test_an_answer_that_ends_too_early_is_asked_for_again(
    api: StandIn, client: ClaudeClient, most: int, stream: bool
) -> None:
    api.answer({"content": "a long answer " * 30, "chunkSize": 5}, {"content": "whole"})
    api.ends_after = most if stream else most // 4
    done = asyncio.run(complete_with_tools("hi", client=client, stream=stream))
    assert (done.text, done.rounds, len(api.bodies)) == ("whole", 1, 2)


@pytest.mark.parametrize("stream", [True, False], ids=["sse", "json"])
def test_thinking_is_sent_back_with_its_signature(api: StandIn, client: ClaudeClient, stream: bool) -> None:
    thought = {"reasoning": "I need the sum.", "reasoningSignature": "signed-by-the-model"}
    api.answer(calls(("add", {"a": 1, "b": 2}), **thought), {"content": "3"})
    thinking: dict[str, Any] = {"type": "enabled", "budget_tokens": 2000}
    heard: list[dict[str, Any]] = []
    done = asyncio.run(
        complete_with_tools("1+2?", tools=[add], client=client, stream=stream, thinking=thinking, on_event=heard.append)
    )
    assert done.text == "3"
    kept = api.bodies[1]["messages"][1]["content"]
    assert kept[0] == {"type": "thinking", "thinking": "I need the sum.", "signature": "signed-by-the-model"}
    assert kept[1]["type"] == "tool_use"
    assert api.bodies[0]["thinking"] == thinking
    if stream:
        assert "".join(e["text"] for e in heard if e["type"] == "thinking") == "I need the sum."


def test_blocks_that_are_not_ours_are_sent_back_as_they_came(api: StandIn, client: ClaudeClient) -> None:
    found = {"type": "web_search_result", "url": "https://x.org", "title": "X", "encrypted_content": "e"}
    kept = [
        {"type": "redacted_thinking", "data": "only-the-model-can-read-this"},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{**found, "page_age": None}]},
        {"type": "text", "text": "So:"},
        {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1, "b": 2}},
    ]
    api.answer({"content": "3"})
    api.content = kept
    done = asyncio.run(complete_with_tools("1+2?", tools=[add], client=client, stream=False))
    assert (done.text, done.rounds) == ("3", 2)
    sent = api.bodies[1]["messages"][1]["content"]
    assert [block["type"] for block in sent] == [block["type"] for block in kept]
    assert [sent[at] for at in (0, 1, 3, 4)] == [kept[at] for at in (0, 1, 3, 4)]
    assert {**sent[2]["content"][0], "page_age": None} == {**found, "page_age": None}
    assert results(api.bodies[1]) == [("3", False)]


SCHEMA = {
    "type": "object",
    "properties": {"sum": {"type": "integer", "minimum": 0}},
    "required": ["sum"],
    "additionalProperties": False,
}


def test_json_is_asked_for_as_structured_output_and_checked(api: StandIn, client: ClaudeClient) -> None:
    api.answer(calls(("add", {"a": 1, "b": 2})), {"content": '{"sum": -3}'}, {"content": '{"sum": 3}'})
    done = asyncio.run(complete_json_with_tools("1+2?", SCHEMA, tools=[add], client=client))
    assert (done.data, done.rounds) == ({"sum": 3}, 3)
    form = api.bodies[0]["output_config"]["format"]
    assert form["type"] == "json_schema"
    assert form["schema"]["additionalProperties"] is False
    corrected = api.bodies[2]["messages"][-1]["content"]
    assert "answer.sum" in corrected
    assert "minimum" in corrected or "less than" in corrected


def test_a_model_without_structured_output_is_told_in_words(api: StandIn, client: ClaudeClient) -> None:
    refused = {"message": "output_config.format: not supported by this model", "type": "invalid_request_error"}
    api.answer({"error": refused, "status": 400}, {"content": 'Here: ```json\n{"sum": 3,}\n```'})
    done = asyncio.run(complete_json_with_tools("1+2?", SCHEMA, client=client))
    assert done.data == {"sum": 3}
    assert "output_config" not in api.bodies[1]
    assert '"minimum":0' in api.bodies[1]["system"]


def test_json_that_never_fits_is_an_error_with_the_last_answer(api: StandIn, client: ClaudeClient) -> None:
    api.answer({"content": "no"}, {"content": "still no"}, {"content": '{"sum": "three"}'})
    with pytest.raises(CompletionFailed, match="no JSON that fits the schema") as failed:
        asyncio.run(complete_json_with_tools("1+2?", SCHEMA, client=client))
    last = failed.value.completion
    assert (last.text, last.stop_reason, last.data, last.rounds) == ('{"sum": "three"}', "invalid_json", None, 3)


def test_a_model_that_never_stops_is_stopped(api: StandIn, client: ClaudeClient) -> None:
    api.answer(*[calls(("add", {"a": n, "b": n})) for n in range(9)])
    done = asyncio.run(complete_with_tools("go", tools=[add], client=client, max_rounds=4))
    assert (done.stop_reason, done.rounds, len(done.trace), done.finished) == ("max_rounds", 4, 3, False)
    assert len(api.bodies) == 4


def test_a_budget_of_money_without_a_known_price_is_refused_before_anything_is_paid(api: StandIn) -> None:
    client = ClaudeClient(Settings(base_url=api.url, model="claude-of-tomorrow"), api_key="no-key")
    with pytest.raises(
        CompletionFailed, match="cost_budget: the price of claude-of-tomorrow is not known; set token_budget"
    ):
        asyncio.run(complete_with_tools("hi", client=client, cost_budget=1.0))
    assert api.bodies == []


def test_nothing_that_listens_is_said_with_the_address() -> None:
    client = ClaudeClient(Settings(base_url="http://127.0.0.1:9", max_retries=0), api_key="no-key")
    with pytest.raises(CompletionFailed, match=r"could not reach the Messages API at http://127\.0\.0\.1:9"):
        asyncio.run(complete_with_tools("hi", client=client))
