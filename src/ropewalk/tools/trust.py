"""Whose hints about a tool count, and which tools may be called again after a call that took effect.

Hints are annotations such as `readOnlyHint`. Those of a tool that the project itself declares count. An MCP server
describes its own tools, so its hints are claims of a third party: they count when the project sets `trust = "hints"`
for that server. Claims that do not count are dropped where a tool enters the toolbox, so nobody reads them by mistake.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..values import Json
from .tool import Tool

_REASSURING: Final[Mapping[str, bool]] = {
    "readOnlyHint": True,
    "idempotentHint": True,
    "destructiveHint": False,
    "openWorldHint": False,
}
"""The hints that make a tool look safer than MCP assumes without them."""


def counted_annotations(annotations: Mapping[str, Json] | None, *, trusted: bool) -> dict[str, Json]:
    """Return the annotations that count.

    Args:
        annotations: What a server says of its tool.
        trusted: Whether the project trusts the hints of this server.

    Returns:
        All of them for a trusted server. Else those that do not make the tool look safer: "it destroys things" counts.
    """
    given = dict(annotations or {})
    if trusted:
        return given
    warnings = {name: not reassuring for name, reassuring in _REASSURING.items()}
    return {name: value for name, value in given.items() if name not in warnings or value is warnings[name]}


def is_repeatable(tool: Tool | None) -> bool:
    """Return True if annotations that count say that calling the tool again changes nothing more."""
    if tool is None or not tool.annotations:
        return False
    return tool.annotations.get("readOnlyHint") is True or tool.annotations.get("idempotentHint") is True
