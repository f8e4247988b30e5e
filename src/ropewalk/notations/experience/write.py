"""Write a flow as the document of an experience: nodes with edges between them, and a declared state.

The work has two steps. `GraphShaper` turns the flow into one graph of nodes that wait for each other: a block or a
choice becomes its nodes and one that computes its value, and `$prev` becomes the output that it means.
`ExperienceWriter` writes that graph.

The value of an experience is its state, so the result of a flow that has another value is kept in the field `result`.
Whatever an experience cannot hold is refused with its place: timeouts, policies of blocks, several nodes per item
inside a loop, and jumps. To write another operation, add it to `LEAVES` and `ExperienceWriter._leaf`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, ClassVar, Final

from ...check.structure import running_order
from ...expr.ast import NULL, Arr, Expr, Fn, Lit, Obj, Path, Ref, rebind, refs, select, subexpressions
from ...fast_dataclass import dataclass
from ...ir import NO_POLICY, Channel, Graph, Node, OnError, bodies, nodes_of
from ...ops import Block, Branch, Call, Compute, Loop, Map, Sleep, Wait
from ...values import Json
from ..agent import MAX_ROUNDS, AgentParts, agent_of
from ..node_fields import detach
from ..undo import write_undo, write_undos
from ..writing import (
    POLICY,
    Fields,
    FlowWriter,
    as_map,
    items_expr,
    milliseconds,
)
from .compile import ExperienceCompiler
from .models import is_file_path
from .read import ANY, CONCURRENCY, KEYWORDS, MAX_ITERS, TYPES, read, seeded_fields

Ids = frozenset[str]
MAX_PREV_PARTS: Final = 500
"""The size limit of the expression for `prev` after steps that may be skipped. Each such step makes it longer, and one
whose condition reads `prev` doubles it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the shaper is: its path, the nodes to wait for, what `prev` is (None: unknown), the choice's condition."""

    path: str = ""
    before: Ids = frozenset()
    prev: Expr | None = NULL
    when: Expr | None = None


