"""A flow as data, for pages that lay it out themselves."""

from __future__ import annotations

from ..ir import Flow, Graph
from ..values import Json
from .facts import Facts, view_of

_DEEPEST = 64


def graph_data(flow: Flow) -> dict[str, Json]:
    """`{name, nodes, edges}`: each node has its `path` (ids from the outside in, as in the paths of a
    run without rounds and attempts), `id`, `title`, `lines` and `groups`, its regions in the same form."""
    return {"name": flow.name, **_region(flow.body, "", 1)}


def _region(graph: Graph, prefix: str, depth: int) -> dict[str, Json]:
    view = view_of(graph)
    return {
        "nodes": [_node(node, prefix, depth) for node in view.nodes],
        "edges": [[view.nodes[before].id, view.nodes[after].id] for before, after in view.edges],
    }


def _node(node: Facts, prefix: str, depth: int) -> dict[str, Json]:
    path = prefix + node.id
    inner = [(label, body) for label, body in node.bodies if body.nodes] if depth < _DEEPEST else []
    return {
        "path": path,
        "id": node.id,
        "kind": node.kind,
        "title": node.title,
        "lines": [*node.conditions, *node.details],
        "groups": [{"label": label, **_region(body, f"{path}/", depth + 1)} for label, body in inner],
    }
