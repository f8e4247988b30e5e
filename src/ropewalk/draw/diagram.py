"""Draw a flow as a Mermaid flowchart, as data for other layouts, and as a tree of lines for terminals.

`facts_of` collects what a drawing shows of a node, from the dataclass fields of its op. Agents are shown as their
authors know them, with prompt, tools and limits, instead of the nodes of their loop.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..errors import ExpressionError
from ..expr.ast import Arr, Expr, Lit, Obj, Ref, brief
from ..expr.unlift import unlift
from ..fast_dataclass import dataclass
from ..ir import Flow, Graph, Node, bodies, parts
from ..ops import MODEL, Block, Branch, Call, Loop, Map, Program
from ..values import Json
from .outline import view_of_outline
from .view import Facts, Region, View

_MAX_PROMPT = 60


@dataclass(frozen=True, slots=True)
class Agent:
    """The details of an agent: its options, its tools, those that need approval, and its first messages."""

    options: dict[str, Any]
    tools: tuple[str, ...]
    asks: frozenset[str]
    start: Expr | None

    @property
    def details(self) -> tuple[str, ...]:
        """Return its fields in words."""
        options = {key: value for key, value in self.options.items() if key not in ("max_rounds", "must_end")}
        plain = [f"{key}: {value}" for key, value in options.items() if isinstance(value, (str, int, float))]
        structured = [key for key, value in options.items() if isinstance(value, (dict, list))]
        return (
            *(f"{role}: {_shorten_prompt(content)}" for role, content in self._messages()),
            f"at most {self.options.get('max_rounds')} rounds",
            *plain,
            *(f"with {key}" for key in structured),
        )

    @property
    def calls(self) -> tuple[str, ...]:
        """Return a line for each tool."""
        return tuple(f"{tool}, when somebody has approved it" if tool in self.asks else tool for tool in self.tools)

    def _messages(self) -> list[tuple[str, Expr]]:
        if isinstance(self.start, Arr):
            messages = [dict(item.fields) for item in self.start.items if isinstance(item, Obj)]
            roles = {"user": "prompt"}
            return [
                (roles.get(role.value, str(role.value)), message["content"])
                for message in messages
                if isinstance(role := message.get("role"), Lit) and "content" in message
            ]
        return [("messages", self.start)] if self.start is not None else []


def _shorten_prompt(expr: Expr) -> str:
    """Return the first line of a prompt, cut to the limit."""
    try:
        text = unlift(expr)
    except ExpressionError:
        text = None
    if not isinstance(text, str):
        return brief(expr, _MAX_PROMPT)
    line, _, more = text.strip().partition("\n")
    return f"{line[: _MAX_PROMPT - 1]}…" if more or len(line) > _MAX_PROMPT else line


def agent_in(op: Any) -> Agent | None:
    """Return the agent that a loop was built for; None for every other op."""
    if not isinstance(op, Loop):
        return None
    request = next(
        (node.op.args for node in op.body.nodes if isinstance(node.op, Call) and node.op.tool == MODEL), None
    )
    fields = dict(request.fields) if isinstance(request, Obj) else {}
    options, tools = fields.get("options"), fields.get("tools")
    if not isinstance(options, Lit) or not isinstance(tools, Lit) or not isinstance(op.initial, Obj):
        return None
    start = dict(op.initial.fields).get("messages")
    return Agent(options.value, tuple(tools.value), frozenset(_tools_with_approval(op.body)), start)


def _tools_with_approval(body: Graph) -> list[str]:
    """Return the tools whose branches begin with a question."""
    arms = [
        (test, arm)
        for node in body.nodes
        if isinstance(node.op, Map)
        for inner in bodies(node)
        for use in inner.nodes
        if isinstance(use.op, Branch)
        for test, arm in use.op.arms
    ]
    return [
        str(part.value)
        for test, arm in arms
        if len(arm.nodes) > 1
        for part in getattr(test, "args", ())
        if isinstance(part, Lit)
    ]


_MAX_EXPRESSION = 60
_EMPTY = (Obj(()), Lit({}))
_HIDDEN_FIELDS = frozenset(("also",))  # arguments that a notation passes to every tool; no author wrote them


def facts_of(node: Node) -> Facts:
    """Return the details of a node."""
    op = node.op
    if isinstance(op, Program):
        return _facts_of_program(node.id, op)
    conditions = [f"when {short_text(e)}" for e in (node.gate, node.when) if e is not None]
    if node.gate is not None and node.meta.reached:
        conditions[0] = f"when {node.meta.reached}"
    exprs: dict[str, str] = {}
    bodies: list[tuple[str, Region]] = []
    for field, part in parts(op):
        if isinstance(part, Graph):
            # A condition in a tuple with a region decides if that region runs.
            condition = exprs.pop(f"{field[:-3]}[0]", None) if field.endswith("[1]") else None
            # The other branch has the name of the document; the path of a run says `[else]`.
            other = node.meta.labels.get(field, "else") if field == "default" else field
            bodies.append((f"if {condition}" if condition is not None else other, part))
        elif field not in _HIDDEN_FIELDS and part not in _EMPTY:
            exprs[field] = short_text(part)
    if len(bodies) == 1 and bodies[0][0] == "body":
        bodies = [("", bodies[0][1])]
    names, plain = _plain_fields(op, node.meta.labels)
    if isinstance(op, Block) and op.body.limit is not None:
        plain.append(f"{node.meta.labels.get('limit', 'limit')}: {op.body.limit}")
    # An agent shows its own details instead of the fields of its loop.
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
        details.append(node.meta.failing or f"{word}: {short_text(policy.on_error.value)}")
    if node.result is not None and agent is None:
        details.append(f"result: {short_text(node.result)}")
    if node.writes is not None and (node.meta.writes or not _writes_own_output(node.writes, node)):
        details.append(f"writes: {', '.join(node.meta.writes) or short_text(node.writes)}")
    kind = type(op).__name__ if agent is None else "Agent"
    return Facts(node.id, kind, " ".join(names), tuple(conditions), tuple(details), tuple(bodies), agent)


def _facts_of_program(id: str, op: Program) -> Facts:
    """Return the details of a program: its outline; its tools where nobody has read the text."""
    if op.outline is None:
        tools = ", ".join(tool.name for tool, _ in op.tools) or "none"
        return Facts(id, "Program", "", (), (f"tools: {tools}",), ())
    return Facts(id, "Program", "", (), (), (("", view_of_outline(op.outline, op.places)),))


def _writes_own_output(writes: Expr, node: Node) -> bool:
    """Return True if a node writes its own output, which drawings do not repeat."""
    return isinstance(writes, Ref) and writes.root == "out" and writes.path[:1] == (node.id,)


def short_text(expr: Expr) -> str:
    """Return the text of an expression, cut."""

    # Trees that no parser makes can be drawn too.
    try:
        return brief(expr, _MAX_EXPRESSION)
    except (ValueError, IndexError, TypeError, RecursionError):
        return f"{type(expr).__name__}(…)"


def _plain_fields(op: Any, labels: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the texts in the fields of an op, and its non-default numbers and flags by their document names."""
    names, plain = [], []
    for f in dataclasses.fields(op):
        value = getattr(op, f.name)
        if type(value) is str and value:
            names.append(value.rstrip(":"))  # a dataset is the tool `dataset:`, without a name
        elif type(value) in (int, float, bool) and value != f.default:
            plain.append(f"{labels.get(f.name) or f.name}: {str(value).lower() if type(value) is bool else value}")
    return names, plain


