"""Frames: the values of one run of one region, as a flat list with fixed places.

A frame is a plain list because a slot store is the cheapest thing Python has; everything that knows the layout is in
this folder. Its first places are those of the constants below. Then comes one slot for each node, and after these the
slots that some nodes need in addition (`Region.slot`). References of expressions are compiled to slots.

`Region` and `NodeSlot` say where everything is. The compiler (`compile/`) makes them once for a program, and nothing in
them changes while a run executes.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from ..ir import Graph, Node, bodies
from ..values import Json

Frame: TypeAlias = list[Any]

PARENT: Final = 0  # the frame this region runs in, None for the whole flow
RUN: Final = 1  # the Run
REGION: Final = 2  # the compiled Region
ATTEMPT: Final = 3  # which attempt of the owning node this is, from 1
KEY: Final = 4  # index of a Map, iteration of a Loop, place of a step in a Program, else None
ITEM: Final = 5  # element of a Map
PREV: Final = 6  # what `prev` is before the first node of an ordered region
STATE: Final = 7  # dict of channel values as this region sees them
LOG: Final = 8  # list of (channel, update) written in this region, None when it never writes
TASK_DEADLINE: Final = 9  # the TaskDeadline of the task that runs this frame
PATH: Final = 10  # cached path prefix
FIRST: Final = 11  # slot of the first node


# A step record says which nodes of one frame ran, and when. That of a line of nodes is a list with these positions.
# That of a graph has its frame and None, then for each node its NodeSlot and the clock readings of its start and end.
RECORD_FRAME: Final = 0  # the frame
RECORD_NODES: Final = 1  # the NodeSlots of the line in order; None in the record of a graph
RECORD_ITERATIONS: Final = 2  # the slots from FIRST on of each iteration, if iterations share the frame; else None
RECORD_CLOCKS: Final = 3  # from here on clock readings: before the first node, then after each


class Outcome:
    """The content of a node's slot if it is not a plain value: the node did not run, or failed."""

    __slots__ = ("error", "status", "value")

    def __init__(self, status: str, value: Json = None, error: Json = None) -> None:
        self.status, self.value, self.error = status, value, error

    def __repr__(self) -> str:
        return f"Outcome({self.status!r}, {self.value!r})"


SKIPPED: Final = Outcome("skipped")
DEAD: Final = Outcome("dead")


def value_in(slot: Any) -> Json:
    """Return the value that references see for the content of a slot."""
    return slot.value if type(slot) is Outcome else slot


def status_in(slot: Any) -> str:
    """Return the status for the content of a slot: ok, failed, skipped (its own condition) or dead (not reached)."""
    return str(slot.status) if type(slot) is Outcome else "ok"


class NodeSlot:
    """A node as the compiler knows it: its place and the slots that it uses."""

    __slots__ = (
        "attempt_slot",
        "bodies",
        "direct",
        "error_slot",
        "evaluates_long",
        "handler",
        "has_attempts",
        "host_slot",
        "id",
        "limit",
        "may_hold_outcome",
        "name",
        "node",
        "region",
        "repeatable",
        "slot",
        "tool",
        "undo",
        "unwrapped",
        "view_slot",
        "writes_slot",
    )

    def __init__(self, node: Node, region: Region, slot: int) -> None:
        self.id, self.node, self.region, self.slot = node.id, node, region, slot
        self.bodies = bodies(node)
        self.name = node.meta.name or node.id  # in errors and events
        policy, is_conditional = node.policy, node.gate is not None or node.when is not None
        self.may_hold_outcome = is_conditional or policy.on_error is not None
        """True if the slot may hold an Outcome in place of a plain value."""
        self.has_attempts = policy.on_error is not None or policy.timeout is not None or policy.retry.attempts > 1
        """True if a policy depends on each attempt, so that a call must keep its own timeout."""
        self.unwrapped = not (is_conditional or self.has_attempts) and node.result is None
        """True if the value of the node is that of its op, without any wrapper."""
        self.evaluates_long = False  # whether the arguments of its call may be expensive to evaluate
        self.limit: float | None = None  # the timeout in seconds that the DeadlineTimer applies to a plain call
        self.tool: str | None = None
        self.handler: Any = None  # the function of its tool, for the place of a call that did not end in time
        self.repeatable = False  # whether its tool may be called again after a call that took effect
        self.undo: Any = None  # makes the call that takes back a finished call of its tool
        self.direct: Any = None  # the parts of a tool call that the region's loop makes itself
        self.host_slot: int | None = None  # where the outer frame has the host of a program, which takes each result
        self.attempt_slot: int | None = None
        self.error_slot: int | None = None
        self.view_slot: int | None = None
        self.writes_slot: int | None = None

    def __repr__(self) -> str:
        return f"NodeSlot({self.id!r})"


