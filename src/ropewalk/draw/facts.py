"""What there is to show of a flow: read from dataclass fields, so a new op needs no edit here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..expr.ast import Expr, Lit, Obj, Ref
from ..expr.show import brief
from ..frozen import dataclass
from ..ir import Graph, Node, parts
from ..ops import Block
from .agents import Agent, agent_in

MOST_EXPRESSION = 60
_EMPTY = (Obj(()), Lit({}))
_UNSAID = frozenset(("also",))  # what a notation hands to every tool, nothing that anybody wrote


@dataclass(frozen=True, slots=True)
class Facts:
    """One node: its id, its kind and what it names (a tool), its conditions, its other fields in
    words, and its regions, each with what it is called."""

    id: str
    kind: str
    name: str
    conditions: tuple[str, ...]
    details: tuple[str, ...]
    bodies: tuple[tuple[str, Graph], ...]
    agent: Agent | None = None

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}".strip()

    @property
    def lines(self) -> tuple[str, ...]:
        return (self.id, self.title, *self.conditions, *self.details)


def facts_of(node: Node) -> Facts:
    """Everything to show of a node."""
    op = node.op
    conditions = [f"when {said(e)}" for e in (node.gate, node.when) if e is not None]
    if node.gate is not None and node.meta.reached:
        conditions[0] = f"when {node.meta.reached}"
    exprs: dict[str, str] = {}
    bodies: list[tuple[str, Graph]] = []
    for field, part in parts(op):
        if isinstance(part, Graph):
            # A condition beside a region, in one tuple, says when that region runs.
            beside = exprs.pop(f"{field[:-3]}[0]", None) if field.endswith("[1]") else None
            bodies.append((f"if {beside}" if beside is not None else field, part))
        elif field not in _UNSAID and part not in _EMPTY:
            exprs[field] = said(part)
    if len(bodies) == 1 and bodies[0][0] == "body":
        bodies = [("", bodies[0][1])]
    names, plain = _plain_fields(op, node.meta.labels)
    if isinstance(op, Block) and op.body.limit is not None:
        plain.append(f"{node.meta.labels.get('limit', 'limit')}: {op.body.limit}")
    details = [*plain, *(f"{field}: {text}" for field, text in exprs.items())]
    agent = agent_in(op)
    if agent is not None:
        details = list(agent.details)
    policy = node.policy
    if policy.retry.attempts > 1:
        details.append(f"attempts: {policy.retry.attempts}")
    if policy.timeout is not None:
        details.append(f"timeout: {policy.timeout:g} s")
    if policy.on_error is not None:
        word = node.meta.labels.get("policy.on_error.value", "on error")
        details.append(node.meta.failing or f"{word}: {said(policy.on_error.value)}")
    if node.result is not None and agent is None:
        details.append(f"result: {said(node.result)}")
    if node.writes is not None and (node.meta.writes or not _own(node.writes, node)):
        details.append(f"writes: {', '.join(node.meta.writes) or said(node.writes)}")
    kind = type(op).__name__ if agent is None else "Agent"
    return Facts(node.id, kind, " ".join(names), tuple(conditions), tuple(details), tuple(bodies), agent)


def _own(writes: Expr, node: Node) -> bool:
    """Whether a node writes what its own value says, whatever that is: nothing to be told."""
    return isinstance(writes, Ref) and writes.root == "out" and writes.path[:1] == (node.id,)


def said(expr: Expr) -> str:
    """An expression in short. A tree that no parser makes (`<` of nothing) can be drawn too."""
    try:
        return brief(expr, MOST_EXPRESSION)
    except (ValueError, IndexError, TypeError, RecursionError):
        return f"{type(expr).__name__}(…)"


def _plain_fields(op: Any, labels: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Texts in the fields of an op, and its numbers and flags that are not the default, as the document calls them."""
    names, plain = [], []
    for f in dataclasses.fields(op):
        value = getattr(op, f.name)
        if type(value) is str and value:
            names.append(value.rstrip(":"))  # a dataset is the tool `dataset:`, whose name ends there
        elif type(value) in (int, float, bool) and value != f.default:
            plain.append(f"{labels.get(f.name) or f.name}: {str(value).lower() if type(value) is bool else value}")
    return names, plain


@dataclass(frozen=True, slots=True)
class View:
    """The nodes of a region that are shown, and which starts after which, as positions."""

    nodes: tuple[Facts, ...]
    edges: tuple[tuple[int, int], ...]


def view_of(graph: Graph) -> View:
    """What to draw of a region. Hidden nodes without regions are left out; what ran after them is
    drawn after what they ran after. Flows with unknown names or cycles can be drawn too."""
    shown: list[Facts] = []
    place: dict[int, int] = {}
    for i, node in enumerate(graph.nodes):
        if not node.meta.hidden or any(isinstance(part, Graph) for _, part in parts(node.op)):
            place[i] = len(shown)
            shown.append(facts_of(node))
    if graph.ordered:
        return View(tuple(shown), tuple((i, i + 1) for i in range(len(shown) - 1)))
    index: dict[str, int] = {}
    for i, node in enumerate(graph.nodes):
        index.setdefault(node.id, i)
    needs = graph.needs
    edges: dict[tuple[int, int], None] = {}
    for i, to in place.items():
        seen: set[int] = set()
        stack = sorted(index[name] for name in needs[graph.nodes[i].id])
        while stack:
            before = stack.pop()
            if before in seen:
                continue
            seen.add(before)
            if before in place:
                if before != i:
                    edges[place[before], to] = None
            else:
                stack.extend(index[name] for name in needs[graph.nodes[before].id])
    return View(tuple(shown), tuple(sorted(edges)))


def size_of(graph: Graph) -> int:
    """How many nodes a region holds, those inside included."""
    count, stack = 0, [graph]
    while stack:
        region = stack.pop()
        count += len(region.nodes)
        for node in region.nodes:
            stack += [part for _, part in parts(node.op) if isinstance(part, Graph)]
    return count
