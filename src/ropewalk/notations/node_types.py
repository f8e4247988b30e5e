"""The types of nodes in chains and compositions, one entry each.

An entry defines the fields of the type, how its node becomes an op, and how that op is written back. Both notations
read, check, compile, draw and convert by it, and their JSON Schemas follow from it. Each has its own words for the
arguments and the data of a node (`WORDS`).

To add a type, call `add_node_type` with a `DocumentNodeType`; `tests/notations/test_node_types.py` names what else it
needs (a row in docs/node-fields.md, a member of `NodeType`). A type with an op of its own adds that op to `ops.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, TypeAlias

from ..fast_dataclass import dataclass
from ..ir import Op
from ..ops import Block, Branch, Call, Compute, Loop, Map, Sleep, Validate, Wait
from ..values import KEY_SPELLINGS, Json
from . import fields as f
from .fields import (
    Checker,
    OneOf,
    Report,
    add_problem,
    check_schema,
    check_wait_kind,
    join,
    normalize_keys,
    read_nodes,
)
from .node_fields import VALUE_NULLS, checkers, spellings
from .undo import check_undo

Fields: TypeAlias = dict[str, Json]


class NodeType(StrEnum):
    """The names of the built-in types of nodes in chains and compositions."""

    TOOL = "tool"
    CONDITION = "condition"
    LOOP = "loop"
    PARALLEL = "parallel"
    TRANSFORM = "transform"
    DELAY = "delay"
    WAIT = "wait"
    MAP = "map"
    FILTER = "filter"
    REDUCE = "reduce"
    VALIDATE = "validate"
    BRANCH = "branch"
    MERGE = "merge"
    CONDITIONAL = "conditional"


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


WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "chain": {"args": "params"},
    "composition": {"args": "inputMapping", "input": "inputMapping"},
}
"""By notation, its words for the arguments of a node's calls (`args`) and for its data (`input`)."""
KEY_SPELLINGS.setdefault("input", set()).update(("args", "inputMapping"))


@dataclass(frozen=True, slots=True)
class Arm:
    """One branch of a `branch` node."""

    path: str
    condition: Json
    nodes: list[DocumentNode]


