"""The makers' own SDKs against the stand-ins, before the loop is judged by them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from .makers import MAKERS, Maker
from .sdks import SDKS, Reply
from .stand_in import Call, StandIn, Turn
from .test_scenarios import ANSWER, PIXEL

STRICT = {**ANSWER, "required": ["city", "country"]}
Play = Callable[[Any, StandIn, bool], Awaitable[None]]


async def _text(sdk: Any, stand: StandIn, stream: bool) -> None:
    stand.script(Turn(text="Hello there"))
    assert (await sdk.say([sdk.user("hi")], stream)).text == "Hello there"


async def _rounds(sdk: Any, stand: StandIn, stream: bool) -> None:
    stand.script(Turn(text="So.", calls=(Call("add", {"a": 1}), Call("add", {"a": 2}))), Turn(text="done"))
    history = [sdk.user("go")]
    reply: Reply = await sdk.say(history, stream)
    assert [(name, input) for _, name, input in reply.calls] == [("add", {"a": 1}), ("add", {"a": 2})]
    assert len({id for id, _, _ in reply.calls}) == 2
    assert (await sdk.say([*history, *reply.back, *sdk.results(reply, "5")], stream)).text == "done"


async def _structured(sdk: Any, stand: StandIn, stream: bool) -> None:
    stand.script(Turn(text='{"city": "Oslo", "country": "Norway"}'))
    assert json.loads((await sdk.say([sdk.user("go")], stream, STRICT)).text)["city"] == "Oslo"


async def _thinking(sdk: Any, stand: StandIn, stream: bool) -> None:
    stand.script(Turn(thinking="Hm.", calls=(Call("add", {"a": 1}),)), Turn(text="done"))
    reply = await sdk.say([sdk.user("go")], stream)
    assert (await sdk.say([sdk.user("go"), *reply.back, *sdk.results(reply, "1")], stream)).text == "done"
    sent = json.dumps(stand.bodies[1])
    assert "sealed-1" in sent or base64.b64encode(b"sealed-1").decode() in sent


async def _image(sdk: Any, stand: StandIn, stream: bool) -> None:
    stand.script(Turn(text="a pixel"))
    assert (await sdk.say([sdk.user("what?", PIXEL)], stream)).text == "a pixel"
    assert PIXEL in json.dumps(stand.bodies[0])


async def _limited(sdk: Any, stand: StandIn, stream: bool) -> None:
    stand.script(Turn(status=429, retry_after="0.01"), Turn(text="now"))
    assert (await sdk.say([sdk.user("go")], stream)).text == "now"
    assert stand.answered == 2


async def _cut(sdk: Any, stand: StandIn, stream: bool) -> None:
    stand.script(Turn(text="Hello there", cut=True))
    if stream:
        with pytest.raises(Exception):  # noqa: B017, PT011 - each SDK has its own, and one an assertion
            (await sdk.say([sdk.user("go")], True)).back[0]


async def _refusal(sdk: Any, stand: StandIn, stream: bool) -> None:
    stand.script(Turn(refusal="I will not."))
    assert (await sdk.say([sdk.user("go")], stream)).refused


async def _cache(sdk: Any, stand: StandIn, stream: bool) -> None:
    stand.script(Turn(text="hi", cached=40))
    assert (await sdk.say([sdk.user("go")], stream)).cached == 40


PLAYS: dict[str, Play] = {
    "text": _text,
    "tools": _rounds,
    "structured answer": _structured,
    "thinking back": _thinking,
    "images": _image,
    "429 with retry-after": _limited,
    "cut stream": _cut,
    "refusal": _refusal,
    "cache use": _cache,
}


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.name)
def test_an_sdk_finds_its_api_in_the_stand_in(maker: Maker) -> None:
    async def play() -> None:
        with StandIn(maker.create(), Turn(text="?")) as stand:
            sdk = SDKS[maker.name](stand.url)
            for name, one in PLAYS.items():
                for stream in (True, False) if name not in maker.lacks else ():
                    await one(sdk, stand, stream)
                    assert stand.invalid == [], (name, stream)
            await sdk.close()

    asyncio.run(play())
