"""From an experience as read to the graph: nodes become calls, for_each a Map, loops and pipelines regions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from ..errors import ExpressionError, Problem
from ..expr import lift
from ..expr.ast import NULL, Expr, Fn, Lit, Obj, Path, Ref, rebind, refs
from ..ir import NO_POLICY, Channel, Flow, Graph, Meta, Node, OnError, Op, Policy, Retry
from ..ops import Call, Compute, Loop, Map, Sleep, Wait
from ..values import Json, closest
from .experience import ANY, CONCURRENCY, MAX_ITERS, ExperienceDocument, Part
from .experience_edges import OK, Edge, Way, edges_by_region, ways
from .experience_input import input_of
from .experience_models import ModelNodes, quoted
from .experience_nodes import MODELS, SHARED_STATE, ExperienceNode, path_in, retry_of
from .fields import Report, join, say

ROOTS: Final = frozenset(("input", "state", "output", "item", "index", "iteration", "error", "secret"))
LABELS: Final = {
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
}
TOOL_FIELD: Final = {"tool": "impl", "experience": "impl", "dataset": "source", "call": "tool", "cli-agent": "provider"}
LOOP_LABELS: Final = {"again": "until", "limit": "max_iters"}
PIPELINE_LABELS: Final = {"items": "items"}
ROUND: Final = ".round"  # what the node that a for_each repeats is called, after the for_each


class ExperienceCompiler:
    """Compiles one experience; the document's `problems` and `warnings` grow as it goes."""

    def __init__(self, document: ExperienceDocument) -> None:
        self.document = document
        self.problems: Report = document.problems
        self.nodes = {node.id: node for node in reversed(document.nodes)}
        self.groups = {part.id: "pipeline" for part in document.pipelines}
        self.groups |= {part.id: "loop" for part in document.loops}
        self.homes: dict[str, Part | None] = {}
        self.models = ModelNodes(self)

    def flow(self) -> Flow:
        document = self.document
        self._ids()
        self._homes()
        self._names()
        held = [(part, i, id) for part in document.pipelines for i, id in enumerate(part.stages)]
        stages = {id: (part.id, i) for part, i, id in held if self.homes.get(id) is part}
        edges = edges_by_region(document.edges, self.homes, stages, self.problems)
        loops = {part.id: self._loop(part, edges.get(part.path, [])) for part in document.loops}
        pipelines = {part.id: self._pipeline(part) for part in document.pipelines}
        top = [id for id, home in self.homes.items() if home is None]
        made = {**loops, **pipelines}
        nodes = self._region(top, edges.get("", []), made)
        body = Graph(nodes=nodes, limit=document.concurrency)
        state = {name: _channel(declared) for name, declared in document.schema.items()}
        schema, begun = input_of(document, body, state)
        return Flow(name=document.name, body=body, state=state, input_schema=schema, seeds=begun)

    # --- what has which name ------------------------------------------------------------------

    def _ids(self) -> None:
        first: dict[str, str] = {}
        for part in self.document.members:
            place = first.setdefault(part.id, part.path)
            if place != part.path and part.id:
                say(self.problems, join(part.path, "id"), f"the id {part.id!r} is already used, by {place}")

    def _homes(self) -> None:
        """What is inside which loop or pipeline."""
        for part in self.document.members:
            self.homes.setdefault(part.id, None)
        held = [(loop, tuple(loop.fields.get("body", ())), "body") for loop in self.document.loops]
        held += [(pipeline, pipeline.stages, "stages") for pipeline in self.document.pipelines]
        for part, members, key in held:
            if not members and key in part.fields:
                say(self.problems, join(part.path, key), "must name at least one node")
            for i, id in enumerate(members):
                path = f"{part.path}.{key}[{i}]"
                if id not in self.nodes:
                    what = f"{id!r} is a {self.groups[id]}; " if id in self.groups else f"names no node: {id!r}; "
                    near = None if id in self.groups else closest(id, self.nodes)
                    if id:
                        say(self.problems, path, f"{what}{key} holds nodes", near)
                    continue
                other = self.homes[id]
                if other is not None:
                    said = f"the {self.groups[other.id]} {other.id!r}"
                    say(self.problems, path, f"{id!r} is in {said} already; a node is in one place")
                    continue
                self.homes[id] = part

    def _names(self) -> None:
        """State fields and phases that nodes name."""
        schema = self.document.schema
        phases = [str(phase.get("id")) for phase in _objects(self.document.fields.get("phases"))]
        for node in self.document.nodes:
            for key in ("reads", "writes"):
                for i, name in enumerate(node.get(key, ())):
                    if name not in schema:
                        near = closest(name, schema)
                        say(self.problems, f"{node.path}.{key}[{i}]", f"undeclared state field {name!r}", near)
        for part in self.document.members:
            phase = part.fields.get("phase")
            if phase and phases and phase not in phases:
                near = closest(str(phase), phases)
                say(self.document.warnings, join(part.path, "phase"), f"the phase {phase!r} is not declared", near)

    # --- regions ------------------------------------------------------------------------------

    def _region(self, ids: list[str], edges: list[Edge], made: dict[str, Node]) -> tuple[Node, ...]:
        """The nodes of a region in declared order; loops and pipelines, which are `made`, after them."""
        found: list[Node] = []
        reached = ways(ids, edges, self._fails, self._edge_condition, self.problems)
        for id in ids:
            way = reached.get(id, Way())
            found += way.conditions
            node = self.nodes.get(id)
            if node is not None:
                found.append(self.node(node, way))
            elif id in made:
                found.append(_reached(made[id], way))
        return tuple(found)

    def _fails(self, id: str) -> bool:
        """Whether a node can end as failed while the run goes on. Of a for_each only its rounds can."""
        node = self.nodes.get(id)
        return node is not None and not node.each and node.get("on_error", {}).get("policy") == "skip"

    def _edge_condition(self, edge: Edge) -> Expr:
        part = next(part for part in self.document.edges if part.path == edge.path)
        return self.expression(part.fields["when"], join(edge.path, "when"))

    def _loop(self, part: Part, edges: list[Edge]) -> Node:
        members = [id for id in dict.fromkeys(part.fields.get("body", [])) if self.homes.get(id) is part]
        nodes = self._region(members, edges, {})
        result = Obj(tuple((id, self.edge_output(id)) for id in members))
        until = part.fields.get("until")
        again = None
        if until is not None:
            again = Fn("!", (self.expression(until, join(part.path, "until")),))
        body = Graph(nodes=nodes, result=result, limit=self.document.concurrency)
        limit = int(part.fields.get("max_iters", MAX_ITERS))
        op = Loop(body=body, limit=limit, again=again, collect=False)
        return Node(id=part.id, op=op, meta=Meta(source=part.path, labels=LOOP_LABELS, phase=part.fields.get("phase")))

    def _pipeline(self, part: Part) -> Node:
        stages = [self.nodes[id] for id in dict.fromkeys(part.stages) if self.homes.get(id) is part]
        found: list[Node] = []
        before: str | None = None
        unsure = False
        for stage in stages:
            gate = Fn("==", (Ref("status", (before,)), OK)) if before is not None and unsure else None
            way = Way(before=(before,) if before is not None else (), gate=gate)
            found.append(self.node(stage, way, item=True))
            unsure = gate is not None or self._fails(stage.id)
            before = stage.id
        body = Graph(nodes=tuple(found), result=self.edge_output(before) if before else NULL, ordered=True)
        items = self.value(part.fields.get("items"), join(part.path, "items"))
        op = Map(items=items, body=body, limit=self.document.concurrency)
        meta = Meta(source=part.path, labels=PIPELINE_LABELS, phase=part.fields.get("phase"))
        return Node(id=part.id, op=op, meta=meta)

    # --- one node -----------------------------------------------------------------------------

    def node(self, node: ExperienceNode, way: Way, item: bool = False) -> Node:
        """The node, or the Map over its rounds. Its policy is that of a round: one that fails under
        `skip` does not stop the others."""
        each = node.get("for_each")
        own = f"{node.id}{ROUND}" if node.each else node.id
        labels = {**LABELS, "tool": TOOL_FIELD.get(node.kind, "tool")}
        about = Meta(
            source=node.path,
            labels=labels,
            description=str(node.get("description", "")),
            phase=node.get("phase"),
            reads=tuple(node.get("reads", ())),
            writes=tuple(node.get("writes", ())),
            name=node.id,
        )
        one = Node(
            id=own,
            op=self._op(node, own, way, item or node.each),
            result=Ref("out", (own, "answer")) if node.kind in ("agent", "skill") else None,
            writes=self._writes(node, own),
            policy=self._policy(node),
            meta=about,
        )
        when = self.expression(node.get("when"), join(node.path, "when")) if "when" in node.fields else None
        if each is None:
            return _reached(replace(one, when=when), way)
        items = self.value(each.get("source"), join(node.path, "for_each.source"))
        body = Graph(nodes=(one,), result=Ref("out", (own, *_output(node))), ordered=True)
        limit = int(each.get("concurrency", self.document.concurrency or CONCURRENCY))
        return _reached(Node(id=node.id, op=Map(items=items, body=body, limit=limit), when=when, meta=about), way)

    def _op(self, node: ExperienceNode, own: str, way: Way, item: bool) -> Op:
        if node.kind in ("agent", "skill"):
            return self.models.agent(node, own, way.before)
        if node.kind == "cli-agent":
            return self.models.program(node, way.before)
        if node.kind == "value":
            return Compute(value=self.value(node.get("value"), join(node.path, "value")))
        if node.kind == "delay":
            return Sleep(seconds=Lit(node.get("delay", 0) / 1000))
        return self._wait(node) if node.kind == "wait" else self._call(node, way, item)

    def _call(self, node: ExperienceNode, way: Way, item: bool) -> Call:
        if node.kind == "dataset":
            source = self.value(node.get("source", {}), join(node.path, "source"))
            return Call(tool="dataset:", args=Obj((("source", source),)))
        args = self.value(node.get("args", {}), join(node.path, "args"))
        if node.kind == "call":
            return Call(tool=str(node.get("tool", "")), args=args)
        if node.kind == "experience":
            shared = Obj(((SHARED_STATE, Ref("state")),)) if self._shares(node) else None
            return Call(tool=f"experience:{_directory(str(node.get('impl', '')))}", args=args, also=shared)
        given: list[tuple[str, Expr]] = [
            ("_state", Ref("state")),
            ("_edge_inputs", Obj(tuple((id, self.edge_output(id)) for id in way.before))),
        ]
        if item:
            given += [(name, Ref("item")) for name in ("_item", "$item")]
            given += [(name, Ref("index")) for name in ("_item_index", "$index")]
        return Call(tool=f"impl:{node.get('impl', '')}", args=args, also=Obj(tuple(given)))

    def _wait(self, node: ExperienceNode) -> Wait:
        timeout = node.get("timeout")
        event, approval = (
            self.value(node.get(key), join(node.path, key)) if key in node.fields else None
            for key in ("event", "approval")
        )
        return Wait(event=event, approval=approval, timeout=Lit(timeout / 1000) if timeout else None)

    def _policy(self, node: ExperienceNode) -> Policy:
        given = node.get("on_error")
        if given is not None and given.get("policy") == "fallback":
            return Policy(on_error=OnError(value=self.value(given.get("value"), join(node.path, "on_error.value"))))
        return _policy(node)

    def _writes(self, node: ExperienceNode, own: str) -> Expr | None:
        if node.kind == "tool":
            return Ref("out", (own, "state_delta"))
        if node.kind in MODELS:
            return self.models.writes(node, own)
        fields = node.get("writes", [])
        if fields and self._shares(node):
            return self._shared_writes(node, own, fields)
        if not fields or fields[0] not in self.document.schema:  # which has been reported
            return None
        way: Path = ("finalState",) if node.kind == "experience" else _output(node)
        return Obj(((str(fields[0]), Ref("out", (own, *way))),))

    def _shares(self, node: ExperienceNode) -> bool:
        scope = node.get("state_scope") or self.document.fields.get("state_scope")
        return node.kind == "experience" and scope == "shared"

    def _shared_writes(self, node: ExperienceNode, own: str, fields: list[str]) -> Expr:
        """Each field gets the one of the same name, which began with it: so it is replaced, never merged."""
        for i, name in enumerate(fields):
            merge = self.document.schema.get(name, {}).get("merge", "last_wins")
            if merge != "last_wins":
                message = f"{name!r} comes back from a shared state whole, and {merge} would merge it twice"
                say(self.problems, f"{node.path}.writes[{i}]", message)
        return Fn("pick", (Ref("out", (own, "finalState")), Lit([quoted(name) for name in fields])))

    def edge_output(self, id: str) -> Expr:
        """What `$output.ID` and the `_edge_inputs` of its successors are."""
        node = self.nodes.get(id)
        if node is None or node.each:
            return Ref("out", (id,))
        return Ref("out", (id, *_output(node)))

    # --- values and expressions ---------------------------------------------------------------

    def value(self, value: Json, path: str) -> Expr:
        """JSON with references in it."""
        return self._bound(lift(value, ROOTS, path=path, problems=self.problems))

    def reference(self, text: str) -> Expr | None:
        """The value of a text such as `$item.id`; None where it is no reference."""
        problems: Report = []
        found = lift(text, ROOTS, problems=problems)
        return None if problems else self._bound(found)

    def expression(self, text: Json, path: str) -> Expr:
        """A condition's text."""
        if isinstance(text, bool):
            return Lit(text)
        if not isinstance(text, str) or not text.strip():
            return NULL  # which has been reported
        from ..expr import parse

        try:
            found = parse(text)
        except ExpressionError as exc:
            self.problems.append(Problem(path=path, message=exc.message, column=exc.at + 1, suggestion=exc.suggestion))
            return NULL
        unknown = next((ref for ref in refs(found) if ref.root not in ROOTS), None)
        if unknown is not None:
            near = closest(unknown.root, ROOTS)
            message = f"${unknown.root} is not known in experience graphs; known: {_roots()}"
            problem = Problem(
                path=path, message=message, column=unknown.column, suggestion=f"${near}" if near else None
            )
            self.problems.append(problem)
            return NULL
        return self._bound(found)

    def _bound(self, expr: Expr) -> Expr:
        """References of the document as those of the graph."""

        def bind(ref: Ref) -> Expr:
            if ref.root == "output" and ref.path:
                found = self.edge_output(str(ref.path[0]))
                assert isinstance(found, Ref)
                return Ref("out", (*found.path, *ref.path[1:]), column=ref.column, said=ref)
            if ref.root == "output":
                return Ref("out", (), column=ref.column)
            if ref.root == "iteration":
                return Ref("round", ref.path, column=ref.column, said=ref)
            return ref

        return rebind(expr, bind)


