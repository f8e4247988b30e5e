"""Large maps in chunks: a worker executes the body of the map over a range of its items.

A chunk belongs to its run: it has the same program, input, paths and idempotency keys, and its
entries go to the journal of the run. The values around the body (earlier nodes, state, items of
outer loops) travel as the *scope*, which is journaled before the first chunk is queued. A map stays
whole if its body calls flows as tools, or if its flow has secrets or waits: these need the live run.
`chunk_run.py` executes one chunk; `workers/map_chunks.py` implements `ports.MapChunks`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..ir import Graph, Yield, bodies, refs_inside
from ..journal.protocol import Entry
from ..values import Json
from .compile.durable import failure_from_json
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
    NodeSlot,
    Outcome,
    Region,
    path_of,
    prefix_of,
)

if TYPE_CHECKING:
    from .ports import FlowBuilder

KINDS: Final = ("chain", "flow")
"""Kinds of runs whose results need only the values and failures of their maps."""

Each = Callable[[Frame, list[Json]], Awaitable[list[Yield]]]


@dataclass(slots=True, eq=False)
class ChunkPlan:
    """A map that can run in chunks: its node, its body, and the limit of items at once."""

    node_slot: NodeSlot
    body: Any
    limit: int | None


def spreading(builder: FlowBuilder, node_slot: NodeSlot, body: Any, limit: int | None, run_here: Each) -> Each:
    """Return the function that runs a map in chunks when it is large enough, and otherwise calls `run_here`."""
    spread = builder.spread
    plain = builder.durable and not builder.secrets and not builder.waits
    if spread is None or not plain or _calls_flows(builder, body.region.graph):
        return run_here
    place = place_of(node_slot)
    builder.chunk_plans[place] = ChunkPlan(node_slot, body, limit)
    needed = _referenced_nodes(body.region.graph)

    async def each(frame: Frame, items: list[Json]) -> list[Yield]:
        run, path = frame[RUN], path_of(frame, node_slot)
        if not spread.wants(run, path, len(items), limit):
            return await run_here(frame, items)
        scope = _scope(frame, node_slot, needed)
        results: list[Yield] = []
        for chunk in await spread(run, path, place, len(items), limit, scope):
            for value, writes in chunk["items"]:
                results.append(Yield(value, [tuple(write) for write in writes]))
            run.errors += [failure_from_json(error) for error in chunk["errors"]]
            for warned in chunk.get("warnings", ()):
                run.warn(*warned)
        return results

    return each


def place_of(node_slot: NodeSlot) -> str:
    """Return the position of a node in its program, equal in every iteration."""
    text, region = node_slot.id, node_slot.region
    while region.owner is not None:
        text = f"{region.owner.id}{region.label}/{text}"
        region = region.owner.region
    return text


def _calls_flows(builder: FlowBuilder, graph: Graph) -> bool:
    for node in graph.nodes:
        tool = getattr(node.op, "tool", None)
        if tool is not None and getattr(builder.bind(tool), "per_attempt", False):
            return True
        if any(_calls_flows(builder, inner) for inner in bodies(node)):
            return True
    return False


def _referenced_nodes(graph: Graph) -> frozenset[str] | None:
    """Return the ids of the nodes whose values the body reads; None for all of them."""
    refs = refs_inside(graph)
    if any(ref.root == "prev" for ref in refs):
        return None
    return frozenset(str(ref.path[0]) for ref in refs if ref.path and ref.root in ("out", "status"))


# --- the scope ------------------------------------------------------------------------------


def _scope(frame: Frame, node_slot: NodeSlot, needed: frozenset[str] | None) -> Json:
    """Return the frames around a map as JSON, the innermost first; `frames_of` reads it."""
    frames: list[Json] = []
    state = frame[node_slot.view_slot] if node_slot.view_slot is not None else frame[STATE]
    while frame is not None:
        region: Region = frame[REGION]
        slots: dict[str, Json] = {}
        attempts: dict[str, Json] = {}
        for node in region.node_slots.values():
            if needed is None or node.id in needed:
                slots[node.id] = _slot_to_json(frame[node.slot])
            if node.attempt_slot is not None:
                attempts[node.id] = frame[node.attempt_slot]
        frames.append([frame[ATTEMPT], frame[KEY], frame[ITEM], frame[PREV], prefix_of(frame), slots, attempts])
        frame = frame[PARENT]
    return {"frames": frames, "state": dict(state)}


def _slot_to_json(value: Any) -> Json:
    if type(value) is Outcome:
        return [value.status, value.value, value.error]
    return [value]


def _slot_from_json(parts: Any) -> Any:
    return parts[0] if len(parts) == 1 else Outcome(*parts)


def frames_of(scope: Any, node_slot: NodeSlot, run: Any) -> Frame:
    """Rebuild the frames around a map from its scope, and return the innermost."""
    frames, regions = scope["frames"], [node_slot.region]
    while regions[-1].outer is not None:
        regions.append(regions[-1].outer)
    # From the outermost region inwards, since each frame refers to the one around it.
    frame: Any = None
    for region, parts in zip(reversed(regions), reversed(frames), strict=True):
        attempt, key, item, prev, prefix, slots, attempts = parts
        blank = [None] * (region.size - FIRST)
        frame = [frame, run, region, attempt, key, item, prev, {}, None, run, prefix, *blank]
        for id, value in slots.items():
            frame[region.node_slots[id].slot] = _slot_from_json(value)
        for id, count in attempts.items():
            frame[region.node_slots[id].attempt_slot] = count
    frame[STATE], frame[LOG], frame[PATH] = scope["state"], [], frames[0][4]
    if node_slot.view_slot is not None:
        frame[node_slot.view_slot] = scope["state"]
    innermost: Frame = frame
    return innermost


def scope_entry(path: str, node: str, size: int, scope: Any, now: float) -> Entry:
    """Return the journal entry that fixes the chunks of a map for all owners of the run; each has `size` items."""
    return Entry(path, "scope", node, {"size": size, **scope}, "", now, now)
