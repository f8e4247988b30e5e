"""A Flow compiled for one caller: names to slots, expressions to closures, policies to wrappers.

Built once and run many times, from any number of tasks and event loops: a program holds no state
of a run. Which features a flow uses decides what is built; what it does not use costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import InvalidValue, RopewalkError, SchemaMismatch
from ..expr.ast import Expr, Obj, Ref
from ..expr.compile import compile_condition, compile_expr, needs_budget
from ..ir import Flow, Frame, Getter, Graph, Node, Step, Yield, bodies, nodes_of
from ..ops import Call, Compute, Validate, Wait
from ..schema import compile_schema
from ..state import fold_into
from ..uncollected import uncollected
from . import policy
from .caller import Caller, Lease
from .failure import named
from .foldorder import in_sequence, writes_of
from .frame import LOG, RUN, STATE, Region, Spot
from .observe import noted, passing, readied, watched, wrote
from .region import Cell, Hook, bare_line, graph, line, searched
from .scope import Scope, known_secrets
from .site import CompiledBody, CompileSite, opener, reopener

if TYPE_CHECKING:
    from .chunks import Cut, Spread
    from .foldplan import FoldPlan


class Binder(Protocol):
    """Resolves tools: a Caller, or a Builder, which keeps what it has resolved."""

    def bind(self, tool_id: str, /) -> Any: ...


class Program:
    """What runs: `play(frame)` over a frame of `region`.

    `main` is the region whose nodes are the run's results: the body of the loop where the whole
    flow is one hidden loop, else the flow's own. `lists_nodes` says that the flow's value is the
    object of those results.
    """

    __slots__ = (
        "caller",
        "channels",
        "cuts",
        "durable",
        "flow",
        "limit",
        "lists_nodes",
        "main",
        "plan",
        "play",
        "region",
        "secrets",
        "spots",
        "version",
        "waits",
    )

    def __init__(self, builder: Builder, region: Region, play: Callable[[Any], Any]) -> None:
        self.flow, self.region, self.play = builder.flow, region, play
        self.limit, self.secrets, self.durable = builder.limit, builder.secrets, builder.durable
        self.version, self.caller, self.waits, self.cuts = builder.version, builder.caller, builder.waits, builder.cuts
        self.spots = builder.count
        self.lists_nodes = builder.main is None and _lists_nodes(region.graph)
        self.channels, self.plan, self.main = builder.channels, builder.plans.get(region), builder.main or region

    def folded(self, frame: Any, state: dict[str, Any]) -> dict[str, Any]:
        """The state of a run that broke off: what its finished nodes wrote."""
        if self.plan is not None:
            state = dict(state)
            self.plan.fold_each(frame, state)
        return state


@uncollected
def compile_flow(
    flow: Flow,
    caller: Caller,
    *,
    durable: bool = False,
    records: bool = True,
    watched: bool = False,
    lease: Lease | None = None,
    spread: Spread | None = None,
    guarded: bool = False,
) -> Program:
    """Compile a checked flow. `durable` journals every effect; `records=False` leaves no step
    records (for measuring); `watched` tells events as they happen; `lease` is looked at before each call;
    `spread` has large maps played elsewhere; `guarded` is for a part of a run that knows secrets."""
    builder = Builder(flow, caller, durable, records, watched, lease, spread, guarded)
    region = Region(flow.body, None, None, "", "")
    play = builder.region(region)
    return Program(builder, region, play)


class Builder:
    """Walks the flow once."""

    def __init__(
        self,
        flow: Flow,
        caller: Caller,
        durable: bool,
        records: bool,
        watched: bool,
        lease: Lease | None,
        spread: Spread | None,
        guarded: bool = False,
    ) -> None:
        self.flow, self.caller, self.durable, self.records, self.watched = flow, caller, durable, records, watched
        self.lease, self.spread = lease, spread
        self.cuts: dict[str, Cut] = {}  # the maps that can be cut, by their place
        self.channels = dict(flow.state)
        self.limit: float | None = None
        self.count = 0
        self.version = caller.version
        self.plans: dict[Region, FoldPlan] = {}
        self.main: Region | None = None
        self._bound: dict[str, Any] = {}
        roots = flow.body.roots
        self.secrets, self.prev = guarded or "secret" in roots, "prev" in roots
        self.secrets_of = known_secrets if self.secrets else None
        self.waits = may_wait(flow, self)
        self.approvals: frozenset[str] = frozenset()  # the waits of whose answers something reads `approved`
        if self.waits:
            from .approvals import approvals_read

            self.approvals = approvals_read(flow)

    def bind(self, tool_id: str, /) -> Any:
        """The tool, resolved once per program."""
        found = self._bound.get(tool_id)
        if found is None:
            found = self._bound[tool_id] = self.caller.bind(tool_id)
        return found

    def soonest(self, limit: float | None) -> None:
        if limit is not None and (self.limit is None or limit < self.limit):
            self.limit = limit

    def bare(self, spot: Spot) -> bool:
        """Whether the region's loop can make the node's tool call itself."""
        shown = self.watched and not spot.node.meta.hidden
        return spot.bare and spot.view_slot is None and not shown and not self.secrets

    def body(self, body: Graph, scope: Scope, owner: Spot, label: str, binds: str) -> CompiledBody:
        region = Region(body, scope.region, owner, label, binds)
        if scope.region.outer is None and owner.node.meta.hidden and binds == "loop":
            self.main = region
        play = self.region(region)
        return CompiledBody(region, play, opener(region, scope, self.prev), reopener(region), self.secrets_of)

    def expr(self, expr: Expr, scope: Scope) -> Getter:
        """Compile an expression at a position; where the run knows secrets, none is made another text there."""
        return compile_expr(expr, scope.resolve, self.secrets_of)

    def condition(self, expr: Expr, scope: Scope) -> Callable[[Frame], bool]:
        """Compile a condition in the same way."""
        return compile_condition(expr, scope.resolve, self.secrets_of)

    def region(self, region: Region) -> Callable[[Any], Any]:
        """Compile every node of a region, then how the region runs and ends."""
        body = region.graph
        self.count += len(body.nodes)
        writes = [writes_of(node) for node in body.nodes]
        region.writes = any(w is not None for w in writes)
        spots = [region.spots[node.id] for node in body.nodes]
        needs = [] if body.ordered else _needs(body)
        sequence = None if body.ordered or self.watched else in_sequence(needs)  # who watches is told what is ready
        if sequence is not None:
            spots = [spots[i] for i in sequence]
        region.sequential = body.ordered or sequence is not None
        plan = None
        if region.writes and not region.sequential:
            from .foldplan import FoldPlan  # most flows write nothing, or in order

            plan = self.plans[region] = FoldPlan(region, writes, self.channels)
        cells = [self.node(spot, plan) for spot in spots]
        region.searched = searched(cells)
        result = self.expr(body.result, Scope(region, None))
        if region.owner is None:
            result = self._typed(result)
        finish = self._finish(region, result, plan)
        if region.sequential:
            if not self.records:
                return bare_line(cells, spots, finish)
            return line(cells, spots, result, finish, region.flat)
        return graph(cells, spots, needs, body.limit, finish, readied(spots) if self.watched else None, self.waits)

    def _typed(self, result: Getter) -> Getter:
        """The value of the flow, held to its declared type unless the last node does that."""
        declared, last = self.flow.output_schema, self.flow.body.nodes[-1].op if self.flow.body.nodes else None
        if declared is None or (isinstance(last, Validate) and last.schema is declared):
            return result
        schema = compile_schema(declared)

        def fitting(frame: Frame) -> Any:
            value = result(frame)
            if not schema.is_valid(value):
                redact = frame[RUN].redact
                wrong = schema.problems(value, "output")
                raise SchemaMismatch("output", [replace(p, message=redact(p.message)) for p in wrong])
            return value

        return fitting

    def node(self, spot: Spot, plan: FoldPlan | None) -> Cell:
        """One node: what its op does, and around it only what the node has."""
        node, region = spot.node, spot.region
        scope = Scope(region, spot)
        site = CompileSite(self, scope, spot)
        if node.policy.retry.attempts > 1:
            spot.attempt_slot = region.slot()
        step = node.op.compile(site)
        if isinstance(node.op, Compute | Call) and needs_budget(_evaluated(node.op)):
            from .offload import offloaded  # most expressions are a reference or a text

            step = offloaded(step)
        get, go = step.get, step.run
        view = plan.view(spot) if plan is not None else None
        kept = self.durable and (spot.tool is None or spot.soft)
        shown = not node.meta.hidden and (self.watched or kept)
        simple = spot.bare and view is None and not shown and not spot.bodies
        if simple and node.writes is None:
            return _cell(step, spot, None)
        write = (
            plan.keeper(spot) if plan is not None and spot.writes_slot is not None else policy.at_once(self.channels)
        )
        own = None
        if node.writes is not None:
            updates = self.expr(node.writes, scope)
            tell = wrote(spot) if shown and self.watched else None
            own = policy.own_writes(self.channels, spot, updates, write, tell)
        if simple and own is not None:
            hook = policy.write_hook(self.channels, node, own, region)
            return _cell(step, spot, hook)
        run = policy.settled(go, get, spot, write) if go is not None else _immediate(get)
        if node.result is not None:
            run = policy.shaped(run, self.expr(node.result, scope), spot)
        begun = None  # the slot of a start not told yet, where the node may be skipped instead
        if node.gate is not None or node.when is not None:
            if shown and self.watched:
                begun = region.slot()
                run = passing(run, spot, begun)
            gate = self.condition(node.gate, scope) if node.gate is not None else None
            when = self.condition(node.when, scope) if node.when is not None else None
            run = policy.guarded(run, gate, when, spot)
        tried = spot.tried and not spot.bodies
        if own is not None and tried:
            run = policy.writing(run, own, spot)
        run = self._policies(node, spot, scope, run, own if tried else None)
        if own is not None and not tried:
            run = policy.writing(run, own, spot)
        if view is not None:
            run = _seeing(run, view, spot)
        if shown and kept:
            run = noted(run, spot)
        if shown and self.watched:
            run = watched(run, spot, begun)
        return run, True, None, None, spot.slot

    def _policies(
        self, node: Node, spot: Spot, scope: Scope, run: policy.Go, own: Callable[[Any], None] | None
    ) -> policy.Go:
        if not spot.tried:
            return run
        on_error = node.policy.on_error
        stand_in = self.expr(on_error.value, scope) if on_error is not None else None
        return policy.tried(run, node.policy, stand_in, own, spot, self.durable)

    def _finish(self, region: Region, result: Getter, plan: FoldPlan | None) -> Callable[[Any], Yield]:
        """What the region's value and writes are once all its nodes are decided."""
        if not region.writes:
            return lambda frame: Yield(result(frame))
        channels = self.channels

        def ordered(frame: Frame) -> Yield:
            return Yield(result(frame), frame[LOG])

        def folded(frame: Frame) -> Yield:
            assert plan is not None
            writes = plan.all_writes(frame)
            try:
                fold_into(channels, frame[STATE], writes)
            except InvalidValue:
                # Each fits what its node has seen; side by side they do not.
                refused = plan.fold_each(frame, dict(frame[STATE]))
                if refused is not None:
                    raise named(refused[1], refused[0], frame) from refused[1]
                raise
            frame[LOG].extend(writes)
            return Yield(result(frame), frame[LOG])

        return ordered if plan is None else folded


