"""Compile the nodes of chains and compositions: what each type of node does.

`node_types.py` names for each type the method here that compiles it. The compiler of a notation subclasses
`NodeCompiler`. It adds what all its nodes have in common, and says how nodes follow each other (`sequence`,
`concurrent`) and whether data passes from node to node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from ..duration import EXAMPLES
from ..errors import Problem
from ..expr.ast import NULL, Arr, Expr, Fn, Lit, Obj, Ref
from ..fast_dataclass import dataclass
from ..ir import Graph, Meta, Node, OnError, Op, Policy
from ..ops import Block, Branch, Call, Compute, Loop, Map, Sleep, Undo, Validate
from ..values import Json
from .binding import STATE, Binder, output_ref
from .fields import add_problem, join, type_name
from .node_fields import CommonFields, Failing, compile_policy, compile_wait, read_common, read_failing
from .node_types import NODE_TYPES, DocumentNode, node_labels
from .undo import compile_undo

ROOTS: Final = frozenset(
    ("input", "prev", "steps", "output", "item", "index", "iteration", "acc", "error", "secret", *STATE)
)
DATA: Final = Ref("data")
"""The node's data, in an expression that is not bound yet; no document can write this reference."""
PREV: Final = Ref("prev")
MERGES: Final = {"object": "merge", "deep": "deep_merge", "concat": "concat", "zip": "zip"}
MAX_ITERATIONS: Final = 10
"""The iterations of a loop that names neither their number nor its items."""
ITERATION: Final = "in a loop $var.iteration is the iteration number, not this variable; rename the variable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """The surroundings of a node: its data, and the meaning of references there."""

    data: Expr = PREV
    round: str | None = None  # what `$iteration` reads
    acc: bool = False  # True in the calls of a `reduce` node
    parallel: bool = False  # True next to nodes that run at the same time
    apart: frozenset[str] = frozenset()  # ids of nodes that run at the same time and must not be read
    siblings: Mapping[str, int] | None = None  # the nodes of the sequence by id; None in a composition
    mode: str = "sequential"
    ended: bool = False  # True in `until` and `while`, which see what earlier iterations have set


class NodeCompiler(Binder[Within]):
    """Compile the nodes of one document; `problems` and `warnings` grow as it goes."""

    roots = ROOTS
    passes_data: ClassVar[bool]
    """True if a node without arguments or data of its own has the output of the node before it."""

    def __init__(self, fields: Mapping[str, Json], nodes: list[DocumentNode], problems: list[Problem]) -> None:
        super().__init__(problems, [node.id for node in nodes], fields["variables"])
        self.fields, self.strict = fields, bool(fields.get("strict"))
        schema: Any = fields.get("inputSchema")
        properties = schema.get("properties") if isinstance(schema, dict) else None
        self.inputs = properties if isinstance(properties, dict) else ()
        self.failing = read_failing(fields, "on_error", self.kind, Failing(), fields)
        self.names = dict.fromkeys(node.id for top in nodes for node in top.with_inner())
        self.ids = set(self.names)
        self.defaults: Mapping[str, Json] = {}  # of `maxRetries` and `retryDelay` of a node
        self.written: dict[str, str] = {}  # by variable: the first node that sets it

    def node(self, node: DocumentNode, within: Within) -> Node:
        """Compile one node with its condition, policy and output variable."""
        raise NotImplementedError

    def sequence(self, nodes: list[DocumentNode], within: Within) -> Graph:
        """Compile nodes to an ordered region with the last one's output as its value."""
        raise NotImplementedError

    def concurrent(self, nodes: list[DocumentNode], within: Within) -> list[Node]:
        """Compile nodes that run at the same time."""
        raise NotImplementedError

    def in_row(self, nodes: list[DocumentNode], within: Within) -> tuple[list[Node], Expr]:
        """Compile nodes that run one after another; return them, and the data after the last one."""
        compiled: list[Node] = []
        data, certain = within.data, False
        for node in nodes:
            compiled.append(self.node(node, replace(within, data=data)))
            certain = certain or compiled[-1].when is None
            data = data_after(compiled[-1], data, certain)
        return compiled, data

    def unique_id(self, id: str) -> str:
        """Return an id that no node has."""
        while id in self.ids:
            id += "_"
        self.ids.add(id)
        return id

    # --- what every node has ------------------------------------------------------------------

    def common(self, node: DocumentNode) -> CommonFields:
        """Return the fields that the node shares with those of other notations."""
        fields, known = node.fields, NODE_TYPES.get(node.type)
        # Some types use `condition` for their own choice; for the others it decides if they run.
        if known is not None and known.owns("condition"):
            fields = {key: value for key, value in fields.items() if key != "condition"}
        return read_common(fields, self.kind, node.path, self.failing_around(node), self.defaults)

    def failing_around(self, node: DocumentNode) -> Failing:
        """Return the handling of failures that a node has without one of its own."""
        raise NotImplementedError

    def op(self, node: DocumentNode, within: Within) -> Op:
        """Compile what a node does; an unknown type was reported when the node was read."""
        known = NODE_TYPES.get(node.type)
        return Compute(value=NULL) if known is None else known.compile(self, node, within)

    def policy_of(self, node: DocumentNode, op: Op, common: CommonFields, within: Within, failed: Expr) -> Policy:
        """Compile the timeout and the handling of failures of a node; `failed` is the value of one that failed."""
        known = NODE_TYPES.get(node.type)
        has_timeout = known is None or not known.has_own_timeout
        policy = compile_policy(common, self, within, failed, has_timeout=has_timeout)
        if isinstance(op, Validate) and node.get("required") is False:
            return replace(policy, on_error=OnError(value=op.value, reported=True))
        return policy

    def meta(self, node: DocumentNode, **more: Any) -> Meta:
        """Return the place and the labels of a node, for messages and drawings."""
        return Meta(source=node.path, labels=node_labels(node), phase=node.get("phase"), **more)

    def data(self, node: DocumentNode, within: Within, key: str = "input") -> Expr:
        """Return the data of a node: its own, or that which reaches it."""
        return within.data if node.get(key) is None else self.value(node.get(key), node.at(key), within)

    # --- what each type does ------------------------------------------------------------------

    def tool(self, node: DocumentNode, within: Within) -> Op:
        """Compile a tool node to a call."""
        return self._call(node, within, within.data if self.passes_data else Lit({}))

    def _call(self, node: DocumentNode, within: Within, default: Expr) -> Call:
        """Return a call; report arguments that are certainly not an object."""
        args, path = default, node.at("args")
        if node.get("args") is not None:
            args = self.value(node.get("args"), path, within)
            is_value = isinstance(args, Arr) or (isinstance(args, Lit) and type(args.value) is not dict)
            if is_value and not self._is_reported(path):
                found = type_name(args.value if isinstance(args, Lit) else [])
                add_problem(self.problems, path, f"must be an object of arguments or a reference to one, not {found}")
                args = Obj(())
        undo: Undo | None = compile_undo(node.get("undo"), node.at("undo"), self.problems)
        return Call(tool=str(node.get("tool", "")), args=args, undo=undo)

    def _is_reported(self, path: str) -> bool:
        return any(problem.path == path for problem in self.problems)

    def condition(self, node: DocumentNode, within: Within) -> Op:
        """Compile a condition node to a branch; without nodes it gives true or false."""
        inside = replace(within, data=self.data(node, within))
        test = self.expression(node.get("condition"), node.at("condition"), within)
        then, otherwise = (
            self._region(node.bodies[key], inside) if key in node.bodies else Graph(nodes=(), result=Lit(value))
            for key, value in (("then", True), ("otherwise", False))
        )
        return Branch(arms=((test, then),), default=otherwise)

    def conditional(self, node: DocumentNode, within: Within) -> Op:
        """Compile a conditional node: a branch of `then` and `otherwise`."""
        inside = replace(within, data=self.data(node, within))
        test = self.expression(node.get("condition"), node.at("condition"), within)
        return Branch(
            arms=((test, self._chosen(node, "then", inside)),), default=self._chosen(node, "otherwise", inside)
        )

    def branch(self, node: DocumentNode, within: Within) -> Op:
        """Compile a branch node: the first branch with a true condition runs."""
        inside = replace(within, data=self.data(node, within))
        arms = tuple(
            (self.expression(arm.condition, join(arm.path, "condition"), within), self._region(arm.nodes, inside))
            for arm in node.arms
        )
        return Branch(arms=arms, default=self._chosen(node, "otherwise", inside))

    def _region(self, nodes: list[DocumentNode], within: Within) -> Graph:
        """Compile the nodes of a choice; without nodes the data passes on."""
        if not nodes:
            return Graph(nodes=(), result=within.data, ordered=True)
        return self.sequence(nodes, replace(within, mode="sequential"))

    def _chosen(self, node: DocumentNode, key: str, within: Within) -> Graph:
        """Compile `then` or `otherwise`: nodes, a value, or nothing, which passes the data on."""
        if key in node.bodies:
            return self._region(node.bodies[key], within)
        value = self.value(node.get(key), node.at(key), within) if key in node.fields else within.data
        return Graph(nodes=(), result=value, ordered=True)

    def loop(self, node: DocumentNode, within: Within) -> Op:
        """Compile a loop node: to a map if its iterations run concurrently, else to a loop."""
        items, nodes, limit = node.get("items"), node.bodies.get("nodes", []), node.get("maxIterations")
        width = int(node.get("concurrency", 1))
        # Each iteration begins with its item, or with the value of the one before.
        round, first = ("round", PREV) if items is None else ("index", Ref("item"))
        inside = replace(within, mode="sequential", round=round, data=first if self.passes_data else PREV)
        # A loop over items that survives failures survives them item by item, so it keeps the other results.
        outer, own = self.failing, self.common(node).failing.policy
        if items is not None and own in ("continue", "skip"):
            self.failing = Failing(policy=own)
        body = self.sequence(nodes, inside) if nodes else Graph(nodes=(), ordered=True)
        self.failing = outer
        items_expr = None if items is None else self.value(items, node.at("items"), within)
        if width > 1 and items_expr is not None:
            return Map(items=items_expr, body=body, limit=width, most=limit)
        # The conditions of a loop see its body's nodes, as `until` of a whole chain does.
        ending = replace(inside, siblings={n.id: i for i, n in enumerate(nodes)}, ended=True)
        while_condition, until = (
            self.expression(node.get(key), node.at(key), ending) if node.get(key) is not None else None
            for key in ("while", "until")
        )
        if items_expr is None and limit is None:
            limit = int(self.fields.get("maxIterations", MAX_ITERATIONS))
        reads_data = self.passes_data and items is None and "prev" in body.roots and within.data != PREV
        initial = within.data if reads_data else None
        return Loop(body=body, limit=limit, items=items_expr, again=while_condition, until=until, initial=initial)

    def parallel(self, node: DocumentNode, within: Within) -> Op:
        """Compile a parallel node to a block whose nodes run concurrently."""
        inside = replace(within, data=self.data(node, within), parallel=True)
        nodes = self.concurrent(node.bodies.get("nodes", []), inside)
        result = Obj(tuple((inner.id, output_ref(inner.id)) for inner in nodes))
        limit = int(node.get("concurrency", self.fields["concurrency"]))
        return Block(body=Graph(nodes=tuple(nodes), result=result, limit=limit))

    def per_item(self, node: DocumentNode, within: Within) -> Op:
        """Compile `map`, `filter` and `reduce`: to calls of a tool, or to an expression."""
        calls = "tool" in node.fields
        data = within.data if calls else self.data(node, within, "args")
        items = self.value(node.get("items"), node.at("items"), within) if node.get("items") is not None else data
        if calls:
            return self._calls(node, items, within)
        if "expression" not in node.fields:
            return Compute(value=NULL)  # reported when the document was read
        config: dict[str, Json] = {key: node.fields[key] for key in ("expression", "initial") if key in node.fields}
        return Compute(value=self._configured(node.type, config, node.path, replace(within, data=items)))

    def _calls(self, node: DocumentNode, items: Expr, within: Within) -> Op:
        """Compile one call per item; its arguments are the item, for `reduce` with the previous result."""
        folds = node.type == "reduce"
        args: Expr = Obj((("acc", PREV), ("item", Ref("item")))) if folds else Ref("item")
        call_id = self.unique_id(f"{node.id}.call")
        op = self._call(node, replace(within, acc=folds), args)
        call = Node(id=call_id, op=op, meta=self.meta(node, name=node.id))
        body = Graph(nodes=(call,), result=Ref("out", (call.id,)), ordered=True)
        if not folds:
            limit = int(node.get("concurrency", self.fields["concurrency"]))
            return Map(items=items, body=body, limit=limit, select=node.type == "filter")
        initial = self.value(node.get("initial"), node.at("initial"), within)
        return Loop(items=items, body=body, collect=False, initial=initial)

    def transform(self, node: DocumentNode, within: Within) -> Op:
        """Compile a transform node: a `transform`, a `transformType` with its `config`, or the data itself."""
        spec, type_, path = node.get("transform"), node.get("transformType"), node.at("transform")
        inside = replace(within, data=self.data(node, within))
        if type_:
            return Compute(value=self._configured(type_, node.get("config") or {}, node.at("config"), inside))
        if spec is None:
            return Compute(value=inside.data)
        if self._is_reported(path):
            return Compute(value=NULL)
        from ..expr import transform_expr

        expr = transform_expr(spec, DATA, roots=ROOTS - {"acc"}, path=path, problems=self.problems)
        return Compute(value=self.bind_all(expr, path, inside))

    def _configured(self, type_: str, config: Mapping[str, Json], path: str, within: Within) -> Expr:
        """Compile a transform of the data."""
        from ..expr import configure_transform

        expr = configure_transform(type_, config, DATA, roots=ROOTS - {"acc"}, path=path, problems=self.problems)
        return self.bind_all(expr, path, within)

    def validate(self, node: DocumentNode, within: Within) -> Op:
        """Compile a validate node, which passes its data on if it fits the schema."""
        return Validate(value=self.data(node, within), schema=node.get("schema", True))

    def merge(self, node: DocumentNode, within: Within) -> Op:
        """Compile a merge node to the function of its strategy."""
        sources = node.get("sources") or [None]
        values = tuple(self.value(source, f"{node.at('sources')}[{i}]", within) for i, source in enumerate(sources))
        return Compute(value=Fn(MERGES.get(node.get("strategy", "object"), "merge"), values))

    def delay(self, node: DocumentNode, within: Within) -> Op:
        """Compile a delay node; the document has milliseconds, the graph seconds."""
        delay, path = node.get("delay", 0), node.at("delay")
        if isinstance(delay, str):
            milliseconds = self.value(delay, path, within)
            if not isinstance(milliseconds, Lit):
                return Sleep(seconds=Fn("/", (milliseconds, Lit(1000))))
        elif not isinstance(delay, bool) and isinstance(delay, (int, float)) and 0 <= delay < float("inf"):
            return Sleep(seconds=Lit(delay / 1000))
        message = f"must be milliseconds of 0 or more, or a reference to them, not {delay!r}"
        add_problem(self.problems, path, f"{message}; write {EXAMPLES}" if isinstance(delay, str) else message)
        return Sleep(seconds=Lit(0))

    def wait(self, node: DocumentNode, within: Within) -> Op:
        """Compile a wait node; the name of its event or its approval text may contain references."""
        return compile_wait(node.fields, node.path, self, within)

    # --- references ---------------------------------------------------------------------------

    def bind(self, ref: Ref, path: str, within: Within) -> Expr:
        """Return the expression in the graph that a reference of the document stands for."""
        root = ref.root
        if ref is DATA:
            return within.data
        if root in ("steps", "output"):
            return self.output(ref, path, within.apart)
        if root in STATE:
            if ref.path[:1] == ("iteration",) and within.round is not None:
                if "iteration" in self.variables:
                    add_problem(self.warnings, path, ITERATION)
                return Ref(within.round, ref.path[1:], column=ref.column, original=ref)
            return self.variable_in(ref, path, within)
        if root == "iteration":
            if within.round is None:
                return self.report_reference(ref, path, "$iteration exists only inside a loop")
            return Ref(within.round, ref.path, column=ref.column, original=ref)
        if root == "acc":
            if not within.acc:
                return self.report_reference(ref, path, "$acc exists only in a reduce node")
            return Ref("prev", ref.path, column=ref.column, original=ref)
        if root == "prev" and within.acc:
            return self.report_reference(
                ref, path, "$prev is not available here; $acc is the result of the previous call"
            )
        return ref if root in ROOTS else self.unknown(ref, path)

    def variable_in(self, ref: Ref, path: str, within: Within) -> Expr:
        """Bind a reference to a variable."""
        return self.variable(ref, path)


def data_after(last: Node, data: Expr, certain: bool) -> Expr:
    """Return the data that reaches the node after `last`."""
    if certain or data == PREV:
        return PREV
    return Fn("?:", (Fn("==", (Ref("status", (last.id,)), Lit("skipped"))), data, output_ref(last.id)))
