"""The facts about a program from its outline, with bounds of its calls that are never too small.

A branch counts as the largest of its arms, a loop multiplies, and a function counts at each of its calls. A function
that reaches itself has no bound.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from typing import TypeAlias

from ...check.facts import Facts, Known, before_each_call, calls_of_tool, facts_from
from ...values import Json
from .outline import Block, Branch, FunctionCall, Item, Loop, Outline, Place, ToolCall, Wait, items_of

Calls: TypeAlias = dict[str, int | None]
"""The most calls of each tool; None where there is no bound."""


def facts_of_outline(outline: Outline, known: Known, asks: Collection[str] = ()) -> Facts:
    """Return the facts of a program; each call of the tools in `asks` waits for an approval."""
    return facts_from(
        Bounds(outline, lambda tool: calls_of_tool(tool, known)).calls,
        known,
        undo_of=lambda tool: known(tool).undo,
        loops=_loops(outline),
        waits=_waits(outline, asks),
    )


class Bounds:
    """The most calls that a program makes; `calls_of` says what one call of a tool makes."""

    def __init__(self, outline: Outline, calls_of: Callable[[str], Calls]) -> None:
        self._outline, self._calls_of = outline, calls_of
        self._functions: dict[str, Calls] = {}
        self._tools: dict[str, Calls] = {}
        self._open: set[str] = set()  # functions that are being counted

    @cached_property
    def calls(self) -> Calls:
        """The bounds of the whole program."""
        return self._block(self._outline.body)

    def _block(self, block: Block) -> Calls:
        total: Calls = {}
        for item in block:
            _add(total, self._item(item))
        return total

    def _item(self, item: Item) -> Calls:
        match item:
            case ToolCall(tool=tool):
                if tool not in self._tools:
                    self._tools[tool] = self._calls_of(tool)
                return self._tools[tool]
            case FunctionCall(function=name):
                return self._function(name)
            case Loop(limit=limit, body=body):
                return {tool: _times(count, limit) for tool, count in self._block(body).items()}
            case Branch(arms=arms):
                return _most(self._block(body) for _, body in arms)
            case Wait():
                return {}
        return self._block(item.body)

    def _function(self, name: str) -> Calls:
        if name not in self._functions:
            if name in self._open:
                return dict.fromkeys(self._reached(name))
            self._open.add(name)
            calls = self._block(self._outline.functions.get(name, ()))
            self._open.discard(name)
            # A function of a cycle may have been read with a part of the cycle open, so it has no bound of its own.
            self._functions[name] = dict.fromkeys(calls) if self._reaches_itself(name) else calls
        return self._functions[name]

    def _reached(self, name: str) -> set[str]:
        """Return the tools that a function may call, by other functions too."""
        return {
            tool
            for function in (name, *self._callees(name))
            for item in items_of(self._outline.functions.get(function, ()))
            if isinstance(item, ToolCall)
            for tool in self._calls_of(item.tool)
        }

    def _reaches_itself(self, name: str) -> bool:
        return name in self._callees(name)

    def _callees(self, name: str) -> set[str]:
        """Return the functions that a function may call, by other functions too."""
        found: set[str] = set()
        stack = [name]
        while stack:
            for item in items_of(self._outline.functions.get(stack.pop(), ())):
                if isinstance(item, FunctionCall) and item.function not in found:
                    found.add(item.function)
                    stack.append(item.function)
        return found


def _blocks(outline: Outline) -> Iterator[Block]:
    yield outline.body
    yield from outline.functions.values()


def _items(outline: Outline) -> list[Item]:
    """Return all items in the order of the text."""
    items = [item for block in _blocks(outline) for item in items_of(block)]
    return sorted(items, key=lambda item: (item.place.line, item.place.column))


def _loops(outline: Outline) -> Iterator[dict[str, Json]]:
    for item in _items(outline):
        makes_calls = isinstance(item, Loop) and any(
            isinstance(i, (ToolCall, FunctionCall)) for i in items_of(item.body)
        )
        if isinstance(item, Loop) and item.limit is None and makes_calls:
            yield {"node": item.title, "at": place_text(item.place), "limit": None}


def _waits(outline: Outline, asks: Collection[str]) -> Iterator[dict[str, Json]]:
    for item in _items(outline):
        if isinstance(item, Wait) and item.kind != "sleep":
            yield {"node": f"line {item.place.line}", item.kind: item.words}
        elif isinstance(item, ToolCall) and item.tool in asks:
            yield {"node": f"line {item.place.line}", "approval": before_each_call(item.tool)}


def place_text(place: Place) -> str:
    """Return a place as people write it, both numbers from 1."""
    return f"{place.line}:{place.column + 1}"


def _add(total: Calls, more: Calls) -> None:
    for tool, count in more.items():
        before = total.get(tool, 0)
        total[tool] = None if before is None or count is None else before + count


def _most(blocks: Iterable[Calls]) -> Calls:
    most: Calls = {}
    for calls in blocks:
        for tool, count in calls.items():
            before = most.get(tool, 0)
            most[tool] = None if before is None or count is None else max(before, count)
    return most


def _times(count: int | None, limit: int | None) -> int | None:
    if count == 0 or limit == 0:
        return 0
    return None if count is None or limit is None else count * limit
