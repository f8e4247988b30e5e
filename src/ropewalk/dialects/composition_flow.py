"""From a composition as read to the graph: an ordered region in which data passes as `prev`.

The data of a node is what the node before gave, in the first the input. A node's `inputMapping` is its data
in place of that, its `outputMapping` the result of its graph node. MAP, FILTER and REDUCE with an expression,
TRANSFORM and MERGE are expressions; with a tool they are the ops Map and Loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ..expr.ast import NULL, Expr, Fn, Lit, Obj, Ref
from ..frozen import dataclass
from ..ir import NO_POLICY, Flow, Graph, Meta, Node, OnError, Op, Policy, Retry
from ..ops import Block, Branch, Call, Compute, Loop, Map, Sleep, Validate
from ..values import Json
from .binding import Binder, output_of
from .composition import PER_ITEM, ComposerNode, CompositionDocument
from .fields import join, kind, say

ROOTS: Final = frozenset(("input", "prev", "steps", "output", "var", "item", "index", "acc", "error", "secret"))
DATA: Final = Ref("data")
"""The node's data, in an expression that is not bound yet; no text of a document reads as this."""
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
RETRY_DELAY: Final = 1000
"""Milliseconds between two attempts of a node that does not say."""
MERGES: Final = {"object": "merge", "deep": "deep_merge", "concat": "concat", "zip": "zip"}


@dataclass(frozen=True, slots=True)
class Within:
    """What surrounds a reference: the node's data, and whether it stands in a call per item."""

    data: Expr
    item: bool = False
    acc: bool = False
    parallel: bool = False


