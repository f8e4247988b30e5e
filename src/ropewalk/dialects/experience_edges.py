"""Edges as gates: a node is reached while one of its edges is live.

An edge is live when its source ended well and its `when` holds. One with a `when` becomes a hidden node
that is skipped when it does not hold, so that the condition has its own place; it sees what all
predecessors of its target wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final

from ..check.structure import cycles
from ..expr.ast import Expr, Fn, Lit, Ref
from ..frozen import dataclass
from ..ir import Meta, Node
from ..ops import Compute
from ..values import closest
from .chain_routes import any_of
from .experience import Part
from .fields import Report, join, say

OK: Final = Lit("ok")
LABELS: Final = {"when": "when", "value": "when"}


@dataclass(frozen=True, slots=True)
class Edge:
    path: str
    source: str
    target: str
    when: str | None = None


@dataclass(frozen=True, slots=True)
class Way:
    """How a node is reached: its predecessors, the gate it stands behind, and the hidden nodes of its conditions."""

    before: tuple[str, ...] = ()
    gate: Expr | None = None
    said: str = ""
    conditions: tuple[Node, ...] = ()
    after: frozenset[str] = field(default_factory=frozenset)


def edges_by_region(
    parts: list[Part], homes: Mapping[str, Part | None], stages: Mapping[str, tuple[str, int]], report: Report
) -> dict[str, list[Edge]]:
    """The edges of each region by the place of its loop ("" at the top), those that lead nowhere reported. Not by its
    id, which another loop may have, too.

    `homes` gives for everything that has an id the loop or pipeline around it, `stages` the pipeline and the position
    of each stage. An edge that names a stage connects its pipeline.
    """
    found: dict[str, list[Edge]] = {}
    for part in parts:
        ends = [str(part.fields.get(key, "")) for key in ("from", "to")]
        sound = all(ends)
        for key, end in zip(("from", "to"), ends, strict=True):
            if end and end not in homes:
                say(report, join(part.path, key), f"names no node here: {end!r}", closest(end, homes))
                sound = False
        if not sound or _is_order_of_stages(part, ends, stages, report):
            continue
        source, target = (stages[end][0] if end in stages else end for end in ends)
        if not _connects(part, source, target, homes, report):
            continue
        home = homes[source]
        edge = Edge(part.path, source, target, str(part.fields["when"]) if "when" in part.fields else None)
        found.setdefault(home.path if home is not None else "", []).append(edge)
    return found


def _is_order_of_stages(part: Part, ends: list[str], stages: Mapping[str, tuple[str, int]], report: Report) -> bool:
    """Return True for an edge between two stages of one pipeline, which adds nothing to their order.

    An edge that contradicts the order or has a condition is a problem.
    """
    source, target = (stages.get(end) for end in ends)
    if source is None or target is None or source[0] != target[0]:
        return False
    if ends[0] == ends[1]:
        say(report, part.path, f"these nodes wait for each other: {ends[0]} -> {ends[0]}")
    elif source[1] > target[1]:
        said = f"{ends[0]!r} comes after {ends[1]!r} in the stages of the pipeline {source[0]!r}"
        say(report, part.path, f"{said}; change the order of its stages")
    elif "when" in part.fields:
        said = f"the stages of the pipeline {source[0]!r} run in their order, without conditions between them"
        say(report, join(part.path, "when"), said)
    return True


def _connects(part: Part, source: str, target: str, homes: Mapping[str, Part | None], report: Report) -> bool:
    if source == target:
        say(report, part.path, f"these nodes wait for each other: {source} -> {source}")
        return False
    inside = [(id, home) for id in (source, target) if (home := homes[id]) is not None]
    if homes[source] is not homes[target]:
        id, home = inside[0]
        key = "from" if id == source else "to"
        say(report, join(part.path, key), f"{id!r} is in the body of the loop {home.id!r}, and this edge crosses it; "
            "from outside edges name the loop", home.id)  # fmt: skip
        return False
    return True


def ways(
    ids: list[str], edges: list[Edge], fails: Callable[[str], bool], condition: Callable[[Edge], Expr], report: Report
) -> dict[str, Way]:
    """How each node of a region is reached. `fails` says which may end as failed while the run goes on."""
    into: dict[str, list[Edge]] = {id: [] for id in ids}
    for edge in edges:
        into[edge.target].append(edge)
    order = _sorted(ids, into, report)
    unsure: set[str] = set()  # those that may not end well
    found: dict[str, Way] = {}
    for id in order:
        found[id] = way = _way(id, into[id], unsure, condition)
        if way.gate is not None or fails(id):
            unsure.add(id)
    return found


def _way(id: str, edges: list[Edge], unsure: set[str], condition: Callable[[Edge], Expr]) -> Way:
    before = tuple(dict.fromkeys(edge.source for edge in edges))
    terms: list[Expr] = []
    sure = not edges
    conditions: list[Node] = []
    for edge in edges:
        source: Expr | None = Fn("==", (Ref("status", (edge.source,)), OK)) if edge.source in unsure else None
        if edge.when is not None:
            named = f"{edge.source}->{id}" + (f"#{len(conditions)}" if conditions else "")
            conditions.append(
                Node(id=named, op=Compute(value=Lit(True)), after=frozenset(before), gate=source, when=condition(edge),
                     meta=Meta(source=edge.path, labels=LABELS, hidden=True))
            )  # fmt: skip
            terms.append(Fn("==", (Ref("status", (named,)), OK)))
        elif source is None:
            sure = True
        else:
            terms.append(source)
    gate = None if sure else any_of(terms)
    said = " or ".join(edge.source if edge.when is None else f"{edge.source}: {edge.when}" for edge in edges)
    return Way(before, gate, said, tuple(conditions), frozenset((*before, *(node.id for node in conditions))))


def _sorted(ids: list[str], into: Mapping[str, list[Edge]], report: Report) -> list[str]:
    """The ids in an order in which they could run; each cycle is reported, and left out, by name."""
    left = {id: {edge.source for edge in into[id]} for id in ids}
    after: dict[str, list[str]] = {}
    for id, sources in left.items():
        for source in sources:
            after.setdefault(source, []).append(id)
    ready = [id for id in ids if not left[id]]
    for id in ready:  # grows while it is read
        for following in after.get(id, ()):
            left[following].discard(id)
            if not left[following]:
                ready.append(following)
    stuck = [id for id in ids if left[id]]
    if stuck:
        needs = {id: {edge.source for edge in into[id]} for id in stuck}
        for cycle in cycles(stuck, needs):
            around = [*cycle, cycle[0]]
            edge = next(e for e in into[around[1]] if e.source == around[0])
            say(report, edge.path, f"these nodes wait for each other: {' -> '.join(around)}")
    return ready
