"""Summaries of tools and pages of them, for clients that list many tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from ..fast_dataclass import dataclass
from ..values import Json
from .tool import Tool

MAX_DESCRIPTION: Final = 120
"""Longest description in a summary, in characters."""
Searcher: TypeAlias = Callable[[str, Sequence[Tool]], Iterable[Tool | str]]
"""Returns the tools (or their ids) that match a query, best first, out of all tools."""


@dataclass(frozen=True, slots=True)
class ToolSummary:
    """A tool without its schemas; `namespace` is empty for a tool without one."""

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
    """One page of summaries; `next_cursor` is None on the last page."""

    summaries: tuple[ToolSummary, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class NamespacePage:
    """One page of namespaces, sorted; "" stands for tools without one."""

    # `next_cursor` is None on the last page.

    namespaces: tuple[str, ...]
    next_cursor: str | None = None


def summary_of(tool: Tool) -> ToolSummary:
    """Return the summary of a tool: its id, the first line of its description and its tags."""
    text = next((line.strip() for line in tool.description.splitlines() if line.strip()), "")
    short = text if len(text) <= MAX_DESCRIPTION else text[: MAX_DESCRIPTION - 1].rstrip() + "…"
    return ToolSummary(tool.id, tool.name, tool.namespace or "", short, tuple(tool.tags))
