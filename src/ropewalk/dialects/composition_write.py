"""Flows as compositions: one list of nodes, each a tool call, a transform, a check or a choice.

What a body or the flow computes at its end is a node of its own. Refused, each with its reason, is what
has no place in a composition: order by use, loops, waits, conditions on a node, time limits, retries.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from ..expr.ast import NULL, Expr, Fn, Ref, refs
from ..expr.unlift import unlift
from ..frozen import dataclass
from ..ir import Graph, Node
from ..ops import Branch, Call, Compute, Loop, Map, Validate
from ..values import Json
from .composition import DEFAULTS, are_nodes
from .composition_flow import MERGES
from .writing import NO_TIMEOUT, POLICY, Fields, FlowWriter, first_items

STRATEGIES: Final = {function: strategy for strategy, function in MERGES.items()}
HELD: Final[dict[type[Any], tuple[str, ...]]] = {
    Node: ("id", "op", "result", "policy", "meta"),
    Call: ("tool", "args"),
    Compute: ("value",),
    Validate: ("value", "schema", "place"),
    Branch: ("arms", "default"),
    Map: ("items", "body", "limit", "select", "most"),
    Loop: ("items", "body", "collect", "initial"),
    **POLICY,
}
UNSAID: Final = {
    "when": "a composition's nodes are never skipped; put the node into a choice (when)",
    "writes": "a composition's nodes keep nothing (outputVar, writes, into); read the value where it is needed",
    "after": "a composition's nodes run one after another",
    "gate": "a gate has no place in a composition",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a node stands in: its path, the data that reaches it, whether it is called per item and folds."""

    path: str = ""
    data: Expr = NULL
    item: bool = False
    acc: bool = False


class CompositionWriter(FlowWriter[Around]):
    """Writes one flow as a composition."""

    kind, held = "composition", HELD

    def document(self) -> Fields:
        flow, body = self.flow, self.flow.body
        fields: Fields = {"kind": "composition", "name": flow.name}
        if flow.timeout is not None:
            self.refuse("timeout", f"a composition has {NO_TIMEOUT}")
        if flow.input_schema is not None:
            fields["inputSchema"] = flow.input_schema
        if flow.output_schema is not None:
            fields["outputSchema"] = flow.output_schema
            body = _unchecked(body)
        variables = self.variables()
        if variables:
            fields["variables"] = variables
        if not body.ordered and len(body.nodes) > 1:
            self.refuse("", "a composition's nodes run one after another, not as soon as what they use is there")
        return {**fields, "nodes": self.line("result", body, Around(data=Ref("input")))}

    def line(self, last: str, body: Graph, around: Around) -> list[Fields]:
        """The nodes of a region; the last one's output is its value."""
        nodes = list(body.nodes)
        if not nodes or body.result != Ref("out", (nodes[-1].id,)):
            nodes.append(Node(id=self.free(last), op=Compute(value=body.result)))
        written = []
        for node in nodes:
            written.append(self.node(node, around))
            around = replace(around, data=Ref("prev"))
        return written

    def node(self, node: Node, around: Around) -> Fields:
        path = f"{around.path}{node.id}"
        if node.meta.hidden:
            self.refuse_hidden(node, path)
            return {}  # and so is what it is made of
        for name, why in UNSAID.items():
            if getattr(node, name):
                self.refuse(path, why)
        self.refuse_unheld(replace(node, when=None, writes=None, after=frozenset(), gate=None), path)
        inside = replace(around, path=f"{path}/")
        fields: Fields = {"id": node.id, **self.op(node, inside)}
        if node.result is not None:
            fields["outputMapping"] = self.value(node.result, f"{path}.result", around)
        if node.meta.description:
            fields["description"] = node.meta.description
        return fields | self._policy(node, path, around)

    def _policy(self, node: Node, path: str, around: Around) -> Fields:
        policy, on_error = node.policy, node.policy.on_error
        if policy.timeout is not None:
            self.refuse(path, "a composition's node has no limit of time")
        if policy.retry.attempts > 1:
            self.refuse(path, "a composition tries nothing again")
        if on_error is None:
            return {}
        if not on_error.reported:
            return {"onError": "fallback", "fallback": self.value(on_error.value, f"{path}.fallback", around)}
        if isinstance(node.op, Validate) and on_error.value == node.op.value:
            return {"required": False}
        if on_error.value != around.data:
            self.refuse(path, "after a reported failure a composition goes on with the data it had (continue)")
        return {"onError": "continue"}

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
        self.refuse_op(node, around.path.rstrip("/"))
        return {}

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
        here = source == self.named(around.data, path, around)
        if type_ in ("MAP", "FILTER", "REDUCE"):
            return {"type": type_.lower(), **({} if here else {"items": unlift(source)}), **config}
        data = {} if here else {"inputMapping": unlift(source)}
        return {"type": "transform", "transform": {"type": type_, "config": config}, **data}

    def _plain(self, key: str, value: Expr, path: str, around: Around) -> Fields:
        written = self.value(value, path, around)
        if are_nodes(written):
            self.refuse(path, "a composition takes an object with the type of a node for a node")
        return {key: written}

    def _branch(self, id: str, op: Branch, around: Around) -> Fields:
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
            return {}
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
            return {"type": "map", **fields, "concurrency": 1}
        if op.limit is None:
            self.refuse(here, "a composition has a bound on how many items are done at once (concurrency)")
        width: Json = {} if op.limit in (None, DEFAULTS["concurrency"]) else {"concurrency": op.limit}
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


def _unchecked(body: Graph) -> Graph:
    """Without the hidden node that checks the output, which reading the document puts there."""
    last = body.nodes[-1] if body.nodes else None
    if last is not None and last.meta.hidden and isinstance(last.op, Validate):
        return replace(body, nodes=body.nodes[:-1], result=last.op.value)
    return body
