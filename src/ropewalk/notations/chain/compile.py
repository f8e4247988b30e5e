"""Compile a chain that was read to a Flow: modes become regions, error strategies become policies.

`onSuccess`, `onError` and `dependsOn` become gates: a node runs only if its gate is true.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from ...expr import lift
from ...expr.ast import NULL, Expr, Fn, Lit, Obj, Ref
from ...fast_dataclass import dataclass
from ...ir import Flow, Graph, Meta, Node, OnError, Op, Policy, refs_inside, siblings_read
from ...ops import Block, Branch, Call, Compute, Loop, Map, Sleep
from ...values import did_you_mean
from ..binding import STATE, Binder, output_ref
from ..fields import Report, add_problem, join
from ..node_fields import (
    CommonFields,
    Failing,
    attach,
    compile_policy,
    compile_wait,
    read_common,
    read_failing,
    write_of,
)
from ..node_types import NODE_TYPES, ChainNode
from ..undo import compile_undo
from .read import ChainDocument, VariableRead, add_lints, unseen_write_warnings, unset_variable_warnings

ROOTS: Final = frozenset(
    ("input", "prev", "steps", "output", "var", "state", "item", "index", "iteration", "error", "secret")
)
LABELS: Final = {
    "block": "parallel",  # also the names of node types, for messages of writers
    "branch": "condition",
    "compute": "transform",
    "sleep": "delay",
    "hidden": "mode: loop",
    "args": "params",
    "when": "condition",
    "value": "condition",
    "arms[0][0]": "condition",
    "default": "otherwise",
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
ITERATION: Final = "in a loop $var.iteration is the iteration number, not this variable; rename the variable"
LOOP_NODE_ID: Final = "rounds"  # the id of the hidden node around a chain in loop mode


@dataclass(frozen=True, slots=True)
class Within:
    """The surroundings of a node: its siblings, and the meaning of `$iteration` and `$prev` there."""

    siblings: Mapping[str, int]
    ordered: bool
    mode: str
    round: str | None = None
    apart: frozenset[str] = frozenset()  # ids of siblings that run at the same time
    fallback: bool = False
    ended: bool = False  # True in `until` and `while`, which see what earlier iterations have set


def _labels(node: ChainNode) -> Mapping[str, str]:
    """Return the document's names for the parts of a node."""
    node_type = NODE_TYPES.get(node.type)
    return LABELS if node_type is None or node_type.labels is None else {**LABELS, **node_type.labels(node)}


