"""Flows as composite tools: tool calls one after another, each with a condition, and nothing else.

A value that is made of other values is written where it is read. The calls of a choice are steps with its condition.
"""

from __future__ import annotations

from typing import Any, Final

from ..expr.ast import NULL, Arr, Expr, Fn, Lit, Obj, Ref, rebind, refs, select
from ..frozen import dataclass
from ..ir import Graph, Node
from ..ops import Block, Branch, Call, Compute
from .reshaping import in_order
from .writing import POLICY, Fields, FlowWriter, milliseconds

HELD: Final[dict[type[Any], tuple[str, ...]]] = {
    Node: ("id", "op", "when", "policy", "meta", "after"),
    Call: ("tool", "args"),
    Compute: ("value",),
    Branch: ("arms", "default"),
    Block: ("body",),
    **POLICY,
}
PREV: Final = Ref("prev")


@dataclass(frozen=True, slots=True)
class Around:
    """What surrounds a node: its path, and the condition of the choice that it is in."""

    path: str = ""
    condition: Expr | None = None


class CompositeWriter(FlowWriter[Around]):
    """Writes one flow as a composite."""

    kind, held = "composite", HELD

    def document(self) -> Fields:
        flow, body = self.flow, self.flow.body
        self.steps: list[Fields] = []
        self.positions: dict[str, int] = {}  # of the steps, by the ids of their nodes
        self.values: dict[str, Expr] = {}  # what the nodes that are no steps give
        self.prev: Expr = PREV  # what `prev` of the flow is at this point of the composite
        self.last: Expr = PREV  # another expression for what `$prev` of the composite is at this point
        fields: Fields = {"kind": "composite", "name": flow.name, "mode": "compose"}
        if flow.input_schema is not None:
            fields["inputSchema"] = flow.input_schema
        if flow.output_schema is not None:
            fields["outputSchema"] = flow.output_schema
        if flow.timeout is not None:
            fields["timeout"] = milliseconds(flow.timeout)
        self._region(body, Around())
        result = self._inlined(body.result, "result")
        for name in flow.state:
            if any(node.writes is not None for node in body.nodes) or "state" in body.roots:
                self.refuse(f"state.{name}", "a composite has no state")
        if result not in (PREV, self.last):
            self.refuse("result", "a composite gives what its last step gave, and computes nothing after it")
        return {**fields, "steps": self.steps}

    def _region(self, body: Graph, around: Around) -> None:
        nodes, sure = in_order(body)
        if not sure:
            self.refuse(
                around.path.rstrip("/") or "nodes",
                "a composite's steps run one after another, not as soon as what they use is there",
            )
        for node in nodes:
            self._node(node, around)

    def _node(self, node: Node, around: Around) -> None:
        path, op = f"{around.path}{node.id}", node.op
        self.refuse_unheld(node, path)
        policy = node.policy
        if policy.timeout is not None or policy.retry.attempts > 1 or policy.on_error is not None:
            self.refuse(path, "a composite's step is tried once, and its failure ends the run")
        if isinstance(op, Call):
            self._step(node, op, path, around)
            return
        plain = node.when is None and node.writes is None
        if isinstance(op, Compute) and plain and _is_template(op.value):
            self.values[node.id] = self._fixed(op.value, path)
        elif isinstance(op, Block) and plain:
            self._region(op.body, Around(f"{path}/", around.condition))
            self.values[node.id] = self._inlined(op.body.result, path)
        elif isinstance(op, Branch) and plain and len(op.arms) == 1:
            self._choice(node.id, op, path, around)
        else:
            self.refuse_op(node, path, "its steps are tool calls")
            self.values[node.id] = NULL
        self.prev = self.values[node.id]

    def _step(self, node: Node, op: Call, path: str, around: Around) -> None:
        fields: Fields = {"name": node.id, "tool": op.tool}
        if op.args not in (Lit({}), Obj(())):
            fields["inputMapping"] = self.value(self._inlined(op.args, f"{path}.args"), f"{path}.args", around)
        conditions = [around.condition] if around.condition is not None else []
        if node.when is not None:
            conditions.append(self._inlined(node.when, f"{path}.when"))
        if conditions:
            test = conditions[0] if len(conditions) == 1 else Fn("&&", (conditions[0], conditions[1]))
            fields["condition"] = self.condition(test, f"{path}.when", around)
        if node.meta.description:
            fields["description"] = node.meta.description
        self.positions[node.id] = len(self.steps)
        self.steps.append(fields)
        self.prev = PREV
        self.last = Ref("out", (node.id,)) if node.when is None else PREV

    def _choice(self, id: str, op: Branch, path: str, around: Around) -> None:
        """The calls of both sides, each with the condition of its side."""
        [(test, then)] = op.arms
        asked = self._fixed(test, f"{path}.condition")
        sides: list[tuple[Expr, Graph]] = [(Fn("==", (asked, Lit(True))), then)]
        sides.append((Fn("!=", (asked, Lit(True))), op.default or Graph(nodes=(), ordered=True)))
        if not any(ref.root == "prev" for ref in refs(test)) and _is_boolean(test):
            sides[0] = (asked, then)
        before, last, given, ended = self.prev, self.last, [], True
        for condition, body in sides:
            self.prev, self.last = before, last
            inside = condition if around.condition is None else Fn("&&", (around.condition, condition))
            self._region(body, Around(f"{path}/", inside))
            given.append(self._inlined(body.result, path))
            ended = ended and bool(body.nodes) and given[-1] in (PREV, self.last)
        chosen = Fn("?:", (sides[0][0], given[0], given[1]))
        if PREV in given:
            self.refuse(path, "the value of a step that may be skipped has no name in a composite")
        self.values[id] = chosen
        self.last = chosen if ended else PREV

    # --- values -----------------------------------------------------------------------------------

    def _inlined(self, expr: Expr, path: str) -> Expr:
        """The expression with the values of all that is no step in it."""

        def bind(ref: Ref) -> Expr:
            if ref.root == "prev":
                return _member(self.prev, ref.path)
            if ref.root != "out" or str(ref.path[0]) not in self.values:
                return ref
            if ref.elide and ref.path[1:2] == ("output",):
                self.refuse(path, f"reads the member `output` of {ref.path[0]!r}, which is no step in a composite")
            return _member(self.values[str(ref.path[0])], ref.path[1:])

        return rebind(expr, bind)

    def _fixed(self, expr: Expr, path: str) -> Expr:
        """The same where it is read later, when `$prev` is another step."""

        def bind(ref: Ref) -> Expr:
            if ref.root != "prev":
                return ref
            if self.last == PREV:
                self.refuse(path, "the value of a step that may be skipped has no name in a composite")
                return NULL
            return _member(self.last, ref.path)

        return rebind(self._inlined(expr, path), bind)

    def bind(self, ref: Ref, path: str, around: Around) -> Expr:
        if ref.root == "out":
            position = self.positions.get(str(ref.path[0]))
            # By position, which no name of a step changes; what is lost gives null.
            return self.output(ref, "steps", position) if position is not None else NULL
        if ref.root == "status":
            return self.status(ref, path)
        if ref.root not in ("input", "prev"):
            self.refuse(path, f"a composite's steps know $input, $prev and $steps, and no {ref.root}")
            return NULL
        return ref


def _is_template(value: Expr) -> bool:
    """Whether a value is made of others without a function, so that it can neither fail nor take time."""
    if isinstance(value, Obj):
        return all(_is_template(inner) for _, inner in value.fields)
    if isinstance(value, Arr):
        return all(map(_is_template, value.items))
    return isinstance(value, (Lit, Ref))


def _is_boolean(test: Expr) -> bool:
    return isinstance(test, Fn) and test.name in ("==", "!=", "!")


def _member(holder: Expr, path: tuple[str | int, ...]) -> Expr:
    for i, key in enumerate(path):
        if isinstance(holder, Obj):
            holder = next((value for name, value in holder.fields if name == key), NULL)
        elif isinstance(holder, Lit):
            value = holder.value
            holder = Lit(value.get(key)) if isinstance(value, dict) else _selected(holder, path[i:])
            if not isinstance(holder, Lit):
                return holder
        else:
            return _selected(holder, path[i:])
    return holder


def _selected(holder: Expr, path: tuple[str | int, ...]) -> Expr:
    for key in path:
        holder = select(holder, key)
    return holder
