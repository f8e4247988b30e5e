"""The compile context of one node: `ir.Site` and `ir.Body` over frames.

References find their values here: names become slots and hops when a program is built. A Scope is a position, a node of
a region or the region's end. It decides what `prev`, the state and other references mean there. The expression compiler
uses its `resolve`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from ...errors import ExpressionError, InvalidFlow, Problem, ToolError
from ...expr.ast import Expr, Lit, Obj, Path, Ref, brief
from ...expr.compile import compile_condition, compile_expr, needs_budget
from ...expr.scope import SecretsOf
from ...ir import Getter, Graph, Step, Yield, whole
from ...ops import Call, Loop, Program, Wait, in_milliseconds
from ...redaction import Redaction
from ...tools.version import tool_version
from ...values import Json
from ..frame import (
    FIRST,
    ITEM,
    KEY,
    PARENT,
    PATH,
    PREV,
    RUN,
    STATE,
    TASK_DEADLINE,
    Frame,
    NodeSlot,
    Outcome,
    Region,
    key_of,
    path_of,
    status_in,
    value_in,
)
from ..offload import evaluated
from ..region import many
from ..timeouts import TaskDeadline, deadline_of_task
from . import calls, durable
from .calls import Direct
from .events import call_with_listener

if TYPE_CHECKING:
    from ..ports import FlowBuilder

ScopeGetter = Callable[[Any], Json]


class Scope:
    """A position in a region: at the node `node_slot`, or at the region's end if there is none."""

    # With `start` it is before the first node, where the nodes have the values of the iteration before.

    __slots__ = ("node_slot", "region", "start")

    def __init__(self, region: Region, node_slot: NodeSlot | None, start: bool = False) -> None:
        self.region, self.node_slot, self.start = region, node_slot, start

    def resolve(self, ref: Ref) -> tuple[ScopeGetter, Path]:
        """Return the getter of the value that a reference starts from, and the rest of its path."""
        # The commonest roots come first.
        root, path = ref.root, ref.path
        if root == "out" and path:
            return self._out(str(path[0])), path[1:]
        if root == "input":
            return _input, path
        if root == "prev":
            return self.prev(), path
        if root == "state":
            return self._state(path)
        if root == "status" and path:
            return self._status(str(path[0])), path[1:]
        if root == "item":
            return _up(self._hops_to("map"), ITEM), path
        if root == "index":
            return _up(self._hops_to("map"), KEY), path
        if root == "round":
            return _up(self._hops_to("loop"), KEY), path
        if root == "error" and self.node_slot is not None:
            if self.node_slot.error_slot is None:
                self.node_slot.error_slot = self.region.slot()
            return itemgetter(self.node_slot.error_slot), path
        if root == "secret" and path:
            return _secret(str(path[0])), path[1:]
        raise _unknown(f"unknown reference {root!r}", self)

    def _find(self, id: str) -> tuple[int, NodeSlot]:
        hops, region = 0, self.region
        while True:
            node_slot = region.node_slots.get(id)
            if node_slot is not None:
                return hops, node_slot
            if region.outer is None:
                raise _unknown(f"no node {id!r} in reach", self)
            hops, region = hops + 1, region.outer

    def _out(self, id: str) -> ScopeGetter:
        hops, node_slot = self._find(id)
        slot = node_slot.slot
        if not node_slot.may_hold_outcome:
            return _up(hops, slot)
        if not hops:

            def get_value(frame: Frame) -> Json:
                value = frame[slot]
                return value.value if type(value) is Outcome else value

            return get_value
        base = _up(hops, slot)
        return lambda frame: value_in(base(frame))

    def _status(self, id: str) -> ScopeGetter:
        hops, node_slot = self._find(id)
        base = _up(hops, node_slot.slot)
        return lambda frame: status_in(base(frame))

    def _hops_to(self, binds: str) -> int:
        hops, region = 0, self.region
        while region.binds != binds and region.binds != "each":
            if region.outer is None:
                raise _unknown(f"{'item and index' if binds == 'map' else 'round'} outside a {binds} body", self)
            hops, region = hops + 1, region.outer
        return hops

    def prev(self) -> ScopeGetter:
        """Return the getter of the value of the last node that ran before this position."""
        region, node_slot, hops = self.region, self.node_slot, 0
        if self.start and region.graph.ordered:
            return itemgetter(PREV)
        while not region.graph.ordered:
            if region.outer is None:
                return lambda frame: None
            hops, node_slot, region = hops + 1, region.owner, region.outer
        last = (node_slot.slot if node_slot is not None else FIRST + len(region.graph.nodes)) - 1
        if last < FIRST:
            return _up(hops, PREV)
        before = region.graph.nodes[last - FIRST]
        if not region.node_slots[before.id].may_hold_outcome:
            return _up(hops, last)

        def ran(frame: Frame) -> Json:
            for _ in range(hops):
                frame = frame[PARENT]
            slot = last
            # The slots of an ordered region are in the order of its nodes.
            while slot >= FIRST:
                value = frame[slot]
                if type(value) is not Outcome:
                    return value
                if value.status == "failed":
                    return value.value
                slot -= 1
            return frame[PREV]

        return ran

    def view(self) -> ScopeGetter:
        """Return the getter of the channel values that this position sees."""
        if self.node_slot is not None and self.node_slot.view_slot is not None:
            return itemgetter(self.node_slot.view_slot)
        return itemgetter(STATE)

    def _state(self, path: Path) -> tuple[ScopeGetter, Path]:
        view = self.view()
        return (view, path) if path else ((lambda frame: dict(view(frame))), ())


