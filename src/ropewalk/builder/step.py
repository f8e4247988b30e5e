"""Write one node of a flow: its id, its conditions, its policy, its writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..expr.ast import Expr, Obj
from ..fast_dataclass import dataclass
from ..ir import NO_POLICY, Meta, Node, OnError, Op, Policy, Retry
from .function import is_tracing, parameters
from .refs import Ref, T
from .values import expression, mistake, readable

if TYPE_CHECKING:
    from .scope import Trace


class _NotGiven:
    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_GIVEN: Final = _NotGiven()


class State(Ref[T]):
    """A named piece of state: a reference to its current value."""

    __slots__ = ("_channel",)

    def __init__(self, expr: Expr, channel: str) -> None:
        super().__init__(expr)
        self._channel = channel


Writes: TypeAlias = Mapping[State[Any], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of the next node, from `flow.options(...)`."""

    name: str = ""
    description: str = ""
    when: object = NOT_GIVEN
    gate: object = NOT_GIVEN
    after: Sequence[Ref[Any]] = ()
    timeout: float | None = None
    retry: Retry = Retry()
    fallback: object = NOT_GIVEN
    reported: bool = False
    into: State[Any] | None = None
    writes: Callable[[Ref[Any]], Writes] | None = None
    gives: Callable[[Ref[Any]], object] | None = None
    number: int = 0
    """The number of the `flow.options(...)` call, so that unused options are reported."""


NO_OPTIONS: Final = Options()


@dataclass(frozen=True, slots=True)
class Opened:
    """A node that is being written: its id, and its line."""

    id: str
    meta: Meta


def begin(trace: Trace, base: str, options: Options) -> Opened:
    """Open a node at the current place; its id is the requested name, or derived from `base`."""
    if trace.closed:
        raise mistake("the flow is finished; nothing can be added to it")
    if is_tracing():
        raise mistake(
            "a lambda of .map(), .filter() and the like computes and cannot hold nodes; "
            "to do something per element use flow.for_each(...)"
        )
    trace.waiting.pop(options.number, None)
    return Opened(trace.claim(options.name or base, exact=bool(options.name)), trace.meta(options.description))


def end(trace: Trace, opened: Opened, options: Options, op: Op) -> Ref[Any]:
    """Close a node with its op, and return the reference to its value."""
    # Options are lowered before the node is appended: they may read only the nodes before it, and its own value.
    scope, id = trace.current, opened.id
    reference = Ref[Any](scope.ref("out", id))
    after = frozenset(_node_in_after(trace, ref) for ref in options.after)
    gate, when = (None if t is NOT_GIVEN else trace.lower(t, "when") for t in (options.gate, options.when))
    policy = _policy(trace, options, id)
    result = None if options.gives is None else trace.lower(options.gives(reference), "gives")
    writes = _writes(trace, options, reference)
    scope.nodes.append(
        Node(
            id=id,
            op=op,
            after=after,
            gate=gate,
            when=when,
            result=result,
            writes=writes,
            policy=policy,
            meta=opened.meta,
        )
    )
    return reference


def add(trace: Trace, base: str, options: Options, make: Callable[[str], Op]) -> Ref[Any]:
    """Write one node."""
    opened = begin(trace, base, options)
    return end(trace, opened, options, make(opened.id))


def _node_in_after(trace: Trace, ref: Ref[Any]) -> str:
    """Return the id of the node in the current region that a reference in `after` names."""
    expr = trace.lower(ref, "after")
    id = getattr(expr, "path", ("",))[0] if getattr(expr, "root", "") == "out" else ""
    if trace.current.ordered:
        raise mistake("nodes here run one after another; `after` is for those of a parallel block")
    if id not in {node.id for node in trace.current.nodes}:
        raise mistake(f"`after` names nodes of the same block, which {readable(expression(ref))} is not")
    return str(id)


def _writes(trace: Trace, options: Options, reference: Ref[Any]) -> Expr | None:
    updates: dict[Any, object] = {}
    if options.into is not None:
        updates[options.into] = reference
    if options.writes is not None:
        updates.update(options.writes(reference))
    for state in updates:
        if not isinstance(state, State):
            raise mistake(f"only a state made by flow.state(...) can be written, not {state!r}")
    if not updates:
        return None
    return Obj(
        tuple((state._channel, trace.lower(value, f"writes.{state._channel}")) for state, value in updates.items())
    )


def _policy(trace: Trace, options: Options, id: str) -> Policy:
    fallback = options.fallback
    if fallback is NOT_GIVEN and not options.reported:
        if options.timeout is None and options.retry == Retry():
            return NO_POLICY
        return Policy(retry=options.retry, timeout=options.timeout)
    if callable(fallback) and not isinstance(fallback, Ref):
        names = parameters(fallback)
        if len(names) > 1:
            raise mistake("a fallback is a value, or a function of the error")
        trace.failing.add(id)
        try:
            value = fallback(*[Ref[Any](trace.current.ref("error", id))][: len(names)])
            value_expr = trace.lower(value, "fallback")
        finally:
            trace.failing.discard(id)
    else:
        value_expr = trace.lower(None if fallback is NOT_GIVEN else fallback, "fallback")
    return Policy(
        retry=options.retry, timeout=options.timeout, on_error=OnError(value=value_expr, reported=options.reported)
    )
