"""Facts before acting: what a definition may do, and what the flows may do that ask a person to approve.

One shape answers every interface: `check_plan`, the preview, and everything that shows an approval. It is made here
from the graph (`check/facts.py`) and the toolbox; interfaces only render it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..check.facts import Facts, ToolFacts, facts_of, facts_text, tool_text
from ..engine.flow_tool import flow_tool_of
from ..errors import RopewalkError
from ..journal.protocol import RunRow
from ..notations.writing import DIRECTORY_NAMESPACES
from ..tools.annotations import effect_of
from ..tools.undo import undo_of
from ..values import Json
from .recorded_run import MOST_PARTS, require_run

if TYPE_CHECKING:
    from .context import Context
    from .prepared import Prepared

_PROGRAM_OPERATIONS: Final = ("ropewalk:run_plan", "ropewalk:resume_run")
_NO_TOOLBOX: Final = ("ropewalk", *DIRECTORY_NAMESPACES)
"""The namespaces of tools that no toolbox has: those of Ropewalk itself, and of the directory of an experience."""
_MOST_FLOWS: Final = 10  # of one run, whose facts are shown at once


def facts_of_definition(context: Context, loaded: Prepared) -> Facts:
    """Return the facts of a definition in any notation."""
    return facts_of(loaded.flow, lambda tool_id: facts_of_tool(context, tool_id))


def facts_of_tool(context: Context, tool_id: str) -> ToolFacts:
    """Return the facts of a tool."""

    # A flow that is a tool has the strongest effect of its calls.
    known = _facts_of_tool_alone(context, tool_id)
    if known.flow is None or known.effect != "write":
        return known
    effect = facts_of(known.flow, lambda inner: _facts_of_tool_alone(context, inner)).effect
    return replace(known, effect=effect)


def _facts_of_tool_alone(context: Context, tool_id: str) -> ToolFacts:
    """Return the facts of a tool without a look inside the flow that it may be."""
    tool = context.toolbox.get(tool_id)
    flow, undo = flow_tool_of(tool), undo_of(tool, context.toolbox.undos) or context.toolbox.undos.get(tool_id)
    return ToolFacts(
        effect=effect_of(tool, context.plans.effects, id=tool_id),
        flow=None if flow is None else flow.flow,
        undo=None if undo is None else undo.tool,
        runs_programs=tool_id in _PROGRAM_OPERATIONS,
        known=tool is not None or tool_id.partition(":")[0] in _NO_TOOLBOX,
    )


def tool_text_of(context: Context, tool_id: str) -> str:
    """Return the effect and the undo of a tool in words, for a person who decides about one call of it."""
    known = facts_of_tool(context, tool_id)
    return tool_text(
        {"effect": known.effect, "undo": known.undo, "isFlow": known.flow is not None, "known": known.known}
    )


def facts_for_approval(context: Context, run_id: str, waits: Iterable[Mapping[str, Any]]) -> list[dict[str, Json]]:
    """Return the facts of the flows of a run that ask a person to approve, and of the flows that called them."""
    asked = [wait for wait in waits if "approval" in wait]
    if not asked:
        return []
    root = require_run(context.store, str(asked[0].get("runId") or run_id))
    listed: dict[str, dict[str, Json]] = {}
    for row in _asking(context, root, {f"{root.id}/{wait['path']}" for wait in asked}):
        # Many parts of a run may ask for one flow.
        if row.fingerprint not in listed and len(listed) < _MOST_FLOWS:
            listed[row.fingerprint] = _facts_of_run(context, row)
    return [facts for facts in listed.values() if facts]


def _asking(context: Context, row: RunRow, paths: set[str]) -> Iterator[RunRow]:
    """Yield the runs that contain the given paths, open parts before the run itself."""
    parts = context.store.list_runs(parent=row.id, status=("running", "waiting"), limit=MOST_PARTS)
    for part in parts:
        inside = {path for path in paths if path.startswith(f"{part.id}/")}
        if inside:
            yield from _asking(context, part, inside)
    yield row


def _facts_of_run(context: Context, row: RunRow) -> dict[str, Json]:
    """Return the facts of the flow of a run; {} if its definition cannot be read here."""
    try:
        loaded = context.definitions.get(require_run(context.store, row.id))
    except (RopewalkError, TypeError):
        return {}
    return {"flow": row.name or loaded.name, "kind": row.kind, **facts_of_definition(context, loaded).to_dict()}


def approval_text(facts: Iterable[Mapping[str, Any]]) -> str:
    """Return the facts of the flows that ask for an approval, as lines for the person who decides."""
    lines: list[str] = []
    for flow in facts:
        lines.append(f"Facts about {flow['flow']} ({flow['kind']}):")
        lines += [f"  {line}" for line in facts_text(flow).splitlines()]
    return "\n".join(lines)
