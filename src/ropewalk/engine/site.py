"""What an op sees when it is compiled: `ir.Site` and `ir.Body` over frames."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from ..errors import ExpressionError, ToolError
from ..expr.ast import Expr, Lit, Obj
from ..expr.compile import SecretsOf, compile_condition, needs_budget
from ..expr.show import brief
from ..ir import Getter, Graph, Step, Yield, whole
from ..ops import in_milliseconds
from ..values import Json
from . import direct, durable
from .caller import Direct
from .frame import FIRST, ITEM, KEY, LANE, PATH, PREV, RUN, Frame, Region, Spot, key_of, path_of
from .lane import Lane, lane_of_task
from .observe import heard
from .offload import evaluated
from .region import many
from .scope import Scope

if TYPE_CHECKING:
    from .program import Builder


class CompiledBody:
    """A region ready to run: opens frames and plays them."""

    __slots__ = ("again", "open", "region", "run", "secrets")

    def __init__(
        self,
        region: Region,
        run: Callable[..., Awaitable[Yield]],
        open_: Callable[..., Frame],
        again: Callable[..., Frame],
        secrets: SecretsOf | None = None,
    ) -> None:
        self.region, self.run, self.open, self.again, self.secrets = region, run, open_, again, secrets

    def expr(self, expr: Expr, /, *, before: bool = False) -> Callable[[Frame], bool]:
        return compile_condition(expr, Scope(self.region, None, before).resolve, self.secrets)


def opener(region: Region, scope: Scope | None, uses_prev: bool) -> Callable[..., Frame]:
    """The function that makes a frame of `region` inside a frame at `scope`."""
    blank: list[Any] = [None] * (region.size - FIRST)
    owner = region.owner
    if scope is None or owner is None:
        raise AssertionError("the flow's own region is opened by the run")
    prev = scope.prev() if uses_prev else None
    view = scope.view()
    attempts, writes, lane_here = owner.attempt_slot, region.writes, scope.region.sequential

    def open_(frame: Frame, key: int | None = None, item: Json = None, lane: Lane | None = None) -> Frame:
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
            # Nodes of an unordered region run in any worker's task; in a line it is the frame's own.
            lane or (frame[LANE] if lane_here else lane_of_task()),
            None,
            *blank,
        ]

    return open_


def reopener(region: Region) -> Callable[..., Frame]:
    """The frame of the next round: the last one's values and state, under the next key."""
    first = FIRST + len(region.graph.nodes)
    blank: list[Any] = [None] * (region.size - first)

    def same(inner: Frame, key: int, prev: Json, item: Json = None) -> Frame:
        inner[KEY], inner[PREV], inner[ITEM], inner[PATH] = key, prev, item, None
        if blank:
            inner[first:] = blank
        return inner

    if region.flat:
        return same  # what holds on to a frame is the record of a line, which keeps the values of rounds

    def again(inner: Frame, key: int, prev: Json, item: Json = None) -> Frame:
        # Records hold on to the last round's frame, so the next one is another list.
        following = inner.copy()
        following[KEY], following[PREV], following[ITEM], following[PATH] = key, prev, item, None
        following[first:] = blank  # attempts, errors and kept writes belong to one round
        return following  # with the same state, which goes on; a copy each would be a copy too many

    return again


