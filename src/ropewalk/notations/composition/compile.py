"""Compile a composition that was read to a Flow: an ordered region in which data passes as `prev`.

The data of a node is the output of the node before it; the first node gets the input. `inputMapping` replaces
the data, `outputMapping` is the result of the graph node. `map`, `filter` and `reduce` with an expression,
`transform` and `merge` become expressions; with a tool they become the ops Map and Loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from ...expr.ast import NULL, Expr, Fn, Lit, Obj, Ref
from ...fast_dataclass import dataclass
from ...ir import Flow, Graph, Meta, Node, OnError, Op, Policy
from ...ops import Block, Branch, Call, Compute, Loop, Map, Sleep, Undo, Validate
from ...values import Json
from ..binding import STATE, Binder, output_ref
from ..fields import add_problem, join, type_name
from ..node_fields import (
    CommonFields,
    Failing,
    attach,
    compile_policy,
    compile_wait,
    in_order,
    read_common,
    read_failing,
    write_of,
)
from ..undo import compile_undo
from .read import PER_ITEM, ComposerNode, CompositionDocument

ROOTS: Final = frozenset(
    ("input", "prev", "steps", "output", "var", "state", "item", "index", "acc", "error", "secret")
)
DATA: Final = Ref("data")
"""The node's data, in an expression that is not bound yet; no document can write this reference."""
PREV: Final = Ref("prev")
LABELS: Final = {
    "args": "inputMapping",
    "items": "items",
    "initial": "initial",
    "limit": "concurrency",
    "tool": "tool",
    "body": "tool",
    "schema": "schema",
    "result": "outputMapping",
    "when": "condition",
    "writes": "outputVar",
    "after": "dependsOn",
    "seconds": "delay",
    "block": "parallel",
    "sleep": "delay",
    "policy.timeout": "timeout",
    "policy.retry": "maxRetries",
    "policy.on_error.value": "fallback",
}
MERGES: Final = {"object": "merge", "deep": "deep_merge", "concat": "concat", "zip": "zip"}


@dataclass(frozen=True, slots=True)
class Within:
    """The surroundings of a reference: the node's data, and if it is in a call per item."""

    data: Expr
    item: bool = False
    acc: bool = False
    parallel: bool = False