class GraphShaper:
    """Turns the graph of one flow into nodes that wait for each other, without blocks and choices."""

    def __init__(self, free: Callable[[str], str], refuse: Callable[[str, str], None]) -> None:
        self.unique_id, self.refuse = free, refuse
        self.nodes: list[Node] = []
        self.waits: dict[str, Wait] = {}  # by id of a node that waits first

    def shape(self, body: Graph) -> Graph:
        """Return the unordered graph; its result reads the outputs of its nodes."""
        if not body.ordered and not any(isinstance(n.op, (Block, Branch)) or _has_result(n) for n in body.nodes):
            return replace(body, nodes=tuple(replace(node, op=as_map(node.op)) for node in body.nodes))
        _, result = self._region(body, Place())
        return Graph(nodes=tuple(self.nodes), result=result, limit=None if body.ordered else body.limit)

    def _region(self, body: Graph, place: Place) -> tuple[Ids, Expr]:
        """Add the nodes of a region; return the ids that the next node waits for, and the value of the region."""
        if not body.ordered:
            for node in body.nodes:
                # However many nodes it becomes, the last one has its id.
                self._node(node, replace(place, before=place.before | body.needs[node.id]))
            return place.before.union(node.id for node in body.nodes), body.result
        for node in body.nodes:
            before, prev = self._node(node, place)
            place = replace(place, before=before, prev=prev)
        return place.before, self._bind_prev(body.result, place, place.path.rstrip("/"))

    def _node(self, node: Node, place: Place) -> tuple[Ids, Expr | None]:
        """Add a node; return what the next one waits for, and what `prev` is there."""
        work, wait = detach(node)
        is_whole = not _has_result(work) and (work.writes is None or not isinstance(work.op, (Map, Loop)))
        if wait is not None and is_whole and not isinstance(work.op, (Block, Branch)):
            path = f"{place.path}{node.id}"
            event, approval = (text and self._bind_prev(text, place, path) for text in (wait.event, wait.approval))
            self.waits[node.id] = replace(wait, event=event, approval=approval)
            node = work
        if _has_result(node):
            return self._call_and_result(node, place)
        if isinstance(node.op, (Map, Loop)) and node.writes is not None and not _is_agent(node):
            return self._repeat_and_write(node, place)
        if isinstance(node.op, (Block, Branch)):
            return self._block(node, node.op, place)
        return self._add(node, node.op, place)

    def _repeat_and_write(self, node: Node, place: Place) -> tuple[Ids, Expr | None]:
        """Add a map or loop, which writes nothing in an experience, and a node that writes its output."""
        repeated = replace(node, id=self.unique_id(f"{node.id}_each"), writes=None)
        before, _ = self._add(repeated, node.op, place)
        output = Compute(value=Ref("out", (repeated.id,)))
        writer = Node(id=node.id, op=output, when=node.when, writes=node.writes)
        return self._add(writer, output, replace(place, before=before))

    def _block(self, node: Node, op: Block | Branch, place: Place) -> tuple[Ids, Expr | None]:
        """Add the nodes of a block or choice, and one with its id that computes its value."""
        if node.policy != NO_POLICY:
            message = "an experience has a timeout, retries and a fallback for each call, not for a block"
            self.refuse(f"{place.path}{node.id}", message)
        if node.when is not None:
            # The condition is tested once, before the nodes inside change what it reads.
            before, tested = self._test(f"{node.id}_when", node.when, place)
            place = replace(place, before=before, when=_is_true(tested))
        inside = replace(place, path=f"{place.path}{node.id}/")
        if isinstance(op, Block):
            before, value = self._region(op.body, inside)
        else:
            before, value = self._choice(node, op, inside)
        last = Node(id=node.id, op=Compute(value=value), writes=node.writes, meta=node.meta)
        ids, prev = self._add(last, last.op, replace(place, before=before))
        return ids, prev if node.when is None else None

    def _test(self, id: str, condition: Expr, place: Place) -> tuple[Ids, Ref]:
        """Add a node that evaluates a condition; return what waits for it, and its output."""
        test = Compute(value=_is_true(condition))
        node = Node(id=self.unique_id(id), op=test)
        before, _ = self._add(node, test, place)
        return before, Ref("out", (node.id,))

    def _choice(self, node: Node, op: Branch, place: Place) -> tuple[Ids, Expr]:
        """Add the nodes of every arm, each under its condition; return what waits for them, and the value."""
        if not op.arms:
            return self._region(op.default or Graph(nodes=(), ordered=True), place)
        (condition, body), *arms = op.arms
        before, answer = self._test(f"{node.id}_if", condition, place)
        is_true = _is_true(answer)
        ends, value = self._region(body, replace(place, before=before, when=is_true))
        otherwise = replace(place, before=before, when=Fn("==", (answer, Lit(False))))
        other_ends, other_value = self._choice(node, replace(op, arms=tuple(arms)), otherwise)
        return ends | other_ends, Fn("?:", (is_true, value, other_value))

    def _call_and_result(self, node: Node, place: Place) -> tuple[Ids, Expr | None]:
        """Add a node whose value is computed from its output as two: the call, and one that computes the value."""
        result = node.result
        assert result is not None
        if node.policy.on_error is not None:
            message = "an experience writes the fallback of a failed call unchanged, without a mapping"
            self.refuse(f"{place.path}{node.id}", message)
        call = Node(
            id=self.unique_id(f"{node.id}_call"), op=node.op, when=node.when, policy=node.policy, meta=node.meta
        )
        before, _ = self._add(call, node.op, place)

        def read_call(ref: Ref) -> Expr:
            if ref.root == "out" and ref.path[:1] == (node.id,):
                return replace(ref, path=(call.id, *ref.path[1:]))
            return ref

        value = Compute(value=rebind(result, read_call))
        last = replace(node, op=value, when=None, result=None, policy=NO_POLICY)
        return self._add(last, value, replace(place, before=before))

    def _add(self, node: Node, op: Any, place: Place) -> tuple[Ids, Expr | None]:
        """Add a node as it is, with `$prev` replaced; return what the next one waits for, and what `prev` is there."""
        path = f"{place.path}{node.id}"
        own_when = None if node.when is None else self._bind_prev(node.when, place, path)
        when = own_when
        if place.when is not None:
            when = place.when if own_when is None else Fn("&&", (place.when, own_when))
        policy = node.policy
        if policy.on_error is not None:
            value = self._bind_prev(policy.on_error.value, place, path)
            policy = replace(policy, on_error=replace(policy.on_error, value=value))
        op = as_map(self._bind_op(op, place, path))
        self.nodes.append(replace(node, op=op, when=when, after=place.before, policy=policy))
        # Inside a choice all nodes run or none: only a condition of its own may skip this one.
        output = Ref("out", (node.id,))
        prev = output if own_when is None else _prev_if_skipped(output, own_when, place.prev)
        return frozenset((node.id,)), prev

    def _bind_op(self, op: Any, place: Place, path: str) -> Any:
        if isinstance(op, Call):
            return replace(op, args=self._bind_prev(op.args, place, path))
        if isinstance(op, Compute):
            return Compute(value=self._bind_prev(op.value, place, path))
        if isinstance(op, (Map, Loop)) and op.items is not None:
            if "prev" in op.body.roots and not op.body.ordered:
                self.refuse(path, "an experience has no $prev")
            return replace(op, items=self._bind_prev(op.items, place, path))
        return op

    def _bind_prev(self, expr: Expr, place: Place, path: str) -> Expr:
        """Replace `$prev` by what it means at a place."""

        def bind(ref: Ref) -> Expr:
            if ref.root != "prev":
                return ref
            if place.prev is None:
                self.refuse(path, "reads $prev after a step that may be skipped, or after too many conditions")
                return NULL
            value = place.prev
            if value != NULL:
                for key in ref.path:
                    value = select(value, key)
            return value

        return rebind(expr, bind)


