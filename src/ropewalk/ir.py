"""What a flow is: the one graph that every notation compiles to.

A Flow owns a tree of acyclic regions (`Graph`). Choice and repetition are operations with regions as bodies, so
cancellation and timeouts nest, every position has a stable path, and state changes only through channels with reducers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any, Protocol, TypeAlias

from .expr.ast import NULL, Arr, Each, Expr, Fn, Lit, Obj, Ref, Var
from .frozen import dataclass
from .values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """At most `attempts` tries, the first included; `delay` seconds before the second, times
    `factor` before each further one (or times the attempt number when `linear`)."""

    attempts: int = 1
    delay: float = 0.0
    factor: float = 1.0
    linear: bool = False
    max_delay: float = 3600.0

    def pause(self, failed: int) -> float:
        """Seconds to wait after the `failed`-th attempt (counted from 1)."""
        grown = self.delay * (failed if self.linear else self.factor ** (failed - 1))
        return min(grown, self.max_delay)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnError:
    """What stands in for a node that gave up: `value` (sees the root error). A `reported`
    failure is listed in the run's errors and makes it partial; otherwise it is handled. Without
    `writes` the node's updates of the state are not made from what stands in."""

    value: Expr = NULL
    reported: bool = False
    writes: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What to do about time and failure: `timeout` in seconds per attempt; without `on_error`
    a failure fails the region."""

    retry: Retry = Retry()
    timeout: float | None = None
    on_error: OnError | None = None


NO_POLICY = Policy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """What is said about a node and changes nothing: it stays out of the fingerprint.

    `source` is the node's path in its document (`nodes[2]`); `labels` maps a field here to the
    document's name for it (`{"args": "params"}`), so that a problem is told in the user's words.
    """

    source: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    description: str = ""
    phase: str | None = None
    reads: tuple[str, ...] = ()
    hidden: bool = False
    name: str = ""
    """What people call it, where the id is one that a notation made."""
    writes: tuple[str, ...] = ()
    """The channels it is expected to write, where that cannot be read off its `writes`."""
    reached: str = ""
    """What its gate means in the words of the document."""
    failing: str = ""
    """What its `on_error` means in the words of the document."""


NO_META = Meta()


class Op(Protocol):
    """One kind of work: a frozen dataclass. Fields that hold an Expr are its inputs, fields that
    hold a Graph its regions; checker, codec and drawing read both from the dataclass."""

    def compile(self, site: Site, /) -> Step:
        """The closure that does the work; called once per program, never per run."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One position in a region.

    It starts when everything in `after`, and every sibling it reads, is decided. A false `gate`
    makes it *dead* (not reached), a false `when` makes it *skipped*; either way its value is
    null. `result` gives the node's value where it is not the op's own, which it sees as the
    node's output. `writes` gives state updates `{channel: update}` and sees the node's own output.
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
    """An acyclic region: `nodes`, and the expression that is its value.

    `ordered` runs the nodes one after another as listed, and gives meaning to the root `prev`:
    the value of the last node that ran (in the first: what ran before the region). Otherwise
    edges are `after` plus every reference to a sibling, and at most `limit` nodes run at once.
    """

    nodes: tuple[Node, ...]
    result: Expr = NULL
    ordered: bool = False
    limit: int | None = None

    @cached_property
    def needs(self) -> Mapping[str, frozenset[str]]:
        """For each node the siblings it starts after; unknown names are left to the check."""
        ids = [node.id for node in self.nodes]
        if self.ordered:
            return {id: frozenset(ids[i - 1 : i]) for i, id in enumerate(ids)}
        own, each = set(ids), zip(self.nodes, self._refs, strict=True)
        return {node.id: ((node.after | siblings_read(refs)) & own) - {node.id} for node, refs in each}

    @cached_property
    def roots(self) -> frozenset[str]:
        """What every reference in it starts from, those of the regions inside included."""
        return frozenset(ref.root for refs in (*self._refs, refs_inside(self.result)) for ref in refs)

    @cached_property
    def _refs(self) -> tuple[list[Ref], ...]:
        """The references of each node: looked for once, though the check asks for them and each program."""
        return tuple(refs_inside(node) for node in self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A named piece of state: its JSON Schema, the reducer that folds an update in, where it starts."""

    schema: Json = None
    reduce: str = "last_wins"
    initial: Json = None
    present: bool = True
    """False: the channel has no value until something is written (no default was declared)."""


@dataclass(frozen=True, kw_only=True)
class Flow:
    """A whole definition. `timeout` is in seconds; channels in `seeds` begin with the input's member of their name."""

    name: str
    body: Graph
    state: Mapping[str, Channel] = field(default_factory=dict)
    input_schema: Json = None
    output_schema: Json = None
    timeout: float | None = None
    seeds: tuple[str, ...] = ()


Writes: TypeAlias = Sequence[tuple[str, Json]]


class Yield:
    """What one run of a region gives: a value, and state updates in their fixed order."""

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
    """The fields of an op's dataclass that may hold an expression or a region; () for other types.

    Read once per type: reflecting on every node would dominate the check of a large flow.
    """
    known = _part_fields.get(kind)
    if known is None:
        fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
        known = _part_fields[kind] = tuple(f.name for f in fields if f.type not in _PLAIN)
    return known


def parts(value: Any, at: str = "") -> Iterator[tuple[str, Expr | Graph]]:
    """The expressions and regions held by an op, policy or tuple, each with the field it is in
    (`args`, `arms[0][1]`), read from the dataclass fields."""
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
    """Everything a node evaluates or enters, with the field's name."""
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
    """The regions that the node itself enters."""
    kind = type(node.op)
    enters = _enters.get(kind)
    if enters is None:  # read once per type, as above
        enters = _enters[kind] = dataclasses.is_dataclass(kind) and any(
            "Graph" in str(field.type) or field.type == "Any" for field in dataclasses.fields(kind)
        )
    return tuple(part for _, part in parts(node.op) if isinstance(part, Graph)) if enters else ()


def nodes_of(graph: Graph) -> Iterator[Node]:
    """Every node of a region and of the regions inside it."""
    for node in graph.nodes:
        yield node
        for inner in bodies(node):
            yield from nodes_of(inner)


def siblings_read(refs: Iterable[Ref]) -> frozenset[str]:
    """Ids read through `out` and `status`."""
    return frozenset(str(ref.path[0]) for ref in refs if ref.path and ref.root in _OUTPUTS)


def refs_inside(what: Node | Graph | Expr) -> list[Ref]:
    """Every reference of a node, a region or an expression, those of the regions inside included."""
    found: list[Ref] = []
    # One explicit stack over expressions, regions, nodes, ops and tuples alike: no generators, no recursion.
    stack: list[Any] = [what]
    while stack:
        value = stack.pop()
        kind = type(value)
        if kind is Ref:
            found.append(value)
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
    return found


# --- what an op sees when it is compiled ---------------------------------------------------

Frame: TypeAlias = Any
"""The values of one run of one region. Ops hand it on and never look inside."""

Getter: TypeAlias = Callable[[Frame], Json]
Runs: TypeAlias = Callable[[Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Step:
    """A compiled op: the node's value is `get(frame)`, or `await run(get(frame))` when there is
    a `run`. `run` returns the value, or a Yield when it has entered regions."""

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
    """The getter of steps that take the frame itself."""
    return frame


class Body(Protocol):
    """A compiled region, as the op that owns it sees it."""

    def open(self, frame: Frame, key: int | None = None, item: Json = None, /) -> Frame:
        """A fresh inner frame. `key` tells the rounds of one node apart: the index of a Map, the
        round of a Loop; `item` is the element of a Map."""
        ...

    def again(self, inner: Frame, key: int, prev: Json, item: Json = None, /) -> Frame:
        """The inner frame of the next round of a Loop: it goes on from the state the last one left,
        and what is written is added to the writes of the rounds before."""
        ...

    def run(self, inner: Frame, follow: Callable[[Frame, Json], Frame | None] | None = None, /) -> Awaitable[Yield]:
        """Run the region in an opened frame; with `follow`, which takes the value of a round and
        gives the frame of the next, or None, again and again."""
        ...

    def expr(self, expr: Expr, /, *, before: bool = False) -> Callable[[Frame], bool]:
        """A condition over an inner frame, with all nodes of the body in reach; `before` the round
        `prev` is what it is for the first node."""
        ...


class Site(Protocol):
    """What an op may use, all at compile time. Effects go through `call`, `sleep` and `wait` only; what
    an op decides and a resumed run must decide again goes through `remember`: those are journaled.
    """

    def expr(self, expr: Expr, /) -> Getter:
        """The closure that evaluates `expr` in the frame the node runs in."""
        ...

    def condition(self, expr: Expr, /) -> Callable[[Frame], bool]:
        """The same for a condition: null counts as false, other values than booleans are an error."""
        ...

    def body(self, graph: Graph, /, *, label: str = "", binds: str = "") -> Body:
        """The closures that run `graph`. `binds` is "" (nothing), "map", "loop" or
        "each" (a loop over items: both)."""
        ...

    def many(self, body: Body, limit: int | None, /) -> Callable[[Frame, list[Json]], Awaitable[list[Yield]]]:
        """Run a body once per item, at most `limit` at once, results in item order."""
        ...

    def call(self, tool: str, args: Expr, also: Expr | None = None, content: bool = False, /) -> Step:
        """A call of a tool: journaled, validated, cancellable. `also` is laid over `args` and not journaled;
        with `content` the value is `{value, content?}`."""
        ...

    def sleep(self, seconds: Expr, /) -> Step:
        """A pause whose end is journaled as an absolute time."""
        ...

    def wait(self, text: Expr, approval: bool, timeout: Expr | None, /) -> Step:
        """A wait for the event of this name, or with `approval` for an answer to this text, at most `timeout`
        seconds; both what it is for and what came are journaled."""
        ...

    def remember(self, kind: str, decide: Getter, /) -> Getter:
        """`it(frame)` gives `decide(frame)`, journaled, and on resume what was journaled."""
        ...
