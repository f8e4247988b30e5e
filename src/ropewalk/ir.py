"""The flow: the graph that every notation compiles to.

A Flow owns a tree of acyclic regions (`Graph`). Choice and repetition are operations with regions as bodies, so
cancellation and timeouts nest, every position has a stable path, and state changes only through channels with reducers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any, Final, Protocol, TypeAlias

from .expr.ast import NULL, Arr, Each, Expr, Fn, Lit, Obj, Ref, Var
from .fast_dataclass import dataclass
from .values import Json

DERIVED: Final = {"derived": True}
"""The metadata of a field that follows from the others: neither documents of flows nor their fingerprints have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """At most `attempts` attempts, including the first."""

    # The second attempt starts `delay` seconds after the first failed. Each further pause is longer: times `factor`, or
    # with `linear` times the number of the attempt. No pause is longer than `max_delay` seconds.

    attempts: int = 1
    delay: float = 0.0
    factor: float = 1.0
    linear: bool = False
    max_delay: float = 3600.0

    def pause(self, failed: int) -> float:
        """Return the seconds to wait after attempt number `failed`, counted from 1."""
        seconds = self.delay * (failed if self.linear else self.factor ** (failed - 1))
        return min(seconds, self.max_delay)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnError:
    """The fallback of a node that has failed for good."""

    # `value` replaces the value of the node, and can read `$error`. A `reported` failure is listed in the errors of the
    # run and makes the run partial; otherwise it counts as handled. Without `writes`, the node does not update the
    # state.

    value: Expr = NULL
    reported: bool = False
    writes: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a node handles time and failure: `timeout` is in seconds per attempt; without `on_error` a failure fails the
    region.
    """

    retry: Retry = Retry()
    timeout: float | None = None
    on_error: OnError | None = None


NO_POLICY = Policy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """Descriptions of a node that do not change its behaviour; they are not part of the fingerprint."""

    # `source` is the node's path in its document (`nodes[2]`). `labels` maps a field here to the document's name for it
    # (`{"args": "params"}`), so that problems use the user's words.

    source: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    description: str = ""
    phase: str | None = None
    reads: tuple[str, ...] = ()
    hidden: bool = False
    name: str = ""
    """The name that people use, if a notation made the id."""
    writes: tuple[str, ...] = ()
    """The channels that it is expected to write, if its `writes` does not show them."""
    reached: str = ""
    """The meaning of its gate in the words of the document."""
    failing: str = ""
    """The meaning of its `on_error` in the words of the document."""


NO_META = Meta()


class Op(Protocol):
    """One kind of work: a frozen dataclass."""

    # Fields that hold an Expr are its inputs, and fields that hold a Graph are its regions. Checker, codec and drawing
    # read both from the dataclass.

    def compile(self, site: Site, /) -> Step:
        """Compile the work; called once per program, never per run."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One position in a region.

    It starts when every node in `after`, and every sibling that it reads, is decided. A false `gate` makes it *dead*
    (not reached), a false `when` makes it *skipped*; either way its value is null. `result` makes the node's value from
    the value of the op, which it sees as the node's output. `writes` makes state updates `{channel: update}` and sees
    the node's own output.
    """

    id: str
    op: Op
    after: frozenset[str] = frozenset()
    gate: Expr | None = None
    when: Expr | None = None
    result: Expr | None = None
    writes: Expr | None = None
    policy: Policy = NO_POLICY
    meta: Meta = field(default=NO_META, compare=False)


@dataclass(frozen=True, kw_only=True)
class Graph:
    """An acyclic region: `nodes`, and the expression of its value.

    `ordered` runs the nodes one after another as listed, and gives meaning to the root `prev`: the value of the last
    node that ran (in the first node: of the last one before the region). Otherwise the edges are `after` and every
    reference to a sibling, and at most `limit` nodes run at once.
    """

    nodes: tuple[Node, ...]
    result: Expr = NULL
    ordered: bool = False
    limit: int | None = None

    @cached_property
    def needs(self) -> Mapping[str, frozenset[str]]:
        """The siblings after which each node starts; the check reports unknown names."""
        ids = [node.id for node in self.nodes]
        if self.ordered:
            return {id: frozenset(ids[i - 1 : i]) for i, id in enumerate(ids)}
        ids_here, nodes_with_refs = set(ids), zip(self.nodes, self._refs, strict=True)
        return {node.id: ((node.after | siblings_read(refs)) & ids_here) - {node.id} for node, refs in nodes_with_refs}

    @cached_property
    def roots(self) -> frozenset[str]:
        """The roots of all references in the region, including regions inside it."""
        return frozenset(ref.root for refs in (*self._refs, refs_inside(self.result)) for ref in refs)

    @cached_property
    def _refs(self) -> tuple[list[Ref], ...]:
        """The references of each node, collected once, because the check and each program need them."""
        return tuple(refs_inside(node) for node in self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A named piece of state: its JSON Schema, the reducer that folds updates in, and its initial value."""

    schema: Json = None
    reduce: str = "last_wins"
    initial: Json = None
    present: bool = True
    """False: the channel has no value until something is written (no default was declared)."""


