"""Definitions: ids, tags, and Tools made from functions."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
import functools
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict

import pytest

from ropewalk.errors import InvalidTool, InvalidToolId
from ropewalk.tools.tool import Tool, ToolBackend, normalise_tags, parse_tool_id, tool, tool_from, tool_of


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0


@dataclasses.dataclass
class Tree:
    name: str
    kids: list[Tree] = dataclasses.field(default_factory=list)


class Row(TypedDict):
    id: int
    note: NotRequired[str]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("name", (None, "name", None)),
        ("ns:name", ("ns", "name", None)),
        ("ns:name:1.0", ("ns", "name", "1.0")),
        ("a_b-c.D9", (None, "a_b-c.D9", None)),
        ("x" * 128, (None, "x" * 128, None)),
    ],
)
def test_id_is_parsed_and_printed_back(text: str, parts: tuple[str | None, ...]) -> None:
    found = parse_tool_id(text)
    assert tuple(found) == parts
    assert str(found) == text


@pytest.mark.parametrize(
    "text", ["", ":", "a:", ":a", "a::b", "a:b:c:d", "a b", "a/b", "é", "a\n", "x" * 129, " a", "a:b:", None, 7]
)
def test_anything_else_is_no_id(text: Any) -> None:
    with pytest.raises(InvalidToolId) as caught:
        parse_tool_id(text)
    assert caught.value.op == "validate_tool_id"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([" Web Search ", "web-search"], ("web-search",)),
        (["A\t B"], ("a-b",)),
        (["c++", "ü", ""], ("c",)),
        (["x" * 70], ("x" * 64,)),
        ([f"t{i}" for i in range(30)], tuple(f"t{i}" for i in range(20))),
    ],
)
def test_tags_are_normalised(given: list[str], kept: tuple[str, ...]) -> None:
    assert normalise_tags(given) == kept
    assert Tool("t", "", {}, tags=given).tags == kept


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "a b"},
        {"name": 3},
        {"namespace": "a:b"},
        {"version": ""},
        {"description": None},
        {"input_schema": None},
        {"input_schema": []},
        {"input_schema": {"type": "string"}},
        {"input_schema": {"const": {1, 2}}},
        {"output_schema": "text"},
        {"annotations": {"timeout": 0}},
        {"annotations": {"timeout": "soon"}},
        {"tags": [1]},
        {"tags": None},
        {"tags": 5},
        {"backend": "local"},
    ],
)
def test_definition_that_is_wrong_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidTool):
        Tool(**{"name": "t", "description": "", "input_schema": {"type": "object"}, **fields})


def test_definition_is_a_copy() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {}}}
    made = Tool("t", "d", schema)
    schema["properties"]["b"] = {}
    assert made.input_schema == {"type": "object", "properties": {"a": {}}}


def test_definitions_are_equal_by_what_they_say_not_by_their_handler() -> None:
    one = Tool("t", "d", {"type": "object"}, handler=print)
    assert one == Tool("t", "d", {"type": "object"})
    assert one != Tool("t", "other", {"type": "object"})
    assert hash(one) == hash(Tool("t", "d", {"type": "object"}))


def test_id_display_name_and_side_effects() -> None:
    assert Tool("t", "", {}, namespace="n", version="1").id == "n:t:1"
    assert Tool("t", "", {}, version="1").id == "t"
    titled = Tool("t", "", {}, annotations={"title": "A title", "readOnlyHint": True, "timeout": 2})
    assert (titled.display_name, titled.has_side_effects, titled.timeout) == ("A title", False, 2)
    assert (Tool("t", "", {}).display_name, Tool("t", "", {}).has_side_effects) == ("t", True)


@pytest.mark.parametrize(
    ("fields", "right"),
    [
        ({"kind": "local"}, False),
        ({"kind": "local", "name": "h"}, True),
        ({"kind": "provider", "provider_id": "p"}, False),
        ({"kind": "provider", "provider_id": "p", "tool_id": "t"}, True),
        ({"kind": "mcp"}, False),
        ({"kind": "mcp", "server_name": "s"}, True),
        ({"kind": "locl", "name": "h"}, False),
    ],
)
def test_backend_says_what_its_kind_needs(fields: dict[str, Any], right: bool) -> None:
    if right:
        ToolBackend(**fields)
    else:
        with pytest.raises(InvalidTool):
            ToolBackend(**fields)


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (object, {}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict, {"type": "object"}),
        (dict[str, Any], {"type": "object"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Optional[str], {"type": ["string", "null"]}),  # noqa: UP045
        (int | str, {"type": ["integer", "string"]}),
        (list[int] | None, {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]}),
        (Literal["a", 1], {"enum": ["a", 1]}),
        (Colour, {"enum": ["red", "green"]}),
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
        (
            Row,
            {
                "type": "object",
                "properties": {"id": {"type": "integer"}, "note": {"type": "string"}},
                "required": ["id"],
                "additionalProperties": False,
            },
        ),
        (
            Point,
            {
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "number"}},
                "required": ["x"],
                "additionalProperties": False,
            },
        ),
        (datetime.date, {"type": "string", "format": "date"}),  # by pydantic
    ],
)
def test_hint_is_read_as_a_schema(hint: Any, schema: dict[str, Any]) -> None:
    def takes(value: Any) -> Any:
        return value

    takes.__annotations__ = {"value": hint, "return": hint}
    made = tool_from(takes)
    assert made.input_schema["properties"]["value"] == schema
    assert made.output_schema == schema


def test_recursive_type_is_read_with_definitions() -> None:
    def grow(tree: Tree) -> Tree:
        return Tree("root", [tree])

    made = tool_from(grow)
    assert made.input_schema["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
    assert "Tree" in made.input_schema["$defs"]
    assert made.handler is not None
    assert made.handler(tree={"name": "a", "kids": [{"name": "b"}]}) == {
        "name": "root",
        "kids": [{"name": "a", "kids": [{"name": "b", "kids": []}]}],
    }


@pytest.mark.parametrize("style", ["google", "numpy", "sphinx"])
def test_docstring_gives_description_and_parameter_texts(style: str) -> None:
    find_it = "Find it.\n\nSlowly.\n\n"
    texts = {
        "google": f"""{find_it}Args:\n    q: what to find,\n        in words\n    n (int): how many

