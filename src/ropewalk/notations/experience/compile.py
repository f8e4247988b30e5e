"""Compile an experience that was read to a Flow: nodes become calls, for_each a Map, loops and pipelines regions.

Problems that only show here (an id that is used twice, a loop that names no node, an unknown reference) are added to
the document's own `problems`; nothing is raised. Nodes that ask a model are compiled in `models.py`.

To add a kind of node, describe its fields in `nodes.py`, return its operation in `ExperienceCompiler._op` and name
the field that holds its tool in `TOOL_FIELD`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from ...errors import ExpressionError, Problem
from ...expr import lift
from ...expr.ast import NULL, Arr, Expr, Fn, Lit, Obj, Path, Ref, rebind, refs
from ...ir import Channel, Flow, Graph, Meta, Node, Op, Policy
from ...ops import Call, Compute, Loop, Map, Sleep
from ...problems import MOST_PROBLEMS
from ...values import Json, did_you_mean
from ..binding import warn_of_references
from ..fields import Report, add_problem, join
from ..node_fields import (
    CommonFields,
    Failing,
    attach,
    compile_policy,
    compile_wait,
    read_common,
    read_failing,
)
from ..undo import compile_undo
from .models import ModelNodes, quote_key
from .nodes import MODELS, SHARED_STATE, ExperienceNode, path_in
from .read import (
    ANY,
    CONCURRENCY,
    MAX_ITERS,
    OK,
    Edge,
    ExperienceDocument,
    NodeEntry,
    Part,
    edges_by_region,
    input_and_seeds,
    node_entries,
)

ROOTS: Final = frozenset(("input", "state", "output", "item", "index", "iteration", "error", "secret", "var"))
LABELS: Final = {  # where the document says what the graph calls so
    "args": "args",
    "items": "for_each.source",
    "limit": "for_each.concurrency",
    "policy.retry.attempts": "on_error.attempts",
    "policy.retry.delay": "on_error.base_ms",
    "policy": "on_error",
    "event": "event",
    "approval": "approval",
    "timeout": "timeout",
    "writes": "writes",
    "initial": "prompt",
    "when": "when",
    "value": "value",
    "seconds": "delay",
    "compute": "value",
    "sleep": "delay",
    "policy.on_error.value": "on_error.value",
    "collect": "merge: array_append",
}
COLLECTING: Final = ("array_append", "union")  # ways to merge that a for_each collects its outputs with
TOOL_FIELD: Final = {"tool": "impl", "experience": "impl", "dataset": "source", "call": "tool", "cli-agent": "provider"}
LOOP_LABELS: Final = {"again": "until", "limit": "max_iters"}
PIPELINE_LABELS: Final = {"items": "items"}


class ExperienceCompiler:
    """Compiles one experience."""

    def __init__(self, document: ExperienceDocument) -> None:
        self.document = document
        self.problems: Report = document.problems
        # Of nodes with the same id, which is a problem, the first counts.
        self.nodes = {node.id: node for node in reversed(document.nodes)}
        self.groups = {part.id: "pipeline" for part in document.pipelines}
        self.groups |= {part.id: "loop" for part in document.loops}
        self.owners: dict[str, Part | None] = {}  # by id: the loop or pipeline that holds it, None at the top
        self.models = ModelNodes(self)
        self.failing = read_failing(document.fields, "on_error", "experience", Failing(), document.fields)

    def flow(self) -> Flow:
        """Return the Flow of the document; it is usable only if the document has no problems afterwards."""
        document = self.document
        self._check_ids()
        self._find_owners()
        self._check_names()

        # Edges belong to the region of the nodes that they connect; one that names a stage connects its pipeline.
        stages = {}
        for pipeline in document.pipelines:
            for i, id in enumerate(pipeline.stages):
                if self.owners.get(id) is pipeline:
                    stages[id] = (pipeline.id, i)
        edges = edges_by_region(document.edges, self.owners, stages, self.problems)

        # Loops and pipelines become nodes of the top region.
        groups = {part.id: self._loop(part, edges.get(part.path, [])) for part in document.loops}
        groups |= {part.id: self._pipeline(part) for part in document.pipelines}
        top = [id for id, owner in self.owners.items() if owner is None]
        body = Graph(nodes=self._region(top, edges.get("", []), groups), limit=document.concurrency)
        state = {name: _channel(declared) for name, declared in document.schema.items()}
        schema, seeds = input_and_seeds(document, body, state)
        policy = document.fields.get("undo")
        budget = document.fields.get("budget")
        fields = document.fields
        declared, output_schema = fields.get("result"), fields.get("outputSchema")
        if declared is not None:
            body = replace(body, result=self.value(declared, "result"))
        elif output_schema is not None:
            body = replace(body, result=Ref("state"))
        timeout = fields.get("timeout")
        return Flow(
            name=document.name,
            body=body,
            state=state,
            input_schema=schema,
            output_schema=output_schema,
            timeout=timeout / 1000 if timeout else None,
            seeds=seeds,
            undo=policy,
            budget=budget,
        )

    # --- names --------------------------------------------------------------------------------

    def _check_ids(self) -> None:
        first: dict[str, str] = {}
        for part in self.document.members:
            place = first.setdefault(part.id, part.path)
            if place != part.path and part.id:
                add_problem(self.problems, join(part.path, "id"), f"the id {part.id!r} is already used by {place}")

    def _find_owners(self) -> None:
        """Find the loop or pipeline that holds each node."""
        for part in self.document.members:
            self.owners.setdefault(part.id, None)
        for loop in self.document.loops:
            self._claim_members(loop, tuple(loop.fields.get("body", ())), "body")
        for pipeline in self.document.pipelines:
            self._claim_members(pipeline, pipeline.stages, "stages")

    def _claim_members(self, part: Part, members: tuple[str, ...], key: str) -> None:
        """Make a loop or pipeline the owner of its members, which the document lists under `key`."""
        if not members and key in part.fields:
            add_problem(self.problems, join(part.path, key), "must name at least one node")
        for i, id in enumerate(members):
            path = f"{part.path}.{key}[{i}]"
            owner = self.owners.get(id)
            if not id and id not in self.nodes:
                continue  # reported when the document was read
            if id in self.groups and id not in self.nodes:
                add_problem(self.problems, path, f"{id!r} is a {self.groups[id]}; {key} must list nodes")
            elif id not in self.nodes:
                near = did_you_mean(id, self.nodes)
                add_problem(self.problems, path, f"unknown node {id!r}; {key} must list nodes", near)
            elif owner is not None:
                group = f"the {self.groups[owner.id]} {owner.id!r}"
                add_problem(self.problems, path, f"{id!r} is in {group} already; a node can be in only one place")
            else:
                self.owners[id] = part

    def _check_names(self) -> None:
        """Check the state fields and phases that nodes name."""
        schema = self.document.schema
        for node in self.document.nodes:
            for key in ("reads", "writes"):
                for i, name in enumerate(node.get(key, ())):
                    if name not in schema:
                        near = did_you_mean(name, schema)
                        add_problem(self.problems, f"{node.path}.{key}[{i}]", f"undeclared state field {name!r}", near)

        declared = self.document.fields.get("phases")
        if not isinstance(declared, list):
            return
        phases = dict.fromkeys(str(phase.get("id")) for phase in declared if isinstance(phase, dict))
        warnings = self.document.warnings
        for part in self.document.members:
            phase = part.fields.get("phase")
            if phase and phases and phase not in phases and len(warnings) < MOST_PROBLEMS:
                near = did_you_mean(str(phase), phases)
                add_problem(warnings, join(part.path, "phase"), f"the phase {phase!r} is not declared", near)

    # --- regions ------------------------------------------------------------------------------

    def _region(self, ids: list[str], edges: list[Edge], groups: dict[str, Node]) -> tuple[Node, ...]:
        """Return the nodes of a region in the order of `ids`, each after the hidden nodes of its conditions."""

        # `groups` are the loops and pipelines of the region, compiled already.
        nodes: list[Node] = []
        entries = node_entries(ids, edges, self._may_skip, self._edge_condition, self.problems)
        for id in ids:
            entry = entries.get(id, NodeEntry())  # none where the node is in a cycle, which is a problem
            nodes += entry.conditions
            if id in self.nodes:
                nodes.append(self._node(self.nodes[id], entry))
            elif id in groups:
                nodes.append(_with_entry(groups[id], entry))
        return tuple(nodes)

    def _may_skip(self, id: str) -> bool:
        """Return True if a node can fail while the run continues."""

        # Of a for_each only an iteration can.
        node = self.nodes.get(id)
        return node is not None and not node.each and self._common(node).failing.policy == "skip"

    def _edge_condition(self, edge: Edge) -> Expr:
        return self.expression(edge.when, join(edge.path, "when"))

    def _loop(self, part: Part, edges: list[Edge]) -> Node:
        members = [id for id in dict.fromkeys(part.fields.get("body", [])) if self.owners.get(id) is part]
        nodes = self._region(members, edges, {})
        result = Obj(tuple((id, self.edge_output(id)) for id in members))
        until = part.fields.get("until")
        while_condition = None
        if until is not None:
            while_condition = Fn("!", (self.expression(until, join(part.path, "until")),))
        body = Graph(nodes=nodes, result=result, limit=self.document.concurrency)
        limit = int(part.fields.get("max_iters", MAX_ITERS))
        op = Loop(body=body, limit=limit, again=while_condition, collect=False)
        return Node(id=part.id, op=op, meta=Meta(source=part.path, labels=LOOP_LABELS, phase=part.fields.get("phase")))

    def _pipeline(self, part: Part) -> Node:
        nodes: list[Node] = []
        entry = NodeEntry()
        result: Expr = NULL
        for id in dict.fromkeys(part.stages):
            if self.owners.get(id) is not part:
                continue
            nodes.append(self._node(self.nodes[id], entry, in_pipeline=True))
            # A stage that may be skipped lets the next one run only if it ended well.
            gate = None
            if entry.gate is not None or self._may_skip(id):
                gate = Fn("==", (Ref("status", (id,)), OK))
            entry = NodeEntry(predecessors=(id,), gate=gate)
            result = self.edge_output(id)
        body = Graph(nodes=tuple(nodes), result=result, ordered=True)
        items = self.value(part.fields.get("items"), join(part.path, "items"))
        op = Map(items=items, body=body, limit=self.document.concurrency)
        meta = Meta(source=part.path, labels=PIPELINE_LABELS, phase=part.fields.get("phase"))
        return Node(id=part.id, op=op, meta=meta)

    # --- one node -----------------------------------------------------------------------------

    def _node(self, node: ExperienceNode, entry: NodeEntry, in_pipeline: bool = False) -> Node:
        """Return the node, or the Map that repeats it for a for_each."""

        # The error policy of a for_each is that of an iteration: one that fails under `skip` does not stop the others.
        common = self._common(node)
        id = common.inner_id(node.id)
        meta = Meta(
            source=node.path,
            labels={**LABELS, "tool": TOOL_FIELD.get(node.kind, "tool")},
            description=str(node.get("description", "")),
            phase=node.get("phase"),
            reads=tuple(node.get("reads", ())),
            writes=tuple(node.get("writes", ())),
            name=node.id,
        )
        inner = Node(
            id=id,
            op=self._op(node, id, entry, has_item=in_pipeline or node.each),
            result=Ref("out", (id, "answer")) if node.kind in ("agent", "skill") else None,
            writes=self._writes(node, id),
            policy=self._policy(node, common),
            meta=meta,
        )
        # The condition belongs to the whole node: a for_each tests it once, not per item.
        output = Ref("out", (id, *_output_path(node))) if node.each else None
        width = self.document.concurrency or CONCURRENCY
        return _with_entry(attach(inner, common, self, None, width, output=output), entry)

    def _common(self, node: ExperienceNode) -> CommonFields:
        return read_common(node.fields, "experience", node.path, self.failing, self.document.fields)

    def _op(self, node: ExperienceNode, id: str, entry: NodeEntry, has_item: bool) -> Op:
        if node.kind in ("agent", "skill"):
            return self.models.compile_agent(node, id, entry.predecessors)
        if node.kind == "cli-agent":
            return self.models.compile_program(node, entry.predecessors)
        if node.kind == "value":
            return Compute(value=self.value(node.get("value"), join(node.path, "value")))
        if node.kind == "delay":
            return Sleep(seconds=Lit(node.get("delay", 0) / 1000))
        if node.kind == "wait":
            return compile_wait(node.fields, node.path, self, None)
        return self._call(node, entry, has_item)

    def _call(self, node: ExperienceNode, entry: NodeEntry, has_item: bool) -> Call:
        if node.kind == "dataset":
            source = self.value(node.get("source", {}), join(node.path, "source"))
            return Call(tool="dataset:", args=Obj((("source", source),)))
        args = self.arguments(node)
        undo = compile_undo(node.get("undo"), join(node.path, "undo"), self.problems)
        if node.kind == "call":
            return Call(tool=str(node.get("tool", "")), args=args, undo=undo)
        if node.kind == "experience":
            shared = Obj(((SHARED_STATE, Ref("state")),)) if self._shares_state(node) else None
            tool = f"experience:{_directory(str(node.get('impl', '')))}"
            return Call(tool=tool, args=args, also=shared, undo=undo)

        # A module gets the state, the outputs of its predecessors and the item next to its own arguments.
        inputs = tuple((id, self.edge_output(id)) for id in entry.predecessors)
        extra: list[tuple[str, Expr]] = [("_state", Ref("state")), ("_edge_inputs", Obj(inputs))]
        if has_item:
            extra += [(name, Ref("item")) for name in ("_item", "$item")]
            extra += [(name, Ref("index")) for name in ("_item_index", "$index")]
        return Call(tool=f"impl:{node.get('impl', '')}", args=args, also=Obj(tuple(extra)), undo=undo)

    def _policy(self, node: ExperienceNode, common: CommonFields) -> Policy:
        has_timeout = node.kind not in ("wait", "cli-agent")
        policy = compile_policy(common, self, None, has_timeout=has_timeout)
        if policy.on_error is None or common.failing.policy != "skip":
            return policy
        silent = node.kind != "tool" and bool(node.get("writes"))  # the null in its place is not written
        return replace(policy, on_error=replace(policy.on_error, writes=not silent))

    def _writes(self, node: ExperienceNode, id: str) -> Expr | None:
        """Return what a node writes to which fields of the state, None for nothing."""
        if node.kind == "tool":
            return Ref("out", (id, "state_delta"))
        if node.kind in MODELS:
            return self.models.compile_writes(node, id)
        names = node.get("writes", [])
        if names and self._shares_state(node):
            return self._shared_writes(node, id, names)
        if not names or names[0] not in self.document.schema:  # reported by _check_names
            return None
        path: Path = ("finalState",) if node.kind == "experience" else _output_path(node)
        value: Expr = Ref("out", (id, *path))
        # Each item of a for_each adds its output to the list: a list its items, any other output itself.
        if node.each and self.document.schema[str(names[0])].get("merge") in COLLECTING:
            value = Fn("?:", (Fn("==", (value, NULL)), NULL, Fn("flatten", (Arr((value,)),))))
        return Obj(((str(names[0]), value),))

    def _shares_state(self, node: ExperienceNode) -> bool:
        scope = node.get("state_scope") or self.document.fields.get("state_scope")
        return node.kind == "experience" and scope == "shared"

    def _shared_writes(self, node: ExperienceNode, id: str, names: list[str]) -> Expr:
        """Write back each field of a shared state."""

        # The inner run began with it, so it is replaced, never merged.
        for i, name in enumerate(names):
            merge = self.document.schema.get(name, {}).get("merge", "last_wins")
            if merge != "last_wins":
                message = (
                    f"{name!r} comes back from the shared state with its earlier value, so {merge} would merge that "
                    "value twice"
                )
                add_problem(self.problems, f"{node.path}.writes[{i}]", message)
        return Fn("pick", (Ref("out", (id, "finalState")), Lit([quote_key(name) for name in names])))

    # --- values and expressions ---------------------------------------------------------------

    def edge_output(self, id: str) -> Ref:
        """Return what `$output.ID` means and what successors get in `_edge_inputs`."""

        # `id`: The id of a node, a loop or a pipeline.
        node = self.nodes.get(id)
        if node is None or node.each:
            return Ref("out", (id,))
        return Ref("out", (id, *_output_path(node)))

    def value(self, value: Json, path: str, within: object = None) -> Expr:
        """Compile JSON with references in it; `path` is its place in the document."""
        return self._bind(lift(value, ROOTS, path=path, problems=self.problems))

    def arguments(self, node: ExperienceNode) -> Expr:
        """Compile the arguments of a tool; what only looks like a reference is text there, with a warning."""
        value, path = node.get("args", {}), join(node.path, "args")
        warnings = self.document.warnings
        warn_of_references(value, path, ROOTS, warnings, "state")
        return self._bind(lift(value, ROOTS, path=path, problems=self.problems, warnings=warnings))

    def reference(self, text: str) -> Expr | None:
        """Compile a text such as `$item.id`; return None if it is not a reference."""
        problems: Report = []
        expr = lift(text, ROOTS, problems=problems)
        return None if problems else self._bind(expr)

    def expression(self, text: Json, path: str, within: object = None) -> Expr:
        """Compile the text of a condition; `path` is its place."""

        # Problems are reported, and null replaces it.
        if isinstance(text, bool):
            return Lit(text)
        if not isinstance(text, str) or not text.strip():
            return NULL  # reported when the document was read
        from ...expr import parse  # loads the parser, which a document without conditions does not need

        try:
            expr = parse(text)
        except ExpressionError as exc:
            self.problems.append(Problem(path=path, message=exc.message, column=exc.at + 1, suggestion=exc.suggestion))
            return NULL
        for ref in refs(expr):
            if ref.root not in ROOTS:
                near = did_you_mean(ref.root, ROOTS)
                suggestion = f"${near}" if near else None
                known = ", ".join(f"${root}" for root in sorted(ROOTS))
                message = f"${ref.root} is not known in experience graphs; known: {known}"
                problem = Problem(path=path, message=message, column=ref.column, suggestion=suggestion)
                self.problems.append(problem)
                return NULL
        return self._bind(expr)

    def _bind(self, expr: Expr) -> Expr:
        """Turn references of the document into references of the graph."""

        def bind(ref: Ref) -> Expr:
            if ref.root == "output" and ref.path:
                output = self.edge_output(str(ref.path[0]))
                return Ref("out", (*output.path, *ref.path[1:]), column=ref.column, original=ref)
            if ref.root == "output":
                return Ref("out", (), column=ref.column)
            if ref.root == "var":
                return Ref("state", ref.path, column=ref.column, original=ref)
            if ref.root == "iteration":
                return Ref("round", ref.path, column=ref.column, original=ref)
            return ref

        return rebind(expr, bind)


def _with_entry(node: Node, entry: NodeEntry) -> Node:
    """Put a compiled node behind its predecessors and its gate."""
    if entry.gate is None:
        return replace(node, after=entry.after) if entry.after else node
    meta = replace(node.meta, reached=entry.label or ", ".join(entry.predecessors))
    return replace(node, after=entry.after, gate=entry.gate, meta=meta)


def _output_path(node: ExperienceNode) -> Path:
    """Return the path from a node's value to the output that other nodes see."""
    if node.kind == "call":
        return path_in(str(node.get("output", ""))) or ()
    return ("edge_output",) if node.kind == "tool" else ()


def _channel(declared: dict[str, Json]) -> Channel:
    """Return the state channel of a declared field."""
    schema = {key: value for key, value in declared.items() if key not in ("merge", "default", "description")}
    return Channel(
        schema=schema if schema.get("type") not in (None, "", ANY) else None,
        reduce=str(declared.get("merge") or "last_wins"),
        initial=declared.get("default"),
        present="default" in declared,
    )


def _directory(impl: str) -> str:
    """Return the directory of an experience; `impl` names it or the `experience.yaml` in it."""
    return re.sub(r"(?:^|/)experience\.(?:yaml|yml|json)$", "", impl) or "."
