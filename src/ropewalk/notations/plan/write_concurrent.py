"""Nodes that run at the same time, as `asyncio.gather` in a written plan.

The nodes of an unordered region are written in waves: a wave holds the nodes whose needs are in earlier waves.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ...ir import Graph, Node, nodes_of, refs_inside
from ...ops import Call, Sleep, Wait
from ..writing import sorted_nodes
from .write_expressions import Typed, called
from .write_state import written_channels
from .write_types import UNKNOWN
from .write_values import Here, is_plain_call

if TYPE_CHECKING:
    from .write import PlanWriter


def waves_of(body: Graph) -> list[list[Node]]:
    """Return the nodes of an unordered region in waves, each in the order of the flow."""
    nodes, _ = sorted_nodes(body)
    level: dict[str, int] = {}
    for node in nodes:
        level[node.id] = 1 + max((level[id] for id in body.needs[node.id]), default=-1)
    waves: list[list[Node]] = [[] for _ in range(max(level.values()) + 1)]
    for node in body.nodes:
        waves[level[node.id]].append(node)
    return waves


def groups_of(body: Graph) -> Iterator[list[Node]]:
    """Yield the nodes that are written together, in the order of the program: alone, or in one gather."""
    for wave in waves_of(body):
        together = [node for node in wave if _has_effect(node) and not _sets_state_inside(node)]
        if len(together) < 2:
            together = []
        alone = [node for node in wave if node not in together]
        yield from ([node] for node in alone if not _has_effect(node))
        width = body.limit or len(together) or 1
        for start in range(0, len(together), width):
            yield together[start : start + width]
        yield from ([node] for node in alone if _has_effect(node))


def _has_effect(node: Node) -> bool:
    inner = nodes_of(Graph(nodes=(node,)))
    return any(isinstance(part.op, (Call, Sleep, Wait)) for part in inner)


def _sets_state_inside(node: Node) -> bool:
    """Return True if a node cannot set its state after the others: it may be skipped, fail, or holds writes."""
    if written_channels(node, inside=True):
        return True
    is_certain = node.gate is None and node.when is None and node.policy.on_error is None
    return node.writes is not None and not (is_certain and node.policy.retry.attempts < 2)


def conflicts_of(body: Graph) -> list[Node]:
    """Return the nodes that would see or leave another state in a plan than in the flow."""

    # In the flow a node sees only the writes of its ancestors, and updates are folded in the order of the document.
    reads = {node.id: _channels(node) for node in body.nodes}
    writes = {node.id: written_channels(node) for node in body.nodes}
    if not any(writes.values()):
        return []
    ancestors: dict[str, set[str]] = {}
    nodes, _ = sorted_nodes(body)
    for node in nodes:
        ancestors[node.id] = {above for id in body.needs[node.id] for above in (id, *ancestors[id])}
    groups = [[node.id for node in group] for group in groups_of(body)]
    when = {id: number for number, group in enumerate(groups) for id in group}
    declared = {node.id: number for number, node in enumerate(body.nodes)}
    wrong: list[Node] = []
    for node in body.nodes:
        for writer in (other.id for other in body.nodes if other is not node and writes[other.id]):
            related = writer in ancestors[node.id] or node.id in ancestors[writer]
            sees = writes[writer] & reads[node.id] and not related and when[writer] < when[node.id]
            # Writes of one group are made in the order of the document, as in the flow.
            both = writes[writer] & writes[node.id]
            later = when[writer] > when[node.id]
            if sees or (both and later and declared[writer] < declared[node.id]):
                wrong.append(node)
                break
    return wrong


def _channels(node: Node) -> set[str]:
    inside = refs_inside(node)
    return {str(ref.path[0]) for ref in inside if ref.root == "state" and ref.path}


class ConcurrentNodes:
    """Writes the nodes of one unordered region."""

    def __init__(self, writer: PlanWriter, body: Graph, here: Here) -> None:
        self.writer, self.body, self.here = writer, body, here

    def write(self) -> None:
        """Write all nodes, in waves."""
        for group in groups_of(self.body):
            if len(group) == 1:
                self.writer.node(group[0], self.here)
            else:
                self._gather(group)

    def _gather(self, nodes: list[Node]) -> None:
        """Write nodes as one `gather`, then their writes."""
        writer, here = self.writer, self.here
        calls, facts = [], []
        # `gather` returns all results together, so if one is read, each needs a name.
        is_read = any(node.id in writer.read for node in nodes)
        names = [writer.names.fresh(node.id) for node in nodes]
        for node, name in zip(nodes, names, strict=True):
            path = f"{here.path}{node.id}"
            # A plain call fits into `gather` directly; anything more becomes a local function.
            if is_plain_call(node):
                writer.refuse_unsupported(node, path)
                calls.append(writer.timed_call(node, path, here))
                facts.append(UNKNOWN)
            else:
                run, certain = writer.function(replace(node, writes=None), here, name if is_read else None)
                calls.append(called(run))
                facts.append(certain)
        function = ast.Attribute(ast.Name("asyncio", ast.Load()), "gather", ast.Load())
        gathered = ast.Await(ast.Call(function, calls, []))
        writer.lines.set(", ".join(names) if is_read else None, gathered)
        for node, name, certain in zip(nodes, names, facts, strict=True):
            value = ast.Name(name, ast.Load()) if is_read else ast.Constant(None)
            here.names[node.id] = Typed(value, certain)
        # Write state after the gather, in the order of the nodes, whichever call ends first.
        for node in nodes:
            if node.writes is not None:
                writer.writes(node, f"{here.path}{node.id}", here)
