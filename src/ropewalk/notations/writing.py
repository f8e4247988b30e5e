"""Write flows as documents: the base class of the notations' writers, and rewrites that they share.

The writer of a notation subclasses `FlowWriter` and translates references of the graph in `bind`. It
reports everything that the notation cannot hold, each with the path of its node.

A node that can only be written in part would do something else than the original, so it is left out
and gives null (`without_nodes`). Other functions here change the shape of a flow, but neither its
calls nor its value.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Final, Generic, TypeGuard, TypeVar

from ..codec import set_fields
from ..errors import ExpressionError, InvalidFlow, Problem
from ..expr.ast import NULL, Each, Expr, Fn, Lit, Obj, Ref, Var, rebind, refs, select
from ..expr.unlift import text_of, unlift
from ..ir import NO_POLICY, Flow, Graph, Node, OnError, Policy, Retry, bodies, nodes_of, parts
from ..ops import Block, Branch, Call, Compute, Loop, Map, Validate, Wait
from ..problems import MOST_PROBLEMS, Warnings
from ..values import Json
from .fields import variable
from .node_fields import MAX_RETRIES, NODE_FIELDS, RETRY_DELAY, detach, own_output


class ConvertedDocument(dict[str, Json]):
    """A document that was converted to another notation."""

    # `losses` are the parts of the definition that it leaves out or does differently, each a `Problem` with its place.
    # `dict(it)` is the plain document, for `yaml.safe_dump`.

    losses: tuple[Problem, ...] = ()


def node_paths(body: Graph, around: str = "") -> set[str]:
    """Return the path of every node of a flow, at every level (`each/call`)."""
    paths = set()
    for node in body.nodes:
        path = around + node.id
        paths.add(path)
        for inner in bodies(node):
            paths |= node_paths(inner, f"{path}/")
    return paths


def node_at(paths: Collection[str], place: str) -> str | None:
    """Return the path of the innermost node that contains a place such as `each/call.args`; None if there is none."""
    innermost = ""
    for segment in place.replace(".", "/").split("/"):
        path = f"{innermost}/{segment}" if innermost else segment
        if path not in paths:
            break
        innermost = path
    return innermost or None


def without_nodes(flow: Flow, paths: Collection[str]) -> Flow:
    """Return the flow with null in place of some nodes, so that whatever reads them still has a value."""
    around = {path[:end] for path in paths for end, letter in enumerate(path) if letter == "/"}
    return replace(flow, body=_replace_in_graph(flow.body, "", (paths, around)))


LostNodes = tuple[Collection[str], Collection[str]]  # paths of nodes that are left out, and of the nodes around them


def _replace_in_graph(body: Graph, prefix: str, lost_nodes: LostNodes) -> Graph:
    return replace(body, nodes=tuple(_replace_in_node(node, prefix + node.id, lost_nodes) for node in body.nodes))


def _replace_in_node(node: Node, path: str, lost_nodes: LostNodes) -> Node:
    left_out, around = lost_nodes
    if path in left_out:
        return Node(id=node.id, op=Compute(value=NULL), after=node.after, meta=replace(node.meta, hidden=False))
    if path in around:
        return replace(node, op=_replace_in(node.op, f"{path}/", lost_nodes))
    return node


def _replace_in(value: Any, prefix: str, lost_nodes: LostNodes) -> Any:
    if isinstance(value, Graph):
        return _replace_in_graph(value, prefix, lost_nodes)
    if type(value) is tuple:
        return tuple(_replace_in(item, prefix, lost_nodes) for item in value)
    op: Any = value
    if hasattr(op, "__dataclass_fields__") and bodies(Node(id="", op=op)):
        fields: dict[str, Any] = {}
        for field in dataclasses.fields(op):
            inner = getattr(op, field.name)
            if isinstance(inner, (Graph, tuple)):
                fields[field.name] = _replace_in(inner, prefix, lost_nodes)
        return replace(op, **fields)
    return value


PARALLEL: Final = "parallel"
"""The id of the node in a composition that holds all nodes of a flow that run concurrently."""


def simplify_choices(body: Graph) -> Graph:
    """Return the body with each choice that always takes the same branch replaced by that branch's value."""

    # A composition writes plain values as such choices; other notations do not need them.
    return replace(body, nodes=tuple(replace(node, op=_simplify_op(node.op)) for node in body.nodes))


