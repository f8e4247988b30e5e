"""Who writes a channel that takes one write only: two writers that are not ordered are a problem.

`last_wins` and the rest need no such check: writes fold in declared order whatever finished first.
"""

from __future__ import annotations

from itertools import pairwise

from ..ir import Graph, Node
from ..ops import Loop, Map
from .report import At, Owners, Report

Steps = tuple[tuple[Graph, Node, str], ...]
"""The way to a writer: for each region from the outside in, the node in it and the field entered."""


class Writers:
    """Collects the writers of `set_once` channels during the pass; `check` judges them at its end."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self._found: dict[str, list[tuple[Steps, Owners, At]]] = {}
        self._places: dict[int, tuple[Graph, dict[str, int], dict[str, int]]] = {}

    def add(self, channel: str, steps: Steps, owners: Owners, at: At) -> None:
        self._found.setdefault(channel, []).append((steps, owners, at))

    def check(self) -> None:
        """Report each writer that is not ordered with the one before it.

        Sorted by position, neighbours suffice: order within a region is transitive.
        """
        for channel, writers in self._found.items():
            for steps, owners, at in writers:
                if any(_repeats(node) for _, node, _ in steps[:-1]):
                    self.report.add(
                        f"writes {channel!r}, which takes one write, and runs again in each round: "
                        "a second one that writes it will fail",
                        node=steps[-1][1], owners=owners, field="writes", at=at, warning=True,
                    )  # fmt: skip
            if len(writers) < 2:
                continue
            writers.sort(key=lambda writer: [self._place(graph, node) for graph, node, _ in writer[0]])
            for (before, _, _), (steps, owners, at) in pairwise(writers):
                if not self._ordered(before, steps):
                    other = before[-1][1]
                    where = f" ({other.meta.source})" if other.meta.source else ""
                    self.report.add(
                        f"{other.id!r}{where} writes {channel!r} too, and neither is after the other; "
                        "a set_once field takes one write",
                        node=steps[-1][1], owners=owners, field="writes", at=at,
                    )  # fmt: skip

    def _ordered(self, a: Steps, b: Steps) -> bool:
        for (graph, one, entered), (_, two, other) in zip(a, b, strict=False):
            if one is two:
                if entered != other:
                    return True  # different arms of one choice: only one of them runs
                continue
            if graph.ordered:
                return True
            _, place, above = self._order(graph)
            return bool(above[two.id] >> place[one.id] & 1) or bool(above[one.id] >> place[two.id] & 1)
        return True

    def _place(self, graph: Graph, node: Node) -> int:
        return self._order(graph)[1][node.id]

    def _order(self, graph: Graph) -> tuple[Graph, dict[str, int], dict[str, int]]:
        """Each node's place in an order of running, and its ancestors as bits of one integer."""
        known = self._places.get(id(graph))
        if known is None:
            known = self._places[id(graph)] = (graph, *ancestors(graph))
        return known


def _repeats(node: Node) -> bool:
    """Whether what is inside may run more than once."""
    return isinstance(node.op, Map) or (isinstance(node.op, Loop) and node.op.limit != 1)


def ancestors(graph: Graph) -> tuple[dict[str, int], dict[str, int]]:
    """The place of each node in an order of running, and what it runs after, as bits of those places; of an ordered
    region no bits, since each runs after all before it."""
    needs = graph.needs
    if graph.ordered:
        return {node.id: i for i, node in enumerate(graph.nodes)}, {}
    place: dict[str, int] = {}
    bits: dict[str, int] = {}
    for first in graph.nodes:
        stack = [first.id]
        entered: set[str] = set()
        while stack:
            id = stack[-1]
            if id in place:
                stack.pop()
                continue
            waiting = [] if id in entered else [n for n in needs[id] if n not in place and n not in entered]
            entered.add(id)
            if waiting:  # after a second look whatever is missing waits in a cycle, which is reported elsewhere
                stack += waiting
                continue
            own = 0
            for before in needs[id]:
                if before in place:
                    own |= bits[before] | 1 << place[before]
            place[id], bits[id] = len(place), own
            stack.pop()
    return place, bits
