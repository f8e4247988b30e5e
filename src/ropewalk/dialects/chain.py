"""Tool chains: five modes over one list of nodes, with variables as state.

`read` turns a config into a ChainDocument with defaults filled in; `compile_chain` turns that into
a Flow. Both report every problem at once, in the words of the document.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import field
from enum import Enum, StrEnum
from typing import Final

from ..errors import InvalidFlow, Problem, UnsupportedSchema
from ..frozen import dataclass
from ..schema import compile_schema
from ..values import Json
from . import fields as f
from .fields import Checker, Report, join, known_keys, say


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


def _words(enum: type[Enum]) -> Checker:
    return f.one_of(tuple(str(member.value) for member in enum))


CHAIN_FIELDS: Final[dict[str, Checker]] = {
    "id": f.name,
    "name": f.text,
    "description": f.text,
    "mode": _words(ChainMode),
    "nodes": f.anything,
    "errorStrategy": _words(ErrorStrategy),
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
    "timeout": 30000,
    "concurrency": 8,
    "maxIterations": 10,
}

NODE_FIELDS: Final[dict[str, Checker]] = {
    "id": f.name,
    "type": _words(NodeType),
    "name": f.text,
    "description": f.text,
    "tool": f.name,
    "params": f.anything,
    "condition": f.condition,
    "dependsOn": f.names,
    "outputVar": f.name,
    "onSuccess": f.names,
    "onError": f.names,
    "fallback": f.anything,
    "timeout": f.number,
    "maxRetries": f.count,
    "retryDelay": f.number,
    "errorStrategy": _words(ErrorStrategy),
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
    "approval": f.text,
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
MAX_NESTING: Final = 64


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
    report: Report = []
    if not isinstance(config, Mapping):
        raise InvalidFlow([Problem(path="", message=f"a chain is an object, not {f.kind(config)}")])
    given = known_keys(f.own(config, "", report), CHAIN_FIELDS, "", report)
    # A chain that was exported carries its metadata along; it belongs to the stored one.
    given = {key: value for key, value in given.items() if value is not None and key not in ("kind", "metadata")}
    for key, value in given.items():
        given[key] = CHAIN_FIELDS[key](value, key, report)
    found = {"id": given.get("id") or str(uuid.uuid4()), **DEFAULTS, "variables": {}, **given}
    if "inputSchema" in found and not is_schema(found["inputSchema"], "inputSchema", report):
        del found["inputSchema"]
    nodes = _nodes(found.pop("nodes", None), "nodes", report, 1)
    if not nodes and not any(p.path == "nodes" for p in report):
        say(report, "nodes", "must be a non-empty list of nodes")
    return ChainDocument(found, nodes, report)


def is_schema(value: Json, path: str, report: Report) -> bool:
    """Whether this is a JSON Schema; why not is reported."""
    try:
        compile_schema(value)
    except UnsupportedSchema as exc:
        place, found, message = str(exc).partition(": ")
        inside = found and place.startswith("schema")
        say(report, path + place.removeprefix("schema") if inside else path, message if inside else str(exc))
        return False
    return True


def _nodes(value: Json, path: str, report: Report, depth: int) -> list[ChainNode]:
    if depth > MAX_NESTING:
        say(report, path, f"nested deeper than {MAX_NESTING}")
        return []
    if isinstance(value, Mapping) and not path.endswith("]") and depth > 1:
        value = [value]  # one node where a list of nodes may stand
    if not isinstance(value, list):
        say(report, path, f"must be a list of nodes, not {f.kind(value)}")
        return []
    return [_node(item, f"{path}[{i}]", report, depth) for i, item in enumerate(value)]


def _node(value: Json, path: str, report: Report, depth: int) -> ChainNode:
    if not isinstance(value, Mapping):
        say(report, path, f"must be an object, not {f.kind(value)}")
        return ChainNode(path, {})
    given = {k: v for k, v in known_keys(value, NODE_FIELDS, path, report).items() if v is not None or k == "fallback"}
    for key, item in given.items():
        given[key] = NODE_FIELDS[key](item, join(path, key), report)
    for key in ("id", "type"):
        if key not in given:
            say(report, join(path, key), "required for every node")
    bodies = {}
    for key in BODIES:
        if key in given:
            bodies[key] = _nodes(given.pop(key), join(path, key), report, depth + 1)
    node = ChainNode(path, given, bodies)
    if node.type:
        _fits(node, report)
    return node


def _fits(node: ChainNode, report: Report) -> None:
    """Fields that the node's type needs, or has no use for."""
    needed = NEEDED.get(node.type)
    if needed == "transform" and "input" in node.fields:
        needed = None  # without one the node gives its input
    if needed is not None and needed not in node.fields and needed not in node.bodies:
        say(report, join(node.path, needed), f"required for a {node.type} node")
    for key in (*node.fields, *node.bodies):
        types = ONLY_FOR.get(key)
        if types is not None and node.type not in types:
            article = " or ".join(types)
            say(report, join(node.path, key), f"a {node.type} node has no {key}; only {article} nodes do")
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
