"""State in an unordered region: a node sees the writes of its ancestors, folded in a fixed order.

Per channel the order is: a writer's ancestors before it, otherwise as declared. So the later of two parallel nodes
wins, whichever finished first. Sets of nodes are bit sets over ranks. A rank is a position in an order in which every
node comes after its ancestors, and the writers of a channel come in the order of its fold.

`StatePlan` plans the state of each node when the program is built: `Builder.region` makes one for every unordered
region that writes. Channels with the same writers (a `Group`) are folded together in one `StateView`. Nodes that see
the writes of the same ancestors share one `SeenWrites`. It starts from the longest beginning, in fold order, that it
shares with another one. So a run folds each write about once, and not again for every node below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from heapq import heappop, heappush
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final, NamedTuple

from ...errors import InvalidValue
from ...expr.ast import Obj, refs
from ...ir import Channel, Graph, Node, Writes, bodies, node_parts
from ...state import REDUCERS, check_fold, fold, fold_into
from ...values import Json
from ..frame import STATE, Frame, NodeSlot, Region

ANY = "*"  # a set of names with this member may hold any name

WrittenNames = frozenset[str] | None
Needs = list[list[int]]


def writes_of(node: Node) -> WrittenNames:
    """Return the channels that a node may write, including its regions; None for none, `{"*"}` if unknown."""
    if node.writes is None:
        return writes_inside(node)
    names = set(writes_inside(node) or ())
    if isinstance(node.writes, Obj):
        names.update(key for key, _ in node.writes.fields)
    else:
        names.add(ANY)
    return frozenset(names) or None


def writes_inside(node: Node) -> WrittenNames:
    """Return the channels that the regions of a node may write."""
    entered = bodies(node)
    if not entered:
        return None
    return frozenset(name for body in entered for inner in body.nodes for name in writes_of(inner) or ()) or None


class Ranks:
    """One order of the nodes with ancestors first: `order` has positions by rank, `rank` has ranks by position."""

    def __init__(self, needs: Needs, order: list[int]) -> None:
        self.needs, self.order = needs, order
        self.rank = [0] * len(order)
        for rank, i in enumerate(order):
            self.rank[i] = rank

    @cached_property
    def ancestors(self) -> list[int]:
        """The ancestors of each node, as bit sets."""
        ancestors, rank = [0] * len(self.order), self.rank
        for i in self.order:
            bits = 0
            for need in self.needs[i]:
                bits |= ancestors[need] | 1 << rank[need]
            ancestors[i] = bits
        return ancestors

    def bits(self, positions: Iterable[int]) -> int:
        """Return a set of positions as a bit set over ranks."""
        bits = 0
        for i in positions:
            bits |= 1 << self.rank[i]
        return bits


class Group:
    """The nodes that write some channel, as positions; channels with the same writers share one group."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: tuple[int, ...]) -> None:
        self.nodes = nodes


class WriteOrder:
    """The writers of each channel of an unordered region, in the order of its fold."""

    # `shared` is one order that is right for every group of writers. It does not exist if channels contradict each
    # other (x folds a before b, y folds b before c, and c must run before a); then each group has its own.

    def __init__(self, needs: Needs, written: list[WrittenNames], channels: Iterable[str]) -> None:
        self.needs, self.written = needs, written
        by_name: dict[str, list[int]] = {name: [] for name in channels}
        unknown = [i for i, names in enumerate(written) if names is not None and ANY in names]
        for i, names in enumerate(written):
            for name in names or ():
                by_name.setdefault(name, []).append(i)
        by_name.pop(ANY, None)
        # A node that may write any channel is a writer of each.
        groups: dict[tuple[int, ...], Group] = {}
        self.everybody = _group(groups, [i for i, names in enumerate(written) if names])
        self.writers = {
            name: _group(groups, sorted({*nodes, *unknown}) if nodes and unknown else nodes or unknown)
            for name, nodes in by_name.items()
        }
        # Nodes that are declared after everything they need already have one right order.
        self.shared: Ranks | None
        self._ranks: dict[Group, Ranks] = {}
        if all(need < i for i, before in enumerate(needs) for need in before):
            self.shared = Ranks(needs, list(range(len(needs))))
        else:
            self._base = Ranks(needs, _topological(needs))
            order = self._refined(self._sequence(group.nodes) for group in set(self.writers.values()))
            self.shared = Ranks(needs, order) if len(order) == len(needs) else None

    def ranks(self, group: Group) -> Ranks:
        """Return an order that is right for the channels that a group writes."""
        if self.shared is not None:
            return self.shared
        if group not in self._ranks:
            self._ranks[group] = Ranks(self.needs, self._refined([self._sequence(group.nodes)]))
        return self._ranks[group]

    def _refined(self, sequences: Iterable[list[int]]) -> list[int]:
        """Return the nodes in an order that contains these sequences; fewer nodes if there is none."""
        needs = [list(before) for before in self.needs]
        for sequence in sequences:
            for before, after in pairwise(sequence):
                needs[after].append(before)
        return _topological(needs)

    def _sequence(self, group: tuple[int, ...]) -> list[int]:
        """Return some nodes with ancestors before descendants, and otherwise as declared."""
        if len(group) ** 2 > len(self.needs):
            return _sequence_by_walk(self.needs, group)
        waiting, sequence = list(group), []
        ancestors, rank, remaining = self._base.ancestors, self._base.rank, self._base.bits(group)
        while waiting:
            first = next(i for i in waiting if not ancestors[i] & remaining)
            waiting.remove(first)
            remaining &= ~(1 << rank[first])
            sequence.append(first)
        return sequence