def _simplify_op(op: Any) -> Any:
    match op:
        case Branch(arms=((Lit(value=True), Graph(nodes=()) as chosen), *_)):
            return Compute(value=chosen.result)
        case Branch():
            arms = tuple((test, simplify_choices(body)) for test, body in op.arms)
            return replace(op, arms=arms, default=simplify_choices(op.default) if op.default is not None else None)
        case Block() | Map() | Loop():
            return replace(op, body=simplify_choices(op.body))
    return op


def unwrap_parallel(body: Graph) -> Graph:
    """Return the nodes of a body whose only node runs them concurrently; return any other body unchanged."""

    # A composition has this parallel node where a chain has a mode.
    node = body.nodes[0] if len(body.nodes) == 1 else None
    if node is None or not isinstance(node.op, Block) or node != Node(id=node.id, op=node.op):
        return body
    inner = node.op.body
    if inner.ordered or inner.result != outputs(inner) or not (node.id == PARALLEL or any(inner.needs.values())):
        return body
    if body.result == Ref("out", (node.id,)):
        return inner
    if any(ref.root == "prev" or (ref.root == "out" and len(ref.path) < 2) for ref in refs(body.result)):
        return body

    def outside(ref: Ref) -> Ref:
        return replace(ref, path=ref.path[1:]) if ref.root == "out" else ref

    return replace(inner, result=rebind(body.result, outside))


def split_result(node: Node, unique_id: Callable[[str], str]) -> Node:
    """Split a node with a computed value into a block of the call and the computation."""
    value = node.result
    assert value is not None
    call = Node(id=unique_id(f"{node.id}_call"), op=node.op)
    previous: tuple[Node, ...] = ()
    if any(ref.root == "prev" for ref in refs(value)):
        previous = (Node(id=unique_id(f"{node.id}_data"), op=Compute(value=Ref("prev"))),)

    def bind_inside(ref: Ref) -> Expr:
        if ref.root == "prev":
            return replace(ref, root="out", path=(previous[0].id, *ref.path))
        if ref.root == "out" and ref.path[:1] == (node.id,):
            return replace(ref, path=(call.id, *ref.path[1:]))
        return ref

    last = Node(id=unique_id(f"{node.id}_value"), op=Compute(value=rebind(value, bind_inside)))
    body = Graph(nodes=(*previous, call, last), result=Ref("out", (last.id,)), ordered=True)
    return replace(node, op=Block(body=body), result=None)


def sorted_nodes(body: Graph) -> tuple[list[Node], bool]:
    """Return the nodes of a body in an order of running, and True if it is the only one."""
    if body.ordered or len(body.nodes) < 2:
        return list(body.nodes), True
    place = {node.id: i for i, node in enumerate(body.nodes)}
    missing = {id: len(needs) for id, needs in body.needs.items()}
    following: dict[str, list[str]] = {}
    for id, needs in body.needs.items():
        for needed in needs:
            following.setdefault(needed, []).append(id)
    # Ready nodes run in the order of the document.
    ready = [place[id] for id, count in missing.items() if not count]
    heapq.heapify(ready)
    ordered, is_only_order = list[Node](), True
    while ready:
        is_only_order = is_only_order and len(ready) == 1
        node = body.nodes[heapq.heappop(ready)]
        ordered.append(node)
        for id in following.get(node.id, ()):
            missing[id] -= 1
            if not missing[id]:
                heapq.heappush(ready, place[id])
    return ordered, is_only_order


def iterations_are_independent(body: Graph) -> bool:
    """Return True if sequential iterations do the same in a loop as in a map."""

    # In a loop each iteration sees the writes of the one before; in a map all see the state from before it.
    #
    # `body`: The region of a loop.
    return not any(node.writes is not None for node in nodes_of(body)) and not (body.roots & {"round", "prev"})


