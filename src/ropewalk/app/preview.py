"""Preview a run: the nodes in their order, with their tools. The graph is read; nothing is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..check import ToolCard
from ..check.facts import Facts
from ..draw import agent_in, text
from ..errors import Problem
from ..expr.ast import show_in_document
from ..fast_dataclass import dataclass
from ..ir import Graph, Node, node_parts
from ..ops import Call, Loop, Program, calls_of
from ..outline import Outline, ToolCall, Wait
from ..values import Json
from .facts import facts_of_definition
from .prepared import Prepared

if TYPE_CHECKING:
    from .context import Context


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The nodes in an order in which they could run, each with what it calls and waits for."""

    name: str
    kind: str
    nodes: tuple[dict[str, Json], ...]
    warnings: tuple[Problem, ...]
    drawing: str
    facts: Facts

    def to_dict(self) -> dict[str, Json]:
        """Return the preview as JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "nodes": list(self.nodes),
            "warnings": [str(w) for w in self.warnings],
            "facts": self.facts.to_dict(),
        }

    def text(self) -> str:
        """Render the preview as text: the graph as a tree, then the tools with their types."""
        lines = [self.drawing.rstrip(), "", "Tools:"]
        listed: set[str] = set()
        for node in self.nodes:
            tool = node.get("tool")
            if tool and tool not in listed:
                listed.add(tool)
                tool = tool.rstrip(":")
                signature = f"({', '.join(node['takes'])}) -> {node['gives']}" if node["known"] else ": not known"
                if node["gives"] is None:
                    signature = ""
                lines.append(f"  {tool}{signature}")
        if len(lines) == 3:
            lines.append("  none")
        lines += ["", *self.facts.text().rstrip().split("\n")]
        if self.warnings:
            from ..source.document import render_problem

            lines += ["", *(f"warning: {render_problem(warning)}" for warning in self.warnings)]
        return "\n".join(lines) + "\n"


def preview(context: Context, loaded: Prepared, warnings: tuple[Problem, ...]) -> Preview:
    """Return the preview of a checked definition, with the facts about it."""
    flow = loaded.flow
    return Preview(
        name=flow.name,
        kind=loaded.kind,
        nodes=tuple(_nodes(flow.body, "", context.definitions.cards_for(loaded))),
        warnings=warnings,
        drawing=text(flow),
        facts=facts_of_definition(context, loaded),
    )


def _nodes(body: Graph, prefix: str, tools: Callable[[str], ToolCard | None]) -> Iterator[dict[str, Json]]:
    for node in in_order(body):
        inside = prefix
        agent = agent_in(node.op)
        if agent is not None and isinstance(node.op, Loop):
            yield _row(node, prefix, body, tools) | {"kind": "agent"}
            for inner in calls_of(node.op.body):
                if inner.op.tool in agent.tools:  # the rest of its loop nobody wrote
                    yield _row(inner, f"{prefix}{node.id}/", body, tools)
            continue
        if not node.meta.hidden:
            inside = f"{prefix}{node.id}/"
            yield _row(node, prefix, body, tools)
        if isinstance(node.op, Program) and node.op.outline is not None:
            yield from _items(node.op.outline, inside, tools)
            continue
        for _, part in node_parts(node):
            if isinstance(part, Graph):
                yield from _nodes(part, inside, tools)


def _items(outline: Outline, prefix: str, tools: Callable[[str], ToolCard | None]) -> Iterator[dict[str, Json]]:
    """Yield a row for each call and wait of a program, in the order of its text."""
    for item in outline.items():
        if not isinstance(item, (ToolCall, Wait)):
            continue
        kind = "call" if isinstance(item, ToolCall) else "sleep" if item.kind == "sleep" else "wait"
        row: dict[str, Json] = {"path": f"{prefix}{item.place}", "kind": kind, "after": [], "at": f"code:{item.place}"}
        yield row | _tool(item.tool, tools) if isinstance(item, ToolCall) else row


def _row(node: Node, prefix: str, body: Graph, tools: Callable[[str], ToolCard | None]) -> dict[str, Json]:
    row: dict[str, Json] = {
        "path": prefix + node.id,
        "kind": type(node.op).__name__.lower(),
        "after": sorted(body.needs.get(node.id, ())),
        "at": node.meta.source,
    }
    if node.when is not None:
        row["when"] = show_in_document(node.when)
    if isinstance(node.op, Call):
        row |= {**_tool(node.op.tool, tools), "args": show_in_document(node.op.args)}
    return row


def _tool(tool: str, tools: Callable[[str], ToolCard | None]) -> dict[str, Json]:
    card = tools(tool)
    if card is None:
        return {"tool": tool, "known": False, "takes": [], "gives": "anything"}
    # A file next to a definition says nothing about itself.
    is_silent = card.input_schema is None and card.output_schema is None
    gives = None if is_silent else _type(card.output_schema)
    return {"tool": tool, "known": True, "takes": _takes(card.input_schema), "gives": gives}


def in_order(body: Graph) -> list[Node]:
    """Sort the nodes of a region into an order in which they can run."""
    if body.ordered:
        return list(body.nodes)
    by_id = {node.id: node for node in body.nodes}
    done: dict[str, Node] = {}
    for node in body.nodes:
        stack = [node.id]
        while stack:
            id = stack[-1]
            waiting_for = [need for need in sorted(body.needs[id]) if need not in done]
            if waiting_for:
                stack.extend(waiting_for)
                continue
            done.setdefault(id, by_id[id])
            stack.pop()
    return list(done.values())


def _takes(schema: Any) -> list[str]:
    properties = schema.get("properties", {}) if isinstance(schema, dict) else {}
    required = schema.get("required", ()) if isinstance(schema, dict) else ()
    return [f"{name}{'' if name in required else '?'}: {_type(inner)}" for name, inner in properties.items()]


def _type(schema: Any) -> str:
    if not isinstance(schema, dict) or "type" not in schema:
        return "anything"
    kind = schema["type"]
    if kind == "object" and schema.get("properties"):
        return "{" + ", ".join(schema["properties"]) + "}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)