@dataclass(frozen=True, slots=True)
class DocumentNode:
    """A node as read: its fields in the words of its notation, and the nodes in it."""

    # `bodies` has its nodes by field; `arms` has those under `branches`.

    path: str
    fields: dict[str, Json]
    notation: str
    bodies: dict[str, list[DocumentNode]] = field(default_factory=dict)
    arms: list[Arm] = field(default_factory=list)

    @property
    def id(self) -> str:
        """Return the id, "" if it is missing."""
        return str(self.fields.get("id", ""))

    @property
    def type(self) -> str:
        """Return the name of the type, "" if it is missing or unknown."""
        return str(self.fields.get("type", ""))

    def word(self, key: str) -> str:
        """Return the notation's word for a field.

        Args:
            key: The name of the field in its type.

        Returns:
            The key that the document has for it.
        """
        return WORDS[self.notation].get(key, key)

    def get(self, key: str, default: Json = None) -> Json:
        """Return a field.

        Args:
            key: The name of the field in its type.
            default: The value if the document does not have the field.

        Returns:
            The value of the field.
        """
        return self.fields.get(self.word(key), default)

    def at(self, key: str) -> str:
        """Return the place of a field in the document.

        Args:
            key: The name of the field in its type.

        Returns:
            The path, such as `nodes[0].items`.
        """
        return join(self.path, self.word(key))

    @property
    def has_nodes(self) -> bool:
        """Return True if nodes are inside this one."""
        return bool(self.bodies or self.arms)

    @property
    def failure_targets(self) -> list[str]:
        """Return the ids of the nodes that a node of a chain jumps to after its failure."""
        targets = self.fields.get("onError")
        return targets if isinstance(targets, list) else []

    def inner(self) -> Iterator[list[DocumentNode]]:
        """Yield the lists of nodes inside this one, in the order of running."""
        yield from (arm.nodes for arm in self.arms)
        yield from self.bodies.values()

    def with_inner(self) -> Iterator[DocumentNode]:
        """Yield this node and all nodes inside it, in the order of running."""
        yield self
        for nodes in self.inner():
            for node in nodes:
                yield from node.with_inner()

    def to_dict(self) -> dict[str, Json]:
        """Return the node in the documented spelling.

        Returns:
            Its fields, with the nodes inside as dicts too.
        """
        fields = {**self.fields, **{key: [node.to_dict() for node in body] for key, body in self.bodies.items()}}
        if self.arms:
            fields["branches"] = [
                {"condition": arm.condition, "nodes": [node.to_dict() for node in arm.nodes]} for arm in self.arms
            ]
        return fields


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentNodeType:
    """One type of node.

    Args:
        name: The value of `type`.
        fields: The fields of this type in addition to those of every node, each with its checker. Another type may
            have a field of the same name if its checker is the same. `args` and `input` are the arguments of its calls
            and its data, whatever a notation calls them.
        bodies: Those of `fields` that hold nodes.
        values: Those of `fields` that hold nodes or a value.
        needs: Fields of which a node must have at least one.
        aliases: Words for which this type is suggested.
        compile: Returns the op. It gets the compiler of the notation, the node and its surroundings; `compiler.value`
            and `compiler.expression` compile the values of fields.
        writes: By class of op, a function that returns the fields of a node of this type. It gets the ChainWriter,
            the flow's node and its surroundings. An op that no type writes cannot be converted to a chain.
        check: Reports mistakes that concern several fields.
        descriptions: What the fields of a type of an extension mean, for the JSON Schema.
        labels: The document's names for the parts of the op, if they differ from those of other types.
        fails_from_outside: True if a cause outside the document can make the node fail.
        has_own_timeout: True if the op itself enforces `timeout`, instead of the node's policy.
    """

    name: str
    fields: Mapping[str, Checker]
    compile: Callable[[Any, DocumentNode, Any], Op]
    bodies: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    writes: Mapping[type[Any], Callable[[Any, Any, Any], Fields]] = field(default_factory=dict)
    check: Callable[[DocumentNode, Report], None] | None = None
    descriptions: Mapping[str, str] = field(default_factory=dict)
    labels: Callable[[DocumentNode], Mapping[str, str]] | None = None
    fails_from_outside: bool = False
    has_own_timeout: bool = False

    def owns(self, key: str) -> bool:
        """Return True if nodes of this type use a field in their own way.

        Args:
            key: The name of the field.

        Returns:
            True if it is one of `fields` or `needs`.
        """
        return key in self.fields or key in self.needs