def may_wait(flow: Flow, caller: Binder) -> bool:
    """Return True if the flow, or a flow that it calls as a tool at any depth, has a node that waits."""
    if _has_waits(flow.body):
        return True
    for tool in {node.op.tool for node in nodes_of(flow.body) if type(node.op) is Call}:
        try:
            if getattr(caller.bind(tool), "waits", False):
                return True
        except RopewalkError:
            continue  # the node that calls it fails with this error when it runs
    return False


def _has_waits(body: Graph) -> bool:
    return any(type(node.op) is Wait or any(map(_has_waits, bodies(node))) for node in body.nodes)


def _needs(body: Graph) -> list[list[int]]:
    position = {node.id: i for i, node in enumerate(body.nodes)}
    return [[position[id] for id in body.needs[node.id]] for node in body.nodes]


def _cell(step: Step, spot: Spot, hook: Hook | None) -> Cell:
    take = spot.direct.take if spot.direct is not None else None
    return step.start, step.run is not None, take, hook, spot.slot


def _lists_nodes(body: Graph) -> bool:
    """Whether the value of a region is the object of its nodes' values."""
    result = body.result
    if not isinstance(result, Obj) or len(result.fields) != len(body.nodes):
        return False
    return all(
        isinstance(value, Ref) and value.root == "out" and value.path == (node.id,) and key == node.id
        for (key, value), node in zip(result.fields, body.nodes, strict=True)
    )


def _evaluated(op: Compute | Call) -> Expr:
    return op.value if isinstance(op, Compute) else op.args


def _immediate(get: Getter) -> policy.Go:
    async def run(frame: Frame) -> Any:
        return get(frame)

    return run


def _seeing(run: policy.Go, view: Callable[[Any], Mapping[str, Any]], spot: Spot) -> policy.Go:
    slot = spot.view_slot
    assert slot is not None

    async def seen(frame: Frame) -> Any:
        frame[slot] = view(frame)
        try:
            return await run(frame)
        finally:
            frame[slot] = None  # a view may be large, and the frame lives on

    return seen
