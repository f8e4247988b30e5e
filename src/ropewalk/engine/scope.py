"""Where a reference finds its value: names become slots and hops when a program is built.

A Scope is a position: a node of a region (or the region's end), which decides what `prev`, state
and the like mean there. `resolve` is handed to the expression compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from ..errors import InvalidFlow, Problem
from ..expr.ast import Path, Ref
from ..redaction import Redaction
from ..values import Json
from .frame import FIRST, ITEM, KEY, PARENT, PREV, RUN, STATE, Frame, Outcome, Region, Spot, status_in, value_in

Getter = Callable[[Any], Json]


class Scope:
    """A position in a region: at `spot`, or at the region's end when there is none; with `start`
    before its first node, where the nodes are those of the round before."""

    __slots__ = ("region", "spot", "start")

    def __init__(self, region: Region, spot: Spot | None, start: bool = False) -> None:
        self.region, self.spot, self.start = region, spot, start

    def resolve(self, ref: Ref) -> tuple[Getter, Path]:
        """The getter of what `ref` starts from, and the path left to walk."""
        root, path = ref.root, ref.path
        if root == "out" and path:
            return self._out(str(path[0])), path[1:]
        if root == "input":
            return _input, path
        if root == "prev":
            return self.prev(), path
        if root == "state":
            return self._state(path)
        if root == "status" and path:
            return self._status(str(path[0])), path[1:]
        if root == "item":
            return _up(self._hops_to("map"), ITEM), path
        if root == "index":
            return _up(self._hops_to("map"), KEY), path
        if root == "round":
            return _up(self._hops_to("loop"), KEY), path
        if root == "error" and self.spot is not None:
            if self.spot.error_slot is None:
                self.spot.error_slot = self.region.slot()
            return itemgetter(self.spot.error_slot), path
        if root == "secret" and path:
            return _secret(str(path[0])), path[1:]
        raise _unknown(f"unknown reference {root!r}", self)

    def _find(self, id: str) -> tuple[int, Spot]:
        hops, region = 0, self.region
        while True:
            spot = region.spots.get(id)
            if spot is not None:
                return hops, spot
            if region.outer is None:
                raise _unknown(f"no node {id!r} in reach", self)
            hops, region = hops + 1, region.outer

    def _out(self, id: str) -> Getter:
        hops, spot = self._find(id)
        slot = spot.slot
        if not spot.soft:
            return _up(hops, slot)
        if not hops:

            def soft(frame: Frame) -> Json:
                value = frame[slot]
                return value.value if type(value) is Outcome else value

            return soft
        base = _up(hops, slot)
        return lambda frame: value_in(base(frame))

    def _status(self, id: str) -> Getter:
        hops, spot = self._find(id)
        base = _up(hops, spot.slot)
        return lambda frame: status_in(base(frame))

    def _hops_to(self, binds: str) -> int:
        hops, region = 0, self.region
        while region.binds != binds and region.binds != "each":
            if region.outer is None:
                raise _unknown(f"{'item and index' if binds == 'map' else 'round'} outside a {binds} body", self)
            hops, region = hops + 1, region.outer
        return hops

    def prev(self) -> Getter:
        """The value of the last node that ran before this position."""
        region, spot, hops = self.region, self.spot, 0
        if self.start and region.graph.ordered:
            return itemgetter(PREV)
        while not region.graph.ordered:
            if region.outer is None:
                return lambda frame: None
            hops, spot, region = hops + 1, region.owner, region.outer
        last = (spot.slot if spot is not None else FIRST + len(region.graph.nodes)) - 1
        if last < FIRST:
            return _up(hops, PREV)
        before = region.graph.nodes[last - FIRST]
        if not region.spots[before.id].soft:
            return _up(hops, last)

        def ran(frame: Frame) -> Json:
            for _ in range(hops):
                frame = frame[PARENT]
            slot = last
            # Slots of an ordered region stand in order, so going back is counting down.
            while slot >= FIRST:
                value = frame[slot]
                if type(value) is not Outcome:
                    return value
                if value.status == "failed":
                    return value.value
                slot -= 1
            return frame[PREV]

        return ran

    def view(self) -> Getter:
        """The dict of channel values that this position sees."""
        if self.spot is not None and self.spot.view_slot is not None:
            return itemgetter(self.spot.view_slot)
        return itemgetter(STATE)

    def _state(self, path: Path) -> tuple[Getter, Path]:
        view = self.view()
        return (view, path) if path else ((lambda frame: dict(view(frame))), ())


def _up(hops: int, slot: int) -> Getter:
    if hops == 0:
        return itemgetter(slot)
    if hops == 1:
        return lambda frame: frame[PARENT][slot]
    if hops == 2:
        return lambda frame: frame[PARENT][PARENT][slot]

    def far(frame: Frame) -> Json:
        for _ in range(hops):
            frame = frame[PARENT]
        return frame[slot]

    return far


def _input(frame: Frame) -> Json:
    return frame[RUN].input


def known_secrets(frame: Frame) -> Redaction | None:
    """The secrets that the run of a frame knows."""
    found: Redaction | None = frame[RUN].secrets
    return found


def _secret(name: str) -> Getter:
    return lambda frame: frame[RUN].secret(name)


def _unknown(message: str, scope: Scope) -> InvalidFlow:
    # The check reports this with its place; here it only guards flows that were never checked.
    where = scope.spot.id if scope.spot is not None else "result"
    return InvalidFlow([Problem(path=where, message=message)])
