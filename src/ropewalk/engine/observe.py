"""Telling what happens: events for a watcher, and journal rows for nodes that call no tool.

Both are wrapped around a node only when somebody listens, so a run nobody watches pays nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, cast

from ..errors import ExpressionError, InvalidValue, NodeFailed, ToolError
from ..events import Event, bounded
from ..expr.show import brief
from ..ir import Getter, Graph, Node, node_parts
from ..journal.journal import Entry
from ..tools.listener import Listener
from ..tools.result import ProgressEvent
from ..values import NOT_JSON, Json, own
from .failure import named
from .frame import RUN, Frame, Outcome, Spot, path_of
from .lane import clock
from .policy import Go


def reason(node: Node, status: str) -> str:
    """Why a node did not run, with the condition that was false, in the words of its document."""
    if status == "skipped":
        return f"condition is false: {brief(node.when)}" if node.when is not None else "condition is false"
    return f"not reached: it needs {node.meta.reached}" if node.meta.reached else "not reached"


def readied(spots: list[Spot]) -> Callable[[Frame, int], None]:
    """Tell node.ready: everything that a node of an unordered region needs is done. In order it would only say
    that it starts."""

    def tell(frame: Frame, index: int) -> None:
        spot = spots[index]
        if not spot.node.meta.hidden:
            frame[RUN].tell("node.ready", path_of(frame, spot), spot.name)

    return tell


def wrote(spot: Spot) -> Callable[[Frame, dict[str, Json]], None]:
    """Tell state.write: what a node has written, by channel."""

    def tell(frame: Frame, updates: dict[str, Json]) -> None:
        run_ = frame[RUN]
        run_.tell("state.write", path_of(frame, spot), spot.name, run_.redact(updates))

    return tell


NOT_TAKEN: Final = "branch not taken"


def not_taken(decide: Getter, spot: Spot) -> Getter:
    """Tell node.skipped for the nodes of a branch's arms that are not taken."""
    op: Any = spot.node.op

    def decided(frame: Frame) -> Json:
        arm = decide(frame)
        run_, path = frame[RUN], path_of(frame, spot)
        for label, node in op.not_taken(arm):
            about: dict[str, Json] = {"reason": NOT_TAKEN}
            about |= {"phase": node.meta.phase} if node.meta.phase else {}
            run_.tell("node.skipped", f"{path}[{label}]/{node.id}", node.meta.name or node.id, about)
        return arm

    return decided


RECORDED = ("call", "call_failed", "attempt", "node", "skip")
"""What the record of a node is called that has ended, or has been tried."""
Start = Callable[[Frame, str], None]


def starts(spot: Spot) -> Start:
    """Tell node.started."""
    name, phase = spot.name, spot.node.meta.phase
    about = {key: value for key, value in (("tool", spot.tool), ("phase", phase)) if value} or None
    return lambda frame, path: frame[RUN].tell("node.started", path, name, marked(frame, spot, about))


def marked(frame: Frame, spot: Spot, about: dict[str, Json] | None) -> dict[str, Json] | None:
    """What an event says, with `replayed` where a resumed run has it from its record."""
    past = frame[RUN].log.past
    if not past or not any((path_of(frame, spot), kind) in past for kind in RECORDED):
        return about
    return {**(about or {}), "replayed": True}


def _failed(run: Any, failed: NodeFailed) -> dict[str, Json]:
    """What a failure is told as, with `replayed` where it is one of the record."""
    told: dict[str, Json] = {"message": failed.message, "kind": failed.kind}
    recorded = any((failed.path, kind) in run.log.past for kind in ("call_failed", "attempt"))
    return {**told, "replayed": True} if recorded else told


def passing(go: Go, spot: Spot, slot: int) -> Go:
    """Tell node.started where the gate and the condition of a node have let it through: once, at the first
    attempt, under the path that `watched` has left in the slot."""
    tell = starts(spot)

    async def run(frame: Frame) -> Any:
        path = frame[slot]
        if path is not None:
            frame[slot] = None
            tell(frame, path)
        return await go(frame)

    return run