NODE_TYPES: Final[dict[str, DocumentNodeType]] = {}
OP_WRITERS: Final[dict[type[Any], Callable[[Any, Any, Any], Fields]]] = {}
"""By class of op, the function that writes it as the fields of a node."""
OWN_FIELDS: Final[Mapping[str, Mapping[str, Checker]]] = {
    "chain": {"onSuccess": f.names},
    "composition": {"outputMapping": f.anything},
}
"""By notation, the fields that only its nodes have."""
NULLABLE: Final = ("then", "otherwise", "initial", "expression", *VALUE_NULLS)
"""The fields in which null is a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTable:
    """The fields that nodes of a notation may have, in its words, as they follow from the types."""

    fields: Mapping[str, Checker]
    """Every field that a node may have, and its checker."""
    only_for: Mapping[str, tuple[str, ...]]
    """By field, the types that have it; fields of every type are missing here."""
    needs: Mapping[str, tuple[str, ...]]
    """By type, the fields of which a node must have at least one."""
    others: Mapping[str, str]
    """Other spellings of fields, each with the word of the notation."""
    others_of: Mapping[str, Mapping[str, str]]
    """By type, other spellings of fields; types with calls are missing here."""


@lru_cache(maxsize=8)
def node_table(notation: str) -> NodeTable:
    """Return the table of the nodes of a notation."""
    words = WORDS[notation]
    aliases = {alias: known.name for known in NODE_TYPES.values() for alias in known.aliases}
    fields: dict[str, Checker] = {"id": f.name, "type": OneOf(tuple(NODE_TYPES), aliases)}
    fields |= {**OWN_FIELDS[notation], **checkers(notation)}
    only_for: dict[str, tuple[str, ...]] = {}
    for known in NODE_TYPES.values():
        for key, checker in known.fields.items():
            fields[words.get(key, key)] = checker
            only_for[words.get(key, key)] = (*only_for.get(words.get(key, key), ()), known.name)
    needs = {name: tuple(words.get(key, key) for key in known.needs) for name, known in NODE_TYPES.items()}
    # A node without calls has no arguments, so the words for these are words for its data.
    others, data = spellings(notation), words.get("input", "input")
    of_data = {**others, **{key: data for key in ("args", "input", "inputMapping") if key != data}}
    without_calls = [known for known in NODE_TYPES.values() if "input" in known.fields and "args" not in known.fields]
    others_of = {known.name: of_data for known in without_calls}
    return NodeTable(fields=fields, only_for=only_for, needs=needs, others=others, others_of=others_of)


def add_node_type(node_type: DocumentNodeType) -> None:
    """Add a type of nodes to chains and compositions, or replace the type of the same name.

    Args:
        node_type: The type.

    Raises:
        ValueError: The type checks a field in another way than other types, or writes an op that another type writes.
    """
    other_types = [known for known in NODE_TYPES.values() if known.name != node_type.name]
    for other_type in other_types:
        for key in node_type.fields.keys() & other_type.fields.keys():
            if node_type.fields[key] is not other_type.fields[key]:
                raise ValueError(
                    f"node type {node_type.name!r}: {other_type.name} nodes check the field {key} in another way"
                )
        for op in node_type.writes.keys() & other_type.writes.keys():
            raise ValueError(f"node type {node_type.name!r}: {other_type.name} nodes already write {op.__name__}")
    # The fields of every node cannot be redefined.
    of_every_node = {"id", "type"}.union(*(OWN_FIELDS[name].keys() | checkers(name).keys() for name in WORDS))
    if common := node_type.fields.keys() & of_every_node:
        raise ValueError(f"node type {node_type.name!r}: every node already has {', '.join(sorted(common))}")
    remove_node_type(node_type.name)
    NODE_TYPES[node_type.name] = node_type
    OP_WRITERS.update(node_type.writes)


def remove_node_type(name: str) -> None:
    """Remove a type from the tables; do nothing if there is none of this name."""
    removed = NODE_TYPES.pop(name, None)
    for op in removed.writes if removed else ():
        del OP_WRITERS[op]
    node_table.cache_clear()


# --- reading one node -------------------------------------------------------------------------


def node_reader(notation: str) -> Callable[[Json, str, Report, int], DocumentNode]:
    """Return the function that reads a node of a notation, with the nodes inside it."""

    def read(value: Json, path: str, report: Report, depth: int) -> DocumentNode:
        if not isinstance(value, Mapping):
            add_problem(report, path, f"must be an object, not {f.type_name(value)}")
            return DocumentNode(path, {}, notation)
        table, type_ = node_table(notation), str(value.get("type")).strip().lower()
        others = table.others_of.get(type_, table.others)
        is_listed = lambda key: type_ in table.only_for.get(key, (type_,))  # noqa: E731
        fields = {
            key: table.fields[key](item, join(path, key), report)
            for key, item in normalize_keys(value, table.fields, path, report, is_listed, others).items()
            if item is not None or key in NULLABLE
        }
        for key in ("id", "type"):
            if key not in fields:
                add_problem(report, join(path, key), "required for every node")
        node = DocumentNode(path, fields, notation)
        known = NODE_TYPES.get(node.type)
        for key in ("nodes", *(known.bodies if known else ()), *(known.values if known else ("then", "otherwise"))):
            if key in fields and (key == "nodes" or (known and key in known.bodies) or looks_like_nodes(fields[key])):
                _read_body(node, key, report, depth, read)
        if "branches" in fields:
            node.arms.extend(_read_arms(fields["branches"], join(path, "branches"), report, depth, read))
        if known is not None:
            _check_fields(node, known, table, report)
        return node

    return read


Read: TypeAlias = Callable[[Json, str, Report, int], DocumentNode]


def _read_body(node: DocumentNode, key: str, report: Report, depth: int, read: Read) -> None:
    """Move the nodes under a field from the fields of a node to its bodies."""
    value = node.fields.pop(key)
    if value is None:
        return  # counts as absent
    node.bodies[key] = read_nodes(value, node.at(key), report, depth + 1, read)
    if key == "nodes" and value == []:
        add_problem(report, node.at(key), "must be a non-empty list of nodes")


def looks_like_nodes(value: Json) -> bool:
    """Return True if the value of `then` or `otherwise` is a node or a list of nodes, not plain data."""

    # A node is an object with the type of a node, or with both an id and a type.
    if isinstance(value, list):
        return any(isinstance(item, Mapping) and looks_like_nodes(item) for item in value)
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        return False
    return "id" in value or value["type"].strip().lower() in NODE_TYPES


def _read_arms(value: Json, path: str, report: Report, depth: int, read: Read) -> list[Arm]:
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
        inner = read_nodes(nodes, join(item_path, "nodes"), report, depth + 1, read) if nodes is not None else []
        arms.append(Arm(item_path, condition, inner))
    return arms


def _check_fields(node: DocumentNode, known: DocumentNodeType, table: NodeTable, report: Report) -> None:
    """Report fields that the node's type requires or does not have, and mistakes between its fields."""
    present = {**node.fields, **node.bodies}
    needs = table.needs[known.name]
    if needs and not any(key in present for key in needs):
        several = f"a {known.name} node needs {' or '.join(needs)}"
        message = several if len(needs) > 1 else f"required for a {known.name} node"
        add_problem(report, join(node.path, needs[0]), message)
    for key in present:
        types = table.only_for.get(key, (known.name,))
        if known.name not in types:
            only = " or ".join(types)
            add_problem(report, join(node.path, key), f"a {known.name} node has no {key}; only {only} nodes do")
    if known.check is not None:
        known.check(node, report)


