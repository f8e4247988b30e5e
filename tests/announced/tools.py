"""The tools of a stranger's project: what they give depends on their argument alone, and has every shape."""

from __future__ import annotations

import json
from typing import Any, NotRequired, TypedDict

from ropewalk import tool


class Hit(TypedDict):
    title: str
    score: int


class Sparse(TypedDict):
    name: str
    note: NotRequired[str | None]
    tags: NotRequired[list[str]]


def turn(v: Any, of: int) -> int:
    """A number below `of` that an argument always has."""
    return len(json.dumps(v)) % of


@tool
def number(v: Any = None) -> int:
    """A number."""
    return turn(v, 5)


@tool
async def half(v: Any = None) -> float:
    """Half of a number."""
    return turn(v, 5) / 2


@tool
def text(v: Any = None) -> str:
    """A text, which may be empty."""
    return "abc"[: turn(v, 4)]


@tool
def maybe(v: Any = None) -> str | None:
    """A text, or nothing."""
    return None if turn(v, 2) else "here"


@tool
async def either(v: Any = None) -> int | str | list[int]:
    """A number, a text or a list."""
    return [7, "seven", [7], []][turn(v, 4)]  # type: ignore[return-value]


@tool
def hits(v: Any = None) -> list[Hit]:
    """A list of objects, which may be empty."""
    return [{"title": f"t{i}", "score": i} for i in range(turn(v, 3))]


@tool
async def hit(v: Any = None) -> Hit:
    """An object."""
    return {"title": "t", "score": turn(v, 9)}


@tool
def sparse(v: Any = None) -> Sparse:
    """An object whose members may be missing or null."""
    made: list[Sparse] = [{"name": "a"}, {"name": "b", "note": None}, {"name": "c", "note": "n", "tags": []}]
    return made[turn(v, 3)]


@tool
def table(v: Any = None) -> dict[str, int]:
    """An object with any keys."""
    return {"abcd"[i]: i for i in range(turn(v, 4))}


@tool
def rows(v: Any = None) -> list[list[int] | None]:
    """Lists in a list, or null in their place."""
    made: list[list[list[int] | None]] = [[], [None], [[1], None, []]]
    return made[turn(v, 3)]


@tool(output_schema={"type": "object", "properties": {"id": {"type": "integer"}, "more": {"$ref": "#"}}})
def tree(v: Any = None) -> Any:
    """An object that may hold one of its own kind; its schema is written by hand and requires nothing."""
    return [{}, {"id": 1}, {"id": 1, "more": {"id": 2, "other": "x"}}][turn(v, 3)]


@tool(output_schema={"oneOf": [{"type": "null"}, {"type": "object", "properties": {"ok": {"enum": [True, "yes"]}}}]})
def answer(v: Any = None) -> Any:
    """An answer, or null; its schema is written by hand."""
    return [None, {"ok": True}, {"ok": "yes"}, {}][turn(v, 4)]


OPEN = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
OTHER = {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}


@tool(output_schema={"anyOf": [OPEN, OTHER]})
def parcel(v: Any = None) -> Any:
    """One of two objects, with members of its own next to the declared ones; its schema is written by hand."""
    return [{"a": 1}, {"b": 2}, {"b": 2, "a": "not declared here"}, {"a": 1, "output": {"a": "x"}}][turn(v, 4)]


@tool(
    output_schema={
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"pair": {"type": "array", "items": [{"type": "integer"}, {"type": "string"}]}},
        "type": "object",
        "properties": {"pair": {"$ref": "#/definitions/pair"}},
        "patternProperties": {"^x": {"type": "boolean"}},
        "additionalProperties": {"type": "number"},
    }
)
def old(v: Any = None) -> Any:
    """An object with a schema of an older draft."""
    return [{}, {"pair": [1, "a"]}, {"pair": [1, "a", None], "x1": True, "y": 0.5}][turn(v, 3)]


@tool
def untyped(v=None):  # type: ignore[no-untyped-def]
    """What it gets: a tool without an output schema."""
    return v


@tool
def nothing(v: Any = None) -> None:
    """Nothing."""


@tool
async def fails(v: Any = None) -> int:
    """Fails always."""
    raise RuntimeError("no luck")


@tool
def shaky(v: Any = None) -> Hit:
    """Fails for some arguments."""
    if turn(v, 2):
        raise ValueError("shaky")
    return {"title": "s", "score": 1}