def _group(known: dict[tuple[int, ...], Group], nodes: list[int]) -> Group:
    group = Group(tuple(nodes))
    return known.setdefault(group.nodes, group)


def _sequence_by_walk(needs: Needs, group: tuple[int, ...]) -> list[int]:
    """Return what `_sequence` returns, by one walk over all nodes, which is faster for large groups."""
    dependents, open_needs, sequence = _dependents(needs), [len(before) for before in needs], []
    member = set(group)
    outside = [i for i, count in enumerate(open_needs) if not count]
    waiting: list[int] = []
    while outside or waiting:
        if outside:
            i = outside.pop()
            if i in member:
                heappush(waiting, i)
                continue
        else:
            i = heappop(waiting)
            sequence.append(i)
        outside.extend(_release(dependents[i], open_needs))
    return sequence


def in_sequence(needs: Needs) -> list[int] | None:
    """Return the only order in which the nodes can run; None if there is more than one."""
    order = _topological(needs)
    return order if all(before in needs[after] for before, after in pairwise(order)) else None


def _topological(needs: Needs) -> list[int]:
    """Return every node after those that it needs, leaving out the nodes in or after a cycle."""
    dependents, open_needs = _dependents(needs), [len(before) for before in needs]
    order = [i for i, count in enumerate(open_needs) if not count]
    for i in order:
        order.extend(_release(dependents[i], open_needs))
    return order


def _dependents(needs: Needs) -> Needs:
    """Return the positions of the nodes that need each node."""
    dependents: Needs = [[] for _ in needs]
    for i, before in enumerate(needs):
        for need in before:
            dependents[need].append(i)
    return dependents


def _release(dependents: list[int], open_needs: list[int]) -> Iterator[int]:
    """Count down the open needs of some nodes, and yield those that have none left."""
    for i in dependents:
        open_needs[i] -= 1
        if not open_needs[i]:
            yield i


Values = Mapping[str, Json]
_REVERSED: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


class SeenWrites:
    """The writes that some nodes see, as a bit set over ranks: those of `base`, and `more` after them."""

    # Nodes that see the same writes share one. The values after these writes are folded when the first of them starts.

    __slots__ = ("base", "mask", "more", "shift", "slot", "users")

    def __init__(self, mask: int, base: SeenWrites | None) -> None:
        self.mask, self.base = mask, base
        self.more = self.shift = 0  # the bits that `mask` has and the base has not, shifted right by `shift`
        self.users = 0  # nodes that see exactly this, and other sets that start from it
        self.slot: int | None = None  # keeps the values until the last user has read them