def _prev_if_skipped(output: Ref, when: Expr, prev: Expr | None) -> Expr | None:
    """Return what `prev` is after a node with a condition; None if the condition may have changed by then."""
    if prev is None or any(ref.root == "state" for ref in refs(when)):
        return None
    value = Fn("?:", (_is_true(when), output, prev))
    too_large = next(islice(subexpressions(value), MAX_PREV_PARTS, None), None) is not None
    return None if too_large else value


def _has_result(node: Node) -> bool:
    """Return True if the value of the node is computed from its output; that of an agent is its answer."""
    return node.result is not None and not _is_agent(node)


def _is_agent(node: Node) -> bool:
    return isinstance(node.op, Loop) and agent_of(node.op, f"{node.id}.") is not None


def _is_true(test: Expr) -> Fn:
    """Return the condition as a boolean: null counts as false."""
    return Fn("==", (test, Lit(True)))


SUPPORTED: Final[dict[type[Any], tuple[str, ...]]] = {
    Node: ("id", "op", "after", "when", "writes", "policy", "meta"),
    Call: ("tool", "args", "undo"),
    Compute: ("value",),
    Sleep: ("seconds",),
    Map: ("items", "body", "limit", "most"),
    Loop: ("body", "limit", "again", "collect"),
    **POLICY,
    OnError: ("value", "reported", "writes"),
}
ROOTS: Final = {name: name for name in ("input", "state", "item", "index", "error")} | {"round": "iteration"}
LEAVES: Final = (Call, Compute, Sleep, Wait)


@dataclass(frozen=True, slots=True)
class Around:
    """The surroundings of a node: its path, and the ids of the nodes that others wait for."""

    path: str = ""
    needed: frozenset[str] = frozenset()


