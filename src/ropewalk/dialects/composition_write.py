"""Flows as compositions: one list of nodes, each a tool call, a transform, a check or a choice.

A value that a body or the flow computes at its end is a node of its own. Refused, each with its reason, is what
a composition cannot hold: jumps, loops that are not over items, waits, several nodes per item.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from ..expr.ast import NULL, Expr, Fn, Lit, Ref, rebind, refs
from ..expr.unlift import unlift
from ..frozen import dataclass
from ..ir import Graph, Node, Retry
from ..ops import Block, Branch, Call, Compute, Loop, Map, Sleep, Validate, in_milliseconds
from ..values import Json
from .chain_write_policy import grows
from .composition import DEFAULTS, are_nodes
from .composition_flow import MERGES, RETRY_DELAY, data_after
from .reshaping import PARALLEL, outputs, unchecked
from .writing import POLICY, Fields, FlowWriter, first_items, milliseconds

WIDTH: Final = int(DEFAULTS["concurrency"])
STRATEGIES: Final = {function: strategy for strategy, function in MERGES.items()}
HELD: Final[dict[type[Any], tuple[str, ...]]] = {
    Node: ("id", "op", "after", "when", "result", "writes", "policy", "meta"),
    Call: ("tool", "args"),
    Compute: ("value",),
    Validate: ("value", "schema", "place"),
    Branch: ("arms", "default"),
    Map: ("items", "body", "limit", "select", "most"),
    Loop: ("items", "body", "collect", "initial"),
    Block: ("body",),
    Sleep: ("seconds",),
    **POLICY,
}
NOTHING: Final = {"type": "conditional", "condition": True, "then": None}
"""A node that gives null, in place of a node that a composition cannot hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a node stands in: its path, the data that reaches it, whether it is called per item and folds."""

    path: str = ""
    data: Expr = NULL
    item: bool = False
    acc: bool = False
    parallel: bool = False


class CompositionWriter(FlowWriter[Around]):
    """Writes one flow as a composition."""

    kind, held = "composition", HELD

    def document(self) -> Fields:
        flow, body = self.flow, self.flow.body
        fields: Fields = {"kind": "composition", "name": flow.name}
        if flow.timeout is not None:
            fields["timeout"] = milliseconds(flow.timeout)
        if flow.input_schema is not None:
            fields["inputSchema"] = flow.input_schema
        if flow.output_schema is not None:
            fields["outputSchema"] = flow.output_schema
            body = unchecked(body)
        variables = self.variables()
        if variables:
            fields["variables"] = variables
        if not body.ordered and len(body.nodes) > 1:
            body = self._at_once(body)
        return {**fields, "nodes": self.line("result", body, Around(data=Ref("input")))}

    def _at_once(self, body: Graph) -> Graph:
        """The nodes of an unordered body in one parallel node."""
        node = Node(id=self.free(PARALLEL), op=Block(body=replace(body, result=outputs(body))))

        def inside(ref: Ref) -> Ref:
            if ref.root != "out":
                return ref
            if ref.elide and ref.path[1:2] == ("output",):
                self.refuse("result", f"reads the member `output` of {ref.path[0]!r}, which runs in a parallel node")
            return Ref("out", (node.id, *ref.path))

        whole = body.result == outputs(body)
        result = Ref("out", (node.id,)) if whole else rebind(body.result, inside)
        return Graph(nodes=(node,), result=result, ordered=True)

    def line(self, last: str, body: Graph, around: Around) -> list[Fields]:
        """The nodes of a region; the last one's output is its value."""
        nodes = list(body.nodes)
        around = replace(around, parallel=False)
        # Where the last node may be skipped, the data that its reader expects is what reached it.
        ended = Ref("out", (nodes[-1].id,)) if nodes else around.data
        if nodes and nodes[-1].when is not None:
            ended = data_after(nodes, around.data)
        if not nodes or body.result != ended:
            nodes.append(Node(id=self.free(last), op=Compute(value=body.result)))
        written, before = [], list[Node]()
        for node in nodes:
            written.append(self.node(node, around))
            before.append(node)
            around = replace(around, data=data_after(before, around.data))
        return written

    def node(self, node: Node, around: Around) -> Fields:
        path = f"{around.path}{node.id}"
        if node.meta.hidden:
            self.refuse_hidden(node, path)
            return {"id": node.id, **NOTHING}  # and so is what it is made of
        if node.gate is not None:
            self.refuse(path, "a gate (onSuccess, onError, a conditional edge) has no place in a composition")
        self.refuse_unheld(replace(node, gate=None), path)
        inside = replace(around, path=f"{path}/")
        fields: Fields = {"id": node.id, **self.op(node, inside)}
        if node.when is not None:
            fields = self._skipped(fields, self.condition(node.when, f"{path}.when", around))
        if node.after and around.parallel:
            fields["dependsOn"] = sorted(node.after)
        if isinstance(node.op, Sleep):
            if node.result != around.data:  # which passes through a delay
                fields["outputMapping"] = self._mapped(node.result or NULL, f"{path}.result", around)
        elif node.result is not None:
            fields["outputMapping"] = self._mapped(node.result, f"{path}.result", around)
        if node.meta.description:
            fields["description"] = node.meta.description
        return fields | self._policy(node, path, around) | self.output_var(node, path)

    def _skipped(self, fields: Fields, condition: Json) -> Fields:
        """The node with the condition without which it is skipped; a CONDITIONAL has one for its choice."""
        if fields["type"] != "conditional":
            return {**fields, "condition": condition}
        chosen = {**fields, "id": self.free(f"{fields['id']}_then")}
        always: Json = [{"condition": True, "nodes": [chosen]}]
        return {"id": fields["id"], "type": "branch", "branches": always, "condition": condition}

    def _mapped(self, value: Expr, path: str, around: Around) -> Json:
        """A value where null counts as absent."""
        return "${null}" if value == NULL else self.value(value, path, around)

    def _policy(self, node: Node, path: str, around: Around) -> Fields:
        policy, on_error = node.policy, node.policy.on_error
        fields: Fields = {}
        if policy.timeout is not None:
            fields["timeout"] = milliseconds(policy.timeout)
        if policy.retry.attempts > 1:
            fields |= self._retry(policy.retry, path)
        if on_error is None:
            return fields
        if on_error.reported and isinstance(node.op, Validate) and on_error.value == node.op.value:
            return {**fields, "required": False}
        if not on_error.reported:
            return {**fields, "onError": "fallback", "fallback": self.value(on_error.value, f"{path}.fallback", around)}
        if on_error.value == around.data:
            return {**fields, "onError": "continue"}
        return {**fields, "onError": "continue", "fallback": self.value(on_error.value, f"{path}.fallback", around)}

    def _retry(self, retry: Retry, path: str) -> Fields:
        if grows(retry):
            self.refuse(path, "a composition waits the same time before every attempt (factor, linear, max_delay)")
        fields: Fields = {"maxRetries": retry.attempts - 1}
        if milliseconds(retry.delay) != RETRY_DELAY:
            fields["retryDelay"] = milliseconds(retry.delay)
        return fields

    def op(self, node: Node, around: Around) -> Fields:
        """The fields of what the node does."""
        op: Any = node.op
        match op:
            case Call():
                return {"type": "tool", "tool": op.tool, **self._mapping(op.args, around, "args")}
            case Compute():
                return self._computed(op.value, around)
            case Validate():
                return {"type": "validate", "schema": op.schema, **self._mapping(op.value, around, "value")}
            case Branch():
                return self._branch(node.id, op, around)
            case Map() | Loop():
                return self._per_item(op, around)
            case Block():
                return self._block(node.id, op.body, around)
            case Sleep():
                return {"type": "delay", "delay": self._delay(op.seconds, around)}
        self.refuse_op(node, around.path.rstrip("/"))
        return dict(NOTHING)

    def _block(self, id: str, body: Graph, around: Around) -> Fields:
        if body.ordered:  # as a choice that is always made
            return {"type": "conditional", "condition": True, "then": self.line(f"{id}_value", body, around)}
        if body.result != outputs(body):
            self.refuse(around.path.rstrip("/"), "a parallel node gives the outputs of its nodes by name")
        inside = replace(around, parallel=True)
        width = body.limit or max(len(body.nodes), WIDTH)
        limit = {} if width == WIDTH else {"concurrency": width}
        return {"type": "parallel", **limit, "nodes": [self.node(node, inside) for node in body.nodes]}

    def _delay(self, seconds: Expr, around: Around) -> Json:
        if isinstance(seconds, Lit):
            return milliseconds(seconds.value)
        given = in_milliseconds(seconds)
        return self.value(Fn("*", (seconds, Lit(1000))) if given is None else given, f"{around.path}delay", around)

    def _mapping(self, expr: Expr, around: Around, what: str) -> Fields:
        """The node's data, where it is not what comes from the node before."""
        return {} if expr == around.data else {"inputMapping": self.value(expr, f"{around.path}{what}", around)}

    def _computed(self, value: Expr, around: Around) -> Fields:
        path = f"{around.path}value"
        if isinstance(value, Fn) and value.name in STRATEGIES:
            strategy = STRATEGIES[value.name]
            said = {} if strategy == "object" else {"strategy": strategy}
            return {"type": "merge", "sources": [self.value(arg, path, around) for arg in value.args], **said}
        found = self.transform(value, path, around)
        if found is None:  # as a choice that is always made
            return {"type": "conditional", "condition": True, **self._plain("then", value, path, around)}
        type_, config, source = found
        # Where a step before may be skipped, the data has no reference of its own.
        here = isinstance(around.data, Ref) and source == self.named(around.data, path, around)
        if type_ in ("MAP", "FILTER", "REDUCE"):
            return {"type": type_.lower(), **({} if here else {"items": unlift(source)}), **config}
        data = {} if here else {"inputMapping": unlift(source)}
        return {"type": "transform", "transform": {"type": type_, "config": config}, **data}

    def _plain(self, key: str, value: Expr, path: str, around: Around) -> Fields:
        written = self.value(value, path, around)
        if not are_nodes(written):
            return {key: written}
        # Read as a node, it would be run; the merge of one source is this source.
        strategy = {"strategy": "concat"} if isinstance(written, list) else {}
        return {key: [{"id": self.free("value"), "type": "merge", "sources": [written], **strategy}]}

    def _branch(self, id: str, op: Branch, around: Around) -> Fields:
        if not op.arms:  # as in an agent without tools
            return self._block(id, op.default or Graph(nodes=(), ordered=True), around)
        here = Graph(nodes=(), result=around.data, ordered=True)
        otherwise: Fields = {}
        if op.default != here:
            otherwise = self._chosen(id, "otherwise", op.default or Graph(nodes=(), ordered=True), around)
        if len(op.arms) == 1:
            [(test, then)] = op.arms
            chosen = {} if then == here else self._chosen(id, "then", then, around)
            said = self.condition(test, f"{around.path}condition", around)
            return {"type": "conditional", "condition": said, **chosen, **otherwise}
        branches = [
            {
                "condition": self.condition(test, f"{around.path}condition", around),
                "nodes": self.line(f"{id}_{i}", then, around),
            }
            for i, (test, then) in enumerate(op.arms)
        ]
        return {"type": "branch", "branches": branches, **otherwise}

    def _chosen(self, id: str, key: str, body: Graph, around: Around) -> Fields:
        if not body.nodes:
            return self._plain(key, body.result, f"{around.path}{key}", around)
        return {key: self.line(f"{id}_{key}", body, around)}

    def _per_item(self, op: Map | Loop, around: Around) -> Fields:
        """One call of a tool per item."""
        here = around.path.rstrip("/")
        folds = isinstance(op, Loop) and not op.collect and op.initial is not None and op.items is not None
        call = op.body.nodes[0] if len(op.body.nodes) == 1 else None
        simple = call is not None and isinstance(call.op, Call) and op.body.result == Ref("out", (call.id,))
        if call is None or not simple or call != Node(id=call.id, op=call.op) or not isinstance(call.op, Call):
            self.refuse(here, "per item a composition calls one tool, without conditions, retries or fallbacks")
            return dict(NOTHING)
        items = first_items(op) if isinstance(op, Map) else op.items or NULL
        listed = {} if items == around.data else {"items": self.value(items, f"{here}/items", around)}
        inside = replace(around, item=True, acc=folds)
        args = {"inputMapping": self.value(call.op.args, f"{here}/args", inside)}
        if call.op.args == Ref("item"):
            args = {}
        fields: Fields = {"tool": call.op.tool, **listed, **args}
        if isinstance(op, Loop):
            if folds:
                return {
                    "type": "reduce",
                    **fields,
                    "initial": self.value(op.initial or NULL, f"{here}/initial", around),
                }
            if op.items is None or not op.collect or any(ref.root in ("round", "prev") for ref in refs(call.op.args)):
                self.refuse(here, "a composition has no loops but over items, each independent of those before")
                return dict(NOTHING)
            return {"type": "map", **fields, "concurrency": 1}
        if op.limit is None:
            self.refuse(here, "a composition has a bound on how many items are done at once (concurrency)")
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
                self.refuse(path, "a composition has no rounds")
        return ref
