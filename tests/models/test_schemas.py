"""No tool poisons a request: whatever its name and schema are, each of the four APIs takes them."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from ropewalk.agents.model import Request
from ropewalk.agents.models import create_models
from ropewalk.agents.tool_definitions import make_cards
from ropewalk.tools.tool import Tool
from tiers import Scale

from .makers import MAKERS, Maker
from .stand_in import Call, StandIn, Turn

WORDS = ["a", "b", "c", "path", "x-y", "$ref", "type", "ü"]
KEYWORDS: dict[str, list[Any]] = {
    "description": ["some words"],
    "enum": [["x"], [1, 2], ["x", None]],
    "const": [3, "x"],
    "default": [None, 1],
    "format": ["date", "uri", "int64", "binary"],
    "minimum": [1],
    "exclusiveMaximum": [9],
    "multipleOf": [2],
    "pattern": ["^[a-z]+$"],
    "minLength": [0, 3],
    "uniqueItems": [True, False],
    "minProperties": [2],
    "patternProperties": [{"^x": {"type": "string"}}],
    "examples": [[1]],
    "$comment": ["for us"],
    "not": [{"type": "null"}],
    "title": ["A title"],
    "readOnly": [True],
    "deprecated": [True],
}
KINDS: list[Any] = ["string", "integer", "number", "boolean", "null", ["string", "null"]]


def random_schema(draw: random.Random, depth: int = 3) -> dict[str, Any]:
    """A schema of any shape, as tools have them, and some as they should not."""
    kind = draw.choice(["leaf", "leaf", "array", "anyOf", "oneOf", "allOf", "object"]) if depth else "leaf"
    if kind == "object":
        return random_object(draw, depth - 1)
    if kind == "array":
        items = {"items": random_schema(draw, depth - 1)} if draw.random() < 0.8 else {}
        return {"type": "array", **items, **random_keywords(draw)}
    if kind != "leaf":
        return {kind: [random_schema(draw, depth - 1) for _ in range(draw.randint(1, 3))]}
    shape = draw.choice([{}, {"$ref": "#/$defs/Item"}, *({"type": name} for name in KINDS)])
    return {**shape, **(random_keywords(draw) if "type" in shape else {})}


def random_keywords(draw: random.Random) -> dict[str, Any]:
    return {word: draw.choice(KEYWORDS[word]) for word in draw.sample(sorted(KEYWORDS), draw.randint(0, 3))}


def random_object(draw: random.Random, depth: int = 3) -> dict[str, Any]:
    properties = {word: random_schema(draw, depth) for word in draw.sample(WORDS, draw.randint(0, 3))}
    more = draw.choice([{}, {"additionalProperties": False}, {"additionalProperties": {"type": "string"}}])
    required = draw.sample(WORDS, draw.randint(0, 2))
    return {"type": "object", "properties": properties, "required": required, **more}


def random_tool(draw: random.Random) -> Tool:
    letters = "".join(draw.choice("abcXYZ019_-.") for _ in range(draw.randint(1, 70)))
    defs = {"$defs": {"Item": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Item"}}}}}
    return Tool(letters, "Does it.", {**random_object(draw), **defs}, handler=print)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_KEY", "no-key")


@pytest.mark.campaign("models")
@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.name)
def test_any_tool_can_be_offered(maker: Maker, scale: Scale, seed: int) -> None:
    draw = random.Random(seed)

    async def ask() -> None:
        with StandIn(maker.create(), Turn(text="none of them")) as stand:
            models = create_models({"": maker.settings(stand.url)})
            for _ in range(scale(3, 300)):
                cards = make_cards(random_tool(draw) for _ in range(20)).cards
                tools = [card.definition for card in cards]
                request = Request(messages=[{"role": "user", "content": "go"}], tools=tools, stream=False)
                await models.turn(request, lambda kind, text: None)
            assert stand.invalid == []
            await models.close()

    asyncio.run(ask())


def test_what_a_provider_does_not_take_is_told() -> None:
    """Gemini has neither `examples` nor `exclusiveMinimum`, and no names that begin with a digit."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "exclusiveMinimum": 2, "examples": [3]}}}
    tools = [{"name": "1up", "description": "Counts.", "input_schema": schema}]

    async def ask(maker: Maker) -> tuple[list[Any], list[str]]:
        called = "_1up" if maker.name == "gemini" else "1up"
        with StandIn(maker.create(), Turn(calls=(Call(called, {"n": 3}),))) as stand:
            models = create_models({"": maker.settings(stand.url)})
            request = Request(messages=[{"role": "user", "content": "go"}], tools=tools)
            answer = await models.turn(request, lambda kind, text: None)
            await models.close()
            assert stand.invalid == []
            return [block["name"] for block in answer.content], list(answer.warnings)

    lost = "tool _1up: google:gemini-2.5-flash does not take examples, exclusiveMinimum of its schema; left out"
    for maker in MAKERS:
        assert asyncio.run(ask(maker)) == (["1up"], [lost] if maker.name == "gemini" else [])


def test_what_gemini_cannot_combine_or_take_is_asked_in_another_way() -> None:
    """Gemini before 3 takes either tools or a schema, and always runs calls in parallel."""
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tools = [{"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}]

    async def ask(maker: Maker) -> tuple[bool, list[str]]:
        with StandIn(maker.create(), Turn(text='{"city": "Rome"}')) as stand:
            models = create_models({"": maker.settings(stand.url)})
            choice = {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
            prompt = [{"role": "user", "content": "go"}]
            request = Request(messages=prompt, tools=tools, schema=schema, options=choice)
            answer = await models.turn(request, lambda kind, text: None)
            await models.close()
            assert stand.invalid == []
            return "city" in str(stand.bodies[0].get("systemInstruction")), list(answer.warnings)

    told = [asyncio.run(ask(maker)) for maker in MAKERS if maker.name in ("chat", "gemini")]
    assert told == [(False, []), (True, ["google:gemini-2.5-flash does not take disable_parallel_tool_use; left out"])]
