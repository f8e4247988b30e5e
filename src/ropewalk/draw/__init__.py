"""Draw a flow: Mermaid text, an SVG picture, a tree for terminals; and the graph as data.

All are made from the dataclass fields of the nodes, so a new op needs no edit. Flows with problems can be drawn too.
Markup, scripts and control characters in names are escaped. Regions nested past 64 levels are not drawn.
"""

from __future__ import annotations

from ..errors import NotFound
from ..ir import Flow
from ..values import did_you_mean
from .diagram import agent_in, graph_data, mermaid, text
from .svg import svg

FORMATS = {"mermaid": mermaid, "svg": svg, "text": text}


def draw(flow: Flow, format: str) -> str:
    """Return a drawing of a flow."""
    if not isinstance(format, str) or format not in FORMATS:
        raise NotFound("drawing format", format, suggestion=did_you_mean(format, FORMATS))
    drawing: str = FORMATS[format](flow)
    return drawing


__all__ = ["FORMATS", "agent_in", "draw", "graph_data", "mermaid", "svg", "text"]
