"""Frames: the values of one run of one region, as a flat list with fixed places.

A frame is a plain list because a slot store is the cheapest thing Python has; everything that
knows the layout is in this folder. Nodes have one slot each; references are compiled to slots.
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
KEY: Final = 4  # index of a Map, round of a Loop, else None
ITEM: Final = 5  # element of a Map
PREV: Final = 6  # what `prev` is before the first node of an ordered region
STATE: Final = 7  # dict of channel values as this region sees them
LOG: Final = 8  # list of (channel, update) written in this region, None when it never writes
LANE: Final = 9  # the Lane of the task that runs this frame
PATH: Final = 10  # cached path prefix
FIRST: Final = 11  # slot of the first node


# The step record of a line of nodes: what is where in it.
LINE: Final = 0  # the frame
NODES: Final = 1  # its spots in order; None in the record of a graph
ROUNDS: Final = 2  # the slots from FIRST on, round for round, where the frame is used again; else None
CLOCKS: Final = 3  # here clock readings begin: before the first node, then after each


class Outcome:
    """Stands in a node's slot for anything but a plain value: the node did not run, or failed."""

    __slots__ = ("error", "status", "value")

    def __init__(self, status: str, value: Json = None, error: Json = None) -> None:
        self.status, self.value, self.error = status, value, error

    def __repr__(self) -> str:
        return f"Outcome({self.status!r}, {self.value!r})"


SKIPPED: Final = Outcome("skipped")
DEAD: Final = Outcome("dead")


def value_in(slot: Any) -> Json:
    """The value that references see for what stands in a slot."""
    return slot.value if type(slot) is Outcome else slot


def status_in(slot: Any) -> str:
    """ok, failed, skipped (its own condition) or dead (not reached)."""
    return str(slot.status) if type(slot) is Outcome else "ok"


class Spot:
    """What compiling knows of one node: where it stands and which slots it uses."""

    __slots__ = (
        "attempt_slot",
        "bare",
        "bodies",
        "direct",
        "error_slot",
        "id",
        "limit",
        "name",
        "node",
        "region",
        "repeatable",
        "slot",
        "soft",
        "tool",
        "tried",
        "view_slot",
        "writes_slot",
    )

    def __init__(self, node: Node, region: Region, slot: int) -> None:
        self.id, self.node, self.region, self.slot = node.id, node, region, slot
        self.bodies = bodies(node)
        self.name = node.meta.name or node.id  # in errors and events
        policy, guarded = node.policy, node.gate is not None or node.when is not None
        self.soft = guarded or policy.on_error is not None
        self.tried = policy.on_error is not None or policy.timeout is not None or policy.retry.attempts > 1
        """A policy looks at each try, so that a call here must keep its own deadline."""
        self.bare = not (guarded or self.tried) and node.result is None
        """Its value is what its op gives, with nothing around."""
        self.limit: float | None = None  # seconds that the lane's watch allows a plain call here
        self.tool: str | None = None
        self.repeatable = False  # whether its tool may be called again after a call that took effect
        self.direct: Any = None  # the parts of a tool call that the region's loop makes itself
        self.attempt_slot: int | None = None
        self.error_slot: int | None = None
        self.view_slot: int | None = None
        self.writes_slot: int | None = None

    def __repr__(self) -> str:
        return f"Spot({self.id!r})"


class Region:
    """What compiling knows of one region: its place in the tree and the slots of its nodes."""

    __slots__ = (
        "binds",
        "flat",
        "graph",
        "label",
        "outer",
        "owner",
        "searched",
        "sequential",
        "size",
        "spots",
        "writes",
    )

    def __init__(self, graph: Graph, outer: Region | None, owner: Spot | None, label: str, binds: str) -> None:
        self.graph, self.outer, self.owner, self.label, self.binds = graph, outer, owner, label, binds
        self.spots: dict[str, Spot] = {}
        slot = FIRST
        for node in graph.nodes:
            self.spots[node.id] = Spot(node, self, slot)
            slot += 1
        self.size = slot
        self.writes = False
        self.flat = graph.ordered and not any(spot.bodies for spot in self.spots.values())  # its rounds share a frame
        self.sequential = graph.ordered  # also where the needs leave but one order
        self.searched = True  # whether something in it may look for the lane of its task

    def slot(self) -> int:
        """One more slot."""
        self.size += 1
        return self.size - 1


def round_of(last: Frame, rounds: list[Any], count: int) -> Frame:
    """The frame of a line as it was in a round; the slots of the one that runs are in the frame still."""
    frame, size = last.copy(), len(last) - FIRST
    frame[KEY], frame[PATH] = count, None
    if count * size < len(rounds):
        frame[FIRST:] = rounds[count * size : (count + 1) * size]
    return frame


def node_at(track: list[Any]) -> Spot:
    """The node of a line that is running: the readings of those before it are there."""
    nodes: tuple[Spot, ...] = track[NODES]
    return nodes[(len(track) - CLOCKS - 1) % len(nodes)]


def prefix_of(frame: Frame) -> str:
    """The path of the region instance, with a trailing slash; empty for the whole flow."""
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


def path_of(frame: Frame, spot: Spot) -> str:
    """The path of a node instance: a function of position, index and attempt, never of time."""
    if spot.attempt_slot is not None and (frame[spot.attempt_slot] or 1) > 1:
        return f"{prefix_of(frame)}{spot.id}@{frame[spot.attempt_slot]}"
    return prefix_of(frame) + spot.id


def key_of(frame: Frame, spot: Spot) -> str:
    """The same without attempts: what an idempotency key is made of."""
    inner = ""
    while True:
        region: Region = frame[REGION]
        if region.owner is None:
            return inner or spot.id
        key = frame[KEY]
        step = f"{region.owner.id}{region.label}{'' if key is None else f'[{key}]'}/"
        inner = step + (inner or spot.id)
        frame = frame[PARENT]