class CompositionCompiler(Binder[Within]):
    """Compiles one composition; `problems` and `warnings` grow as it goes."""

    roots, kind = ROOTS, "composition"

    def __init__(self, document: CompositionDocument) -> None:
        super().__init__(document.problems, [node.id for node in document.nodes], document.fields["variables"])
        self.document, self.fields = document, document.fields
        self.ids = set(document.ids())
        self.written: set[str] = set()  # the variables that nodes set

    def flow(self) -> Flow:
        fields = self.fields
        body = self.region(self.document.nodes, Ref("input"))
        schema = fields.get("outputSchema")
        if schema is not None:
            labels = {"value": "", "hidden": "outputSchema"}
            last = Node(
                id=self.free("output"),
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
        )

    def region(self, body: list[ComposerNode], data: Expr) -> Graph:
        """Nodes in order; the value is what the last one gave, the data as it is where there is none."""
        nodes: list[Node] = []
        for node in body:
            nodes.append(self.node(node, Within(data)))
            data = data_after(nodes, data)
        if nodes and nodes[-1].when is None:
            data = output_of(nodes[-1].id)
        return Graph(nodes=tuple(nodes), result=data, ordered=True)

    def free(self, id: str) -> str:
        """An id that no node has."""
        while id in self.ids:
            id += "_"
        self.ids.add(id)
        return id

    # --- one node -----------------------------------------------------------------------------

    def node(self, node: ComposerNode, within: Within) -> Node:
        mapping, inner = node.get("inputMapping"), within
        if mapping is not None and not _per_call(node):
            inner = replace(within, data=self.value(mapping, join(node.path, "inputMapping"), within))
        result = node.get("outputMapping")
        if result is not None:
            result = self.value(result, join(node.path, "outputMapping"), within)
        elif node.type == "delay":
            result = within.data  # which passes on unchanged
        build = OPS.get(node.type)
        return Node(
            id=node.id,
            op=build(self, node, inner) if build is not None else Compute(value=NULL),
            after=self.after(node, within),
            when=self.skipping(node, within),
            result=result,
            writes=self.writes(node),
            policy=self.policy(node, within, inner),
            meta=self.meta(node, str(node.get("description") or node.get("name") or "")),
        )

    def meta(self, node: ComposerNode, description: str = "", name: str = "") -> Meta:
        return Meta(source=node.path, labels=_labels(node), description=description, name=name)

    def policy(self, node: ComposerNode, within: Within, inner: Within) -> Policy:
        timeout, retries = node.get("timeout"), node.get("maxRetries", 0)
        if "retryDelay" in node.fields and not retries:
            say(self.warnings, join(node.path, "retryDelay"), "is not used without maxRetries")
        on_error = self.on_error(node, within, inner)
        if on_error is None and not timeout and not retries:
            return NO_POLICY
        delay = node.get("retryDelay", RETRY_DELAY) / 1000
        retry = Retry(attempts=1 + retries, delay=delay) if retries else Retry()
        return Policy(retry=retry, timeout=timeout / 1000 if timeout else None, on_error=on_error)

    def on_error(self, node: ComposerNode, within: Within, inner: Within) -> OnError | None:
        on_error = node.get("onError")
        if "fallback" in node.fields and on_error not in ("fallback", "continue"):
            say(self.warnings, join(node.path, "fallback"), "is not used without onError: fallback or continue")
        if node.type == "validate" and node.get("required") is False:
            return OnError(value=inner.data, reported=True)
        if on_error not in ("fallback", "continue"):
            return None
        value = within.data
        if "fallback" in node.fields:
            value = self.value(node.get("fallback"), join(node.path, "fallback"), within)
        return OnError(value=value, reported=on_error == "continue")

    def skipping(self, node: ComposerNode, within: Within) -> Expr | None:
        """The condition without which the node is skipped; that of a CONDITIONAL chooses what it gives."""
        if node.type == "conditional" or "condition" not in node.fields:
            return None
        return self.expression(node.get("condition"), join(node.path, "condition"), within)

    def writes(self, node: ComposerNode) -> Expr | None:
        name = node.get("outputVar")
        if not name:
            return None
        self.written.add(name)
        return Obj(((name, output_of(node.id)),))

    def after(self, node: ComposerNode, within: Within) -> frozenset[str]:
        before = node.get("dependsOn") or ()
        if before and not within.parallel:
            say(self.problems, join(node.path, "dependsOn"), "only nodes in a parallel node have dependsOn")
            return frozenset()
        return frozenset(before)

    # --- what each type does --------------------------------------------------------------------

    def tool(self, node: ComposerNode, within: Within) -> Op:
        return Call(tool=str(node.get("tool", "")), args=self.arguments(within.data, node))

    def arguments(self, args: Expr, node: ComposerNode) -> Expr:
        if isinstance(args, Lit) and type(args.value) is not dict and node.get("inputMapping") is not None:
            path = join(node.path, "inputMapping")
            say(self.problems, path, f"must be an object of arguments or a reference to one, not {kind(args.value)}")
            return Obj(())
        return args

    def per_item(self, node: ComposerNode, within: Within) -> Op:
        """MAP, FILTER and REDUCE."""
        given = node.get("items")
        items = within.data if given is None else self.value(given, join(node.path, "items"), within)
        if _per_call(node):
            return self.calls(node, items, within)
        if "expression" not in node.fields:
            return Compute(value=NULL)  # which has been reported
        config: dict[str, Json] = {key: node.fields[key] for key in ("expression", "initial") if key in node.fields}
        return Compute(value=self.transformed(node.type, config, node.path, Within(items)))

    def calls(self, node: ComposerNode, items: Expr, within: Within) -> Op:
        """One call per item: its arguments are the item, for REDUCE the item and what the call before gave."""
        folds = node.type == "reduce"
        args: Expr = Obj((("acc", PREV), ("item", Ref("item")))) if folds else Ref("item")
        if node.get("inputMapping") is not None:
            inside = replace(within, item=True, acc=folds)
            args = self.value(node.get("inputMapping"), join(node.path, "inputMapping"), inside)
        made = Call(tool=str(node.get("tool")), args=self.arguments(args, node))
        call = Node(id=self.free(f"{node.id}.call"), op=made, meta=self.meta(node, name=node.id))
        body = Graph(nodes=(call,), result=Ref("out", (call.id,)), ordered=True)
        if not folds:
            limit = int(node.get("concurrency", self.fields["concurrency"]))
            return Map(items=items, body=body, limit=limit, select=node.type == "filter")
        initial = self.value(node.get("initial"), join(node.path, "initial"), within)
        return Loop(items=items, body=body, collect=False, initial=initial)

    def transform(self, node: ComposerNode, within: Within) -> Op:
        spec, named = node.get("transform"), node.get("transformType")
        path = join(node.path, "transform")
        if spec is not None and not any(problem.path == path for problem in self.problems):
            from ..expr import transform_expr

            made = transform_expr(spec, DATA, roots=ROOTS - {"acc"}, path=path, problems=self.problems)
            return Compute(value=self.bound(made, path, within))
        if not named:
            return Compute(value=NULL)  # which has been reported
        return Compute(value=self.transformed(named, node.get("config") or {}, join(node.path, "config"), within))

    def transformed(self, type_: str, config: Mapping[str, Json], path: str, within: Within) -> Expr:
        from ..expr import configured

        made = configured(type_, config, DATA, roots=ROOTS - {"acc"}, path=path, problems=self.problems)
        return self.bound(made, path, within)

    def validate(self, node: ComposerNode, within: Within) -> Op:
        return Validate(value=within.data, schema=node.get("schema", True))

    def branch(self, node: ComposerNode, within: Within) -> Op:
        arms = tuple(
            (
                self.expression(arm.condition, join(arm.path, "condition"), within),
                self.region(arm.nodes, within.data),
            )
            for arm in node.arms
        )
        return Branch(arms=arms, default=self.chosen(node, "otherwise", within))

    def conditional(self, node: ComposerNode, within: Within) -> Op:
        test = self.expression(node.get("condition"), join(node.path, "condition"), within)
        return Branch(arms=((test, self.chosen(node, "then", within)),), default=self.chosen(node, "otherwise", within))

    def chosen(self, node: ComposerNode, key: str, within: Within) -> Graph:
        """What stands in `then` or `otherwise`: nodes, a value, or nothing, which leaves the data as it is."""
        if key in node.bodies:
            return self.region(node.bodies[key], within.data)
        given = key in node.fields
        value = self.value(node.get(key), join(node.path, key), within) if given else within.data
        return Graph(nodes=(), result=value, ordered=True)

    def parallel(self, node: ComposerNode, within: Within) -> Op:
        """Nodes that run at once, each as soon as the nodes that it reads or depends on have ended."""
        inside = replace(within, parallel=True)
        nodes = tuple(self.node(inner, inside) for inner in node.bodies.get("nodes", []))
        result = Obj(tuple((inner.id, output_of(inner.id)) for inner in nodes))
        limit = int(node.get("concurrency", self.fields["concurrency"]))
        return Block(body=Graph(nodes=nodes, result=result, limit=limit))

    def delay(self, node: ComposerNode, within: Within) -> Op:
        delay, path = node.get("delay", 0), join(node.path, "delay")
        if isinstance(delay, str):
            given = self.value(delay, path, within)
            if not isinstance(given, Lit):
                return Sleep(seconds=Fn("/", (given, Lit(1000))))
        elif not isinstance(delay, bool) and isinstance(delay, (int, float)) and 0 <= delay < float("inf"):
            return Sleep(seconds=Lit(delay / 1000))
        say(self.problems, path, f"must be milliseconds of 0 or more, or a reference to them, not {delay!r}")
        return Sleep(seconds=Lit(0))

    def merge(self, node: ComposerNode, within: Within) -> Op:
        sources = node.get("sources") or [None]
        made = tuple(self.value(one, f"{join(node.path, 'sources')}[{i}]", within) for i, one in enumerate(sources))
        return Compute(value=Fn(MERGES.get(node.get("strategy", "object"), "merge"), made))

    # --- references ---------------------------------------------------------------------------

    def bind(self, ref: Ref, path: str, within: Within) -> Expr:
        """What a reference of the document is in the graph."""
        root = ref.root
        if ref is DATA:
            return within.data
        if root in ("steps", "output"):
            return self.output(ref, path)
        if root == "var":
            return self.variable(ref, path)
        if root in ("item", "index") and not within.item:
            return self.wrong(ref, path, f"${root} has a meaning only where something is done for each item")
        if root == "acc":
            if not within.acc:
                return self.wrong(ref, path, "$acc has a meaning only in a reduce node")
            return Ref("prev", ref.path, column=ref.column, said=ref)
        if root == "prev" and within.acc:
            return self.wrong(ref, path, "$prev is not in reach here: the call before gave $acc")
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
}
"""What each node type is in the graph."""


