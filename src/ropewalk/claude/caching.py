"""What of a request the API is to keep, so that the next round pays for its own part only.

Two marks of the four that a request may have: what is the same in every round (tools, then system prompt), and, set by
the API itself, the last block. Messages with marks of their own are sent as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MARK: Final = {"type": "ephemeral"}


def marked(body: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with marks; without tools, a first question is asked once and would only cost more."""
    messages = body["messages"]
    marks = [*messages, *(body.get("tools") or ())]
    if (not body.get("tools") and len(messages) < 2) or any(map(_has_mark, marks)):
        return dict(body)
    found = {**body, "cache_control": MARK}
    if body.get("system"):
        found["system"] = [{"type": "text", "text": body["system"], "cache_control": MARK}]
    elif body.get("tools"):
        *others, last = body["tools"]
        found["tools"] = [*others, {**last, "cache_control": MARK}]
    return found


def _has_mark(value: Any) -> bool:
    """Whether a message has a mark, also inside the results of tools."""
    if isinstance(value, Mapping):
        return value.get("cache_control") is not None or _has_mark(value.get("content"))
    return isinstance(value, list) and any(map(_has_mark, value))
