"""From a chain as read to the graph: modes become regions, strategies policies, jumps gates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ..expr import lift
from ..expr.ast import NULL, Expr, Fn, Lit, Obj, Ref
from ..frozen import dataclass
from ..ir import NO_POLICY, Flow, Graph, Meta, Node, OnError, Op, Policy, Retry
from ..ops import Block, Branch, Call, Compute, Loop, Map, Sleep, Wait
from .binding import Binder, output_of
from .chain import ChainDocument, ChainNode
from .chain_doubts import doubts
from .chain_order import Read, unseen, unset
from .fields import join, say

ROOTS: Final = frozenset(("input", "prev", "steps", "output", "var", "item", "index", "iteration", "error", "secret"))
LABELS: Final = {
    "block": "parallel",  # what a kind of node is called, too, for whatever refuses one
    "branch": "condition",
    "compute": "transform",
    "sleep": "delay",
    "hidden": "mode: loop",
    "args": "params",
    "when": "condition",
    "value": "condition",
    "arms[0][0]": "condition",
    "items": "items",
    "again": "while",
    "until": "until",
    "seconds": "delay",
    "event": "event",
    "approval": "approval",
    "timeout": "timeout",
    "policy.on_error.value": "fallback",
    "policy.timeout": "timeout",
    "policy.retry": "maxRetries",
    "after": "dependsOn",
    "writes": "outputVar",
    "limit": "concurrency",
    "most": "maxIterations",
    "tool": "tool",
    "body": "nodes",
}
LOOP_LABELS: Final = {**LABELS, "limit": "maxIterations"}
INPUT_LABELS: Final = {**LABELS, "value": "input"}
TRANSFORM_LABELS: Final = {**LABELS, "value": "transform"}
EACH_LABELS: Final = {**TRANSFORM_LABELS, "value.source": "input"}
ITERATION: Final = "in a loop $var.iteration is the number of the round, not this variable; give it another name"
ROUNDS: Final = "rounds"  # the hidden node that a chain in loop mode is wrapped in


@dataclass(frozen=True, slots=True)
class Within:
    """What surrounds a node: its list of siblings, and what `$iteration` and `$prev` mean there."""

    siblings: Mapping[str, int]
    ordered: bool
    mode: str
    round: str | None = None
    apart: frozenset[str] = frozenset()  # ids of siblings that run at the same time
    fallback: bool = False
    ended: bool = False  # in `until` or `while`, which see what the rounds before have set


def _labels(node: ChainNode) -> Mapping[str, str]:
    """The document's names for the parts of a node; what a transform reads is its input, when it has one."""
    if node.type == "loop" and not ("items" in node.fields and node.get("concurrency", 1) > 1):
        return LOOP_LABELS  # whose only number says how many rounds there may be
    if node.type != "transform":
        return LABELS
    if "$" not in str(node.get("input", "")):
        return TRANSFORM_LABELS
    config = (node.get("transform") or {}).get("config")
    per_item = isinstance(config, dict) and not config.keys().isdisjoint(("expression", "key", "by"))
    return EACH_LABELS if per_item else INPUT_LABELS