def _check_loop(node: DocumentNode, report: Report) -> None:
    if not any(key in node.fields for key in ("items", "until", "while", "maxIterations")):
        add_problem(report, node.path, "a loop node needs items, until, while or maxIterations")
    if "items" in node.fields and ("until" in node.fields or "while" in node.fields):
        add_problem(report, join(node.path, "items"), "a loop has either items or until/while, not both")
    if "concurrency" in node.fields and "items" not in node.fields:
        add_problem(report, join(node.path, "concurrency"), "only a loop over items can run iterations concurrently")


def _check_wait(node: DocumentNode, report: Report) -> None:
    inner = node.fields.get("wait")
    if isinstance(inner, Mapping) and not {"event", "approval"} & node.fields.keys():
        what = next(iter(inner), "event")
        add_problem(report, node.path, f"a wait node has {what} itself; write {what} next to type, without wait")
        return
    check_wait_kind(node.fields, "a wait node ", node.path, report)


def _check_per_item(node: DocumentNode, report: Report) -> None:
    """Report a node per item that takes its list from two places, or runs both an expression and a tool."""
    fields = node.fields
    if "tool" in fields:
        if "expression" in fields:
            add_problem(report, node.at("tool"), f"a {node.type} node has either expression or tool, not both")
        return
    if "items" in fields and node.get("args") is not None:
        message = "names the list to iterate over, and so does items; remove one of them"
        add_problem(report, node.at("args"), message)
    for key, can in (("concurrency", "run concurrently"), ("undo", "can be undone")):
        if key in fields and key in NODE_TYPES[node.type].fields:
            add_problem(report, node.at(key), f"only tool calls {can}, and this node has no tool")


def _check_transform(node: DocumentNode, report: Report) -> None:
    if "transform" in node.fields and "transformType" in node.fields:
        add_problem(
            report, node.at("transformType"), "a transform node has either transform or transformType, not both"
        )
    if "config" in node.fields and "transform" in node.fields:
        add_problem(report, node.at("config"), "belongs inside the transform: transform.config")
    elif "config" in node.fields and "transformType" not in node.fields:
        add_problem(report, node.at("transformType"), "required if a transform node has config")