def _up(hops: int, slot: int) -> ScopeGetter:
    if hops == 0:
        return itemgetter(slot)
    if hops == 1:
        return lambda frame: frame[PARENT][slot]
    if hops == 2:
        return lambda frame: frame[PARENT][PARENT][slot]

    def far(frame: Frame) -> Json:
        for _ in range(hops):
            frame = frame[PARENT]
        return frame[slot]

    return far


def _input(frame: Frame) -> Json:
    return frame[RUN].input


def known_secrets(frame: Frame) -> Redaction | None:
    """Return the secrets that the run of a frame knows."""
    secrets: Redaction | None = frame[RUN].secrets
    return secrets


def _secret(name: str) -> ScopeGetter:
    return lambda frame: frame[RUN].secret(name)


def _unknown(message: str, scope: Scope) -> InvalidFlow:
    # The check reports this with its place; here it only guards flows that were never checked.
    where = scope.node_slot.id if scope.node_slot is not None else "result"
    return InvalidFlow([Problem(path=where, message=message)])


class CompiledBody:
    """A compiled region inside a node: it opens frames and runs them."""

    __slots__ = ("next_frame", "open", "region", "run", "secrets")

    def __init__(
        self,
        region: Region,
        run: Callable[..., Awaitable[Yield]],
        open_: Callable[..., Frame],
        next_frame: Callable[..., Frame],
        secrets: SecretsOf | None = None,
    ) -> None:
        self.region, self.run, self.open, self.next_frame, self.secrets = region, run, open_, next_frame, secrets

    def expr(self, expr: Expr, /, *, before: bool = False) -> Callable[[Frame], bool]:
        return compile_condition(expr, Scope(self.region, None, before).resolve, self.secrets)


def opener(region: Region, scope: Scope | None, uses_prev: bool) -> Callable[..., Frame]:
    """Return the function that makes a frame of `region` inside a frame at `scope`."""
    blank: list[Any] = [None] * (region.size - FIRST)
    owner = region.owner
    if scope is None or owner is None:
        raise AssertionError("the flow's own region is opened by the run")
    prev = scope.prev() if uses_prev else None
    view = scope.view()
    attempts, writes, runs_in_line = owner.attempt_slot, region.writes, scope.region.sequential

    def open_(
        frame: Frame, key: int | str | None = None, item: Json = None, task_deadline: TaskDeadline | None = None
    ) -> Frame:
        state = view(frame)
        return [
            frame,
            frame[RUN],
            region,
            1 if attempts is None else frame[attempts],
            key,
            item,
            None if prev is None else prev(frame),
            dict(state) if writes else state,
            [] if writes else None,
            # A node of an unordered region may run in any task; a line runs in the task of its frame.
            task_deadline or (frame[TASK_DEADLINE] if runs_in_line else deadline_of_task()),
            None,
            *blank,
        ]

    return open_


def reopener(region: Region) -> Callable[..., Frame]:
    """Return the function that makes the frame of the next iteration, with the values and state of the last one."""
    first = FIRST + len(region.graph.nodes)
    blank: list[Any] = [None] * (region.size - first)

    def reuse_frame(inner: Frame, key: int, prev: Json, item: Json = None) -> Frame:
        inner[KEY], inner[PREV], inner[ITEM], inner[PATH] = key, prev, item, None
        if blank:
            inner[first:] = blank
        return inner

    if region.flat:
        return reuse_frame  # the record of the line keeps the values of earlier iterations, so the frame can be reused

    def copy_frame(inner: Frame, key: int, prev: Json, item: Json = None) -> Frame:
        # Records refer to the frame of the last iteration, so the next one needs its own list.
        following = inner.copy()
        following[KEY], following[PREV], following[ITEM], following[PATH] = key, prev, item, None
        following[first:] = blank  # attempts, errors and writes belong to one iteration
        return following  # the state object stays the same, since it continues

    return copy_frame


