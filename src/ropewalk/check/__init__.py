"""The static check of a flow: report every certain mistake in one pass, each with its place.

`structure` checks ids, sizes and order. `walk` passes over the flow. `references` decides what an
expression may read and infers its type. `types` describes values before they exist. `arguments`
compares these types with schemas. The check runs nothing and asks nothing of the network, and it
reports only what is certain: a value of unknown type is never a problem.
"""

from __future__ import annotations

from contextlib import suppress

from ..errors import InvalidFlow, Problem
from ..ir import Flow
from .report import SECRET, UNKNOWN_TOOL, Checked, Report, TooManyProblems, unknown_tool
from .structure import MAX_NESTING, MAX_NODES, Layout
from .walk import ToolCard, Tools, Walk


def check(
    flow: Flow,
    tools: Tools | None = None,
    *,
    unknown_tools: str = "warning",
    max_nodes: int = MAX_NODES,
    max_nesting: int = MAX_NESTING,
    secrets: frozenset[str] | None = None,
) -> Checked:
    """Check a flow and return every problem and warning, in the order of its document.

    Args:
        flow: The flow.
        tools: Finds the schemas of a tool by its id; it returns None for a tool that it does not know. None: tools
            are not checked.
        unknown_tools: How to report an unknown tool: `"warning"`, `"problem"`, or `"certain"`, which reports a
            problem only if the tool certainly does not exist (its server was asked, or a pin refuses it).
        max_nodes: A flow with more nodes is one problem, and is not checked further.
        max_nesting: The same limit for levels of nested regions.
        secrets: The names that `$secret` may read; None for any name.

    Returns:
        The problems and warnings. Nothing is raised for a wrong flow.
    """
    report = Report()
    layout = None
    try:
        with suppress(TooManyProblems):
            layout = Layout(flow, report, max_nodes, max_nesting)
            # A flow that is too large has one problem already; walking it could take minutes.
            if layout.is_sound:
                walk = Walk(flow, layout, report, tools, unknown_tools)
                walk.scope.secrets = secrets
                walk.run()
        return report.checked(layout.order(flow.body) if layout is not None and layout.is_sound else ())
    except RecursionError:
        return Checked(problems=(Problem(path="", message="an expression is nested too deeply; split it"),))


def ensure_valid(flow: Flow, tools: Tools | None = None, *, unknown_tools: str = "warning") -> Flow:
    """Return the flow if it has no problems."""
    checked = check(flow, tools, unknown_tools=unknown_tools)
    if checked.problems:
        raise InvalidFlow(checked.problems)
    return flow


__all__ = [
    "MAX_NESTING",
    "MAX_NODES",
    "SECRET",
    "UNKNOWN_TOOL",
    "Checked",
    "ToolCard",
    "Tools",
    "check",
    "ensure_valid",
    "unknown_tool",
]
