"""Drawings of a flow: Mermaid text, an SVG picture, a tree for terminals; and the graph as data.

All three are made from what the dataclass fields say (`facts`), so a new op needs no edit. They
draw flows that the check refuses too: a wrong flow is when one wants to see it. Refused: markup,
scripts and control characters in names, which are escaped; drawing what is nested past 64 levels.
"""

from __future__ import annotations

from ..errors import NotFound
from ..ir import Flow
from ..values import closest
from .agents import agent_in
from .data import graph_data
from .diagram import mermaid
from .picture import svg
from .tree import text

FORMATS = {"mermaid": mermaid, "svg": svg, "text": text}


def draw(flow: Flow, format: str) -> str:
    """The drawing in one of FORMATS."""
    if not isinstance(format, str) or format not in FORMATS:
        raise NotFound("drawing format", format, suggestion=closest(format, FORMATS))
    drawn: str = FORMATS[format](flow)
    return drawn


__all__ = ["FORMATS", "agent_in", "draw", "graph_data", "mermaid", "svg", "text"]
