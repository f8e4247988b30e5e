"""Write the nodes that chains and compositions share: loops, calls per item, checks and delays.

`node_types.py` has the types of nodes, `node_compiler.py` compiles them. The writer of a notation subclasses
`NodeWriter` and says whether data passes from node to node.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Final

from ..expr.ast import NULL, Expr, Fn, Lit, Ref
from ..fast_dataclass import dataclass
from ..ir import Graph, Node
from ..ops import Call, Loop, Map, Validate, in_milliseconds
from ..values import Json
from .node_types import WORDS
from .undo import write_undo
from .writing import Fields, FlowWriter, items_expr, iterations_are_independent, milliseconds

PREV: Final = Ref("prev")
WIDTH: Final = 8
"""How many items run at once where a document does not say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """The surroundings of a node: its path, the data that reaches it, and the meaning of references there."""

    path: str = ""
    data: Expr = PREV
    round: str = ""  # "map" or "loop" inside one: what `$iteration` means
    acc: bool = False  # True in the calls of a fold
    parallel: bool = False  # True next to nodes that run at the same time
    dag: bool = False
    apart: frozenset[str] = frozenset()


class NodeWriter(FlowWriter[Around]):
    """Write the nodes of one chain or composition."""

    passes_data: ClassVar[bool]
    """True if a node without arguments or data of its own has the output of the node before it."""

    def sequence(self, last: str, body: Graph, around: Around) -> list[Fields]:
        """Write nodes in order; a node with the id `last` computes another value than the last one's output."""
        raise NotImplementedError

    def own(self, field: str) -> str:
        """Return the word of the notation for a field of some types of nodes."""
        return WORDS[self.kind].get(field, field)

    def delay(self, seconds: Expr, around: Around) -> Json:
        """Return the milliseconds of a delay."""
        if isinstance(seconds, Lit):
            return milliseconds(seconds.value)
        exact = in_milliseconds(seconds)
        return self.value(Fn("*", (seconds, Lit(1000))) if exact is None else exact, f"{around.path}delay", around)

    def write_validate(self, node: Node, around: Around) -> Fields:
        """Write a check of a value as a validate node; null as data counts as absent."""
        op: Any = node.op
        fields: Fields = {"type": "validate", "schema": op.schema}
        if op.value != around.data:
            fields[self.own("input")] = self.nullable(op.value, f"{around.path}value", around)
        return fields

    def policy(self, node: Node, path: str, around: Around, failed: Expr) -> Fields:
        on_error = node.policy.on_error
        if on_error is None or not on_error.reported or not isinstance(node.op, Validate):
            return super().policy(node, path, around, failed)
        if on_error.value != node.op.value:
            return super().policy(node, path, around, failed)
        rest = replace(node, policy=replace(node.policy, on_error=None))
        return {**super().policy(rest, path, around, failed), "required": False}

    def write_loop(self, node: Node, around: Around) -> Fields:
        """Write a map or a loop as calls of a tool per item, or as a loop node."""
        op: Any = node.op
        is_fold = isinstance(op, Loop) and op.items is not None and op.initial is not None and not op.collect
        if is_fold or (isinstance(op, Map) and (op.select or (self.passes_data and self.is_per_item(op)))):
            return self._per_item(op, around)
        return self._loop(node.id, op, around)

    def is_per_item(self, op: Any) -> bool:
        """Return True if all that runs per item is a call of a tool."""
        inner = op.body.nodes[0] if len(op.body.nodes) == 1 else None
        if inner is None or not isinstance(inner.op, Call) or inner != Node(id=inner.id, op=inner.op):
            return False
        return bool(op.body.result == Ref("out", (inner.id,)))

    def _per_item(self, op: Map | Loop, around: Around) -> Fields:
        path = around.path.rstrip("/")
        call = op.body.nodes[0].op if op.body.nodes else None
        if not isinstance(call, Call) or not self.is_per_item(op):
            self.refuse(path, f"to filter or reduce, a {self.kind} calls one tool for each item, without a policy")
            return dict(self.null_node)
        # The list and the arguments are left out if they are the node's own data.
        items = items_expr(op) if isinstance(op, Map) else op.items or NULL
        fields: Fields = {"type": "reduce", "tool": call.tool, **write_undo(call.undo)}
        if items != around.data:
            fields["items"] = self.nullable(items, f"{path}/items", around)
        if call.args != Ref("item"):
            inside = replace(around, round="map", acc=isinstance(op, Loop))
            fields[self.own("args")] = self.nullable(call.args, f"{path}/args", inside)
        if isinstance(op, Loop):
            return {**fields, "initial": self.value(op.initial or NULL, f"{path}/initial", around)}
        if op.limit is None:
            self.refuse(path, f"a {self.kind} needs a limit on concurrent items (concurrency)")
        width: Fields = {} if op.limit in (None, WIDTH) else {"concurrency": op.limit}
        return {**fields, "type": "filter" if op.select else "map", **width}

    def _loop(self, id: str, op: Map | Loop, around: Around) -> Fields:
        path = around.path.rstrip("/")
        fields: Fields = {"type": "loop"}
        first = Ref("item") if self.passes_data and op.items is not None else PREV
        inside = replace(around, dag=False, parallel=False, round="map" if isinstance(op, Map) else "loop", data=first)
        if op.items is not None:
            fields["items"] = self.value(op.items, f"{around.path}items", around)
        # A map runs its iterations concurrently; a loop runs them in order, with conditions.
        if isinstance(op, Map):
            if op.limit is None or (op.limit == 1 and not iterations_are_independent(op.body)):
                self.refuse(
                    path,
                    f"the iterations of a loop in a {self.kind} run one after another, or at most `concurrency` (2 or "
                    "more) at once",
                )
            elif op.limit > 1:
                fields["concurrency"] = op.limit
            if op.most is not None:
                fields["maxIterations"] = op.most
        else:
            if not op.collect:
                message = f"a loop in a {self.kind} returns a list with all iterations, not only the last one"
                self.refuse(path, message)
            if op.items is not None and (op.again is not None or op.until is not None):
                self.refuse(path, f"a loop in a {self.kind} has either items or until and while")
            starts = self.passes_data and op.items is None and "prev" in op.body.roots and around.data != PREV
            if op.initial != (around.data if starts else None):
                message = f"the first iteration of a loop in a {self.kind} begins with the value before the loop"
                self.refuse(path, f"{message}; compute another one in a node before it")
            for key, test in (("while", op.again), ("until", op.until)):
                if test is not None:
                    fields[key] = self.condition(test, f"{around.path}{key}", inside)
            if op.limit is not None:
                fields["maxIterations"] = op.limit
        fields["nodes"] = self.sequence(f"{id}_value", op.body, inside)
        return fields

    def variable(self, ref: Ref, path: str, around: Around) -> Ref:
        """Return a variable, which in a loop cannot be called `iteration`."""
        if ref.path[:1] == ("iteration",) and around.round:
            self.refuse(path, "inside a loop $var.iteration is the iteration number; rename the state field")
        return Ref("var", ref.path)

    def round(self, ref: Ref, path: str, around: Around) -> Ref:
        """Return the number of an iteration."""
        if around.round == "map":
            message = "$iteration belongs to the innermost loop; store the number of the outer loop in a node"
            self.refuse(path, message)
        return Ref("iteration", ref.path)
