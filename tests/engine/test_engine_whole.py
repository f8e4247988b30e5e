"""JSON Schema calls 2.0 an integer: a Python function that asks for an `int` gets one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.lab import Way, call, compute, every_way, flow, line, lit, obj, out
from ropewalk import Toolbox
from ropewalk.api.run_chain import Runner
from ropewalk.errors import ValidationFailed
from ropewalk.tools.tool import tool


@tool
async def one(times: int) -> str:
    return repr(times)


@tool
async def several(text: str, times: int, more: int | None = None, share: float = 1.0, any: int | float = 0) -> str:
    return repr([text, times, more, share, any])


@tool
def plain(times: int) -> str:
    return repr(times)


@tool
async def streamed(times: int) -> AsyncIterator[str]:
    yield repr(times)


def runner() -> Runner:
    return Runner(Toolbox([one, several, plain, streamed]))


@every_way
@pytest.mark.parametrize(
    ("name", "args", "value"),
    [
        ("one", {"times": 2.0}, "2"),
        ("one", {"times": 3}, "3"),
        ("several", {"times": 2.0, "text": "a", "more": -4.0, "share": 2.0, "any": 2.0}, "['a', 2, -4, 2.0, 2.0]"),
        ("several", {"text": "a", "times": 2.0}, "['a', 2, None, 1.0, 0]"),
        ("plain", {"times": 2.0}, "2"),
        ("streamed", {"times": 2.0}, ["2"]),
    ],
)
async def test_an_int_parameter_gets_an_int(way: Way, name: str, args: dict[str, Any], value: Any) -> None:
    nodes = (compute("x", obj(**{key: lit(item) for key, item in args.items()})), call("a", name, out("x")))
    ended = await way(flow(line(*nodes, result=obj(a=out("a"), x=out("x")))), runner())
    assert ended["value"]["a"] == value, ended["failures"]
    assert repr(ended["value"]["x"]) == repr(args)  # what another node gave stays what it was
    written = line(call("a", name, obj(**{key: lit(item) for key, item in args.items()})), result=out("a"))
    assert (await way(flow(written), runner()))["value"] == value


async def test_a_call_of_its_own_gives_an_int_too() -> None:
    assert (await runner().run("one", {"times": 2.0})).structured == "2"
    events = [event async for event in runner().run_stream("streamed", {"times": 2.0})]
    assert events[0].data == "2"
    with pytest.raises(ValidationFailed, match=r"args\.times: 2\.5 is not of type"):
        await runner().run("one", {"times": 2.5})
