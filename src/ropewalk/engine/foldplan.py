"""State in a region without order: a node sees the writes of its ancestors, folded in a fixed order.

What each node sees is worked out when the program is built. Nodes that see the writes of the same
ancestors share one view, and a view starts from the longest beginning (in the order of the fold)
that it shares with another: in a chain from what the node before saw. So a run folds about as many
writes as there are, not all writes above a node for each node anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Any, Final

from ..errors import InvalidValue
from ..expr.ast import refs
from ..ir import Channel, Graph, Node, Writes, node_parts
from ..state import REDUCERS, check_fold, fold, fold_into
from ..values import Json
from .foldorder import ANY, FoldOrder, Group, Ranks, Written, writes_inside
from .frame import STATE, Frame, Region, Spot

Values = Mapping[str, Json]
_REVERSED: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


class Cut:
    """The writes that a view holds (a bit set over ranks): those of `base`, and `more` after them."""

    __slots__ = ("base", "mask", "more", "shift", "slot", "users")

    def __init__(self, mask: int, base: Cut | None) -> None:
        self.mask, self.base = mask, base
        self.more = self.shift = 0  # what `mask` has over the base's, without `shift` zeros below
        self.users = 0  # nodes that see exactly this, and cuts that start from it
        self.slot: int | None = None  # where the values are kept until the last user has come


class Strand:
    """Channels that are folded together: what the nodes of a region see of them."""

    def __init__(self, ranks: Ranks, writers: Group, channels: Mapping[str, Channel]) -> None:
        self.ranks, self.mask, self.channels = ranks, ranks.bits(writers.nodes), channels
        self.names: set[str] = set()  # those that somebody reads
        self.whole = False  # all are read
        self.cuts: dict[int, Cut] = {}
        self.slots: list[int] = []  # of the writes, by rank

    def cut(self, i: int) -> Cut | None:
        """What the node at a position sees; None when nobody above it writes."""
        mask = self.ranks.above[i] & self.mask
        if not mask:
            return None
        found = self.cuts.get(mask)
        if found is None:
            found = self.cuts[mask] = Cut(mask, None)
        found.users += 1
        return found

    def join(self, region: Region, slots: list[int]) -> None:
        """Let each cut start from the longest beginning it shares with another.

        Sorted by their lowest ranks first, cuts that begin alike are neighbours, so one pass with
        a stack of the beginnings of the last one makes the tree of them.
        """
        self.slots = slots
        size = len(slots) // 8 + 1
        stack, made = [Cut(0, None)], []
        for mask in sorted(self.cuts, key=lambda mask: mask.to_bytes(size, "little").translate(_REVERSED)):
            differ = stack[-1].mask ^ mask
            common = mask & ((differ & -differ) - 1)
            below = None
            while stack[-1].mask > common:
                below = stack.pop()
            if below is not None and stack[-1].mask < common:
                below.base = Cut(common, stack[-1])
                stack.append(below.base)
                made.append(below.base)
            cut = self.cuts[mask]
            cut.base = stack[-1]
            stack.append(cut)
            made.append(cut)
        for cut in made:
            assert cut.base is not None
            cut.base.users += 1
            more = cut.mask ^ cut.base.mask
            cut.shift = (more & -more).bit_length() - 1
            cut.more = more >> cut.shift
        for cut in made:
            if cut.users > 1:
                cut.slot = region.slot()

    def values(self, frame: Frame, cut: Cut) -> Values:
        """The values after the writes of a cut, to be looked at only; each user asks once."""
        missing: list[Cut] = []
        values: Values | None = None
        at: Cut = cut
        while values is None:
            slot = at.slot
            kept = None if slot is None else frame[slot]
            if slot is not None and kept is not None:
                values = kept[0]
                kept[1] -= 1
                if not kept[1]:
                    frame[slot] = None
            elif at.base is None:
                state = frame[STATE]
                values = state if self.whole else {name: state[name] for name in self.names if name in state}
            else:
                missing.append(at)
                at = at.base
        for at in reversed(missing):
            writes = self._writes(frame, at)
            if writes:
                values = fold(self.channels, values, writes)
            if at.slot is not None:
                frame[at.slot] = [values, at.users - 1]
        return values

    def _writes(self, frame: Frame, cut: Cut) -> list[tuple[str, Json]]:
        slots, shift = self.slots, cut.shift
        written = (frame[slots[shift + bit]] for bit in _bits(cut.more))
        if self.whole:
            return [write for writes in written if writes for write in writes]
        # A writer may write other channels too; those are not seen here.
        names = self.names
        return [write for writes in written if writes for write in writes if write[0] in names]


class FoldPlan:
    """For one unordered region: what each node sees of the state, and the writes of all."""

    def __init__(self, region: Region, written: list[Written], channels: Mapping[str, Channel]) -> None:
        body = region.graph
        self.channels, self.spots = channels, [region.spots[node.id] for node in body.nodes]
        position = {node.id: i for i, node in enumerate(body.nodes)}
        needs = [[position[id] for id in body.needs[node.id]] for node in body.nodes]
        self.order = FoldOrder(needs, written, channels)
        self.slots = [region.slot() if names else None for names in written]
        self._strands: dict[Group, Strand] = {}
        self._names: dict[str, frozenset[str]] = {}
        self._seen: dict[str, list[tuple[Strand, Cut, set[str]]]] = {}
        for i, node in enumerate(body.nodes):
            spot = region.spots[node.id]
            spot.writes_slot = self.slots[i]
            names = self._names[node.id] = _reads(node) | self._folded(written[i])
            if names:
                self._seen[node.id] = self._parts(i, names)
            if self._seen.get(node.id) or _writes_twice(node):
                spot.view_slot = region.slot()
        by_rank: dict[Ranks, list[int]] = {}
        for strand in self._strands.values():
            ranks = strand.ranks
            if ranks not in by_rank:
                by_rank[ranks] = [self.slots[i] or 0 for i in ranks.order]
            strand.join(region, by_rank[ranks])

    def _folded(self, written: Written) -> set[str]:
        """The channels whose value decides whether an update is refused."""
        names = self.channels if written is not None and ANY in written else written or ()
        return {name for name in names if not _total(self.channels.get(name))}

    def _parts(self, i: int, names: frozenset[str]) -> list[tuple[Strand, Cut, set[str]]]:
        """The strands that hold these channels, where somebody above the node writes them."""
        shared, writers = self.order.shared, self.order.writers
        found: dict[Group, set[str]] = {}
        if ANY in names and shared is not None:
            found[self.order.everybody] = {ANY}
        else:
            for name in writers if ANY in names else names:
                group = writers.get(name)
                if group is not None and group.nodes:
                    found.setdefault(group, set()).add(name)
        parts = []
        for group, of in found.items():
            strand = self._strands.get(group)
            if strand is None:
                strand = self._strands[group] = Strand(self.order.ranks(group), group, self.channels)
            cut = strand.cut(i)
            if cut is not None:
                strand.names |= of
                strand.whole = strand.whole or ANY in of
                parts.append((strand, cut, of))
        return parts

    def view(self, spot: Spot) -> Callable[[Frame], Values] | None:
        """The getter of the state that a node sees, None where that is the region's own."""
        if spot.view_slot is None:
            return None
        parts, names = self._seen.get(spot.id), self._names[spot.id]
        if not parts:
            return itemgetter(STATE)
        if len(parts) == 1:
            strand, cut, of = parts[0]
            if ANY in of or of == names:
                return lambda frame: strand.values(frame, cut)

        def see(frame: Frame) -> Values:
            base = frame[STATE]
            values = dict(base) if ANY in names else {name: base[name] for name in names if name in base}
            for strand, cut, of in parts:
                found = strand.values(frame, cut)
                values.update((name, found[name]) for name in of if name in found)
            return values

        return see

    def keeper(self, spot: Spot) -> Callable[[Frame, Writes], None]:
        """How a node's writes are kept for those after it. An update that cannot be folded fails
        this node, not a later one; what the node still evaluates sees the writes."""
        slot, view, names, channels = spot.writes_slot, spot.view_slot, self._names[spot.id], self.channels
        assert slot is not None
        again, whole = _writes_twice(spot.node), ANY in names

        def keep(frame: Frame, writes: Writes) -> None:
            state = frame[STATE]
            seen = state if view is None else frame[view]
            check_fold(channels, seen, state, writes)
            if again and view is not None:
                frame[view] = fold(channels, seen, [write for write in writes if whole or write[0] in names])
            frame[slot] = [*(frame[slot] or ()), *writes]

        return keep

    def fold_each(self, frame: Frame, state: dict[str, Json]) -> tuple[Spot, InvalidValue] | None:
        """Fold the writes of one node after the other into `state`, without those that do not fold onto
        the ones before; the first node that has such, and why."""
        refused: tuple[Spot, InvalidValue] | None = None
        shared = self.order.shared
        for i in shared.order if shared is not None else range(len(self.slots)):
            slot = self.slots[i]
            try:
                fold_into(self.channels, state, (frame[slot] if slot is not None else None) or ())
            except InvalidValue as exc:
                refused = refused or (self.spots[i], exc)
        return refused

    def all_writes(self, frame: Frame) -> list[tuple[str, Json]]:
        """Every write of the region in fold order."""
        slots, order = self.slots, self.order
        if order.shared is not None:
            in_order = [slots[i] for i in order.shared.order]
            return [write for slot in in_order if slot is not None for write in frame[slot] or ()]
        by_name: dict[str, dict[int, list[tuple[str, Json]]]] = {}
        for i, slot in enumerate(slots):
            for write in (frame[slot] if slot is not None else None) or ():
                by_name.setdefault(write[0], {}).setdefault(i, []).append(write)
        return [
            write
            for name, of in by_name.items()
            for i in order.ranks(order.writers[name]).order
            if i in of
            for write in of[i]
        ]


def _total(channel: Channel | None) -> bool:
    reducer = None if channel is None else REDUCERS.get(channel.reduce)
    return reducer is not None and reducer.total


def _writes_twice(node: Node) -> bool:
    """Whether a node writes after regions inside it did: it sees their writes then."""
    return node.writes is not None and writes_inside(node) is not None


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


def _bits(mask: int) -> Iterator[int]:
    """The places of the ones, from the lowest."""
    digits = bin(mask)[:1:-1]
    at = digits.find("1")
    while at >= 0:
        yield at
        at = digits.find("1", at + 1)