class Region:
    """A region as the compiler knows it: its place in the tree and the slots of its nodes."""

    __slots__ = (
        "binds",
        "flat",
        "graph",
        "label",
        "node_slots",
        "outer",
        "owner",
        "sequential",
        "size",
        "uses_task_deadline",
        "writes",
    )

    def __init__(self, graph: Graph, outer: Region | None, owner: NodeSlot | None, label: str, binds: str) -> None:
        self.graph, self.outer, self.owner, self.label, self.binds = graph, outer, owner, label, binds
        self.node_slots: dict[str, NodeSlot] = {}
        slot = FIRST
        for node in graph.nodes:
            self.node_slots[node.id] = NodeSlot(node, self, slot)
            slot += 1
        self.size = slot
        self.writes = False
        self.flat = graph.ordered and not any(
            node_slot.bodies for node_slot in self.node_slots.values()
        )  # its iterations share a frame
        self.sequential = graph.ordered  # also True for a graph whose nodes can run in one order only
        self.uses_task_deadline = True  # whether a node may look for the deadline of its task

    def slot(self) -> int:
        """Add a slot to the frames of the region and return its position."""
        self.size += 1
        return self.size - 1


def frame_of_iteration(last: Frame, rounds: list[Any], count: int) -> Frame:
    """Return the frame of a line as it was in an earlier iteration; the current iteration is in the frame itself."""
    frame, size = last.copy(), len(last) - FIRST
    frame[KEY], frame[PATH] = count, None
    if count * size < len(rounds):
        frame[FIRST:] = rounds[count * size : (count + 1) * size]
    return frame


def node_at(record: list[Any]) -> NodeSlot:
    """Return the node of a line that is running: the record has one clock reading for each node before it."""
    nodes: tuple[NodeSlot, ...] = record[RECORD_NODES]
    return nodes[(len(record) - RECORD_CLOCKS - 1) % len(nodes)]


def prefix_of(frame: Frame) -> str:
    """Return the path of the region instance with a trailing slash; "" for the whole flow."""
    cached = frame[PATH]
    if cached is not None:
        return str(cached)
    region: Region = frame[REGION]
    if region.owner is None:
        text = ""
    else:
        key = frame[KEY]
        attempt = frame[ATTEMPT]
        text = (
            f"{prefix_of(frame[PARENT])}{region.owner.id}{f'@{attempt}' if attempt > 1 else ''}"
            f"{region.label}{'' if key is None else f'[{key}]'}/"
        )
    frame[PATH] = text
    return text


def path_of(frame: Frame, node_slot: NodeSlot) -> str:
    """Return the path of a node instance: a function of position, index and attempt, never of time."""
    if node_slot.attempt_slot is not None and (frame[node_slot.attempt_slot] or 1) > 1:
        return f"{prefix_of(frame)}{node_slot.id}@{frame[node_slot.attempt_slot]}"
    return prefix_of(frame) + node_slot.id


def key_of(frame: Frame, node_slot: NodeSlot) -> str:
    """Return the idempotency key of a node instance: its path without attempts."""
    inner = ""
    while True:
        region: Region = frame[REGION]
        if region.owner is None:
            return inner or node_slot.id
        key = frame[KEY]
        step = f"{region.owner.id}{region.label}{'' if key is None else f'[{key}]'}/"
        inner = step + (inner or node_slot.id)
        frame = frame[PARENT]
