"""The outline of a program as drawings show it: an item is named by its place in the text, as steps of a run are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from os.path import basename

from ..errors import Place
from ..outline import Block, Branch, FunctionCall, Group, Item, Loop, Outline, ToolCall, Wait
from .view import Facts, View

AT_ONCE = "at the same time"
_DEEPEST = 60


def view_of_outline(outline: Outline, places: Sequence[Place] = ()) -> View:
    """Return what drawings show of a program; the body of a function is at its first call."""

    # `places`: Those of the lines of a program that was made of a file.
    return _Reader(outline, places).block(outline.body, 0)


class _Reader:
    """Reads the items of one program."""

    def __init__(self, outline: Outline, places: Sequence[Place]) -> None:
        self._outline, self._places = outline, places
        self._drawn: set[str] = set()  # functions
        self._ids: dict[int, str] = {}
        used = Counter[str]()
        # Steps of a run belong to calls and waits, so these have their places to themselves.
        for item in sorted(outline.items(), key=lambda item: not isinstance(item, (ToolCall, Wait))):
            place = str(item.place)
            used[place] += 1
            self._ids[id(item)] = place if used[place] == 1 else f"{place}-{used[place]}"

    def block(self, block: Block, depth: int, *, at_once: bool = False) -> View:
        """Return a block, whose items follow one another unless they are `at_once`."""
        nodes = tuple(self._item(item, depth) for item in block)
        return View(nodes, () if at_once else tuple(pairwise(range(len(nodes)))), ordered=True)

    def _item(self, item: Item, depth: int) -> Facts:
        kind, name, details = _words(item)
        if self._places:
            place = self._places[item.place.line - 1]
            details = (*details, f"{basename(place.file)}:{place.line}")
        bodies = self._bodies(item, depth + 1) if depth < _DEEPEST else ()
        # The label of an only region is not drawn.
        arms = [title for title, _ in bodies] if isinstance(item, Branch) else []
        conditions = tuple(arms) if len(arms) == 1 and arms != ["if"] else ()
        return Facts(self._ids[id(item)], kind, name, conditions, details, bodies, is_item=True)

    def _bodies(self, item: Item, depth: int) -> tuple[tuple[str, View], ...]:
        if isinstance(item, Branch):
            return tuple((title, self.block(body, depth)) for title, body in item.arms if body)
        if isinstance(item, Group):
            return (("", self.block(item.body, depth, at_once=item.at_once)),)
        if isinstance(item, Loop):
            return (("", self.block(item.body, depth)),)
        if isinstance(item, FunctionCall) and item.function not in self._drawn:
            self._drawn.add(item.function)
            return (("", self.block(self._outline.functions.get(item.function, ()), depth)),)
        return ()


def _words(item: Item) -> tuple[str, str, tuple[str, ...]]:
    """Return the kind of an item, its name, and its details."""
    match item:
        case ToolCall(tool=tool):
            return "Call", tool, ()
        case FunctionCall(function=function):
            return "Function", f"{function}()", ()
        case Wait(kind="sleep", words=words):
            return "Sleep", words, ()
        case Wait(kind=kind, words=words):
            return "Wait", f"for {kind}: {words}" if words else f"for {kind}", ()
        case Loop(title=title, limit=limit):
            return "Loop", title, ("no fixed limit" if limit is None else f"at most {limit:,} times",)
        case Branch(title=title):
            return "Branch", title, ()
    is_named = item.at_once and item.title != AT_ONCE
    return "Block", item.title, (AT_ONCE,) if is_named else ()
