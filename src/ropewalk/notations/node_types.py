"""The types of nodes in chains, one entry each.

An entry defines the fields of the type, how its node becomes an op, and how that op is written back. Reading, the
JSON Schema, compiling, checking, drawing and converting follow from it. To add a type, call `add_node_type` with a
`ChainNodeType`; tests/chains/test_node_types.py names what else it needs (a row in docs/chains-reference.md,
a member of `NodeType`). A type with an op of its own adds that op to `ops.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final, TypeAlias

from ..fast_dataclass import dataclass
from ..ir import Op
from ..ops import Block, Branch, Call, Compute, Loop, Map, Sleep, Wait
from ..values import Json
from . import fields as f
from .fields import Checker, OneOf, Report, add_problem, join
from .node_fields import STRATEGY, checkers
from .undo import check_undo

Fields: TypeAlias = dict[str, Json]


@dataclass(frozen=True, slots=True)
class ChainNode:
    """A node as read: its fields in the documented spelling, and the nodes in its bodies."""

    path: str
    fields: dict[str, Json]
    bodies: dict[str, list[ChainNode]] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Return the id, "" if it is missing."""
        return str(self.fields.get("id", ""))

    @property
    def type(self) -> str:
        """Return the name of the type, "" if it is missing or unknown."""
        return str(self.fields.get("type", ""))

    def get(self, key: str, default: Json = None) -> Json:
        """Return a field.

        Args:
            key: The name of the field in the documented spelling.
            default: The value if the document does not have the field.

        Returns:
            The value of the field.
        """
        return self.fields.get(key, default)

    @property
    def failure_targets(self) -> list[str]:
        """Return the ids of the nodes that the node jumps to after its failure."""
        targets = self.fields.get("onError")
        return targets if isinstance(targets, list) else []

    def to_dict(self) -> dict[str, Json]:
        """Return the node in the documented spelling.

        Returns:
            Its fields, with the nodes of its bodies as dicts too.
        """
        return {**self.fields, **{key: [n.to_dict() for n in body] for key, body in self.bodies.items()}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainNodeType:
    """One type of node.

    Args:
        name: The value of `type`.
        fields: The fields of this type in addition to those of every node, each with its checker. Another type may
            have a field of the same name if its checker is the same.
        bodies: Those of `fields` that hold nodes.
        needs: Fields of which a node must have at least one.
        aliases: Words for which this type is suggested.
        compile: Returns the op. It gets the ChainCompiler, the node and its surroundings; `compiler.value` and
            `compiler.expression` compile the values of fields.
        writes: By class of op, a function that returns the fields of a node of this type. It gets the ChainWriter,
            the flow's node and its surroundings. An op that no type writes cannot be converted to a chain.
        check: Reports mistakes that concern several fields.
        labels: The document's names for the parts of the op, if they differ from those of other types.
        fails_from_outside: True if a cause outside the chain can make the node fail.
        has_own_timeout: True if the op itself enforces `timeout`, instead of the node's policy.
    """

    name: str
    fields: Mapping[str, Checker]
    compile: Callable[[Any, ChainNode, Any], Op]
    bodies: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    writes: Mapping[type[Any], Callable[[Any, Any, Any], Fields]] = field(default_factory=dict)
    check: Callable[[ChainNode, Report], None] | None = None
    labels: Callable[[ChainNode], Mapping[str, str]] | None = None
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


NODE_TYPES: Final[dict[str, ChainNodeType]] = {}
NODE_FIELDS: Final[dict[str, Checker]] = {}
"""Every field that a node may have, and its checker."""
ONLY_FOR: Final[dict[str, tuple[str, ...]]] = {}
"""By field, the types that have it; fields of every type are missing here."""
BODIES: Final[list[str]] = []
"""The fields that hold nodes."""
OP_WRITERS: Final[dict[type[Any], Callable[[Any, Any, Any], Fields]]] = {}
"""By class of op, the function that writes it as the fields of a node."""
_COMMON: Final[dict[str, Checker]] = {
    "id": f.name,
    "onSuccess": f.names,
    **checkers("chain"),
}


def add_node_type(node_type: ChainNodeType) -> None:
    """Add a type of nodes to chains, or replace the type of the same name.

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
    if common := node_type.fields.keys() & {*_COMMON, "type"}:
        raise ValueError(f"node type {node_type.name!r}: every node already has {', '.join(sorted(common))}")
    NODE_TYPES[node_type.name] = node_type
    _rebuild()


def remove_node_type(name: str) -> None:
    """Remove a type from the tables; do nothing if there is none of this name."""
    NODE_TYPES.pop(name, None)
    _rebuild()


def _rebuild() -> None:
    """Rebuild the tables that are derived from the types."""
    for table in (NODE_FIELDS, ONLY_FOR, BODIES, OP_WRITERS):
        table.clear()
    aliases = {alias: known.name for known in NODE_TYPES.values() for alias in known.aliases}
    NODE_FIELDS.update(id=_COMMON["id"], type=OneOf(tuple(NODE_TYPES), aliases))
    NODE_FIELDS.update(_COMMON)
    for known in NODE_TYPES.values():
        NODE_FIELDS.update(known.fields)
        BODIES.extend(key for key in known.bodies if key not in BODIES)
        OP_WRITERS.update(known.writes)
        for key in known.fields:
            ONLY_FOR[key] = (*ONLY_FOR.get(key, ()), known.name)


ERROR_STRATEGY: Final = STRATEGY


def _check_params(node: ChainNode, report: Report) -> None:
    params = node.get("params")
    if not isinstance(params, dict) and not (params is None or (isinstance(params, str) and "$" in params)):
        add_problem(
            report, join(node.path, "params"), f"must be an object or a reference to one, not {f.type_name(params)}"
        )


def _check_loop(node: ChainNode, report: Report) -> None:
    if not any(key in node.fields for key in ("items", "until", "while", "maxIterations")):
        add_problem(report, node.path, "a loop node needs items, until, while or maxIterations")
    if "items" in node.fields and ("until" in node.fields or "while" in node.fields):
        add_problem(report, join(node.path, "items"), "a loop has either items or until/while, not both")
    if "concurrency" in node.fields and "items" not in node.fields:
        add_problem(report, join(node.path, "concurrency"), "only a loop over items can run iterations concurrently")


def _check_wait(node: ChainNode, report: Report) -> None:
    if ("event" in node.fields) == ("approval" in node.fields):
        add_problem(report, node.path, "a wait node needs either event or approval")


for _node_type in (
    ChainNodeType(
        name="tool",
        fields={"tool": f.name, "params": f.anything, "undo": check_undo},
        needs=("tool",),
        check=_check_params,
        compile=lambda compiler, node, within: compiler.compile_tool(node, within),
        writes={Call: lambda writer, node, around: writer.write_tool(node, around)},
        fails_from_outside=True,
    ),
    ChainNodeType(
        name="condition",
        fields={"then": f.anything, "otherwise": f.anything},
        bodies=("then", "otherwise"),
        needs=("condition",),
        aliases=("if", "branch", "switch"),
        compile=lambda compiler, node, within: compiler.compile_condition(node, within),
        writes={Branch: lambda writer, node, around: writer.write_condition(node, around)},
    ),
    ChainNodeType(
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
        aliases=("for_each", "foreach", "each", "map", "while"),
        check=_check_loop,
        compile=lambda compiler, node, within: compiler.compile_loop(node, within),
        writes=dict.fromkeys((Map, Loop), lambda writer, node, around: writer.write_loop(node, around)),
        labels=lambda node: {"limit": "concurrency" if _runs_concurrently(node) else "maxIterations"},
    ),
    ChainNodeType(
        name="parallel",
        fields={"nodes": f.anything, "concurrency": f.positive},
        bodies=("nodes",),
        needs=("nodes",),
        compile=lambda compiler, node, within: compiler.compile_parallel(node, within),
        writes={Block: lambda writer, node, around: writer.write_block(node, around)},
    ),
    ChainNodeType(
        name="transform",
        fields={"transform": f.mapping, "input": f.anything},
        needs=("transform", "input"),  # a transform without `transform` gives its input
        compile=lambda compiler, node, within: compiler.compile_transform(node, within),
        writes={Compute: lambda writer, node, around: writer.write_transform(node, around)},
        labels=lambda node: _transform_labels(node),
    ),
    ChainNodeType(
        name="delay",
        fields={"delay": f.anything},
        needs=("delay",),
        aliases=("sleep", "pause"),
        compile=lambda compiler, node, within: compiler.compile_delay(node, within),
        writes={Sleep: lambda writer, node, around: writer.write_delay(node, around)},
    ),
    ChainNodeType(
        name="wait",
        fields={"event": f.name, "approval": f.name},
        aliases=("approval", "event"),
        check=_check_wait,
        compile=lambda compiler, node, within: compiler.compile_wait(node, within),
        writes={Wait: lambda writer, node, around: writer.write_wait(node, around)},
        fails_from_outside=True,
        has_own_timeout=True,  # which holds through restarts
    ),
):
    NODE_TYPES[_node_type.name] = _node_type
_rebuild()


def _runs_concurrently(node: ChainNode) -> bool:
    return bool("items" in node.fields and node.get("concurrency", 1) > 1)


def _transform_labels(node: ChainNode) -> Mapping[str, str]:
    """Return the names of a transform's parts: what it reads is its input, if it has one."""
    if "$" not in str(node.get("input", "")):
        return {"value": "transform"}
    config = (node.get("transform") or {}).get("config")
    per_item = isinstance(config, dict) and not config.keys().isdisjoint(("expression", "key", "by"))
    return {"value": "transform", "value.source": "input"} if per_item else {"value": "input"}
