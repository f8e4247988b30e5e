"""Write flows as chains, in the short forms that people write.

Reading the document again gives a flow with the same results, state and journal. Chains cannot express a
value that is computed at the end of a body or as the flow's result; it becomes a node of its own
(`result`, `X_value`). Everything else that a chain cannot hold is refused, with every reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from ...expr.ast import NULL, Each, Expr, Fn, Lit, Ref, refs
from ...expr.unlift import unlift
from ...fast_dataclass import dataclass
from ...ir import Flow, Graph, Node, Retry
from ...ops import Branch, Call, Compute, Loop, Map, in_milliseconds
from ...values import Json
from ..node_types import NODE_TYPES, OP_WRITERS
from ..undo import write_undo
from ..writing import (
    POLICY,
    Fields,
    FlowWriter,
    iterations_are_independent,
    milliseconds,
    outputs,
    sorted_nodes,
    split_result,
    unwrap_parallel,
    without_output_check,
)
from .read import DEFAULTS


def policy_fields(node: Node, needed: bool, refuse: Callable[[str], None]) -> dict[str, Any]:
    """Return the policy of a node as fields, with times in milliseconds."""
    policy = node.policy
    fields: dict[str, Any] = {}
    if policy.timeout is not None:
        fields["timeout"] = milliseconds(policy.timeout)
    if policy.retry.attempts > 1:
        fields["retry"] = _retry_fields(policy.retry, refuse)
    on_error = policy.on_error
    if on_error is None:
        return fields
    if not on_error.reported:
        is_skip = on_error.value == NULL
        return {**fields, "errorStrategy": "skip"} if is_skip else {
            **fields, "errorStrategy": "fallback", "fallback": on_error.value,
        }  # fmt: skip
    # A reported failure gives null in a chain, and stops its dependents in dag mode.
    if on_error.value != NULL:
        refuse(
            "after a reported failure (continue), a chain continues with null; a fallback value needs a failure "
            "that is not reported"
        )
    elif needed:
        refuse(
            "in dag mode, a reported failure (continue) also skips the nodes that depend on the node; do not "
            "report the failure"
        )
    return {**fields, "errorStrategy": "continue"}


def delay_varies(retry: Retry) -> bool:
    """Return True if the pauses between the attempts are not all `delay`."""
    is_longer = (retry.linear or retry.factor != 1) and retry.attempts > 2 and retry.delay > 0
    return is_longer or retry.delay > retry.max_delay


def _retry_fields(retry: Retry, refuse: Callable[[str], None]) -> dict[str, Json]:
    if delay_varies(retry):
        refuse("a chain waits the same time before every attempt (factor, linear and max_delay are not supported)")
    fields: dict[str, Json] = {"errorStrategy": "retry"}
    if retry.attempts - 1 != DEFAULTS["maxRetries"]:
        fields["maxRetries"] = retry.attempts - 1
    if milliseconds(retry.delay) != DEFAULTS["retryDelay"]:
        fields["retryDelay"] = milliseconds(retry.delay)
    return fields


NULL_NODE: Final = {"type": "transform", "input": "${null}"}
"""A node that gives null, in place of one that a chain cannot hold."""
TRUE, FALSE = Graph(nodes=(), result=Lit(True)), Graph(nodes=(), result=Lit(False))
SUPPORTED: Final[dict[type[Any], tuple[str, ...]]] = {
    Node: ("id", "op", "after", "gate", "when", "writes", "policy", "meta"),
    Call: ("tool", "args", "undo"),
    Map: ("items", "body", "limit", "most"),
    Loop: ("body", "limit", "items", "again", "until", "collect"),
    **POLICY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """The surroundings of a node: its path, its siblings, and the meaning of `$iteration`."""

    path: str = ""
    dag: bool = False
    apart: frozenset[str] = frozenset()
    round: str = ""


TOP: Final = Around()


class ChainWriter(FlowWriter[Around]):
    """Write one flow as a chain."""

    kind, supported = "chain", SUPPORTED

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow)
        self.width = int(DEFAULTS["concurrency"])
        self.needed: frozenset[str] = frozenset()

    def document(self) -> dict[str, Json]:
        """Return the document; what a chain cannot hold is refused."""
        flow = self.flow
        body = _as_sequence(unwrap_parallel(without_output_check(flow.body)))
        self.listed = {node.id: i for i, node in enumerate(body.nodes)}
        fields: Fields = {"kind": "chain", "name": flow.name}
        mode_loop = _mode_loop(body)
        # A hidden loop around everything is the loop mode; otherwise the graph decides the mode.
        if mode_loop is not None:
            fields |= {"mode": "loop", "maxIterations": mode_loop.limit}
            around = Around(round="loop")
            if mode_loop.until is not None:
                with self.entire(body.nodes[0].id):
                    fields["until"] = self.condition(mode_loop.until, "until", around)
            body = mode_loop.body
            nodes = [self.node(node, around) for node in body.nodes]
        else:
            mode, around, listed = self._mode(body)
            fields |= {"mode": mode} if mode != "sequential" else {}
            if not body.ordered:
                fields |= self._width_fields(body)
                self.width = int(fields.get("concurrency", self.width))
            nodes = [self.node(node, around) for node in listed]
        # Leave out defaults, so that the document stays short.
        if fields.get("maxIterations") == DEFAULTS["maxIterations"]:
            del fields["maxIterations"]
        if flow.timeout is not None:
            fields["timeout"] = milliseconds(flow.timeout)
        if flow.input_schema is not None:
            fields["inputSchema"] = flow.input_schema
        if flow.output_schema is not None:
            self.refuse("output_schema", "chains do not check their result; remove the type of the result")
        variables = self.variables()
        if variables:
            fields["variables"] = variables
        return {**fields, "nodes": nodes}

    def _mode(self, body: Graph) -> tuple[str, Around, list[Node]]:
        listed = list(body.nodes)
        if body.result not in (outputs(body), Ref("out", ("result",))):
            # It reads the final state, so it waits for all nodes.
            reads_final_state = not body.ordered and any(ref.root == "state" for ref in refs(body.result))
            after = frozenset(node.id for node in body.nodes) if reads_final_state else frozenset()
            listed.append(Node(id=self.unique_id("result"), op=Compute(value=body.result), after=after))
        if body.ordered:
            return "sequential", TOP, listed
        needs = replace(body, nodes=tuple(listed)).needs
        self.needed = frozenset(id for before in needs.values() for id in before)
        if any(needs.values()):
            return "dag", Around(dag=True), listed
        return "parallel", Around(apart=frozenset(needs)), listed

    def _width_fields(self, body: Graph) -> Fields:
        """Return the limit of concurrent nodes if it differs from the chain's; without a limit it is their number."""
        width = body.limit or max(len(body.nodes), self.width)
        return {} if width == self.width else {"concurrency": width}

    # --- nodes ----------------------------------------------------------------------------------

    def node(self, node: Node, around: Around) -> Fields:
        """Write one node with its condition, policy and output variable."""
        path = f"{around.path}{node.id}"
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
        policy = policy_fields(node, around.dag and node.id in self.needed, lambda message: self.refuse(path, message))
        fallback: Fields = {}
        if "fallback" in policy:
            fallback = {
                "fallback": self.value(policy["fallback"], f"{path}.fallback", replace(around, path=f"{path}/"))
            }
        fields: Fields = {"id": node.id, **self.op(node, replace(around, path=f"{path}/"))}
        dependencies = node.after if around.dag else frozenset()
        if dependencies:
            fields["dependsOn"] = sorted(dependencies & self.listed.keys(), key=self.listed.__getitem__)
        elif node.after:
            self.refuse(path, "only nodes of a chain in dag mode can wait for others (after)")
        # Some types use `condition` for their own choice, so they cannot be skipped by it.
        if node.when is not None:
            node_type = NODE_TYPES.get(str(fields["type"]))
            if node_type is not None and node_type.owns("condition"):
                advice = f"a {node_type.name} node is never skipped: put `when` into its condition"
                self.refuse(path, advice, decisive=True)
            fields["condition"] = self.condition(node.when, f"{path}.when", around)
        if node.meta.description:
            fields["description"] = node.meta.description
        output_var = self.output_var(node, path)
        policy_and_output: Fields = (
            {key: value for key, value in policy.items() if key not in ("fallback", "retry")} | fallback | output_var
        )
        # None = | A node has one error strategy, so a retry with a fallback needs two nodes.
        retry: Fields | None = policy.get("retry")
        if retry is None:
            return fields | policy_and_output
        if "errorStrategy" not in policy_and_output:
            return fields | retry | policy_and_output
        return self._wrap_retry(node, fields, retry, policy_and_output, path)

    def _wrap_retry(self, node: Node, own_fields: Fields, retry: Fields, rest: Fields, path: str) -> Fields:
        """Write retries and a fallback: a node with retries inside a node with the fallback."""
        if node.when is not None and "outputVar" in rest:
            self.refuse(
                path, "a node of a chain cannot have retries, a fallback, a condition and an output variable together"
            )
        if node.policy.on_error is not None:
            for ref in refs(node.policy.on_error.value):
                if ref.root == "error" and ref.path[:1] in ((), ("node",)):
                    self.refuse(path, "the fallback of a retried node of a chain cannot read the name of the node")
        outer: Fields = {key: own_fields.pop(key) for key in ("id", "dependsOn") if key in own_fields}
        inner = {"id": self.unique_id(f"{node.id}_try"), **own_fields, **retry}
        if "timeout" in rest:
            inner["timeout"] = rest.pop("timeout")
        return {**outer, "type": "condition", "condition": True, "then": [inner], **rest}

    def op(self, node: Node, around: Around) -> Fields:
        """Return the fields of what the node does."""
        op: Any = node.op
        kind = type(op)
        write = OP_WRITERS.get(kind)
        if write is not None:
            return write(self, node, around)
        self.refuse_op(node, around.path.rstrip("/"))
        return dict(NULL_NODE)

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
        return {"type": "delay", "delay": self._delay_value(op.seconds, around)}

    def write_wait(self, node: Node, around: Around) -> Fields:
        """Write a wait for an event or an approval."""
        return {"type": "wait", **self.wait(node, f"{around.path}timeout", around)}

    def write_block(self, node: Node, around: Around) -> Fields:
        """Write a block as a parallel node, or as a branch that is always taken."""
        op: Any = node.op
        return self._block_fields(node.id, op.body, around)

    def write_condition(self, node: Node, around: Around) -> Fields:
        """Write a branch as a condition node."""
        op: Any = node.op
        return self._branch_fields(node.id, op, around)

    def write_loop(self, node: Node, around: Around) -> Fields:
        """Write a loop or a map as a loop node."""
        op: Any = node.op
        return self._loop_fields(node.id, op, around)

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
        # A field that is null counts as absent.
        return {"input": self.value(value, path, around) if value != NULL else "${null}"}

    def _delay_value(self, seconds: Expr, around: Around) -> Json:
        if isinstance(seconds, Lit):
            return milliseconds(seconds.value)
        if (milliseconds_expr := in_milliseconds(seconds)) is not None:
            return self.value(milliseconds_expr, f"{around.path}delay", around)
        return self.value(Fn("*", (seconds, Lit(1000))), f"{around.path}delay", around)

    def _block_fields(self, id: str, body: Graph, around: Around) -> Fields:
        nodes, is_only_order = sorted_nodes(body)
        if not body.ordered and is_only_order and len(nodes) > 1:  # each node waits for the one before
            sequence = tuple(replace(node, after=frozenset()) for node in nodes)
            body = replace(body, nodes=sequence, ordered=True, limit=None)
        if body.ordered:  # as a branch that is always taken
            return {"type": "condition", "condition": True, "then": self.sequence(id, "value", body, around)}
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
            fields["then"] = self.sequence(id, "then", then, around)
        if more:
            else_node = Node(id=self.unique_id(f"{id}_else"), op=Branch(arms=tuple(more), default=op.default))
            fields["otherwise"] = [self.node(else_node, replace(around, dag=False))]
        elif op.default != FALSE:
            fields["otherwise"] = self.sequence(id, "otherwise", op.default or Graph(nodes=()), around)
        return fields

    def _loop_fields(self, id: str, op: Map | Loop, around: Around) -> Fields:
        path = around.path.rstrip("/")
        fields: Fields = {"type": "loop"}
        inside = replace(around, dag=False, round="map" if isinstance(op, Map) else "loop")
        if op.items is not None:
            fields["items"] = self.value(op.items, f"{around.path}items", around)
        # A map runs its iterations concurrently; a loop runs them in order, with conditions.
        if isinstance(op, Map):
            if op.limit is None or (op.limit == 1 and not iterations_are_independent(op.body)):
                self.refuse(
                    path,
                    (
                        "the iterations of a loop in a chain run one after another, or at most `concurrency` (2 or "
                        "more) at once"
                    ),
                )
            elif op.limit > 1:
                fields["concurrency"] = op.limit
            if op.most is not None:
                fields["maxIterations"] = op.most
        else:
            if not op.collect:
                self.refuse(path, "a loop in a chain returns a list with all iterations, not only the last one")
            if op.items is not None and (op.again is not None or op.until is not None):
                self.refuse(path, "a chain's loop has either items or until and while")
            for key, test in (("while", op.again), ("until", op.until)):
                if test is not None:
                    fields[key] = self.condition(test, f"{around.path}{key}", inside)
            if op.limit is not None:
                fields["maxIterations"] = op.limit
        fields["nodes"] = self.sequence(id, "value", op.body, inside)
        return fields

    def sequence(self, owner: str, field: str, body: Graph, around: Around) -> list[Fields]:
        """Write the nodes of a region in order, with the last one's output as the value."""
        around = replace(around, dag=False)
        if not body.ordered and len(body.nodes) > 1:
            self.refuse(around.path.rstrip("/"), "nodes that run at once belong in a parallel node")
        nodes = list(body.nodes)
        if not nodes or body.result != Ref("out", (nodes[-1].id,)):
            nodes.append(Node(id=self.unique_id(f"{owner}_{field}"), op=Compute(value=body.result)))
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
                if ref.path[:1] == ("iteration",) and around.round:
                    self.refuse(path, "inside a loop $var.iteration is the iteration number; rename the state field")
                return Ref("var", ref.path)
            case "round":
                if around.round == "map":
                    message = "$iteration belongs to the innermost loop; store the number of the outer loop in a node"
                    self.refuse(path, message)
                return Ref("iteration", ref.path)
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
