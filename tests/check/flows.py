"""Short ways to build flows for the tests of the check."""

from __future__ import annotations

from typing import Any

from ropewalk.check import ToolCard, Tools, check
from ropewalk.expr.ast import NULL, Expr, Lit, Obj, Ref
from ropewalk.ir import Channel, Flow, Graph, Meta, Node
from ropewalk.ops import Call, Compute


def out(id: str, *path: str | int, **more: Any) -> Ref:
    return Ref("out", (id, *path), **more)


def prev(*path: str | int, **more: Any) -> Ref:
    return Ref("prev", path, **more)


def obj(**fields: Expr) -> Obj:
    return Obj(tuple(fields.items()))


def call(id: str, tool: str = "t", *, source: str = "", labels: dict[str, str] | None = None, **more: Any) -> Node:
    """A node that calls `tool`; `args_` are its arguments, the rest are fields of the node."""
    args = more.pop("args_", Obj(()))
    return Node(id=id, op=Call(tool=tool, args=args), meta=Meta(source=source, labels=labels or {}), **more)


def compute(id: str, value: Expr = NULL, **more: Any) -> Node:
    return Node(id=id, op=Compute(value=value), **more)


def node(id: str, op: Any, **more: Any) -> Node:
    return Node(id=id, op=op, **more)


def dag(*nodes: Node, result: Expr = NULL, **more: Any) -> Graph:
    return Graph(nodes=nodes, result=result, **more)


def ordered(*nodes: Node, result: Expr = NULL, **more: Any) -> Graph:
    return Graph(nodes=nodes, result=result, ordered=True, **more)


def flow(body: Graph, **more: Any) -> Flow:
    state = more.pop("state", {})
    channels = {name: c if isinstance(c, Channel) else Channel(schema=c) for name, c in state.items()}
    return Flow(name="f", body=body, state=channels, **more)


def problems(body: Graph, tools: Tools | None = None, **more: Any) -> list[str]:
    """The problems of a flow with this body, as text; there must be no warnings."""
    found = check(flow(body, **more), tools)
    assert not found.warnings, found.warnings
    return [str(p) for p in found.problems]


class Cards:
    """A lookup of tool cards that knows its names."""

    def __init__(self, **cards: ToolCard) -> None:
        self.cards = cards

    def __call__(self, name: str) -> ToolCard | None:
        return self.cards.get(name)

    def names(self) -> list[str]:
        return list(self.cards)


def schema(required: tuple[str, ...] = (), closed: bool | None = None, **properties: Any) -> dict[str, Any]:
    """An object schema; a property is a schema or the name of a type."""
    made: dict[str, Any] = {
        "type": "object",
        "properties": {k: {"type": v} if isinstance(v, str) else v for k, v in properties.items()},
    }
    if required:
        made["required"] = list(required)
    if closed is not None:
        made["additionalProperties"] = not closed
    return made


TRUE = Lit(True)
