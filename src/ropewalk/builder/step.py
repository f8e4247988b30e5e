"""One node of a flow being written: what it is called, when it runs, what becomes of a failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..expr.ast import Expr, Obj
from ..frozen import dataclass
from ..ir import NO_POLICY, Meta, Node, OnError, Op, Policy, Retry
from .function import parameters, tracing
from .mistake import mistake
from .ref import Ref, T
from .value import expression, written

if TYPE_CHECKING:
    from .scope import Trace


class _NotGiven:
    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_GIVEN: Final = _NotGiven()


class State(Ref[T]):
    """A named piece of state: a reference to its value as the nodes before left it."""

    __slots__ = ("_channel",)

    def __init__(self, expr: Expr, channel: str) -> None:
        super().__init__(expr)
        self._channel = channel


Writes: TypeAlias = Mapping[State[Any], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `flow.options(...)` says of the next node."""

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
    """Which call of `flow.options(...)` said this, so that one without a node is noticed."""


NO_OPTIONS: Final = Options()


@dataclass(frozen=True, slots=True)
class Opened:
    """A node that is being written: its id, and the line it stands at."""

    id: str
    meta: Meta


def begin(trace: Trace, base: str, options: Options) -> Opened:
    """Open a node here, called as asked for or after `base`."""
    if trace.closed:
        raise mistake("the flow is finished; nothing can be added to it")
    if tracing():
        raise mistake(
            "a lambda of .map(), .filter() and the like computes and cannot hold nodes; "
            "to do something per element use flow.for_each(...)"
        )
    trace.waiting.pop(options.number, None)
    return Opened(trace.claim(options.name or base, exact=bool(options.name)), trace.meta(options.description))


def end(trace: Trace, opened: Opened, options: Options, op: Op) -> Ref[Any]:
    """Close it with what it does; the reference to its value."""
    scope, id = trace.here, opened.id
    own = Ref[Any](scope.ref("out", id))
    after = frozenset(_id(trace, ref) for ref in options.after)
    gate, when = (None if t is NOT_GIVEN else trace.lower(t, "when") for t in (options.gate, options.when))
    policy = _policy(trace, options, id)
    result = None if options.gives is None else trace.lower(options.gives(own), "gives")
    writes = _writes(trace, options, own)
    scope.nodes.append(
        Node(
            id=id, op=op, after=after, gate=gate, when=when, result=result, writes=writes, policy=policy,
            meta=opened.meta,
        )
    )  # fmt: skip
    return own


def add(trace: Trace, base: str, options: Options, make: Callable[[str], Op]) -> Ref[Any]:
    """Write one node; `make` gives its op and is told its id."""
    opened = begin(trace, base, options)
    return end(trace, opened, options, make(opened.id))


def _id(trace: Trace, ref: Ref[Any]) -> str:
    """The node of the region being written that a reference in `after` means."""
    found = trace.lower(ref, "after")
    id = getattr(found, "path", ("",))[0] if getattr(found, "root", "") == "out" else ""
    if trace.here.ordered:
        raise mistake("nodes here run one after another; `after` is for those of a parallel block")
    if id not in {node.id for node in trace.here.nodes}:
        raise mistake(f"`after` names nodes of the same block, which {written(expression(ref))} is not")
    return str(id)


def _writes(trace: Trace, options: Options, own: Ref[Any]) -> Expr | None:
    updates: dict[Any, object] = {}
    if options.into is not None:
        updates[options.into] = own
    if options.writes is not None:
        updates.update(options.writes(own))
    for state in updates:
        if not isinstance(state, State):
            raise mistake(f"what is written is a state made by flow.state(...), not {state!r}")
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
            value = fallback(*[Ref[Any](trace.here.ref("error", id))][: len(names)])
            found = trace.lower(value, "fallback")
        finally:
            trace.failing.discard(id)
    else:
        found = trace.lower(None if fallback is NOT_GIVEN else fallback, "fallback")
    return Policy(
        retry=options.retry, timeout=options.timeout, on_error=OnError(value=found, reported=options.reported)
    )
