"""Compile a Flow for one caller: names become slots, expressions closures, policies wrappers.

A program is built once and run many times, from any number of tasks and event loops: it holds no state of a run. A
feature that a flow does not use costs nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import InvalidValue, RopewalkError
from ...expr.ast import Expr, Obj, Ref
from ...expr.compile import compile_condition, compile_expr, needs_budget
from ...expr.scope import SecretsOf
from ...ir import Flow, Frame, Getter, Graph, Node, Op, Step, Yield, bodies, nodes_of
from ...ops import Call, Compute, Validate, Wait
from ...ops import Program as Interpreted
from ...schema import compile_schema
from ...state import fold_into
from ...values import gc_disabled
from ..frame import LOG, RUN, STATE, NodeSlot, Region
from ..region import ApplyWrites, RegionStep, bare_line, graph, line, uses_task_deadline
from . import policy
from .calls import Caller, Lease
from .events import journal_value, ready_reporter, report_node, report_start, write_reporter
from .failures import node_failure
from .site import CompileContext, Scope, known_secrets

if TYPE_CHECKING:
    from ..map_chunks import ChunkPlan
    from ..ports import MapChunks
    from .folds import StatePlan


class Binder(Protocol):
    """Resolves tools: a Caller, or a Builder, which caches them."""

    def bind(self, tool_id: str, /) -> Any:
        """Resolve a tool."""
        ...


class Program:
    """A compiled flow: `play(frame)` runs it over a frame of `region`."""

    # `main` is the region whose nodes are the results of the run: the body of the loop if the whole flow is one hidden
    # loop, otherwise the flow's own region. `lists_nodes` says that the value of the flow is the object of these
    # results.

    __slots__ = (
        "caller",
        "channels",
        "chunk_plans",
        "durable",
        "flow",
        "lists_nodes",
        "main",
        "node_count",
        "plan",
        "play",
        "region",
        "secrets",
        "shortest_timeout",
        "version",
        "waits",
    )

    def __init__(self, builder: Builder, region: Region, play: Callable[[Any], Any]) -> None:
        self.flow, self.region, self.play = builder.flow, region, play
        self.shortest_timeout, self.secrets, self.durable = builder.shortest_timeout, builder.secrets, builder.durable
        self.version, self.caller, self.waits = builder.version, builder.caller, builder.waits
        self.node_count, self.chunk_plans = builder.node_count, builder.chunk_plans
        self.lists_nodes = builder.main is None and _lists_nodes(region.graph)
        self.channels, self.plan, self.main = builder.channels, builder.plans.get(region), builder.main or region

    def folded(self, frame: Any, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state of an interrupted run: the writes of its finished nodes."""
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
    knows_secrets: bool = False,
    waits: bool = False,
) -> Program:
    """Compile a checked flow."""
    builder = Builder(flow, caller, durable, records, watched, lease, spread, knows_secrets, waits)
    region = Region(flow.body, None, None, "", "")
    play = builder.region(region)
    return Program(builder, region, play)