class CompositionCompiler(Binder[Within]):
    """Compile one composition; `problems` and `warnings` grow as it goes."""

    roots, kind = ROOTS, "composition"

    def __init__(self, document: CompositionDocument) -> None:
        super().__init__(document.problems, [node.id for node in document.nodes], document.fields["variables"])
        self.document, self.fields = document, document.fields
        self.failing = read_failing(self.fields, "on_error", "composition", Failing(), self.fields)
        self.ids = set(document.ids())
        self.written: set[str] = set()  # variables that some node sets

    def flow(self) -> Flow:
        """Return the flow; it is usable only if there are no problems afterwards."""
        fields = self.fields
        body = self.region(in_order(self.document.nodes, self.problems), Ref("input"))
        if fields.get("result") is not None:
            body = replace(body, result=self.value(fields["result"], "result", Within(body.result)))
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

    def region(self, body: list[ComposerNode], data: Expr) -> Graph:
        """Compile nodes to an ordered region."""

        # Its value is the last output, or the data if there are no nodes.
        nodes: list[Node] = []
        certain = False
        for node in body:
            nodes.append(self.node(node, Within(data)))
            certain = certain or nodes[-1].when is None
            data = data_after(nodes[-1], data, certain)
        if nodes and nodes[-1].when is None:
            data = output_ref(nodes[-1].id)
        return Graph(nodes=tuple(nodes), result=data, ordered=True)

    def unique_id(self, id: str) -> str:
        """Return an id that no node has."""
        while id in self.ids:
            id += "_"
        self.ids.add(id)
        return id

    # --- one node -----------------------------------------------------------------------------

    def node(self, node: ComposerNode, within: Within) -> Node:
        """Compile one node with its mappings, condition, policy and output variable."""
        fields = node.fields
        if node.type == "conditional":  # whose condition chooses its value
            fields = {key: value for key, value in fields.items() if key != "condition"}
        common = read_common(fields, "composition", node.path, Failing() if node.has_nodes else self.failing)
        each = replace(within, item=True) if common.is_repeated else within
        mapping, inner = node.get("inputMapping"), each
        if mapping is not None and not _calls_tool(node):
            inner = replace(each, data=self.value(mapping, join(node.path, "inputMapping"), each))
        result = node.get("outputMapping")
        if result is not None:
            result = self.value(result, join(node.path, "outputMapping"), each)
        elif node.type == "delay":
            result = within.data  # a delay passes its data on
        build = OPS.get(node.type)
        if "retryDelay" in fields and common.failing.retry.attempts < 2:
            add_problem(self.warnings, join(node.path, "retryDelay"), "is not used without maxRetries")
        variable = node.get("outputVar")
        self.written |= {variable} if variable else set()
        compiled = Node(
            id=common.inner_id(node.id),
            op=build(self, node, inner) if build is not None else Compute(value=NULL),
            result=result,
            writes=write_of(variable, node.id),
            policy=self.policy(node, common, each, inner),
            meta=self.meta(node, str(node.get("description") or node.get("name") or "")),
        )
        compiled = attach(compiled, common, self, within, int(self.fields["concurrency"]))
        after = self.after(node, within)
        return replace(compiled, after=after) if after else compiled

    def meta(self, node: ComposerNode, description: str = "", name: str = "") -> Meta:
        """Return the place and the labels of a node, for messages and drawings."""
        labels = _field_labels(node)
        return Meta(source=node.path, labels=labels, description=description, name=name, phase=node.get("phase"))

    def policy(self, node: ComposerNode, common: CommonFields, within: Within, inner: Within) -> Policy:
        """Compile the timeout, the retries and the fallback of a node; without a fallback its data is the value."""
        if "fallback" in node.fields and common.failing.policy not in ("fallback", "continue"):
            add_problem(self.warnings, join(node.path, "fallback"), "is not used without onError: fallback or continue")
        policy = compile_policy(common, self, within, within.data, has_timeout=node.type != "wait")
        if node.type == "validate" and node.get("required") is False:
            return replace(policy, on_error=OnError(value=inner.data, reported=True))
        return policy

    def after(self, node: ComposerNode, within: Within) -> frozenset[str]:
        """Return the nodes that a node of a parallel node depends on; a sequence is in their order already."""
        return frozenset(node.get("dependsOn") or ()) if within.parallel else frozenset()

    # --- what each type does --------------------------------------------------------------------

    def tool(self, node: ComposerNode, within: Within) -> Op:
        """Compile a tool node to a call."""
        return Call(tool=str(node.get("tool", "")), args=self.arguments(within.data, node), undo=self.undo(node))

    def undo(self, node: ComposerNode) -> Undo | None:
        """Return the undo of a node's calls, None if the document sets none."""
        return compile_undo(node.get("undo"), join(node.path, "undo"), self.problems)

    def arguments(self, args: Expr, node: ComposerNode) -> Expr:
        """Return the arguments of a call; report a mapping that is certainly not an object."""
        if isinstance(args, Lit) and type(args.value) is not dict and node.get("inputMapping") is not None:
            path = join(node.path, "inputMapping")
            add_problem(
                self.problems,
                path,
                f"must be an object of arguments or a reference to one, not {type_name(args.value)}",
            )
            return Obj(())
        return args

    def per_item(self, node: ComposerNode, within: Within) -> Op:
        """Compile `map`, `filter` and `reduce`: to calls of a tool, or to an expression."""
        items_value = node.get("items")
        items = within.data if items_value is None else self.value(items_value, join(node.path, "items"), within)
        if _calls_tool(node):
            return self.calls(node, items, within)
        if "expression" not in node.fields:
            return Compute(value=NULL)  # reported when the document was read
        config: dict[str, Json] = {key: node.fields[key] for key in ("expression", "initial") if key in node.fields}
        return Compute(value=self.transform_value(node.type, config, node.path, Within(items)))

    def calls(self, node: ComposerNode, items: Expr, within: Within) -> Op:
        """Compile one call per item."""

        # Its arguments are the item, for `reduce` with the previous result.
        folds = node.type == "reduce"
        args: Expr = Obj((("acc", PREV), ("item", Ref("item")))) if folds else Ref("item")
        if node.get("inputMapping") is not None:
            with_inner = replace(within, item=True, acc=folds)
            args = self.value(node.get("inputMapping"), join(node.path, "inputMapping"), with_inner)
        op = Call(tool=str(node.get("tool")), args=self.arguments(args, node), undo=self.undo(node))
        call = Node(id=self.unique_id(f"{node.id}.call"), op=op, meta=self.meta(node, name=node.id))
        body = Graph(nodes=(call,), result=Ref("out", (call.id,)), ordered=True)
        if not folds:
            limit = int(node.get("concurrency", self.fields["concurrency"]))
            return Map(items=items, body=body, limit=limit, select=node.type == "filter")
        initial = self.value(node.get("initial"), join(node.path, "initial"), within)
        return Loop(items=items, body=body, collect=False, initial=initial)

    def transform(self, node: ComposerNode, within: Within) -> Op:
        """Compile a transform node, which has a `transform`, or a `transformType` and a `config`."""
        spec, type_ = node.get("transform"), node.get("transformType")
        path = join(node.path, "transform")
        if spec is not None and not any(problem.path == path for problem in self.problems):
            from ...expr import transform_expr

            expr = transform_expr(spec, DATA, roots=ROOTS - {"acc"}, path=path, problems=self.problems)
            return Compute(value=self.bind_all(expr, path, within))
        if not type_:
            return Compute(value=NULL)  # reported when the document was read
        return Compute(value=self.transform_value(type_, node.get("config") or {}, join(node.path, "config"), within))

    def transform_value(self, type_: str, config: Mapping[str, Json], path: str, within: Within) -> Expr:
        """Compile a transform of the node's data."""
        from ...expr import configure_transform

        expr = configure_transform(type_, config, DATA, roots=ROOTS - {"acc"}, path=path, problems=self.problems)
        return self.bind_all(expr, path, within)

    def validate(self, node: ComposerNode, within: Within) -> Op:
        """Compile a validate node, which passes its data on if it fits the schema."""
        return Validate(value=within.data, schema=node.get("schema", True))

    def branch(self, node: ComposerNode, within: Within) -> Op:
        """Compile a branch node: the first branch with a true condition runs."""
        arms = tuple(
            (
                self.expression(arm.condition, join(arm.path, "condition"), within),
                self.region(arm.nodes, within.data),
            )
            for arm in node.arms
        )
        return Branch(arms=arms, default=self.chosen_region(node, "otherwise", within))

    def conditional(self, node: ComposerNode, within: Within) -> Op:
        """Compile a conditional node: a branch of `then` and `otherwise`."""
        test = self.expression(node.get("condition"), join(node.path, "condition"), within)
        return Branch(
            arms=((test, self.chosen_region(node, "then", within)),),
            default=self.chosen_region(node, "otherwise", within),
        )

    def chosen_region(self, node: ComposerNode, key: str, within: Within) -> Graph:
        """Compile `then` or `otherwise`: nodes, a value, or nothing, which passes the data on."""
        if key in node.bodies:
            return self.region(node.bodies[key], within.data)
        has_value = key in node.fields
        value = self.value(node.get(key), join(node.path, key), within) if has_value else within.data
        return Graph(nodes=(), result=value, ordered=True)

    def parallel(self, node: ComposerNode, within: Within) -> Op:
        """Compile nodes that run concurrently, each as soon as its dependencies have ended."""
        with_inner = replace(within, parallel=True)
        nodes = tuple(self.node(inner, with_inner) for inner in node.bodies.get("nodes", []))
        result = Obj(tuple((inner.id, output_ref(inner.id)) for inner in nodes))
        limit = int(node.get("concurrency", self.fields["concurrency"]))
        return Block(body=Graph(nodes=nodes, result=result, limit=limit))

    def delay(self, node: ComposerNode, within: Within) -> Op:
        """Compile a delay node; the document has milliseconds, the graph seconds."""
        delay, path = node.get("delay", 0), join(node.path, "delay")
        if isinstance(delay, str):
            milliseconds = self.value(delay, path, within)
            if not isinstance(milliseconds, Lit):
                return Sleep(seconds=Fn("/", (milliseconds, Lit(1000))))
        elif not isinstance(delay, bool) and isinstance(delay, (int, float)) and 0 <= delay < float("inf"):
            return Sleep(seconds=Lit(delay / 1000))
        add_problem(self.problems, path, f"must be milliseconds of 0 or more, or a reference to them, not {delay!r}")
        return Sleep(seconds=Lit(0))

    def wait(self, node: ComposerNode, within: Within) -> Op:
        """Compile a wait node."""
        return compile_wait(node.fields, node.path, self, within)

    def merge(self, node: ComposerNode, within: Within) -> Op:
        """Compile a merge node to the function of its strategy."""
        sources = node.get("sources") or [None]
        values = tuple(
            self.value(source, f"{join(node.path, 'sources')}[{i}]", within) for i, source in enumerate(sources)
        )
        return Compute(value=Fn(MERGES.get(node.get("strategy", "object"), "merge"), values))

    # --- references ---------------------------------------------------------------------------

    def bind(self, ref: Ref, path: str, within: Within) -> Expr:
        """Return the expression in the graph that a reference of the document stands for."""
        root = ref.root
        if ref is DATA:
            return within.data
        if root in ("steps", "output"):
            return self.output(ref, path)
        if root in STATE:
            return self.variable(ref, path)
        if root in ("item", "index") and not within.item:
            return self.report_reference(
                ref, path, f"${root} exists only in a map, filter or reduce node, or with for_each"
            )
        if root == "acc":
            if not within.acc:
                return self.report_reference(ref, path, "$acc exists only in a reduce node")
            return Ref("prev", ref.path, column=ref.column, original=ref)
        if root == "prev" and within.acc:
            return self.report_reference(
                ref, path, "$prev is not available here; $acc is the result of the previous call"
            )
        return ref if root in ROOTS else self.unknown(ref, path)


