"""State in a region without order: a node sees the writes of its ancestors, folded in a fixed order.

The order is a node's ancestors before it, and otherwise as declared, so the later of two parallel
nodes wins whatever finished first. What each node sees is worked out when the program is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..expr.ast import refs
from ..ir import Channel, Graph, Node, Writes, node_parts
from ..state import fold
from ..values import Json
from .frame import STATE, Frame, Region, Spot

ANY = "*"  # a set of names with this member may hold any name


def fold_into(channels: Mapping[str, Channel], values: dict[str, Json], writes: Writes) -> None:
    """Fold updates into `values` itself; the plain case (last wins, no schema) is a store."""
    for name, _ in writes:
        channel = channels.get(name)
        if channel is None or channel.reduce != "last_wins" or channel.schema is not None:
            values.update(fold(channels, values, writes))  # all of them or, when one is refused, none
            return
    values.update(writes)


class FoldPlan:
    """For one unordered region: who writes what, who sees it, and in which order it is folded."""

    def __init__(self, body: Graph, written: list[frozenset[str] | None]) -> None:
        self.body, self.written = body, written
        self.position = {node.id: i for i, node in enumerate(body.nodes)}
        self.needs = [[self.position[id] for id in body.needs[node.id]] for node in body.nodes]
        self.forward = all(need < i for i, needs in enumerate(self.needs) for need in needs)
        self.above = self._ancestors()
        self.slots: list[int | None] = [None] * len(body.nodes)
        self._orders: dict[str, list[int]] = {}

    def _ancestors(self) -> list[int]:
        """For each node the writers above it, as a bit set over positions."""
        above = [0] * len(self.needs)
        for i in _topological(self.needs):
            for need in self.needs[i]:
                above[i] |= above[need] | (1 << need if self.written[need] else 0)
        return above

    def give_slots(self, spot: Spot, region: Region) -> None:
        """Slots for what the node writes, and for what it sees if that is not the region's own view."""
        i = self.position[spot.id]
        if self.written[i]:
            spot.writes_slot = self.slots[i] = region.slot()
        if self.above[i] and self._sources(spot.node, i):
            spot.view_slot = region.slot()

    def _sources(self, node: Node, i: int) -> list[int]:
        """The ancestors whose writes can matter to the node, in fold order."""
        names = _reads(node) | (self.written[i] or frozenset())
        found = []
        for j in _bits(self.above[i]):
            theirs = self.written[j]
            if theirs and (ANY in names or ANY in theirs or names & theirs):
                found.append(j)
        return found

    def view(self, spot: Spot, channels: Mapping[str, Channel]) -> Callable[[Frame], Mapping[str, Json]] | None:
        """The getter of the state that a node sees, None where that is the region's own."""
        if spot.view_slot is None:
            return None
        i = self.position[spot.id]
        names = _reads(spot.node) | (self.written[i] or frozenset())
        sources = self._sources(spot.node, i)
        whole = ANY in names

        def see(frame: Frame) -> dict[str, Json]:
            base = frame[STATE]
            values = dict(base) if whole else {name: base[name] for name in names if name in base}
            fold_into(channels, values, self._collect(frame, sources))
            return values

        return see

    def all_writes(self, frame: Frame) -> list[tuple[str, Json]]:
        """Every write of the region in fold order."""
        return self._collect(frame, [i for i, slot in enumerate(self.slots) if slot is not None])

    def _collect(self, frame: Frame, sources: list[int]) -> list[tuple[str, Json]]:
        slots = self.slots  # every source has one
        if self.forward:
            return [write for i in sources for write in frame[slots[i] or 0] or ()]
        by_name: dict[str, dict[int, list[tuple[str, Json]]]] = {}
        for i in sources:
            for write in frame[slots[i] or 0] or ():
                by_name.setdefault(write[0], {}).setdefault(i, []).append(write)
        return [w for name, of in by_name.items() for i in self._order(name) if i in of for w in of[i]]

    def _order(self, name: str) -> list[int]:
        """The writers of one channel: a writer's ancestors before it, otherwise as declared."""
        known = self._orders.get(name)
        if known is None:
            left = [i for i, w in enumerate(self.written) if w and (name in w or ANY in w)]
            known, remaining = [], sum(1 << i for i in left)
            while left:
                first = next(i for i in left if not self.above[i] & remaining)
                left.remove(first)
                remaining &= ~(1 << first)
                known.append(first)
            self._orders[name] = known
        return known


def _topological(needs: list[list[int]]) -> Iterable[int]:
    then: list[list[int]] = [[] for _ in needs]
    for i, before in enumerate(needs):
        for need in before:
            then[need].append(i)
    left = [len(before) for before in needs]
    ready = [i for i, count in enumerate(left) if not count]
    while ready:
        i = ready.pop()
        yield i
        for after in then[i]:
            left[after] -= 1
            if not left[after]:
                ready.append(after)


def _reads(node: Node) -> frozenset[str]:
    """The channels read by a node or anything inside it."""
    found: set[str] = set()

    def look(part: Any) -> None:
        if isinstance(part, Graph):
            look(part.result)
            for inner in part.nodes:
                for _, deeper in node_parts(inner):
                    look(deeper)
        else:
            for ref in refs(part):
                if ref.root == "state":
                    found.add(str(ref.path[0]) if ref.path else ANY)

    for _, part in node_parts(node):
        look(part)
    return frozenset(found)


def _bits(mask: int) -> Iterable[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
