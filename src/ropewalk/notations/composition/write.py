"""Write flows as compositions: one list of nodes, each a tool call, a transform, a check or a choice.

A value that a body or the flow computes at its end becomes a node of its own. Parts that a composition cannot express
are refused with the reason: jumps, loops that are not over items, waits, several nodes per item.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from ...expr.ast import NULL, Expr, Fn, Lit, Ref, rebind, refs
from ...expr.unlift import unlift
from ...fast_dataclass import dataclass
from ...ir import Graph, Node, Retry
from ...ops import Block, Branch, Call, Compute, Loop, Map, Sleep, Validate, in_milliseconds
from ...values import Json
from ..chain.write import delay_varies
from ..node_compiler import MERGES, data_after
from ..node_fields import RETRY_DELAY
from ..node_types import looks_like_nodes
from ..undo import write_undo
from ..writing import PARALLEL, POLICY, Fields, FlowWriter, items_expr, milliseconds, outputs, without_output_check
from .read import DEFAULTS

WIDTH: Final = int(DEFAULTS["concurrency"])
STRATEGIES: Final = {function: strategy for strategy, function in MERGES.items()}
SUPPORTED: Final[dict[type[Any], tuple[str, ...]]] = {
    Node: ("id", "op", "after", "when", "result", "writes", "policy", "meta"),
    Call: ("tool", "args", "undo"),
    Compute: ("value",),
    Validate: ("value", "schema", "place"),
    Branch: ("arms", "default"),
    Map: ("items", "body", "limit", "select", "most"),
    Loop: ("items", "body", "collect", "initial"),
    Block: ("body",),
    Sleep: ("seconds",),
    **POLICY,
}
NULL_NODE: Final = {"type": "conditional", "condition": True, "then": None}
"""A node that gives null, in place of a node that a composition cannot hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """The surroundings of a node: its path, the data that reaches it, and if it is a call per item or a fold."""

    path: str = ""
    data: Expr = NULL
    item: bool = False
    acc: bool = False
    parallel: bool = False


