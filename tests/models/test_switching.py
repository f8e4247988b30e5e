"""A conversation that another maker's model continues, in the middle of a turn or after it."""

from __future__ import annotations

import asyncio
import json
import warnings
from dataclasses import replace
from typing import Any

import pytest

from ropewalk import App, tool
from ropewalk.agents import complete_json_with_tools, complete_with_tools
from ropewalk.agents.model import Request
from ropewalk.agents.models import Models, create_models
from ropewalk.agents.provider_client import ProviderClient
from ropewalk.config.models import ModelSettings
from ropewalk.errors import ModelError

from .makers import MAKERS, Maker
from .stand_in import Call, StandIn, Turn
from .test_scenarios import ANSWER, add

pytestmark = pytest.mark.process

MESSAGES, CHAT, RESPONSES, GEMINI = MAKERS
TEXT = {"type": "text", "text": "inner words"}
FILES: list[dict[str, Any]] = [
    {"type": "document", "source": {"type": "content", "content": [TEXT]}},
    {"type": "search_result", "source": "http://x", "title": "t", "content": [{"type": "text", "text": "found words"}]},
]


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_KEY", "no-key")


@tool
def send(stream: bool) -> str:
    """Send."""
    return f"sent {stream}"


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.name)
def test_each_maker_continues_the_conversation_of_each(maker: Maker) -> None:
    """Thinking stays with its maker, answers without words do not stop it, and nobody is warned of what is usual."""

    async def play(other: Maker, first: StandIn, second: StandIn) -> None:
        models = create_models({"": maker.settings(first.url), "other": other.settings(second.url)})
        async with App("memory", tools=[add], model=models) as app:
            first.script(
                Turn(thinking="I ponder.", text="t", calls=(Call("add", {"a": 1}),)), Turn(thinking="I ponder.")
            )
            done = await complete_with_tools("go", app=app, tools=["add"])
            question = {"role": "user", "content": [{"type": "text", "text": "more"}, *FILES]}
            second.script(Turn(text="ok"))
            done = await complete_with_tools(messages=[*done.messages, question], app=app, tools=["add"], model="other")
            assert (done.text, done.warnings, first.invalid, second.invalid) == ("ok", (), [], [])
        sent = json.dumps(second.bodies[0])
        assert [words for words in ("inner words", "found words") if words not in sent] == []
        if other is not maker:
            assert "I ponder." not in sent

    with StandIn(maker.create(), Turn()) as first:
        for other in MAKERS:
            with StandIn(other.create(), Turn()) as second:
                asyncio.run(play(other, first, second))


def test_a_text_keeps_its_id_for_its_maker() -> None:
    async def play(stand: StandIn) -> None:
        models = create_models({"": RESPONSES.settings(stand.url)})
        async with App("memory", model=models) as app:
            done = await complete_with_tools("go", app=app)
            await complete_with_tools(messages=[*done.messages, {"role": "user", "content": "more"}], app=app)
        assert [item.get("id", "")[:4] for item in stand.bodies[1]["input"]] == ["", "rs_1", "msg_", ""]

    with StandIn(RESPONSES.create(), Turn(thinking="I ponder.", text="hi")) as stand:
        asyncio.run(play(stand))