def without_output_check(body: Graph) -> Graph:
    """Return the body without the hidden node that checks the output of a composition."""
    last = body.nodes[-1] if body.nodes else None
    if last is not None and last.meta.hidden and isinstance(last.op, Validate):
        return replace(body, nodes=body.nodes[:-1], result=last.op.value)
    return body


def outputs(body: Graph) -> Expr:
    """Return the object of all outputs, which is the value of a region without a result of its own."""
    return Obj(tuple((node.id, Ref("out", (node.id,))) for node in body.nodes))


Fields = dict[str, Json]
Around = TypeVar("Around")
"""What surrounds a node, as far as the meaning of references depends on it."""

POLICY: Mapping[type[Any], tuple[str, ...]] = {
    Policy: ("retry", "timeout", "on_error"),
    Retry: ("attempts", "delay", "factor", "linear", "max_delay"),
    OnError: ("value", "reported"),
}


WORDS: Mapping[tuple[str, str], str] = {
    ("node", "result"): "a value computed from a tool's result (gives, outputMapping)",
    ("node", "writes"): "a write to the state (writes, into)",
    ("node", "gate"): "a gate",
    ("call", "also"): "the extra inputs of a module",
    ("onerror", "writes"): "the writes of a failed node",
    ("onerror", "reported"): "a reported failure (continue)",
    ("loop", "again"): "a condition before each iteration (while)",
    ("loop", "until"): "a condition after each iteration (until)",
    ("loop", "initial"): "an initial value (fold, reduce)",
    ("map", "select"): "a tool that filters elements (select, filter)",
}
"""Readable names of fields of the graph; other fields are called by their own names."""

DIRECTORY_NAMESPACES = ("impl", "dataset", "experience", "cli-agent")
"""The namespaces of tools that are files of an experience."""
_DIRECTORY_CALL = "calls {!r}, which exists only in the directory of an experience"


LEFT_OUT = "is left out and gives null, because it would do something else without its lost parts"
_DECISIVE = ("when", "gate", "also")
"""The fields of a node that decide if and with what it runs; without them it is left out."""


