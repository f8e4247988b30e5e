"""Tool chains: five modes over one list of nodes, with variables as state.

`read` turns a config into a ChainDocument with defaults filled in; `compile_document` turns that into
a Flow. Both report every problem at once, in the words of the document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Final

from ..errors import Problem
from ..frozen import dataclass
from ..values import Json
from . import fields as f
from .fields import Checker, Report, join, say
from .nodes import check_type, read_fields, read_nodes, read_with_nodes


class ChainMode(StrEnum):
    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"
    CONDITIONAL = "conditional"
    LOOP = "loop"
    DAG = "dag"


class ErrorStrategy(StrEnum):
    STOP = "stop"
    CONTINUE = "continue"
    RETRY = "retry"
    FALLBACK = "fallback"
    SKIP = "skip"


class NodeType(StrEnum):
    TOOL = "tool"
    CONDITION = "condition"
    LOOP = "loop"
    PARALLEL = "parallel"
    TRANSFORM = "transform"
    DELAY = "delay"
    WAIT = "wait"


_MEANT: Final = {
    **dict.fromkeys(("for_each", "foreach", "each", "map", "while"), "loop"),
    **dict.fromkeys(("if", "branch", "switch"), "condition"),
    **dict.fromkeys(("sleep", "pause"), "delay"),
    **dict.fromkeys(("approval", "event"), "wait"),
}


CHAIN_FIELDS: Final[dict[str, Checker]] = {
    "id": f.name,
    "name": f.text,
    "description": f.text,
    "mode": f.word_of(ChainMode),
    "nodes": f.anything,
    "errorStrategy": f.word_of(ErrorStrategy),
    "maxRetries": f.count,
    "retryDelay": f.number,
    "timeout": f.number,
    "variables": f.mapping,
    "concurrency": f.positive,
    "maxIterations": f.positive,
    "until": f.condition,
    "inputSchema": f.anything,
    "kind": f.text,
    "metadata": f.mapping,
}

DEFAULTS: Final[dict[str, Json]] = {
    "name": "",
    "description": "",
    "mode": "sequential",
    "errorStrategy": "stop",
    "maxRetries": 3,
    "retryDelay": 1000,
    "timeout": 0,  # no limit: a tool call has its own, and a model may take minutes
    "concurrency": 8,
    "maxIterations": 10,
}

NODE_FIELDS: Final[dict[str, Checker]] = {
    "id": f.name,
    "type": f.word_of(NodeType, _MEANT),
    "name": f.text,
    "description": f.text,
    "tool": f.name,
    "params": f.anything,
    "condition": f.condition,
    "dependsOn": f.names,
    "outputVar": f.variable,
    "onSuccess": f.names,
    "onError": f.names,
    "fallback": f.anything,
    "timeout": f.number,
    "maxRetries": f.count,
    "retryDelay": f.number,
    "errorStrategy": f.word_of(ErrorStrategy),
    "nodes": f.anything,
    "then": f.anything,
    "otherwise": f.anything,
    "items": f.anything,
    "until": f.condition,
    "while": f.condition,
    "maxIterations": f.positive,
    "concurrency": f.positive,
    "transform": f.mapping,
    "input": f.anything,
    "delay": f.anything,
    "event": f.name,
    "approval": f.name,
}

ONLY_FOR: Final[dict[str, tuple[str, ...]]] = {
    "tool": ("tool",),
    "params": ("tool",),
    "then": ("condition",),
    "otherwise": ("condition",),
    "nodes": ("loop", "parallel"),
    "items": ("loop",),
    "until": ("loop",),
    "while": ("loop",),
    "maxIterations": ("loop",),
    "concurrency": ("loop", "parallel"),
    "transform": ("transform",),
    "input": ("transform",),
    "delay": ("delay",),
    "event": ("wait",),
    "approval": ("wait",),
}
NEEDED: Final[dict[str, str]] = {
    "tool": "tool",
    "condition": "condition",
    "loop": "nodes",
    "parallel": "nodes",
    "transform": "transform",
    "delay": "delay",
}
BODIES: Final = ("nodes", "then", "otherwise")


@dataclass(frozen=True, slots=True)
class ChainNode:
    """A node as read: its fields in the documented spelling, its bodies read too."""

    path: str
    fields: dict[str, Json]
    bodies: dict[str, list[ChainNode]] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return str(self.fields.get("id", ""))

    @property
    def type(self) -> str:
        return str(self.fields.get("type", ""))

    def get(self, key: str, default: Json = None) -> Json:
        return self.fields.get(key, default)

    def to_dict(self) -> dict[str, Json]:
        return {**self.fields, **{key: [n.to_dict() for n in body] for key, body in self.bodies.items()}}


@dataclass(frozen=True, slots=True)
class ChainDocument:
    """A chain as read, with defaults; `problems` is empty when it is sound so far."""

    fields: dict[str, Json]
    nodes: list[ChainNode]
    problems: list[Problem]

    def to_dict(self) -> dict[str, Json]:
        return {**self.fields, "nodes": [node.to_dict() for node in self.nodes]}


def read(config: Mapping[str, Json]) -> ChainDocument:
    """Read a config: defaults filled in, an id made when there is none, problems collected."""
    return ChainDocument(*read_with_nodes(config, CHAIN_FIELDS, "chain", DEFAULTS, _node))


def _node(value: Json, path: str, report: Report, depth: int) -> ChainNode:
    if not isinstance(value, Mapping):
        say(report, path, f"must be an object, not {f.kind(value)}")
        return ChainNode(path, {})
    given = read_fields(value, NODE_FIELDS, path, report, ("fallback",), ONLY_FOR)
    bodies: dict[str, list[ChainNode]] = {}
    for key in BODIES:
        if key in given:
            if key == "nodes" and given[key] == []:
                say(report, join(path, key), "must be a non-empty list of nodes")
            bodies[key] = read_nodes(given.pop(key), join(path, key), report, depth + 1, _node)
    node = ChainNode(path, given, bodies)
    if node.type:
        _fits(node, report)
    return node


def _fits(node: ChainNode, report: Report) -> None:
    """Fields that the node's type needs, or has no use for."""
    # A transform without one gives its input.
    needed = {} if node.type == "transform" and "input" in node.fields else NEEDED
    check_type(node, {**node.fields, **node.bodies}, needed, ONLY_FOR, report)
    if node.type == "loop":
        if not any(key in node.fields for key in ("items", "until", "while", "maxIterations")):
            say(report, node.path, "a loop node needs items, until, while or maxIterations")
        if "items" in node.fields and ("until" in node.fields or "while" in node.fields):
            say(report, join(node.path, "items"), "a loop has either items or until/while, not both")
        if "concurrency" in node.fields and "items" not in node.fields:
            say(report, join(node.path, "concurrency"), "only a loop over items can run rounds at once")
    params = node.get("params")
    if not isinstance(params, dict) and not (params is None or (isinstance(params, str) and "$" in params)):
        say(report, join(node.path, "params"), f"must be an object or a reference to one, not {f.kind(params)}")
    if node.type == "wait" and ("event" in node.fields) == ("approval" in node.fields):
        say(report, node.path, "a wait node needs either event or approval")