class ChainCompiler(Binder[Within]):
    """Compile one chain; `problems` and `warnings` grow as it goes."""

    roots, kind = ROOTS, "chain"

    def __init__(self, chain: ChainDocument) -> None:
        super().__init__(chain.problems, [node.id for node in chain.nodes], chain.fields["variables"])
        self.chain = chain
        self.fields = chain.fields
        self.failing = read_failing(self.fields, "on_error", "chain", Failing(), self.fields)
        self.written: dict[str, str] = {}  # by variable: the first node that sets it
        self.variable_reads: list[VariableRead] = []
        self.current = ""  # the id of the node that is being compiled
        self.ids: dict[str, str] = {}  # by id: the place of its first node
        self.top = {node.id: i for i, node in enumerate(chain.nodes)}

    def flow(self) -> Flow:
        """Return the flow of the chain; it is usable only if there are no problems afterwards."""
        mode = str(self.fields["mode"])
        apart = frozenset(self.top) if mode == "parallel" else frozenset()
        looping = mode == "loop"
        within = Within(
            self.top, mode in ("sequential", "conditional", "loop"), mode, "round" if looping else None, apart
        )
        nodes = tuple(self.node(node, within) for node in self.chain.nodes)
        nodes = self._with_gates(self.chain.nodes, nodes, within)
        result: Expr = Obj(tuple((node.id, output_ref(node.id)) for node in nodes))
        declared = self.fields.get("result")
        if declared is not None:
            result = self.value(declared, "result", replace(within, apart=frozenset(), ended=True))
        ordered = within.ordered
        limit = None if ordered else int(self.fields["concurrency"])
        body = Graph(nodes=nodes, result=result, ordered=ordered, limit=limit)
        until = self.fields.get("until")
        # A chain in loop mode is one hidden loop around all nodes.
        if looping:
            test = self.expression(until, "until", within) if until is not None else None
            # The value of an iteration is `$prev` in the next one; the results are read from the nodes.
            if declared is None:
                body = replace(body, result=Ref("prev"))
            rounds = Loop(body=body, limit=int(self.fields["maxIterations"]), until=test, collect=False)
            hidden = Node(id=self._free(LOOP_NODE_ID), op=rounds, meta=Meta(hidden=True, labels=LOOP_LABELS))
            body = Graph(nodes=(hidden,), result=Ref("out", (hidden.id,)), ordered=True)
        elif until is not None and mode:
            add_problem(self.problems, "until", f"until is allowed only in loop mode; this chain's mode is {mode}")
        add_lints(self.chain, self.warnings)
        state = self.channels(self.fields["variables"], self.written)
        # Warnings about variables need a sound graph.
        if not self.problems:
            isolated = unseen_write_warnings(body, self.variable_reads)
            self.warnings += isolated.values()
            self.warnings += unset_variable_warnings(
                body, [r for r in self.variable_reads if r not in isolated], state, self.written
            )
        timeout = self.fields["timeout"]
        return Flow(
            name=str(self.fields["name"] or self.fields["id"]),
            body=body,
            state=state,
            input_schema=self.fields.get("inputSchema"),
            output_schema=self.fields.get("outputSchema"),
            timeout=timeout / 1000 if timeout else None,
            undo=self.fields.get("undo"),
            budget=self.fields.get("budget"),
        )

    def _free(self, id: str) -> str:
        while id in self.top:
            id += "_"
        return id

    # --- one node -----------------------------------------------------------------------------

    def node(self, node: ChainNode, within: Within) -> Node:
        """Compile one node with its condition, policy and output variable."""
        first_path = self.ids.setdefault(node.id, node.path)
        if first_path != node.path and node.id:
            add_problem(self.problems, join(node.path, "id"), f"the id {node.id!r} is already used by {first_path}")
        variable = node.get("outputVar")
        if variable:
            self.written.setdefault(variable, node.id)
            if variable == "iteration" and within.round is not None:
                add_problem(self.warnings, join(node.path, "outputVar"), ITERATION)
        outer_id, self.current = self.current, node.id
        common = self.common(node)
        id, inside = common.inner_id(node.id), replace(within, round="index") if common.is_repeated else within
        description = str(node.get("description") or node.get("name") or "")
        after = node.get("dependsOn") or ()
        place = within.siblings.get(node.id, 0)
        is_earlier = within.ordered and all(within.siblings.get(id, place) < place for id in after)
        if after and is_earlier and within.mode != "dag":
            after = ()  # a sequence is in this order already
        elif after and within.mode not in ("dag", ""):
            add_problem(self.problems, join(node.path, "dependsOn"), "dependsOn is allowed only in dag mode")
            after = ()
        compiled = Node(
            id=id,
            op=self.op(node, inside),
            writes=write_of(variable, node.id),
            policy=self.policy(node, common, inside),
            meta=Meta(
                source=node.path,
                labels=_labels(node),
                description=description,
                phase=node.get("phase"),
                failing=self._failure_label(node, common),
            ),
        )
        compiled = attach(compiled, common, self, within, int(self.fields["concurrency"]))
        self.current = outer_id
        return replace(compiled, after=frozenset(after)) if after else compiled

    def common(self, node: ChainNode) -> CommonFields:
        """Return the fields that the node shares with those of other notations."""
        fields = node.fields
        # Some types use `condition` for their own choice; for the others it decides if they run.
        if self._has_own(node, "condition"):
            fields = {key: value for key, value in fields.items() if key != "condition"}
        # The nodes inside are retried themselves; retrying the block too would multiply the attempts.
        is_block = node.bodies and self.failing.policy == "retry"
        return read_common(fields, "chain", node.path, Failing() if is_block else self.failing, self.fields)

    def _has_own(self, node: ChainNode, key: str) -> bool:
        node_type = NODE_TYPES.get(node.type)
        return node_type is not None and node_type.owns(key)

    def op(self, node: ChainNode, within: Within) -> Op:
        """Compile what a node does; an unknown type was reported when the chain was read."""
        node_type = NODE_TYPES.get(node.type)
        return Compute(value=NULL) if node_type is None else node_type.compile(self, node, within)

    def compile_tool(self, node: ChainNode, within: Within) -> Op:
        """Compile a tool node to a call."""
        params = node.get("params")
        args = self.value({} if params is None else params, join(node.path, "params"), within)
        undo = compile_undo(node.get("undo"), join(node.path, "undo"), self.problems)
        return Call(tool=str(node.get("tool", "")), args=args, undo=undo)

    def compile_condition(self, node: ChainNode, within: Within) -> Op:
        """Compile a condition node to a branch; without nodes it gives true or false."""
        text = node.get("condition")
        test = self.expression(text, join(node.path, "condition"), within) if text is not None else NULL
        then, otherwise = (self._branch_region(node, key, within) for key in ("then", "otherwise"))
        return Branch(
            arms=((test, then or Graph(nodes=(), result=Lit(True))),),
            default=otherwise or Graph(nodes=(), result=Lit(False)),
        )

    def _branch_region(self, node: ChainNode, key: str, within: Within) -> Graph | None:
        body = node.bodies.get(key)
        return self._sequence(body, replace(within, mode="sequential")) if body else None

    def _sequence(self, body: list[ChainNode], within: Within) -> Graph:
        """Compile nodes to an ordered region with the last one's output as its value."""
        inside = Within({n.id: i for i, n in enumerate(body)}, True, within.mode, within.round, within.apart)
        nodes = self._with_gates(body, tuple(self.node(n, inside) for n in body), inside)
        return Graph(nodes=nodes, result=output_ref(nodes[-1].id) if nodes else NULL, ordered=True)

    def compile_loop(self, node: ChainNode, within: Within) -> Op:
        """Compile a loop node: to a map if its iterations run concurrently, else to a loop."""
        items = node.get("items")
        width = int(node.get("concurrency", 1))
        is_concurrent = width > 1 and items is not None
        inside = replace(within, mode="sequential", round="index" if items is not None else "round")
        # A loop over items that survives failures survives them item by item, so it keeps the other results.
        outer, own = self.failing, self.common(node).failing.policy
        if items is not None and own in ("continue", "skip"):
            self.failing = Failing(policy=own)
        body = self._sequence(node.bodies.get("nodes", []), inside)
        self.failing = outer
        limit = node.get("maxIterations")
        items_expr = self.value(items, join(node.path, "items"), within) if items is not None else None
        if is_concurrent and items_expr is not None:
            return Map(items=items_expr, body=body, limit=width, most=limit)
        # The conditions of a loop see its body's nodes, as `until` of a whole chain does.
        ending = replace(inside, siblings={n.id: i for i, n in enumerate(node.bodies.get("nodes", []))}, ended=True)
        while_condition, until = (
            self.expression(node.get(key), join(node.path, key), ending) if node.get(key) is not None else None
            for key in ("while", "until")
        )
        if items_expr is None and limit is None:
            limit = int(self.fields["maxIterations"])
        return Loop(body=body, limit=limit, items=items_expr, again=while_condition, until=until)

    def compile_parallel(self, node: ChainNode, within: Within) -> Op:
        """Compile a parallel node to a block whose nodes run concurrently."""
        body = node.bodies.get("nodes", [])
        siblings = {n.id: i for i, n in enumerate(body)}
        inside = Within(siblings, False, "parallel", within.round, within.apart | frozenset(siblings))
        nodes = tuple(self.node(n, inside) for n in body)
        self._refuse_jumps(body, "parallel")
        limit = int(node.get("concurrency", self.fields["concurrency"]))
        result = Obj(tuple((n.id, output_ref(n.id)) for n in nodes))
        return Block(body=Graph(nodes=nodes, result=result, limit=limit))

    def compile_transform(self, node: ChainNode, within: Within) -> Op:
        """Compile a transform node to a computed value."""
        return Compute(value=self._transform_expr(node, within))

    def _transform_expr(self, node: ChainNode, within: Within) -> Expr:
        spec, path, source = node.get("transform"), join(node.path, "transform"), node.get("input")
        if spec is None:  # then the input is the value; if it is missing too, that was reported
            return self.value(source, join(node.path, "input"), within)
        from ...expr import transform_expr

        data: Expr = Ref("prev")
        if source is not None:
            data = lift(source, ROOTS, path=join(node.path, "input"), problems=self.problems)
        expr = transform_expr(spec, data, roots=ROOTS | {"acc"}, path=path, problems=self.problems)
        return self.bind_all(expr, path, within)

    def compile_delay(self, node: ChainNode, within: Within) -> Op:
        """Compile a delay node; the document has milliseconds, the graph seconds."""
        return Sleep(seconds=self._delay_expr(node, within))

    def _delay_expr(self, node: ChainNode, within: Within) -> Expr:
        delay, path = node.get("delay", 0), join(node.path, "delay")
        if isinstance(delay, str):
            milliseconds = self.value(delay, path, within)
            if isinstance(milliseconds, Lit):
                add_problem(self.problems, path, f"must be milliseconds or a reference to them, not the text {delay!r}")
                return Lit(0)
            return Fn("/", (milliseconds, Lit(1000)))
        if isinstance(delay, bool) or not isinstance(delay, (int, float)) or not 0 <= delay < float("inf"):
            add_problem(self.problems, path, f"must be milliseconds of 0 or more, not {delay!r}")
            return Lit(0)
        return Lit(delay / 1000)

    def compile_wait(self, node: ChainNode, within: Within) -> Op:
        """Compile a wait node; the name of its event or its approval text may contain references."""
        return compile_wait(node.fields, node.path, self, within)

    def policy(self, node: ChainNode, common: CommonFields, within: Within) -> Policy:
        """Compile the timeout and the error strategy of a node, its own or that of the chain."""
        node_type, strategy = NODE_TYPES.get(node.type), common.failing.policy
        self._check_fallback(node, strategy)
        # Settings that the strategy does not use are probably a mistake.
        if strategy != "retry":
            is_retried_inside = node.bodies and not node.get("errorStrategy") and self.failing.policy == "retry"
            reason = (
                "the nodes inside are retried, not the block"
                if is_retried_inside
                else f"the strategy here is {strategy}"
            )
            for key in ("maxRetries", "retryDelay"):
                if key in node.fields:
                    message = f"is not used: {reason}; only errorStrategy: retry uses it"
                    add_problem(self.warnings, join(node.path, key), message)
        has_timeout = node_type is None or not node_type.has_own_timeout
        policy = compile_policy(common, self, within, has_timeout=has_timeout)
        # A node that jumps hands its failure to the nodes that it names, whatever its strategy.
        return replace(policy, on_error=OnError()) if node.failure_targets else policy

    def _failure_label(self, node: ChainNode, common: CommonFields) -> str:
        """Return the document's words for what a failure leads to, if that is not a value."""
        if node.failure_targets:
            return f"onError: {', '.join(node.failure_targets)}"
        strategy = common.failing.policy
        return f"errorStrategy: {strategy}" if strategy in ("continue", "skip") else ""

    def _check_fallback(self, node: ChainNode, strategy: str) -> None:
        """Warn of a fallback that is not used, and of a missing one."""
        has_fallback, is_handled = "fallback" in node.fields, node.failure_targets
        if has_fallback and (is_handled or strategy != "fallback"):
            reason = "onError handles the failure" if is_handled else f"the strategy here is {strategy}"
            message = f"is not used: {reason}; only errorStrategy: fallback uses it"
            add_problem(self.warnings, join(node.path, "fallback"), message)
        elif not has_fallback and not is_handled and node.get("errorStrategy") == "fallback":
            message = "without a fallback this acts like stop; add one (`fallback: null` gives null)"
            add_problem(self.warnings, join(node.path, "errorStrategy"), message)

    # --- jumps and dependencies ---------------------------------------------------------------

    def _with_gates(self, body: list[ChainNode], nodes: tuple[Node, ...], within: Within) -> tuple[Node, ...]:

        if not within.mode:
            return nodes  # an unknown mode was reported when the chain was read
        if within.mode == "dag":
            return dag_gates(body, nodes, self.problems)
        if within.mode in ("parallel", "loop") and within.siblings is self.top:
            self._refuse_jumps(body, within.mode)
            return nodes
        return line_gates(body, nodes, self.problems)

    def _refuse_jumps(self, body: list[ChainNode], mode: str) -> None:
        for node in body:
            for key in ("onSuccess", "onError"):
                if node.failure_targets if key == "onError" else node.get(key):
                    add_problem(
                        self.problems, join(node.path, key), f"nodes in {mode} mode cannot jump to another node"
                    )

    # --- references ---------------------------------------------------------------------------

    def bind(self, ref: Ref, path: str, within: Within) -> Expr:
        """Return the expression in the graph that a reference of the document stands for."""
        root = ref.root
        if root in ("steps", "output"):
            return self.output(ref, path, within.apart)
        if root in STATE:
            if ref.path and ref.path[0] == "iteration" and within.round is not None:
                if "iteration" in self.variables:
                    add_problem(self.warnings, path, ITERATION)
                return Ref(within.round, ref.path[1:], column=ref.column, original=ref)
            if ref.path and not within.ended:
                self.variable_reads.append(VariableRead(str(ref.path[0]), path, ref.column, self.current))
            return self.variable(ref, path)
        if root == "iteration":
            if within.round is None:
                return self.report_reference(ref, path, "$iteration exists only inside a loop")
            return Ref(within.round, ref.path, column=ref.column, original=ref)
        return ref if root in ROOTS or root == "acc" else self.unknown(ref, path)


