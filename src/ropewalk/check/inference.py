"""What a flow gives, as a JSON Schema: inferred from its graph and the schemas of its tools.

The check may leave out what is merely possible: a null, a missing member. Here every value that a run can give must
fit, since clients hold results to the schema. So this pass over the flow says where a value may be null, and takes a
declared schema for no more than is checked when the flow runs.
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
from .reading import Reading
from .report import At, Report
from .schemas import ARRAY, NULL, OBJECT, Sub, resolve
from .structure import MAX_NESTING, MAX_NODES, Layout
from .types import Either, Nothing, Type, either, element, kinds_of
from .walk import Tools, Walk

Source: TypeAlias = Literal["result", "nodes", "state"]
"""Where the value of a flow is: the result of its body, the outputs of its nodes by id, or its final state."""
_NEVER_NULL: Final = frozenset(("&&", "||", "!", "==", "!=", "<", "<=", ">", ">=", "in", "${}"))


def infer(flow: Flow, tools: Tools, source: Source = "result") -> dict[str, Json] | None:
    """Return the JSON Schema of the value of a flow.

    Args:
        flow: A flow without problems.
        tools: Gives the schemas of a tool by its id, or None for a tool that it does not know.
        source: Where the value is.

    Returns:
        A schema that every value fits which a run can give; None where nothing is known.
    """
    report = Report()
    try:
        layout = Layout(flow, report, MAX_NODES, MAX_NESTING)
        if not layout.sound:
            return None
        walk = _Inference(flow, layout, report, tools, source)
        walk.run()
        known, optional = walk.value()
        return Exporter().schema(known, optional) or None
    except RecursionError:
        return None


class _Reading(Reading):
    """Reads types with the nulls that are possible."""

    def look(self, expr: Expr, at: At = None) -> Type:
        known = super().look(expr, at)
        if isinstance(expr, Fn):
            return self._of_function(expr, known)
        if isinstance(expr, EachExpr) and known is not None:
            empty = ARRAY if kinds_of(known) & NULL else NULL  # nothing to go over may give an empty list
            return either(known, NULL, empty)
        return known

    def _of_function(self, expr: Fn, known: Type) -> Type:
        if known is None or expr.name in _NEVER_NULL or expr.name in ("?:", "coalesce"):
            return known
        if expr.name == "[]":
            return None
        return either(known, NULL)

    def channel(self, name: str) -> Type:
        known = super().channel(name)
        return declared(self.flow, name) if known is self.channels[name] else known

    def _descend(self, known: Type, path: Path, ref: Ref, at: At) -> Type:
        """Return the type at the end of a path; a leading `output` may be no member but the value itself."""
        if self.is_asked(ref):
            return None  # the flow expects what no schema declares
        if not ref.elide or path[0] != "output":
            return self._walk(known, path, "", at, None)
        inner = self._walk(known, path[1:], "", at, None)
        if type(element(known, "output")) is Nothing:
            return inner
        return either(inner, self._walk(known, path, "", at, None))

    def _walk(self, known: Type, path: Path, name: str, at: At, column: int | None) -> Type:
        for key in path:
            if known is None:
                return None
            known = member(known, key)
        return known


class _Inference(Walk):
    """The pass that infers; it never reports."""

    reading = _Reading
    nulls = True

    def __init__(self, flow: Flow, layout: Layout, report: Report, tools: Tools, source: Source) -> None:
        super().__init__(flow, layout, report, tools)
        self.source = source
        self.result: Type = None
        self.outputs: dict[str, Type] = {}
        self.main = _main(flow.body) if source == "nodes" else flow.body

    def region(self, graph: Graph, field: str, then: Callable[[], None] | None = None) -> Type:
        def ended() -> None:
            if then is not None:
                then()
            if graph is self.main:
                self.outputs = {node.id: self.read.done.get(node.id) for node in graph.nodes if not node.meta.hidden}

        found = super().region(graph, field, ended)
        if graph is self.flow.body:
            self.result = found
        return found

    def value(self) -> tuple[Type, set[str]]:
        """Return the type of the value, and which of its keys are not always there."""
        if self.source == "state":
            return self._state()
        soft = {node.id for node in self.main.nodes if node.gate is not None or node.when is not None}
        if self.source == "nodes":
            return self.outputs, soft
        body = self.flow.body.result
        if not isinstance(body, Obj):
            return self.result, set()
        return self.result, {key for key, part in body.fields if isinstance(part, Ref) and _of_node(part) in soft}

    def _state(self) -> tuple[Type, set[str]]:
        updates, found, optional = self.read.updates, dict[str, Type](), set[str]()
        for name, channel in self.flow.state.items():
            certain = not updates.open and updates.certain(name)
            known = declared(self.flow, name)
            if not updates.open and channel.reduce in ("last_wins", "set_once"):
                first = [] if certain else [Lit(channel.initial) if channel.present else NULL]
                known = either(*first, *updates.types(name))
            found[name] = known
            if not channel.present and not certain:
                optional.add(name)
        return found, optional

    # --- ops whose value the check says less or more of -------------------------------------------

    def _call(self, op: Call) -> Type:
        known = super()._call(op)
        return None if op.content else known

    def _loop(self, op: Loop) -> Type:
        known = super()._loop(op)
        if op.collect or (op.items is None and op.again is None):
            return known
        return either(known, NULL) if op.initial is None else known

    def _policy(self, node: Node, got: Type) -> Type:
        on_error, known = node.policy.on_error, super()._policy(node, got)
        null = on_error is not None and isinstance(on_error.value, Lit) and on_error.value.value is None
        return either(known, NULL) if null else known


def member(known: Type, key: str | int) -> Type:
    """Return the type of what a reference to a member gives: null where the member may be missing."""
    kind = type(known)
    if known is None or known == NULL:
        return known
    if kind is Either:
        return either(*(member(part, key) for part in known.of))
    if kind is Sub:
        return _member_of_schema(known, key)
    found = element(known, key)
    if type(found) is Nothing:
        return NULL
    if kind is dict:
        return found
    return None if found is None else either(found, NULL)


def _member_of_schema(known: Sub, key: str | int) -> Type:
    node = resolve(known.root, known.node)
    if type(node) is not dict or "allOf" in node or ("$ref" in node and len(node) > 1):
        return None
    for word in ("anyOf", "oneOf"):
        branches = node.get(word)
        if type(branches) is list and branches:
            return either(*(member(Sub(known.root, branch), key) for branch in branches))
    kinds = known.kinds()
    if not kinds & (OBJECT if type(key) is str else ARRAY):
        return NULL
    if type(key) is int:
        item = known.items(key)[1]
        return None if item is None else either(item, NULL)
    there, inner = known.property(str(key))
    if not there:
        return NULL
    certain = kinds == OBJECT and key in known.required()
    return inner if inner is None or certain else either(inner, NULL)


def declared(flow: Flow, name: str) -> Type:
    """Return the kinds that a channel may hold: writes are held to the `type` of its schema alone."""
    channel = flow.state[name]
    reducer = REDUCERS.get(channel.reduce)
    takes = reducer.takes if reducer is not None else None
    if takes is not None:
        return int(Sub(None, {"type": [takes, "null"]}).kinds())
    named = channel.schema.get("type") if type(channel.schema) is dict else None
    return None if named is None else int(Sub(None, {"type": named}).kinds()) | NULL


def _main(body: Graph) -> Graph:
    """Return the region whose nodes are the results: the body of the loop where a hidden one is around all."""
    node: Any = body.nodes[0] if len(body.nodes) == 1 else None
    return node.op.body if node is not None and node.meta.hidden and isinstance(node.op, Loop) else body


def _of_node(ref: Ref) -> str | None:
    return str(ref.path[0]) if ref.root == "out" and len(ref.path) == 1 else None