def view_of(graph: Region) -> View:
    """Return what a drawing shows of a region."""
    if isinstance(graph, View):
        return graph
    # Hidden nodes without regions are left out, and their dependents are connected to what they waited for. Flows with
    # unknown names or cycles can be drawn too.
    visible: list[Facts] = []
    place: dict[int, int] = {}
    for i, node in enumerate(graph.nodes):
        if not node.meta.hidden or any(isinstance(part, Graph) for _, part in parts(node.op)):
            place[i] = len(visible)
            visible.append(facts_of(node))
    nothing = isinstance(graph.result, Lit) and graph.result.value is None
    result = "" if nothing else short_text(graph.result)
    # In an ordered region each node follows the one before.
    if graph.ordered:
        return View(tuple(visible), tuple((i, i + 1) for i in range(len(visible) - 1)), True, result)
    index: dict[str, int] = {}
    for i, node in enumerate(graph.nodes):
        index.setdefault(node.id, i)
    needs = graph.needs
    edges: dict[tuple[int, int], None] = {}
    # Walk back over hidden nodes to the visible ones.
    for i, to in place.items():
        visited: set[int] = set()
        stack = sorted(index[name] for name in needs[graph.nodes[i].id])
        while stack:
            before = stack.pop()
            if before in visited:
                continue
            visited.add(before)
            if before in place:
                if before != i:
                    edges[place[before], to] = None
            else:
                stack.extend(index[name] for name in needs[graph.nodes[before].id])
    return View(tuple(visible), tuple(sorted(edges)), False, result)


