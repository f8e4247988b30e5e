"""Compositions: one list of nodes through which data passes, each node's output the next one's data.

`read` turns a config into a CompositionDocument; `composition_flow` turns that into a Flow. Both report
every problem at once, in the words of the document. To add a node type, add it to ComposerNodeType, its
fields to the tables here, and what it does to `composition_flow.OPS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from ..errors import Problem
from ..frozen import dataclass
from ..values import Json
from . import fields as f
from .fields import Checker, Report, camel, join, known_keys, say
from .nodes import check_type, is_schema, read_fields, read_nodes, read_with_nodes


class ComposerNodeType(StrEnum):
    TOOL = "tool"
    MAP = "map"
    FILTER = "filter"
    REDUCE = "reduce"
    TRANSFORM = "transform"
    VALIDATE = "validate"
    BRANCH = "branch"
    MERGE = "merge"
    CONDITIONAL = "conditional"
    PARALLEL = "parallel"
    DELAY = "delay"


class TransformType(StrEnum):
    MAP = "map"
    FILTER = "filter"
    REDUCE = "reduce"
    FLAT_MAP = "flat_map"
    GROUP_BY = "group_by"
    SORT = "sort"
    PICK = "pick"
    OMIT = "omit"
    MERGE = "merge"
    RENAME = "rename"
    CUSTOM = "custom"


FIELDS: Final[dict[str, Checker]] = {
    "id": f.name,
    "kind": f.text,
    "name": f.text,
    "description": f.text,
    "nodes": f.anything,
    "inputSchema": f.anything,
    "outputSchema": f.anything,
    "variables": f.mapping,
    "concurrency": f.positive,
    "timeout": f.number,
    "metadata": f.mapping,
}
DEFAULTS: Final[dict[str, Json]] = {"name": "", "description": "", "concurrency": 8}

TYPE: Final = f.word_of(ComposerNodeType)
NODE_FIELDS: Final[dict[str, Checker]] = {
    "id": f.name,
    "type": TYPE,
    "name": f.text,
    "description": f.text,
    "tool": f.name,
    "inputMapping": f.anything,
    "outputMapping": f.anything,
    "schema": f.anything,
    "required": f.truth,
    "branches": f.anything,
    "condition": f.condition,
    "then": f.anything,
    "otherwise": f.anything,
    "onError": f.one_of(("stop", "fallback", "continue")),
    "fallback": f.anything,
    "items": f.anything,
    "expression": f.anything,
    "initial": f.anything,
    "concurrency": f.positive,
    "transform": f.mapping,
    "transformType": f.word_of(TransformType),
    "config": f.mapping,
    "sources": f.anything,
    "strategy": f.one_of(("object", "deep", "concat", "zip")),
    "nodes": f.anything,
    "dependsOn": f.names,
    "delay": f.anything,
    "outputVar": f.variable,
    "timeout": f.number,
    "maxRetries": f.count,
    "retryDelay": f.number,
}
NULLABLE: Final = ("then", "otherwise", "fallback", "initial", "expression")
PER_ITEM: Final = ("map", "filter", "reduce")
ONLY_FOR: Final[dict[str, tuple[str, ...]]] = {
    "tool": ("tool", *PER_ITEM),
    "inputMapping": ("tool", *PER_ITEM, "transform", "validate", "branch", "conditional", "parallel"),
    "schema": ("validate",),
    "required": ("validate",),
    "branches": ("branch",),
    "then": ("conditional",),
    "otherwise": ("conditional", "branch"),
    "items": PER_ITEM,
    "expression": PER_ITEM,
    "initial": ("reduce",),
    "concurrency": ("map", "filter", "parallel"),
    "transform": ("transform",),
    "transformType": ("transform",),
    "config": ("transform",),
    "sources": ("merge",),
    "strategy": ("merge",),
    "nodes": ("parallel",),
    "delay": ("delay",),
}
NEEDED: Final[dict[str, str]] = {
    "tool": "tool",
    "validate": "schema",
    "branch": "branches",
    "merge": "sources",
    "conditional": "condition",
    "parallel": "nodes",
    "delay": "delay",
}
_OF_CHAINS: Final = frozenset(("mode", "errorStrategy", "maxRetries", "retryDelay"))
_IN_CHAINS: Final = frozenset(
    ("type condition", "type loop", "type parallel", "type delay", "type wait", "params", "dependsOn", "outputVar")
)
_IN_COMPOSITIONS: Final = frozenset(
    (
        *("outputSchema", "inputMapping", "outputMapping", "transformType"),
        *({f"type {one}" for one in ComposerNodeType} - _IN_CHAINS - {"type tool", "type transform"}),
    )
)


@dataclass(frozen=True, slots=True)
class Arm:
    """One of the branches of a BRANCH node."""

    path: str
    condition: Json
    nodes: list[ComposerNode]


@dataclass(frozen=True, slots=True)
class ComposerNode:
    """A node as read: its fields in the documented spelling, `bodies` its nodes under `then`,
    `otherwise` and `nodes`, `arms` those under `branches`."""

    path: str
    fields: dict[str, Json]
    bodies: dict[str, list[ComposerNode]]
    arms: list[Arm]

    @property
    def id(self) -> str:
        return str(self.fields.get("id", ""))

    @property
    def type(self) -> str:
        return str(self.fields.get("type", ""))

    def get(self, key: str, default: Json = None) -> Json:
        return self.fields.get(key, default)

    def inside(self) -> Iterator[ComposerNode]:
        """This node and those in it, in the order in which they would run."""
        yield self
        for nodes in (*(arm.nodes for arm in self.arms), *self.bodies.values()):
            for node in nodes:
                yield from node.inside()

    def to_dict(self) -> dict[str, Json]:
        whole = {**self.fields, **{key: [n.to_dict() for n in body] for key, body in self.bodies.items()}}
        if "branches" in whole:
            nodes: list[Any] = [[node.to_dict() for node in arm.nodes] for arm in self.arms]
            whole["branches"] = [
                {"condition": arm.condition, "nodes": inner} for arm, inner in zip(self.arms, nodes, strict=True)
            ]
        return whole


@dataclass(frozen=True, slots=True)
class CompositionDocument:
    """A composition as read, with defaults; `problems` is empty when it is sound so far."""

    fields: dict[str, Json]
    nodes: list[ComposerNode]
    problems: list[Problem]

    def ids(self) -> list[str]:
        """The ids of all nodes, in the order in which they would run."""
        return [node.id for top in self.nodes for node in top.inside()]

    def to_dict(self) -> dict[str, Json]:
        return {**self.fields, "nodes": [node.to_dict() for node in self.nodes]}


def is_composition(document: Mapping[str, Json]) -> bool:
    """Whether a document without `kind` has the shape of a composition: an output schema, or nodes of types
    or with fields that only compositions have, and nothing that only chains have."""
    nodes = document.get("nodes")
    if not isinstance(nodes, list) or not _OF_CHAINS.isdisjoint(map(camel, filter(_is_text, document))):
        return False
    found = {"outputSchema"} & set(map(camel, filter(_is_text, document)))
    for node in nodes:
        if isinstance(node, Mapping):
            found.update(map(camel, filter(_is_text, node)))
            found.add(f"type {str(node.get('type')).strip().lower()}")
    return found.isdisjoint(_IN_CHAINS) and not found.isdisjoint(_IN_COMPOSITIONS)


def _is_text(key: Any) -> bool:
    return isinstance(key, str)


def read(config: Mapping[str, Json]) -> CompositionDocument:
    """Read a config: defaults filled in, an id made when there is none, problems collected."""
    return CompositionDocument(*read_with_nodes(config, FIELDS, "composition", DEFAULTS, _node))


def _node(value: Json, path: str, report: Report, depth: int) -> ComposerNode:
    if not isinstance(value, Mapping):
        say(report, path, f"must be an object, not {f.kind(value)}")
        return ComposerNode(path, {}, {}, [])
    given = read_fields(value, NODE_FIELDS, path, report, NULLABLE, ONLY_FOR)
    bodies: dict[str, list[ComposerNode]] = {}
    for key in ("then", "otherwise"):
        if are_nodes(given.get(key)):
            bodies[key] = read_nodes(given.pop(key), join(path, key), report, depth + 1, _node)
    if "nodes" in given:
        bodies["nodes"] = read_nodes(given.pop("nodes"), join(path, "nodes"), report, depth + 1, _node)
        if not bodies["nodes"]:
            say(report, join(path, "nodes"), "must be a non-empty list of nodes")
    arms = _arms(given["branches"], join(path, "branches"), report, depth) if "branches" in given else []
    node = ComposerNode(path, given, bodies, arms)
    if node.type:
        check_type(node, {**given, **bodies}, NEEDED, ONLY_FOR, report)
        _fits(node, report)
    return node


def are_nodes(value: Json) -> bool:
    """Whether what stands in `then` or `otherwise` is a node or a list with nodes, and not a value: a node
    is an object whose `type` is that of a node, or that has both an id and a type."""
    if isinstance(value, list):
        return any(isinstance(item, Mapping) and are_nodes(item) for item in value)
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        return False
    wrong: Report = []
    TYPE(value["type"], "type", wrong)
    return "id" in value or not wrong


def _arms(value: Json, path: str, report: Report, depth: int) -> list[Arm]:
    if not isinstance(value, list) or not value:
        say(report, path, "must be a non-empty list of branches, each with a condition and nodes")
        return []
    found = []
    for i, item in enumerate(value):
        where = f"{path}[{i}]"
        if not isinstance(item, Mapping):
            say(report, where, f"must be an object with a condition and nodes, not {f.kind(item)}")
            continue
        given = known_keys(item, {"condition": None, "nodes": None}, where, report)
        for key in ("condition", "nodes"):
            if given.get(key) is None:
                say(report, join(where, key), "required for a branch")
        condition = given.get("condition")
        if condition is not None:
            condition = f.condition(condition, join(where, "condition"), report)
        nodes = given.get("nodes")
        inner = read_nodes(nodes, join(where, "nodes"), report, depth + 1, _node) if nodes is not None else []
        found.append(Arm(where, condition, inner))
    return found


def _fits(node: ComposerNode, report: Report) -> None:
    """What fields of a node mean only together."""
    has, path = node.fields, node.path
    if node.type in PER_ITEM:
        _one_of(node, ("expression", "tool"), report)
        if "tool" not in has and "items" in has and "inputMapping" in has:
            say(report, join(path, "inputMapping"), "is the list to go over, and so is items; one of them is too many")
        if "concurrency" in has and "tool" not in has:
            say(report, join(path, "concurrency"), "only calls of a tool run at once; this node has none")
    if node.type == "transform":
        _one_of(node, ("transform", "transformType"), report)
        if "config" in has and "transform" in has:
            say(report, join(path, "config"), "the config of a transform stands inside it: transform.config")
    if "schema" in has and not is_schema(has["schema"], join(path, "schema"), report):
        del has["schema"]
    if "sources" in has and not isinstance(has["sources"], list):
        say(report, join(path, "sources"), f"must be a list of references, not {f.kind(has['sources'])}")
        has["sources"] = []
    elif has.get("sources") == []:
        say(report, join(path, "sources"), "must be a non-empty list of references")
    if has.get("onError") == "fallback" and "fallback" not in has:
        say(report, join(path, "fallback"), "required where onError is fallback")


def _one_of(node: ComposerNode, keys: tuple[str, str], report: Report) -> None:
    there = [key for key in keys if key in node.fields]
    if not there:
        say(report, join(node.path, keys[0]), f"required for a {node.type} node, or else {keys[1]}")
    elif len(there) > 1:
        say(report, join(node.path, keys[1]), f"a {node.type} node has either {keys[0]} or {keys[1]}, not both")
