"""A flow as a tree of lines for terminals."""

from __future__ import annotations

from ..expr.ast import Lit
from ..ir import Flow, Graph
from .facts import View, said, view_of

_DEEPEST = 64


def text(flow: Flow) -> str:
    """The flow as an indented tree, a line per node: id, kind, tool, conditions, what it runs after.

    Control characters in names are shown as escapes: nothing in it can drive a terminal.
    """
    lines = [_visible(flow.name)]
    _region(flow.body, "", lines, 0)
    return "\n".join(lines) + "\n"


def _region(graph: Graph, indent: str, lines: list[str], depth: int) -> None:
    view = view_of(graph)
    nothing = isinstance(graph.result, Lit) and graph.result.value is None
    result = "" if nothing else said(graph.result)
    rows = len(view.nodes) + bool(result)
    if depth >= _DEEPEST and view.nodes:
        lines.append(f"{indent}└─ … nested deeper than {_DEEPEST}")
        return
    after = _after(graph, view)
    for i, node in enumerate(view.nodes):
        last = i == rows - 1
        words = [node.title, *node.conditions, *node.details]
        if after.get(i):
            words.append(f"after {', '.join(after[i])}")
        lines.append(f"{indent}{'└─' if last else '├─'} {_visible(node.id)}  {_visible(' · '.join(words))}")
        inner = indent + ("   " if last else "│  ")
        if node.agent is not None:  # the nodes of its loop nobody wrote
            calls = node.agent.calls
            ends = ["├─"] * (len(calls) - 1) + ["└─"]
            lines += [f"{inner}{end} {_visible(call)}" for end, call in zip(ends, calls, strict=False)]
            continue
        for j, (label, body) in enumerate(node.bodies):
            if not label:
                _region(body, inner, lines, depth + 1)
                continue
            end = j == len(node.bodies) - 1
            lines.append(f"{inner}{'└─' if end else '├─'} {_visible(label)}")
            _region(body, inner + ("   " if end else "│  "), lines, depth + 1)
    if result:
        lines.append(f"{indent}└─ = {_visible(result)}")


def _after(graph: Graph, view: View) -> dict[int, list[str]]:
    """The ids each node starts after, where the order of the lines does not say it."""
    found: dict[int, list[str]] = {}
    if not graph.ordered:
        for before, node in view.edges:
            found.setdefault(node, []).append(view.nodes[before].id)
    return found


def _visible(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
