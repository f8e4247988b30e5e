"""Draw the outline of a program: a tree of lines for terminals, and a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...draw.diagram import escape_label, visible
from .outline import Block, Branch, FunctionCall, Group, Item, Loop, Outline, ToolCall, Wait

_MAX_NODES = 500
_WAIT_WORDS = {"approval": "wait for approval", "event": "wait for event", "sleep": "sleep"}


def outline_text(outline: Outline) -> str:
    """Return the outline as a tree of lines; the body of a function is at its first call."""
    return "".join(f"{'  ' * depth}{visible(line)}\n" for depth, line in _lines(outline.body, outline, 0, set()))


def title_of(item: Item) -> str:
    """Return what an item does, without its place."""
    match item:
        case ToolCall(tool=tool):
            return tool
        case FunctionCall(function=function):
            return f"{function}()"
        case Wait(kind=kind, words=words):
            return f"{_WAIT_WORDS[kind]}: {words}" if words else _WAIT_WORDS[kind]
        case Loop(title=title, limit=limit):
            return f"{title}: {'no fixed limit' if limit is None else f'at most {limit:,} times'}"
    return item.title


def _lines(block: Block, outline: Outline, depth: int, drawn: set[str]) -> Iterator[tuple[int, str]]:
    for item in block:
        yield depth, f"{title_of(item)}  # line {item.place.line}"
        if isinstance(item, Branch):
            for title, body in item.arms:
                if body:
                    yield depth + 1, title
                    yield from _lines(body, outline, depth + 2, drawn)
        elif isinstance(item, (Loop, Group)):
            yield from _lines(item.body, outline, depth + 1, drawn)
        elif isinstance(item, FunctionCall) and item.function not in drawn:
            drawn.add(item.function)
            yield from _lines(outline.functions.get(item.function, ()), outline, depth + 1, drawn)


def outline_mermaid(outline: Outline, *, limit: int = _MAX_NODES) -> str:
    """Return the outline as a Mermaid flowchart of at most `limit` nodes; functions are subgraphs of their own."""
    chart = _Chart(limit)
    chart.block(outline.body)
    for name, block in outline.functions.items():
        chart.subgraph(f"{name}()", block)
    return "\n".join(("flowchart TD", *chart.rows)) + "\n"


class _Chart:
    """The rows of a flowchart."""

    def __init__(self, limit: int) -> None:
        self.rows: list[str] = []
        self._left, self._count = limit, 0

    def block(self, block: Block, indent: str = "  ") -> None:
        """Draw the items of a block one after another."""
        last: str | None = None
        for item in block:
            if self._left <= 0:
                self.rows.append(f'{indent}more{self._count}["…"]')
                return
            name = self._item(item, indent)
            if last is not None:
                self.rows.append(f"{indent}{last} --> {name}")
            last = name

    def subgraph(self, title: str, block: Block, indent: str = "  ") -> str:
        """Draw a block in a frame and return its name."""
        name = self._name()
        self.rows.append(f'{indent}subgraph {name}["{escape_label(title)}"]')
        self.block(block, indent + "  ")
        self.rows.append(f"{indent}end")
        return name

    def _item(self, item: Item, indent: str) -> str:
        if isinstance(item, (Loop, Group)):
            return self.subgraph(title_of(item), item.body, indent)
        if isinstance(item, Branch):
            return self._branch(item.title, item.arms, indent)
        name = self._name()
        left, right = ("([", "])") if isinstance(item, Wait) else ("[", "]")
        self.rows.append(f'{indent}{name}{left}"{escape_label(title_of(item))}"{right}')
        return name

    def _branch(self, title: str, arms: Iterable[tuple[str, Block]], indent: str) -> str:
        name = self._name()
        self.rows.append(f'{indent}subgraph {name}["{escape_label(title)}"]')
        for arm, body in arms:
            if body:
                self.subgraph(arm, body, indent + "  ")
        self.rows.append(f"{indent}end")
        return name

    def _name(self) -> str:
        self._count += 1
        self._left -= 1
        return f"n{self._count}"
