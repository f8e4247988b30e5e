"""Collect the types that a flow writes to its state, to infer the type of a later read.

A channel is often declared as nothing more than `object`. Where one node certainly writes the channel before another
node reads it, the value read is one of those written, whatever the initial state was.
"""

from __future__ import annotations

from typing import NamedTuple

from ..ir import Channel, Flow, Graph, Node
from ..ops import Block, Loop
from ..state import REDUCERS
from .structure import RunningOrder, Step, Steps, running_order
from .types import Sub, Type, union_type

_STORES_UPDATE_UNCHANGED = ("last_wins", "set_once")
"""The reducers that store an update unchanged."""
_MAX_WRITERS = 8
"""The most writers of one channel for which a type is inferred; `types.union_type` has the same limit."""


class Write(NamedTuple):
    """A write of a channel: the path to the node that writes, and the type of the value."""

    steps: Steps
    type: Type


class Updates:
    """Collect the writes of a flow during the walk."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.writes: dict[str, list[Write]] = {}
        """The writes of each channel."""
        self.has_unknown_writes = False
        """True if some node writes channels whose names are known only at run time."""
        self._orders: dict[int, RunningOrder] = {}

    def add(self, channel: str, steps: Steps, graph: Graph, node: Node, value_type: Type) -> None:
        """Record that a node of a region, which `steps` lead to, writes a value of this type."""
        self.writes.setdefault(channel, []).append(Write((*steps, Step(graph, node, "")), value_type))

    def types(self, channel: str) -> list[Type]:
        """Return the type of each value written to a channel."""
        return [write.type for write in self.writes.get(channel, ())]

    def read(self, channel: str, steps: Steps) -> tuple[bool, Type]:
        """Return (True, type) if the node at the end of `steps` certainly reads a written value, else (False, None)."""
        writes = self.writes.get(channel)
        if (
            not writes
            or len(writes) > _MAX_WRITERS
            or self.has_unknown_writes
            or self.flow.state[channel].reduce not in _STORES_UPDATE_UNCHANGED
        ):
            return False, None
        if not any(self._certainly_before(write.steps, steps) for write in writes):
            return False, None
        return True, union_type(*self.types(channel))

    def certain(self, channel: str) -> bool:
        """Return True if every run that reaches its end has written the channel."""
        return any(all(map(_always_runs, write.steps)) for write in self.writes.get(channel, ()))

    def _certainly_before(self, writer: Steps, reader: Steps) -> bool:
        # Follow both paths inwards until they part: the region where they do decides.
        for i, (writing, reading) in enumerate(zip(writer, reader, strict=False)):
            if writing.node is reading.node:
                if writing.field != reading.field:
                    return False  # in different branches of one choice
                continue
            if not self._precedes(writing.graph, writing.node, reading.node) or not all(map(_always_runs, writer[i:])):
                return False
            # In a loop around the reader alone, a later node may have written in an earlier iteration.
            return not any(isinstance(step.node.op, Loop) for step in reader[i:-1])
        return False

    def _precedes(self, graph: Graph, writing: Node, reading: Node) -> bool:
        order = self._orders.get(id(graph))  # the order keeps the region alive, so its id stays its own
        if order is None:
            order = self._orders[id(graph)] = running_order(graph)
        places = order.places
        if writing.id not in places or reading.id not in places:
            return False
        if graph.ordered:
            return places[writing.id] < places[reading.id]
        return order.is_before(writing, reading)


def accepted_by(channel: Channel) -> Sub | None:
    """Return the schema that an update of a channel must fit; null is always allowed."""
    reducer = REDUCERS.get(channel.reduce)
    if reducer is not None and reducer.takes is not None:
        return Sub(None, {"type": [reducer.takes, "null"]})
    if type(channel.schema) is dict:
        return Sub(channel.schema, {"anyOf": [channel.schema, {"type": "null"}]})
    return None


def _always_runs(step: Step) -> bool:
    """Return True if the node and its entered region run in every run, and their writes are kept."""
    node, entered = step.node, step.field
    if node.gate is not None or node.when is not None:
        return False
    # With a fallback the flow continues without the writes.
    on_error = node.policy.on_error
    if on_error is not None and (entered or not on_error.writes):
        return False  # a failed region discards its writes
    if not entered or isinstance(node.op, Block):
        return True
    return isinstance(node.op, Loop) and node.op.items is None and node.op.again is None
