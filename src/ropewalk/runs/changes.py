"""What differs between two versions of a flow, node by node, and what of it a change reaches.

A place is a path without attempts, items and rounds: `each/fetch`, `choice[0]/mail`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from ..expr.ast import refs
from ..frozen import dataclass
from ..ir import Flow, Graph, Node, node_parts
from ..ops import Branch
from .cone import Cone
from .instances import Instance, Instances, Region, body_at

_SHAPE = ("ordered", "limit", "result")


@dataclass(frozen=True, slots=True)
class Change:
    """A node that was `added`, `removed` or `changed`; then `fields` say in what. The place "" is the flow itself."""

    place: str
    what: str
    fields: tuple[str, ...] = ()
    source: str = ""
    """Where the node stands in the newer document, or in the older one where it was removed."""

    def __str__(self) -> str:
        said = f" in {', '.join(self.fields)}" if self.fields else ""
        return f"{self.place or 'the definition'}: {self.what}{said}"


def changes(old: Flow, new: Flow) -> list[Change]:
    """Every difference that may change what a run does."""
    fields = [name for name in ("state", "input_schema", "output_schema", "timeout") if differs(old, new, name)]
    fields += [name for name in _SHAPE if differs(old.body, new.body, name)]
    top = [Change("", "changed", tuple(fields))] if fields else []
    return [*top, *_in_region(old.body, new.body, "")]


def differs(a: Any, b: Any, name: str) -> bool:
    return bool(getattr(a, name) != getattr(b, name))


def _in_region(old: Graph, new: Graph, prefix: str) -> Iterator[Change]:
    before, after = {n.id: n for n in old.nodes}, {n.id: n for n in new.nodes}
    for id, node in after.items():
        if id not in before:
            yield Change(prefix + id, "added", (), node.meta.source)
            continue
        was = before[id]
        fields = tuple(_fields(was, node))
        if fields:
            yield Change(prefix + id, "changed", fields, node.meta.source)
        if type(was.op) is type(node.op):
            for label in labels(node):
                inner, other = body_at(node, label), body_at(was, label)
                if inner is not None and other is not None:
                    yield from _in_region(other, inner, inside(prefix + id, label))
    for id, node in before.items():
        if id not in after:
            yield Change(prefix + id, "removed", (), node.meta.source)


def _fields(old: Node, new: Node) -> Iterator[str]:
    if type(old.op) is not type(new.op):
        yield "kind"
    else:
        for field in dataclasses.fields(new.op):  # type: ignore[arg-type]
            if _bare(getattr(old.op, field.name)) != _bare(getattr(new.op, field.name)):
                yield new.meta.labels.get(field.name, field.name)
    for name in ("after", "gate", "when", "result", "writes", "policy"):
        if differs(old, new, name):
            yield new.meta.labels.get(name, name)


def _bare(value: Any) -> Any:
    """A field of an op without the nodes in its regions, which are looked at by themselves."""
    if isinstance(value, Graph):
        return tuple(_bare(getattr(value, name)) for name in _SHAPE)
    return tuple(map(_bare, value)) if isinstance(value, tuple) else value


def labels(node: Node) -> list[str]:
    """What tells the regions of a node apart, before any of them has run."""
    if isinstance(node.op, Branch):
        return [*map(str, range(len(node.op.arms))), "else"]
    return [""]


def inside(place: str, label: str) -> str:
    return f"{place}[{label}]/" if label else f"{place}/"


class Reach:
    """What of a flow may come out otherwise: built once over all its places."""

    def __init__(self, flow: Flow) -> None:
        self.flow, self.cone = flow, Cone()
        self._tree = Instances(flow.body, ())
        self._all: dict[str, Instance] = {}
        self._fill(self._tree.root)

    def _fill(self, region: Region) -> None:
        for node in region.graph.nodes:
            instance = region.nodes[node.id] = Instance(node, region)
            self._all[instance.base] = instance
            attempt = instance.attempt(1)
            for label in labels(node):
                graph = body_at(node, label)
                if graph is not None:
                    inner = attempt.inside[label] = Region(graph, inside(instance.base, label), attempt, label)
                    self._fill(inner)

    def change(self, found: list[Change]) -> None:
        """These changes were made."""
        for one in found:
            if not one.place and "state" in one.fields:
                self._where(lambda expr: any(ref.root == "state" for ref in refs(expr)))
            instance = self._all.get(one.place)
            if instance is not None:
                self.cone.again(instance)
                continue
            place = one.place.rpartition("/")[0]  # what stood there is gone; what is around it may come out otherwise
            owner = self._all.get(place.partition("[")[0] if place.endswith("]") else place)
            if owner is not None:
                self.cone.go_on(owner.attempt(1))

    def input(self) -> None:
        """The input is another."""
        self._where(lambda expr: any(ref.root == "input" for ref in refs(expr)))

    def _where(self, reads: Callable[[Any], bool]) -> None:
        for instance in list(self._all.values()):
            for _, part in node_parts(instance.node):
                if not isinstance(part, Graph) and reads(part):
                    self.cone.again(instance)
                elif isinstance(part, Graph) and reads(part.result):
                    self.cone.go_on(instance.attempt(1))


def place_of(instance: Instance) -> str:
    """Where a node of a run stands in its flow."""
    owner = instance.region.owner
    if owner is None:
        return instance.node.id
    label = instance.region.label if isinstance(owner.instance.node.op, Branch) else ""
    return inside(place_of(owner.instance), label) + instance.node.id
