"""Flows as composite tools: tool calls one after another, each with a condition, and nothing else."""

from __future__ import annotations

from typing import Any, Final

from ..expr.ast import Expr, Lit, Obj, Ref
from ..ir import Node
from ..ops import Call
from .writing import POLICY, Fields, FlowWriter, milliseconds

HELD: Final[dict[type[Any], tuple[str, ...]]] = {
    Node: ("id", "op", "when", "policy", "meta"),
    Call: ("tool", "args"),
    **POLICY,
}


class CompositeWriter(FlowWriter[None]):
    """Writes one flow as a composite."""

    kind, held = "composite", HELD

    def document(self) -> Fields:
        flow, body = self.flow, self.flow.body
        fields: Fields = {"kind": "composite", "name": flow.name, "mode": "compose"}
        if flow.input_schema is not None:
            fields["inputSchema"] = flow.input_schema
        if flow.output_schema is not None:
            fields["outputSchema"] = flow.output_schema
        if flow.timeout is not None:
            fields["timeout"] = milliseconds(flow.timeout)
        for name in flow.state:
            self.refuse(f"state.{name}", "a composite has no state")
        if not body.ordered and len(body.nodes) > 1:
            self.refuse("", "a composite's steps run one after another, not as soon as what they use is there")
        last = body.nodes[-1] if body.nodes else None
        whole = last is not None and last.when is None and body.result == Ref("out", (last.id,))
        if not whole and body.result != Ref("prev"):
            self.refuse("result", "a composite gives what its last step gave, and computes nothing after it")
        return {**fields, "steps": [self.step(node) for node in body.nodes]}

    def step(self, node: Node) -> Fields:
        self.refuse_unheld(node, node.id)
        if node.policy.timeout is not None or node.policy.retry.attempts > 1 or node.policy.on_error is not None:
            self.refuse(node.id, "a composite's step is tried once, and its failure ends the run")
        if not isinstance(node.op, Call):
            self.refuse_op(node, node.id, "its steps are tool calls")
            return {"name": node.id}
        fields: Fields = {"name": node.id, "tool": node.op.tool}
        if node.op.args not in (Lit({}), Obj(())):
            fields["inputMapping"] = self.value(node.op.args, f"{node.id}.args", None)
        if node.when is not None:
            fields["condition"] = self.condition(node.when, f"{node.id}.when", None)
        if node.meta.description:
            fields["description"] = node.meta.description
        return fields

    def bind(self, ref: Ref, path: str, around: None) -> Expr:
        if ref.root == "out":
            # By position, which no name of a step changes.
            position = [node.id for node in self.flow.body.nodes].index(str(ref.path[0]))
            return self.output(ref, "steps", position)
        if ref.root == "status":
            return self.status(ref, path)
        if ref.root not in ("input", "prev"):
            self.refuse(path, f"a composite's steps know $input, $prev and $steps, and no {ref.root}")
        return ref
