"""The types of the updates that a flow writes to its state, and what that says about a read of it.

A declared channel often says no more than `object`. Where one node certainly wrote the channel before another reads
it, the value is one of those that were written, whatever the run began with.
"""

from __future__ import annotations

from ..ir import Channel, Flow, Graph, Node
from ..ops import Block, Loop
from ..state import REDUCERS
from .schemas import Sub
from .types import Type, either
from .writers import Steps, ancestors

_REPLACING = ("last_wins", "set_once")
"""The reducers under which a channel holds an update as it was written."""


_MOST = 8
"""Writers of one channel; of more the type is anything, as that of any choice among so many."""


class Updates:
    """Collects the writes of a flow during the pass."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.found: dict[str, list[tuple[Steps, Graph, Node, Type]]] = {}
        """The writes of each channel: the way to the region, the region, the node, the type of what is written."""
        self.open = False
        """Whether some node writes channels that only the run knows."""
        self._orders: dict[int, tuple[Graph, dict[str, int], dict[str, int]]] = {}

    def add(self, channel: str, steps: Steps, graph: Graph, node: Node, written: Type) -> None:
        """Note that a node of a region, which `steps` lead to, writes a value of this type."""
        known = self.found.get(channel)
        if known is None:
            known = self.found[channel] = []
        known.append((steps, graph, node, written))

    def types(self, channel: str) -> list[Type]:
        """Return the types of everything that is written to a channel."""
        return [known for _, _, _, known in self.found.get(channel, ())]

    def read(self, channel: str, steps: Steps) -> tuple[bool, Type]:
        """Return (True, type) where the node at the end of `steps` certainly reads what a node wrote."""
        updates = self.found.get(channel)
        if not updates or len(updates) > _MOST or self.open or self.flow.state[channel].reduce not in _REPLACING:
            return False, None
        if not any(self._certainly_before((*way, (graph, node, "")), steps) for way, graph, node, _ in updates):
            return False, None
        return True, either(*self.types(channel))

    def certain(self, channel: str) -> bool:
        """Return True if every run that reaches its end has written the channel."""
        updates = self.found.get(channel, ())
        return any(all(map(_runs, (*way, (graph, node, "")))) for way, graph, node, _ in updates)

    def _certainly_before(self, writer: Steps, reader: Steps) -> bool:
        for i, ((graph, one, entered), (_, two, other)) in enumerate(zip(writer, reader, strict=False)):
            if one is two:
                if entered != other:
                    return False  # another arm of the same choice
                continue
            if not self._precedes(graph, one, two) or not all(map(_runs, writer[i:])):
                return False
            # A later node of a loop around the reader alone may have written in an earlier round.
            return not any(isinstance(node.op, Loop) for _, node, _ in reader[i:-1])
        return False

    def _precedes(self, graph: Graph, one: Node, two: Node) -> bool:
        known = self._orders.get(id(graph))
        if known is None:
            known = self._orders[id(graph)] = (graph, *ancestors(graph))
        _, place, above = known
        if one.id not in place or two.id not in place:
            return False
        if graph.ordered:
            return place[one.id] < place[two.id]
        return bool(above[two.id] >> place[one.id] & 1)


def accepted_by(channel: Channel) -> Sub | None:
    """Return the schema that an update of a channel must fit; null fits every channel.

    Returns:
        What the reducer takes, else the schema of the channel; None where anything goes.
    """
    reducer = REDUCERS.get(channel.reduce)
    if reducer is not None and reducer.takes is not None:
        return Sub(None, {"type": [reducer.takes, "null"]})
    if type(channel.schema) is dict:
        return Sub(channel.schema, {"anyOf": [channel.schema, {"type": "null"}]})
    return None


def _runs(step: tuple[Graph, Node, str]) -> bool:
    """Whether a node, and the region of it that is entered, run in every run, and what they write stays."""
    _, node, entered = step
    if node.gate is not None or node.when is not None:
        return False
    on_error = node.policy.on_error
    if on_error is not None and (entered or not on_error.writes):
        return False  # a failed region leaves no writes
    if not entered or isinstance(node.op, Block):
        return True
    return isinstance(node.op, Loop) and node.op.items is None and node.op.again is None