class CompileContext:
    """The builder as one node sees it."""

    def __init__(self, builder: FlowBuilder, scope: Scope, node_slot: NodeSlot) -> None:
        self.builder, self.scope, self.node_slot = builder, scope, node_slot

    def expr(self, expr: Expr, /) -> Getter:
        return compile_expr(expr, self.scope.resolve, self.builder.secrets_of)

    def condition(self, expr: Expr, /) -> Callable[[Frame], bool]:
        return compile_condition(expr, self.scope.resolve, self.builder.secrets_of)

    def body(self, graph: Graph, /, *, label: str = "", binds: str = "") -> CompiledBody:
        builder, scope = self.builder, self.scope
        region = Region(graph, scope.region, self.node_slot, label, binds)
        play = builder.inner_region(region)  # first: it adds slots to the region, which the opener counts
        return CompiledBody(
            region, play, opener(region, scope, builder.uses_prev), reopener(region), builder.secrets_of
        )

    def many(self, body: Any, limit: int | None, /) -> Callable[[Frame, list[Json]], Awaitable[list[Yield]]]:
        run_here = many(body.open, body.run, limit, body.region.uses_task_deadline, self.builder.waits)
        if self.builder.spread is None:
            return run_here
        from ..map_chunks import spreading

        return spreading(self.builder, self.node_slot, body, limit, run_here)

    def _sender(self, bound: Any) -> durable.Send:
        """Return the function that makes a call with its idempotency key."""
        node_slot, place = self.node_slot, _place_of(bound)
        send: durable.Send
        if self._watched:
            call = call_with_listener(bound, node_slot)
            send = lambda frame, args: call(frame, args, f"{frame[RUN].id}/{place(frame, node_slot)}")  # noqa: E731
        else:
            send = lambda frame, args: bound.call(args, f"{frame[RUN].id}/{place(frame, node_slot)}")  # noqa: E731
        # A flow waits in its own run; any other tool that may wait is one of a server that may ask a person.
        may_ask = self.builder.waits and getattr(bound, "waits", False) and not getattr(bound, "per_attempt", False)
        if not may_ask or not self.builder.durable:
            return send
        from .questions import asking  # imported only by flows that wait

        return asking(send, node_slot, self.builder.lease)

    @property
    def _watched(self) -> bool:
        return self.builder.watched and not self.node_slot.node.meta.hidden

    def _call_in_one_coroutine(self, bound: Any, get: Getter) -> calls.Start:
        """Return a direct call as one coroutine for wrappers; it has an exact timeout if a policy depends on it."""
        if self.node_slot.has_attempts:
            return calls.in_time(bound.direct, get, self.node_slot, bound.timeout)
        self.node_slot.limit = bound.timeout
        self.builder.lower_shortest_timeout(bound.timeout)
        return calls.plain(bound.direct, get, self.node_slot)

    def _object_of(self, expr: Expr) -> Getter:
        get = self.expr(expr)
        return get if isinstance(expr, Obj) else _require_object(get)

    def remember(self, kind: str, decide: Getter, /) -> Getter:
        # A decision may depend on a secret, so a run with secrets decides again instead of journaling it.
        keep = self.builder.durable and not self.builder.secrets
        decided = durable.remember(kind, decide, self.node_slot) if keep else decide
        if self.builder.watched and kind == "branch" and self.node_slot.node.meta.source:
            from .events import report_skipped_arms

            return report_skipped_arms(decided, self.node_slot)
        return decided

    def interpret(self, program: Program, /) -> Step:
        from .interpret import interpret  # imported only by flows with a program

        return interpret(program, self)

    def sleep(self, seconds: Expr, /) -> Step:
        milliseconds = in_milliseconds(seconds)
        get = _seconds(self.expr(seconds)) if milliseconds is None else _seconds(self.expr(milliseconds), milliseconds)
        if self.builder.durable:
            return durable.sleep(get, self.node_slot)

        async def pause(frame: Frame) -> None:
            run = frame[RUN]
            await durable.wait_until(run, run.now() + get(frame))

        return Step(whole, pause)

    def wait(self, op: Wait, /) -> Step:
        from .waits import CallApproval, wait  # imported only by flows that wait

        seconds = _seconds(self.expr(op.timeout)) if op.timeout is not None else None
        looked_at = op.asks and self.node_slot.node.id in self.builder.approvals
        text = op.event if op.event is not None else op.approval
        approved = None if op.call is None else CallApproval(op.call, self.expr(op.call.args), self._tool_version)
        get_text = None if text is None else _require_text(self.expr(text))
        return wait(get_text, op.asks, seconds, self.node_slot, self.builder.durable, looked_at, approved)

    def _tool_version(self, tool_id: str) -> str | None:
        """Return the version of a tool as it is now; None if there is no such tool."""
        try:
            tool = self.builder.bind(tool_id).tool
        except ToolError:
            return None
        return None if tool is None else tool_version(tool)

    def call(
        self, tool: str, args: Expr, unrecorded: Expr | None = None, content: bool = False, undo: Any = None, /
    ) -> Step:
        node_slot = self.node_slot
        node_slot.tool = tool
        try:
            bound = self.builder.bind(tool)
        except ToolError as exc:
            return self._call_of_missing(tool, args, _raise_on_call(exc))
        node_slot.repeatable = getattr(bound, "repeatable", False)
        node_slot.handler = getattr(getattr(bound, "tool", None), "handler", None)
        bound = _adjusted(bound, tool, content, node_slot.node.policy.timeout)
        if undo is not None or _needs_undo(bound):
            from .undo import call_undo  # imported only by flows that call a tool with an undo

            node_slot.undo = call_undo(self.builder, tool, undo, bound, content)
        if not isinstance(node_slot.node.op, Call):  # of a call the builder has looked already
            node_slot.evaluates_long = needs_budget(args)
        slow = node_slot.evaluates_long
        # A plain call needs no wrapper: the loop of the region makes it.
        plain = bound.direct is not None and unrecorded is None and not slow
        if plain and not self.builder.durable and node_slot.undo is None and self.builder.runs_in_loop(node_slot):
            node_slot.limit, node_slot.direct = bound.timeout, bound.direct
            self.builder.lower_shortest_timeout(bound.timeout)
            return Step(whole, self._start(bound.direct, args))
        get = self._object_of(args)
        more = self._object_of(unrecorded) if unrecorded is not None else None
        # A durable call is journaled before anything depends on it.
        if self.builder.durable:
            target: durable.Send | durable.HandlerCall
            if more is not None:
                target = _send_with_unrecorded(self._sender(bound), more)
            elif bound.direct is not None:
                target = durable.HandlerCall(bound.direct, bound.timeout)
            else:
                target = self._sender(bound)
            # An unordered region waits for the commits of its nodes together.
            defers_commit = not node_slot.region.sequential and self.builder.runs_in_loop(node_slot)
            last = self.builder.last_call if node_slot.region.owner is None and node_slot.unwrapped else None
            call = durable.DurableCall(
                tool, target, get, node_slot, lease=self.builder.lease, defers_commit=defers_commit,
                ends_run=node_slot is last, failure_ends_run=last is not None,
                runs_alone=_runs_alone(node_slot.region),
            )  # fmt: skip
            return Step(whole, call.run)
        if more is not None:
            get = _merge_objects(get, more)
        if node_slot.undo is not None:
            return Step(whole, _call_with_undo(self._sender(bound), get, node_slot, slow))
        if bound.direct is not None and not self.builder.secrets:
            return Step(whole, self._call_in_one_coroutine(bound, get))
        if self._watched:
            send = self._sender(bound)
            return Step(whole, _call_and_redact(send, get, slow))
        return Step(whole, _call_with_key(bound, get, node_slot, slow))

    def _call_of_missing(self, tool: str, args: Expr, fail: Callable[[Frame], Awaitable[Json]]) -> Step:
        """Return a call of a tool that does not exist, which fails unless it is recorded."""
        if not self.builder.durable:
            return Step(whole, fail)
        call = durable.DurableCall(tool, lambda frame, _: fail(frame), self._object_of(args), self.node_slot)
        return Step(whole, call.run)

    def _start(self, called: Direct, args: Expr) -> Callable[[Frame], Awaitable[Json]]:
        """Return a function from a frame to the handler's coroutine, which the loop of the region awaits."""
        if isinstance(args, Lit) and type(args.value) is dict:
            args = Obj(tuple((key, Lit(value)) for key, value in args.value.items()))
        if isinstance(args, Obj):
            return calls.start_from(called, [(key, self.expr(value)) for key, value in args.fields])
        start, get = calls.start_with(called), self._object_of(args)
        return lambda frame: start(get(frame))


