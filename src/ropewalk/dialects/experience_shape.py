"""Bodies in the shape of an experience: one graph of nodes, each of which waits for others.

A block or a choice becomes its nodes, and a node that computes its value. `$prev` becomes the output that it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from ..expr.ast import NULL, Expr, Fn, Lit, Ref, rebind, refs, select
from ..frozen import dataclass
from ..ir import NO_POLICY, Graph, Node
from ..ops import Block, Branch, Call, Compute, Loop, Map
from .agent_flow import agent_of
from .reshaping import repeats_alike

Ids = frozenset[str]
NONE: Final[Ids] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a node is: its path, the nodes that it waits for, what `prev` is, and the condition of its choice."""

    path: str = ""
    before: Ids = NONE
    prev: Expr | None = NULL
    when: Expr | None = None


class Shaper:
    """Makes the graph of one flow. `free` makes an id that no other node has, `refuse` reports what has no shape."""

    def __init__(self, free: Callable[[str], str], refuse: Callable[[str, str], None]) -> None:
        self.free, self.refuse = free, refuse
        self.nodes: list[Node] = []

    def shaped(self, body: Graph) -> Graph:
        """Return the graph, which is not ordered; its result reads what its nodes gave."""
        if not body.ordered and not any(isinstance(n.op, (Block, Branch)) or _mapped(n) for n in body.nodes):
            return replace(body, nodes=tuple(self._leaf(node, node.op) for node in body.nodes))
        _, result = self._region(body, Place())
        return Graph(nodes=tuple(self.nodes), result=result, limit=None if body.ordered else body.limit)

    def _region(self, body: Graph, place: Place) -> tuple[Ids, Expr]:
        """Add the nodes of a region; return those that whatever follows waits for, and the value."""
        if not body.ordered:
            for node in body.nodes:
                # However many nodes it becomes, the last one has its id.
                self._node(node, replace(place, before=place.before | body.needs[node.id]))
            return place.before.union(node.id for node in body.nodes), body.result
        for node in body.nodes:
            before, prev = self._node(node, place)
            place = replace(place, before=before, prev=prev)
        return place.before, self._bound(body.result, place, place.path.rstrip("/"))

    def _node(self, node: Node, place: Place) -> tuple[Ids, Expr | None]:
        """Add a node; return what the next one waits for, and what `prev` is there."""
        path = f"{place.path}{node.id}"
        if _mapped(node):
            return self._mapping(node, place)
        if isinstance(node.op, (Map, Loop)) and node.writes is not None and not _is_agent(node):
            before, prev = self._add(replace(node, id=self.free(f"{node.id}_each"), writes=None), node.op, place)
            made = Compute(value=Ref("out", (self.nodes[-1].id,)))
            kept = Node(id=node.id, op=made, when=node.when, writes=node.writes)
            return self._add(kept, made, replace(place, before=before))
        if not isinstance(node.op, (Block, Branch)):
            return self._add(node, node.op, place)
        if node.policy != NO_POLICY:
            self.refuse(path, "an experience has a timeout, retries and a fallback for each call, not for a block")
        if node.when is not None:
            test = Compute(value=_is_true(node.when))
            asked, _ = self._add(Node(id=self.free(f"{node.id}_when"), op=test), test, place)
            ran = Ref("out", (self.nodes[-1].id,))
            place = replace(place, before=asked, when=_is_true(ran))
        inside = replace(place, path=f"{path}/")
        if isinstance(node.op, Block):
            before, value = self._region(node.op.body, inside)
        else:
            before, value = self._choice(node, node.op, inside)
        last = Node(id=node.id, op=Compute(value=value), writes=node.writes, meta=node.meta)
        ended, prev = self._add(last, last.op, replace(place, before=before))
        return ended, prev if node.when is None else None

    def _choice(self, node: Node, op: Branch, place: Place) -> tuple[Ids, Expr]:
        if not op.arms:
            return self._region(op.default or Graph(nodes=(), ordered=True), place)
        (test, then), *more = op.arms
        asked = Compute(value=_is_true(test))
        before, _ = self._add(Node(id=self.free(f"{node.id}_if"), op=asked), asked, place)
        answer = Ref("out", (self.nodes[-1].id,))
        chosen = _is_true(answer)
        ends, value = self._region(then, replace(place, before=before, when=chosen))
        inside = replace(place, before=before, when=Fn("==", (answer, Lit(False))))
        if more:
            others, other = self._choice(node, replace(op, arms=tuple(more)), inside)
        else:
            others, other = self._region(op.default or Graph(nodes=(), ordered=True), inside)
        return ends | others, Fn("?:", (chosen, value, other))

    def _mapping(self, node: Node, place: Place) -> tuple[Ids, Expr | None]:
        """A node whose value is computed from its output: two nodes."""
        value = node.result
        assert value is not None
        if node.policy.on_error is not None:
            self.refuse(f"{place.path}{node.id}", "what stands in for a failed call in an experience is not mapped")
        own = Node(id=self.free(f"{node.id}_call"), op=node.op, when=node.when, policy=node.policy, meta=node.meta)
        before, _ = self._add(own, node.op, place)

        def inside(ref: Ref) -> Expr:
            return replace(ref, path=(own.id, *ref.path[1:])) if _reads(ref, node.id) else ref

        made = Compute(value=rebind(value, inside))
        last = replace(node, op=made, when=None, result=None, policy=NO_POLICY)
        return self._add(last, made, replace(place, before=before))

    def _add(self, node: Node, op: Any, place: Place) -> tuple[Ids, Expr | None]:
        path = f"{place.path}{node.id}"

        def bound(expr: Expr | None) -> Expr | None:
            return None if expr is None else self._bound(expr, place, path)

        when = bound(node.when)
        if place.when is not None:
            when = place.when if when is None else Fn("&&", (place.when, when))
        made = self._leaf(node, self._op(op, place, path))
        policy = made.policy
        if policy.on_error is not None:
            value = self._bound(policy.on_error.value, place, path)
            policy = replace(policy, on_error=replace(policy.on_error, value=value))
        self.nodes.append(replace(made, when=when, after=place.before, policy=policy))
        # Inside a choice all nodes run or none: only a condition of its own may skip this one.
        own = Ref("out", (node.id,))
        return frozenset((node.id,)), own if node.when is None else _unless_skipped(own, bound(node.when), place.prev)

    def _leaf(self, node: Node, op: Any) -> Node:
        """A loop over items in which nothing is handed on is a map of one item at a time."""
        alike = isinstance(op, Loop) and op.items is not None and op.collect and repeats_alike(op.body)
        if alike and op.again is None and op.until is None and op.initial is None:
            op = Map(items=op.items, body=op.body, limit=1, most=op.limit)
        return replace(node, op=op)

    def _op(self, op: Any, place: Place, path: str) -> Any:
        if isinstance(op, Call):
            return replace(op, args=self._bound(op.args, place, path))
        if isinstance(op, Compute):
            return Compute(value=self._bound(op.value, place, path))
        if isinstance(op, (Map, Loop)) and op.items is not None:
            if "prev" in op.body.roots and not op.body.ordered:
                self.refuse(path, "an experience has no $prev")
            return replace(op, items=self._bound(op.items, place, path))
        return op

    def _bound(self, expr: Expr, place: Place, path: str) -> Expr:
        def bind(ref: Ref) -> Expr:
            if ref.root != "prev":
                return ref
            if place.prev is None:
                self.refuse(path, "reads $prev after a step that the state may skip")
                return NULL
            found = place.prev
            for key in ref.path if found != NULL else ():
                found = select(found, key)
            return found

        return rebind(expr, bind)


def _unless_skipped(own: Ref, when: Expr | None, before: Expr | None) -> Expr | None:
    """What `prev` is after a node with a condition; None where the condition may be another one by now."""
    if when is None or before is None or any(ref.root == "state" for ref in refs(when)):
        return None
    return Fn("?:", (_is_true(when), own, before))


def _mapped(node: Node) -> bool:
    """Whether the value of the node is computed from its output; that of an agent is its answer."""
    return node.result is not None and not _is_agent(node)


def _is_agent(node: Node) -> bool:
    return isinstance(node.op, Loop) and agent_of(node.op, f"{node.id}.") is not None


def _reads(ref: Ref, id: str) -> bool:
    return ref.root == "out" and ref.path[:1] == (id,)


def _is_true(test: Expr) -> Fn:
    """The condition as a boolean: null counts as false."""
    return Fn("==", (test, Lit(True)))
