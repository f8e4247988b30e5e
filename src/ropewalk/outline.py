"""The outline of a program: its calls, branches, loops and waits, in the order of the text, as data.

Everything that can make a call has an item. Bounds of calls and drawings are made from the outline, and the steps of a
run belong to its items by line and column. It is made when a document is read (`plans/check/outline.py`). For the
program of a model that is in a child, whose outline is judged by its form only: see `from_json`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from .fast_dataclass import dataclass
from .values import Json

WaitKind: TypeAlias = Literal["approval", "event", "sleep"]
MOST: Final = 2**53
"""The largest bound that is given; a larger one says no more than none, and not every reader of JSON can hold it."""
_DEEPEST: Final = 128  # more than any program that can be read


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the text: line and column, both from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool, by the tool's id."""

    tool: str
    place: Place


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call of a function of the program; methods are named `Class.method`."""

    function: str
    place: Place


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait for an approval, an event, or the end of a sleep."""

    kind: WaitKind
    words: str
    place: Place


@dataclass(frozen=True, slots=True)
class Loop:
    """Items that repeat at most `limit` times, or without a known limit (None)."""

    title: str
    limit: int | None
    body: Block
    place: Place


@dataclass(frozen=True, slots=True)
class Branch:
    """Bodies of which at most one runs, each with its title."""

    title: str
    arms: tuple[tuple[str, Block], ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Group:
    """Items under a title that run once; `at_once` if they overlap."""

    title: str
    body: Block
    place: Place
    at_once: bool = False


Item: TypeAlias = ToolCall | FunctionCall | Wait | Loop | Branch | Group
Block: TypeAlias = tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Outline:
    """The outline of a program: its own items, and those of its functions by name."""

    body: Block
    functions: Mapping[str, Block]

    def items(self) -> list[Item]:
        """Return all items in the order of the text."""
        items = [item for block in (self.body, *self.functions.values()) for item in items_of(block)]
        return sorted(items, key=lambda item: (item.place.line, item.place.column))


NO_OUTLINE: Final = Outline((), {})


def parts_of(item: Item) -> Iterator[Block]:
    """Yield the blocks inside an item."""
    if isinstance(item, (Loop, Group)):
        yield item.body
    elif isinstance(item, Branch):
        yield from (body for _, body in item.arms)


def items_of(block: Block) -> Iterator[Item]:
    """Yield the items of a block and all items inside them, in no order."""
    stack = list(block)
    while stack:
        item = stack.pop()
        yield item
        for part in parts_of(item):
            stack += part


# --- as JSON -----------------------------------------------------------------------------------


def to_json(outline: Outline) -> Json:
    """Return an outline as JSON: each item is an array of its kind, its place and its fields."""
    return [_block_to_json(outline.body), {name: _block_to_json(block) for name, block in outline.functions.items()}]


def _block_to_json(block: Block) -> list[Json]:
    return [_item_to_json(item) for item in block]


def _item_to_json(item: Item) -> Json:
    at = (item.place.line, item.place.column)
    match item:
        case ToolCall():
            return ["call", *at, item.tool]
        case FunctionCall():
            return ["function", *at, item.function]
        case Wait():
            return ["wait", *at, item.kind, item.words]
        case Loop():
            return ["loop", *at, item.title, item.limit, _block_to_json(item.body)]
        case Branch():
            return ["branch", *at, item.title, [[title, _block_to_json(body)] for title, body in item.arms]]
    return ["group", *at, item.title, item.at_once, _block_to_json(item.body)]


def from_json(value: Any) -> Outline:
    """Return the outline of a JSON value; raise ValueError unless its form is that of `to_json`."""
    match value:
        case [list(body), dict(functions)]:
            blocks = {str(name): _block_from_json(block, 0) for name, block in functions.items()}
            return Outline(_block_from_json(body, 0), blocks)
    raise ValueError("not an outline")


def _block_from_json(value: Any, depth: int) -> Block:
    if not isinstance(value, list) or depth > _DEEPEST:
        raise ValueError("not a block of an outline")
    return tuple(_item_from_json(item, depth + 1) for item in value)


def _item_from_json(value: Any, depth: int) -> Item:
    match value:
        case ["call", int(line), int(column), str(tool)]:
            return ToolCall(tool, Place(line, column))
        case ["function", int(line), int(column), str(function)]:
            return FunctionCall(function, Place(line, column))
        case ["wait", int(line), int(column), ("approval" | "event" | "sleep") as kind, str(words)]:
            return Wait(kind, words, Place(line, column))
        case ["loop", int(line), int(column), str(title), int(limit), body] if limit >= 0:
            return Loop(title, limit, _block_from_json(body, depth), Place(line, column))
        case ["loop", int(line), int(column), str(title), None, body]:
            return Loop(title, None, _block_from_json(body, depth), Place(line, column))
        case ["branch", int(line), int(column), str(title), list(arms)]:
            return Branch(title, tuple(_arm_from_json(arm, depth) for arm in arms), Place(line, column))
        case ["group", int(line), int(column), str(title), bool(at_once), body]:
            return Group(title, _block_from_json(body, depth), Place(line, column), at_once)
    raise ValueError("not an item of an outline")


def _arm_from_json(value: Any, depth: int) -> tuple[str, Block]:
    match value:
        case [str(title), body]:
            return title, _block_from_json(body, depth)
    raise ValueError("not an arm of a branch")
