"""What a run tells of its tools: which of them did what they were called for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from ..dialects.agent_flow import MODEL
from ..ir import Flow
from ..journal.journal import Entry
from ..ops import calls_of
from ..values import Json

_OWN: Final = MODEL.partition(":")[0] + ":"  # what agents are made of: nobody selects that
# What is none of the tool's doing: it was never asked, or with arguments that it says it does not take.
_NOT_ITS: Final = frozenset(("ExpressionError", "ValidationFailed", "ToolNotFound", "ToolNotApproved", "NoBackends"))
_TURN: Final = re.compile(r"\[[^\]]*\]|@\d+$")


def outcomes(flow: Flow, history: Iterable[Entry], result: Mapping[str, Json]) -> dict[str, bool]:
    """Of each tool that the run called, whether its last call succeeded. Nodes that were skipped, or are no calls,
    tell nothing; nor do calls that were refused before the tool had them, and two nodes of one name that call
    different tools. What ended the run may be in its result alone: a store in memory has no record of calls that
    failed."""
    tools: dict[str, str | None] = {}
    for node in calls_of(flow.body):
        tools[node.id] = node.op.tool if tools.get(node.id, node.op.tool) == node.op.tool else None
    calls: dict[str, tuple[str, bool]] = {}
    for entry in history:
        tool = tools.get(entry.node)
        if tool is not None and not tool.startswith(_OWN) and entry.kind in ("call", "call_failed", "attempt"):
            place = _TURN.sub("", entry.path)
            if isinstance(entry.data, dict) and entry.kind != "call" and entry.data.get("kind") in _NOT_ITS:
                continue
            if entry.kind == "call" or place not in calls:
                calls[place] = (tool, entry.kind == "call")
    errors = result.get("errors")
    for error in errors if isinstance(errors, list) else ():
        if isinstance(error, dict) and error.get("kind") not in _NOT_ITS:
            tool, path = tools.get(str(error.get("nodeId"))), error.get("path")
            if tool is not None and not tool.startswith(_OWN) and isinstance(path, str):
                calls.setdefault(_TURN.sub("", path), (tool, False))
    found: dict[str, bool] = {}
    for tool, success in calls.values():
        found[tool] = found.get(tool, True) and success
    return found
