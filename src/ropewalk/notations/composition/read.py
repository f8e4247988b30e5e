"""Read compositions: one list of nodes, where each node's output is the next one's data.

`read` turns a document into a CompositionDocument; `compile.py` turns that into a Flow. Both report every
problem at once, in the words of the document. To add a node type, add it to ComposerNodeType, its fields to
the tables here, and its compilation to `OPS` in `compile.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from ...errors import Problem
from ...fast_dataclass import dataclass
from ...values import Json
from .. import fields as f
from ..fields import (
    Checker,
    Report,
    add_problem,
    camel,
    check_node_fields,
    check_schema,
    join,
    normalize_keys,
    read_document_with_nodes,
    read_fields,
    read_nodes,
)
from ..node_fields import DOCUMENT_FIELDS, VALUE_NULLS, check_fallback, checkers, spellings
from ..undo import check_undo


class ComposerNodeType(StrEnum):
    """The types of nodes in compositions."""

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
    WAIT = "wait"


class TransformType(StrEnum):
    """The types of transforms."""

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
    "nodes": f.anything,
    **DOCUMENT_FIELDS,
}
DEFAULTS: Final[dict[str, Json]] = {"name": "", "description": "", "concurrency": 8}

TYPE: Final = f.word_of(ComposerNodeType)
NODE_FIELDS: Final[dict[str, Checker]] = {
    "id": f.name,
    "type": TYPE,
    "tool": f.name,
    "undo": check_undo,
    "inputMapping": f.anything,
    "outputMapping": f.anything,
    "schema": f.anything,
    "required": f.truth,
    "branches": f.anything,
    "condition": f.condition,
    "then": f.anything,
    "otherwise": f.anything,
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
    "delay": f.anything,
    "event": f.name,
    "approval": f.name,
    **checkers("composition"),
}
NULLABLE: Final = ("then", "otherwise", "initial", "expression", *VALUE_NULLS)
PER_ITEM: Final = ("map", "filter", "reduce")
ONLY_FOR: Final[dict[str, tuple[str, ...]]] = {
    "tool": ("tool", *PER_ITEM),
    "undo": ("tool", *PER_ITEM),
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
    "event": ("wait",),
    "approval": ("wait",),
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
        *({f"type {name}" for name in ComposerNodeType} - _IN_CHAINS - {"type tool", "type transform"}),
    )
)


@dataclass(frozen=True, slots=True)
class Arm:
    """One branch of a `branch` node."""

    path: str
    condition: Json
    nodes: list[ComposerNode]


@dataclass(frozen=True, slots=True)
class ComposerNode:
    """A node as read: its fields in the documented spelling."""

    # `bodies` has its nodes under `then`, `otherwise` and `nodes`; `arms` has those under `branches`.

    path: str
    fields: dict[str, Json]
    bodies: dict[str, list[ComposerNode]]
    arms: list[Arm]

    @property
    def id(self) -> str:
        """Return the id, "" if it is missing."""
        return str(self.fields.get("id", ""))

    @property
    def type(self) -> str:
        """Return the type, "" if it is missing or unknown."""
        return str(self.fields.get("type", ""))

    def get(self, key: str, default: Json = None) -> Json:
        """Return a field, or the default if the document does not have it."""
        return self.fields.get(key, default)

    @property
    def has_nodes(self) -> bool:
        """Return True if nodes are inside this one."""
        return bool(self.bodies or self.arms)

    def with_inner(self) -> Iterator[ComposerNode]:
        """Yield this node and all nodes inside it, in the order of running."""
        yield self
        for nodes in (*(arm.nodes for arm in self.arms), *self.bodies.values()):
            for node in nodes:
                yield from node.with_inner()

    def to_dict(self) -> dict[str, Json]:
        """Return the node in the documented spelling."""
        fields = {**self.fields, **{key: [n.to_dict() for n in body] for key, body in self.bodies.items()}}
        if "branches" in fields:
            nodes: list[Any] = [[node.to_dict() for node in arm.nodes] for arm in self.arms]
            fields["branches"] = [
                {"condition": arm.condition, "nodes": inner} for arm, inner in zip(self.arms, nodes, strict=True)
            ]
        return fields


@dataclass(frozen=True, slots=True)
class CompositionDocument:
    """A composition as read, with defaults; `problems` is empty if it is valid so far."""

    fields: dict[str, Json]
    nodes: list[ComposerNode]
    problems: list[Problem]

    def ids(self) -> list[str]:
        """Return the ids of all nodes, in the order of running."""
        return [node.id for top in self.nodes for node in top.with_inner()]

    def to_dict(self) -> dict[str, Json]:
        """Return the document in its normal form, with defaults."""
        return {**self.fields, "nodes": [node.to_dict() for node in self.nodes]}


def is_composition(document: Mapping[str, Json]) -> bool:
    """Return True if a document without `kind` has the shape of a composition."""

    # It has an output schema, or nodes of types or with fields that only compositions have, and nothing that only
    # chains have.
    nodes = document.get("nodes")
    if not isinstance(nodes, list) or not _OF_CHAINS.isdisjoint(map(camel, filter(_is_text, document))):
        return False
    features = {"outputSchema"} & set(map(camel, filter(_is_text, document)))
    for node in nodes:
        if isinstance(node, Mapping):
            features.update(map(camel, filter(_is_text, node)))
            features.add(f"type {str(node.get('type')).strip().lower()}")
    return features.isdisjoint(_IN_CHAINS) and not features.isdisjoint(_IN_COMPOSITIONS)


def _is_text(key: Any) -> bool:
    return isinstance(key, str)


def read(config: Mapping[str, Json]) -> CompositionDocument:
    """Read a composition."""
    return CompositionDocument(*read_document_with_nodes(config, FIELDS, "composition", DEFAULTS, _node))


def _node(value: Json, path: str, report: Report, depth: int) -> ComposerNode:
    if not isinstance(value, Mapping):
        add_problem(report, path, f"must be an object, not {f.type_name(value)}")
        return ComposerNode(path, {}, {}, [])
    fields = read_fields(value, NODE_FIELDS, path, report, NULLABLE, ONLY_FOR, spellings("composition"))
    bodies: dict[str, list[ComposerNode]] = {}
    for key in ("then", "otherwise"):
        if looks_like_nodes(fields.get(key)):
            bodies[key] = read_nodes(fields.pop(key), join(path, key), report, depth + 1, _node)
    if "nodes" in fields:
        bodies["nodes"] = read_nodes(fields.pop("nodes"), join(path, "nodes"), report, depth + 1, _node)
        if not bodies["nodes"]:
            add_problem(report, join(path, "nodes"), "must be a non-empty list of nodes")
    arms = _read_arms(fields["branches"], join(path, "branches"), report, depth) if "branches" in fields else []
    node = ComposerNode(path, fields, bodies, arms)
    if node.type:
        check_node_fields(node, {**fields, **bodies}, NEEDED, ONLY_FOR, report)
        _check_fields(node, report)
    return node


def looks_like_nodes(value: Json) -> bool:
    """Return True if the value of `then` or `otherwise` is a node or a list of nodes, not plain data."""

    # A node is an object with the type of a node, or with both an id and a type.
    if isinstance(value, list):
        return any(isinstance(item, Mapping) and looks_like_nodes(item) for item in value)
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        return False
    problems: Report = []
    TYPE(value["type"], "type", problems)
    return "id" in value or not problems


def _read_arms(value: Json, path: str, report: Report, depth: int) -> list[Arm]:
    if not isinstance(value, list) or not value:
        add_problem(report, path, "must be a non-empty list of branches, each with a condition and nodes")
        return []
    arms = []
    for i, item in enumerate(value):
        item_path = f"{path}[{i}]"
        if not isinstance(item, Mapping):
            add_problem(report, item_path, f"must be an object with a condition and nodes, not {f.type_name(item)}")
            continue
        fields = normalize_keys(item, {"condition": None, "nodes": None}, item_path, report)
        for key in ("condition", "nodes"):
            if fields.get(key) is None:
                add_problem(report, join(item_path, key), "required for a branch")
        condition = fields.get("condition")
        if condition is not None:
            condition = f.condition(condition, join(item_path, "condition"), report)
        nodes = fields.get("nodes")
        inner = read_nodes(nodes, join(item_path, "nodes"), report, depth + 1, _node) if nodes is not None else []
        arms.append(Arm(item_path, condition, inner))
    return arms


def _check_fields(node: ComposerNode, report: Report) -> None:
    """Check fields that depend on each other."""
    fields, path = node.fields, node.path
    # Nodes per item take the list from one place, and run an expression or a tool.
    if node.type in PER_ITEM:
        _check_alternatives(node, ("expression", "tool"), report)
        if "tool" not in fields and "items" in fields and "inputMapping" in fields:
            add_problem(
                report,
                join(path, "inputMapping"),
                "names the list to iterate over, and so does items; remove one of them",
            )
        if "concurrency" in fields and "tool" not in fields:
            add_problem(
                report, join(path, "concurrency"), "only tool calls run concurrently, and this node has no tool"
            )
        if "undo" in fields and "tool" not in fields:
            add_problem(report, join(path, "undo"), "only tool calls can be undone, and this node has no tool")
    if node.type == "transform":
        _check_alternatives(node, ("transform", "transformType"), report)
        if "config" in fields and "transform" in fields:
            add_problem(report, join(path, "config"), "belongs inside the transform: transform.config")
    # Remove invalid values, so that compiling finds no further problems in them.
    if "schema" in fields and not check_schema(fields["schema"], join(path, "schema"), report):
        del fields["schema"]
    if "sources" in fields and not isinstance(fields["sources"], list):
        add_problem(
            report, join(path, "sources"), f"must be a list of references, not {f.type_name(fields['sources'])}"
        )
        fields["sources"] = []
    elif fields.get("sources") == []:
        add_problem(report, join(path, "sources"), "must be a non-empty list of references")
    check_fallback(fields, "composition", path, report)
    if node.type == "wait" and ("event" in fields) == ("approval" in fields):
        add_problem(report, path, "a wait node needs either event or approval")


def _check_alternatives(node: ComposerNode, keys: tuple[str, str], report: Report) -> None:
    present = [key for key in keys if key in node.fields]
    if not present:
        add_problem(report, join(node.path, keys[0]), f"a {node.type} node needs {keys[0]} or {keys[1]}")
    elif len(present) > 1:
        add_problem(report, join(node.path, keys[1]), f"a {node.type} node has either {keys[0]} or {keys[1]}, not both")