OK, FAILED, DEAD = Lit("ok"), Lit("failed"), Lit("dead")
MAX_LISTED_JUMPS: Final = 8
"""The most jumps that a gate lists one by one, so that drawings stay readable."""

Jump: TypeAlias = tuple[str, Lit]
"""A node, and the outcome with which it jumps."""


def line_gates(body: list[ChainNode], nodes: tuple[Node, ...], report: Report) -> tuple[Node, ...]:
    """Return the nodes of a sequence with gates for their jumps."""

    # `onSuccess` and `onError` name a later node to continue with; the nodes between are skipped. A gate lists the
    # jumps that pass its node. If these are many, it refers to the node before instead, so that all gates together grow
    # with the number of nodes, not with its square.
    position = {node.id: i for i, node in enumerate(body)}
    passing_jumps: dict[Jump, None] = {}  # the jumps that pass the current node, in order
    landing_jumps: dict[int, list[Jump]] = {}  # by position: the jumps to that node
    previous_jumps: list[Jump] = []  # the jumps of the node before
    gated = list(nodes)
    for i, node in enumerate(body):
        landing_here = landing_jumps.get(i, [])
        for jump in landing_here:
            passing_jumps.pop(jump, None)
        if passing_jumps:
            gate = (
                _none_taken(passing_jumps)
                if len(passing_jumps) <= MAX_LISTED_JUMPS
                else _after_previous(body[i - 1].id, previous_jumps, landing_here)
            )
            gated[i] = replace(nodes[i], gate=gate)
        previous_jumps = []
        # Collect the jumps of this node.
        for key, outcome in (("onSuccess", OK), ("onError", FAILED)):
            targets = _known_targets(node, key, position, report)
            if len(targets) > 1:
                add_problem(report, join(node.path, key), "must name only one node; dag mode allows several")
            for target in targets:
                if position[target] <= i:
                    add_problem(
                        report, join(node.path, key), f"must name a later node; {target!r} comes before this one"
                    )
                else:
                    previous_jumps.append((node.id, outcome))
                    landing_jumps.setdefault(position[target], []).append((node.id, outcome))
        passing_jumps.update(dict.fromkeys(previous_jumps))
    return tuple(gated)