Returns:\n    it""",
        "numpy": f"""{find_it}Parameters\n----------\nq : str\n    what to find,\n    in words
n\n    how many\n\nReturns\n-------\nlist\n    it""",
        "sphinx": f"""{find_it}:param q: what to find,\n    in words\n:param int n: how many\n:returns: it""",
    }

    def find(q: str, n: int = 3) -> list[str]:
        return [q] * n

    find.__doc__ = texts[style]
    made = tool_from(find)
    assert made.description == "Find it.\n\nSlowly."
    assert made.input_schema["properties"] == {
        "q": {"type": "string", "description": "what to find, in words"},
        "n": {"type": "integer", "description": "how many", "default": 3},
    }
    assert made.input_schema["required"] == ["q"]
    assert made.input_schema["additionalProperties"] is False


def test_decorated_function_stays_what_it_was() -> None:
    @tool(name="plus", namespace="math", version="2", tags=["Sum Up"], timeout=5, description="Add.")
    def add(a: int, b: int = 1) -> int:
        return a + b

    made = tool_of(add)
    assert made is not None
    assert add(2, 3) == 5
    assert (made.id, made.tags, made.timeout, made.description) == ("math:plus:2", ("sum-up",), 5, "Add.")
    assert tool_from(add) is made
    assert tool_of(print) is None


def test_arguments_arrive_as_the_types_of_the_hints_and_results_leave_as_json() -> None:
    seen: list[Any] = []

    @tool
    async def paint(
        colour: Colour, at: list[Point], either: Point | Colour | None = None, on: datetime.date | None = None
    ) -> Point:
        seen.extend((colour, at, either, on))
        return at[0]

    made = tool_of(paint)
    assert made is not None
    assert made.handler is not None
    result = asyncio.run(made.handler(colour="red", at=[{"x": 1}], either="green", on="2026-01-02"))
    assert result == {"x": 1, "y": 0.0}
    assert seen == [Colour.RED, [Point(1)], Colour.GREEN, datetime.date(2026, 1, 2)]


def test_results_are_written_as_json_at_any_depth() -> None:
    def chart() -> dict[str, list[Colour | Point]]:
        return {"a": [Colour.RED, Point(1)]}

    made = tool_from(chart)
    assert made.handler is not None
    assert made.handler() == {"a": ["red", {"x": 1, "y": 0.0}]}


def test_function_with_plain_hints_is_its_own_handler() -> None:
    def plain(a: int, b: list[str] | None = None) -> dict[str, int]:
        return {}

    assert tool_from(plain).handler is plain


def test_partials_methods_and_callable_objects_are_tools() -> None:
    class Box:
        def __init__(self) -> None:
            self.name = "box"

        def read(self, key: str) -> str:
            return self.name + key

        async def __call__(self, key: str) -> str:
            return key

    def join(a: str, b: str) -> str:
        return a + b

    assert tool_from(Box().read).name == "read"
    assert tool_from(Box()).name == "Box"
    assert tool_from(functools.partial(join, b="!")).input_schema["required"] == ["a"]


def positional(a: int, /) -> int:
    return a


def starred(*a: int) -> int:
    return 0


def unreadable(a: NotThere) -> int:  # type: ignore[name-defined]  # noqa: F821
    return 0


def int_keys(a: dict[int, str]) -> int:
    return 0


def open_hint(a: AsyncIterator[int]) -> int:
    return 0


@pytest.mark.parametrize("function", [positional, starred, unreadable, int_keys, lambda a: a, 3])
def test_function_that_cannot_be_a_tool_is_refused(function: Any) -> None:
    with pytest.raises(InvalidTool):
        tool_from(function)
