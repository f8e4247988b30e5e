"""Models anywhere in a result become objects; pydantic's own conversion is the oracle."""

from __future__ import annotations

import asyncio
import datetime
import enum
import uuid
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypedDict

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from ropewalk import App, tool
from ropewalk.tools.answers import to_json

ID = uuid.UUID(int=7)


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


class Point(NamedTuple):
    x: int
    y: Any


class Receipt(pydantic.BaseModel):
    id: int
    at: datetime.datetime = datetime.datetime(2026, 1, 2, 3, 4, 5)
    more: Any = None


@dataclass
class Hit:
    url: str
    on: datetime.date = datetime.date(2026, 1, 2)
    id: uuid.UUID = ID
    more: Any = None
    tags: set[str] = field(default_factory=set)


class Page(TypedDict):
    hits: list[Any]


leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text("ab", max_size=3) | st.sampled_from(Colour)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3)
        | st.builds(Point, st.integers(0, 9), inner)
        | st.builds(lambda more: Receipt(id=1, more=more), inner)
        | st.builds(lambda more: Hit("u", more=more, tags={"t"}), inner)
    ),
    max_leaves=12,
)


@given(values)
def test_they_are_what_pydantic_makes_of_them(value: Any) -> None:
    assert to_json(value) == to_jsonable_python(value)


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("in_loop", [False, True])
def test_a_tool_without_a_hint_for_them_gives_them(tmp_path: Any, durable: bool, in_loop: bool) -> None:
    made = {"receipts": [Receipt(id=7)], "by": {"a": Hit("u"), "colour": Colour.RED}, "at": Point(1, Colour.BLUE)}

    def plain() -> dict[str, Any]:
        return made

    async def coroutine() -> dict[str, Any]:
        return made

    async def run() -> Any:
        function = tool(coroutine if in_loop else plain)
        async with App(f"sqlite:///{tmp_path}/x.db" if durable else "memory", tools=[function]) as app:
            nodes = [{"id": "n", "type": "tool", "tool": function.__name__}]
            return await app.run({"id": "c", "name": "c", "nodes": nodes})

    outcome = asyncio.run(run())
    assert outcome.results == {"n": to_jsonable_python(made)}


def test_declared_types_hold_what_json_has_no_word_for() -> None:
    @tool
    def hit() -> Hit:
        return Hit("u")

    @tool
    def page() -> Page:
        return {"hits": [Hit("u")]}

    async def run() -> Any:
        async with App("memory", tools=[hit, page]) as app:
            return [(await app.runner.run(name)).structured for name in ("hit", "page")]

    found = {"url": "u", "on": "2026-01-02", "id": str(uuid.UUID(int=7)), "more": None, "tags": []}
    assert asyncio.run(run()) == [found, {"hits": [found]}]


def test_what_has_no_form_in_json_stays_refused() -> None:
    for value in (1j, object(), object):
        assert to_json({"value": value})["value"] is value


class Found(BaseModel):
    """A pydantic model with a member that JSON has no word for."""

    url: str
    on: datetime.date


def test_lists_and_dicts_of_models_give_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    found = Found(url="u", on=datetime.date(2026, 1, 2))

    @tool
    def listed() -> list[Found]:
        return [found]

    @tool
    def named() -> dict[str, list[Found]]:
        return {"a": [found]}

    async def run() -> Any:
        async with App("memory", tools=[listed, named]) as app:
            return [await app.call_tool(name, {}) for name in ("listed", "named")]

    expected = {"url": "u", "on": "2026-01-02"}
    assert asyncio.run(run()) == [[expected], {"a": [expected]}]
    assert [str(warning.message) for warning in recwarn if "ydantic" in str(warning.message)] == []
