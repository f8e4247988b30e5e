"""What the loop does with each of four APIs: twelve scenarios, judged by the stand-ins."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from ropewalk import App, tool
from ropewalk.agents import Completion, complete_json_with_tools, complete_with_tools
from ropewalk.agents.models import create_models

from .makers import MAKERS, Maker
from .stand_in import Call, StandIn, Turn

pytestmark = pytest.mark.process

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
ANSWER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "country": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


@tool(annotations={"readOnlyHint": True})
def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


@dataclass
class Scene:
    """A conversation with one maker's model."""

    maker: Maker
    stand: StandIn
    app: App

    async def ask(self, *turns: Turn, prompt: str | None = "go", **options: Any) -> Completion:
        self.stand.script(*turns)
        return await complete_with_tools(prompt, app=self.app, **options)


Scenario = Callable[[Scene], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {}


def scenario(name: str) -> Callable[[Scenario], Scenario]:
    def add_scenario(play: Scenario) -> Scenario:
        SCENARIOS[name] = play
        return play

    return add_scenario


@scenario("stream")
async def _stream(scene: Scene) -> None:
    heard: list[dict[str, Any]] = []
    done = await scene.ask(Turn(text="Hello there"), on_event=heard.append, system="Be brief.")
    pieces = [event["text"] for event in heard if event["type"] == "text"]
    assert (done.text, done.finished, "".join(pieces), len(pieces)) == ("Hello there", True, "Hello there", 2)
    whole = await scene.ask(Turn(text="Hello there"), stream=False, system="Be brief.")
    assert whole.text == "Hello there"


@scenario("tools")
async def _tools(scene: Scene) -> None:
    turns = Turn(text="Adding.", calls=(Call("add", {"a": 2, "b": 3}),)), Turn(text="It is 5.")
    done = await scene.ask(*turns, tools=["add"])
    assert [(call["tool"], call["input"], call["outcome"]) for call in done.trace] == [
        ("add", {"a": 2, "b": 3}, {"value": 5})
    ]
    assert (done.text, done.rounds) == ("It is 5.", 2)
    failed = await scene.ask(Turn(calls=(Call("add", {"a": "x"}),)), Turn(text="Sorry."), tools=["add"])
    assert "error" in failed.trace[0]["outcome"]
    assert failed.text == "Sorry."


@scenario("parallel tools")
async def _parallel(scene: Scene) -> None:
    calls = tuple(Call("add", {"a": n}) for n in (1, 2, 3))
    done = await scene.ask(Turn(calls=calls), Turn(text="1, 2, 3"), tools=["add"])
    assert [call["outcome"]["value"] for call in done.trace] == [1, 2, 3]
    assert done.rounds == 2
    forced = await scene.ask(
        Turn(calls=calls[:1]), Turn(text="1"), tools=["add"], tool_choice={"type": "tool", "name": "add"}, max_rounds=1
    )
    assert forced.stop_reason == "max_rounds"


@scenario("structured answer")
async def _structured(scene: Scene) -> None:
    scene.stand.script(Turn(text='{"city": "Oslo"}'))
    done = await complete_json_with_tools("where?", ANSWER, app=scene.app)
    assert done.data == {"city": "Oslo"}
    scene.stand.script(Turn(text='{"town": "Oslo"}'), Turn(text='{"city": "Oslo"}'))
    corrected = await complete_json_with_tools("where?", ANSWER, app=scene.app)
    assert (corrected.data, corrected.rounds) == ({"city": "Oslo"}, 2)


@scenario("thinking back")
async def _thinking(scene: Scene) -> None:
    heard: list[dict[str, Any]] = []
    turns = Turn(thinking="Let me add.", calls=(Call("add", {"a": 1}),)), Turn(text="1")
    done = await scene.ask(
        *turns,
        tools=["add"],
        on_event=heard.append,
        thinking={"type": "adaptive"} if scene.maker.name == "messages" else None,
    )
    assert "".join(event["text"] for event in heard if event["type"] == "thinking") == "Let me add."
    sent = json.dumps(scene.stand.bodies[1])
    assert "sealed-1" in sent or base64.b64encode(b"sealed-1").decode() in sent
    # A conversation that another maker's model continues leaves out what only this one understands.
    assert done.messages


@scenario("images")
async def _images(scene: Scene) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    question = [{"role": "user", "content": [{"type": "text", "text": "what?"}, image]}]
    done = await scene.ask(Turn(text="a pixel"), prompt=None, messages=question)
    assert done.text == "a pixel"
    assert PIXEL in json.dumps(scene.stand.bodies[0])


@scenario("429 with retry-after")
async def _limited(scene: Scene) -> None:
    done = await scene.ask(Turn(status=429, retry_after="0.01"), Turn(text="now"))
    assert (done.text, scene.stand.answered, done.rounds) == ("now", 2, 1)


@scenario("cut stream")
async def _cut(scene: Scene) -> None:
    heard: list[dict[str, Any]] = []
    done = await scene.ask(Turn(text="Hello there", cut=True), Turn(text="Hello there"), on_event=heard.append)
    assert (done.text, scene.stand.answered, done.rounds) == ("Hello there", 2, 1)
    broken = await scene.ask(Turn(calls=(Call("add", {"a": 1}),), cut=True), Turn(text="no call"), tools=["add"])
    assert (broken.text, broken.trace) == ("no call", [])


@scenario("refusal")
async def _refusal(scene: Scene) -> None:
    done = await scene.ask(Turn(refusal="I will not."))
    assert (done.stop_reason, done.finished) == ("refusal", False)


@scenario("cache use")
async def _cache(scene: Scene) -> None:
    done = await scene.ask(Turn(text="hi", cached=40))
    usage = {"input_tokens": 60, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 0, "output_tokens": 10}
    assert done.usage == usage


@scenario("cost")
async def _cost(scene: Scene) -> None:
    from genai_prices import Usage, calc_price

    plain, cached = [await scene.ask(Turn(text="hi", cached=count)) for count in (0, 40)]
    provider, _, model = scene.maker.model.partition(":")
    price = calc_price(
        Usage(input_tokens=100, output_tokens=10), model_ref=model, provider_id=provider.partition("-")[0]
    )
    assert plain.cost == pytest.approx(float(price.total_price))
    assert cached.cost is not None
    assert 0 < cached.cost < float(price.total_price)
    stopped = await scene.ask(Turn(calls=(Call("add", {"a": 1}),)), tools=["add"], cost_budget=1e-9)
    assert (stopped.stop_reason, stopped.rounds) == ("cost_budget", 1)


CELLS = [(maker, name) for maker in MAKERS for name in SCENARIOS if name not in maker.lacks]


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_KEY", "no-key")


@pytest.mark.parametrize(("maker", "name"), CELLS, ids=[f"{maker.name}-{name}" for maker, name in CELLS])
def test_the_loop_does_the_same_with_every_api(maker: Maker, name: str) -> None:
    async def play() -> None:
        with StandIn(maker.create(), Turn(text="?")) as stand:
            models = create_models({"": maker.settings(stand.url)})
            async with App("memory", tools=[add], model=models) as app:
                await SCENARIOS[name](Scene(maker, stand, app))
            assert stand.invalid == []

    asyncio.run(play())


def test_at_most_four_cells_are_missing() -> None:
    assert len(SCENARIOS) + 1 == 12  # the last one is test_killed.py
    assert 4 * len(SCENARIOS) - len(CELLS) <= 4