class ExperienceWriter(FlowWriter[Around]):
    """Writes one flow as the document of an experience."""

    kind, supported = "experience", SUPPORTED
    has_seeds = True
    keys: ClassVar = {"timeout": "timeout", "output_schema": "outputSchema"}
    null_node: ClassVar = {"kind": "value", "value": None}

    def document(self) -> Fields:
        """Return the document; what it cannot hold is refused."""
        flow = self.flow
        self.concurrency = _width(flow.body)
        shaper = GraphShaper(self.unique_id, self.refuse)
        body = shaper.shape(flow.body)
        self.waits: dict[str, Fields] = {
            id: {"wait": self.wait(op, f"{id}.wait", Around())} for id, op in shaper.waits.items()
        }

        # The lists of the document, which `region` fills.
        self.nodes: list[Fields] = []
        self.inside: dict[str, list[Fields]] = {"loop": [], "pipeline": []}
        self.loops: list[Fields] = []
        self.pipelines: list[Fields] = []
        self.edges: list[Fields] = []
        self.output_paths: dict[str, Path] = {}  # by id: the part of its value that a node hands on
        self._check_order(body)
        self.region(body, Around())

        schema = {name: self._field(name, channel) for name, channel in flow.state.items()}
        nodes = [*self.nodes, *self.inside["loop"], *self.inside["pipeline"]]
        graph: Fields = {"nodes": nodes or [{"id": self.unique_id("nothing"), **self.null_node}]}
        for key, parts in (("edges", self.edges), ("loops", self.loops), ("pipelines", self.pipelines)):
            if parts:
                graph[key] = parts
        document: Fields = {"version": "0.1.0"}
        if self.concurrency != CONCURRENCY:
            document["runtime"] = {"concurrency": self.concurrency}
        document |= {"state": {"schema": schema}, "graph": graph}
        state = Obj(tuple((name, Ref("state", (name,))) for name in flow.state))
        if body.result not in (NULL, Ref("state"), state):  # which is its value without a result
            document["result"] = self.value(body.result, "result", Around())
        self._declare_input(document)
        return document

    def _declare_input(self, document: Fields) -> None:
        """Declare the schema of the input, unless the same one would be inferred."""
        flow = self.flow
        inferred = ExperienceCompiler(read({"kind": self.kind, "name": self.flow.name, **document})).flow()
        schema = flow.input_schema or inferred.input_schema
        if schema == inferred.input_schema and flow.seeds == inferred.seeds:
            return
        declared = {"type": "object"} if flow.input_schema is None else flow.input_schema
        for name in seeded_fields(declared, flow.state):
            if name not in flow.seeds:
                message = (
                    f"the state field {name!r} has the name of a property of the input, so the input would set its "
                    "initial value"
                )
                self.refuse("input_schema", message)
                break
        document["inputSchema"] = declared

    def _check_order(self, body: Graph) -> None:
        """Refuse writers in another order than that of the document: nodes, then loops, then pipelines."""
        kinds: list[int] = []
        for node in body.nodes:
            if any(inner.writes is not None for inner in _within(node)):
                kinds.append(1 if _is_loop(node) else 2 if _is_pipeline(node) else 0)
        if self.flow.state and kinds != sorted(kinds):
            message = (
                "an experience applies the writes of nodes first, then of loops, then of pipelines; write the nodes "
                "in this order"
            )
            self.refuse("nodes", message)

    def _field(self, name: str, channel: Channel) -> Fields:
        """Return the declaration of a state field."""
        schema = {"type": ANY} if channel.schema is None else channel.schema
        type = schema.get("type") if isinstance(schema, dict) and schema.keys() - {"type"} <= KEYWORDS else None
        if type not in TYPES and schema != {"type": ANY}:
            self.refuse(f"state.{name}", f"a state field of an experience is declared as one of {', '.join(TYPES)}")
            schema = {"type": ANY}
        fields: Fields = dict(schema)
        if channel.reduce != "last_wins":
            fields["merge"] = channel.reduce
        if channel.present:
            fields["default"] = channel.initial
        return fields

    # --- regions and nodes ------------------------------------------------------------------------

    def region(self, body: Graph, around: Around) -> None:
        """Write the nodes of a region, and an edge to each node from those that it waits for."""
        around = replace(around, needed=frozenset(id for needs in body.needs.values() for id in needs))
        nearest = _nearest(body)
        for node in body.nodes:
            self.node(node, around)
            self.edges += [{"from": needed, "to": node.id} for needed in nearest[node.id]]

    def node(self, node: Node, around: Around) -> None:
        """Write a node: to the nodes, loops or pipelines of the document."""
        path = f"{around.path}{node.id}"
        op: Any = node.op
        agent = agent_of(op, f"{node.id}.") if isinstance(op, Loop) else None
        if agent is not None:
            self._agent(node, agent, around)
            return
        self._check_node(node, path)
        if isinstance(op, LEAVES):
            self.nodes.append({"id": node.id, **self._leaf(node, around), **self.waits.get(node.id, {})})
        elif isinstance(op, Map):
            self._map(node, op, around)
        elif isinstance(op, Loop):
            self._loop(node, op, around)
        else:
            self.refuse_op(node, path, "the nodes of an experience call tools and wait")
            self._write_null(node)

    def _write_null(self, node: Node) -> None:
        self.nodes.append({"id": node.id, **self.null_node})

    def _check_node(self, node: Node, path: str) -> None:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", node.id, re.ASCII):
            self.refuse(path, "an id in an experience is letters, digits and underscores")
        if node.meta.hidden:
            self.refuse_hidden(node, path)
        if node.gate is not None:
            self.refuse(path, "experiences have no gates", decisive=True)
        self.refuse_unsupported(replace(node, gate=None), path)

    def _leaf(self, node: Node, around: Around) -> Fields:
        path = f"{around.path}{node.id}"
        op: Any = node.op
        if isinstance(op, Call):
            return self._call(node, around)
        if isinstance(op, Compute):
            fields: Fields = {"kind": "value", "value": self.value(op.value, f"{path}.value", around)}
        elif isinstance(op, Sleep):
            fields = {"kind": "delay", "delay": self._delay(op.seconds, path)}
        else:
            fields = {"kind": "wait", **self.wait(op, path, around)}
        return fields | self.common_fields(node, path, around)

    def _delay(self, seconds: Expr, path: str) -> Json:
        if isinstance(seconds, Lit):
            return milliseconds(seconds.value)
        self.refuse(path, "how long an experience waits must be a number, not an expression")
        return 0

    def _call(self, node: Node, around: Around) -> Fields:
        path = f"{around.path}{node.id}"
        assert isinstance(node.op, Call)
        fields: Fields = {"kind": "call", "tool": node.op.tool}
        args = self.value(node.op.args, f"{path}.args", around)
        if isinstance(args, dict):
            fields |= {"args": args} if args else {}
        elif args is not None:
            self.refuse(f"{path}.args", "the arguments in an experience are an object, not a reference to one")
        return fields | write_undo(node.op.undo) | self.common_fields(node, path, around)

    def _agent(self, node: Node, agent: AgentParts, around: Around) -> None:
        path = f"{around.path}{node.id}"
        self._check_node(replace(node, op=Call(tool="", args=NULL), result=None), path)
        start = agent.start.items if isinstance(agent.start, Arr) else ()
        message = dict(start[0].fields) if len(start) == 1 and isinstance(start[0], Obj) else {}
        if message.get("role") != Lit("user") or node.result != Ref("out", (node.id, "answer")):
            self.refuse(path, "an agent in an experience has only a prompt, and its value is its answer")
        # Only these options have a field in the notation.
        options = {key: value for key, value in agent.options.items() if key != "must_end"}
        for key in list(options):
            if key not in ("output_schema", "max_rounds", "model"):
                self.refuse(path, f"an agent in an experience has no {key}")
                del options[key]
        prompt = self.value(message.get("content", NULL), f"{path}.prompt", around)
        if not isinstance(prompt, str) or not prompt.strip() or is_file_path(prompt):
            self.refuse(
                path,
                "the prompt of an agent in an experience must be a text that does not look like the path of a file",
            )
            self._write_null(node)
            return
        # Defaults are left out, so that reading the document again gives the same agent.
        fields: Fields = {"kind": "agent", "prompt": prompt}
        if agent.tools:
            fields["tools"] = agent.tools
        fields |= write_undos(agent.undos)
        fields |= {key: value for key, value in options.items() if (key, value) != ("max_rounds", MAX_ROUNDS)}
        self.nodes.append({"id": node.id, **fields, **self.common_fields(node, path, around)})

    def written_field(self, node: Node, path: str) -> Fields:
        writes = node.writes
        if writes is None:
            return {}
        if isinstance(writes, Obj) and len(writes.fields) == 1:
            name, value = writes.fields[0]
            if isinstance(value, Ref) and value.root == "out" and value.path[0] == node.id:
                path_written = self.output_paths[node.id] = value.path[1:]
                if (path_written and not isinstance(node.op, Call)) or isinstance(node.op, Sleep):
                    self.refuse(path, f"{_noun(node.op)} in an experience writes its whole value, not a part of it")
                    return {}
                if not path_written:
                    return {"writes": [name]}
                text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path_written)
                return {"output": text.removeprefix("."), "writes": [name]}
        self.refuse(path, "a call in an experience writes one field, with its output or a part of it")
        return {}

    def failure(
        self, node: Node, on_error: OnError, path: str, around: Around, failed: Expr
    ) -> tuple[str, Expr | None]:
        is_written = node.writes is not None and on_error.writes
        if not on_error.reported:
            if node.writes is not None and not is_written:
                self.refuse(path, "the fallback of a failed node of an experience is written like its output")
            return "fallback", on_error.value
        word, value = super().failure(node, on_error, path, around, failed)
        if value is None and node.id not in around.needed and not is_written:
            return "skip", None
        if node.writes is not None and not is_written:
            self.refuse(path, "an experience skips the nodes that wait for a failed one (skip)")
        return word, value

    def _map(self, node: Node, op: Map, around: Around) -> None:
        """Write a map: a node with for_each if each item has one call, else a pipeline."""
        path = f"{around.path}{node.id}"
        body = op.body
        inside = Around(f"{path}/", frozenset(id for needs in body.needs.values() for id in needs))
        if node.writes is not None or node.policy != NO_POLICY:
            self.refuse(
                path,
                "in an experience, error policies and writes apply to the call for each item, not to the whole map",
            )
        for inner in body.nodes:
            if not isinstance(inner.op, LEAVES):
                self.refuse_op(inner, f"{path}/{inner.id}", "for each item, an experience can only call tools and wait")
                self._write_null(node)
                return
        if not body.nodes or body.result != Ref("out", (body.nodes[-1].id,)):
            self.refuse(
                path,
                (
                    "the value of each item is the result of its last call; an experience cannot compute another "
                    "value from it"
                ),
            )
            self._write_null(node)
            return
        # One call per item is a node with for_each; a sequence of calls needs a pipeline.
        if len(body.nodes) == 1:
            self._for_each(node, op, around, inside)
        elif around.path:
            self.refuse(path, "inside a loop of an experience, a for_each makes one call for each item, not several")
            self._write_null(node)
        else:
            self._pipeline(node, op, inside)

    def _for_each(self, node: Node, op: Map, around: Around, inside: Around) -> None:
        path = f"{around.path}{node.id}"
        [call] = op.body.nodes
        if call.when is not None:
            message = "an experience calls the tool for every item; filter the items instead of using a condition"
            self.refuse(path, message, decisive=True)
        self._check_node(replace(call, id=node.id), path)
        fields = {**self._leaf(replace(call, when=node.when), inside), **self.waits.get(node.id, {})}
        self.nodes.append({"id": node.id, **fields, **self.items_of(op, path, around, self.concurrency)})

    def _pipeline(self, node: Node, op: Map, inside: Around) -> None:
        path = inside.path.removesuffix("/")
        if node.when is not None:
            self.refuse(path, "a pipeline or a loop of an experience has no condition", decisive=True)
        if op.limit != self.concurrency:
            self.refuse(path, f"a pipeline runs as many items at once as the whole experience: {self.concurrency}")
        if not op.body.ordered:
            self.refuse(path, "the stages of a pipeline run in order")
        stages: list[Json] = []
        for inner in op.body.nodes:
            place = f"{path}/{inner.id}"
            self._check_node(inner, place)
            self.inside["pipeline"].append({"id": inner.id, **self._leaf(inner, inside)})
            stages.append(inner.id)
        items = self.value(items_expr(op), f"{path}.items", inside)
        self.pipelines.append({"id": node.id, "items": items, "stages": stages})

    def _loop(self, node: Node, op: Loop, around: Around) -> None:
        path = f"{around.path}{node.id}"
        if node.when is not None:
            self.refuse(path, "a pipeline or a loop of an experience has no condition", decisive=True)
        if op.collect:
            self.refuse(
                path,
                "the value of a loop in an experience is that of its last iteration, not the list of all iterations",
            )
        if op.items is not None or op.until is not None or op.initial is not None or not op.body.nodes:
            self._write_null(node)
            return
        if around.path:
            self.refuse(path, "experiences have loops only at the top level, not inside other nodes")
        # Read before the nodes of the loop are written, so that they count as a whole.
        outputs = [(inner.id, Ref("out", (inner.id, *self.output_paths.get(inner.id, ())))) for inner in op.body.nodes]
        top, self.nodes = self.nodes, self.inside["loop"]
        self.region(op.body, Around(f"{path}/"))
        self.nodes = top
        if op.body.result != Obj(tuple(outputs)) and node.id in around.needed:
            self.refuse(path, "the value of a loop in an experience is an object with the outputs of its nodes")
        fields: Fields = {"id": node.id, "body": [inner.id for inner in op.body.nodes]}
        if op.again is not None:
            until: Expr = Fn("!", (op.again,))
            if isinstance(op.again, Fn) and op.again.name == "!":
                until = op.again.args[0]
            fields["until"] = self.condition(until, f"{path}.while", around)
        if op.limit != MAX_ITERS:
            fields["max_iters"] = op.limit
        self.loops.append(fields)

    # --- expressions ------------------------------------------------------------------------------

    def bind(self, ref: Ref, path: str, around: Around) -> Expr:
        if ref.root == "out":
            id, *rest = ref.path
            path_written = self.output_paths.get(str(id), ())
            if tuple(rest[: len(path_written)]) != path_written:
                self.refuse(
                    path,
                    f"reads another part of {id!r} than it writes; an experience passes on only what a node writes",
                )
            return Ref("output", (id, *rest[len(path_written) :]))
        if ref.root == "status":
            return self.status(ref, path)
        if ref.root == "secret":
            return ref
        if ref.root not in ROOTS:
            self.refuse(path, f"an experience has no ${ref.root}")
            return Lit(None)
        return Ref(ROOTS[ref.root], ref.path)


