"""A flow as a Mermaid flowchart, for README files and pages that render it."""

from __future__ import annotations

from ..ir import Flow, Graph
from .facts import Facts, size_of, view_of

_PLAIN = frozenset(" _,:./()=-+?!")
_MOST_LABEL = 80
_DEEPEST = 64


def mermaid(flow: Flow, *, limit: int = 500) -> str:
    """The flow as Mermaid text with at most `limit` edges, the number where Mermaid gives up.

    Inner regions are drawn as groups, outer ones first; those that do not fit are one node that
    says how many it holds. Names are escaped: nothing in them is markup.
    """
    return _Chart(limit).draw(flow)


class _Chart:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.lines = ["flowchart TD"]

    def draw(self, flow: Flow) -> str:
        self._region(flow.body, (), 1, self._affordable(flow.body))
        return "\n".join(self.lines) + "\n"

    def _affordable(self, body: Graph) -> set[int]:
        """The regions drawn open: breadth first, while their edges fit."""
        found: set[int] = set()
        queue = [(body, 0)]
        left = self.limit
        for graph, depth in queue:
            view = view_of(graph)
            if graph is not body and (len(view.edges) > left or depth >= _DEEPEST):
                continue
            left -= min(left, len(view.edges))
            found.add(id(graph))
            queue += [(inner, depth + 1) for node in view.nodes for _, inner in node.bodies]
        return found

    def _region(self, graph: Graph, at: tuple[int, ...], depth: int, opened: set[int]) -> None:
        view = view_of(graph)
        indent = "  " * depth
        nodes, edges = view.nodes, view.edges
        if len(edges) > self.limit or len(nodes) > 2 * self.limit + 1:
            # Only the outermost region comes here: the rest is drawn closed. Keep its beginning.
            ends = sorted(max(edge) for edge in edges)
            most = ends[self.limit] if len(ends) > self.limit else len(nodes)
            nodes = nodes[: min(most, 2 * self.limit + 1)]
            edges = tuple(edge for edge in edges if max(edge) < len(nodes))
        for i, node in enumerate(nodes):
            self._node(node, (*at, i), depth, opened)
        for before, after in edges:
            self.lines.append(f"{indent}{_name((*at, before))} --> {_name((*at, after))}")
        if len(nodes) < len(view.nodes):
            self.lines.append(f'{indent}more["… {len(view.nodes) - len(nodes):,} more nodes"]')

    def _node(self, node: Facts, at: tuple[int, ...], depth: int, opened: set[int]) -> None:
        indent, name = "  " * depth, _name(at)
        bodies = [(label, body, j) for j, (label, body) in enumerate(node.bodies) if body.nodes]
        drawn = [entry for entry in bodies if id(entry[1]) in opened]
        closed = sum(size_of(body) for _, body, _ in bodies) - sum(size_of(body) for _, body, _ in drawn)
        lines = [_escape(line) for line in (node.id, node.title, *node.conditions) if line]
        if closed:
            lines.append(f"({closed} nodes inside)")
        label = "<br/>".join(lines)
        if not drawn:
            self.lines.append(f'{indent}{name}["{label}"]')
            return
        self.lines.append(f'{indent}subgraph {name}["{label}"]')
        for said, body, j in drawn:
            if len(node.bodies) == 1:
                self._region(body, (*at, j), depth + 1, opened)
                continue
            self.lines.append(f'{indent}  subgraph {_name((*at, j))}g["{_escape(said) or " "}"]')
            self._region(body, (*at, j), depth + 2, opened)
            self.lines.append(f"{indent}  end")
        self.lines.append(f"{indent}end")


def _name(at: tuple[int, ...]) -> str:
    return "n" + "_".join(map(str, at))


def _escape(text: str) -> str:
    """Text inside a quoted label: letters and digits as they are, all else by number."""
    cut = text if len(text) <= _MOST_LABEL else text[: _MOST_LABEL - 1] + "…"
    return "".join(c if c.isalnum() or c in _PLAIN else "" if not c.isprintable() else f"#{ord(c)};" for c in cut)
