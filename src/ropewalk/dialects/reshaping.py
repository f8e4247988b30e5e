"""Flows in the shape that a writer of a notation needs: the same calls and the same value, in other nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from ..expr.ast import Expr, Lit, Obj, Ref, rebind, refs
from ..ir import Flow, Graph, Node, nodes_of, refs_inside
from ..ops import Block, Branch, Compute, Loop, Map, Validate

RESULT: Final = "result"
"""The id of the node that writers add for a value that the notation cannot declare, and of the state field that an
experience keeps it in."""
PARALLEL: Final = "parallel"
"""The id of the node that a composition has for a chain whose nodes run at once."""


def without_result_node(flow: Flow) -> Flow:
    """Return the flow with the value of its last node `result` as its own result.

    Writers add this node where a notation cannot declare the result. So a round trip removes what it added.
    """
    body = flow.body
    last = body.nodes[-1] if body.nodes else None
    if last is None or last.id != RESULT or not isinstance(last.op, Compute):
        return flow
    kept = Obj(((RESULT, Ref("out", (RESULT,))),))
    plain = Node(id=RESULT, op=last.op, after=last.after, writes=last.writes)
    if last != plain or last.writes not in (None, kept):
        return flow
    others = replace(body, nodes=body.nodes[:-1], result=rebind(last.op.value, _whole))
    if RESULT in flow.seeds:
        return flow
    if last.writes is not None:  # an experience
        state = {name: channel for name, channel in flow.state.items() if name != RESULT}
        used = [ref for ref in refs_inside(others) if ref.root == "state" and ref.path[:1] in ((), (RESULT,))]
        return flow if used else replace(flow, body=others, state=state)
    if body.result not in (outputs(body), Ref("out", (RESULT,))):
        return flow
    return replace(flow, body=others)


def simplified(body: Graph) -> Graph:
    """Return the body in which each choice that always gives the same value is this value.

    A composition has no other node for a value, and no other notation needs a choice for one.
    """
    return replace(body, nodes=tuple(replace(node, op=_simplified(node.op)) for node in body.nodes))


def _simplified(op: Any) -> Any:
    match op:
        case Branch(arms=((Lit(value=True), Graph(nodes=()) as chosen), *_)):
            return Compute(value=chosen.result)
        case Branch():
            arms = tuple((test, simplified(body)) for test, body in op.arms)
            return replace(op, arms=arms, default=simplified(op.default) if op.default is not None else None)
        case Block() | Map() | Loop():
            return replace(op, body=simplified(op.body))
    return op


def at_once(body: Graph) -> Graph:
    """Return the nodes of a body whose only node runs them all at once; any other body as it is.

    A composition has this parallel node where a chain has a mode.
    """
    node = body.nodes[0] if len(body.nodes) == 1 else None
    if node is None or not isinstance(node.op, Block) or node != Node(id=node.id, op=node.op):
        return body
    inner = node.op.body
    if inner.ordered or inner.result != outputs(inner) or not (node.id == PARALLEL or any(inner.needs.values())):
        return body
    if body.result == Ref("out", (node.id,)):
        return inner
    if any(ref.root == "prev" or (ref.root == "out" and len(ref.path) < 2) for ref in refs(body.result)):
        return body

    def outside(ref: Ref) -> Ref:
        return replace(ref, path=ref.path[1:]) if ref.root == "out" else ref

    return replace(inner, result=rebind(body.result, outside))


def as_block(node: Node, free: Callable[[str], str]) -> Node:
    """Return a node whose value is computed from its output as a block of two nodes, for notations without
    `outputMapping`. `free` makes an id that no other node has."""
    value = node.result
    assert value is not None
    own = Node(id=free(f"{node.id}_call"), op=node.op)
    before: tuple[Node, ...] = ()
    if any(ref.root == "prev" for ref in refs(value)):
        before = (Node(id=free(f"{node.id}_data"), op=Compute(value=Ref("prev"))),)

    def inside(ref: Ref) -> Expr:
        if ref.root == "prev":
            return replace(ref, root="out", path=(before[0].id, *ref.path))
        if ref.root == "out" and ref.path[:1] == (node.id,):
            return replace(ref, path=(own.id, *ref.path[1:]))
        return ref

    last = Node(id=free(f"{node.id}_value"), op=Compute(value=rebind(value, inside)))
    body = Graph(nodes=(*before, own, last), result=Ref("out", (last.id,)), ordered=True)
    return replace(node, op=Block(body=body), result=None)


def in_order(body: Graph) -> tuple[list[Node], bool]:
    """Return the nodes of a body in an order in which they can run, and whether it is the only one."""
    if body.ordered or len(body.nodes) < 2:
        return list(body.nodes), True
    left, found, sure = list(body.nodes), list[Node](), True
    while left:
        done = {node.id for node in found}
        ready = [node for node in left if body.needs[node.id] <= done]
        sure = sure and len(ready) == 1
        found.append(ready[0])
        left.remove(ready[0])
    return found, sure


def repeats_alike(body: Graph) -> bool:
    """Whether iterations that run one after another do the same in a loop, where each sees what the one before
    wrote, as in a map, where all see the state from before it."""
    return not any(node.writes is not None for node in nodes_of(body)) and not (body.roots & {"round", "prev"})


def _whole(ref: Ref) -> Ref:
    """A whole output, however it is written in the document."""
    return Ref("out", ref.path) if ref.root == "out" and len(ref.path) == 1 else ref


def unchecked(body: Graph) -> Graph:
    """Return the body without the hidden node that checks the output of a composition."""
    last = body.nodes[-1] if body.nodes else None
    if last is not None and last.meta.hidden and isinstance(last.op, Validate):
        return replace(body, nodes=body.nodes[:-1], result=last.op.value)
    return body


def outputs(body: Graph) -> Expr:
    """The object of all outputs, which is the value of a region that says nothing else."""
    return Obj(tuple((node.id, Ref("out", (node.id,))) for node in body.nodes))
