"""Which tools a definition that a client sends may call: those that a search for tools offers.

The tools that Ropewalk itself is made of (`ropewalk:store_plan`, `ropewalk:model`) are left to the notations that use
them. The check reads the calls of the compiled flow, however the document is written. It searches the document as well:
the loop of an agent calls `ropewalk:model`, but its list of tools may not name this tool.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..notations.registry import NOTATIONS
from ..ops import Call, calls_of
from ..tools.reserved import LOCAL, OWN
from .flow_references import DATA

if TYPE_CHECKING:
    from .prepared import Prepared


def internal_tool(loaded: Prepared) -> str | None:
    """Return the first tool of a definition that a client may not call; None if there is none."""
    calls: list[Call] = [node.op for node in calls_of(loaded.flow.body)]
    called = {op.tool for op in calls} | {op.undo.tool for op in calls if op.undo is not None}
    for id in [*_named_in(loaded.document), *sorted(called - NOTATIONS[loaded.kind].hooks.own_tools(loaded.document))]:
        if id.startswith(f"{OWN}:") or (id.startswith(LOCAL) and not loaded.compiled.local):
            return id
    return None


def _named_in(document: Any) -> Iterator[str]:
    """Yield the tools that the nodes, steps, undos and lists of tools of a document name."""
    rest = [document]
    while rest:
        part = rest.pop()
        if isinstance(part, dict):
            yield from (name for key in ("tool", "undo") if isinstance(name := part.get(key), str))
            yield from _listed(part.get("tools"))
            rest += [inside for key, inside in part.items() if key not in DATA]
        elif isinstance(part, list):
            rest += part


def _listed(tools: Any) -> Iterator[str]:
    """Yield the tools of a list of ids, or of a plan's object of `{id}` by name."""
    if isinstance(tools, list):
        yield from (id for id in tools if isinstance(id, str))
    elif isinstance(tools, dict):
        entries = tools.values()
        yield from (id for entry in entries if isinstance(entry, dict) and isinstance(id := entry.get("id"), str))