class FlowWriter(Generic[Around]):
    """Write one flow; `problems` grow as it goes."""

    kind: ClassVar[str]
    """The notation, for messages: "chain"."""
    supported: ClassVar[Mapping[type[Any], tuple[str, ...]]]
    """The fields of nodes, ops and policies that the writer supports; any other that is set is refused."""
    null_node: ClassVar[Fields] = {}
    """The fields of a node that gives null, in place of one that the notation cannot hold."""
    keys: ClassVar[Mapping[str, str]] = {
        "timeout": "timeout",
        "input_schema": "inputSchema",
        "output_schema": "outputSchema",
    }
    """Fields of a flow, each with its key in documents of the notation."""
    has_seeds: ClassVar[bool] = False
    """True if fields of the state can begin with members of the input."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.problems: list[Problem] = Warnings()  # drops those past the limit
        self.ids = set(node_ids(flow.body))
        self.refusals = 0  # counts every refusal, also those that `problems` drops
        self.incomplete: set[str] = set()
        """The paths of nodes that would do something else than the original, because a part of them is lost."""
        self.document_only: dict[
            str, str
        ] = {}  # by path of a node that only the document has: the node of the flow it belongs to

    def document(self) -> Fields:
        """Make the fields of the document that only this notation has."""

        # Everything that the notation cannot hold is refused.
        raise NotImplementedError

    def bind(self, ref: Ref, path: str, around: Around) -> Expr:
        """Return the expression in the document that a reference of the graph stands for."""
        raise NotImplementedError

    def _document(self) -> Fields:
        """Make the document, with the fields that every notation has."""
        own, flow = self.document(), self.flow
        fields: Fields = {"kind": self.kind, "name": flow.name}
        for name, key in (*self.keys.items(), ("undo", "undo"), ("budget", "budget")):
            value = getattr(flow, name)
            if value is not None:
                fields[key] = milliseconds(value) if key == "timeout" else value
        return {**fields, **own}

    @classmethod
    def write(cls, flow: Flow, losses: list[Problem] | None = None) -> Fields:
        """Return the document."""
        flow = replace(flow, body=simplify_choices(without_output_check(flow.body)))
        writer = cls(flow)
        document = writer._document()
        for name in () if cls.has_seeds else flow.seeds:
            message = (
                f"starts with the property {name!r} of the input if present; a {cls.kind} always starts with the "
                "default"
            )
            writer.refuse(f"state.{name}", message)
        # Without a list for the losses, any loss is an error.
        problems = list(dict.fromkeys(writer.problems))
        if losses is None:
            if problems:
                raise InvalidFlow(problems)
            return document
        lost_ids: set[str] = set()
        # Leaving out a node may make another one possible to write, so the rest is written again.
        paths = node_paths(flow.body)
        while more := {at for path in writer.incomplete if (at := node_at(paths, path)) is not None} - lost_ids:
            lost_ids |= more
            writer = cls(without_nodes(flow, lost_ids))
            document = writer._document()
            problems += [problem for problem in writer.problems if node_at(paths, problem.path) not in lost_ids]
        problems += [Problem(path=path, message=LEFT_OUT) for path in sorted(lost_ids)]
        losses += dict.fromkeys(problems)
        return document

    # --- what is refused ------------------------------------------------------------------------

    def refuse(self, path: str, message: str, *, decisive: bool = False) -> None:
        """Report a part of the flow that the notation cannot hold."""

        # `decisive`: True if the node must be left out because of it.
        self.refusals += 1
        if len(self.problems) >= MOST_PROBLEMS and not decisive:
            return  # finding the author's path takes time
        path = self._author_path(path)
        self.problems.append(Problem(path=path, message=message))
        if decisive:
            self.incomplete.add(path)

    def _author_path(self, path: str) -> str:
        """Return the path in the author's flow of a node that may exist only in the document."""
        end = 0
        while end < len(path):
            ends = [at for at in (path.find(".", end + 1), path.find("/", end + 1)) if at >= 0]
            end = min(ends, default=len(path))
            own_path = self.document_only.get(path[:end])
            if own_path is not None:
                path, end = own_path + path[end:], 0
        return path

    @contextmanager
    def entire(self, path: str) -> Iterator[None]:
        """Mark the place of a value as incomplete if a part of it is refused; null would be another value."""
        before = self.refusals
        yield
        if self.refusals > before:
            self.incomplete.add(self._author_path(path))

    def refuse_unsupported(self, node: Node, path: str) -> None:
        """Refuse the fields of a node that the notation cannot express."""
        if isinstance(node.op, Call) and node.op.tool.partition(":")[0] in DIRECTORY_NAMESPACES:
            self.refuse(path, _DIRECTORY_CALL.format(node.op.tool))
        for value in (node, node.op, node.policy, node.policy.retry, node.policy.on_error):
            known = self.supported.get(type(value))
            for name in set_fields(value):
                if known is not None and name not in known:
                    of = type(value).__name__.lower()
                    label = node.meta.labels.get(name) if value is node.op else None
                    message = WORDS.get((of, name), f"{label or name!r} of a {of}")
                    self.refuse(path, f"{self.kind}s cannot express {message}", decisive=name in _DECISIVE)

    def refuse_hidden(self, node: Node, path: str) -> None:
        """Refuse a hidden node, which belongs to another notation."""
        message = node.meta.labels.get("hidden", "a hidden node")
        self.refuse(path, f"{'an' if self.kind[0] in 'aeiou' else 'a'} {self.kind} cannot hold {message}")

    def refuse_op(self, node: Node, path: str, instead: str = "") -> None:
        """Refuse a node of a type that the notation does not have; `instead` names what it has."""
        kind = type(node.op).__name__.lower()
        message = f"{self.kind}s have no {node.meta.labels.get(kind, kind)} nodes"
        self.refuse(path, f"{message}; {instead}" if instead else message)

    # --- values ---------------------------------------------------------------------------------

    def unique_id(self, id: str) -> str:
        """Return an id that no other node has, for a node that only the document needs."""
        while id in self.ids:
            id += "_"
        self.ids.add(id)
        return id

    def bind_refs(self, expr: Expr, path: str, around: Around) -> Expr:
        """Return an expression with its references in the words of the document."""
        return rebind(expr, lambda ref: self.bind(ref, path, around))

    def value(self, expr: Expr, path: str, around: Around) -> Json:
        """Return a value as JSON with references."""
        with self.entire(path):
            try:
                return unlift(self.bind_refs(expr, path, around))
            except ExpressionError as wrong:
                self.refuse(path, wrong.message)
                return None

    def condition(self, expr: Expr, path: str, around: Around) -> Json:
        """Return the text of a condition, or a boolean."""
        if isinstance(expr, Lit) and type(expr.value) is bool:
            return expr.value
        with self.entire(path):
            try:
                return text_of(self.bind_refs(expr, path, around))
            except ExpressionError as wrong:
                self.refuse(path, wrong.message)
                return False

    def transform(self, expr: Expr, path: str, around: Around) -> tuple[str, Fields, Expr] | None:
        """Return the type, the config and the input of the transform that a value is; None if it is none."""
        from ..expr.unlift import untransform

        with self.entire(path):
            try:
                return untransform(self.bind_refs(expr, path, around))
            except ExpressionError:
                return None  # reported when the value is written as an expression

    def output(self, ref: Ref, root: str = "output", name: str | int | None = None) -> Expr:
        """Return a reference to a node's output."""

        # A leading `output` in a path is skipped by readers if the value has no such member; functions avoid that.
        head, *rest = (ref.path[0] if name is None else name, *ref.path[1:])
        if ref.elide or rest[:1] != ["output"]:
            return Ref(root, (head, *rest))
        expr: Expr = Fn("coalesce", (Ref(root, (head,)),))
        for key in rest:
            expr = select(expr, key)
        return expr

    def status(self, ref: Ref, path: str) -> Expr:
        """Refuse a reference to the status of a node."""
        self.refuse(path, f"{self.kind}s cannot read the status of {ref.path[0]!r}")
        return NULL

    # --- fields that every notation has -----------------------------------------------------------

    def nodes_and_result(self, nodes: list[Fields], value: Expr, default: Expr, around: Around) -> Fields:
        """Return the nodes, and the result unless it is the value that the notation has without one."""
        if not nodes:  # which no document may be without
            nodes, default = [{"id": self.unique_id("nothing"), **self.null_node}], Ref("")
        return {"nodes": nodes, **self.result(value, default, around)}

    def result(self, value: Expr, default: Expr, around: Around) -> Fields:
        """Return the result of the document, unless it is the value that the notation has without one."""
        return {} if value == default else {"result": self.nullable(value, "result", around)}

    def nullable(self, value: Expr, path: str, around: Around) -> Json:
        """Return a value for a field where null counts as absent."""
        return "${null}" if value == NULL else self.value(value, path, around)

    def common_fields(self, node: Node, path: str, around: Around, failed: Expr = NULL) -> Fields:
        """Return the fields that nodes of every notation have; `failed` is the value of a skipped failure."""
        fields: Fields = {}
        if node.when is not None:
            fields[self.word("when")] = self.condition(node.when, f"{path}.when", around)
        if node.meta.description:
            fields["description"] = node.meta.description
        if node.meta.phase is not None:
            fields["phase"] = node.meta.phase
        return fields | self.policy(node, path, around, failed) | self.written_field(node, path)

    def word(self, field: str) -> str:
        """Return the word of the notation for a field of nodes."""
        return NODE_FIELDS[field].word(self.kind)

    def policy(self, node: Node, path: str, around: Around, failed: Expr) -> Fields:
        """Return the timeout of a node and the handling of its failures."""
        policy, retry = node.policy, node.policy.retry
        fields: Fields = {}
        if policy.timeout is not None and isinstance(node.op, Wait):
            self.refuse(path, "a wait node uses its own timeout, not that of a call")
        elif policy.timeout is not None:
            fields["timeout"] = milliseconds(policy.timeout)
        word, value = "", None
        if policy.on_error is not None:
            word, value = self.failure(node, policy.on_error, path, around, failed)
        backoff = self._backoff(retry, path)
        details: Fields = {} if value is None else {"value": self.value(value, f"{path}.fallback", around)}
        if backoff and (backoff != "constant" or self.kind == "experience" or (self.kind == "chain" and word)):
            details |= {"attempts": retry.attempts, "delay": milliseconds(retry.delay)}
            if backoff != "exponential" and retry.attempts > 2:
                details["backoff"] = backoff
        elif backoff:  # the same pauses: `maxRetries` counts the attempts after the first
            word = word or ("retry" if self.kind == "chain" else "")
            if retry.attempts != 1 + MAX_RETRIES or self.kind != "chain":
                fields["maxRetries"] = retry.attempts - 1
            if milliseconds(retry.delay) != RETRY_DELAY:
                fields["retryDelay"] = milliseconds(retry.delay)
        if details.keys() == {"value"} and (word == "fallback" or self.kind != "chain") and self.kind != "experience":
            fields["fallback"] = details.pop("value")
        if details:
            fields[self.word("on_error")] = {"policy": word or "retry", **details}
        elif word:
            fields["errorStrategy" if self.kind == "chain" else self.word("on_error")] = word
        return fields

    def failure(
        self, node: Node, on_error: OnError, path: str, around: Around, failed: Expr
    ) -> tuple[str, Expr | None]:
        """Return the policy of a node whose failure does not end the run, and the value that it then has."""
        value = None if on_error.value == failed else on_error.value
        if on_error.reported:
            return "continue", value
        return ("skip", None) if value is None else ("fallback", value)

    def _backoff(self, retry: Retry, path: str) -> str:
        """Return how the pauses of a node grow, "" if it has one attempt."""
        if retry.attempts < 2:
            return ""
        longest = retry.attempts - 1
        if retry.pause(longest) != replace(retry, max_delay=Retry().max_delay).pause(longest):
            self.refuse(path, f"pauses between attempts are limited to {Retry().max_delay:.0f} seconds (max_delay)")
        if retry.linear:
            return "linear"
        if retry.factor in (1.0, 2.0):
            return "constant" if retry.factor == 1 else "exponential"
        if retry.attempts > 2 and retry.delay:
            self.refuse(path, "pauses between attempts stay the same, grow linearly or double (factor)")
        return "constant"

    def without_wait(self, node: Node, path: str, around: Around) -> tuple[Node, Fields]:
        """Return the work of a node that waits first, and the wait as a field."""
        work, wait = detach(node)
        return work, {} if wait is None else {"wait": self.wait(wait, f"{path}.wait", around)}

    def wait(self, op: Wait, path: str, around: Around) -> Fields:
        """Return an event or approval to wait for, and the timeout in milliseconds."""
        word, text = ("event", op.event) if op.event is not None else ("approval", op.approval)
        fields: Fields = {word: self.value(text or NULL, f"{path}.{word}", around)}
        if isinstance(op.timeout, Lit):
            return {**fields, "timeout": milliseconds(op.timeout.value)}
        if op.timeout is not None:
            self.refuse(f"{path}.timeout", f"how long a {self.kind} waits must be a number, not an expression")
        return fields

    def for_each(self, node: Node, op: Map, path: str, around: Around, width: int) -> tuple[Node, Fields]:
        """Return the node that a map repeats in place of the map, and the field for_each."""
        [inner] = op.body.nodes
        if node.policy != NO_POLICY:
            self.refuse(path, "the error policy of a node with for_each is that of each item, not of the whole")
        repeated = replace(inner, id=node.id, result=own_output(inner.result, inner.id, node.id), writes=node.writes)
        meta = replace(inner.meta, description=node.meta.description or inner.meta.description)
        repeated = replace(repeated, after=node.after, gate=node.gate, when=node.when, meta=meta)
        return repeated, self.items_of(op, path, around, width)

    def items_of(self, op: Map, path: str, around: Around, width: int) -> Fields:
        """Return the field for_each of a node that a map repeats."""
        fields: Fields = {"items": self.value(items_expr(op), f"{path}.items", around)}
        if op.limit is None:
            self.refuse(path, "for_each needs a limit on concurrent items (concurrency)")
        elif op.limit != width:
            fields["concurrency"] = op.limit
        return {"for_each": fields}

    def written_field(self, node: Node, path: str) -> Fields:
        """Return the variable that keeps the node's output."""
        writes = node.writes
        if writes is None:
            return {}
        if isinstance(writes, Obj) and len(writes.fields) == 1 and writes.fields[0][1] == Ref("out", (node.id,)):
            problems: list[Problem] = []
            variable(writes.fields[0][0], path, problems)
            for problem in problems:
                self.refuse(path, problem.message)
            return {} if problems else {self.word("writes"): writes.fields[0][0]}
        self.refuse(
            path,
            f"a {self.kind}'s node sets one variable, to its own output; compute the other value in a node of its own",
        )
        return {}

    def variables(self) -> Fields:
        """Return the state as variables: without types, and with the last write as the value."""
        variables: Fields = {}
        for name, channel in self.flow.state.items():
            path = f"state.{name}"
            if channel.reduce != "last_wins":
                self.refuse(
                    path,
                    f"{self.kind} variables support only last-write-wins; reducer {channel.reduce!r} is not supported",
                )
            if channel.schema is not None:
                self.refuse(path, f"{self.kind} variables have no type; remove it")
            if channel.present:
                variables[name] = channel.initial
        return {"variables": variables} if variables else {}


