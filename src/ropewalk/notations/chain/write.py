"""Write flows as chains, in the short forms that people write.

Reading the document again gives a flow with the same results, state and journal. Chains cannot express a
value that is computed at the end of a body or as the flow's result; it becomes a node of its own
(`result`, `X_value`). Everything else that a chain cannot hold is refused, with every reason.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Final

from ...expr.ast import NULL, Each, Expr, Lit, Ref
from ...expr.unlift import unlift
from ...ir import Flow, Graph, Node, OnError
from ...ops import Branch, Call, Compute, Loop, Map, Validate
from ...values import Json
from ..node_fields import ROUND
from ..node_types import NODE_TYPES, OP_WRITERS
from ..node_writer import Around, NodeWriter
from ..undo import write_undo
from ..writing import (
    POLICY,
    Fields,
    outputs,
    sorted_nodes,
    split_result,
    unwrap_parallel,
)
from .read import DEFAULTS

TRUE, FALSE = Graph(nodes=(), result=Lit(True)), Graph(nodes=(), result=Lit(False))
SUPPORTED: Final[dict[type[Any], tuple[str, ...]]] = {
    Node: ("id", "op", "after", "gate", "when", "writes", "policy", "meta"),
    Call: ("tool", "args", "undo"),
    Map: ("items", "body", "limit", "select", "most"),
    Loop: ("body", "limit", "items", "again", "until", "collect", "initial"),
    Validate: ("value", "schema", "place"),
    **POLICY,
}


TOP: Final = Around()


class ChainWriter(NodeWriter):
    """Write one flow as a chain."""

    kind, supported, passes_data = "chain", SUPPORTED, False
    null_node: ClassVar = {"type": "transform", "input": "${null}"}

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow)
        self.width = int(DEFAULTS["concurrency"])
        self.needed: frozenset[str] = frozenset()

    def document(self) -> dict[str, Json]:
        """Return the mode, the nodes and the result; what a chain cannot hold is refused."""
        body = _as_sequence(unwrap_parallel(self.flow.body))
        self.listed = {node.id: i for i, node in enumerate(body.nodes)}
        fields, around, default = self.variables(), TOP, outputs(body)
        mode_loop = _mode_loop(body)
        # A hidden loop around everything is the loop mode; otherwise the graph decides the mode.
        if mode_loop is not None:
            around, default = Around(round="loop"), Ref("prev")
            fields["mode"] = "loop"
            if mode_loop.limit != DEFAULTS["maxIterations"]:
                fields["maxIterations"] = mode_loop.limit
            if mode_loop.until is not None:
                with self.entire(body.nodes[0].id):
                    fields["until"] = self.condition(mode_loop.until, "until", around)
            body = mode_loop.body
        elif not body.ordered:
            self.needed = frozenset(id for before in body.needs.values() for id in before)
            around = Around(dag=True) if any(body.needs.values()) else Around(apart=frozenset(body.needs))
            fields["mode"] = "dag" if around.dag else "parallel"
            fields |= self._width_fields(body)
            self.width = int(fields.get("concurrency", self.width))
        nodes = [self.node(node, around) for node in body.nodes]
        around = replace(around, apart=frozenset())  # all nodes have ended
        return {**fields, **self.nodes_and_result(nodes, body.result, default, around)}

    def _width_fields(self, body: Graph) -> Fields:
        """Return the limit of concurrent nodes if it differs from the chain's; without a limit it is their number."""
        width = body.limit or max(len(body.nodes), self.width)
        return {} if width == self.width else {"concurrency": width}

    # --- nodes ----------------------------------------------------------------------------------

    def node(self, node: Node, around: Around) -> Fields:
        """Write one node with its condition, policy and output variable."""
        path = f"{around.path}{node.id}"
        node, fields = self.without_wait(node, path, around)
        if isinstance(node.op, Map) and [inner.id for inner in node.op.body.nodes] == [f"{node.id}{ROUND}"]:
            node, repeated = self.for_each(node, node.op, path, around, int(DEFAULTS["concurrency"]))
            fields, around = fields | repeated, replace(around, round="map")
        if node.result is not None and not isinstance(node.op, Loop):
            call_id = f"{node.id}_call" if f"{node.id}_call" not in self.ids else None
            node = split_result(node, self.unique_id)
            if call_id is not None:
                self.document_only[f"{path}/{call_id}"] = path
        # Refuse what chains do not have.
        if node.meta.hidden:
            self.refuse_hidden(node, path)
        if node.gate is not None:
            self.refuse(path, "chains have no gates; write the gate as a condition (when)", decisive=True)
        self.refuse_unsupported(node, path)
        fields = {"id": node.id, **self.op(node, replace(around, path=f"{path}/")), **fields}
        if around.dag and node.after:
            fields["dependsOn"] = sorted(node.after & self.listed.keys(), key=self.listed.__getitem__)
        elif node.after:
            self.refuse(path, "only nodes of a chain in dag mode can wait for others (after)")
        # Some types use `condition` for their own choice, so they cannot be skipped by it.
        node_type = NODE_TYPES.get(str(fields["type"]))
        if node.when is not None and node_type is not None and node_type.owns("condition"):
            advice = f"a {node_type.name} node is never skipped: put `when` into its condition"
            self.refuse(path, advice, decisive=True)
        return fields | self.common_fields(node, path, around)

    def failure(
        self, node: Node, on_error: OnError, path: str, around: Around, failed: Expr
    ) -> tuple[str, Expr | None]:
        if on_error.reported and around.dag and node.id in self.needed:
            self.refuse(
                path,
                "in dag mode, a reported failure (continue) also skips the nodes that depend on the node; do not "
                "report the failure",
            )
        return super().failure(node, on_error, path, around, failed)

    def op(self, node: Node, around: Around) -> Fields:
        """Return the fields of what the node does."""
        op: Any = node.op
        kind = type(op)
        write = OP_WRITERS.get(kind)
        if write is not None:
            return write(self, node, around)
        self.refuse_op(node, around.path.rstrip("/"))
        return dict(self.null_node)

    def write_tool(self, node: Node, around: Around) -> Fields:
        """Write a call as a tool node."""
        op: Any = node.op
        args = self.value(op.args, f"{around.path}args", around)
        return {"type": "tool", "tool": op.tool, **({"params": args} if args != {} else {}), **write_undo(op.undo)}

    def write_transform(self, node: Node, around: Around) -> Fields:
        """Write a computed value as a transform node."""
        op: Any = node.op
        return {"type": "transform", **self._computed_fields(op.value, around)}

    def write_delay(self, node: Node, around: Around) -> Fields:
        """Write a sleep as a delay node."""
        op: Any = node.op
        return {"type": "delay", "delay": self.delay(op.seconds, around)}

    def write_wait(self, node: Node, around: Around) -> Fields:
        """Write a wait for an event or an approval."""
        op: Any = node.op
        return {"type": "wait", **self.wait(op, around.path.rstrip("/"), around)}

    def write_block(self, node: Node, around: Around) -> Fields:
        """Write a block as a parallel node, or as a branch that is always taken."""
        op: Any = node.op
        return self._block_fields(node.id, op.body, around)

    def write_condition(self, node: Node, around: Around) -> Fields:
        """Write a branch as a condition node."""
        op: Any = node.op
        return self._branch_fields(node.id, op, around)

    def _computed_fields(self, value: Expr, around: Around) -> Fields:
        """Return a transform, or a plain value."""

        # A macro that names its elements reads better as text.
        path = f"{around.path}value"
        transform = None
        if not isinstance(value, Each) or value.names[:1] == ("$item",):
            transform = self.transform(value, path, around)
        if transform is not None:
            type_, config, source = transform
            data = {} if source == Ref("prev") else {"input": unlift(source)}
            return {"transform": {"type": type_, "config": config}, **data}
        return {"input": self.nullable(value, path, around)}

    def _block_fields(self, id: str, body: Graph, around: Around) -> Fields:
        nodes, is_only_order = sorted_nodes(body)
        if not body.ordered and is_only_order and len(nodes) > 1:  # each node waits for the one before
            sequence = tuple(replace(node, after=frozenset()) for node in nodes)
            body = replace(body, nodes=sequence, ordered=True, limit=None)
        if body.ordered:  # as a branch that is always taken
            return {"type": "condition", "condition": True, "then": self.sequence(f"{id}_value", body, around)}
        if body.result != outputs(body):
            self.refuse(
                around.path.rstrip("/"),
                "the value of a parallel node in a chain is always an object with the outputs of its nodes",
            )
        apart = frozenset(node.id for node in body.nodes)
        inside = replace(around, dag=False, apart=around.apart | apart)
        for name, needs in body.needs.items():
            if needs:
                self.refuse(
                    f"{around.path}{name}",
                    f"waits for {', '.join(sorted(needs))}; in a chain only a whole chain in dag mode has such nodes, "
                    "those of a parallel node know nothing of each other",
                )
        return {
            "type": "parallel",
            **self._width_fields(body),
            "nodes": [self.node(node, inside) for node in body.nodes],
        }

    def _branch_fields(self, id: str, op: Branch, around: Around) -> Fields:
        if not op.arms:  # as in an agent without tools
            return self._block_fields(id, op.default or Graph(nodes=(), ordered=True), around)
        (test, then), *more = op.arms
        fields: Fields = {"type": "condition", "condition": self.condition(test, f"{around.path}condition", around)}
        if then != TRUE:
            fields["then"] = self.sequence(f"{id}_then", then, around)
        if more:
            else_node = Node(id=self.unique_id(f"{id}_else"), op=Branch(arms=tuple(more), default=op.default))
            fields["otherwise"] = [self.node(else_node, replace(around, dag=False))]
        elif op.default != FALSE:
            fields["otherwise"] = self.sequence(f"{id}_otherwise", op.default or Graph(nodes=()), around)
        return fields

    def sequence(self, last: str, body: Graph, around: Around) -> list[Fields]:
        """Write the nodes of a region in order, with the last one's output as the value."""
        around = replace(around, dag=False)
        if not body.ordered and len(body.nodes) > 1:
            self.refuse(around.path.rstrip("/"), "nodes that run at once belong in a parallel node")
        nodes = list(body.nodes)
        if not nodes or body.result != Ref("out", (nodes[-1].id,)):
            nodes.append(Node(id=self.unique_id(last), op=Compute(value=body.result)))
        return [self.node(node, around) for node in nodes]

    # --- expressions ----------------------------------------------------------------------------

    def bind(self, ref: Ref, path: str, around: Around) -> Expr:
        match ref.root:
            case "out":
                if ref.path[0] in around.apart:
                    self.refuse(path, f"reads {ref.path[0]!r}, which runs at the same time in a chain")
                    return NULL
                return self.output(ref)
            case "state":
                return self.variable(ref, path, around)
            case "round":
                return self.round(ref, path, around)
            case "prev" if around.acc:
                return Ref("acc", ref.path)
            case "status":
                return self.status(ref, path)
        return ref


def _as_sequence(body: Graph) -> Graph:
    """Return a graph as a sequence if that is its only order and it continues after failures, unlike a dag."""
    continues = any(node.policy.on_error is not None and node.policy.on_error.reported for node in body.nodes)
    nodes, is_only_order = sorted_nodes(body)
    if body.ordered or not continues or not is_only_order or nodes != list(body.nodes):
        return body
    return replace(body, nodes=tuple(replace(node, after=frozenset()) for node in nodes), ordered=True)


def _mode_loop(body: Graph) -> Loop | None:
    """Return the hidden loop around a whole chain in loop mode, or None."""
    op = body.nodes[0].op if len(body.nodes) == 1 and body.nodes[0].meta.hidden else None
    if isinstance(op, Loop) and op.items is None and op.again is None and not op.collect and op.body.ordered:
        return op if op.body.result == Ref("prev") else None
    return None
