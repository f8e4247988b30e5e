"""The spelling of node types: `nodes-base.slack` for n8n-mcp and in drafts, `n8n-nodes-base.slack` in workflows."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

TRIGGERS: Final = tuple(
    f"nodes-base.{name}"
    for name in (
        *("manualTrigger", "scheduleTrigger", "errorTrigger"),
        *("cron", "emailReadImap", "interval", "start", "webhook"),
    )
)
"""Frequent triggers that no other node resembles, and all whose name does not end with `Trigger`."""
_PREFIXES: Final = (("@n8n/n8n-nodes-", "nodes-"), ("n8n-nodes-base.", "nodes-base."))
_ENDING: Final = re.compile(r"tri?g\w*$")
_SIMILAR: Final = 0.85


def short_type(node_type: str) -> str:
    """Return a node type in the spelling of n8n-mcp: `nodes-base.slack`."""
    for long, short in _PREFIXES:
        if node_type.startswith(long):
            return short + node_type[len(long) :]
    return node_type if "." in node_type else f"nodes-base.{node_type}"


def full_type(node_type: str) -> str:
    """Return a node type in the spelling of workflows: `n8n-nodes-base.slack`."""
    short = short_type(node_type)
    if short.startswith("nodes-base."):
        return f"n8n-{short}"
    return f"@n8n/n8n-{short}" if short.startswith("nodes-langchain.") else short


def names_trigger(node_type: str) -> bool:
    """Return True if the name of a node type, perhaps misspelt, is that of a trigger."""
    short = short_type(node_type)
    return short in TRIGGERS or _ENDING.search(last_name(short)) is not None


@lru_cache(maxsize=1024)
def closest_type(node_type: str, known: tuple[str, ...]) -> str | None:
    """Return the known node type of n8n that a misspelt one means; None if none is similar."""
    if not short_type(node_type).startswith("nodes-"):
        return None  # it is of another package
    similarity, closest = max(((_similarity(node_type, other), other) for other in known), default=(0.0, ""))
    return closest if similarity >= _SIMILAR else None


def last_name(node_type: str) -> str:
    """Return the name of a node type without its package, in lower case."""
    return node_type.rpartition(".")[2].lower()


def _similarity(node_type: str, known: str) -> float:
    """Compare two names without the ending `Trigger`; that both have it, or neither, counts a little."""
    from difflib import SequenceMatcher  # only misspelt types are compared

    names = last_name(node_type), last_name(known)
    stems = [_ENDING.sub("", name) or name for name in names]
    same_ending = (stems[0] == names[0]) == (stems[1] == names[1])
    return SequenceMatcher(None, stems[0], stems[1]).ratio() + 0.01 * same_ending
