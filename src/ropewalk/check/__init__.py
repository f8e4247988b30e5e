"""The check before the run: everything that can be known to be wrong, all at once, each with its place.

`structure` looks at ids, sizes and order, `walk` passes over the flow, `reading` says what an
expression may read and what is known of its value, `types` and `schemas` know values before they
exist, `arguments` compares them with what is asked for. Refused here: running anything, asking the
world anything, and alarm without certainty: what cannot be decided is no problem.
"""

from __future__ import annotations

from contextlib import suppress

from ..errors import InvalidFlow, Problem
from ..ir import Flow
from .report import SECRET, UNKNOWN_TOOL, Checked, Enough, Report, unknown_tool
from .structure import MAX_NESTING, MAX_NODES, Layout
from .walk import ToolCard, Tools, Walk


def check(
    flow: Flow,
    tools: Tools | None = None,
    *,
    unknown_tools: str = "warning",
    most_nodes: int = MAX_NODES,
    most_nesting: int = MAX_NESTING,
    secrets: frozenset[str] | None = None,
) -> Checked:
    """Every problem and warning of a flow, in the order of its document; it never raises.

    `tools` gives the schemas of a tool by its id, or None for a tool it does not know, which is a
    warning, or a problem with `unknown_tools="problem"`; with `"certain"` it is a problem where there
    certainly is none: its server was asked, or its pin refuses it. More nodes than `most_nodes`, or regions
    nested deeper than `most_nesting`, are a problem, and not looked at more closely. `secrets` are the names
    that `$secret` may read; None for any.
    """
    report = Report()
    layout = None
    try:
        with suppress(Enough):
            layout = Layout(flow, report, most_nodes, most_nesting)
            if layout.sound:
                walk = Walk(flow, layout, report, tools, unknown_tools)
                walk.read.secrets = secrets
                walk.run()
        return report.checked(layout.order(flow.body) if layout is not None and layout.sound else ())
    except RecursionError:
        return Checked(problems=(Problem(path="", message="an expression is nested far too deep"),))


def ensure(flow: Flow, tools: Tools | None = None, *, unknown_tools: str = "warning") -> Flow:
    """The same flow when nothing is wrong with it; InvalidFlow with all problems otherwise."""
    found = check(flow, tools, unknown_tools=unknown_tools)
    if found.problems:
        raise InvalidFlow(found.problems)
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
    "ensure",
    "unknown_tool",
]
