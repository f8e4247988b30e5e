"""The order that a flow gives its steps, by their paths.

Two steps have an order if the flow begins one of them after the other one, whenever they run. It follows from the flow
alone, never from a clock or from the order of records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from graphlib import TopologicalSorter
from typing import TypeAlias

from ..fast_dataclass import dataclass
from ..ir import Graph, Node
from ..ops import Loop
from .runs.instances import SEGMENT, body_at

Key: TypeAlias = tuple[tuple[int, int, int], ...]


@dataclass(slots=True)
class _Region:
    """The nodes of a region, ranked so that each comes after its ancestors."""

    nodes: Mapping[str, Node]
    ranks: dict[str, int] = field(default_factory=dict)
    ancestors: dict[str, frozenset[str]] | None = None
    """By node; None for an ordered region, where all nodes of a lower rank are ancestors."""

    def precedes(self, first: str, second: str) -> bool:
        """Return True if one node is an ancestor of another one."""
        if self.ancestors is None:
            return self.ranks.get(first, -1) < self.ranks.get(second, -1)
        return first in self.ancestors.get(second, ())


class FlowOrder:
    """The order of the steps of one flow."""

    def __init__(self, body: Graph) -> None:
        self._body = body
        self._regions: dict[int, _Region] = {}

    def key(self, path: str) -> Key:
        """Return a key that sorts each step behind those that the flow begins before it."""
        return tuple(
            (region.ranks.get(id, -1), attempt, int(label) if label.isdecimal() else 0)
            for region, id, attempt, label in self._walk(path)
        )

    def precedes(self, first: str, second: str) -> bool:
        """Return True if the flow begins the step at the second path only after the one at the first path."""
        for one, other in zip(self._walk(first), self._walk(second), strict=False):
            region, id, attempt, label = one
            _, other_id, other_attempt, other_label = other
            if id != other_id:
                return region.precedes(id, other_id)
            if attempt != other_attempt:
                return attempt < other_attempt
            if label != other_label:
                # Only a loop goes through its regions in turn.
                node = region.nodes.get(id)
                return node is not None and isinstance(node.op, Loop) and self.key(first) < self.key(second)
        return False

    def _walk(self, path: str) -> Iterator[tuple[_Region, str, int, str]]:
        """Yield for each segment of a path its region, node, attempt and label."""
        graph: Graph | None = self._body
        for text in path.split("/"):
            segment = SEGMENT.fullmatch(text)
            if graph is None or segment is None:
                return
            region, id, label = self._region(graph), segment[1], segment[3] or ""
            yield region, id, int(segment[2] or 1), label
            graph = body_at(region.nodes[id], label) if id in region.nodes else None

    def _region(self, graph: Graph) -> _Region:
        region = self._regions.get(id(graph))
        if region is None:
            region = self._regions[id(graph)] = _Region({node.id: node for node in graph.nodes})
            needs = {id: sorted(needed) for id, needed in graph.needs.items()}
            region.ranks = {node: rank for rank, node in enumerate(TopologicalSorter(needs).static_order())}
            if not graph.ordered:
                ancestors: dict[str, frozenset[str]] = {}
                for node in region.ranks:
                    ancestors[node] = frozenset(needs[node]).union(*(ancestors[above] for above in needs[node]))
                region.ancestors = ancestors
        return region