def _check_validate(node: DocumentNode, report: Report) -> None:
    """Report a wrong schema, and remove it, so that compiling finds no further problems in it."""
    if "schema" in node.fields and not check_schema(node.fields["schema"], node.at("schema"), report):
        del node.fields["schema"]


def _check_merge(node: DocumentNode, report: Report) -> None:
    sources = node.get("sources", [None])
    if not isinstance(sources, list):
        add_problem(report, node.at("sources"), f"must be a list of references, not {f.type_name(sources)}")
        node.fields["sources"] = []
    elif not sources:
        add_problem(report, node.at("sources"), "must be a non-empty list of references")


# --- the words of a document for the parts of an op, in messages and drawings ------------------


LABELS: Final = {
    **{key: key for key in ("items", "tool", "schema", "initial", "until", "event", "approval", "timeout")},
    "when": "condition",
    "again": "while",
    "limit": "concurrency",
    "most": "maxIterations",
    "seconds": "delay",
    "body": "nodes",
    "after": "dependsOn",
    "writes": "outputVar",
    "result": "outputMapping",
    "policy.on_error.value": "fallback",
    "policy.timeout": "timeout",
    "policy.retry": "maxRetries",
    # Types of nodes, for messages of writers.
    "block": "parallel",
    "sleep": "delay",
}


def node_labels(node: DocumentNode) -> Mapping[str, str]:
    """Return the document's names for the parts of a node."""
    known = NODE_TYPES.get(node.type)
    own = known.labels(node) if known is not None and known.labels is not None else {}
    return {**LABELS, "args": node.word("args"), "branch": node.type, "compute": node.type, **own}


def _loop_labels(node: DocumentNode) -> Mapping[str, str]:
    is_concurrent = "items" in node.fields and node.get("concurrency", 1) > 1
    return {"limit": "concurrency" if is_concurrent else "maxIterations"}


def _transform_labels(node: DocumentNode) -> Mapping[str, str]:
    """Return the names of a transform's parts: what it reads is its data, if the document names it."""
    config = node.get("config") or (node.get("transform") or {}).get("config")
    own = "config" if "transformType" in node.fields else "transform" if "transform" in node.fields else "input"
    if "$" not in str(node.get("input", "")):
        return {"value": node.word(own)}
    if isinstance(config, dict) and not config.keys().isdisjoint(("expression", "key", "by")):
        return {"value": own, "value.source": node.word("input")}
    return {"value": node.word("input")}


def _per_item_labels(node: DocumentNode) -> Mapping[str, str]:
    is_mapped = node.get("args") is not None
    if "tool" in node.fields:
        return {"body": "tool"}
    labels = {"value": "expression"}
    if "items" in node.fields or is_mapped:
        labels["value.source"] = "items" if "items" in node.fields else node.word("args")
    return labels


def _choice_labels(node: DocumentNode) -> Mapping[str, str]:
    labels = {"value": "condition", "default": "otherwise", "default.result": "otherwise"}
    if not node.arms:
        return {**labels, "arms[0][0]": "condition", "arms[0][1]": "then", "arms[0][1].result": "then"}
    for i in range(len(node.arms)):
        labels |= {f"arms[{i}][0]": f"branches[{i}].condition", f"arms[{i}][1]": f"branches[{i}].nodes"}
    return labels


# --- the types --------------------------------------------------------------------------------


def _method(name: str) -> Callable[[Any, DocumentNode, Any], Any]:
    """Return a function that calls a method of its first argument: a compiler or a writer."""
    return lambda owner, node, around: getattr(owner, name)(node, around)


