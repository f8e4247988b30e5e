"""What a run tells of its tools: which of them did what they were called for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ..dialects.agent_flow import MODEL
from ..ir import Flow
from ..journal.journal import Entry
from ..ops import calls_of

_OWN: Final = MODEL.partition(":")[0] + ":"  # what agents are made of: nobody selects that
_TURN: Final = re.compile(r"\[[^\]]*\]|@\d+$")


def outcomes(flow: Flow, history: Iterable[Entry]) -> dict[str, bool]:
    """Of each tool that the run called, whether its last call succeeded. Nodes that were skipped, or are no calls,
    tell nothing; nor do two nodes of one name that call different tools."""
    tools: dict[str, str | None] = {}
    for node in calls_of(flow.body):
        tools[node.id] = node.op.tool if tools.get(node.id, node.op.tool) == node.op.tool else None
    calls: dict[str, tuple[str, bool]] = {}
    for entry in history:
        tool = tools.get(entry.node)
        if tool is not None and not tool.startswith(_OWN) and entry.kind in ("call", "call_failed", "attempt"):
            place = _TURN.sub("", entry.path)
            if entry.kind == "call" or place not in calls:
                calls[place] = (tool, entry.kind == "call")
    found: dict[str, bool] = {}
    for tool, success in calls.values():
        found[tool] = found.get(tool, True) and success
    return found