def _adjusted(bound: Any, tool: str, content: bool, timeout: float | None) -> Any:
    """Return a bound tool that keeps the content of results if asked, and whose limit is at least the node's own."""
    if content:
        from ...tools.mcp.negotiation import with_content
        from ...tools.runner import logged

        bound = logged(with_content(bound), tool)
    return bound.with_timeout(timeout) if timeout is not None and timeout > bound.timeout else bound


def _runs_alone(region: Region) -> bool:
    """Return True if nothing else of the run executes while a node of the region does."""
    owner = region.owner
    if not region.sequential or owner is None:
        return region.sequential
    return isinstance(owner.node.op, Loop) and _runs_alone(owner.region)


def _needs_undo(bound: Any) -> bool:
    """Return True if a finished call of the tool may have to be taken back, here or by the run that it reuses."""
    return getattr(bound, "undo", None) is not None or getattr(bound, "origin", None) is not None


def _place_of(bound: Any) -> Callable[[Frame, NodeSlot], str]:
    """Return the function that makes the key of a call."""

    # Another attempt is the same call and has the same key, except for a flow: each attempt is a run of its own.
    return path_of if getattr(bound, "per_attempt", False) else key_of


def _call_with_key(bound: Any, get: Getter, node_slot: NodeSlot, slow: bool) -> Callable[[Frame], Awaitable[Json]]:
    place = _place_of(bound)

    async def call(frame: Frame) -> Json:
        run = frame[RUN]
        args = await evaluated(get, frame) if slow else get(frame)
        return run.redact(await bound.call(args, f"{run.id}/{place(frame, node_slot)}"))

    return call