_PER_ITEM: Final[dict[str, Checker]] = {
    "items": f.anything,
    "expression": f.anything,
    "tool": f.name,
    "args": f.anything,
    "undo": check_undo,
}
for _node_type in (
    DocumentNodeType(
        name="tool",
        fields={"tool": f.name, "args": f.anything, "undo": check_undo},
        needs=("tool",),
        compile=_method("tool"),
        writes={Call: _method("write_tool")},
    ),
    DocumentNodeType(
        name="condition",
        fields={"then": f.anything, "otherwise": f.anything, "input": f.anything},
        bodies=("then", "otherwise"),
        needs=("condition",),
        aliases=("if", "switch"),
        labels=_choice_labels,
        compile=_method("condition"),
        writes={Branch: _method("write_condition")},
    ),
    DocumentNodeType(
        name="loop",
        fields={
            "nodes": f.anything,
            "items": f.anything,
            "until": f.condition,
            "while": f.condition,
            "maxIterations": f.positive,
            "concurrency": f.positive,
        },
        bodies=("nodes",),
        needs=("nodes",),
        aliases=("for_each", "foreach", "each", "while"),
        check=_check_loop,
        labels=_loop_labels,
        compile=_method("loop"),
        writes=dict.fromkeys((Map, Loop), _method("write_loop")),
    ),
    DocumentNodeType(
        name="parallel",
        fields={"nodes": f.anything, "concurrency": f.positive, "input": f.anything},
        bodies=("nodes",),
        needs=("nodes",),
        compile=_method("parallel"),
        writes={Block: _method("write_block")},
    ),
    DocumentNodeType(
        name="transform",
        fields={
            "transform": f.mapping,
            "transformType": f.word_of(TransformType),
            "config": f.mapping,
            "input": f.anything,
        },
        needs=("transform", "transformType", "input"),  # a transform with only `input` gives it
        aliases=tuple(kind for kind in TransformType if kind not in {*NodeType}),
        check=_check_transform,
        labels=_transform_labels,
        compile=_method("transform"),
        writes={Compute: _method("write_transform")},
    ),
    DocumentNodeType(
        name="delay",
        fields={"delay": f.milliseconds_or_reference},
        needs=("delay",),
        aliases=("sleep", "pause"),
        compile=_method("delay"),
        writes={Sleep: _method("write_delay")},
    ),
    DocumentNodeType(
        name="wait",
        fields={"event": f.name, "approval": f.name},
        aliases=("approval", "event"),
        check=_check_wait,
        compile=_method("wait"),
        writes={Wait: _method("write_wait")},
        fails_from_outside=True,
        has_own_timeout=True,  # which holds through restarts
    ),
    *(
        DocumentNodeType(
            name=_name,
            fields=_PER_ITEM | _more,
            needs=("expression", "tool"),
            check=_check_per_item,
            labels=_per_item_labels,
            compile=_method("per_item"),
        )
        for _name, _more in (
            ("map", {"concurrency": f.positive}),
            ("filter", {"concurrency": f.positive}),
            ("reduce", {"initial": f.anything}),
        )
    ),
    DocumentNodeType(
        name="validate",
        fields={"schema": f.anything, "required": f.truth, "input": f.anything},
        needs=("schema",),
        check=_check_validate,
        labels=lambda node: {"value": node.word("input") if node.get("input") is not None else "schema"},
        compile=_method("validate"),
        writes={Validate: _method("write_validate")},
        fails_from_outside=True,
    ),
    DocumentNodeType(
        name="branch",
        fields={"branches": f.anything, "otherwise": f.anything, "input": f.anything},
        values=("otherwise",),
        needs=("branches",),
        labels=_choice_labels,
        compile=_method("branch"),
    ),
    DocumentNodeType(
        name="merge",
        fields={"sources": f.anything, "strategy": f.one_of(("object", "deep", "concat", "zip"))},
        needs=("sources",),
        check=_check_merge,
        labels=lambda node: {"value": "sources"},
        compile=_method("merge"),
    ),
    DocumentNodeType(
        name="conditional",
        fields={"then": f.anything, "otherwise": f.anything, "input": f.anything},
        values=("then", "otherwise"),
        needs=("condition",),
        labels=_choice_labels,
        compile=_method("conditional"),
    ),
):
    add_node_type(_node_type)