def directory_call_problems(body: Graph, path: str = "") -> Iterator[Problem]:
    """Yield a problem for each call of a tool that is a file of an experience."""
    for node in body.nodes:
        if isinstance(node.op, Call) and node.op.tool.partition(":")[0] in DIRECTORY_NAMESPACES:
            yield Problem(path=f"{path}{node.id}", message=_DIRECTORY_CALL.format(node.op.tool))
        for _, part in parts(node.op):
            if isinstance(part, Graph):
                yield from directory_call_problems(part, f"{path}{node.id}/")


def node_ids(body: Graph) -> Iterator[str]:
    """Yield the ids of all nodes, at every level."""
    for node in body.nodes:
        yield node.id
        for _, part in parts(node.op):
            if isinstance(part, Graph):
                yield from node_ids(part)


def as_map(op: Any) -> Any:
    """Return a loop over items that hand nothing on as a map of one item at a time; any other op as it is."""
    if not isinstance(op, Loop) or op.items is None or not op.collect or not iterations_are_independent(op.body):
        return op
    if op.again is not None or op.until is not None or op.initial is not None:
        return op
    return Map(items=op.items, body=op.body, limit=1, most=op.limit)


def is_repeated(op: Any) -> TypeGuard[Map]:
    """Return True for a map that repeats one node, under no condition of its own, and gives all outputs."""
    if not isinstance(op, Map) or op.select or len(op.body.nodes) != 1:
        return False
    [inner] = op.body.nodes
    is_bare = inner.when is None and inner.gate is None and inner.writes is None
    return is_bare and op.body.result == Ref("out", (inner.id,))


def items_expr(op: Map) -> Expr:
    """Return the items of a map, limited by an expression, for notations without `most`."""
    if op.most is None:
        return op.items
    return Each("filter", op.items, ("$item", "$index"), Fn("<", (Var("$index"), Lit(op.most))))


def milliseconds(seconds: float) -> int | float:
    """Return seconds as a number of milliseconds that is read as the same seconds."""
    exact = seconds * 1000
    rounded = round(exact)
    return rounded if rounded / 1000 == seconds else exact