@dataclass(frozen=True, kw_only=True)
class Flow:
    """A complete definition.

    `timeout` is in seconds. A channel in `seeds` starts with the member of the input that has its name. `undo` is
    "on_failure" for a flow whose runs are undone by themselves when they do not complete. None: the project decides.
    `budget` has limits of each run: calls, seconds, tokens, cost.
    """

    name: str
    body: Graph
    state: Mapping[str, Channel] = field(default_factory=dict)
    input_schema: Json = None
    output_schema: Json = None
    timeout: float | None = None
    seeds: tuple[str, ...] = ()
    undo: str | None = None
    budget: Mapping[str, float] | None = None


Writes: TypeAlias = Sequence[tuple[str, Json]]


class Yield:
    """The result of one run of a region: a value, and state updates in their fixed order."""

    __slots__ = ("value", "writes")

    def __init__(self, value: Json, writes: Writes = ()) -> None:
        self.value, self.writes = value, writes

    def __repr__(self) -> str:
        return f"Yield({self.value!r}, {self.writes!r})"


_LEAVES: frozenset[Any] = frozenset((Lit, Ref, Var, Obj, Arr, Fn, Each, Graph))
_PLAIN = frozenset(
    f"{kind}{none}" for kind in ("str", "int", "float", "bool", "frozenset[str]", "Json") for none in ("", " | None")
)
_part_fields: dict[type[Any], tuple[str, ...]] = {}
_enters: dict[type[Any], bool] = {}
_OUTPUTS = frozenset(("out", "status"))


def part_fields(kind: type[Any]) -> tuple[str, ...]:
    """Name the fields of an op's dataclass that may hold an expression or a region."""

    # They are read once per type: reflecting on every node would dominate the check of a large flow.
    names = _part_fields.get(kind)
    if names is None:
        fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
        names = _part_fields[kind] = tuple(f.name for f in fields if f.type not in _PLAIN and f.metadata != DERIVED)
    return names


def parts(value: Any, at: str = "") -> Iterator[tuple[str, Expr | Graph]]:
    """Yield the expressions and regions of an op, policy or tuple, each with its field (`args`, `arms[0][1]`)."""
    if type(value) in _LEAVES:
        yield at, value
    elif type(value) is tuple:
        for i, item in enumerate(value):
            yield from parts(item, f"{at}[{i}]")
    else:
        for name in part_fields(type(value)):
            inner = getattr(value, name)
            if type(inner) in _LEAVES:
                yield (f"{at}.{name}" if at else name), inner
            elif inner is not None:
                yield from parts(inner, f"{at}.{name}" if at else name)


def node_parts(node: Node) -> Iterator[tuple[str, Expr | Graph]]:
    """Yield everything that a node evaluates or enters, with the name of its field."""
    if node.gate is not None:
        yield "gate", node.gate
    if node.when is not None:
        yield "when", node.when
    yield from parts(node.op)
    if node.result is not None:
        yield "result", node.result
    if node.writes is not None:
        yield "writes", node.writes
    if node.policy.on_error is not None:
        yield "policy.on_error.value", node.policy.on_error.value


def bodies(node: Node) -> tuple[Graph, ...]:
    """Return the regions that the node itself enters."""
    kind = type(node.op)
    enters = _enters.get(kind)
    if enters is False:
        return ()
    if enters is None:  # read once per type, like `part_fields`
        enters = _enters[kind] = dataclasses.is_dataclass(kind) and any(
            "Graph" in str(field.type) or field.type == "Any" for field in dataclasses.fields(kind)
        )
    return tuple(part for _, part in parts(node.op) if isinstance(part, Graph)) if enters else ()


def nodes_of(graph: Graph) -> Iterator[Node]:
    """Yield every node of a region and of the regions inside it."""
    for node in graph.nodes:
        yield node
        for inner in bodies(node):
            yield from nodes_of(inner)


def siblings_read(refs: Iterable[Ref]) -> frozenset[str]:
    """Return the ids that references read through `out` and `status`."""
    return frozenset(str(ref.path[0]) for ref in refs if ref.path and ref.root in _OUTPUTS)


