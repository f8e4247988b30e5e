"""Read from the history of a run which tools succeeded, for the selector to learn from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from ..ir import Flow
from ..journal.protocol import Entry
from ..ops import MODEL, calls_of
from ..values import Json

_MODEL_NAMESPACE: Final = MODEL.partition(":")[0] + ":"  # what agents are made of: nobody selects that
# What is none of the tool's doing: it was never asked, or with arguments that it says it does not take.
_NOT_THE_TOOLS_FAULT: Final = frozenset(
    ("ExpressionError", "ValidationFailed", "ToolNotFound", "ToolNotApproved", "NoBackends")
)
_ITERATION_OR_ATTEMPT: Final = re.compile(r"\[[^\]]*\]|@\d+$")


def tool_outcomes(flow: Flow, history: Iterable[Entry], result: Mapping[str, Json]) -> dict[str, bool]:
    """Return, for each tool that a run called, True if its last call succeeded."""

    # Skipped nodes, nodes that are not calls, and calls that were refused before they ran do not count.
    tools: dict[str, str | None] = {}
    # A node may run several times; the last call of a tool decides.
    for node in calls_of(flow.body):
        tools[node.id] = node.op.tool if tools.get(node.id, node.op.tool) == node.op.tool else None
    calls: dict[str, tuple[str, bool]] = {}
    for entry in history:
        tool = tools.get(entry.node)
        if (
            tool is not None
            and not tool.startswith(_MODEL_NAMESPACE)
            and entry.kind in ("call", "call_failed", "attempt")
        ):
            place = _ITERATION_OR_ATTEMPT.sub("", entry.path)
            if isinstance(entry.data, dict) and entry.kind != "call" and entry.data.get("kind") in _NOT_THE_TOOLS_FAULT:
                continue
            if entry.kind == "call" or place not in calls:
                calls[place] = (tool, entry.kind == "call")
    errors = result.get("errors")
    for error in errors if isinstance(errors, list) else ():
        if isinstance(error, dict) and error.get("kind") not in _NOT_THE_TOOLS_FAULT:
            tool, path = tools.get(str(error.get("nodeId"))), error.get("path")
            if tool is not None and not tool.startswith(_MODEL_NAMESPACE) and isinstance(path, str):
                calls.setdefault(_ITERATION_OR_ATTEMPT.sub("", path), (tool, False))
    outcome_of: dict[str, bool] = {}
    for tool, success in calls.values():
        outcome_of[tool] = outcome_of.get(tool, True) and success
    return outcome_of
