"""Compile a Flow for one caller: names become slots, expressions closures, policies wrappers.

A program is built once and run many times, from any number of tasks and event loops: it holds no state of a run. A
feature that a flow does not use costs nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import InvalidValue, RopewalkError, SchemaMismatch
from ...expr.ast import Expr, Obj, Ref
from ...expr.compile import compile_condition, compile_expr, needs_budget
from ...expr.scope import SecretsOf
from ...ir import Flow, Frame, Getter, Graph, Node, Step, Yield, bodies, nodes_of
from ...ops import Call, Compute, Validate, Wait
from ...schema import compile_schema
from ...state import fold_into
from ...values import gc_disabled
from ..frame import LOG, RUN, STATE, NodeSlot, Region
from ..region import Hook, RegionStep, bare_line, graph, line, searched
from . import policy
from .calls import Caller, Lease
from .events import journal_value, ready_reporter, report_node, report_start, write_reporter
from .failures import node_failure
from .folds import in_sequence, writes_of
from .site import CompileContext, Scope, known_secrets

if TYPE_CHECKING:
    from ..map_chunks import ChunkPlan
    from ..ports import MapChunks
    from .folds import StatePlan


class Binder(Protocol):
    """Resolves tools: a Caller, or a Builder, which caches them."""

    def bind(self, tool_id: str, /) -> Any:
        """Resolve a tool.

        Args:
            tool_id: The tool.

        Returns:
            The tool as `Bound`.
        """
        ...


class Program:
    """A compiled flow: `play(frame)` runs it over a frame of `region`.

    `main` is the region whose nodes are the results of the run: the body of the loop if the whole flow is one hidden
    loop, otherwise the flow's own region. `lists_nodes` says that the value of the flow is the object of these results.
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
        """Return the state of an interrupted run: the writes of its finished nodes.

        Args:
            frame: The outermost frame.
            state: The state at the start of the region. It is not changed.

        Returns:
            The state.
        """
        if self.plan is not None:
            state = dict(state)
            self.plan.fold_each(frame, state)
        return state


@gc_disabled
def compile_flow(
    flow: Flow,
    caller: Caller,
    *,
    durable: bool = False,
    records: bool = True,
    watched: bool = False,
    lease: Lease | None = None,
    spread: MapChunks | None = None,
    guarded: bool = False,
    waits: bool = False,
) -> Program:
    """Compile a checked flow.

    Args:
        flow: The flow.
        caller: Resolves its tools.
        durable: Whether to journal every effect.
        records: Whether to keep step records; False only for measurements.
        watched: Whether to report events as they happen.
        lease: Is checked before each call.
        spread: Runs large maps in chunks on workers.
        guarded: Whether the flow is part of a run that knows secrets.
        waits: Whether the flow is part of a run that waits.

    Returns:
        The program.
    """
    builder = Builder(flow, caller, durable, records, watched, lease, spread, guarded, waits)
    region = Region(flow.body, None, None, "", "")
    play = builder.region(region)
    return Program(builder, region, play)


