"""Flows as chains: what a chain can hold, in the short forms that people write.

Reading the document again gives a flow with the same results, state and journal, but for what chains
have no word for: a value that is computed at the end of a body or as the flow's result stands in a
node of its own (`result`, `X_value`). Refused are flows that a chain cannot hold, with every reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ..expr.ast import NULL, Each, Expr, Fn, Lit, Ref, refs
from ..expr.unlift import unlift
from ..frozen import dataclass
from ..ir import Flow, Graph, Node
from ..ops import Block, Branch, Call, Compute, Loop, Map, Sleep, Wait, in_milliseconds
from ..values import Json
from .chain import DEFAULTS
from .chain_write_policy import strategy
from .reshaping import as_block, at_once, in_order, outputs, repeats_alike, unchecked
from .writing import POLICY, Fields, FlowWriter, milliseconds

TRUE, FALSE = Graph(nodes=(), result=Lit(True)), Graph(nodes=(), result=Lit(False))
HELD: Final[dict[type[Any], tuple[str, ...]]] = {
    Node: ("id", "op", "after", "gate", "when", "writes", "policy", "meta"),
    Call: ("tool", "args"),
    Map: ("items", "body", "limit", "most"),
    Loop: ("body", "limit", "items", "again", "until", "collect"),
    **POLICY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a node stands in: its path, whether in a dag or beside others, and what `$iteration` is."""

    path: str = ""
    dag: bool = False
    apart: frozenset[str] = frozenset()
    round: str = ""


TOP: Final = Around()