def refs_inside(root: Node | Graph | Expr) -> list[Ref]:
    """Return every reference of a node, a region or an expression, including regions inside it."""
    references: list[Ref] = []
    # One explicit stack for all types: generators and recursion would be slower, and a flow may be deep.
    stack: list[Any] = [root]
    while stack:
        value = stack.pop()
        kind = type(value)
        if kind is Ref:
            references.append(value)
        elif kind is Obj:
            for _, inner in value.fields:
                stack.append(inner)
        elif kind is Lit or kind is Var or value is None:
            continue
        elif kind is Node:
            stack.append(value.op)
            for expr in (value.gate, value.when, value.result, value.writes):
                if expr is not None:
                    stack.append(expr)
            if value.policy.on_error is not None:
                stack.append(value.policy.on_error.value)
        elif kind is Arr:
            stack.extend(value.items)
        elif kind is Fn:
            stack.extend(value.args)
        elif kind is Each:
            stack += (value.source, value.body, *value.extra)
        elif kind is Graph:
            stack.append(value.result)
            stack.extend(value.nodes)
        elif kind is tuple:
            stack.extend(value)
        else:
            for name in part_fields(kind):
                stack.append(getattr(value, name))
    return references


# --- what an op sees when it is compiled ---------------------------------------------------

Frame: TypeAlias = Any
"""The values of one run of one region. Ops hand it on and never look inside."""

Getter: TypeAlias = Callable[[Frame], Json]
Runs: TypeAlias = Callable[[Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Step:
    """A compiled op: the node's value is `get(frame)`, or `await run(get(frame))` when there is a `run`."""

    # `run` returns the value, or a Yield when it has entered regions.

    get: Getter
    run: Runs | None = None

    @property
    def start(self) -> Callable[[Frame], Any]:
        """`get` and `run` in one: the value, or what is to be awaited for it."""
        get, run = self.get, self.run
        if run is None:
            return get
        return run if get is whole else lambda frame: run(get(frame))


def whole(frame: Frame) -> Frame:
    """Return the frame itself: the getter of steps that take a frame."""
    return frame


class Body(Protocol):
    """A compiled region, as the op that owns it sees it."""

    def open(self, frame: Frame, key: int | str | None = None, item: Json = None, /) -> Frame:
        """Make a new frame inside a frame."""
        ...

    def next_frame(self, inner: Frame, key: int, prev: Json, item: Json = None, /) -> Frame:
        """Make the frame of the next iteration of a Loop."""

        # The iteration continues from the state that the last one left. Its writes are added to the earlier ones.
        #
        # `item`: The element of the iteration, for a loop over items.
        ...

    def run(self, inner: Frame, follow: Callable[[Frame, Json], Frame | None] | None = None, /) -> Awaitable[Yield]:
        """Run the region in an opened frame."""

        # `follow`: Returns the frame of the next iteration for a frame and its value; None ends the loop.
        ...

    def expr(self, expr: Expr, /, *, before: bool = False) -> Callable[[Frame], bool]:
        """Compile a condition over an inner frame, which can read all nodes of the body."""
        ...


class Site(Protocol):
    """The services that an op may use, all of them at compile time."""

    # Effects go through `call`, `sleep` and `wait` only. A decision that a resumed run must repeat goes through
    # `remember`. All of these are journaled.

    def expr(self, expr: Expr, /) -> Getter:
        """Compile an expression."""
        ...

    def condition(self, expr: Expr, /) -> Callable[[Frame], bool]:
        """Compile a condition."""
        ...

    def body(self, graph: Graph, /, *, label: str = "", binds: str = "") -> Body:
        """Compile a region of the op."""

        # `binds`: The names that the region binds: "" (none), "map", "loop", or "each" (a loop over items: both).
        ...

    def many(self, body: Body, limit: int | None, /) -> Callable[[Frame, list[Json]], Awaitable[list[Yield]]]:
        """Compile a run of a body for each item."""
        ...

    def call(self, tool: str, args: Expr, also: Expr | None = None, content: bool = False, undo: Any = None, /) -> Step:
        """Compile a tool call, which is journaled, validated and cancellable."""
        ...

    def sleep(self, seconds: Expr, /) -> Step:
        """Compile a pause, which ends at a journaled absolute time."""
        ...

    def wait(self, wait: Any, /) -> Step:
        """Compile an op `Wait`, whose purpose and answer are journaled."""
        ...

    def remember(self, kind: str, decide: Getter, /) -> Getter:
        """Journal a decision, so that a resumed run makes the same one."""
        ...

    def interpret(self, program: Any, /) -> Step:
        """Compile the run of an op `Program`, whose steps are journaled in the order in which they end."""
        ...
