"""Collect the types that a flow writes to its state, to infer the type of a later read.

A channel is often declared as nothing more than `object`. Where one node certainly writes the channel before another
node reads it, the value read is one of those written, whatever the initial state was.
"""

from __future__ import annotations

from ..ir import Channel, Flow, Graph, Node
from ..ops import Block, Loop
from ..state import REDUCERS
from .structure import Steps, ancestors
from .types import Sub, Type, union_type

_STORES_UPDATE_UNCHANGED = ("last_wins", "set_once")
"""The reducers that store an update unchanged."""


_MAX_WRITERS = 8
"""The most writers of one channel for which a type is inferred; `types.union_type` has the same limit."""


class Updates:
    """Collect the writes of a flow during the walk."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.writes: dict[str, list[tuple[Steps, Graph, Node, Type]]] = {}
        """The writes of each channel: the path to the region, the region, the node, the type written."""
        self.has_unknown_writes = False
        """True if some node writes channels whose names are known only at run time."""
        self._orders: dict[int, tuple[Graph, dict[str, int], dict[str, int]]] = {}

    def add(self, channel: str, steps: Steps, graph: Graph, node: Node, value_type: Type) -> None:
        """Record that a node of a region, which `steps` lead to, writes a value of this type."""
        writes = self.writes.get(channel)
        if writes is None:
            writes = self.writes[channel] = []
        writes.append((steps, graph, node, value_type))

    def types(self, channel: str) -> list[Type]:
        """Return the type of each value written to a channel."""
        return [known for _, _, _, known in self.writes.get(channel, ())]

    def read(self, channel: str, steps: Steps) -> tuple[bool, Type]:
        """Return (True, type) if the node at the end of `steps` certainly reads a written value, else (False, None)."""
        updates = self.writes.get(channel)
        if (
            not updates
            or len(updates) > _MAX_WRITERS
            or self.has_unknown_writes
            or self.flow.state[channel].reduce not in _STORES_UPDATE_UNCHANGED
        ):
            return False, None
        if not any(self._certainly_before((*way, (graph, node, "")), steps) for way, graph, node, _ in updates):
            return False, None
        return True, union_type(*self.types(channel))

    def certain(self, channel: str) -> bool:
        """Return True if every run that reaches its end has written the channel."""
        updates = self.writes.get(channel, ())
        return any(all(map(_always_runs, (*way, (graph, node, "")))) for way, graph, node, _ in updates)

    def _certainly_before(self, writer: Steps, reader: Steps) -> bool:
        for i, ((graph, writing, branch), (_, reading, other_branch)) in enumerate(zip(writer, reader, strict=False)):
            if writing is reading:
                if branch != other_branch:
                    return False  # in different branches of one choice
                continue
            if not self._precedes(graph, writing, reading) or not all(map(_always_runs, writer[i:])):
                return False
            # In a loop around the reader alone, a later node may have written in an earlier iteration.
            return not any(isinstance(node.op, Loop) for _, node, _ in reader[i:-1])
        return False

    def _precedes(self, graph: Graph, writing: Node, reading: Node) -> bool:
        known = self._orders.get(id(graph))
        if known is None:
            known = self._orders[id(graph)] = (graph, *ancestors(graph))
        _, place, above = known
        if writing.id not in place or reading.id not in place:
            return False
        if graph.ordered:
            return place[writing.id] < place[reading.id]
        return bool(above[reading.id] >> place[writing.id] & 1)


def accepted_by(channel: Channel) -> Sub | None:
    """Return the schema that an update of a channel must fit; null is always allowed.

    Args:
        channel: The channel.

    Returns:
        The type that the reducer accepts, else the schema of the channel; None if any value is allowed.
    """
    reducer = REDUCERS.get(channel.reduce)
    if reducer is not None and reducer.takes is not None:
        return Sub(None, {"type": [reducer.takes, "null"]})
    if type(channel.schema) is dict:
        return Sub(channel.schema, {"anyOf": [channel.schema, {"type": "null"}]})
    return None


def _always_runs(step: tuple[Graph, Node, str]) -> bool:
    """Return True if the node and its entered region run in every run, and their writes are kept."""
    _, node, entered = step
    if node.gate is not None or node.when is not None:
        return False
    # With a fallback the flow continues without the writes.
    on_error = node.policy.on_error
    if on_error is not None and (entered or not on_error.writes):
        return False  # a failed region discards its writes
    if not entered or isinstance(node.op, Block):
        return True
    return isinstance(node.op, Loop) and node.op.items is None and node.op.again is None