class CompileSite:
    """One node's view of the builder."""

    def __init__(self, builder: Builder, scope: Scope, spot: Spot) -> None:
        self.builder, self.scope, self.spot = builder, scope, spot

    def expr(self, expr: Expr, /) -> Getter:
        return self.builder.expr(expr, self.scope)

    def condition(self, expr: Expr, /) -> Callable[[Frame], bool]:
        return self.builder.condition(expr, self.scope)

    def body(self, graph: Graph, /, *, label: str = "", binds: str = "") -> CompiledBody:
        return self.builder.body(graph, self.scope, self.spot, label, binds)

    def many(self, body: Any, limit: int | None, /) -> Callable[[Frame, list[Json]], Awaitable[list[Yield]]]:
        here = many(body.open, body.run, limit, body.region.searched, self.builder.waits)
        if self.builder.spread is None:
            return here
        from .chunks import spreading

        return spreading(self.builder, self.spot, body, limit, here)

    def _sender(self, bound: Any) -> durable.Send:
        """How a journaled call is made whose idempotency key goes out with it."""
        spot, place = self.spot, _place_of(bound)
        if self._watched:
            call = heard(bound, spot)
            return lambda frame, args: call(frame, args, f"{frame[RUN].id}/{place(frame, spot)}")
        return lambda frame, args: bound.call(args, f"{frame[RUN].id}/{place(frame, spot)}")

    @property
    def _watched(self) -> bool:
        return self.builder.watched and not self.spot.node.meta.hidden

    def _in_one(self, bound: Any) -> Callable[[Any], Awaitable[Json]]:
        """A direct call as one coroutine, for wrappers; timed exactly where a policy looks at it."""
        if self.spot.tried:
            return self._in_time(bound)
        self.spot.limit = bound.timeout
        self.builder.soonest(bound.timeout)
        return direct.plain(bound.direct)

    def _in_time(self, bound: Any) -> Callable[[Any], Awaitable[Json]]:
        return direct.in_time(bound.direct, bound.timeout, self.spot.tool or "")

    def _object_of(self, expr: Expr) -> Getter:
        get = self.expr(expr)
        return get if isinstance(expr, Obj) else _object(get)

    def remember(self, kind: str, decide: Getter, /) -> Getter:
        # A decision made from a secret is never written down; it is made again.
        keep = self.builder.durable and not self.builder.secrets
        decided = durable.remember(kind, decide, self.spot) if keep else decide
        if self.builder.watched and kind == "branch" and self.spot.node.meta.source:
            from .observe import not_taken

            return not_taken(decided, self.spot)
        return decided

    def sleep(self, seconds: Expr, /) -> Step:
        given = in_milliseconds(seconds)
        get = _seconds(self.expr(seconds)) if given is None else _seconds(self.expr(given), given)
        if self.builder.durable:
            return durable.sleep(get, self.spot)

        async def pause(frame: Frame) -> None:
            run = frame[RUN]
            await durable.wait_until(run, run.now() + get(frame))

        return Step(whole, pause)

    def wait(self, text: Expr, approval: bool, timeout: Expr | None, /) -> Step:
        seconds = _seconds(self.expr(timeout)) if timeout is not None else None
        looked_at = approval and self.spot.node.id in self.builder.approvals
        from .wait_node import wait  # only for flows that wait

        return wait(_text(self.expr(text)), approval, seconds, self.spot, self.builder.durable, looked_at)

    def call(self, tool: str, args: Expr, also: Expr | None = None, content: bool = False, /) -> Step:
        spot = self.spot
        spot.tool = tool
        try:
            bound = self.builder.bind(tool)
        except ToolError as exc:
            return Step(whole, _fails(exc))
        spot.repeatable = getattr(bound, "repeatable", False)
        if content:
            from ..tools.call_log import logged
            from ..tools.content import with_content

            bound = logged(with_content(bound), tool)
        slow = needs_budget(args)
        plain = bound.direct is not None and also is None and not slow
        if plain and not self.builder.durable and self.builder.bare(spot):
            spot.limit, spot.direct = bound.timeout, bound.direct
            self.builder.soonest(bound.timeout)
            return Step(whole, self._start(bound.direct, args))
        get = self._object_of(args)
        more = self._object_of(also) if also is not None else None
        if self.builder.durable:
            made: Any = self._sender(bound) if bound.direct is None else (bound.direct, bound.timeout)
            if more is not None:
                made = _sending(self._sender(bound), more)
            # A region of nodes that run at once waits for their commits together.
            pledges = not spot.region.sequential and self.builder.bare(spot)
            return durable.call(tool, made, get, spot, lease=self.builder.lease, pledges=pledges)
        if more is not None:
            get = _merged(get, more)
        if bound.direct is not None and not self.builder.secrets:
            return Step(get, self._in_one(bound))
        if self._watched:
            send = self._sender(bound)
            return Step(whole, _redacted(send, get, slow))
        return Step(whole, _keyed(bound, get, spot, slow))

    def _start(self, called: Direct, args: Expr) -> Callable[[Frame], Awaitable[Json]]:
        """From a frame to the handler's own coroutine, for the region's loop to await."""
        if isinstance(args, Lit) and type(args.value) is dict:
            args = Obj(tuple((key, Lit(value)) for key, value in args.value.items()))
        if isinstance(args, Obj):
            return direct.start_from(called, [(key, self.expr(value)) for key, value in args.fields])
        start, get = direct.start_with(called), self._object_of(args)
        return lambda frame: start(get(frame))


def _place_of(bound: Any) -> Callable[[Frame, Spot], str]:
    """What the key of a call is made of: trying again is the same call, except for a flow, which has a
    run of its own for each try."""
    return path_of if getattr(bound, "per_attempt", False) else key_of


def _keyed(bound: Any, get: Getter, spot: Spot, slow: bool) -> Callable[[Frame], Awaitable[Json]]:
    place = _place_of(bound)

    async def run(frame: Frame) -> Json:
        run_ = frame[RUN]
        args = await evaluated(get, frame) if slow else get(frame)
        return run_.redact(await bound.call(args, f"{run_.id}/{place(frame, spot)}"))

    return run


def _redacted(send: durable.Send, get: Getter, slow: bool) -> Callable[[Frame], Awaitable[Json]]:
    async def run(frame: Frame) -> Json:
        args = await evaluated(get, frame) if slow else get(frame)
        return cast(Json, frame[RUN].redact(await send(frame, args)))

    return run


def _fails(exc: ToolError) -> Callable[[Frame], Awaitable[Json]]:
    async def run(frame: Frame) -> Json:
        raise type(exc)(exc.tool_id, exc.op, exc.reason)

    return run


def _object(get: Getter) -> Getter:
    def arguments(frame: Frame) -> dict[str, Json]:
        value = get(frame)
        if value is None:
            return {}
        if type(value) is not dict:
            raise ExpressionError(f"arguments must be an object, not {type(value).__name__}")
        return value

    return arguments


def _merged(get: Getter, more: Getter) -> Getter:
    return lambda frame: {**get(frame), **more(frame)}


def _sending(send: durable.Send, more: Getter) -> durable.Send:
    """A journaled call with what it is not recognised by; evaluated only when the call is made."""
    return lambda frame, args: send(frame, {**args, **more(frame)})


def _text(get: Getter) -> Getter:
    def text(frame: Frame) -> str:
        value = get(frame)
        if type(value) is not str or not value.strip():
            given = repr(value) if type(value) is str else brief(Lit(value))
            raise ExpressionError(f"what is waited for must be a text, not {given}")
        return value

    return text


def _seconds(get: Getter, milliseconds: Expr | None = None) -> Getter:
    """What is waited, checked; with `milliseconds` that is what `get` gives."""
    unit, per = ("seconds", 1) if milliseconds is None else ("milliseconds", 1000)

    def seconds(frame: Frame) -> float:
        value = get(frame)
        if type(value) not in (int, float) or value < 0:
            where = "" if milliseconds is None else f", in `{brief(milliseconds)}`"
            raise ExpressionError(f"a delay must be a number of {unit} of 0 or more, not {brief(Lit(value))}{where}")
        return float(value / per)

    return seconds
