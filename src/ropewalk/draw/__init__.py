"""Drawings of a flow: Mermaid text, an SVG picture, a tree for terminals.

All three are made from what the dataclass fields say (`facts`), so a new op needs no edit. They
draw flows that the check refuses too: a wrong flow is when one wants to see it. Refused: markup,
scripts and control characters in names, which are escaped; drawing what is nested past 64 levels.
"""

from __future__ import annotations

from .diagram import mermaid
from .picture import svg
from .tree import text

__all__ = ["mermaid", "svg", "text"]