class ChainWriter(FlowWriter[Around]):
    """Writes one flow as a chain."""

    kind, held = "chain", HELD

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow)
        self.width = int(DEFAULTS["concurrency"])
        self.needs: Mapping[str, frozenset[str]] = {}

    def document(self) -> dict[str, Json]:
        flow = self.flow
        self.body = body = _one_by_one(at_once(unchecked(flow.body)))
        fields: Fields = {"kind": "chain", "name": flow.name}
        rounds = _rounds(body)
        if rounds is not None:
            fields |= {"mode": "loop", "maxIterations": rounds.limit}
            around = Around(round="loop")
            if rounds.until is not None:
                fields["until"] = self.condition(rounds.until, "until", around)
            body = rounds.body
            nodes = [self.node(node, around) for node in body.nodes]
        else:
            mode, around, listed = self._mode(body)
            fields |= {"mode": mode} if mode != "sequential" else {}
            if not body.ordered:
                fields |= self._width(body)
                self.width = int(fields.get("concurrency", self.width))
            nodes = [self.node(node, around) for node in listed]
        if fields.get("maxIterations") == DEFAULTS["maxIterations"]:
            del fields["maxIterations"]
        if flow.timeout is not None:
            fields["timeout"] = milliseconds(flow.timeout)
        if flow.input_schema is not None:
            fields["inputSchema"] = flow.input_schema
        if flow.output_schema is not None:
            self.refuse("output_schema", "chains do not check what they give; leave the type of the result out")
        variables = self.variables()
        if variables:
            fields["variables"] = variables
        return {**fields, "nodes": nodes}

    def _mode(self, body: Graph) -> tuple[str, Around, list[Node]]:
        listed = list(body.nodes)
        if body.result not in (outputs(body), Ref("out", ("result",))):
            # What it reads of the state is what all nodes left.
            whole = not body.ordered and any(ref.root == "state" for ref in refs(body.result))
            after = frozenset(node.id for node in body.nodes) if whole else frozenset()
            listed.append(Node(id=self.free("result"), op=Compute(value=body.result), after=after))
        if body.ordered:
            return "sequential", TOP, listed
        self.needs = needs = replace(body, nodes=tuple(listed)).needs
        if any(needs.values()):
            return "dag", Around(dag=True), listed
        return "parallel", Around(apart=frozenset(needs)), listed

    def _width(self, body: Graph) -> Fields:
        """How many nodes run at once, where it is not as many as in the chain; without a limit all of them."""
        width = body.limit or max(len(body.nodes), self.width)
        return {} if width == self.width else {"concurrency": width}

    # --- nodes ----------------------------------------------------------------------------------

    def node(self, node: Node, around: Around) -> Fields:
        path = f"{around.path}{node.id}"
        if node.result is not None and not isinstance(node.op, Loop):
            inner = f"{node.id}_call" if f"{node.id}_call" not in self.ids else None
            node = as_block(node, self.free)
            if inner is not None:
                self.stands_for[f"{path}/{inner}"] = path
        if node.meta.hidden:
            self.refuse_hidden(node, path)
        if node.gate is not None:
            self.refuse(path, "a gate has no place in a chain; say it as a condition (when)")
        self.refuse_unheld(node, path)
        said = strategy(node, around.dag and self._needed(node), lambda message: self.refuse(path, message))
        fallback: Fields = {}
        if "fallback" in said:
            fallback = {"fallback": self.value(said["fallback"], f"{path}.fallback", replace(around, path=f"{path}/"))}
        own: Fields = {"id": node.id, **self.op(node, replace(around, path=f"{path}/"))}
        before = node.after if around.dag else frozenset()
        if before:
            own["dependsOn"] = [other.id for other in self.body.nodes if other.id in before]
        elif node.after:
            self.refuse(path, "only nodes of a chain in dag mode wait for others (after)")
        if node.when is not None:
            if own["type"] == "condition":
                self.refuse(path, "a condition node is never skipped: put `when` into its condition")
            own["condition"] = self.condition(node.when, f"{path}.when", around)
        if node.meta.description:
            own["description"] = node.meta.description
        written = self.output_var(node, path)
        rest: Fields = (
            {key: value for key, value in said.items() if key not in ("fallback", "retry")} | fallback | written
        )
        retry: Fields | None = said.get("retry")
        if retry is None:
            return own | rest
        if "errorStrategy" not in rest:
            return own | retry | rest
        return self._wrapped(node, own, retry, rest, path)

    def _wrapped(self, node: Node, own: Fields, retry: Fields, rest: Fields, path: str) -> Fields:
        """Tries and then a stand-in: a chain's node has one strategy, so one node is put around another."""
        if node.when is not None and "outputVar" in rest:
            self.refuse(path, "a chain cannot retry, stand in, skip and keep the output in a variable all at once")
        if node.policy.on_error is not None:
            for ref in refs(node.policy.on_error.value):
                if ref.root == "error" and ref.path[:1] in ((), ("node",)):
                    self.refuse(
                        path, "where a node is tried again, a chain's fallback cannot read the name of the node"
                    )
        outer: Fields = {key: own.pop(key) for key in ("id", "dependsOn") if key in own}
        inner = {"id": self.free(f"{node.id}_try"), **own, **retry}
        if "timeout" in rest:
            inner["timeout"] = rest.pop("timeout")
        return {**outer, "type": "condition", "condition": True, "then": [inner], **rest}

    def _needed(self, node: Node) -> bool:
        return any(node.id in needs for needs in self.needs.values())

    def op(self, node: Node, around: Around) -> Fields:
        """The fields of what the node does."""
        op: Any = node.op
        kind = type(op)
        if kind is Call:
            args = self.value(op.args, f"{around.path}args", around)
            return {"type": "tool", "tool": op.tool, **({"params": args} if args != {} else {})}
        if kind is Compute:
            return {"type": "transform", **self._computed(op.value, around)}
        if kind is Sleep:
            return {"type": "delay", "delay": self._delay(op.seconds, around)}
        if kind is Wait:
            return {"type": "wait", **self.wait(node, f"{around.path}timeout", around)}
        if kind is Block:
            return self._block(node.id, op.body, around)
        if kind is Branch:
            return self._branch(node.id, op, around)
        if kind is Map or kind is Loop:
            return self._loop(node.id, op, around)
        self.refuse_op(node, around.path.rstrip("/"))
        return {"type": kind.__name__.lower()}

    def _computed(self, value: Expr, around: Around) -> Fields:
        """A transform, or just a value. What has names of its own for its elements reads better as text."""
        path = f"{around.path}value"
        found = None
        if not isinstance(value, Each) or value.names[:1] == ("$item",):
            found = self.transform(value, path, around)
        if found is not None:
            type_, config, source = found
            data = {} if source == Ref("prev") else {"input": unlift(source)}
            return {"transform": {"type": type_, "config": config}, **data}
        # A field that is null counts as one that is not there.
        return {"input": self.value(value, path, around) if value != NULL else "${null}"}

    def _delay(self, seconds: Expr, around: Around) -> Json:
        if isinstance(seconds, Lit):
            return milliseconds(seconds.value)
        if (given := in_milliseconds(seconds)) is not None:
            return self.value(given, f"{around.path}delay", around)
        return self.value(Fn("*", (seconds, Lit(1000))), f"{around.path}delay", around)

    def _block(self, id: str, body: Graph, around: Around) -> Fields:
        nodes, sure = in_order(body)
        if not body.ordered and sure and len(nodes) > 1:  # each waits for the one before
            in_a_row = tuple(replace(node, after=frozenset()) for node in nodes)
            body = replace(body, nodes=in_a_row, ordered=True, limit=None)
        if body.ordered:  # as a branch that is always taken
            return {"type": "condition", "condition": True, "then": self.line(id, "value", body, around)}
        if body.result != outputs(body):
            self.refuse(
                around.path.rstrip("/"), "a chain's parallel node gives its nodes' outputs by name, and nothing else"
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
        return {"type": "parallel", **self._width(body), "nodes": [self.node(node, inside) for node in body.nodes]}

    def _branch(self, id: str, op: Branch, around: Around) -> Fields:
        if not op.arms:  # as in an agent without tools
            return self._block(id, op.default or Graph(nodes=(), ordered=True), around)
        (test, then), *more = op.arms
        fields: Fields = {"type": "condition", "condition": self.condition(test, f"{around.path}condition", around)}
        if then != TRUE:
            fields["then"] = self.line(id, "then", then, around)
        if more:
            other = Node(id=self.free(f"{id}_else"), op=Branch(arms=tuple(more), default=op.default))
            fields["otherwise"] = [self.node(other, replace(around, dag=False))]
        elif op.default != FALSE:
            fields["otherwise"] = self.line(id, "otherwise", op.default or Graph(nodes=()), around)
        return fields

    def _loop(self, id: str, op: Map | Loop, around: Around) -> Fields:
        here = around.path.rstrip("/")
        fields: Fields = {"type": "loop"}
        inside = replace(around, dag=False, round="map" if isinstance(op, Map) else "loop")
        if op.items is not None:
            fields["items"] = self.value(op.items, f"{around.path}items", around)
        if isinstance(op, Map):
            if op.limit is None or (op.limit == 1 and not repeats_alike(op.body)):
                self.refuse(
                    here, "rounds of a chain run one after another, or at most `concurrency` (2 or more) at once"
                )
            elif op.limit > 1:
                fields["concurrency"] = op.limit
            if op.most is not None:
                fields["maxIterations"] = op.most
        else:
            if not op.collect:
                self.refuse(here, "a chain's loop gives the list of all rounds, not the last one alone")
            if op.items is not None and (op.again is not None or op.until is not None):
                self.refuse(here, "a chain's loop has either items or until and while")
            for key, test in (("while", op.again), ("until", op.until)):
                if test is not None:
                    fields[key] = self.condition(test, f"{around.path}{key}", inside)
            if op.limit is not None:
                fields["maxIterations"] = op.limit
        fields["nodes"] = self.line(id, "value", op.body, inside)
        return fields

    def line(self, owner: str, what: str, body: Graph, around: Around) -> list[Fields]:
        """The nodes of a region in order, the last one's output its value."""
        around = replace(around, dag=False)
        if not body.ordered and len(body.nodes) > 1:
            self.refuse(around.path.rstrip("/"), "nodes that run at once belong in a parallel node")
        nodes = list(body.nodes)
        if not nodes or body.result != Ref("out", (nodes[-1].id,)):
            nodes.append(Node(id=self.free(f"{owner}_{what}"), op=Compute(value=body.result)))
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
                    self.refuse(path, "inside a loop $var.iteration is the number of the round; rename the state")
                return Ref("var", ref.path)
            case "round":
                if around.round == "map":
                    said = "$iteration is the number of the innermost loop's round; keep the outer one's in a node"
                    self.refuse(path, said)
                return Ref("iteration", ref.path)
            case "status":
                return self.status(ref, path)
        return ref


def _one_by_one(body: Graph) -> Graph:
    """A graph as a sequence, where it has but one order and goes on after a failure, which a dag does not."""
    continues = any(node.policy.on_error is not None and node.policy.on_error.reported for node in body.nodes)
    nodes, sure = in_order(body)
    if body.ordered or not continues or not sure or nodes != list(body.nodes):
        return body
    return replace(body, nodes=tuple(replace(node, after=frozenset()) for node in nodes), ordered=True)


def _rounds(body: Graph) -> Loop | None:
    """The loop that a whole chain in loop mode is."""
    op = body.nodes[0].op if len(body.nodes) == 1 and body.nodes[0].meta.hidden else None
    if isinstance(op, Loop) and op.items is None and op.again is None and not op.collect and op.body.ordered:
        return op if op.body.result == Ref("prev") else None
    return None