class Builder:
    """Walks a flow once and compiles it."""

    def __init__(
        self,
        flow: Flow,
        caller: Caller,
        durable: bool,
        records: bool,
        watched: bool,
        lease: Lease | None,
        spread: MapChunks | None,
        guarded: bool = False,
        waits: bool = False,
    ) -> None:
        self.flow, self.caller, self.durable, self.records, self.watched = flow, caller, durable, records, watched
        self.lease, self.spread = lease, spread
        self.cuts: dict[str, ChunkPlan] = {}  # the maps that can run in chunks, by their place
        self.channels = dict(flow.state)
        self.limit: float | None = None
        self.count = 0
        self.version = caller.version
        self.plans: dict[Region, StatePlan] = {}
        self.main: Region | None = None
        self._bound: dict[str, Any] = {}
        roots = flow.body.roots
        self.secrets, self.prev = guarded or "secret" in roots, "prev" in roots
        self.secrets_of: SecretsOf | None = known_secrets if self.secrets else None
        self.waits = waits or may_wait(flow, self)
        self.approvals: frozenset[str] = frozenset()  # approvals whose `approved` the flow reads
        if self.waits:
            from .approvals import approvals_read

            self.approvals = approvals_read(flow)

    def bind(self, tool_id: str, /) -> Any:
        """Resolve a tool, once per program.

        Args:
            tool_id: The tool.

        Returns:
            The tool as `Bound`.
        """
        bound = self._bound.get(tool_id)
        if bound is None:
            bound = self._bound[tool_id] = self.caller.bind(tool_id)
        return bound

    def soonest(self, limit: float | None) -> None:
        """Lower the shortest timeout of the program to `limit` seconds; None changes nothing.

        Args:
            limit: Seconds, or None.
        """
        if limit is not None and (self.limit is None or limit < self.limit):
            self.limit = limit

    def bare(self, spot: NodeSlot) -> bool:
        """Return True if the loop of the region can make the node's tool call itself.

        Args:
            spot: The node.

        Returns:
            False if an event, a view or a secret needs code around the call.
        """
        is_reported = self.watched and not spot.node.meta.hidden
        return spot.bare and spot.view_slot is None and not is_reported and not self.secrets

    def body(self, region: Region) -> Callable[..., Awaitable[Yield]]:
        """Compile a region inside a node.

        Args:
            region: The region.

        Returns:
            A function of its frame.
        """
        outer, owner = region.outer, region.owner
        at_top = outer is not None and outer.outer is None
        if at_top and owner is not None and owner.node.meta.hidden and region.binds == "loop":
            self.main = region
        return self.region(region)

    def expr(self, expr: Expr, scope: Scope) -> Getter:
        """Compile an expression at a position.

        Args:
            expr: The expression.
            scope: The position.

        Returns:
            A function of the frame.
        """
        return compile_expr(expr, scope.resolve, self.secrets_of)

    def condition(self, expr: Expr, scope: Scope) -> Callable[[Frame], bool]:
        """Compile a condition at a position.

        Args:
            expr: The condition.
            scope: The position.

        Returns:
            A function of the frame that returns a boolean.
        """
        return compile_condition(expr, scope.resolve, self.secrets_of)

    def region(self, region: Region) -> Callable[[Any], Any]:
        """Compile every node of a region, then how the region runs and ends.

        Args:
            region: The region.

        Returns:
            A function of its frame, which returns an awaitable of its value and writes.
        """
        body = region.graph
        self.count += len(body.nodes)
        writes = [writes_of(node) for node in body.nodes]
        region.writes = any(w is not None for w in writes)
        spots = [region.spots[node.id] for node in body.nodes]
        needs = [] if body.ordered else _needs(body)
        # A watched run reports when nodes become ready, so it keeps its graph.
        sequence = None if body.ordered or self.watched else in_sequence(needs)
        if sequence is not None:
            spots = [spots[i] for i in sequence]
        region.sequential = body.ordered or sequence is not None
        plan = None
        if region.writes and not region.sequential:
            from .folds import StatePlan  # imported only by unordered regions that write

            plan = self.plans[region] = StatePlan(region, writes, self.channels)
        cells = [self.node(spot, plan) for spot in spots]
        region.searched = searched(cells)
        result = self.expr(body.result, Scope(region, None))
        if region.owner is None:
            result = self._checked_result(result)
        finish = self._finish(region, result, plan)
        if region.sequential:
            if not self.records:
                return bare_line(cells, spots, finish)
            return line(cells, spots, result, finish, region.flat)
        return graph(
            cells, spots, needs, body.limit, finish, ready_reporter(spots) if self.watched else None, self.waits
        )

    def _checked_result(self, result: Getter) -> Getter:
        """Wrap the getter of the flow's value in a check of the declared type, unless the last node makes it."""
        declared, last = self.flow.output_schema, self.flow.body.nodes[-1].op if self.flow.body.nodes else None
        if declared is None or (isinstance(last, Validate) and last.schema is declared):
            return result
        schema = compile_schema(declared)

        def get_valid(frame: Frame) -> Any:
            value = result(frame)
            if not schema.is_valid(value):
                redact = frame[RUN].redact
                problems = schema.problems(value, "output")
                raise SchemaMismatch("output", [replace(p, message=redact(p.message)) for p in problems])
            return value

        return get_valid

    def node(self, spot: NodeSlot, plan: StatePlan | None) -> RegionStep:
        """Compile one node: its op, wrapped in nothing but the features that the node uses."""
        node, region = spot.node, spot.region
        scope = Scope(region, spot)
        site = CompileContext(self, scope, spot)
        if node.policy.retry.attempts > 1:
            spot.attempt_slot = region.slot()
        step = node.op.compile(site)
        if isinstance(node.op, Compute | Call) and needs_budget(_evaluated(node.op)):
            from ..offload import offloaded  # imported only for expensive expressions

            step = offloaded(step)
        # A node without features needs no wrapper: the loop of the region starts its step itself.
        get, go = step.get, step.run
        view = plan.view(spot) if plan is not None else None
        is_journaled = self.durable and (spot.tool is None or spot.soft)
        is_visible = not node.meta.hidden and (self.watched or is_journaled)
        simple = spot.bare and view is None and not is_visible and not spot.bodies
        if simple and node.writes is None:
            return _cell(step, spot, None)
        # Otherwise each feature wraps what is there so far, from the op outwards.
        in_plan = plan is not None and spot.writes_slot is not None
        write = plan.keeper(spot) if plan is not None and in_plan else policy.state_writer(self.channels)
        write_own = None
        if node.writes is not None:
            updates = self.expr(node.writes, scope)
            reporter = write_reporter(spot) if is_visible and self.watched else None
            write_own = policy.own_writes(self.channels, spot, updates, write, reporter)
        if simple and write_own is not None:
            hook = policy.write_hook(self.channels, node, write_own, region)
            return _cell(step, spot, hook)
        run = policy.settled(go, get, spot, write) if go is not None else _immediate(get)
        if node.result is not None:
            run = policy.shaped(run, self.expr(node.result, scope), spot)
        start_slot = None
        if node.gate is not None or node.when is not None:
            if is_visible and self.watched:
                # The start of a node that may be skipped is reported only when its gate and condition have passed.
                start_slot = region.slot()
                run = report_start(run, spot, start_slot)
            run = self._guarded(node, spot, scope, run)
        # Writes inside the attempts can fail an attempt; those of a node with regions come after all attempts.
        tried = spot.tried and not spot.bodies
        if write_own is not None and tried:
            run = policy.writing(run, write_own, spot)
        run = self._policies(node, spot, scope, run, write_own if tried else None)
        if write_own is not None and not tried:
            run = policy.writing(run, write_own, spot)
        if view is not None:
            run = _seeing(run, view, spot)
        if is_visible and is_journaled:
            run = journal_value(run, spot)
        if is_visible and self.watched:
            run = report_node(run, spot, start_slot)
        return run, True, None, None, spot.slot

    def _guarded(self, node: Node, spot: NodeSlot, scope: Scope, run: policy.Go) -> policy.Go:
        """Put the gate and the condition of a node in front of it."""
        gate = self.condition(node.gate, scope) if node.gate is not None else None
        when = self.condition(node.when, scope) if node.when is not None else None
        if when is not None and node.when is not None and needs_budget(node.when):
            from ..offload import offloaded_condition  # imported only for expensive conditions

            run, when = offloaded_condition(run, when), None
        return policy.guarded(run, gate, when, spot) if gate is not None or when is not None else run

    def _policies(
        self, node: Node, spot: NodeSlot, scope: Scope, run: policy.Go, write_own: Callable[[Any], None] | None
    ) -> policy.Go:
        if not spot.tried:
            return run
        on_error = node.policy.on_error
        stand_in = self.expr(on_error.value, scope) if on_error is not None else None
        return policy.tried(run, node.policy, stand_in, write_own, spot, self.durable)

    def _finish(self, region: Region, result: Getter, plan: StatePlan | None) -> Callable[[Any], Yield]:
        """Return the function that makes the value and the writes of a region when all its nodes are decided."""
        if not region.writes:
            return lambda frame: Yield(result(frame))
        channels = self.channels

        def finish_ordered(frame: Frame) -> Yield:
            return Yield(result(frame), frame[LOG])

        def finish_folded(frame: Frame) -> Yield:
            assert plan is not None
            writes = plan.all_writes(frame)
            try:
                fold_into(channels, frame[STATE], writes)
            except InvalidValue:
                # Each write fits the state that its node saw, but not all of them together: blame the first.
                refused = plan.fold_each(frame, dict(frame[STATE]))
                if refused is not None:
                    raise node_failure(refused[1], refused[0], frame) from refused[1]
                raise
            frame[LOG].extend(writes)
            return Yield(result(frame), frame[LOG])

        return finish_ordered if plan is None else finish_folded


def may_wait(flow: Flow, caller: Binder) -> bool:
    """Return True if the flow, or a flow that it calls as a tool at any depth, has a node that waits.

    Args:
        flow: The flow.
        caller: Resolves its tools.

    Returns:
        False for a flow that never pauses.
    """
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


def _cell(step: Step, spot: NodeSlot, hook: Hook | None) -> RegionStep:
    take = spot.direct.take if spot.direct is not None else None
    return step.start, step.run is not None, take, hook, spot.slot


def _lists_nodes(body: Graph) -> bool:
    """Return True if the value of a region is the object of its nodes' values."""
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


def _seeing(run: policy.Go, view: Callable[[Any], Mapping[str, Any]], spot: NodeSlot) -> policy.Go:
    slot = spot.view_slot
    assert slot is not None

    async def run_with_view(frame: Frame) -> Any:
        frame[slot] = view(frame)
        try:
            return await run(frame)
        finally:
            frame[slot] = None  # a view may be large, and the frame lives on

    return run_with_view
