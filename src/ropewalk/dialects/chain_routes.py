"""onSuccess, onError and dependsOn as gates: a node is not reached where its gate is false."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeAlias

from ..expr.ast import Expr, Fn, Lit, Ref
from ..ir import Node, refs_inside, siblings_read
from ..values import closest
from .chain import ChainNode
from .fields import Report, join, say

OK, FAILED, DEAD = Lit("ok"), Lit("failed"), Lit("dead")
FEW: Final = 8
"""How many jumps a gate names one by one, which people can read in a drawing."""

Jump: TypeAlias = tuple[str, Lit]
"""A node, and the outcome on which it leads elsewhere."""


def line_gates(body: list[ChainNode], nodes: tuple[Node, ...], report: Report) -> tuple[Node, ...]:
    """In order: `onSuccess` and `onError` name a later node to go to next, skipping those between.

    A gate names the jumps that lead past its node. Where these are many it goes by the node before, so that all
    gates together grow with the number of nodes, not with its square.
    """
    position = {node.id: i for i, node in enumerate(body)}
    passing: dict[Jump, None] = {}  # the jumps that lead past the present node, in order
    landing: dict[int, list[Jump]] = {}  # the jumps to each node
    own: list[Jump] = []  # those of the node before
    gated = list(nodes)
    for i, node in enumerate(body):
        landed = landing.get(i, [])
        for jump in landed:
            passing.pop(jump, None)
        if passing:
            gate = _none_of(passing) if len(passing) <= FEW else _after(body[i - 1].id, own, landed)
            gated[i] = replace(nodes[i], gate=gate)
        own = []
        for key, outcome in (("onSuccess", OK), ("onError", FAILED)):
            targets = _targets(node, key, position, report)
            if len(targets) > 1:
                say(report, join(node.path, key), "names one node to go to next; only in dag mode can it name several")
            for target in targets:
                if position[target] <= i:
                    say(report, join(node.path, key), f"must name a later node; {target!r} stands before")
                else:
                    own.append((node.id, outcome))
                    landing.setdefault(position[target], []).append((node.id, outcome))
        passing.update(dict.fromkeys(own))
    return tuple(gated)


def _none_of(jumps: Iterable[Jump]) -> Expr:
    return all_of([_ended("!=", id, outcome) for id, outcome in jumps])


def _after(before: str, own: list[Jump], landed: list[Jump]) -> Expr:
    """The same said by the node before: it was reached and none of its own jumps was taken, or a jump that was taken
    lands here. At most one is on its way: who is jumped over jumps nowhere."""
    return any_of([_none_of([(before, DEAD), *own]), *(_ended("==", id, outcome) for id, outcome in landed)])


def _ended(op: str, id: str, outcome: Lit) -> Expr:
    return Fn(op, (Ref("status", (id,)), outcome))


def dag_gates(body: list[ChainNode], nodes: tuple[Node, ...], strategy: str, report: Report) -> tuple[Node, ...]:
    """In a DAG: a failed or unreached dependency keeps a node from running, a skipped one does
    not; a node named by `onSuccess` or `onError` runs when one of those that name it had that
    outcome."""
    position = {node.id: i for i, node in enumerate(body)}
    routes: dict[str, list[Jump]] = {}
    for node in body:
        for key, outcome in (("onSuccess", OK), ("onError", FAILED)):
            for target in _targets(node, key, position, report):
                if target == node.id:
                    say(report, join(node.path, key), "a node cannot lead to itself")
                else:
                    routes.setdefault(target, []).append((node.id, outcome))
    fails = {node.id for node in body if _may_fail(node, strategy)}
    gated = _gated(nodes, routes, fails)
    return tuple(_gate(node, routes.get(node.id, []), fails, gated) for node in nodes)


def _may_fail(node: ChainNode, strategy: str) -> bool:
    """Whether the node can end as failed while the chain goes on and its dependents must not."""
    own = node.get("errorStrategy") or strategy
    return bool(node.get("onError")) or own == "continue"


def _gated(nodes: tuple[Node, ...], routes: dict[str, list[Jump]], fails: set[str]) -> set[str]:
    """The ids of nodes that may turn out dead: those routed to, and whatever hangs on them or on
    a node that may fail."""
    then: dict[str, list[str]] = {}
    for node in nodes:
        for before in node.after | siblings_read(refs_inside(node)):
            then.setdefault(before, []).append(node.id)
    found: set[str] = set()
    todo = [*routes, *(id for failing in fails for id in then.get(failing, []))]
    while todo:
        id = todo.pop()
        if id not in found:
            found.add(id)
            todo.extend(then.get(id, []))
    return found


def _gate(node: Node, routes: list[Jump], fails: set[str], gated: set[str]) -> Node:
    named = {id for id, _ in routes}
    terms: list[Expr] = []
    for before in sorted((node.after | siblings_read(refs_inside(node))) - named - {node.id}):
        if before in fails:
            terms.append(_ended("!=", before, FAILED))
        if before in gated:
            terms.append(_ended("!=", before, DEAD))
    if routes:
        terms.append(any_of([_ended("==", id, outcome) for id, outcome in routes]))
    if not terms:
        return node
    return replace(node, gate=all_of(terms), after=node.after | named)


def _targets(node: ChainNode, key: str, position: dict[str, int], report: Report) -> list[str]:
    found = []
    for target in node.get(key) or []:
        if target in position:
            found.append(target)
        else:
            say(report, join(node.path, key), f"names no node here: {target!r}", closest(target, position))
    return found


def all_of(terms: list[Expr]) -> Expr:
    return _tree("&&", terms)


def any_of(terms: list[Expr]) -> Expr:
    return _tree("||", terms)


def _tree(op: str, terms: list[Expr]) -> Expr:
    """A balanced tree, so that a thousand terms nest ten deep."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return Fn(op, (_tree(op, terms[:half]), _tree(op, terms[half:])))
