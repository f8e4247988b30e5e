"""Arguments that fit the schema and not the type: refused like any that do not fit, and not the function's failure."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
from collections.abc import AsyncIterator
from typing import Any, TypedDict, Unpack

import pydantic
import pytest

from ropewalk import App, Runner, Toolbox
from ropewalk.errors import ExecutionFailed, ToolError, ValidationFailed
from ropewalk.tools.signature import IdempotencyKey
from ropewalk.tools.tool import tool

DAY = "args.d: Input should be a valid date or datetime, input is too short"


@dataclasses.dataclass
class Span:
    first: int
    last: int

    def __post_init__(self) -> None:
        if self.last < self.first:
            raise ValueError("last is before first\nsecond line")


class Colour(enum.Enum):
    RED = "red"


class Person(pydantic.BaseModel):
    name: str
    ages: list[int] = []

    @pydantic.field_validator("name")
    @classmethod
    def known(cls, name: str) -> str:
        if name == "nobody":
            raise ValueError("is nobody")
        return name


@tool
def plain(d: datetime.date, e: datetime.date | None = None) -> str:
    return d.isoformat()


@tool
async def coroutine(d: datetime.date, e: datetime.date | None = None) -> str:
    return d.isoformat()


@tool
async def streaming(d: datetime.date) -> AsyncIterator[str]:
    yield d.isoformat()


def refused(one: Any, args: dict[str, Any], **rules: Any) -> ValidationFailed:
    with pytest.raises(ValidationFailed) as caught:
        asyncio.run(Runner(Toolbox([one]), **rules).run(one.__name__, args))
    assert "pydantic.dev" not in str(caught.value)
    return caught.value


def schema(one: Any) -> Any:
    found = Toolbox([one]).get(one.__name__)
    assert found is not None
    return found.input_schema


@pytest.mark.parametrize("one", [plain, coroutine, streaming])
def test_what_a_type_refuses_does_not_fit(one: Any) -> None:
    error = refused(one, {"d": "tomorrow"})
    assert [str(problem) for problem in error.problems] == [DAY]
    assert (error.op, error.tool_id, error.retryable) == ("validate_input", one.__name__, False)
    assert error.backend is not None
    assert error.reason == DAY
    assert error.matches(pydantic.ValidationError)


def test_all_that_types_refuse_is_told_at_once() -> None:
    error = refused(plain, {"d": "tomorrow", "e": "never"})
    assert [problem.path for problem in error.problems] == ["args.d", "args.e"]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"person": {"name": "nobody"}}, ["args.person.name: Value error, is nobody"]),
        ({"span": {"first": 2, "last": 1}}, ["args.span: last is before first"]),
    ],
)
def test_models_and_dataclasses_say_which_member(args: dict[str, Any], told: list[str]) -> None:
    @tool
    def f(person: Person | None = None, span: Span | None = None) -> None: ...

    assert [str(problem) for problem in refused(f, args).problems] == told


def test_where_the_schema_is_not_asked_the_types_still_are() -> None:
    @tool
    def f(person: Person, colour: Colour = Colour.RED) -> None: ...

    error = refused(f, {"person": {"ages": [1, "old"]}, "colour": "blue"}, validate_input=False)
    assert [str(problem) for problem in error.problems] == [
        "args.person.name: Field required",
        "args.person.ages[1]: Input should be a valid integer, unable to parse string as an integer",
        "args.colour: 'blue' is not a valid Colour",
    ]


@pytest.mark.parametrize("one", ["plain", "coroutine"])
def test_a_refused_argument_is_not_tried_again_in_a_chain(one: str) -> None:
    async def case() -> Any:
        async with App(tools=[plain, coroutine]) as app:
            nodes = [{"id": "a", "type": "tool", "tool": one, "params": {"d": "$input"}}]
            chain = {"kind": "chain", "errorStrategy": "retry", "maxRetries": 2, "retryDelay": 0, "nodes": nodes}
            return await app.run(chain, input="tomorrow")

    error = asyncio.run(case())["errors"][0]
    assert (error["kind"], error["attempts"], error["message"]) == ("ValidationFailed", 1, DAY)


def test_a_stream_does_not_begin_with_a_refused_argument() -> None:
    async def events(args: dict[str, Any]) -> list[Any]:
        return [event.data async for event in Runner(Toolbox([streaming])).run_stream("streaming", args)]

    with pytest.raises(ValidationFailed) as caught:
        asyncio.run(events({"d": "tomorrow"}))
    assert [str(problem) for problem in caught.value.problems] == [DAY]
    assert asyncio.run(events({"d": "2026-01-02"}))[0] == "2026-01-02"


def test_what_the_function_itself_raises_is_its_failure() -> None:
    @tool
    def f(d: datetime.date) -> None:
        Person(name="nobody")

    with pytest.raises(ToolError) as caught:
        asyncio.run(Runner(Toolbox([f])).run("f", {"d": "2026-01-02"}))
    assert type(caught.value) is ExecutionFailed
    assert caught.value.retryable


# --- **more ------------------------------------------------------------------------------------


def test_more_is_held_to_its_hint() -> None:
    @tool
    def f(a: str = "", **kw: int) -> Any:
        return kw

    assert schema(f)["additionalProperties"] == {"type": "integer"}
    assert [problem.path for problem in refused(f, {"a": "x", "q": "x"}).problems] == ["args.q"]
    given = asyncio.run(Runner(Toolbox([f])).run("f", {"a": "x", "q": 2.0, "kw": 3.0})).structured
    assert [(name, type(value)) for name, value in given.items()] == [("q", int), ("kw", int)]


def test_more_arrives_as_its_type() -> None:
    @tool
    def f(key: IdempotencyKey, a: str = "", **kw: Colour) -> list[str]:
        assert isinstance(key, str)
        return [a, *(type(value).__name__ for value in kw.values())]

    assert schema(f)["additionalProperties"] == {"enum": ["red"]}
    assert asyncio.run(Runner(Toolbox([f])).run("f", {"a": "red", "q": "red"})).structured == ["red", "Colour"]

    @tool
    async def g(**kw: Span) -> int:
        return sum(value.last for value in kw.values())

    spans = {"x": {"first": 1, "last": 2}, "y": {"first": 1, "last": 3}}
    assert asyncio.run(Runner(Toolbox([g])).run("g", spans)).structured == 5
    assert [problem.path for problem in refused(g, {**spans, "y": {"first": 2, "last": 1}}).problems] == ["args.y"]


class Options(TypedDict, total=False):
    colour: Colour
    size: int


def test_more_of_a_typed_dict_is_its_members() -> None:
    @tool
    def f(a: str, **kw: Unpack[Options]) -> str:
        return type(kw["colour"]).__name__

    assert schema(f) == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "colour": {"enum": ["red"]}, "size": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert asyncio.run(Runner(Toolbox([f])).run("f", {"a": "x", "colour": "red"})).structured == "Colour"


def test_more_without_a_hint_takes_anything() -> None:
    @tool
    def f(**kw: Any) -> Any:
        return kw

    assert "additionalProperties" not in schema(f)
    assert asyncio.run(Runner(Toolbox([f])).run("f", {"q": [1]})).structured == {"q": [1]}