def _reached(node: Node, way: Way) -> Node:
    if not way.after and way.gate is None:
        return node
    meta = replace(node.meta, reached=way.said or ", ".join(way.before)) if way.gate is not None else node.meta
    return replace(node, after=way.after, gate=way.gate, meta=meta)


def _output(node: ExperienceNode) -> Path:
    """The way from a node's value to its edge_output."""
    if node.kind == "call":
        return path_in(str(node.get("output", ""))) or ()
    return ("edge_output",) if node.kind == "tool" else ()


def _policy(node: ExperienceNode) -> Policy:
    given = node.get("on_error")
    if given is None or given.get("policy") in ("fail_run", "", None):
        return NO_POLICY
    if given["policy"] == "skip":
        silent = node.kind != "tool" and bool(node.get("writes"))  # the null in its place is not written
        return Policy(on_error=OnError(reported=True, writes=not silent))
    if given["policy"] == "continue":
        return Policy(on_error=OnError(reported=True))
    attempts, delay, linear = retry_of(given)
    return Policy(retry=Retry(attempts=attempts, delay=delay, factor=2.0, linear=linear))


def _channel(declared: dict[str, Json]) -> Channel:
    schema = {key: value for key, value in declared.items() if key not in ("merge", "default", "description")}
    return Channel(
        schema=schema if schema.get("type") not in (None, "", ANY) else None,
        reduce=str(declared.get("merge") or "last_wins"),
        initial=declared.get("default"),
        present="default" in declared,
    )


def _directory(impl: str) -> str:
    """The directory of an experience that `impl` names, or the `experience.yaml` in it."""
    return re.sub(r"(?:^|/)experience\.(?:yaml|yml|json)$", "", impl) or "."


def _objects(value: Json) -> Iterable[dict[str, Json]]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else ()


def _roots() -> str:
    return ", ".join(f"${root}" for root in sorted(ROOTS))
