"""State in a region without order: a node sees the writes of its ancestors, folded in a fixed order.

The order is a node's ancestors before it, and otherwise as declared, so the later of two parallel
nodes wins whatever finished first. What each node sees is worked out when the program is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..expr.ast import Obj, refs
from ..ir import Channel, Graph, Node, Writes, node_parts
from ..state import fold
from ..values import Json
from .frame import STATE, Frame, Region, Spot

ANY = "*"  # a set of names with this member may hold any name


def fold_into(channels: Mapping[str, Channel], values: dict[str, Json], writes: Writes) -> None:
    """Fold updates into `values` itself; the plain case (last wins) is a store."""
    for name, _ in writes:
        channel = channels.get(name)
        if channel is None or channel.reduce != "last_wins":
            values.update(fold(channels, values, writes))  # all of them or, when one is refused, none
            return
    values.update(writes)


class FoldPlan:
    """For one unordered region: who writes what, who sees it, and in which order it is folded.

    Sets of nodes are bit sets over ranks, an order in which every node stands after its ancestors,
    so that the highest bit of a set is a node that none of the others comes after.
    """

    def __init__(self, body: Graph, written: list[frozenset[str] | None], channels: Mapping[str, Channel]) -> None:
        self.body, self.written, self.channels = body, written, channels
        self.position = {node.id: i for i, node in enumerate(body.nodes)}
        self.needs = [[self.position[id] for id in body.needs[node.id]] for node in body.nodes]
        self.forward = all(need < i for i, needs in enumerate(self.needs) for need in needs)
        self.order = list(_topological(self.needs))  # position by rank
        self.rank = [0] * len(body.nodes)
        for rank, i in enumerate(self.order):
            self.rank[i] = rank
        self.writers: dict[str, int] = {}
        self.above = self._ancestors()
        self.slots: list[int | None] = [None] * len(body.nodes)
        self._orders: dict[str, list[int]] = {}
        self._seen: dict[int, list[int]] = {}

    def _ancestors(self) -> list[int]:
        """For each node the writers above it."""
        above = [0] * len(self.needs)
        for i in self.order:
            bit = 1 << self.rank[i]
            for name in self.written[i] or ():
                self.writers[name] = self.writers.get(name, 0) | bit
            for need in self.needs[i]:
                above[i] |= above[need] | (1 << self.rank[need] if self.written[need] else 0)
        return above

    def give_slots(self, spot: Spot, region: Region) -> None:
        """Slots for what the node writes, and for what it sees if that is not the region's own view."""
        i = self.position[spot.id]
        if self.written[i]:
            spot.writes_slot = self.slots[i] = region.slot()
        if self.above[i] and self._sources(spot.node, i):
            spot.view_slot = region.slot()

    def _names(self, node: Node, i: int) -> frozenset[str]:
        """The channels whose value matters at a node: those read, and those that it folds into."""
        return _reads(node) | {name for name in self.written[i] or () if not self._plain(name)}

    def _plain(self, name: str) -> bool:
        channel = self.channels.get(name)
        return channel is not None and channel.reduce == "last_wins"

    def _sources(self, node: Node, i: int) -> list[int]:
        """The ancestors whose writes can matter to the node, in declared order."""
        known = self._seen.get(i)
        if known is None:
            found = 0
            for name in self._names(node, i):
                if name == ANY:
                    found |= self.above[i]
                else:
                    mask = self.above[i] & (self.writers.get(name, 0) | self.writers.get(ANY, 0))
                    found |= self._last(mask, name) if self._plain(name) else mask
            known = self._seen[i] = sorted(self.order[rank] for rank in _bits(found))
        return known

    def _last(self, mask: int, name: str) -> int:
        """The writers of a channel where the last one wins, without those whose write is sure to be
        overwritten: in a long line of writers one is left, so a view stays cheap."""
        kept = 0
        while mask:
            rank = mask.bit_length() - 1
            i = self.order[rank]
            kept |= 1 << rank
            mask &= ~(1 << rank)
            node = self.body.nodes[i]
            sure = isinstance(node.writes, Obj) and any(key == name for key, _ in node.writes.fields)
            if sure and node.gate is None and node.when is None:
                mask &= ~self.above[i]
        return kept

    def view(self, spot: Spot) -> Callable[[Frame], Mapping[str, Json]] | None:
        """The getter of the state that a node sees, None where that is the region's own."""
        if spot.view_slot is None:
            return None
        i = self.position[spot.id]
        names, channels = self._names(spot.node, i), self.channels
        sources = self._sources(spot.node, i)
        whole = ANY in names

        def see(frame: Frame) -> dict[str, Json]:
            base = frame[STATE]
            values = dict(base) if whole else {name: base[name] for name in names if name in base}
            # A source may write other channels too; those are not seen here.
            fold_into(channels, values, [w for w in self._collect(frame, sources) if whole or w[0] in names])
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
            known, remaining = [], sum(1 << self.rank[i] for i in left)
            while left:
                first = next(i for i in left if not self.above[i] & remaining)
                left.remove(first)
                remaining &= ~(1 << self.rank[first])
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
