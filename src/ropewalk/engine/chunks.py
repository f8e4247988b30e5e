"""Large maps in chunks: the same body over a range of the items, played by whoever takes the chunk.

A chunk belongs to its run: it has the same program, input, paths and idempotency keys, and its facts stand in the run's
own journal. What the body sees around it (values of nodes before it, state, items of loops outside) travels as
the *scope*, which is journaled before the first chunk is given away. Not cut are maps whose bodies call flows as
tools, and those of flows with secrets or waits: they need what only the run itself has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..ir import Graph, Yield, bodies, refs_inside
from ..journal.journal import Entry
from ..values import Json
from .durable import failed_of
from .frame import (
    ATTEMPT,
    FIRST,
    ITEM,
    KEY,
    LOG,
    PARENT,
    PATH,
    PREV,
    REGION,
    RUN,
    STATE,
    Frame,
    Outcome,
    Region,
    Spot,
    path_of,
    prefix_of,
)

if TYPE_CHECKING:
    from .program import Builder
    from .run import Run

KINDS: Final = ("chain", "flow")
"""Of runs whose results need nothing but values and failures of what their maps did."""

Each = Callable[[Frame, list[Json]], Awaitable[list[Yield]]]


class Spread(Protocol):
    """Has chunks played elsewhere."""

    def wants(self, run: Any, path: str, count: int, limit: int | None, /) -> bool:
        """Whether a map of so many items is worth it, or has been cut before."""
        ...

    async def __call__(
        self, run: Any, path: str, place: str, count: int, limit: int | None, scope: Json, /
    ) -> list[Any]:
        """What every chunk of the map at `path` gave, in order (see `played`); raises NodeFailed when one failed.
        `place` is where the map stands in the program."""
        ...


@dataclass(slots=True, eq=False)
class Cut:
    """A map of a program that can be cut: where it is, and its body."""

    spot: Spot
    body: Any
    limit: int | None


def spreading(builder: Builder, spot: Spot, body: Any, limit: int | None, here: Each) -> Each:
    """A map that is cut when it is large enough, and played here when not."""
    spread = builder.spread
    plain = builder.durable and not builder.secrets and not builder.waits
    if spread is None or not plain or not _alone(builder, body.region.graph):
        return here
    place = place_of(spot)
    builder.cuts[place] = Cut(spot, body, limit)
    needed = _needed(body.region.graph, spot)

    async def each(frame: Frame, items: list[Json]) -> list[Yield]:
        run, path = frame[RUN], path_of(frame, spot)
        if not spread.wants(run, path, len(items), limit):
            return await here(frame, items)
        done: list[Yield] = []
        for chunk in await spread(run, path, place, len(items), limit, _scope(frame, spot, needed)):
            done += [Yield(value, [tuple(write) for write in writes]) for value, writes in chunk["items"]]
            run.errors += [failed_of(said) for said in chunk["errors"]]
        return done

    return each


def place_of(spot: Spot) -> str:
    """Where a node stands in its program, whatever the round."""
    text, region = spot.id, spot.region
    while region.owner is not None:
        text = f"{region.owner.id}{region.label}/{text}"
        region = region.owner.region
    return text


def _alone(builder: Builder, graph: Graph) -> bool:
    for node in graph.nodes:
        tool = getattr(node.op, "tool", None)
        if tool is not None and getattr(builder.bind(tool), "per_attempt", False):
            return False
        if not all(_alone(builder, inner) for inner in bodies(node)):
            return False
    return True


def _needed(graph: Graph, spot: Spot) -> frozenset[str] | None:
    """The nodes outside whose values the body sees; None for all."""
    refs = refs_inside(graph)
    if any(ref.root == "prev" for ref in refs):
        return None
    return frozenset(str(ref.path[0]) for ref in refs if ref.path and ref.root in ("out", "status"))


# --- the scope ------------------------------------------------------------------------------


def _scope(frame: Frame, spot: Spot, needed: frozenset[str] | None) -> Json:
    """The frames around a map as JSON, the innermost first."""
    frames: list[Json] = []
    state = frame[spot.view_slot] if spot.view_slot is not None else frame[STATE]
    while frame is not None:
        region: Region = frame[REGION]
        seen = [one for one in region.spots.values() if needed is None or one.id in needed]
        slots = {one.id: _shipped(frame[one.slot]) for one in seen}
        tries = {one.id: frame[one.attempt_slot] for one in region.spots.values() if one.attempt_slot is not None}
        frames.append([frame[ATTEMPT], frame[KEY], frame[ITEM], frame[PREV], prefix_of(frame), slots, tries])
        frame = frame[PARENT]
    return {"frames": frames, "state": dict(state)}


def _shipped(value: Any) -> Json:
    return [value.status, value.value, value.error] if type(value) is Outcome else [value]


def _unshipped(told: Any) -> Any:
    return told[0] if len(told) == 1 else Outcome(*told)


def frames_of(scope: Any, spot: Spot, run: Run) -> Frame:
    """The frames around a map as they were; gives the innermost."""
    frames, regions = scope["frames"], [spot.region]
    while regions[-1].outer is not None:
        regions.append(regions[-1].outer)
    made: Any = None
    for region, told in zip(reversed(regions), reversed(frames), strict=True):
        attempt, key, item, prev, prefix, slots, tries = told
        blank = [None] * (region.size - FIRST)
        made = [made, run, region, attempt, key, item, prev, {}, None, run, prefix, *blank]
        for id, value in slots.items():
            made[region.spots[id].slot] = _unshipped(value)
        for id, count in tries.items():
            made[region.spots[id].attempt_slot] = count
    made[STATE], made[LOG], made[PATH] = scope["state"], [], frames[0][4]
    if spot.view_slot is not None:
        made[spot.view_slot] = scope["state"]
    frame: Frame = made
    return frame


def scope_entry(path: str, node: str, size: int, scope: Any, now: float) -> Entry:
    """How a map was cut, once and for all owners of the run."""
    return Entry(path, "scope", node, {"size": size, **scope}, "", now, now)