def _none_taken(jumps: Iterable[Jump]) -> Expr:
    return all_of([_status_is("!=", id, outcome) for id, outcome in jumps])


def _after_previous(before: str, own_jumps: list[Jump], landed: list[Jump]) -> Expr:
    """Return the gate of `_none_taken`, expressed by the node before."""

    # The node before ran and did not jump, or a jump that was taken leads here. At most one jump is taken at a time,
    # because skipped nodes do not jump.
    return any_of(
        [_none_taken([(before, DEAD), *own_jumps]), *(_status_is("==", id, outcome) for id, outcome in landed)]
    )


def _status_is(op: str, id: str, outcome: Lit) -> Expr:
    return Fn(op, (Ref("status", (id,)), outcome))


def dag_gates(body: list[ChainNode], nodes: tuple[Node, ...], report: Report) -> tuple[Node, ...]:
    """Return the nodes of a DAG with gates for their dependencies and jumps."""

    # A failed or unreached dependency keeps a node from running, a skipped one does not. A node that `onSuccess` or
    # `onError` names runs if one of the nodes that name it had that outcome.
    position = {node.id: i for i, node in enumerate(body)}
    routes: dict[str, list[Jump]] = {}
    for node in body:
        for key, outcome in (("onSuccess", OK), ("onError", FAILED)):
            for target in _known_targets(node, key, position, report):
                if target == node.id:
                    add_problem(report, join(node.path, key), "a node cannot lead to itself")
                else:
                    routes.setdefault(target, []).append((node.id, outcome))
    fails = {node.id for node, made in zip(body, nodes, strict=True) if node.failure_targets or _may_fail(made)}
    gated = _may_be_dead(nodes, routes, fails)
    return tuple(_with_gate(node, routes.get(node.id, []), fails, gated) for node in nodes)


