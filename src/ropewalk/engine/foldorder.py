"""In which order the writes of a region without order are folded.

Per channel: a writer's ancestors before it, otherwise as declared, so the later of two parallel
nodes wins whatever finished first. Sets of nodes are bit sets over ranks, an order in which every
node stands after its ancestors and the writers of a channel stand in the order of its fold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from heapq import heappop, heappush
from itertools import pairwise

from ..expr.ast import Obj
from ..ir import Node, bodies

ANY = "*"  # a set of names with this member may hold any name

Written = frozenset[str] | None
Needs = list[list[int]]


def writes_of(node: Node) -> Written:
    """The channels a node may write, its regions included; None when none, `{"*"}` when unknown."""
    if node.writes is None:
        return writes_inside(node)
    found = set(writes_inside(node) or ())
    if isinstance(node.writes, Obj):
        found.update(key for key, _ in node.writes.fields)
    else:
        found.add(ANY)
    return frozenset(found) or None


def writes_inside(node: Node) -> Written:
    """The channels that the regions of a node may write."""
    return frozenset(name for body in bodies(node) for inner in body.nodes for name in writes_of(inner) or ()) or None


class Ranks:
    """One order of the nodes, ancestors first: `order` has positions by rank, `rank` ranks by position."""

    def __init__(self, needs: Needs, order: list[int]) -> None:
        self.needs, self.order = needs, order
        self.rank = [0] * len(order)
        for rank, i in enumerate(order):
            self.rank[i] = rank

    @cached_property
    def above(self) -> list[int]:
        """The ancestors of each node."""
        above, rank = [0] * len(self.order), self.rank
        for i in self.order:
            found = 0
            for need in self.needs[i]:
                found |= above[need] | 1 << rank[need]
            above[i] = found
        return above

    def bits(self, positions: Iterable[int]) -> int:
        found = 0
        for i in positions:
            found |= 1 << self.rank[i]
        return found


class Group:
    """The nodes that write some channel, as positions; channels with the same writers share one."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: tuple[int, ...]) -> None:
        self.nodes = nodes


class FoldOrder:
    """For one unordered region: the writers of each channel in the order of its fold.

    `shared` is one order that is right for every group of writers. It exists unless channels
    contradict each other (x folds a before b, y b before c, and c has to run before a); then each
    group has its own.
    """

    def __init__(self, needs: Needs, written: list[Written], channels: Iterable[str]) -> None:
        self.needs, self.written = needs, written
        by_name: dict[str, list[int]] = {name: [] for name in channels}
        unknown = [i for i, names in enumerate(written) if names is not None and ANY in names]
        for i, names in enumerate(written):
            for name in names or ():
                by_name.setdefault(name, []).append(i)
        by_name.pop(ANY, None)
        groups: dict[tuple[int, ...], Group] = {}
        self.everybody = _group(groups, [i for i, names in enumerate(written) if names])
        self.writers = {
            name: _group(groups, sorted({*known, *unknown}) if known and unknown else known or unknown)
            for name, known in by_name.items()
        }
        self.shared: Ranks | None
        self._ranks: dict[Group, Ranks] = {}
        if all(need < i for i, before in enumerate(needs) for need in before):
            self.shared = Ranks(needs, list(range(len(needs))))
        else:
            self._base = Ranks(needs, _topological(needs))
            order = self._refined(self._sequence(group.nodes) for group in set(self.writers.values()))
            self.shared = Ranks(needs, order) if len(order) == len(needs) else None

    def ranks(self, group: Group) -> Ranks:
        """An order that is right for the channels that a group writes."""
        if self.shared is not None:
            return self.shared
        if group not in self._ranks:
            self._ranks[group] = Ranks(self.needs, self._refined([self._sequence(group.nodes)]))
        return self._ranks[group]

    def _refined(self, sequences: Iterable[list[int]]) -> list[int]:
        """The nodes in an order that has these sequences in it; fewer nodes when there is none."""
        needs = [list(before) for before in self.needs]
        for sequence in sequences:
            for before, after in pairwise(sequence):
                needs[after].append(before)
        return _topological(needs)

    def _sequence(self, group: tuple[int, ...]) -> list[int]:
        """Some nodes with ancestors before descendants, and otherwise as declared."""
        if len(group) ** 2 > len(self.needs):
            return _walked(self.needs, group)
        left, found = list(group), []
        above, rank, remaining = self._base.above, self._base.rank, self._base.bits(group)
        while left:
            first = next(i for i in left if not above[i] & remaining)
            left.remove(first)
            remaining &= ~(1 << rank[first])
            found.append(first)
        return found


def _group(known: dict[tuple[int, ...], Group], nodes: list[int]) -> Group:
    found = Group(tuple(nodes))
    return known.setdefault(found.nodes, found)


def _walked(needs: Needs, group: tuple[int, ...]) -> list[int]:
    """The same in one walk over all nodes: those outside the group are passed as soon as they can be."""
    then, left, found = _then(needs), [len(before) for before in needs], []
    member = set(group)
    passed = [i for i, count in enumerate(left) if not count]
    waiting: list[int] = []
    while passed or waiting:
        if passed:
            i = passed.pop()
            if i in member:
                heappush(waiting, i)
                continue
        else:
            i = heappop(waiting)
            found.append(i)
        passed.extend(_released(then[i], left))
    return found


def in_sequence(needs: Needs) -> list[int] | None:
    """The one order in which the nodes can run; None where there is more than one."""
    order = _topological(needs)
    return order if all(before in needs[after] for before, after in pairwise(order)) else None


def _topological(needs: Needs) -> list[int]:
    """Every node after those it needs; without the nodes that stand in or behind a cycle."""
    then, left = _then(needs), [len(before) for before in needs]
    order = [i for i, count in enumerate(left) if not count]
    for i in order:
        order.extend(_released(then[i], left))
    return order


def _then(needs: Needs) -> Needs:
    then: Needs = [[] for _ in needs]
    for i, before in enumerate(needs):
        for need in before:
            then[need].append(i)
    return then


def _released(after: list[int], left: list[int]) -> Iterator[int]:
    for i in after:
        left[i] -= 1
        if not left[i]:
            yield i
