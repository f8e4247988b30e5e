"""Flows as experience graphs: tool calls with edges between them, and a declared state.

An experience gives its state, so the result of a flow that gives anything else is kept in the field `result`.
Refused are timeouts, policies of blocks, several nodes per item, and jumps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from ..expr.ast import NULL, Arr, Expr, Fn, Lit, Obj, Path, Ref
from ..frozen import dataclass
from ..ir import Channel, Graph, Node, OnError, bodies, nodes_of
from ..ops import Block, Call, Compute, Loop, Map, Sleep, Wait
from ..values import Json
from .agent_flow import MAX_ROUNDS, AgentParts, agent_of
from .experience import ANY, CONCURRENCY, KEYWORDS, MAX_ITERS, TYPES, read
from .experience_flow import ExperienceCompiler
from .experience_input import seeds
from .experience_prompt import is_path
from .experience_shape import Shaper
from .reshaping import RESULT, unchecked
from .writing import NO_TIMEOUT, POLICY, Fields, FlowWriter, first_items, milliseconds

HELD: Final[dict[type[Any], tuple[str, ...]]] = {
    Node: ("id", "op", "after", "when", "writes", "policy", "meta"),
    Call: ("tool", "args"),
    Compute: ("value",),
    Sleep: ("seconds",),
    Map: ("items", "body", "limit", "most"),
    Loop: ("body", "limit", "again", "collect"),
    **POLICY,
    OnError: ("value", "reported", "writes"),
}
ROOTS: Final = {name: name for name in ("input", "state", "item", "index", "error")} | {"round": "iteration"}
KEPT: Final = Obj(((RESULT, Ref("out", (RESULT,))),))
LEAVES: Final = (Call, Compute, Sleep, Wait)
NOTHING: Final[Fields] = {"kind": "value", "value": None}
"""A node that gives null, in place of a node that an experience cannot hold, or where there is none."""


@dataclass(frozen=True, slots=True)
class Around:
    """What a node stands in: its path, and the nodes that others wait for."""

    path: str = ""
    needed: frozenset[str] = frozenset()


class ExperienceWriter(FlowWriter[Around]):
    """Writes one flow as the document of an experience."""

    kind, held = "experience", HELD
    has_seeds = True

    def document(self) -> Fields:
        flow = self.flow
        if flow.output_schema is not None:
            self.refuse("output_schema", "outputSchema has no place in an experience")
        self.concurrency = _width(unchecked(flow.body))
        body = self._with_result(Shaper(self.free, self.refuse).shaped(unchecked(flow.body)))
        self.loops: list[Fields] = []
        self.pipelines: list[Fields] = []
        self.nodes: list[Fields] = []
        self.inside: dict[str, list[Fields]] = {"loop": [], "pipeline": []}
        self.edges: list[Fields] = []
        self.ways: dict[str, Path] = {}
        if flow.timeout is not None:
            self.refuse("timeout", f"an experience has {NO_TIMEOUT}")
        self._order(body)
        self.region(body, Around())
        schema = {name: self._field(name, channel) for name, channel in flow.state.items()}
        if body.result == KEPT:
            schema[RESULT] = {"type": ANY}
        runtime = {"runtime": {"concurrency": self.concurrency}} if self.concurrency != CONCURRENCY else {}
        nodes = [*self.nodes, *self.inside["loop"], *self.inside["pipeline"]]
        graph: Fields = {"nodes": nodes or [{"id": self.free("nothing"), **NOTHING}]}
        for key, parts in (("edges", self.edges), ("loops", self.loops), ("pipelines", self.pipelines)):
            if parts:
                graph[key] = parts
        start: Fields = {"kind": "experience", "name": flow.name, "version": "0.1.0"}
        made: Fields = {**start, **runtime, "state": {"schema": schema}, "graph": graph}
        self._input(made)
        return made

    def _input(self, made: Fields) -> None:
        """Declare the input where it is not what would be inferred."""
        flow, inferred = self.flow, ExperienceCompiler(read(made)).flow()
        if (flow.input_schema or inferred.input_schema, flow.seeds) == (inferred.input_schema, inferred.seeds):
            return
        declared = {"type": "object"} if flow.input_schema is None else flow.input_schema
        begun = [name for name in seeds(declared, flow.state) if name not in flow.seeds]
        if begun:
            what = f"its input would begin the state field {begun[0]!r}, which has the name of a member of the input"
            self.refuse("input_schema", what)
        made["inputSchema"] = declared

    def _with_result(self, body: Graph) -> Graph:
        """The graph with a node that keeps the result in the state, where the result is not the state."""
        state = Obj(tuple((name, Ref("state", (name,))) for name in self.flow.state))
        if body.result in (NULL, Ref("state"), state):
            return body
        if RESULT in self.flow.state or RESULT in self.ids:
            self.refuse("result", f"{RESULT!r} is already the id of a node or the name of a field; rename it")
            return replace(body, result=NULL)
        everything = frozenset(node.id for node in body.nodes)
        last = Node(id=RESULT, op=Compute(value=body.result), after=everything, writes=KEPT)
        return replace(body, nodes=(*body.nodes, last), result=KEPT)

    def _order(self, body: Graph) -> None:
        """An experience lists its nodes, then its loops, then its pipelines: writes fold in this order."""
        others = [node for node in body.nodes if node.writes != KEPT]  # which nothing else writes
        writers = [node for node in others if any(inner.writes is not None for inner in _within(node))]
        kinds = [1 if _is_loop(n) else 2 if _is_pipeline(n) else 0 for n in writers]
        if self.flow.state and kinds != sorted(kinds):
            self.refuse(
                "nodes", "writes in an experience fold nodes first, then loops, then pipelines; write it in this order"
            )

    def _field(self, name: str, channel: Channel) -> Fields:
        schema = {"type": ANY} if channel.schema is None else channel.schema
        kind = schema.get("type") if isinstance(schema, dict) and schema.keys() - {"type"} <= KEYWORDS else None
        if kind not in TYPES and schema != {"type": ANY}:
            self.refuse(f"state.{name}", f"a state field of an experience is declared as one of {', '.join(TYPES)}")
            schema = {"type": ANY}
        fields: Fields = dict(schema)
        if channel.reduce != "last_wins":
            fields["merge"] = channel.reduce
        return fields | ({"default": channel.initial} if channel.present else {})

    # --- regions and nodes ------------------------------------------------------------------------

    def region(self, body: Graph, around: Around) -> None:
        """Its nodes, and an edge for each that another waits for."""
        around = replace(around, needed=frozenset(id for needs in body.needs.values() for id in needs))
        for node in body.nodes:
            self.node(node, around)
            before = _nearest(node.id, body)
            self.edges += [{"from": other.id, "to": node.id} for other in body.nodes if other.id in before]

    def node(self, node: Node, around: Around) -> None:
        path = f"{around.path}{node.id}"
        op: Any = node.op
        agent = agent_of(op, f"{node.id}.") if isinstance(op, Loop) else None
        if agent is not None:
            self._agent(node, agent, around)
            return
        self._sound(node, path)
        if isinstance(op, LEAVES):
            self.nodes.append({"id": node.id, **self._leaf(node, around), **self._when(node, path, around)})
        elif isinstance(op, Map):
            self._map(node, op, around)
        elif isinstance(op, Loop):
            self._loop(node, op, around)
        else:
            self.refuse_op(node, path, "its nodes call tools and wait")
            self._nothing(node)

    def _nothing(self, node: Node) -> None:
        self.nodes.append({"id": node.id, **NOTHING})

    def _when(self, node: Node, path: str, around: Around) -> Fields:
        return {} if node.when is None else {"when": self.condition(node.when, f"{path}.when", around)}

    def _sound(self, node: Node, path: str) -> None:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", node.id, re.ASCII):
            self.refuse(path, "an id in an experience is letters, digits and underscores")
        if node.meta.hidden:
            self.refuse_hidden(node, path)
        if node.gate is not None:
            self.refuse(path, "a gate has no place in an experience")
        self.refuse_unheld(replace(node, gate=None), path)

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
            fields = {"kind": "wait", **self.wait(node, f"{path}.timeout", around)}
        if node.meta.description:
            fields["description"] = node.meta.description
        writes = self._writes(node, path)
        if "output" in writes or (writes and isinstance(op, Sleep)):
            self.refuse(path, f"{_called(op)} in an experience writes all that it gives, not a part of it")
            writes = {}
        return fields | writes | self._on_error(replace(node, policy=replace(node.policy, timeout=None)), path, around)

    def _delay(self, seconds: Expr, path: str) -> Json:
        if isinstance(seconds, Lit):
            return milliseconds(seconds.value)
        self.refuse(path, "how long an experience waits is a number, nothing that is worked out")
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
        if node.meta.description:
            fields["description"] = node.meta.description
        return fields | self._writes(node, path) | self._on_error(node, path, around)

    def _agent(self, node: Node, agent: AgentParts, around: Around) -> None:
        path = f"{around.path}{node.id}"
        self._sound(replace(node, op=Call(tool="", args=NULL), result=None), path)
        start = agent.start.items if isinstance(agent.start, Arr) else ()
        asked = dict(start[0].fields) if len(start) == 1 and isinstance(start[0], Obj) else {}
        if asked.get("role") != Lit("user") or node.result != Ref("out", (node.id, "answer")):
            self.refuse(path, "an agent in an experience has a prompt alone, and gives its answer")
        options = {key: value for key, value in agent.options.items() if key != "must_end"}
        for key in list(options):
            if key not in ("output_schema", "max_rounds", "model"):
                self.refuse(path, f"an agent in an experience has no {key}")
                del options[key]
        prompt = self.value(asked.get("content", NULL), f"{path}.prompt", around)
        if not isinstance(prompt, str) or not prompt.strip() or is_path(prompt):
            self.refuse(path, "an agent in an experience has a prompt that is a text and no path of a file")
            self._nothing(node)
            return
        fields: Fields = {"kind": "agent", "prompt": prompt}
        fields |= {"tools": agent.tools} if agent.tools else {}
        fields |= {key: value for key, value in options.items() if (key, value) != ("max_rounds", MAX_ROUNDS)}
        if node.meta.description:
            fields["description"] = node.meta.description
        writes = self._writes(node, path)
        if "output" in writes:
            self.refuse(path, "an agent in an experience writes all that it answers, not a part of it")
            writes = {}
        self.nodes.append({"id": node.id, **fields, **writes, **self._on_error(node, path, around)})

    def _writes(self, node: Node, path: str) -> Fields:
        writes = node.writes
        if writes is None:
            return {}
        if isinstance(writes, Obj) and len(writes.fields) == 1:
            name, value = writes.fields[0]
            if isinstance(value, Ref) and value.root == "out" and value.path[0] == node.id:
                way = self.ways[node.id] = value.path[1:]
                text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in way)
                return {**({"output": text.removeprefix(".")} if way else {}), "writes": [name]}
        self.refuse(path, "a call in an experience writes one field, with its output or a part of it")
        return {}

    def _on_error(self, node: Node, path: str, around: Around) -> Fields:
        policy = node.policy
        if policy.timeout is not None:
            self.refuse(path, "a node of an experience has no limit of time")
        if policy.on_error is not None:
            if policy.retry.attempts > 1:
                self.refuse(path, "a node of an experience is tried again, or its failure is handled, not both")
            return {"on_error": self._handled(node, policy.on_error, path, around)}
        retry = policy.retry
        if retry.attempts < 2:
            return {}
        grows = retry.attempts > 2 and retry.delay > 0
        if (grows and not retry.linear and retry.factor != 2) or retry.delay > retry.max_delay:
            self.refuse(path, "an experience waits linearly longer before each try, or twice as long")
        said: Fields = {"policy": "retry", "attempts": retry.attempts, "base_ms": milliseconds(retry.delay)}
        return {"on_error": {**said, **({"backoff": "linear"} if retry.linear else {})}}

    def _handled(self, node: Node, on_error: OnError, path: str, around: Around) -> Json:
        """What a failure leads to, when the node is not tried again."""
        writes = node.writes is not None
        if not on_error.reported:
            if writes and not on_error.writes:
                self.refuse(path, "what stands in for a failed node of an experience is written like its output")
            return {"policy": "fallback", "value": self.value(on_error.value, f"{path}.on_error", around)}
        if on_error.value != NULL:
            self.refuse(path, "a node of an experience whose failure is reported gives null (skip, continue)")
        if node.id not in around.needed and not (writes and on_error.writes):
            return "skip"
        if writes and not on_error.writes:
            self.refuse(path, "an experience skips whatever waits for a node that failed (skip)")
        return "continue"

    def _map(self, node: Node, op: Map, around: Around) -> None:
        path = f"{around.path}{node.id}"
        body, inside = op.body, Around(f"{path}/", frozenset(id for needs in op.body.needs.values() for id in needs))
        if node.writes is not None or node.policy != Node(id="", op=op).policy:
            self.refuse(path, "what is done per item has policies and writes, and the whole of it none")
        for inner in body.nodes:
            if not isinstance(inner.op, LEAVES):
                self.refuse_op(inner, f"{path}/{inner.id}", "per item it calls tools and waits")
                self._nothing(node)
                return
        if not body.nodes or body.result != Ref("out", (body.nodes[-1].id,)):
            self.refuse(path, "what is done per item gives what its last call gave, and computes nothing after it")
            self._nothing(node)
            return
        items = self.value(first_items(op), f"{path}.items", around)
        if op.limit is None:
            self.refuse(path, "an experience has a bound on how many items are done at once (concurrency)")
        if len(body.nodes) == 1:
            width = {} if op.limit == self.concurrency else {"concurrency": op.limit}
            [call] = body.nodes
            if call.when is not None:
                self.refuse(path, "per item an experience calls a tool always; put the condition into the items")
            self._sound(replace(call, id=node.id), path)
            fields = {**self._leaf(call, inside), **self._when(node, path, around)}
            self.nodes.append({"id": node.id, **fields, "for_each": {"source": items, **width}})
            return
        if around.path:
            self.refuse(path, "inside a loop of an experience each item has one call (for_each), not several")
            self._nothing(node)
            return
        if node.when is not None:
            self.refuse(path, "a pipeline or a loop of an experience has no condition")
        if op.limit != self.concurrency:
            self.refuse(path, f"a pipeline runs as many items at once as the whole experience: {self.concurrency}")
        if not body.ordered:
            self.refuse(path, "the stages of a pipeline stand in order")
        stages: list[Json] = []
        for inner in body.nodes:
            self._sound(inner, f"{path}/{inner.id}")
            own = {**self._leaf(inner, inside), **self._when(inner, f"{path}/{inner.id}", inside)}
            self.inside["pipeline"].append({"id": inner.id, **own})
            stages.append(inner.id)
        self.pipelines.append({"id": node.id, "items": items, "stages": stages})

    def _loop(self, node: Node, op: Loop, around: Around) -> None:
        path = f"{around.path}{node.id}"
        if node.when is not None:
            self.refuse(path, "a pipeline or a loop of an experience has no condition")
        if op.collect:
            self.refuse(path, "a loop in an experience gives what its last round gave, not the list of all rounds")
        if op.items is not None or op.until is not None or op.initial is not None or not op.body.nodes:
            self._nothing(node)
            return
        if around.path:
            self.refuse(path, "loops in an experience are at its top")
        given = Obj(tuple((inner.id, Ref("out", (inner.id, *self.ways.get(inner.id, ())))) for inner in op.body.nodes))
        top, self.nodes = self.nodes, self.inside["loop"]
        self.region(op.body, Around(f"{path}/"))
        self.nodes = top
        if op.body.result != given and node.id in around.needed:
            self.refuse(path, "a loop in an experience gives the outputs of its nodes by name")
        fields: Fields = {"id": node.id, "body": [inner.id for inner in op.body.nodes]}
        if op.again is not None:
            ends = op.again.args[0] if isinstance(op.again, Fn) and op.again.name == "!" else Fn("!", (op.again,))
            fields["until"] = self.condition(ends, f"{path}.while", around)
        if op.limit != MAX_ITERS:
            fields["max_iters"] = op.limit
        self.loops.append(fields)

    # --- expressions ------------------------------------------------------------------------------

    def bind(self, ref: Ref, path: str, around: Around) -> Expr:
        if ref.root == "out":
            id, *rest = ref.path
            way = self.ways.get(str(id), ())
            if tuple(rest[: len(way)]) != way:
                self.refuse(path, f"reads another part of {id!r} than it writes, which alone an experience hands on")
            return Ref("output", (id, *rest[len(way) :]))
        if ref.root == "status":
            return self.status(ref, path)
        if ref.root == "secret":
            return ref
        if ref.root not in ROOTS:
            self.refuse(path, f"an experience has no ${ref.root}")
            return Lit(None)
        return Ref(ROOTS[ref.root], ref.path)


def _nearest(id: str, body: Graph) -> set[str]:
    """What a node waits for, but for what those wait for anyway."""
    found = set(body.needs[id])
    above: set[str] = set()
    stack = [needed for near in found for needed in body.needs[near]]
    while stack:
        one = stack.pop()
        if one not in above:
            above.add(one)
            stack.extend(body.needs[one])
    return found - above


def _width(body: Graph) -> int:
    """How many nodes run at once: the widest block counts."""
    found = [CONCURRENCY]
    if not body.ordered:
        found = [body.limit or max(len(body.nodes), CONCURRENCY)]
    blocks = [node.op.body for node in body.nodes if isinstance(node.op, Block) and not node.op.body.ordered]
    return max(found + [min(block.limit or len(block.nodes), len(block.nodes)) for block in blocks])


def _within(node: Node) -> Iterator[Node]:
    yield node
    for body in bodies(node):
        yield from nodes_of(body)


def _called(op: Any) -> str:
    return {Wait: "a wait", Compute: "a value", Sleep: "a delay"}[type(op)]


def _is_loop(node: Node) -> bool:
    return isinstance(node.op, Loop) and agent_of(node.op, f"{node.id}.") is None


def _is_pipeline(node: Node) -> bool:
    return isinstance(node.op, Map) and len(node.op.body.nodes) > 1