def size_of(graph: Region) -> int:
    """Return the number of nodes in a region, at every level."""
    count, stack = 0, [graph]
    while stack:
        region = stack.pop()
        count += len(region.nodes)
        for node in region.nodes:
            stack += _regions_in(node)
    return count


def _regions_in(node: Node | Facts) -> list[Region]:
    if isinstance(node, Node) and isinstance(node.op, Program):
        node = facts_of(node)
    if isinstance(node, Facts):
        return [region for _, region in node.bodies]
    return [part for _, part in parts(node.op) if isinstance(part, Graph)]


_PLAIN = frozenset(" _,:./()=-+?!")
_MAX_LABEL = 80
_MAX_DEPTH = 64


def mermaid(flow: Flow, *, limit: int = 500) -> str:
    """Return a flow as Mermaid text.

    Inner regions are drawn as groups, outer ones first; those that do not fit become one node with their size. Names
    are escaped, so nothing in them is markup.

    Args:
        flow: The flow.
        limit: The most edges; Mermaid fails with more than 500.
    """
    return _Chart(limit).draw(flow)


class _Chart:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.lines = ["flowchart TD"]
        self._views: dict[int, View] = {}

    def draw(self, flow: Flow) -> str:
        self._region(flow.body, (), 1, self._regions_to_open(flow.body))
        return "\n".join(self.lines) + "\n"

    def _view(self, graph: Region) -> View:
        """Return the view of a region, always the same one, because the regions inside of it are known by identity."""
        if id(graph) not in self._views:
            self._views[id(graph)] = view_of(graph)
        return self._views[id(graph)]

    def _regions_to_open(self, body: Graph) -> set[int]:
        """Return the regions to draw open: breadth first, while their edges fit."""
        opened: set[int] = set()
        queue: list[tuple[Region, int]] = [(body, 0)]
        remaining_edges = self.limit
        for graph, depth in queue:
            view = self._view(graph)
            if graph is not body and (len(view.edges) > remaining_edges or depth >= _MAX_DEPTH):
                continue
            remaining_edges -= min(remaining_edges, len(view.edges))
            opened.add(id(graph))
            queue += [(inner, depth + 1) for node in view.nodes for _, inner in node.bodies]
        return opened

    def _region(self, graph: Region, at: tuple[int, ...], depth: int, opened: set[int]) -> None:
        view = self._view(graph)
        indent = "  " * depth
        nodes, edges = view.nodes, view.edges
        if len(edges) > self.limit or len(nodes) > 2 * self.limit + 1:
            # This is the outermost region, because others are drawn closed. Keep its beginning.
            ends = sorted(max(edge) for edge in edges)
            count = ends[self.limit] if len(ends) > self.limit else len(nodes)
            nodes = nodes[: min(count, 2 * self.limit + 1)]
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
        lines = [escape_label(line) for line in (node.id, node.title, *node.conditions) if line]
        if closed:
            lines.append(f"({closed} nodes inside)")
        label = "<br/>".join(lines)
        if not drawn:
            self.lines.append(f'{indent}{name}["{label}"]')
            return
        self.lines.append(f'{indent}subgraph {name}["{label}"]')
        for region_label, body, j in drawn:
            if len(node.bodies) == 1:
                self._region(body, (*at, j), depth + 1, opened)
                continue
            self.lines.append(f'{indent}  subgraph {_name((*at, j))}g["{escape_label(region_label) or " "}"]')
            self._region(body, (*at, j), depth + 2, opened)
            self.lines.append(f"{indent}  end")
        self.lines.append(f"{indent}end")


