"""Facts from the outline of a program: bounds of its calls, which are never too small, loops without one, waits.

A branch counts as the largest of its arms, a loop multiplies, and a function counts at each of its calls. A function
that reaches itself has no bound.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeAlias

from ..errors import Place
from ..outline import MOST, Block, Branch, FunctionCall, Item, Loop, Outline, ToolCall, Wait, items_of
from ..values import Json

Calls: TypeAlias = dict[str, int | None]
"""The most calls of each tool; None where there is no bound."""


def calls_of_outline(outline: Outline, calls_of: Callable[[str], Calls]) -> Calls:
    """Return the most calls of each tool that a program makes; `calls_of` says what one call of a tool makes."""
    return _Counter(outline, calls_of).block(outline.body)


def loops_of_outline(outline: Outline) -> Iterator[dict[str, Json]]:
    """Yield the loops without a bound that make calls, with their places."""
    for item in outline.items():
        if isinstance(item, Loop) and item.limit is None and _makes_calls(item):
            yield {"node": item.title, "at": f"code:{item.place}", "limit": None}


def _makes_calls(loop: Loop) -> bool:
    return any(isinstance(item, (ToolCall, FunctionCall)) for item in items_of(loop.body))


def waits_of_outline(outline: Outline, asks: Collection[str], places: Sequence[Place]) -> Iterator[dict[str, Json]]:
    """Yield the waits for a person or an event; every call of the tools in `asks` waits for an approval."""

    # `places`: Those of the lines of a program that was made of a file.
    for item in outline.items():
        line = item.place.line
        node = places[line - 1].spot if places else f"line {line}"
        if isinstance(item, Wait) and item.kind != "sleep":
            yield {"node": node, item.kind: item.words}
        elif isinstance(item, ToolCall) and item.tool in asks:
            yield {"node": node, "approval": before_each_call(item.tool)}


def before_each_call(tool: str) -> str:
    """Return the words of the approval that every call of a tool waits for."""
    return f"before each call of {tool}, with its arguments"


class _Counter:
    """Counts the calls of the functions of a program, and then of its blocks."""

    def __init__(self, outline: Outline, calls_of: Callable[[str], Calls]) -> None:
        self._outline, self._calls_of = outline, calls_of
        self._tools: dict[str, Calls] = {}
        self._functions: dict[str, Calls] = {}
        self._callees = {name: self._called(block) for name, block in outline.functions.items()}
        # Functions before those that call them. The others are on a cycle, or call one that is.
        order = self._in_order()
        for name in order:
            self._functions[name] = self.block(outline.functions[name])
        cyclic = outline.functions.keys() - order.keys()
        self._functions |= {name: dict.fromkeys(tools) for name, tools in self._reached(cyclic).items()}
        self._functions |= {name: self.block(outline.functions[name]) for name in cyclic}

    def block(self, block: Block) -> Calls:
        """Return the most calls of each tool in one run of a block."""
        total: Calls = {}
        for item in block:
            for tool, count in self._item(item).items():
                total[tool] = plus(total.get(tool, 0), count)
        return total

    def _item(self, item: Item) -> Calls:
        match item:
            case ToolCall(tool=tool):
                return self._tool(tool)
            case FunctionCall(function=name):
                return self._functions.get(name, {})
            case Loop(limit=limit, body=body):
                return times(self.block(body), limit)
            case Branch(arms=arms):
                return most(self.block(body) for _, body in arms)
            case Wait():
                return {}
        return self.block(item.body)

    def _tool(self, tool: str) -> Calls:
        if tool not in self._tools:
            self._tools[tool] = self._calls_of(tool)
        return self._tools[tool]

    def _called(self, block: Block) -> set[str]:
        return {item.function for item in items_of(block) if isinstance(item, FunctionCall)} & {
            *self._outline.functions
        }

    def _in_order(self) -> dict[str, None]:
        """Return the functions that reach no cycle, callees first."""
        # Chains of functions may be longer than a recursion can be deep.
        callers: dict[str, list[str]] = {}
        for name, callees in self._callees.items():
            for callee in callees:
                callers.setdefault(callee, []).append(name)
        open_calls = {name: len(callees) for name, callees in self._callees.items()}
        ready = [name for name, count in open_calls.items() if not count]
        for name in ready:
            for caller in callers.get(name, ()):
                open_calls[caller] -= 1
                if not open_calls[caller]:
                    ready.append(caller)
        return dict.fromkeys(ready)

    def _reached(self, cyclic: Iterable[str]) -> dict[str, set[str]]:
        """Return the tools that functions on cycles may call, by other functions too."""
        reached: dict[str, set[str]] = {}
        callers: dict[str, list[str]] = {}
        for name in cyclic:
            reached[name] = set()
            for item in items_of(self._outline.functions[name]):
                reached[name] |= self._item(item).keys() if isinstance(item, (ToolCall, FunctionCall)) else set()
            for callee in self._callees[name]:
                callers.setdefault(callee, []).append(name)
        waiting = list(reached)
        while waiting:
            name = waiting.pop()
            for caller in callers.get(name, ()):
                if not reached[name] <= reached[caller]:
                    reached[caller] |= reached[name]
                    waiting.append(caller)
        return reached


def plus(a: int | None, b: int | None) -> int | None:
    """Return the sum of two bounds."""
    return None if a is None or b is None or a + b > MOST else a + b


def times(calls: Calls, count: int | None) -> Calls:
    """Return the most calls of what makes these at most `count` times."""
    return {tool: _product(calls[tool], count) for tool in calls}


def _product(a: int | None, b: int | None) -> int | None:
    if a == 0 or b == 0:
        return 0
    return None if a is None or b is None or a * b > MOST else a * b


def most(alternatives: Iterable[Calls]) -> Calls:
    """Return the most calls of several alternatives, of which one runs."""
    largest: Calls = {}
    for calls in alternatives:
        for tool, count in calls.items():
            before = largest.get(tool, 0)
            largest[tool] = None if before is None or count is None else max(before, count)
    return largest