OPS: Final[dict[str, Callable[[CompositionCompiler, ComposerNode, Within], Op]]] = {
    "tool": CompositionCompiler.tool,
    **dict.fromkeys(PER_ITEM, CompositionCompiler.per_item),
    "transform": CompositionCompiler.transform,
    "validate": CompositionCompiler.validate,
    "branch": CompositionCompiler.branch,
    "merge": CompositionCompiler.merge,
    "conditional": CompositionCompiler.conditional,
    "parallel": CompositionCompiler.parallel,
    "delay": CompositionCompiler.delay,
    "wait": CompositionCompiler.wait,
}
"""By node type, the method that compiles it."""


def data_after(last: Node, data: Expr, certain: bool) -> Expr:
    """Return the data that reaches the node after `last`."""
    if certain:
        return PREV
    return Fn("?:", (Fn("==", (Ref("status", (last.id,)), Lit("skipped"))), data, output_ref(last.id)))


def _calls_tool(node: ComposerNode) -> bool:
    return node.type in PER_ITEM and "tool" in node.fields


def _field_labels(node: ComposerNode) -> dict[str, str]:
    """Return the document's names for the parts of a node."""
    mapped = node.get("inputMapping") is not None
    value = {"merge": "sources", "validate": "inputMapping" if mapped else "schema", "transform": "transform"}
    labels = {**LABELS, "value": value.get(node.type, "expression"), "branch": node.type, "compute": node.type}
    if node.type == "transform" and "transformType" in node.fields:
        labels["value"] = "config"
    if "items" not in node.fields and not _calls_tool(node) and mapped:
        labels["items"] = "inputMapping"
    if node.type in PER_ITEM and not _calls_tool(node) and ("items" in node.fields or mapped):
        labels["value.source"] = "items" if "items" in node.fields else "inputMapping"
    if node.type == "conditional":
        labels |= {"arms[0][0]": "condition", "arms[0][1]": "then", "arms[0][1].result": "then"}
    for i in range(len(node.arms)):
        labels |= {f"arms[{i}][0]": f"branches[{i}].condition", f"arms[{i}][1]": f"branches[{i}].nodes"}
    return labels | {"default": "otherwise", "default.result": "otherwise"}
