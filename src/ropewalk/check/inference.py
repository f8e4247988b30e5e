"""Infer the JSON Schema of a flow's value from its graph and the schemas of its tools.

The check may ignore what is merely possible, such as a null or a missing member. Here every value that a run can
produce must fit, because clients validate results with the schema. So this pass tracks where a value may be null,
and it trusts a declared schema only as far as the run itself enforces it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

from ..expr.ast import Each as EachExpr
from ..expr.ast import Expr, Fn, Lit, Obj, Path, Ref
from ..ir import Flow, Graph, Node
from ..ops import Call, Loop
from ..state import REDUCERS
from ..values import Json
from .export import Exporter
from .references import ReadScope
from .report import ExprPath, Report
from .structure import MAX_NESTING, MAX_NODES, Layout
from .types import ARRAY, NULL, OBJECT, Either, Missing, Sub, Type, element_type, kinds_of, resolve_schema, union_type
from .walk import Tools, Walk

Source: TypeAlias = Literal["result", "nodes", "state"]
"""The value of a flow: the result of its body, the outputs of its nodes by id, or its final state."""
_NEVER_NULL: Final = frozenset(("&&", "||", "!", "==", "!=", "<", "<=", ">", ">=", "in", "${}", "merge", "deep_merge"))


def infer(flow: Flow, tools: Tools, source: Source = "result") -> dict[str, Json] | None:
    """Return the JSON Schema of a flow's value."""
    report = Report()
    try:
        layout = Layout(flow, report, MAX_NODES, MAX_NESTING)
        if not layout.is_sound:
            return None
        walk = _Inference(flow, layout, report, tools, source)
        walk.run()
        known, optional = walk.value()
        return Exporter().schema(known, optional) or None
    except RecursionError:
        return None


class _NullableScope(ReadScope):
    """Infer types including every possible null."""

    def infer_type(self, expr: Expr, at: ExprPath = None) -> Type:
        known = super().infer_type(expr, at)
        if isinstance(expr, Fn):
            return self._of_function(expr, known)
        if isinstance(expr, EachExpr) and known is not None:
            empty = ARRAY if kinds_of(known) & NULL else NULL  # iterating over null may give an empty list
            return union_type(known, NULL, empty)
        return known

    def _of_function(self, expr: Fn, known: Type) -> Type:
        if known is None or expr.name in _NEVER_NULL or expr.name in ("?:", "coalesce"):
            return known
        if expr.name == "[]":
            return None
        return union_type(known, NULL)

    def channel(self, name: str) -> Type:
        known = super().channel(name)
        if known is self.channels[name]:
            return channel_type(self.flow, name)
        # A null leaves a `set_once` field as it was.
        if self.flow.state[name].reduce == "set_once" and kinds_of(known) & NULL:
            return union_type(known, *self.first_types(name))
        return known

    def first_types(self, name: str) -> list[Type]:
        """Return the types of the values that a channel may begin with: a member of the input, or its own value."""
        channel, seed = self.flow.state[name], list[Type]()
        if name in self.flow.seeds and type(self.input) is Sub:
            seed = [self.input.property(name)[1]]
        return [*seed, Lit(channel.initial)] if channel.present and not self.is_filled(name) else seed

    def is_filled(self, name: str) -> bool:
        """Return True if the input of every run has the value that a channel begins with."""
        return name in self.flow.seeds and type(self.input) is Sub and name in self.input.required()

    def _member_type(self, known: Type, path: Path, ref: Ref, at: ExprPath) -> Type:
        """Return the type at the end of a path; a leading `output` may be no member but the value itself."""
        if self.tests_presence(ref):
            return None  # the flow tests for a member that no schema declares
        if not ref.elide or path[0] != "output":
            return self._follow_path(known, path, "", at, None)
        inner = self._follow_path(known, path[1:], "", at, None)
        if type(element_type(known, "output")) is Missing and member_type(known, "output") == NULL:
            return inner
        return union_type(inner, self._follow_path(known, path, "", at, None))

    def _follow_path(
        self, known: Type, path: Path, name: str, at: ExprPath, column: int | None, tested: int = 0
    ) -> Type:
        if tested:
            return None  # the flow tests for a member that no schema declares
        for key in path:
            if known is None:
                return None
            known = member_type(known, key)
        return known


