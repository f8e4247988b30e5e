"""The view of a region that every drawing is made from: nodes with names, conditions and fields, and edges."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ..fast_dataclass import dataclass
from ..ir import Graph

if TYPE_CHECKING:
    from .diagram import Agent


@dataclass(frozen=True, slots=True)
class Facts:
    """The details of one node that drawings show: names, conditions, fields, and its regions with their labels."""

    id: str
    kind: str
    name: str
    conditions: tuple[str, ...]
    details: tuple[str, ...]
    bodies: tuple[tuple[str, Region], ...]
    agent: Agent | None = None
    is_item: bool = False
    """True for an item of a program, whose place in the text names it anywhere inside the program."""

    @property
    def title(self) -> str:
        """Return the kind and the name."""
        return f"{self.kind} {self.name}".strip()

    @property
    def lines(self) -> tuple[str, ...]:
        """Return all details, one per line."""
        return (self.id, self.title, *self.conditions, *self.details)


@dataclass(frozen=True, slots=True)
class View:
    """The visible nodes of a region, its edges as pairs of positions, and its result in words."""

    nodes: tuple[Facts, ...]
    edges: tuple[tuple[int, int], ...]
    ordered: bool
    result: str = ""


Region: TypeAlias = Graph | View
"""A region of a flow, or one that is only drawn."""