class StateView:
    """Channels that are folded together, and the values that the nodes of a region see."""

    def __init__(self, ranks: Ranks, writers: Group, channels: Mapping[str, Channel]) -> None:
        self.ranks, self.mask, self.channels = ranks, ranks.bits(writers.nodes), channels
        self.names: set[str] = set()  # channels that some node reads
        self.reads_all = False
        self.seen_sets: dict[int, SeenWrites] = {}
        self.slots: list[int] = []  # of the writes, by rank

    def seen_by(self, i: int) -> SeenWrites | None:
        """Return the writes that the node at a position sees; None if no node above it writes."""
        mask = self.ranks.ancestors[i] & self.mask
        if not mask:
            return None
        seen = self.seen_sets.get(mask)
        if seen is None:
            seen = self.seen_sets[mask] = SeenWrites(mask, None)
        seen.users += 1
        return seen

    def join(self, region: Region, slots: list[int]) -> None:
        """Let each set of writes start from the longest beginning that it shares with another one."""

        # If the sets are sorted by their lowest ranks, those with equal beginnings are neighbours. So one pass builds
        # their tree, with a stack of the beginnings of the last set.
        self.slots = slots
        size = len(slots) // 8 + 1
        stack: list[SeenWrites] = [SeenWrites(0, None)]
        every: list[SeenWrites] = []
        for mask in sorted(self.seen_sets, key=lambda mask: mask.to_bytes(size, "little").translate(_REVERSED)):
            # The writes below the lowest rank in which this set and the last one differ.
            difference = stack[-1].mask ^ mask
            common = mask & ((difference & -difference) - 1)
            longer = None
            while stack[-1].mask > common:
                longer = stack.pop()
            if longer is not None and stack[-1].mask < common:
                longer.base = SeenWrites(common, stack[-1])
                stack.append(longer.base)
                every.append(longer.base)
            seen = self.seen_sets[mask]
            seen.base = stack[-1]
            stack.append(seen)
            every.append(seen)
        # Every set now has its base; note the rest, and give a slot to values with several users.
        for seen in every:
            assert seen.base is not None
            seen.base.users += 1
            more = seen.mask ^ seen.base.mask
            seen.shift = (more & -more).bit_length() - 1
            seen.more = more >> seen.shift
        for seen in every:
            if seen.users > 1:
                seen.slot = region.slot()

    def values(self, frame: Frame, seen: SeenWrites) -> Values:
        """Return the values after the writes of a set, for reading only."""

        # Each user calls it once.
        # Go down to the nearest values that exist, then fold the missing writes back up.
        missing: list[SeenWrites] = []
        values: Values | None = None
        at: SeenWrites = seen
        while values is None:
            slot = at.slot
            cached = None if slot is None else frame[slot]
            if slot is not None and cached is not None:
                values = cached[0]
                cached[1] -= 1
                if not cached[1]:
                    frame[slot] = None
            elif at.base is None:
                state = frame[STATE]
                values = state if self.reads_all else {name: state[name] for name in self.names if name in state}
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

    def _writes(self, frame: Frame, seen: SeenWrites) -> list[tuple[str, Json]]:
        slots, shift = self.slots, seen.shift
        node_writes = (frame[slots[shift + bit]] for bit in _bits(seen.more))
        if self.reads_all:
            return [write for writes in node_writes if writes for write in writes]
        # A writer may write other channels too; those are not seen here.
        names = self.names
        return [write for writes in node_writes if writes for write in writes if write[0] in names]


class ViewPart(NamedTuple):
    """A part of the state that a node sees: a view, the writes in it that the node sees, and the channels it reads."""

    view: StateView
    seen: SeenWrites
    names: set[str]


class RefusedWrites(NamedTuple):
    """A node whose writes do not fit the state, and the error."""

    node_slot: NodeSlot
    error: InvalidValue