@pytest.mark.parametrize(
    ("maker", "turn"),
    [
        (MESSAGES, Turn(text="Hello", refusal="No.")),
        (CHAT, Turn(text="Hello there", cut=True)),
        (RESPONSES, Turn(text="Hello there", cut=True)),
    ],
    ids=["messages", "chat", "responses"],
)
def test_what_was_shown_before_a_fallback_is_void(maker: Maker, turn: Turn) -> None:
    """And the tokens of a refusal count."""
    events: list[dict[str, Any]] = []

    async def play(first: StandIn, second: StandIn) -> None:
        settings = maker.settings(first.url, fallback=("other",))
        models = create_models({"": settings, "other": GEMINI.settings(second.url)})
        async with App("memory", model=models) as app:
            done = await complete_with_tools("go", app=app, on_event=events.append)
        assert done.text == "free"
        assert done.usage["output_tokens"] == (20 if turn.refusal else 10)

    with StandIn(maker.create(), turn) as first, StandIn(GEMINI.create(), Turn(text="free")) as second:
        asyncio.run(play(first, second))
    shown = ""
    for event in events:
        if event["type"] == "broken_off":
            assert event["text"] == shown != ""
            assert "other was asked" in event["error"]
            shown = ""
        shown += event["text"] if event["type"] == "text" else ""
    assert shown == "free"


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.name)
def test_schemas_that_an_api_does_not_take_are_in_the_prompt(maker: Maker) -> None:
    async def play(stand: StandIn) -> None:
        async with App("memory", tools=[add], model=create_models({"": maker.settings(stand.url)})) as app:
            stand.script(Turn(calls=(Call("add", {"a": 1}),)), Turn(text='{"city": "Oslo"}'))
            done = await complete_json_with_tools("where?", ANSWER, app=app, tools=["add"])
            assert done.data == {"city": "Oslo"}
            stand.script(Turn(text='["a"]'))
            done = await complete_json_with_tools("which?", {"type": "array", "items": {"type": "string"}}, app=app)
            assert (done.data, stand.invalid) == (["a"], [])

    with StandIn(maker.create(), Turn()) as stand:
        asyncio.run(play(stand))


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.name)
def test_an_argument_named_stream_asks_for_no_stream(maker: Maker) -> None:
    async def play(stand: StandIn) -> None:
        async with App(
            "memory", tools=[send], model=create_models({"": maker.settings(stand.url, stream=False)})
        ) as app:
            assert (await complete_with_tools("go", app=app, tools=["send"])).text == "done"

    with StandIn(maker.create(), Turn(calls=(Call("send", {"stream": True}),)), Turn(text="done")) as stand:
        asyncio.run(play(stand))


@pytest.mark.parametrize("model", ["azure:GPT4o", "vllm:Qwen3", "cerebras:Llama"])
def test_a_provider_is_no_module_of_the_project(model: str) -> None:
    assert isinstance(Models({}).client_of(model), ProviderClient)


def test_an_unknown_price_asks_no_fallback() -> None:
    request = Request(messages=[{"role": "user", "content": "go"}], priced=True)

    async def play(first: StandIn, second: StandIn) -> None:
        unpriced = ModelSettings(model="openai-chat:ours", base_url=f"{first.url}/v1", fallback=("other",))
        models = create_models({"": unpriced, "other": GEMINI.settings(second.url)})
        with pytest.raises(ModelError, match="cost_budget: the price of openai-chat:ours is not known"):
            await models.turn(request, lambda kind, text: None)
        await models.close()
        assert (first.answered, second.answered) == (0, 0)

    with StandIn(CHAT.create(), Turn()) as first, StandIn(GEMINI.create(), Turn(text="free")) as second:
        asyncio.run(play(first, second))


@pytest.mark.parametrize(
    ("model", "options", "left_out"),
    [
        ("openai:gpt-5", {"temperature": 0.2, "seed": 1}, ["temperature", "seed"]),
        ("openai-chat:gpt-5", {"temperature": 0.2, "top_p": 0.5, "seed": 1}, ["temperature", "top_p"]),
        ("openai-chat:gpt-5.1", {"temperature": 0.2, "openai_reasoning_effort": "low"}, ["temperature"]),
        ("openai-chat:gpt-5.1", {"temperature": 0.2, "thinking": True}, ["temperature"]),
        ("openai-chat:gpt-4o", {"temperature": 0.2, "top_k": 3}, ["top_k"]),
        ("google:gemini-2.5-flash", {"temperature": 0.2, "logit_bias": {"5": 1}}, ["logit_bias"]),
    ],
)
def test_settings_that_a_model_does_not_take_are_warnings_of_the_answer(
    model: str, options: dict[str, Any], left_out: list[str]
) -> None:
    maker = {"openai": RESPONSES, "openai-chat": CHAT, "google": GEMINI}[model.partition(":")[0]]

    async def play(stand: StandIn) -> None:
        settings = replace(maker.settings(stand.url, options=options), model=model)
        models = create_models({"": settings})
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            answer = await models.turn(Request(messages=[{"role": "user", "content": "go"}]), lambda kind, text: None)
        await models.close()
        assert list(answer.warnings) == [f"{model} does not take {name}; left out" for name in left_out]
        assert stand.invalid == []

    with StandIn(maker.create(), Turn(text="hi")) as stand:
        asyncio.run(play(stand))