class CompositionWriter(FlowWriter[Around]):
    """Write one flow as a composition."""

    kind, supported = "composition", SUPPORTED

    def document(self) -> Fields:
        """Return the document; what a composition cannot hold is refused."""
        flow, body = self.flow, self.flow.body
        fields: Fields = {"kind": "composition", "name": flow.name}
        if flow.timeout is not None:
            fields["timeout"] = milliseconds(flow.timeout)
        if flow.input_schema is not None:
            fields["inputSchema"] = flow.input_schema
        if flow.output_schema is not None:
            fields["outputSchema"] = flow.output_schema
            body = without_output_check(body)
        variables = self.variables()
        if variables:
            fields["variables"] = variables
        if not body.ordered and len(body.nodes) > 1:
            body = self._in_parallel_node(body)
        return {**fields, "nodes": self.sequence("result", body, Around(data=Ref("input")))}

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
        nodes = list(body.nodes)
        around = replace(around, parallel=False)
        # If the last node may be skipped, readers expect the data that reached it.
        expected = Ref("out", (nodes[-1].id,)) if nodes else around.data
        if nodes and nodes[-1].when is not None:
            expected = data_after(nodes[-1], around.data, any(node.when is None for node in nodes))
        if not nodes or body.result != expected:
            nodes.append(Node(id=self.unique_id(last), op=Compute(value=body.result)))
        documents, has_certain_node = [], False
        for node in nodes:
            documents.append(self.node(node, around))
            has_certain_node = has_certain_node or node.when is None
            around = replace(around, data=data_after(node, around.data, has_certain_node))
        return documents

    def node(self, node: Node, around: Around) -> Fields:
        """Write one node with its mappings, condition, policy and output variable."""
        path = f"{around.path}{node.id}"
        if node.meta.hidden:
            self.refuse_hidden(node, path)
            return {"id": node.id, **NULL_NODE}  # its parts are not looked at
        if node.gate is not None:
            message = "compositions have no jumps and no conditional edges (onSuccess, onError, when)"
            self.refuse(path, message, decisive=True)
        self.refuse_unsupported(replace(node, gate=None), path)
        inside = replace(around, path=f"{path}/")
        fields: Fields = {"id": node.id, **self.op(node, inside)}
        if node.when is not None:
            fields = self._with_condition(fields, self.condition(node.when, f"{path}.when", around))
        if node.after and around.parallel:
            fields["dependsOn"] = sorted(node.after)
        # A delay passes its data on; every other result needs a mapping.
        if isinstance(node.op, Sleep):
            if node.result != around.data:
                fields["outputMapping"] = self._mapping_value(node.result or NULL, f"{path}.result", around)
        elif node.result is not None:
            fields["outputMapping"] = self._mapping_value(node.result, f"{path}.result", around)
        if node.meta.description:
            fields["description"] = node.meta.description
        return fields | self._policy_fields(node, path, around) | self.output_var(node, path)

    def _with_condition(self, fields: Fields, condition: Json) -> Fields:
        """Return a node with the condition under which it runs; a `conditional` uses its own for the choice."""
        if fields["type"] != "conditional":
            return {**fields, "condition": condition}
        inner = {**fields, "id": self.unique_id(f"{fields['id']}_then")}
        branches: Json = [{"condition": True, "nodes": [inner]}]
        return {"id": fields["id"], "type": "branch", "branches": branches, "condition": condition}

    def _mapping_value(self, value: Expr, path: str, around: Around) -> Json:
        """Return a value for a field where null counts as absent."""
        return "${null}" if value == NULL else self.value(value, path, around)

    def _policy_fields(self, node: Node, path: str, around: Around) -> Fields:
        policy, on_error = node.policy, node.policy.on_error
        fields: Fields = {}
        if policy.timeout is not None:
            fields["timeout"] = milliseconds(policy.timeout)
        if policy.retry.attempts > 1:
            fields |= self._retry_fields(policy.retry, path)
        if on_error is None:
            return fields
        if on_error.reported and isinstance(node.op, Validate) and on_error.value == node.op.value:
            return {**fields, "required": False}
        if not on_error.reported:
            return {**fields, "onError": "fallback", "fallback": self.value(on_error.value, f"{path}.fallback", around)}
        if on_error.value == around.data:
            return {**fields, "onError": "continue"}
        return {**fields, "onError": "continue", "fallback": self.value(on_error.value, f"{path}.fallback", around)}

    def _retry_fields(self, retry: Retry, path: str) -> Fields:
        if delay_varies(retry):
            self.refuse(
                path,
                "a composition waits the same time before every attempt (no factor, linear, max_delay)",
            )
        fields: Fields = {"maxRetries": retry.attempts - 1}
        if milliseconds(retry.delay) != RETRY_DELAY:
            fields["retryDelay"] = milliseconds(retry.delay)
        return fields

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
                return {"type": "validate", "schema": op.schema, **self._mapping_fields(op.value, around, "value")}
            case Branch():
                return self._branch_fields(node.id, op, around)
            case Map() | Loop():
                return self._per_item_fields(op, around)
            case Block():
                return self._block_fields(node.id, op.body, around)
            case Sleep():
                return {"type": "delay", "delay": self._delay_value(op.seconds, around)}
        self.refuse_op(node, around.path.rstrip("/"))
        return dict(NULL_NODE)

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

    def _delay_value(self, seconds: Expr, around: Around) -> Json:
        if isinstance(seconds, Lit):
            return milliseconds(seconds.value)
        milliseconds_expr = in_milliseconds(seconds)
        return self.value(
            Fn("*", (seconds, Lit(1000))) if milliseconds_expr is None else milliseconds_expr,
            f"{around.path}delay",
            around,
        )

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

    def _per_item_fields(self, op: Map | Loop, around: Around) -> Fields:
        """Write a map or loop as one call of a tool per item."""
        path = around.path.rstrip("/")
        is_fold = isinstance(op, Loop) and not op.collect and op.initial is not None and op.items is not None
        call = op.body.nodes[0] if len(op.body.nodes) == 1 else None
        is_call = call is not None and isinstance(call.op, Call) and op.body.result == Ref("out", (call.id,))
        if call is None or not is_call or call != Node(id=call.id, op=call.op) or not isinstance(call.op, Call):
            self.refuse(path, "per item a composition calls one tool, without conditions, retries or fallbacks")
            return dict(NULL_NODE)
        # The list and the arguments are left out if they are the node's own data.
        items = items_expr(op) if isinstance(op, Map) else op.items or NULL
        items_field = {} if items == around.data else {"items": self.value(items, f"{path}/items", around)}
        inside = replace(around, item=True, acc=is_fold)
        args = {"inputMapping": self.value(call.op.args, f"{path}/args", inside)}
        if call.op.args == Ref("item"):
            args = {}
        fields: Fields = {"tool": call.op.tool, **items_field, **args, **write_undo(call.op.undo)}
        # Loops are folds, or maps of one item at a time.
        if isinstance(op, Loop):
            if is_fold:
                return {
                    "type": "reduce",
                    **fields,
                    "initial": self.value(op.initial or NULL, f"{path}/initial", around),
                }
            if op.items is None or not op.collect or any(ref.root in ("round", "prev") for ref in refs(call.op.args)):
                self.refuse(path, "a composition can loop only over items, each independent of the earlier ones")
                return dict(NULL_NODE)
            return {"type": "map", **fields, "concurrency": 1}
        if op.limit is None:
            self.refuse(path, "a composition needs a limit on concurrent items (concurrency)")
        width: Json = {} if op.limit in (None, WIDTH) else {"concurrency": op.limit}
        return {"type": "filter" if op.select else "map", **fields, **width}

    # --- expressions ----------------------------------------------------------------------------

    def bind(self, ref: Ref, path: str, around: Around) -> Expr:
        match ref.root:
            case "out":
                return self.output(ref)
            case "state":
                return Ref("var", ref.path)
            case "prev" if around.acc:
                return Ref("acc", ref.path)
            case "status":
                return self.status(ref, path)
            case "round":
                self.refuse(path, "a composition cannot read the number of an iteration")
        return ref