class StatePlan:
    """The state that each node of an unordered region sees, and the writes of all."""

    def __init__(self, region: Region, written: list[WrittenNames], channels: Mapping[str, Channel]) -> None:
        body = region.graph
        self.channels, self.node_slots = channels, [region.node_slots[node.id] for node in body.nodes]
        position = {node.id: i for i, node in enumerate(body.nodes)}
        needs = [[position[id] for id in body.needs[node.id]] for node in body.nodes]
        self.order = WriteOrder(needs, written, channels)
        self.slots = [region.slot() if names else None for names in written]
        self._views: dict[Group, StateView] = {}
        self._names: dict[str, frozenset[str]] = {}
        self._view_parts: dict[str, list[ViewPart]] = {}
        # A node sees the channels that it reads, and those that decide whether its own update is refused.
        for i, node in enumerate(body.nodes):
            node_slot = region.node_slots[node.id]
            node_slot.writes_slot = self.slots[i]
            names = self._names[node.id] = _reads(node) | self._names_that_refuse(written[i])
            if names:
                self._view_parts[node.id] = self._parts(i, names)
            if self._view_parts.get(node.id) or _writes_twice(node):
                node_slot.view_slot = region.slot()
        # Views with the same order share the list of write slots.
        by_rank: dict[Ranks, list[int]] = {}
        for view in self._views.values():
            ranks = view.ranks
            if ranks not in by_rank:
                by_rank[ranks] = [self.slots[i] or 0 for i in ranks.order]
            view.join(region, by_rank[ranks])

    def _names_that_refuse(self, written: WrittenNames) -> set[str]:
        """Return the channels whose value decides whether an update is refused."""
        names = self.channels if written is not None and ANY in written else written or ()
        return {name for name in names if not _total(self.channels.get(name))}

    def _parts(self, i: int, names: frozenset[str]) -> list[ViewPart]:
        """Return the views that hold these channels, if a node above writes them, with their seen_sets and channels."""
        shared, writers = self.order.shared, self.order.writers
        by_group: dict[Group, set[str]] = {}
        if ANY in names and shared is not None:
            by_group[self.order.everybody] = {ANY}
        else:
            for name in writers if ANY in names else names:
                group = writers.get(name)
                if group is not None and group.nodes:
                    by_group.setdefault(group, set()).add(name)
        parts: list[ViewPart] = []
        for group, names_of_group in by_group.items():
            view = self._views.get(group)
            if view is None:
                view = self._views[group] = StateView(self.order.ranks(group), group, self.channels)
            seen = view.seen_by(i)
            if seen is not None:
                view.names |= names_of_group
                view.reads_all = view.reads_all or ANY in names_of_group
                parts.append(ViewPart(view, seen, names_of_group))
        return parts

    def view(self, node_slot: NodeSlot) -> Callable[[Frame], Values] | None:
        """Return the getter of the state that a node sees; None if that is the region's own."""
        if node_slot.view_slot is None:
            return None
        parts, names = self._view_parts.get(node_slot.id), self._names[node_slot.id]
        if not parts:
            return itemgetter(STATE)
        if len(parts) == 1:
            view, seen, names_in_view = parts[0]
            if ANY in names_in_view or names_in_view == names:
                return lambda frame: view.values(frame, seen)

        def merge_views(frame: Frame) -> Values:
            base = frame[STATE]
            values = dict(base) if ANY in names else {name: base[name] for name in names if name in base}
            for part in parts:
                part_values = part.view.values(frame, part.seen)
                values.update((name, part_values[name]) for name in part.names if name in part_values)
            return values

        return merge_views

    def write_keeper(self, node_slot: NodeSlot) -> Callable[[Frame, Writes], None]:
        """Return the function that keeps a node's writes for the nodes after it."""

        # An update that cannot be folded fails this node, not a later one. Whatever the node still evaluates sees its
        # writes.
        slot, view, channels = node_slot.writes_slot, node_slot.view_slot, self.channels
        names = self._names[node_slot.id]
        assert slot is not None
        writes_twice, reads_all = _writes_twice(node_slot.node), ANY in names

        def keep(frame: Frame, writes: Writes) -> None:
            state = frame[STATE]
            view_state = state if view is None else frame[view]
            check_fold(channels, view_state, state, writes)
            if writes_twice and view is not None:
                frame[view] = fold(channels, view_state, [write for write in writes if reads_all or write[0] in names])
            frame[slot] = [*(frame[slot] or ()), *writes]

        return keep

    def fold_each(self, frame: Frame, state: dict[str, Json]) -> RefusedWrites | None:
        """Fold the writes of one node after the other into `state`, leaving out those that do not fit."""
        refused: RefusedWrites | None = None
        shared = self.order.shared
        for i in shared.order if shared is not None else range(len(self.slots)):
            slot = self.slots[i]
            try:
                fold_into(self.channels, state, (frame[slot] if slot is not None else None) or ())
            except InvalidValue as exc:
                refused = refused or RefusedWrites(self.node_slots[i], exc)
        return refused

    def all_writes(self, frame: Frame) -> list[tuple[str, Json]]:
        """Return every write of the region in fold order."""
        slots, order = self.slots, self.order
        if order.shared is not None:
            in_order = [slots[i] for i in order.shared.order]
            return [write for slot in in_order if slot is not None for write in frame[slot] or ()]
        by_name: dict[str, dict[int, list[tuple[str, Json]]]] = {}
        for i, slot in enumerate(slots):
            for write in (frame[slot] if slot is not None else None) or ():
                by_name.setdefault(write[0], {}).setdefault(i, []).append(write)
        writes: list[tuple[str, Json]] = []
        for name, by_position in by_name.items():
            for i in order.ranks(order.writers[name]).order:
                writes += by_position.get(i, ())
        return writes


def _total(channel: Channel | None) -> bool:
    reducer = None if channel is None else REDUCERS.get(channel.reduce)
    return reducer is not None and reducer.total


def _writes_twice(node: Node) -> bool:
    """Return True if a node writes after regions inside it did, so that it must see their writes."""
    return node.writes is not None and writes_inside(node) is not None


def _reads(node: Node) -> frozenset[str]:
    """Return the channels that a node or anything inside it reads."""
    names: set[str] = set()

    def collect(part: Any) -> None:
        if isinstance(part, Graph):
            collect(part.result)
            for inner in part.nodes:
                for _, deeper in node_parts(inner):
                    collect(deeper)
        else:
            for ref in refs(part):
                if ref.root == "state":
                    names.add(str(ref.path[0]) if ref.path else ANY)

    for _, part in node_parts(node):
        collect(part)
    return frozenset(names)


def _bits(mask: int) -> Iterator[int]:
    """The places of the ones, from the lowest."""
    digits = bin(mask)[:1:-1]
    at = digits.find("1")
    while at >= 0:
        yield at
        at = digits.find("1", at + 1)
