"""Short forms of tools, for lists that people and models read, and who finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from ..frozen import dataclass
from ..values import Json
from .tool import Tool

MAX_DESCRIPTION: Final = 120
"""Longest description in a summary, in characters."""
Searcher: TypeAlias = Callable[[str, Sequence[Tool]], Iterable[Tool | str]]
"""Gives the tools (or their ids) that fit a query, best first, out of all that there are."""


@dataclass(frozen=True, slots=True)
class ToolSummary:
    """A tool without its schemas; `namespace` is empty for a tool that has none."""

    id: str
    name: str
    namespace: str = ""
    short_description: str = ""
    tags: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Json]:
        """Return the summary as JSON: `{id, name, namespace, shortDescription, tags}`."""
        return {
            "id": self.id,
            "name": self.name,
            "namespace": self.namespace,
            "shortDescription": self.short_description,
            "tags": list(self.tags),
        }


@dataclass(frozen=True, slots=True)
class SummaryPage:
    """One page of summaries; `next_cursor` is None on the last."""

    summaries: tuple[ToolSummary, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class NamespacePage:
    """One page of namespaces, sorted; the empty one stands for tools without. `next_cursor` is None on the last."""

    namespaces: tuple[str, ...]
    next_cursor: str | None = None


def summary_of(tool: Tool) -> ToolSummary:
    """Shorten a tool to its first line and its tags."""
    text = next((line.strip() for line in tool.description.splitlines() if line.strip()), "")
    short = text if len(text) <= MAX_DESCRIPTION else text[: MAX_DESCRIPTION - 1].rstrip() + "…"
    return ToolSummary(tool.id, tool.name, tool.namespace or "", short, tuple(tool.tags))
