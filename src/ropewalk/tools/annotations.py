"""The annotations of tools that count, and what they say about repeating a call."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final, Literal

from ..values import Json
from .tool import Tool

_SAFE_HINTS: Final[Mapping[str, bool]] = {
    "readOnlyHint": True,
    "idempotentHint": True,
    "destructiveHint": False,
    "openWorldHint": False,
}
"""Hint values that make a tool look safer than MCP assumes by default."""


def counted_annotations(annotations: Mapping[str, Json] | None, *, trusted: bool) -> dict[str, Json]:
    """Return the annotations of a tool that count."""
    counted = dict(annotations or {})
    if trusted:
        return counted
    for name, safe in _SAFE_HINTS.items():
        # Only the exact warning counts: other values, such as "false", could be read as the safe one.
        if name in counted and counted[name] is not (not safe):
            del counted[name]
    return counted


def is_repeatable(tool: Tool | None) -> bool:
    """Return True if the annotations say that a repeated call has no further effect."""
    if tool is None or not tool.annotations:
        return False
    return tool.annotations.get("readOnlyHint") is True or tool.annotations.get("idempotentHint") is True


def effect_of(
    tool: Tool | None, configured: Mapping[str, str] | None = None, *, id: str = ""
) -> Literal["read", "write", "destructive"]:
    """Return what a call of a tool does."""
    name = tool.id if tool is not None else id
    for pattern, effect in (configured or {}).items():
        if name == pattern or fnmatchcase(name, pattern):
            return "destructive" if effect == "destructive" else "read" if effect == "read" else "write"
    if name.startswith("ropewalk:"):  # records and the model change nothing; programs of a model may
        return "write" if name.endswith(("_plan", "_run")) and name != "ropewalk:check_plan" else "read"
    hints = (tool.annotations if tool is not None else None) or {}
    if hints.get("readOnlyHint") is True:
        return "read"
    return "destructive" if hints.get("destructiveHint") is True else "write"
