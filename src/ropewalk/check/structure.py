"""The shape of a flow: ids, sizes, order. What is found here needs no expression to be read.

Everything is iterative: a chain of 10,000 nodes or a hostile tree of regions is no deeper here
than a short one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from ..ir import Flow, Graph, Node, part_fields, parts
from ..values import closest
from .report import Owners, Report

MAX_NODES: Final = 10_000
MAX_NESTING: Final = 64

_BAD: Final = r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff/\[\]@]"
_flat: dict[type[Any], bool] = {}


class Layout:
    """Every node by id and the regions that enclose it, gathered once.

    `sound` is false when the flow is too large or too deep to look at more closely.
    """

    def __init__(self, flow: Flow, report: Report, most_nodes: int, most_nesting: int) -> None:
        self.report = report
        self.nodes: dict[str, Node] = {}
        self.nested: list[tuple[Graph, Owners]] = []
        self.sound = True
        self._gather(flow.body, most_nodes, most_nesting)

    def _gather(self, body: Graph, most_nodes: int, most_nesting: int) -> None:
        stack: list[tuple[Graph, Owners, int]] = [(body, None, 1)]
        count = 0
        seen = self.nodes
        while stack:
            graph, owners, depth = stack.pop()
            count += sum(not node.meta.hidden for node in graph.nodes)
            if count > most_nodes:
                self._unsound(f"more than {most_nodes:,} nodes; split the flow", None, None)
                return
            if depth > most_nesting:
                assert owners is not None
                self._unsound(f"regions nested deeper than {most_nesting}", owners[1], owners[0])
                continue
            if owners is not None:
                self.nested.append((graph, owners))
            inner: list[tuple[Graph, Owners, int]] = []
            for node in graph.nodes:
                if node.id in seen:
                    self._repeated(node, owners)
                else:
                    seen[node.id] = node
                if not (_flat.get(type(node.op)) or is_flat(type(node.op))):
                    inner += [(p, (owners, node), depth + 1) for _, p in parts(node.op) if type(p) is Graph]
            stack += reversed(inner)
            ids = [node.id for node in graph.nodes]
            together = "".join(ids)  # most are names, and nothing in a name is bad
            if "" in ids or (not together.isidentifier() and re.search(_BAD, together)):
                self._illegal(graph, owners)

    def _unsound(self, message: str, node: Node | None, owners: Owners) -> None:
        self.sound = False
        self.report.add(message, node=node, owners=owners)

    def _repeated(self, node: Node, owners: Owners) -> None:
        first = self.nodes[node.id]
        where = f", by {first.meta.source}" if first.meta.source else ""
        self.report.add(f"the id {node.id!r} is already used{where}", node=node, owners=owners, field="id")

    def _illegal(self, graph: Graph, owners: Owners) -> None:
        for node in graph.nodes:
            bad = re.search(_BAD, node.id)
            if not node.id:
                self.report.add("an id cannot be empty", node=node, owners=owners, field="id")
            elif bad:
                self.report.add(
                    f"the id {node.id!r} has {bad.group()!r} in it; control characters and / [ ] @ are not allowed",
                    node=node, owners=owners, field="id",
                )  # fmt: skip

    def owners_of(self, id: str) -> Owners:
        """The nodes around the node with this id; only looked up for a message."""
        for graph, owners in self.nested:
            if any(node.id == id for node in graph.nodes):
                return owners
        return None

    def order(self, body: Graph) -> Iterator[Node]:
        """Nodes in document order, each before what is inside it."""
        stack: list[Node] = list(reversed(body.nodes))
        while stack:
            node = stack.pop()
            yield node
            inner = [n for _, p in parts(node.op) if type(p) is Graph for n in p.nodes]
            stack += reversed(inner)


def is_flat(kind: type[Any]) -> bool:
    """Whether no op of this type can hold a region; decided once per type, by its annotations."""
    known = _flat.get(kind)
    if known is None:
        annotated = getattr(kind, "__annotations__", {})
        known = _flat[kind] = all(annotated.get(name) in ("Expr", "Expr | None") for name in part_fields(kind))
    return known


def check_after(graph: Graph, report: Report, owners: Owners) -> None:
    """Report the names in `after` that name nothing a node can start after."""
    place: dict[str, int] = {}
    for i, node in enumerate(graph.nodes):
        place.setdefault(node.id, i)
    for i, node in enumerate(graph.nodes):
        for name in sorted(node.after):
            there = place.get(name)
            if there is None:
                near = closest(name, (id for id in place if id != node.id))
                message = f"unknown node {name!r}"
            elif name == node.id:
                near, message = None, "a node cannot start after itself"
            elif graph.ordered and there > i:
                near, message = None, f"{name!r} comes later in this ordered list"
            else:
                continue
            report.add(message, node=node, owners=owners, field="after", suggestion=near)


def sort(graph: Graph, report: Report, owners: Owners) -> tuple[list[Node], frozenset[str]]:
    """The nodes of an unordered region, each after what it needs, and the ids that wait in a cycle
    (which stand last). Each cycle is reported by name, once."""
    needs = graph.needs
    by_id = {node.id: node for node in reversed(graph.nodes)}
    waiting: dict[str, int] = {}
    after: dict[str, list[str]] = {}
    ready: list[str] = []
    for id in dict.fromkeys(node.id for node in graph.nodes):
        needed = needs[id]
        if not needed:
            ready.append(id)
        else:
            waiting[id] = len(needed)
            for before in needed:
                after.setdefault(before, []).append(id)
    for id in ready:  # grows while it is read
        for next_id in after.get(id, ()):
            waiting[next_id] -= 1
            if not waiting[next_id]:
                ready.append(next_id)
    left = [id for id, count in waiting.items() if count]
    if left:
        for cycle in cycles(left, needs):
            first = by_id[cycle[0]]
            report.add(f"these nodes wait for each other: {_arrows(cycle)}", node=first, owners=owners)
    return [by_id[id] for id in dict.fromkeys([*ready, *left])], frozenset(left)


def _arrows(cycle: list[str]) -> str:
    shown = cycle if len(cycle) <= 12 else [*cycle[:6], f"… {len(cycle) - 8:,} more …", *cycle[-2:]]
    return " -> ".join([*shown, cycle[0]])


def cycles(left: list[str], needs: Any) -> list[list[str]]:
    """One shortest cycle for each knot of nodes that wait for each other, in the order of running."""
    found = []
    place = {id: i for i, id in enumerate(left)}
    for knot in _knots(left, needs):
        members = set(knot)
        start = min(knot, key=place.__getitem__)
        # Breadth first along "needs" until the start comes again; each node remembers who needs it.
        came: dict[str, str] = {}
        queue = [start]
        for id in queue:
            for before in sorted(needs[id] & members):
                if before not in came:
                    came[before] = id
                    queue.append(before)
            if start in came:
                break
        cycle = [start]
        while came[cycle[-1]] != start:
            cycle.append(came[cycle[-1]])
        found.append(cycle)
    return found


def _knots(left: list[str], needs: Any) -> Iterator[list[str]]:
    """Strongly connected components of more than one node: Tarjan's algorithm with its own stack."""
    members = set(left)
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    for root in left:
        if root in index:
            continue
        work: list[tuple[str, Iterator[str]]] = []

        def enter(id: str, work: list[tuple[str, Iterator[str]]] = work) -> None:
            index[id] = low[id] = len(index)
            path.append(id)
            on_path.add(id)
            work.append((id, iter(needs[id] & members)))

        enter(root)
        while work:
            id, following = work[-1]
            for before in following:
                if before not in index:
                    enter(before)
                    break
                if before in on_path:
                    low[id] = min(low[id], index[before])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[id])
                if low[id] == index[id]:
                    knot = [path.pop()]
                    while knot[-1] != id:
                        knot.append(path.pop())
                    on_path.difference_update(knot)
                    if len(knot) > 1:
                        yield knot
