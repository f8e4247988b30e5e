"""Why a tool is not there: refused by its pin, its server not connected, or another one that was meant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ..errors import ToolNotApproved, ToolNotFound
from ..values import closest

_MOST_COMPARED: Final = 2000


def absent(tool_id: str, index: Any) -> ToolNotFound:
    """The error for a tool that an index does not have."""
    failures, refused = getattr(index, "failures", {}), getattr(index, "refused", {})
    if tool_id in refused:
        return ToolNotApproved(tool_id, "resolve", refused[tool_id])
    if tool_id in failures:
        return ToolNotFound(tool_id, "resolve", failures[tool_id])
    failed = failures.get(tool_id.partition(":")[0])
    if failed is not None and ":" in tool_id:
        return ToolNotFound(tool_id, "resolve", f"tool not found, and its server is not connected: {failed}")
    near = _nearest(tool_id, index)
    return ToolNotFound(tool_id, "resolve", "tool not found" + (f"; did you mean {near}?" if near else ""))


def _nearest(tool_id: str, index: Any) -> str | None:
    """A known id that may have been meant: the same name in a namespace, or a similar spelling."""
    listing = getattr(index, "ids", None)
    if listing is None:
        return None
    known: Iterable[str] = listing()
    same = next((one for one in known if one.endswith(f":{tool_id}") or f":{tool_id}:" in one), None)
    return same or closest(tool_id, list(known)[:_MOST_COMPARED])
