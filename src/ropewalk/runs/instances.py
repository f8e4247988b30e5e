"""What a run has recorded, laid over its flow: a tree of regions, node instances and their attempts.

A path is a function of position, index and attempt (`each[3]/fetch@2`), and ids have none of `/ [ ] @` in them, so
paths are read without doubt. An entry that is at no position of the flow is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..ir import Graph, Node, bodies
from ..journal.journal import Entry
from ..ops import Branch

_SEGMENT = re.compile(r"([^/@\[\]]+)(?:@(\d+))?(?:\[(\w+)\])?")
_ATTEMPTS = re.compile(r"@\d+")


class Attempt:
    """One try of a node: what is recorded of it by kind, and the regions it entered, by label."""

    __slots__ = ("facts", "inside", "instance", "path")

    def __init__(self, instance: Instance, path: str) -> None:
        self.instance, self.path = instance, path
        self.facts: dict[str, Entry] = {}
        self.inside: dict[str, Region] = {}


class Instance:
    """A node in one run of its region; `base` is its path without its own attempts."""

    __slots__ = ("attempts", "base", "node", "region")

    def __init__(self, node: Node, region: Region) -> None:
        self.node, self.region, self.base = node, region, region.prefix + node.id
        self.attempts: dict[int, Attempt] = {}

    def attempt(self, number: int) -> Attempt:
        found = self.attempts.get(number)
        if found is None:
            path = self.base if number == 1 else f"{self.base}@{number}"
            found = self.attempts[number] = Attempt(self, path)
        return found

    @property
    def last(self) -> Attempt:
        """The attempt that the others led to."""
        return self.attempts[max(self.attempts)]


class Region:
    """One run of a region: `label` tells the rounds, items or arms of its owner apart."""

    __slots__ = ("graph", "label", "nodes", "owner", "prefix")

    def __init__(self, graph: Graph, prefix: str, owner: Attempt | None, label: str) -> None:
        self.graph, self.prefix, self.owner, self.label = graph, prefix, owner, label
        self.nodes: dict[str, Instance] = {}


class Instances:
    """The tree of one run."""

    def __init__(self, body: Graph, entries: Iterable[Entry]) -> None:
        self.root = Region(body, "", None, "")
        self._nodes: dict[int, dict[str, Node]] = {}
        for entry in entries:
            found = self.at(entry.path, make=True)
            if found is not None:
                found.facts[entry.kind] = entry

    def at(self, path: str, *, make: bool = False) -> Attempt | None:
        """The attempt at a path; None where the flow has no such position (or, unless `make`, nothing is recorded)."""
        region: Region | None = self.root
        found: Attempt | None = None
        label = ""
        for text in path.split("/"):
            if found is not None:
                region = self._region(found, label, make)
            segment = _SEGMENT.fullmatch(text)
            if region is None or segment is None:
                return None
            id, number, label = segment[1], int(segment[2] or 1), segment[3] or ""
            instance = region.nodes.get(id)
            if instance is None:
                node = self._by_id(region.graph).get(id)
                if node is None or not make:
                    return None
                instance = region.nodes[id] = Instance(node, region)
            if not make and number not in instance.attempts:
                return None
            found = instance.attempt(number)
        return None if label else found

    def _region(self, owner: Attempt, label: str, make: bool) -> Region | None:
        region = owner.inside.get(label)
        if region is None and make:
            graph = body_at(owner.instance.node, label)
            if graph is not None:
                prefix = f"{owner.path}{f'[{label}]' if label else ''}/"
                region = owner.inside[label] = Region(graph, prefix, owner, label)
        return region

    def _by_id(self, graph: Graph) -> dict[str, Node]:
        found = self._nodes.get(id(graph))
        if found is None:
            found = self._nodes[id(graph)] = {node.id: node for node in graph.nodes}
        return found

    def current(self) -> Iterator[Instance]:
        """Every node instance that has begun, those inside attempts that were given up for another left out."""
        waiting = [self.root]
        while waiting:
            for instance in waiting.pop().nodes.values():
                yield instance
                waiting += instance.last.inside.values()


def body_at(node: Node, label: str) -> Graph | None:
    """The region of a node that a label in a path is of."""
    if isinstance(node.op, Branch):
        if label == "else":
            return node.op.default
        arms = node.op.arms
        return arms[int(label)][1] if label.isdecimal() and int(label) < len(arms) else None
    found = bodies(node)
    return found[0] if found else None


def without_attempts(path: str) -> str:
    """A path as idempotency keys have it."""
    return _ATTEMPTS.sub("", path)