def _call_with_undo(
    send: durable.Send, get: Getter, node_slot: NodeSlot, slow: bool
) -> Callable[[Frame], Awaitable[Json]]:
    """Make a call whose undo the run keeps in memory."""

    async def call(frame: Frame) -> Json:
        run = frame[RUN]
        args = await evaluated(get, frame) if slow else get(frame)
        began = run.now()
        value = await send(frame, args)
        node_slot.undo.note(run, frame, node_slot, args, value, began)
        return cast(Json, run.redact(value))

    return call


def _call_and_redact(send: durable.Send, get: Getter, slow: bool) -> Callable[[Frame], Awaitable[Json]]:
    async def run(frame: Frame) -> Json:
        args = await evaluated(get, frame) if slow else get(frame)
        return cast(Json, frame[RUN].redact(await send(frame, args)))

    return run


def _raise_on_call(exc: ToolError) -> Callable[[Frame], Awaitable[Json]]:
    async def run(frame: Frame) -> Json:
        raise type(exc)(exc.tool_id, exc.op, exc.reason)

    return run


def _require_object(get: Getter) -> Getter:
    def arguments(frame: Frame) -> dict[str, Json]:
        value = get(frame)
        if value is None:
            return {}
        if type(value) is not dict:
            raise ExpressionError(f"arguments must be an object, not {type(value).__name__}")
        return value

    return arguments


def _merge_objects(get: Getter, more: Getter) -> Getter:
    return lambda frame: {**get(frame), **more(frame)}


def _send_with_unrecorded(send: durable.Send, more: Getter) -> durable.Send:
    """Add arguments to a journaled call that are not part of its digest, evaluated only when the call is made."""
    return lambda frame, args: send(frame, {**args, **more(frame)})


def _require_text(get: Getter) -> Getter:
    def text(frame: Frame) -> str:
        value = get(frame)
        if type(value) is not str or not value.strip():
            shown = repr(value) if type(value) is str else brief(Lit(value))
            raise ExpressionError(f"the event or approval of a wait must be a text that is not empty, not {shown}")
        return value

    return text


def _seconds(get: Getter, milliseconds: Expr | None = None) -> Getter:
    """Return a getter of seconds that checks its value; with `milliseconds`, `get` returns the value of that
    expression.
    """
    unit, per = ("seconds", 1) if milliseconds is None else ("milliseconds", 1000)

    def seconds(frame: Frame) -> float:
        value = get(frame)
        if type(value) not in (int, float) or value < 0:
            where = "" if milliseconds is None else f", in `{brief(milliseconds)}`"
            raise ExpressionError(f"a delay must be 0 or more {unit}, not {brief(Lit(value))}{where}")
        return float(value / per)

    return seconds