class Builder:
    """Walk a flow once and compile it."""

    # `node` puts these wrappers around the op of a node, from the innermost to the outermost:
    #
    # | wrapper | used by |
    # |---|---|
    # | `with_inner_writes` | an op that awaits: passes on the writes of the regions inside; else `_as_coroutine` |
    # | `with_result` | `result` |
    # | `report_start` | `gate` or `when`, in a watched run |
    # | `with_conditions` | `gate` or `when` |
    # | `with_writes` | `writes` of a node with attempts and without regions |
    # | `with_attempts` | the policy: timeout, retry, `on_error` |
    # | `with_writes` | `writes` of any other node |
    # | `_with_view` | a node of an unordered region, if nodes before it write channels that it reads |
    # | `journal_value` | a durable run, unless the call itself is journaled |
    # | `report_node` | a watched run |

    def __init__(
        self,
        flow: Flow,
        caller: Caller,
        durable: bool,
        records: bool,
        watched: bool,
        lease: Lease | None,
        spread: MapChunks | None,
        knows_secrets: bool = False,
        waits: bool = False,
    ) -> None:
        self.flow, self.caller, self.durable, self.records, self.watched = flow, caller, durable, records, watched
        self.lease, self.spread = lease, spread
        self.chunk_plans: dict[str, ChunkPlan] = {}  # the maps that can run in chunks, by their place
        self.channels = dict(flow.state)
        self.shortest_timeout: float | None = None  # seconds, of the plain calls
        self.node_count = 0
        self.version = caller.version
        self.plans: dict[Region, StatePlan] = {}
        self.main: Region | None = None
        self.last_call: NodeSlot | None = None  # in the outermost region, if its nodes have one possible order
        self._bound: dict[str, Any] = {}
        roots = flow.body.roots
        self.secrets, self.uses_prev = knows_secrets or "secret" in roots, "prev" in roots
        self.secrets_of: SecretsOf | None = known_secrets if self.secrets else None
        self.waits = waits or may_wait(flow, self)
        self.approvals: frozenset[str] = frozenset()  # approvals whose `approved` the flow reads
        if self.waits:
            from ...check.approvals import approvals_read

            self.approvals = approvals_read(flow)

    def bind(self, tool_id: str, /) -> Any:
        """Resolve a tool, once per program."""
        bound = self._bound.get(tool_id)
        if bound is None:
            bound = self._bound[tool_id] = self.caller.bind(tool_id)
        return bound

    def lower_shortest_timeout(self, timeout: float | None) -> None:
        """Lower the shortest timeout of the program to `timeout` seconds; None changes nothing."""
        if timeout is not None and (self.shortest_timeout is None or timeout < self.shortest_timeout):
            self.shortest_timeout = timeout

    def runs_in_loop(self, node_slot: NodeSlot) -> bool:
        """Return True if the loop of the region can make the node's tool call itself."""
        is_reported = self.watched and not node_slot.node.meta.hidden
        return node_slot.unwrapped and node_slot.view_slot is None and not is_reported and not self.secrets

    def inner_region(self, region: Region) -> Callable[..., Awaitable[Yield]]:
        """Compile a region inside a node."""
        outer, owner = region.outer, region.owner
        at_top = outer is not None and outer.outer is None
        if at_top and owner is not None and owner.node.meta.hidden and region.binds == "loop":
            self.main = region
        return self.region(region)

    def expr(self, expr: Expr, scope: Scope) -> Getter:
        """Compile an expression at a position."""
        return compile_expr(expr, scope.resolve, self.secrets_of)

    def condition(self, expr: Expr, scope: Scope) -> Callable[[Frame], bool]:
        """Compile a condition at a position."""
        return compile_condition(expr, scope.resolve, self.secrets_of)

    def region(self, region: Region) -> Callable[[Any], Any]:
        """Compile every node of a region, then how the region runs and ends."""
        body = region.graph
        self.node_count += len(body.nodes)
        writes = [_written_channels(node_slot) for node_slot in region.node_slots.values()]
        region.writes = any(w is not None for w in writes)
        node_slots = [region.node_slots[node.id] for node in body.nodes]
        needs = [] if body.ordered else _needs(body)
        order: list[NodeSlot] | None = node_slots
        if not body.ordered:
            from .folds import in_sequence  # imported only by unordered regions

            sequence = in_sequence(needs)
            order = None if sequence is None else [node_slots[i] for i in sequence]
        # A watched run reports when nodes become ready, so it keeps its graph.
        region.sequential = body.ordered or (order is not None and not self.watched)
        if order is not None and region.sequential:
            node_slots = order
        if order is not None and region.owner is None:
            # Only computations follow it.
            calls = (slot for slot in reversed(order) if type(slot.node.op) not in (Compute, Validate))
            self.last_call = next(calls, None)
        plan = None
        if region.writes and not region.sequential:
            from .folds import StatePlan  # imported only by unordered regions that write

            plan = self.plans[region] = StatePlan(region, writes, self.channels)
        steps = [self.node(node_slot, plan) for node_slot in node_slots]
        region.uses_task_deadline = uses_task_deadline(steps)
        result = self.expr(body.result, Scope(region, None))
        if region.owner is None:
            result = self._checked_result(result)
        finish = self._finish(region, result, plan)
        if region.sequential:
            if not self.records:
                return bare_line(steps, node_slots, finish)
            return line(steps, node_slots, result, finish, region.flat)
        return graph(
            steps,
            node_slots,
            needs,
            body.limit,
            finish,
            ready_reporter(node_slots) if self.watched else None,
            self.waits,
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
                raise frame[RUN].mismatch("output", schema.problems(value, "output"))
            return value

        return get_valid

    def node(self, node_slot: NodeSlot, plan: StatePlan | None) -> RegionStep:
        """Compile one node: its op, in the order of `Builder`, wrapped in nothing but the features that it uses."""
        node, region = node_slot.node, node_slot.region
        scope = Scope(region, node_slot)
        site = CompileContext(self, scope, node_slot)
        if node.policy.retry.attempts > 1:
            node_slot.attempt_slot = region.slot()
        evaluated = _evaluated(node.op)
        node_slot.evaluates_long = evaluates_long = evaluated is not None and needs_budget(evaluated)
        step = node.op.compile(site)
        if evaluates_long:
            from ..offload import offloaded  # imported only for expensive expressions

            step = offloaded(step)
        # A node without features needs no wrapper: the loop of the region starts its step itself.
        get, run_node = step.get, step.run
        view = plan.view(node_slot) if plan is not None else None
        is_journaled = self.durable and (node_slot.tool is None or node_slot.may_hold_outcome)
        is_observed = not node.meta.hidden and (self.watched or is_journaled)
        runs_unwrapped = node_slot.unwrapped and view is None and not is_observed and not node_slot.bodies
        if runs_unwrapped and node.writes is None:
            return _region_step(step, node_slot, None)
        # Otherwise each feature wraps what is there so far, from the op outwards.
        in_plan = plan is not None and node_slot.writes_slot is not None
        write = plan.write_keeper(node_slot) if plan is not None and in_plan else policy.state_writer(self.channels)
        write_own = None
        if node.writes is not None:
            updates = self.expr(node.writes, scope)
            reporter = write_reporter(node_slot) if is_observed and self.watched else None
            write_own = policy.own_writes(self.channels, node_slot, updates, write, reporter)
        if runs_unwrapped and write_own is not None:
            hook = policy.write_hook(self.channels, node, write_own, region)
            return _region_step(step, node_slot, hook)
        run = policy.with_inner_writes(run_node, get, node_slot, write) if run_node is not None else _as_coroutine(get)
        if node.result is not None:
            run = policy.with_result(run, self.expr(node.result, scope), node_slot)
        pending_start_path_slot = None
        if node.gate is not None or node.when is not None:
            if is_observed and self.watched:
                # The start of a node that may be skipped is reported only when its gate and condition have passed.
                pending_start_path_slot = region.slot()
                run = report_start(run, node_slot, pending_start_path_slot)
            run = self._with_conditions(node, node_slot, scope, run)
        # Writes inside the attempts can fail an attempt; those of a node with regions come after all attempts.
        has_attempts = node_slot.has_attempts and not node_slot.bodies
        if write_own is not None and has_attempts:
            run = policy.with_writes(run, write_own, node_slot)
        run = self._with_policies(node, node_slot, scope, run, write_own if has_attempts else None)
        if write_own is not None and not has_attempts:
            run = policy.with_writes(run, write_own, node_slot)
        if view is not None:
            run = _with_view(run, view, node_slot)
        if is_observed and is_journaled:
            run = journal_value(run, node_slot)
        if is_observed and self.watched:
            run = report_node(run, node_slot, pending_start_path_slot)
        return RegionStep(run, waits=True, take=None, write=None, slot=node_slot.slot)

    def _with_conditions(
        self, node: Node, node_slot: NodeSlot, scope: Scope, run: policy.NodeRunner
    ) -> policy.NodeRunner:
        """Put the gate and the condition of a node in front of it."""
        gate = self.condition(node.gate, scope) if node.gate is not None else None
        when = self.condition(node.when, scope) if node.when is not None else None
        if when is not None and node.when is not None and needs_budget(node.when):
            from ..offload import offloaded_condition  # imported only for expensive conditions

            run, when = offloaded_condition(run, when), None
        return policy.with_conditions(run, gate, when, node_slot) if gate is not None or when is not None else run

    def _with_policies(
        self,
        node: Node,
        node_slot: NodeSlot,
        scope: Scope,
        run: policy.NodeRunner,
        write_own: Callable[[Any], None] | None,
    ) -> policy.NodeRunner:
        if not node_slot.has_attempts:
            return run
        on_error = node.policy.on_error
        stand_in = self.expr(on_error.value, scope) if on_error is not None else None
        return policy.with_attempts(run, node.policy, stand_in, write_own, node_slot, self.durable)

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
                    raise node_failure(refused.error, refused.node_slot, frame) from refused.error
                raise
            frame[LOG].extend(writes)
            return Yield(result(frame), frame[LOG])

        return finish_ordered if plan is None else finish_folded


def may_wait(flow: Flow, caller: Binder) -> bool:
    """Return True if the flow, or a flow that it calls as a tool at any depth, has a node that may wait for a
    person."""
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
    return any(
        type(node.op) is Wait or (type(node.op) is Interpreted and node.op.asks) or any(map(_has_waits, bodies(node)))
        for node in body.nodes
    )


def _written_channels(node_slot: NodeSlot) -> frozenset[str] | None:
    if node_slot.node.writes is None and not node_slot.bodies:
        return None
    from .folds import writes_of  # imported only by nodes that may write

    return writes_of(node_slot.node)


def _needs(body: Graph) -> list[list[int]]:
    position = {node.id: i for i, node in enumerate(body.nodes)}
    return [[position[id] for id in body.needs[node.id]] for node in body.nodes]


def _region_step(step: Step, node_slot: NodeSlot, write: ApplyWrites | None) -> RegionStep:
    take = node_slot.direct.take if node_slot.direct is not None else None
    return RegionStep(step.start, waits=step.run is not None, take=take, write=write, slot=node_slot.slot)


def _lists_nodes(body: Graph) -> bool:
    """Return True if the value of a region is the object of its nodes' values."""
    result = body.result
    if not isinstance(result, Obj) or len(result.fields) != len(body.nodes):
        return False
    return all(
        isinstance(value, Ref) and value.root == "out" and value.path == (node.id,) and key == node.id
        for (key, value), node in zip(result.fields, body.nodes, strict=True)
    )


def _evaluated(op: Op) -> Expr | None:
    """Return the expression that the op evaluates before or instead of a call."""
    if isinstance(op, Call):
        return op.args
    return op.value if isinstance(op, Compute) else None


def _as_coroutine(get: Getter) -> policy.NodeRunner:
    async def run(frame: Frame) -> Any:
        return get(frame)

    return run


def _with_view(
    run: policy.NodeRunner, view: Callable[[Any], Mapping[str, Any]], node_slot: NodeSlot
) -> policy.NodeRunner:
    slot = node_slot.view_slot
    assert slot is not None

    async def run_with_view(frame: Frame) -> Any:
        frame[slot] = view(frame)
        try:
            return await run(frame)
        finally:
            frame[slot] = None  # a view may be large, and the frame lives on

    return run_with_view