class ChainCompiler(Binder[Within]):
    """Compiles one chain; `problems` and `warnings` grow as it goes."""

    roots, kind = ROOTS, "chain"

    def __init__(self, chain: ChainDocument) -> None:
        super().__init__(chain.problems, [node.id for node in chain.nodes], chain.fields["variables"])
        self.chain = chain
        self.fields = chain.fields
        self.written: dict[str, str] = {}  # variables, and the first node that sets each
        self.reads: list[Read] = []
        self.current = ""  # the id of the node that is being read
        self.ids: dict[str, str] = {}  # every id, and the place of its first node
        self.top = {node.id: i for i, node in enumerate(chain.nodes)}

    def flow(self) -> Flow:
        mode = str(self.fields["mode"])
        apart = frozenset(self.top) if mode == "parallel" else frozenset()
        looping = mode == "loop"
        within = Within(
            self.top, mode in ("sequential", "conditional", "loop"), mode, "round" if looping else None, apart
        )
        nodes = tuple(self.node(node, within) for node in self.chain.nodes)
        nodes = self._routed(self.chain.nodes, nodes, within)
        result = Obj(tuple((node.id, output_of(node.id)) for node in nodes))
        ordered = within.ordered
        limit = None if ordered else int(self.fields["concurrency"])
        body = Graph(nodes=nodes, result=result, ordered=ordered, limit=limit)
        until = self.fields.get("until")
        if looping:
            test = self.expression(until, "until", within) if until is not None else None
            # The value of a round is what `$prev` is in the next one; the results are read from the nodes.
            body = replace(body, result=Ref("prev"))
            rounds = Loop(body=body, limit=int(self.fields["maxIterations"]), until=test, collect=False)
            hidden = Node(id=self._free(ROUNDS), op=rounds, meta=Meta(hidden=True, labels=LOOP_LABELS))
            body = Graph(nodes=(hidden,), result=Ref("out", (hidden.id,)), ordered=True)
        elif until is not None and mode:
            say(self.problems, "until", f"only a chain in loop mode has until, this one is {mode}")
        doubts(self.chain, self.warnings)
        state = self.channels(self.fields["variables"], self.written)
        if not self.problems:
            lonely = unseen(body, self.reads)
            self.warnings += lonely.values()
            self.warnings += unset(body, [r for r in self.reads if r not in lonely], state, self.written)
        timeout = self.fields["timeout"]
        return Flow(
            name=str(self.fields["name"] or self.fields["id"]),
            body=body,
            state=state,
            input_schema=self.fields.get("inputSchema"),
            timeout=timeout / 1000 if timeout else None,
        )

    def _free(self, id: str) -> str:
        while id in self.top:
            id += "_"
        return id

    # --- one node -----------------------------------------------------------------------------

    def node(self, node: ChainNode, within: Within) -> Node:
        first = self.ids.setdefault(node.id, node.path)
        if first != node.path and node.id:
            say(self.problems, join(node.path, "id"), f"the id {node.id!r} is already used, by {first}")
        out = node.get("outputVar")
        if out:
            self.written.setdefault(out, node.id)
            if out == "iteration" and within.round is not None:
                say(self.warnings, join(node.path, "outputVar"), ITERATION)
        outer, self.current = self.current, node.id
        condition = node.get("condition") if node.type != "condition" else None
        description = str(node.get("description") or node.get("name") or "")
        after = node.get("dependsOn") or ()
        if after and within.mode not in ("dag", ""):
            say(self.problems, join(node.path, "dependsOn"), "only nodes of a chain in dag mode have dependsOn")
            after = ()
        made = Node(
            id=node.id,
            op=self.op(node, within),
            after=frozenset(after),
            when=self.expression(condition, join(node.path, "condition"), within) if condition is not None else None,
            writes=Obj(((out, output_of(node.id)),)) if out else None,
            policy=self.policy(node, within),
            meta=Meta(source=node.path, labels=_labels(node), description=description, failing=self._failing(node)),
        )
        self.current = outer
        return made

    def op(self, node: ChainNode, within: Within) -> Op:
        match node.type:
            case "tool":
                params = node.get("params")
                args = self.value({} if params is None else params, join(node.path, "params"), within)
                return Call(tool=str(node.get("tool", "")), args=args)
            case "condition":
                return self._condition(node, within)
            case "loop":
                return self._loop(node, within)
            case "parallel":
                return Block(body=self._parallel(node, within))
            case "transform":
                return Compute(value=self._transform(node, within))
            case "delay":
                return Sleep(seconds=self._delay(node, within))
            case "wait":
                return self._wait(node, within)
        return Compute(value=NULL)

    def _condition(self, node: ChainNode, within: Within) -> Op:
        text = node.get("condition")
        test = self.expression(text, join(node.path, "condition"), within) if text is not None else NULL
        then, otherwise = (self._branch(node, key, within) for key in ("then", "otherwise"))
        return Branch(
            arms=((test, then or Graph(nodes=(), result=Lit(True))),),
            default=otherwise or Graph(nodes=(), result=Lit(False)),
        )

    def _branch(self, node: ChainNode, key: str, within: Within) -> Graph | None:
        body = node.bodies.get(key)
        return self._line(body, replace(within, mode="sequential")) if body else None

    def _line(self, body: list[ChainNode], within: Within) -> Graph:
        """Nodes in order; the value is the last one's output."""
        inside = Within({n.id: i for i, n in enumerate(body)}, True, within.mode, within.round, within.apart)
        nodes = self._routed(body, tuple(self.node(n, inside) for n in body), inside)
        return Graph(nodes=nodes, result=output_of(nodes[-1].id) if nodes else NULL, ordered=True)

    def _loop(self, node: ChainNode, within: Within) -> Op:
        items = node.get("items")
        width = int(node.get("concurrency", 1))
        apart = width > 1 and items is not None
        inside = replace(within, mode="sequential", round="index" if items is not None else "round")
        body = self._line(node.bodies.get("nodes", []), inside)
        limit = node.get("maxIterations")
        over = self.value(items, join(node.path, "items"), within) if items is not None else None
        if apart and over is not None:
            return Map(items=over, body=body, limit=width, most=limit)
        # The conditions of a loop see its body's nodes, as `until` of a whole chain does.
        ends = replace(inside, siblings={n.id: i for i, n in enumerate(node.bodies.get("nodes", []))}, ended=True)
        again, until = (
            self.expression(node.get(key), join(node.path, key), ends) if node.get(key) is not None else None
            for key in ("while", "until")
        )
        if over is None and limit is None:
            limit = int(self.fields["maxIterations"])
        return Loop(body=body, limit=limit, items=over, again=again, until=until)

    def _parallel(self, node: ChainNode, within: Within) -> Graph:
        body = node.bodies.get("nodes", [])
        siblings = {n.id: i for i, n in enumerate(body)}
        inside = Within(siblings, False, "parallel", within.round, within.apart | frozenset(siblings))
        nodes = tuple(self.node(n, inside) for n in body)
        self._no_jumps(body, "parallel")
        limit = int(node.get("concurrency", self.fields["concurrency"]))
        result = Obj(tuple((n.id, output_of(n.id)) for n in nodes))
        return Graph(nodes=nodes, result=result, limit=limit)

    def _transform(self, node: ChainNode, within: Within) -> Expr:
        spec, path, source = node.get("transform"), join(node.path, "transform"), node.get("input")
        if spec is None:  # which has been reported where there is no input either
            return self.value(source, join(node.path, "input"), within)
        from ..expr import transform_expr

        data: Expr = Ref("prev")
        if source is not None:
            data = lift(source, ROOTS, path=join(node.path, "input"), problems=self.problems)
        made = transform_expr(spec, data, roots=ROOTS | {"acc"}, path=path, problems=self.problems)
        return self.bound(made, path, within)

    def _delay(self, node: ChainNode, within: Within) -> Expr:
        delay, path = node.get("delay", 0), join(node.path, "delay")
        if isinstance(delay, str):
            given = self.value(delay, path, within)
            if isinstance(given, Lit):
                say(self.problems, path, f"must be milliseconds or a reference to them, not the text {delay!r}")
                return Lit(0)
            return Fn("/", (given, Lit(1000)))
        if isinstance(delay, bool) or not isinstance(delay, (int, float)) or not 0 <= delay < float("inf"):
            say(self.problems, path, f"must be milliseconds of 0 or more, not {delay!r}")
            return Lit(0)
        return Lit(delay / 1000)

    def _wait(self, node: ChainNode, within: Within) -> Op:
        """The name of an event, and what is shown for an approval, are texts that may hold references."""
        timeout = node.get("timeout")
        event, approval = (
            self.value(node.get(key), join(node.path, key), within) if key in node.fields else None
            for key in ("event", "approval")
        )
        return Wait(event=event, approval=approval, timeout=Lit(timeout / 1000) if timeout else None)

    def policy(self, node: ChainNode, within: Within) -> Policy:
        get = node.fields.get
        strategy = get("errorStrategy") or self.fields["errorStrategy"]
        if strategy == "retry" and node.bodies and not get("errorStrategy"):
            # The nodes inside are tried again themselves; trying the block again too would multiply the tries.
            strategy = "stop"
        timeout = get("timeout") if node.type != "wait" else None  # which keeps its own, through restarts
        self._fallback_fits(node, strategy)
        if strategy != "retry":
            again = node.bodies and not get("errorStrategy") and self.fields["errorStrategy"] == "retry"
            why = "the nodes inside are tried again, not the block" if again else f"the strategy here is {strategy}"
            for key in ("maxRetries", "retryDelay"):
                if key in node.fields:
                    said = f"is not used: {why}; only errorStrategy: retry uses it"
                    say(self.warnings, join(node.path, key), said)
        if strategy == "stop" and timeout is None and not node.get("onError"):
            return NO_POLICY
        retry = Retry()
        if strategy == "retry":
            tries = int(get("maxRetries", self.fields["maxRetries"]) or 0)
            delay = float(get("retryDelay", self.fields["retryDelay"]) or 0)
            retry = Retry(attempts=1 + tries, delay=delay / 1000)
        on_error = None
        if node.get("onError"):
            on_error = OnError()
        elif strategy == "continue":
            on_error = OnError(reported=True)
        elif strategy == "skip":
            on_error = OnError()
        elif strategy == "fallback" and "fallback" in node.fields:
            on_error = OnError(value=self.value(get("fallback"), join(node.path, "fallback"), within))
        return Policy(retry=retry, timeout=timeout / 1000 if timeout else None, on_error=on_error)

    def _failing(self, node: ChainNode) -> str:
        """What a failure leads to, where that is no value of the document."""
        if node.get("onError"):
            return f"onError: {', '.join(node.get('onError'))}"
        strategy = node.get("errorStrategy") or self.fields["errorStrategy"]
        return f"errorStrategy: {strategy}" if strategy in ("continue", "skip") else ""

    def _fallback_fits(self, node: ChainNode, strategy: str) -> None:
        """Warn of a fallback that nothing uses, and of a node that is to have one and has none."""
        given, handled = "fallback" in node.fields, node.get("onError")
        if given and (handled or strategy != "fallback"):
            why = "onError handles the failure" if handled else f"the strategy here is {strategy}"
            said = f"is not used: {why}; only errorStrategy: fallback uses it"
            say(self.warnings, join(node.path, "fallback"), said)
        elif not given and not handled and node.get("errorStrategy") == "fallback":
            said = "without a fallback this is the same as stop; `fallback: null` gives null"
            say(self.warnings, join(node.path, "errorStrategy"), said)

    # --- jumps and dependencies ---------------------------------------------------------------

    def _routed(self, body: list[ChainNode], nodes: tuple[Node, ...], within: Within) -> tuple[Node, ...]:
        from .chain_routes import dag_gates, line_gates

        if not within.mode:
            return nodes  # an unknown one, which has been reported
        if within.mode == "dag":
            return dag_gates(body, nodes, self.fields["errorStrategy"], self.problems)
        if within.mode in ("parallel", "loop") and within.siblings is self.top:
            self._no_jumps(body, within.mode)
            return nodes
        return line_gates(body, nodes, self.problems)

    def _no_jumps(self, body: list[ChainNode], mode: str) -> None:
        for node in body:
            for key in ("onSuccess", "onError"):
                if node.get(key):
                    say(self.problems, join(node.path, key), f"nodes in {mode} mode cannot jump")

    # --- references ---------------------------------------------------------------------------

    def bind(self, ref: Ref, path: str, within: Within) -> Expr:
        """What a reference of the document is in the graph."""
        root = ref.root
        if root in ("steps", "output"):
            return self.output(ref, path, within.apart)
        if root == "var":
            if ref.path and ref.path[0] == "iteration" and within.round is not None:
                if "iteration" in self.variables:
                    say(self.warnings, path, ITERATION)
                return Ref(within.round, ref.path[1:], column=ref.column, said=ref)
            if ref.path and not within.ended:
                self.reads.append(Read(str(ref.path[0]), path, ref.column, self.current))
            return self.variable(ref, path)
        if root == "iteration":
            if within.round is None:
                return self.wrong(ref, path, "$iteration has a meaning only inside a loop")
            return Ref(within.round, ref.path, column=ref.column, said=ref)
        return ref if root in ROOTS or root == "acc" else self.unknown(ref, path)
