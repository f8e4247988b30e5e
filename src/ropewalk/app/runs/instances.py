"""The record of a run, laid over its flow: a tree of regions, node instances and their attempts.

A path is a function of position, index and attempt (`each[3]/fetch@2`). Ids contain none of `/ [ ] @`, so every path
has one meaning. An entry that is at no position of the flow is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from ...ir import Graph, Node, bodies
from ...journal.protocol import Entry
from ...ops import Branch, Program

SEGMENT = re.compile(r"([^/@\[\]]+)(?:@(\d+))?(?:\[([\w.:-]+)\])?")
"""One segment of a path: the id of a node, the number of its attempt, and the label of its region."""
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
        """Return an attempt by its number, which counts from 1; it is created if it is new."""
        result = self.attempts.get(number)
        if result is None:
            path = self.base if number == 1 else f"{self.base}@{number}"
            result = self.attempts[number] = Attempt(self, path)
        return result

    @property
    def last(self) -> Attempt:
        """The last attempt, which counts."""
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
            result = self.at(entry.path, make=True)
            if result is not None:
                result.facts[entry.kind] = entry

    def at(self, path: str, *, make: bool = False) -> Attempt | None:
        """Return the attempt at a path."""
        region: Region | None = self.root
        result: Attempt | None = None
        label = ""
        for text in path.split("/"):
            if result is not None:
                region = self._region(result, label, make)
            segment = SEGMENT.fullmatch(text)
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
            result = instance.attempt(number)
        return None if label else result

    def _region(self, owner: Attempt, label: str, make: bool) -> Region | None:
        region = owner.inside.get(label)
        if region is None and make:
            graph = body_at(owner.instance.node, label)
            if graph is not None:
                prefix = f"{owner.path}{f'[{label}]' if label else ''}/"
                region = owner.inside[label] = Region(graph, prefix, owner, label)
        return region

    def _by_id(self, graph: Graph) -> dict[str, Node]:
        result = self._nodes.get(id(graph))
        if result is None:
            result = self._nodes[id(graph)] = {node.id: node for node in graph.nodes}
        return result

    def current(self) -> Iterator[Instance]:
        """Yield every node instance that has started, without those inside abandoned attempts."""
        waiting = [self.root]
        while waiting:
            for instance in waiting.pop().nodes.values():
                yield instance
                waiting += instance.last.inside.values()


def body_at(node: Node, label: str) -> Graph | None:
    """Return the region of a node by the label that paths have."""
    if isinstance(node.op, Branch):
        if label == "else":
            return node.op.default
        arms = node.op.arms
        return arms[int(label)][1] if label.isdecimal() and int(label) < len(arms) else None
    result = bodies(node)
    if isinstance(node.op, Program):
        return _region_of_any_tool(node.op)
    return result[0] if result else None


@lru_cache(maxsize=64)
def _region_of_any_tool(program: Program) -> Graph:
    """Return the nodes of all regions of a program: the label of a step does not say which tool it calls."""
    return Graph(nodes=tuple(node for _, body in program.tools for node in body.nodes))


def without_attempts(path: str) -> str:
    """Remove the attempt numbers from a path, as idempotency keys have it."""
    return _ATTEMPTS.sub("", path)
