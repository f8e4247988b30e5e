"""Compile a composition that was read to a Flow: an ordered region in which data passes as `prev`.

The data of a node is the output of the node before it; the first node gets the input. `inputMapping` replaces
the data, `outputMapping` is the result of the graph node.
"""

from __future__ import annotations

from dataclasses import replace

from ...expr.ast import NULL, Ref
from ...ir import Flow, Graph, Meta, Node
from ...ops import Validate
from ..binding import output_ref
from ..fields import add_problem, join
from ..node_compiler import NodeCompiler, Within
from ..node_fields import Failing, attach, check_fallback, in_order, write_of
from ..node_types import DocumentNode
from .read import CompositionDocument


class CompositionCompiler(NodeCompiler):
    """Compile one composition; `problems` and `warnings` grow as it goes."""

    kind, passes_data = "composition", True

    def __init__(self, document: CompositionDocument) -> None:
        super().__init__(document.fields, document.nodes, document.problems)
        self.document = document

    def flow(self) -> Flow:
        """Return the flow; it is usable only if there are no problems afterwards."""
        fields = self.fields
        body = self.sequence(in_order(self.document.nodes, self.problems), Within(data=Ref("input")))
        if fields.get("result") is not None:
            body = replace(body, result=self.value(fields["result"], "result", Within(data=body.result or NULL)))
        schema = fields.get("outputSchema")
        # A hidden node checks the output, so that a wrong one fails the run.
        if schema is not None:
            labels = {"value": "", "hidden": "outputSchema"}
            last = Node(
                id=self.unique_id("output"),
                op=Validate(value=body.result, schema=schema, place="output"),
                meta=Meta(source="outputSchema", hidden=True, labels=labels),
            )
            body = replace(body, nodes=(*body.nodes, last), result=Ref("out", (last.id,)))
        return Flow(
            name=str(fields["name"] or fields["id"]),
            body=body,
            state=self.channels(fields["variables"], self.written),
            input_schema=fields.get("inputSchema"),
            output_schema=schema,
            timeout=fields["timeout"] / 1000 if fields.get("timeout") else None,
            undo=fields.get("undo"),
            budget=fields.get("budget"),
        )

    def sequence(self, nodes: list[DocumentNode], within: Within) -> Graph:
        """Compile nodes to an ordered region."""

        # Its value is the last output, or the data if there are no nodes.
        compiled, data = self.in_row(nodes, replace(within, parallel=False))
        if compiled and compiled[-1].when is None:
            data = output_ref(compiled[-1].id)
        return Graph(nodes=tuple(compiled), result=data, ordered=True)

    def concurrent(self, nodes: list[DocumentNode], within: Within) -> list[Node]:
        """Compile nodes that run concurrently, each as soon as its dependencies have ended."""
        return [self.node(node, within) for node in nodes]

    def failing_around(self, node: DocumentNode) -> Failing:
        """Return the handling of failures of the document; nodes inside the node have it themselves."""
        return Failing() if node.has_nodes else self.failing

    def node(self, node: DocumentNode, within: Within) -> Node:
        """Compile one node with its mappings, condition, policy and output variable."""
        fields, common, op = node.fields, self.common(node), self.op(node, within)
        check_fallback(fields, "composition", node.path, self.problems)
        result = node.get("outputMapping")
        if result is not None:
            result = self.value(result, node.at("outputMapping"), within)
        elif node.type == "delay":
            result = within.data  # a delay passes its data on
        if "retryDelay" in fields and common.failing.retry.attempts < 2:
            add_problem(self.warnings, join(node.path, "retryDelay"), "is not used without maxRetries")
        if "fallback" in fields and common.failing.policy not in ("fallback", "continue"):
            add_problem(self.warnings, join(node.path, "fallback"), "is not used without onError: fallback or continue")
        variable = node.get("outputVar")
        if variable:
            self.written.setdefault(variable, node.id)
        compiled = Node(
            id=common.inner_id(node.id),
            op=op,
            result=result,
            writes=write_of(variable, node.id),
            policy=self.policy_of(node, op, common, within, within.data),
            meta=self.meta(node, description=str(node.get("description") or node.get("name") or "")),
        )
        compiled = attach(compiled, common, self, within, int(self.fields["concurrency"]))
        # A sequence is in the order of its dependencies already.
        after = frozenset(node.get("dependsOn") or ()) if within.parallel else frozenset[str]()
        return replace(compiled, after=after) if after else compiled