def _name(at: tuple[int, ...]) -> str:
    return "n" + "_".join(map(str, at))


def escape_label(text: str) -> str:
    """Return text for a quoted label: letters and digits unchanged, everything else by number."""
    cut = text if len(text) <= _MAX_LABEL else text[: _MAX_LABEL - 1] + "…"
    return "".join(c if c.isalnum() or c in _PLAIN else "" if not c.isprintable() else f"#{ord(c)};" for c in cut)


def graph_data(flow: Flow) -> dict[str, Json]:
    """Return a flow as `{name, nodes, edges}`."""

    # Each node has its `path` (ids from the outside in, as in the paths of a run), `id`, `title`, `lines` and `groups`:
    # its regions in this same form.
    return {"name": flow.name, **_region_data(flow.body, "", 1)}


def _region_data(graph: Region, prefix: str, depth: int) -> dict[str, Json]:
    view = view_of(graph)
    return {
        "nodes": [_node(node, prefix, depth) for node in view.nodes],
        "edges": [[view.nodes[before].id, view.nodes[after].id] for before, after in view.edges],
    }


def _node(node: Facts, prefix: str, depth: int) -> dict[str, Json]:
    path = prefix + node.id
    inside = prefix if node.is_item else f"{path}/"
    inner = [(label, body) for label, body in node.bodies if body.nodes] if depth < _MAX_DEPTH else []
    return {
        "path": path,
        "id": node.id,
        "kind": node.kind,
        "title": node.title,
        "lines": [*node.conditions, *node.details],
        "groups": [{"label": label, **_region_data(body, inside, depth + 1)} for label, body in inner],
    }


def text(flow: Flow) -> str:
    """Return a flow as an indented tree, a line per node: id, kind, tool, conditions, dependencies.

    Control characters in names are escaped, so that they cannot control a terminal.
    """
    lines = [visible(flow.name)]
    _region_tree(flow.body, "", lines, 0)
    return "\n".join(lines) + "\n"


def _region_tree(graph: Region, indent: str, lines: list[str], depth: int) -> None:
    view = view_of(graph)
    rows = len(view.nodes) + bool(view.result)
    if depth >= _MAX_DEPTH and view.nodes:
        lines.append(f"{indent}└─ … nested deeper than {_MAX_DEPTH}")
        return
    after = _start_after(view)
    for i, node in enumerate(view.nodes):
        last = i == rows - 1
        words = [node.title, *node.conditions, *node.details]
        if after.get(i):
            words.append(f"after {', '.join(after[i])}")
        lines.append(f"{indent}{'└─' if last else '├─'} {visible(node.id)}  {visible(' · '.join(words))}")
        inner = indent + ("   " if last else "│  ")
        if node.agent is not None:  # no author wrote the nodes of its loop
            calls = node.agent.calls
            ends = ["├─"] * (len(calls) - 1) + ["└─"]
            lines += [f"{inner}{end} {visible(call)}" for end, call in zip(ends, calls, strict=False)]
            continue
        for j, (label, body) in enumerate(node.bodies):
            if not label:
                _region_tree(body, inner, lines, depth + 1)
                continue
            end = j == len(node.bodies) - 1
            lines.append(f"{inner}{'└─' if end else '├─'} {visible(label)}")
            _region_tree(body, inner + ("   " if end else "│  "), lines, depth + 1)
    if view.result:
        lines.append(f"{indent}└─ = {visible(view.result)}")


def _start_after(view: View) -> dict[int, list[str]]:
    """Return the ids that each node starts after, in unordered regions."""
    ids: dict[int, list[str]] = {}
    if not view.ordered:
        for before, node in view.edges:
            ids.setdefault(node, []).append(view.nodes[before].id)
    return ids


def visible(text: str) -> str:
    """Return text with control characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