class _Inference(Walk):
    """Walk the flow to infer types; never report problems."""

    scope: _NullableScope
    scope_type = _NullableScope
    tracks_null = True

    def __init__(self, flow: Flow, layout: Layout, report: Report, tools: Tools, source: Source) -> None:
        super().__init__(flow, layout, report, tools)
        self.source = source
        self.result: Type = None
        self.outputs: dict[str, Type] = {}
        self.result_region = _result_region(flow.body) if source == "nodes" else flow.body

    def region(self, graph: Graph, field: str, then: Callable[[], None] | None = None) -> Type:
        def collect_outputs() -> None:
            if then is not None:
                then()
            if graph is self.result_region:
                self.outputs = {
                    node.id: self.scope.output_types.get(node.id) for node in graph.nodes if not node.meta.hidden
                }

        result = super().region(graph, field, collect_outputs)
        if graph is self.flow.body:
            self.result = result
        return result

    def value(self) -> tuple[Type, set[str]]:
        """Return the type of the value and the keys that may be missing from it."""
        if self.source == "state":
            return self._state()
        conditional = {node.id for node in self.result_region.nodes if node.gate is not None or node.when is not None}
        if self.source == "nodes":
            return self.outputs, conditional
        body = self.flow.body.result
        if not isinstance(body, Obj):
            return self.result, set()
        return self.result, {
            key for key, part in body.fields if isinstance(part, Ref) and _of_node(part) in conditional
        }

    def _state(self) -> tuple[Type, set[str]]:
        updates, types, optional = self.scope.updates, dict[str, Type](), set[str]()
        for name, channel in self.flow.state.items():
            is_certain = not updates.has_unknown_writes and updates.certain(name)
            kinds = channel_type(self.flow, name)
            if not updates.has_unknown_writes and channel.reduce in ("last_wins", "set_once"):
                written = updates.types(name)
                is_kept = not is_certain or (channel.reduce == "set_once" and kinds_of(union_type(*written)) & NULL)
                kinds = union_type(*(self.scope.first_types(name) if is_kept else ()), *written)
            types[name] = kinds
            if not (channel.present or is_certain or self.scope.is_filled(name)):
                optional.add(name)
        return types, optional

    # --- ops that infer another type here than in the check ---------------------------------------

    def _call(self, op: Call) -> Type:
        # With `also`, an inner experience begins with the state of its caller, of which its own types say nothing.
        known = super()._call(op)
        return None if op.content or op.also is not None else known

    def _loop(self, op: Loop) -> Type:
        known = super()._loop(op)
        if op.collect or (op.items is None and op.again is None):
            return known
        return union_type(known, NULL) if op.initial is None else known

    def _apply_policy(self, node: Node, value_type: Type) -> Type:
        on_error, wrapped_type = node.policy.on_error, super()._apply_policy(node, value_type)
        may_be_null = on_error is not None and isinstance(on_error.value, Lit) and on_error.value.value is None
        return union_type(wrapped_type, NULL) if may_be_null else wrapped_type


def member_type(known: Type, key: str | int) -> Type:
    """Return the type of a member reference, with null where the member may be missing."""
    kind = type(known)
    if known is None or known == NULL:
        return known
    if kind is Either:
        return union_type(*(member_type(part, key) for part in known.of))
    if kind is Sub:
        return _schema_member_type(known, key)
    inner = element_type(known, key)
    if type(inner) is Missing:
        return NULL
    if kind is dict:
        return inner
    return None if inner is None else union_type(inner, NULL)


def _schema_member_type(known: Sub, key: str | int) -> Type:
    node = resolve_schema(known.root, known.node)
    if type(node) is not dict or "allOf" in node or ("$ref" in node and len(node) > 1):
        return None
    for word in ("anyOf", "oneOf"):
        branches = node.get(word)
        if type(branches) is list and branches:
            return union_type(*(member_type(Sub(known.root, branch), key) for branch in branches))
    kinds = known.kinds()
    if not kinds & (OBJECT if type(key) is str else ARRAY):
        return NULL
    if type(key) is int:
        item = known.items(key)[1]
        return None if item is None else union_type(item, NULL)
    is_declared, inner = known.property(str(key))
    if not is_declared:
        return NULL if known.is_closed_to(str(key)) else None  # an open schema allows any value there
    is_certain = kinds == OBJECT and key in known.required()
    return inner if inner is None or is_certain else union_type(inner, NULL)


def channel_type(flow: Flow, name: str) -> Type:
    """Return the kinds that a channel may hold."""

    # A write is checked against the `type` of its schema only.
    channel = flow.state[name]
    reducer = REDUCERS.get(channel.reduce)
    accepted = reducer.takes if reducer is not None else None
    if accepted is not None:
        return int(Sub(None, {"type": [accepted, "null"]}).kinds())
    types = channel.schema.get("type") if type(channel.schema) is dict else None
    return None if types is None else int(Sub(None, {"type": types}).kinds()) | NULL


def _result_region(body: Graph) -> Graph:
    """Return the region whose nodes are the results: the flow's body, or the body of the hidden loop around it."""
    node: Any = body.nodes[0] if len(body.nodes) == 1 else None
    return node.op.body if node is not None and node.meta.hidden and isinstance(node.op, Loop) else body


def _of_node(ref: Ref) -> str | None:
    return str(ref.path[0]) if ref.root == "out" and len(ref.path) == 1 else None
