"""Tool selection of a conversation: the tools that fit its request, and a search that the model words itself.

The selector ranks tools by the words of a request. Where no score says that a tool fits, the conversation has all tools
in question, of which the model sees the selected ones and `find_more_tools`. It sees the tools that this has found from
its next turn on. The model decides whether it searches: no request asks it for better words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from ..fast_dataclass import dataclass
from ..notations.agent import FIND_MORE
from ..select.options import THRESHOLD
from ..select.search import HOW_TO_ASK, QUERIES, USUAL_LIMIT, Results, Search, read_search
from ..tools.tool import Tool, parse_tool_id
from ..values import Json

_DESCRIPTION: Final = (
    "Finds more tools, which you can call from your next turn on. Those that you have may not fit the task: search "
    f"before you use one that does not fit, and before you give up. {HOW_TO_ASK}"
)


@dataclass(frozen=True, slots=True)
class OfferedTools:
    """The tools of a conversation, and those of them that the model sees at first; None for all."""

    ids: list[str]
    offered: list[str] | None = None

    @property
    def first(self) -> list[str]:
        """The tools that the model sees at first."""
        return self.ids if self.offered is None else self.offered


def widen(selected: Iterable[str], scores: Iterable[float], among: Sequence[str]) -> OfferedTools:
    """Return selected tools alone, or with all those that they were selected from if no score is high enough."""
    offered = list(selected)
    others = [id for id in among if id not in set(offered)]
    if not others or any(score >= THRESHOLD for score in scores):
        return OfferedTools(offered)
    return OfferedTools([*offered, *others], offered)


def search_tool(search: Callable[[Search, Collection[str]], Results]) -> Tool:
    """Create the tool `ropewalk:find_more_tools`."""

    # `among` comes from the loop of the agent: the tools that its model may see.
    async def find(queries: list[str], among: list[str]) -> dict[str, Json]:
        results = await asyncio.to_thread(search, read_search(None, queries, USUAL_LIMIT), among)
        note = {"note": results.remarks["note"]} if results.weak else {}
        return {"found": {query: list[Json](ids) for query, ids in results.by_query.items()}, **note}

    id = parse_tool_id(FIND_MORE)
    schema: dict[str, Json] = {"type": "object", "properties": {"queries": QUERIES}, "required": ["queries"]}
    return Tool(id.name, _DESCRIPTION, schema, namespace=id.namespace, annotations={"readOnlyHint": True}, handler=find)


def visible_tools(offered: Sequence[str], trace: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the tools that a model sees: those offered at first, then those that its searches have found."""
    visible = dict.fromkeys(offered)
    for use in trace:
        value = (use.get("outcome") or {}).get("value") if use.get("tool") == FIND_MORE else None
        for ids in value.get("found", {}).values() if isinstance(value, Mapping) else ():
            visible |= dict.fromkeys(ids)
    return list(visible)
