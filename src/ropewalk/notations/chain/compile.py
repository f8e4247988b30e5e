"""Compile a chain that was read to a Flow: modes become regions, error strategies become policies.

`onSuccess`, `onError` and `dependsOn` become gates: a node runs only if its gate is true.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeAlias

from ...expr.ast import NULL, Expr, Fn, Lit, Obj, Ref
from ...ir import Flow, Graph, Meta, Node, OnError, Op, Policy, refs_inside, siblings_read
from ...ops import Loop
from ...values import did_you_mean
from ..binding import output_ref
from ..fields import Report, add_problem, join
from ..node_compiler import ITERATION, NodeCompiler, Within
from ..node_fields import CommonFields, Failing, attach, write_of
from ..node_types import LABELS, DocumentNode
from .read import ChainDocument, VariableRead, add_lints, unseen_write_warnings, unset_variable_warnings

LOOP_NODE_ID: Final = "rounds"  # the id of the hidden node around a chain in loop mode


class ChainCompiler(NodeCompiler):
    """Compile one chain; `problems` and `warnings` grow as it goes."""

    kind, passes_data = "chain", False

    def __init__(self, chain: ChainDocument) -> None:
        super().__init__(chain.fields, chain.nodes, chain.problems)
        self.chain, self.defaults = chain, chain.fields
        self.variable_reads: list[VariableRead] = []
        self.current = ""  # the id of the node that is being compiled
        self.places: dict[str, str] = {}  # by id: the place of its first node
        self.top = {node.id: i for i, node in enumerate(chain.nodes)}

    def flow(self) -> Flow:
        """Return the flow of the chain; it is usable only if there are no problems afterwards."""
        mode = str(self.fields["mode"])
        apart = frozenset(self.top) if mode == "parallel" else frozenset()
        looping = mode == "loop"
        ordered = mode in ("sequential", "conditional", "loop")
        round = "round" if looping else None
        within = Within(siblings=self.top, parallel=not ordered, mode=mode, round=round, apart=apart)
        nodes = tuple(self.node(node, within) for node in self.chain.nodes)
        nodes = self._with_gates(self.chain.nodes, nodes, within)
        result: Expr = Obj(tuple((node.id, output_ref(node.id)) for node in nodes))
        declared = self.fields.get("result")
        if declared is not None:
            result = self.value(declared, "result", replace(within, apart=frozenset(), ended=True))
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
            hidden = Node(
                id=self.unique_id(LOOP_NODE_ID),
                op=rounds,
                meta=Meta(hidden=True, labels={**LABELS, "hidden": "mode: loop", "limit": "maxIterations"}),
            )
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

    # --- one node -----------------------------------------------------------------------------

    def node(self, node: DocumentNode, within: Within) -> Node:
        """Compile one node with its condition, policy and output variable."""
        first_path = self.places.setdefault(node.id, node.path)
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
        op = self.op(node, inside)
        description = str(node.get("description") or node.get("name") or "")
        after = node.get("dependsOn") or ()
        siblings = within.siblings or {}
        place = siblings.get(node.id, 0)
        is_earlier = not within.parallel and all(siblings.get(id, place) < place for id in after)
        if after and is_earlier and within.mode != "dag":
            after = ()  # a sequence is in this order already
        elif after and within.mode not in ("dag", ""):
            add_problem(self.problems, join(node.path, "dependsOn"), "dependsOn is allowed only in dag mode")
            after = ()
        compiled = Node(
            id=id,
            op=op,
            writes=write_of(variable, node.id),
            policy=self.policy(node, op, common, inside),
            meta=self.meta(node, description=description, failing=self._failure_label(node, common)),
        )
        compiled = attach(compiled, common, self, within, int(self.fields["concurrency"]))
        self.current = outer_id
        return replace(compiled, after=frozenset(after)) if after else compiled

    def failing_around(self, node: DocumentNode) -> Failing:
        """Return the handling of failures of the chain."""

        # The nodes inside are retried themselves; retrying the block too would multiply the attempts.
        return Failing() if node.has_nodes and self.failing.policy == "retry" else self.failing

    def sequence(self, nodes: list[DocumentNode], within: Within) -> Graph:
        """Compile nodes to an ordered region with the last one's output as its value."""
        inside = replace(within, siblings={node.id: i for i, node in enumerate(nodes)}, parallel=False)
        compiled = self._with_gates(nodes, tuple(self.in_row(nodes, inside)[0]), inside)
        return Graph(nodes=compiled, result=output_ref(nodes[-1].id), ordered=True)

    def concurrent(self, nodes: list[DocumentNode], within: Within) -> list[Node]:
        """Compile nodes that run at the same time and do not see each other."""
        siblings = {node.id: i for i, node in enumerate(nodes)}
        inside = replace(within, siblings=siblings, mode="parallel", apart=within.apart | frozenset(siblings))
        compiled = [self.node(node, inside) for node in nodes]
        self._refuse_jumps(nodes, "parallel")
        return compiled

    def policy(self, node: DocumentNode, op: Op, common: CommonFields, within: Within) -> Policy:
        """Compile the timeout and the error strategy of a node, its own or that of the chain."""
        strategy = common.failing.policy
        self._check_fallback(node, strategy)
        # Settings that the strategy does not use are probably a mistake.
        if strategy != "retry":
            is_retried_inside = node.has_nodes and not node.get("errorStrategy") and self.failing.policy == "retry"
            reason = (
                "the nodes inside are retried, not the block"
                if is_retried_inside
                else f"the strategy here is {strategy}"
            )
            for key in ("maxRetries", "retryDelay"):
                if key in node.fields:
                    message = f"is not used: {reason}; only errorStrategy: retry uses it"
                    add_problem(self.warnings, join(node.path, key), message)
        policy = self.policy_of(node, op, common, within, NULL)
        # A node that jumps hands its failure to the nodes that it names, whatever its strategy.
        return replace(policy, on_error=OnError()) if node.failure_targets else policy

    def _failure_label(self, node: DocumentNode, common: CommonFields) -> str:
        """Return the document's words for what a failure leads to, if that is not a value."""
        if node.failure_targets:
            return f"onError: {', '.join(node.failure_targets)}"
        strategy = common.failing.policy
        return f"errorStrategy: {strategy}" if strategy in ("continue", "skip") else ""

    def _check_fallback(self, node: DocumentNode, strategy: str) -> None:
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

    def _with_gates(self, body: list[DocumentNode], nodes: tuple[Node, ...], within: Within) -> tuple[Node, ...]:

        if not within.mode:
            return nodes  # an unknown mode was reported when the chain was read
        if within.mode == "dag":
            return dag_gates(body, nodes, self.problems)
        if within.mode in ("parallel", "loop") and within.siblings is self.top:
            self._refuse_jumps(body, within.mode)
            return nodes
        return line_gates(body, nodes, self.problems)

    def _refuse_jumps(self, body: list[DocumentNode], mode: str) -> None:
        for node in body:
            for key in ("onSuccess", "onError"):
                if node.failure_targets if key == "onError" else node.get(key):
                    add_problem(
                        self.problems, join(node.path, key), f"nodes in {mode} mode cannot jump to another node"
                    )

    def variable_in(self, ref: Ref, path: str, within: Within) -> Expr:
        """Bind a reference to a variable, and remember it for warnings."""
        if ref.path and not within.ended:
            self.variable_reads.append(VariableRead(str(ref.path[0]), path, ref.column, self.current))
        return self.variable(ref, path)


OK, FAILED, DEAD = Lit("ok"), Lit("failed"), Lit("dead")
MAX_LISTED_JUMPS: Final = 8
"""The most jumps that a gate lists one by one, so that drawings stay readable."""

Jump: TypeAlias = tuple[str, Lit]
"""A node, and the outcome with which it jumps."""


def line_gates(body: list[DocumentNode], nodes: tuple[Node, ...], report: Report) -> tuple[Node, ...]:
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


def dag_gates(body: list[DocumentNode], nodes: tuple[Node, ...], report: Report) -> tuple[Node, ...]:
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


def _known_targets(node: DocumentNode, key: str, position: dict[str, int], report: Report) -> list[str]:
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