def data_after(nodes: Sequence[Node], data: Expr) -> Expr:
    """The data that reaches the node after `nodes`, the last of which got `data`. Once a node certainly ran, this is
    the output of the last one that ran; before, a skipped node leaves its own data."""
    last = nodes[-1]
    if any(node.when is None for node in nodes):
        return PREV
    return Fn("?:", (Fn("==", (Ref("status", (last.id,)), Lit("skipped"))), data, output_of(last.id)))


def _per_call(node: ComposerNode) -> bool:
    return node.type in PER_ITEM and "tool" in node.fields


def _labels(node: ComposerNode) -> dict[str, str]:
    """The document's names for the parts of a node."""
    mapped = node.get("inputMapping") is not None
    value = {"merge": "sources", "validate": "inputMapping" if mapped else "schema", "transform": "transform"}
    labels = {**LABELS, "value": value.get(node.type, "expression"), "branch": node.type, "compute": node.type}
    if node.type == "transform" and "transformType" in node.fields:
        labels["value"] = "config"
    if "items" not in node.fields and not _per_call(node) and mapped:
        labels["items"] = "inputMapping"
    if node.type in PER_ITEM and not _per_call(node) and ("items" in node.fields or mapped):
        labels["value.source"] = "items" if "items" in node.fields else "inputMapping"
    if node.type == "conditional":
        labels |= {"arms[0][0]": "condition", "arms[0][1]": "then", "arms[0][1].result": "then"}
    for i in range(len(node.arms)):
        labels |= {f"arms[{i}][0]": f"branches[{i}].condition", f"arms[{i}][1]": f"branches[{i}].nodes"}
    return labels | {"default": "otherwise", "default.result": "otherwise"}
