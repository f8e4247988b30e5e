"""Write flows as compositions: one list of nodes, each a tool call, a transform, a check or a choice.

A value that a body or the flow computes at its end becomes a node of its own. Parts that a composition cannot express
are refused with the reason: jumps, loops that are not over items, waits, several nodes per item.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Final

from ...expr.ast import NULL, Expr, Fn, Ref, rebind
from ...expr.unlift import unlift
from ...ir import Graph, Node
from ...ops import Block, Branch, Call, Compute, Loop, Map, Sleep, Validate, Wait
from ..node_compiler import MERGES, data_after
from ..node_types import looks_like_nodes
from ..node_writer import WIDTH, Around, NodeWriter
from ..undo import write_undo
from ..writing import PARALLEL, POLICY, Fields, as_map, is_repeated, outputs

STRATEGIES: Final = {function: strategy for strategy, function in MERGES.items()}
SUPPORTED: Final[dict[type[Any], tuple[str, ...]]] = {
    Node: ("id", "op", "after", "when", "result", "writes", "policy", "meta"),
    Call: ("tool", "args", "undo"),
    Compute: ("value",),
    Validate: ("value", "schema", "place"),
    Branch: ("arms", "default"),
    Map: ("items", "body", "limit", "select", "most"),
    Loop: ("items", "body", "collect", "initial", "limit", "again", "until"),
    Block: ("body",),
    Sleep: ("seconds",),
    Wait: ("event", "approval", "timeout"),
    **POLICY,
}


class CompositionWriter(NodeWriter):
    """Write one flow as a composition."""

    kind, supported, passes_data = "composition", SUPPORTED, True
    null_node: ClassVar = {"type": "conditional", "condition": True, "then": None}

    def document(self) -> Fields:
        """Return the nodes and the result; what a composition cannot hold is refused."""
        body = self.flow.body
        if not body.ordered and len(body.nodes) > 1:
            body = self._in_parallel_node(body)
        nodes, value, around = self._nodes(body, Around(data=Ref("input")))
        return {**self.variables(), **self.nodes_and_result(nodes, body.result, value, around)}

    def _in_parallel_node(self, body: Graph) -> Graph:
        """Return a body whose only node is a parallel node with the nodes of an unordered one."""
        node = Node(id=self.unique_id(PARALLEL), op=Block(body=replace(body, result=outputs(body))))

        def bind_inside(ref: Ref) -> Ref:
            if ref.root != "out":
                return ref
            if ref.elide and ref.path[1:2] == ("output",):
                self.refuse("result", f"reads the field `output` of {ref.path[0]!r}, which runs in a parallel node")
            return Ref("out", (node.id, *ref.path))

        gives_all_outputs = body.result == outputs(body)
        result = Ref("out", (node.id,)) if gives_all_outputs else rebind(body.result, bind_inside)
        return Graph(nodes=(node,), result=result, ordered=True)

    def sequence(self, last: str, body: Graph, around: Around) -> list[Fields]:
        """Write the nodes of a region in order, with the last one's output as its value."""
        documents, value, around = self._nodes(body, replace(around, parallel=False))
        if not body.nodes or body.result != value:
            documents.append(self.node(Node(id=self.unique_id(last), op=Compute(value=body.result)), around))
        return documents

    def _nodes(self, body: Graph, around: Around) -> tuple[list[Fields], Expr, Around]:
        """Write nodes in order; return them, the value that they give without a result, and what follows them."""
        documents, has_certain_node = [], False
        value = around.data
        for node in body.nodes:
            documents.append(self.node(node, around))
            has_certain_node = has_certain_node or node.when is None
            around = replace(around, data=data_after(node, around.data, has_certain_node))
            value = Ref("out", (node.id,)) if node.when is None else around.data
        return documents, value, around

    def node(self, node: Node, around: Around) -> Fields:
        """Write one node with its mappings, condition, policy and output variable."""
        path = f"{around.path}{node.id}"
        node, own = self.without_wait(replace(node, op=as_map(node.op)), path, around)
        if is_repeated(node.op) and not self.is_per_item(node.op):
            node, repeated = self.for_each(node, node.op, path, around, WIDTH)
            own, around = own | repeated, replace(around, round="map")
        if node.meta.hidden:
            self.refuse_hidden(node, path)
            return {"id": node.id, **self.null_node}  # its parts are not looked at
        if node.gate is not None:
            message = "compositions have no jumps and no conditional edges (onSuccess, onError, when)"
            self.refuse(path, message, decisive=True)
        self.refuse_unsupported(replace(node, gate=None), path)
        fields: Fields = {"id": node.id, **self.op(node, replace(around, path=f"{path}/"))}
        if node.when is not None and fields["type"] == "conditional":  # which uses its condition for the choice
            inner = {**fields, "id": self.unique_id(f"{node.id}_then")}
            fields = {"id": node.id, "type": "branch", "branches": [{"condition": True, "nodes": [inner]}]}
        if node.after and around.parallel:
            fields["dependsOn"] = sorted(node.after)
        # A delay passes its data on; every other result needs a mapping.
        passed = around.data if isinstance(node.op, Sleep) else None
        if node.result != passed:
            fields["outputMapping"] = self.nullable(node.result or NULL, f"{path}.result", around)
        return fields | own | self.common_fields(node, path, around, around.data)

    def op(self, node: Node, around: Around) -> Fields:
        """Return the fields of what the node does."""
        op: Any = node.op
        match op:
            case Call():
                mapping = self._mapping_fields(op.args, around, "args")
                return {"type": "tool", "tool": op.tool, **mapping, **write_undo(op.undo)}
            case Compute():
                return self._computed_fields(op.value, around)
            case Validate():
                return self.write_validate(node, around)
            case Branch():
                return self._branch_fields(node.id, op, around)
            case Map() | Loop():
                return self.write_loop(node, around)
            case Block():
                return self._block_fields(node.id, op.body, around)
            case Wait():
                return {"type": "wait", **self.wait(op, around.path.rstrip("/"), around)}
            case Sleep():
                return {"type": "delay", "delay": self.delay(op.seconds, around)}
        self.refuse_op(node, around.path.rstrip("/"))
        return dict(self.null_node)

    def _block_fields(self, id: str, body: Graph, around: Around) -> Fields:
        if body.ordered:  # as a choice that is always taken
            return {"type": "conditional", "condition": True, "then": self.sequence(f"{id}_value", body, around)}
        if body.result != outputs(body):
            self.refuse(
                around.path.rstrip("/"), "the value of a parallel node is an object with the outputs of its nodes"
            )
        inside = replace(around, parallel=True)
        width = body.limit or max(len(body.nodes), WIDTH)
        limit = {} if width == WIDTH else {"concurrency": width}
        return {"type": "parallel", **limit, "nodes": [self.node(node, inside) for node in body.nodes]}

    def _mapping_fields(self, expr: Expr, around: Around, field: str) -> Fields:
        """Return the node's data, unless it is the output of the node before."""
        return {} if expr == around.data else {"inputMapping": self.value(expr, f"{around.path}{field}", around)}

    def _computed_fields(self, value: Expr, around: Around) -> Fields:
        path = f"{around.path}value"
        if isinstance(value, Fn) and value.name in STRATEGIES:
            strategy = STRATEGIES[value.name]
            strategy_field = {} if strategy == "object" else {"strategy": strategy}
            return {"type": "merge", "sources": [self.value(arg, path, around) for arg in value.args], **strategy_field}
        transform = self.transform(value, path, around)
        if transform is None:  # as a choice that is always taken
            return {"type": "conditional", "condition": True, **self._value_fields("then", value, path, around)}
        type_, config, source = transform
        # If an earlier step may be skipped, the data has no reference of its own.
        is_own_data = isinstance(around.data, Ref) and source == self.bind_refs(around.data, path, around)
        if type_ in ("MAP", "FILTER", "REDUCE"):
            return {"type": type_.lower(), **({} if is_own_data else {"items": unlift(source)}), **config}
        data = {} if is_own_data else {"inputMapping": unlift(source)}
        return {"type": "transform", "transform": {"type": type_, "config": config}, **data}

    def _value_fields(self, key: str, value: Expr, path: str, around: Around) -> Fields:
        document = self.value(value, path, around)
        if not looks_like_nodes(document):
            return {key: document}
        # The value looks like a node and would run, so write it as a merge of one source.
        strategy = {"strategy": "concat"} if isinstance(document, list) else {}
        return {key: [{"id": self.unique_id("value"), "type": "merge", "sources": [document], **strategy}]}

    def _branch_fields(self, id: str, op: Branch, around: Around) -> Fields:
        if not op.arms:  # as in an agent without tools
            return self._block_fields(id, op.default or Graph(nodes=(), ordered=True), around)
        unchanged = Graph(nodes=(), result=around.data, ordered=True)
        otherwise: Fields = {}
        if op.default != unchanged:
            otherwise = self._chosen_fields(id, "otherwise", op.default or Graph(nodes=(), ordered=True), around)
        if len(op.arms) == 1:
            [(test, then)] = op.arms
            then_fields = {} if then == unchanged else self._chosen_fields(id, "then", then, around)
            condition = self.condition(test, f"{around.path}condition", around)
            return {"type": "conditional", "condition": condition, **then_fields, **otherwise}
        branches = [
            {
                "condition": self.condition(test, f"{around.path}condition", around),
                "nodes": self.sequence(f"{id}_{i}", then, around),
            }
            for i, (test, then) in enumerate(op.arms)
        ]
        return {"type": "branch", "branches": branches, **otherwise}

    def _chosen_fields(self, id: str, key: str, body: Graph, around: Around) -> Fields:
        if not body.nodes:
            return self._value_fields(key, body.result, f"{around.path}{key}", around)
        return {key: self.sequence(f"{id}_{key}", body, around)}

    # --- expressions ----------------------------------------------------------------------------

    def bind(self, ref: Ref, path: str, around: Around) -> Expr:
        match ref.root:
            case "out":
                return self.output(ref)
            case "state":
                return self.variable(ref, path, around)
            case "prev" if around.acc:
                return Ref("acc", ref.path)
            case "status":
                return self.status(ref, path)
            case "round":
                return self.round(ref, path, around)
        return ref