def _may_fail(node: Node) -> bool:
    """Return True if the node can fail while the chain continues without its dependents."""
    return node.policy.on_error is not None and node.policy.on_error.reported


def _may_be_dead(nodes: tuple[Node, ...], routes: dict[str, list[Jump]], fails: set[str]) -> set[str]:
    """Return the ids of nodes that may not be reached: targets of jumps, and everything that depends on them or on a
    node that may fail."""
    dependents: dict[str, list[str]] = {}
    for node in nodes:
        for before in node.after | siblings_read(refs_inside(node)):
            dependents.setdefault(before, []).append(node.id)
    ids: set[str] = set()
    pending = [*routes, *(id for failing in fails for id in dependents.get(failing, []))]
    while pending:
        id = pending.pop()
        if id not in ids:
            ids.add(id)
            pending.extend(dependents.get(id, []))
    return ids


def _with_gate(node: Node, routes: list[Jump], fails: set[str], gated: set[str]) -> Node:
    sources = {id for id, _ in routes}
    terms: list[Expr] = []
    for before in sorted((node.after | siblings_read(refs_inside(node))) - sources - {node.id}):
        if before in fails:
            terms.append(_status_is("!=", before, FAILED))
        if before in gated:
            terms.append(_status_is("!=", before, DEAD))
    if routes:
        terms.append(any_of([_status_is("==", id, outcome) for id, outcome in routes]))
    if not terms:
        return node
    return replace(node, gate=all_of(terms), after=node.after | sources)


def _known_targets(node: ChainNode, key: str, position: dict[str, int], report: Report) -> list[str]:
    known = []
    for target in (node.failure_targets if key == "onError" else node.get(key)) or []:
        if target in position:
            known.append(target)
        else:
            add_problem(report, join(node.path, key), f"unknown node {target!r}", did_you_mean(target, position))
    return known


def all_of(terms: list[Expr]) -> Expr:
    """Return the conjunction of at least one term."""
    return _tree("&&", terms)


def any_of(terms: list[Expr]) -> Expr:
    """Return the disjunction of at least one term."""
    return _tree("||", terms)


def _tree(op: str, terms: list[Expr]) -> Expr:
    """Combine terms in a balanced tree, so that a thousand terms nest ten deep."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return Fn(op, (_tree(op, terms[:half]), _tree(op, terms[half:])))