def _nearest(body: Graph) -> dict[str, list[str]]:
    """Return what each node waits for, except for what those nodes wait for anyway, as listed in the body."""
    if body.ordered:
        return {id: list(needs) for id, needs in body.needs.items()}
    order = running_order(body)
    listed = {node.id: i for i, node in enumerate(body.nodes)}
    nearest: dict[str, list[str]] = {}
    for id, needs in body.needs.items():
        farther = 0
        for needed in needs:
            farther |= order.ancestors[needed]
        direct = [needed for needed in needs if not farther >> order.places[needed] & 1]
        nearest[id] = sorted(direct, key=listed.__getitem__)
    return nearest


def _width(body: Graph) -> int:
    """Return how many nodes run at once: the number of the widest block."""
    widths = [CONCURRENCY]
    if not body.ordered:
        widths = [body.limit or max(len(body.nodes), CONCURRENCY)]
    blocks = [node.op.body for node in body.nodes if isinstance(node.op, Block) and not node.op.body.ordered]
    for block in blocks:
        size = len(block.nodes)
        widths.append(min(block.limit or size, size))
    return max(widths)


def _within(node: Node) -> Iterator[Node]:
    yield node
    for body in bodies(node):
        yield from nodes_of(body)


def _noun(op: Any) -> str:
    return {Wait: "a wait", Compute: "a value", Sleep: "a delay", Loop: "an agent"}[type(op)]


def _is_loop(node: Node) -> bool:
    return isinstance(node.op, Loop) and agent_of(node.op, f"{node.id}.") is None


def _is_pipeline(node: Node) -> bool:
    return isinstance(node.op, Map) and len(node.op.body.nodes) > 1
