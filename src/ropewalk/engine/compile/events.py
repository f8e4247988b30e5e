"""Wrappers that report events to a watcher, and journal rows of nodes that call no tool.

Both are wrapped around a node only when somebody listens, so a run that nobody watches pays nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, cast

from ...errors import ExpressionError, InvalidValue, NodeFailed, ToolError
from ...events import Event, bounded
from ...expr.ast import brief
from ...ir import Getter, Graph, Node, node_parts
from ...journal.protocol import Entry
from ...tools.listener import Listener
from ...tools.tool import ProgressEvent
from ...values import NOT_JSON, Json, copy_json
from ..frame import RUN, Frame, NodeSlot, Outcome, path_of
from ..timeouts import clock
from .failures import node_failure
from .policy import NodeRunner


def reason(node: Node, status: str) -> str:
    """Return why a node did not run, with the false condition in the words of its document."""
    if status == "skipped":
        return f"condition is false: {brief(node.when)}" if node.when is not None else "condition is false"
    return f"not reached: it needs {node.meta.reached}" if node.meta.reached else "not reached"


def ready_reporter(node_slots: list[NodeSlot]) -> Callable[[Frame, int], None]:
    """Return a function that reports node.ready: everything that a node of an unordered region needs is done."""

    # In an ordered region the event would repeat node.started.

    def report(frame: Frame, index: int) -> None:
        node_slot = node_slots[index]
        if not node_slot.node.meta.hidden:
            frame[RUN].report("node.ready", path_of(frame, node_slot), node_slot.name)

    return report


def write_reporter(node_slot: NodeSlot) -> Callable[[Frame, dict[str, Json]], None]:
    """Return a function that reports state.write: the updates of a node, by channel."""

    def report(frame: Frame, updates: dict[str, Json]) -> None:
        run = frame[RUN]
        run.report("state.write", path_of(frame, node_slot), node_slot.name, run.redact(updates))

    return report


NOT_TAKEN: Final = "branch not taken"


def report_skipped_arms(decide: Getter, node_slot: NodeSlot) -> Getter:
    """Wrap the decision of a branch so that it reports node.skipped for the nodes of the other arms."""
    op: Any = node_slot.node.op

    def decided(frame: Frame) -> Json:
        arm = decide(frame)
        run, path = frame[RUN], path_of(frame, node_slot)
        for label, node in op.not_taken(arm):
            about: dict[str, Json] = {"reason": NOT_TAKEN}
            about |= {"phase": node.meta.phase} if node.meta.phase else {}
            run.report("node.skipped", f"{path}[{label}]/{node.id}", node.meta.name or node.id, about)
        return arm

    return decided


RECORDED = ("call", "call_failed", "attempt", "node", "skip")
"""Kinds of journal entries of a node that has ended, or of which an attempt has failed."""
Start = Callable[[Frame, str], None]


def start_reporter(node_slot: NodeSlot) -> Start:
    """Return a function that reports node.started."""
    name, phase = node_slot.name, node_slot.node.meta.phase
    about = {key: value for key, value in (("tool", node_slot.tool), ("phase", phase)) if value} or None
    return lambda frame, path: frame[RUN].report("node.started", path, name, mark_replayed(frame, node_slot, about))


def mark_replayed(frame: Frame, node_slot: NodeSlot, about: dict[str, Json] | None) -> dict[str, Json] | None:
    """Return the data of an event, with `replayed` if a resumed run has the node in its journal."""
    past = frame[RUN].log.past
    if not past or not any((path_of(frame, node_slot), kind) in past for kind in RECORDED):
        return about
    return {**(about or {}), "replayed": True}


def _failure_data(run: Any, failed: NodeFailed) -> dict[str, Json]:
    """Return the data of a failure event, with `replayed` if the failure is in the journal of a resumed run."""
    data: dict[str, Json] = failed.event_data()
    recorded = any((failed.path, kind) in run.log.past for kind in ("call_failed", "attempt"))
    return {**data, "replayed": True} if recorded else data


def report_start(run_node: NodeRunner, node_slot: NodeSlot, slot: int) -> NodeRunner:
    """Report node.started once, at the first attempt, after the gate and the condition of the node have passed."""

    # The path of the event is in the slot, where `report_node` has put it.
    report = start_reporter(node_slot)

    async def run(frame: Frame) -> Any:
        path = frame[slot]
        if path is not None:
            frame[slot] = None
            report(frame, path)
        return await run_node(frame)

    return run


def report_node(run_node: NodeRunner, node_slot: NodeSlot, slot: int | None) -> NodeRunner:
    """Report node.started, then node.finished, node.recovered or node.failed; or only node.skipped."""

    # With a `slot`, `report_start` reports the start.
    name, report = node_slot.name, start_reporter(node_slot)

    async def run_and_report(frame: Frame) -> Any:
        run = frame[RUN]
        path = path_of(frame, node_slot)
        if slot is None:
            report(frame, path)
        else:
            frame[slot] = path
        start = clock()
        try:
            value = await run_node(frame)
        except NodeFailed as exc:
            run.report("node.failed", path, name, _failure_data(run, exc))
            raise
        except (ToolError, ExpressionError, InvalidValue) as exc:
            failed = node_failure(exc, node_slot, frame)  # the region would do the same
            run.report("node.failed", path, name, _failure_data(run, failed))
            raise failed from exc
        ms = round((clock() - start) * 1000, 3)
        # The value says what happened: a plain value, a handled failure, or a node that did not run.
        if type(value) is not Outcome:
            about = {"ms": ms, **bounded("output", run.redact(value))}
            run.report("node.finished", path, name, mark_replayed(frame, node_slot, about))
        elif value.status == "failed":
            on_error = node_slot.node.policy.on_error
            kind = "node.failed" if on_error is None or on_error.reported else "node.recovered"
            run.report(kind, path, name, {**_failure_data(run, value.error), "handled": True})
        else:
            about = {"reason": reason(node_slot.node, value.status)}
            about |= {"phase": node_slot.node.meta.phase} if node_slot.node.meta.phase else {}
            run.report("node.skipped", path, name, mark_replayed(frame, node_slot, about))
        return value

    return run_and_report


class NodeListener(Listener):
    """Turns the reports of a running call into events of its node, and passes on events of runs that the call
    starts."""

    # It ignores reports after the call has ended, so that nothing follows the end of the node. A tool may call it from
    # a thread; the events are made in the event loop of the run.

    def __init__(self, frame: Frame, node_slot: NodeSlot) -> None:
        self._run, self._path, self._name = frame[RUN], path_of(frame, node_slot), node_slot.name
        self._open = True
        self.watcher = self._forward if self._run.listener is not None else None

    def close(self) -> None:
        """Ignore everything from now on."""
        self._open = False

    def __call__(self, event: ProgressEvent) -> None:
        data = {"progress": event.progress, "total": event.total, "message": event.message}
        self._on_loop(lambda: self._report("node.progress", data))

    def chunk(self, data: Json) -> None:
        chunk = copy_json(data)
        if chunk is not NOT_JSON:  # otherwise the result is not JSON either, and the call fails
            self._on_loop(lambda: self._report("node.chunk", bounded("chunk", self._run.redact(chunk))))

    def _report(self, kind: str, data: dict[str, Json]) -> None:
        if self._open:
            self._run.report(kind, self._path, self._name, self._run.redact(data))

    def _forward(self, event: Event) -> None:
        # The start and end of this node already stand for those of the inner run.
        if self._open and not event.kind.startswith("run."):
            outer = replace(event, run_id=self._run.id, path=f"{self._path}/{event.path}")
            self._run.emit(self._run.listener, outer)

    def _on_loop(self, report: Callable[[], None]) -> None:
        loop = self._run.loop
        if asyncio._get_running_loop() is loop:
            report()
        elif not loop.is_closed():
            loop.call_soon_threadsafe(report)


def call_with_listener(bound: Any, node_slot: NodeSlot) -> Callable[[Frame, dict[str, Json], str], Awaitable[Json]]:
    """Return a function that makes a call and reports its progress; without a watcher it makes the plain call."""

    async def call(frame: Frame, args: dict[str, Json], key: str) -> Json:
        if frame[RUN].watcher is None:
            return cast(Json, await bound.call(args, key))
        listener = NodeListener(frame, node_slot)
        try:
            return cast(Json, await bound.call(args, key, None, listener))
        finally:
            listener.close()

    return call


def journal_value(run_node: NodeRunner, node_slot: NodeSlot) -> NodeRunner:
    """Journal the value of a node that calls no tool, without waiting, for people to read later."""

    # A resumed run does not read it, but computes the value again. For a node with a body only a number or a boolean is
    # journaled: the parts of any other value are in the journal already.
    has_body = any(isinstance(part, Graph) for _, part in node_parts(node_slot.node))

    async def run_and_journal(frame: Frame) -> Any:
        run = frame[RUN]
        start = run.now()
        value = await run_node(frame)
        path = path_of(frame, node_slot)
        skipped = type(value) is Outcome and value.status != "failed"
        kind = "skip" if skipped else "node"
        if not skipped and node_slot.tool is not None:
            return value  # the call has its own entry
        if (path, kind) not in run.log.past:
            if skipped:
                data: Any = {"reason": reason(node_slot.node, value.status)}
            else:
                output = value.value if type(value) is Outcome else value
                data = run.redact(output) if not has_body or isinstance(output, (bool, int, float)) else None
            run.log.append(Entry(path, kind, node_slot.id, data, "", start, run.now()))
        return value

    return run_and_journal