def watched(go: Go, spot: Spot, slot: int | None) -> Go:
    """Tell node.started, then node.finished, node.recovered or node.failed; or node.skipped alone. With a `slot` it is
    `passing` that tells the start."""
    name, tell = spot.name, starts(spot)

    async def run(frame: Frame) -> Any:
        run_ = frame[RUN]
        path = path_of(frame, spot)
        if slot is None:
            tell(frame, path)
        else:
            frame[slot] = path
        start = clock()
        try:
            value = await go(frame)
        except NodeFailed as exc:
            run_.tell("node.failed", path, name, _failed(run_, exc))
            raise
        except (ToolError, ExpressionError, InvalidValue) as exc:
            failed = named(exc, spot, frame)  # as the region would make it
            run_.tell("node.failed", path, name, _failed(run_, failed))
            raise failed from exc
        ms = round((clock() - start) * 1000, 3)
        if type(value) is not Outcome:
            about = {"ms": ms, **bounded("output", run_.redact(value))}
            run_.tell("node.finished", path, name, marked(frame, spot, about))
        elif value.status == "failed":
            on_error = spot.node.policy.on_error
            kind = "node.failed" if on_error is None or on_error.reported else "node.recovered"
            run_.tell(kind, path, name, {**_failed(run_, value.error), "handled": True})
        else:
            why = {"reason": reason(spot.node, value.status), "phase": spot.node.meta.phase}
            run_.tell("node.skipped", path, name, marked(frame, spot, {key: said for key, said in why.items() if said}))
        return value

    return run


class NodeListener(Listener):
    """Turns what a call reports while it runs into events of its node, and of the nodes of runs that it starts.

    It is deaf once the call has ended, so that nothing follows the end of the node. Tools that run in a thread may
    call it from there: the events are made in the event loop of the run.
    """

    def __init__(self, frame: Frame, spot: Spot) -> None:
        self._run, self._path, self._name = frame[RUN], path_of(frame, spot), spot.name
        self._open = True
        self.watcher = self._inside if self._run.listener is not None else None

    def close(self) -> None:
        """Ignore everything from now on."""
        self._open = False

    def __call__(self, event: ProgressEvent) -> None:
        data = {"progress": event.progress, "total": event.total, "message": event.message}
        self._on_loop(lambda: self._tell("node.progress", data))

    def chunk(self, data: Json) -> None:
        chunk = own(data)
        if chunk is not NOT_JSON:  # else the result is not JSON either, and the call fails for it
            self._on_loop(lambda: self._tell("node.chunk", bounded("chunk", self._run.redact(chunk))))

    def _tell(self, kind: str, data: dict[str, Json]) -> None:
        if self._open:
            self._run.tell(kind, self._path, self._name, self._run.redact(data))

    def _inside(self, event: Event) -> None:
        # That the inner run begins and ends, the start and the end of this node say.
        if self._open and not event.kind.startswith("run."):
            outer = replace(event, run_id=self._run.id, path=f"{self._path}/{event.path}")
            self._run.emit(self._run.listener, outer)

    def _on_loop(self, tell: Callable[[], None]) -> None:
        loop = self._run.loop
        if asyncio._get_running_loop() is loop:
            tell()
        elif not loop.is_closed():
            loop.call_soon_threadsafe(tell)


def heard(bound: Any, spot: Spot) -> Callable[[Frame, dict[str, Json], str], Awaitable[Json]]:
    """Make a call and tell what it reports while it runs. A run without a watcher makes the plain call."""

    async def call(frame: Frame, args: dict[str, Json], key: str) -> Json:
        if frame[RUN].watcher is None:
            return cast(Json, await bound.call(args, key))
        listener = NodeListener(frame, spot)
        try:
            return cast(Json, await bound.call(args, key, None, listener))
        finally:
            listener.close()

    return call


def noted(go: Go, spot: Spot) -> Go:
    """Journal, without waiting, what a node that calls no tool gave, for people to read later.

    Never read back: on resume the value is computed again from what was recorded. Of a node with a body
    only a number or a truth value is kept: the parts of any other are in the journal already.
    """
    whole = any(isinstance(part, Graph) for _, part in node_parts(spot.node))

    async def run(frame: Frame) -> Any:
        run_ = frame[RUN]
        start = run_.now()
        value = await go(frame)
        path = path_of(frame, spot)
        skipped = type(value) is Outcome and value.status != "failed"
        kind = "skip" if skipped else "node"
        if not skipped and spot.tool is not None:
            return value  # the call's own row says it all
        if (path, kind) not in run_.log.past:
            if skipped:
                data: Any = {"reason": reason(spot.node, value.status)}
            else:
                given = value.value if type(value) is Outcome else value
                data = run_.redact(given) if not whole or isinstance(given, (bool, int, float)) else None
            run_.log.append(Entry(path, kind, spot.id, data, "", start, run_.now()))
        return value

    return run
