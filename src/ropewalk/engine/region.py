"""Run a region: `line` runs nodes in order, `graph` runs each node as soon as its needs are met.

`compile/program.py` calls these functions once for each region of a flow, when it builds the program. They return the
function that runs the region in a frame.

A node is a `RegionStep`, which the loops below unpack and execute. The loop awaits the coroutine of a plain tool call
itself, without a coroutine of ours around it. Everything else (retry, conditions, state, journal) is wrapped around
`start` when the program is built, so a feature that a flow does not use is not even an `if` here. To add a feature of
nodes, wrap the step in `compile/program.py`; do not add to these loops, which run once per node.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

from ..ir import Getter, Yield
from ..values import NOT_JSON, Json
from .compile.calls import settled
from .compile.durable import PendingCommit
from .compile.failures import failure
from .frame import FIRST, RUN, TASK_DEADLINE, Frame, NodeSlot, node_at
from .lazy_task_group import LazyTaskGroup
from .timeouts import TaskDeadline, clock, deadline_of_task

ApplyWrites = Callable[[Frame, Json], None]
"""Folds into the state what a node with this value writes."""
Follow = Callable[[Frame, Json], Frame | None]
"""Returns the frame of the next iteration of a loop for the frame and the value of the last one; None ends it."""
Run = Callable[..., Awaitable[Yield]]
"""`run(frame)`, or `run(frame, follow)` for a loop: see `ir.Body.run`."""
Finish = Callable[[Frame], Yield]
"""Makes the value and the writes of a region when all its nodes are done."""
ReportReady = Callable[[Frame, int], None]
"""Reports that the node at this position can start."""
Needs = list[list[int]]
"""For each node of a graph, the positions of the nodes that it needs."""


class RegionStep(NamedTuple):
    """A compiled node, as the loops of a region execute it."""

    # Returns the value for a frame, or an awaitable of it.
    start: Callable[[Any], Any]
    # Whether `start` returns an awaitable.
    waits: bool
    # Checks and copies the result of a direct tool call; None for any other node.
    take: Callable[[Any], Any] | None
    # Folds in the node's own writes; None if it has none, or if `start` does it.
    write: ApplyWrites | None
    # The place of the value in the frame.
    slot: int


class CompiledGraph(NamedTuple):
    """A graph of nodes for `_run_graph`."""

    # For each node the fields of its RegionStep, its NodeSlot, and the positions of the nodes that need it. Plain
    # tuples, because the loop unpacks these faster than tuples with names.
    table: list[tuple[Any, ...]]
    # For each node the number of nodes that it needs.
    need_counts: list[int]
    # The positions of the nodes that need none.
    roots: list[int]
    # The largest number of nodes that run at once; None for no limit.
    limit: int | None
    # The largest number of nodes that only wait for the commit of their calls.
    max_commits: int
    # Whether a step may look up the deadline of its task.
    uses_deadline: bool
    # Makes the result and the writes of the region at its end.
    finish: Finish
    # Reports a node that has become ready; None where nobody watches.
    report: ReportReady | None
    # Whether the flow has waits, so that the tasks of its runs are counted.
    waits: bool


def line(steps: list[RegionStep], node_slots: list[NodeSlot], result: Getter, finish: Finish, flat: bool) -> Run:
    """Return the function that runs nodes one after another in the task of the caller."""

    # The step record is a flat list that costs one clock reading and one append per node: the frame, the nodes, the
    # values of iterations or None, then clock readings, before the first node and after each. The deadline timer reads
    # from it which node runs, and since when. The iterations of a `flat` line (no node has a region inside) share one
    # frame and one record. From `result`, a loop decides if it continues.
    table, order = _plain_tuples(steps), tuple(node_slots)

    async def run_line(frame: Frame, follow: Follow | None = None) -> Yield:
        deadline: TaskDeadline = frame[TASK_DEADLINE]
        run, outer = frame[RUN], deadline.record
        values: list[Any] = []
        record: list[Any] = [frame, order, values if flat and follow is not None else None, clock()]
        deadline.record = record
        run.records.append(record)
        add, between = record.append, False
        try:
            while True:
                for start, waits, take, write, slot in table:
                    value = start(frame)
                    if waits:
                        value = await value
                        if deadline.late is not None or (run.ending and deadline.cancelled()):
                            raise asyncio.CancelledError  # the tool swallowed the first: its value comes too late
                        if take is not None:
                            raw, value = value, take(value)
                            if value is NOT_JSON:
                                value = settled(frame, node_at(record), raw)
                    frame[slot] = value
                    if write is not None:
                        write(frame, value)
                    add(now := clock())
                    if now >= run.turn:
                        await run.give_way()
                between = True  # an error from here on belongs to the region, not to a node
                if follow is None:
                    return finish(frame)
                if flat:
                    values += frame[FIRST:]
                following = follow(frame, result(frame))
                if following is None:
                    return finish(frame)
                if following is not frame:
                    frame = following
                    deadline.record = record = [frame, order, None, clock()]
                    run.records.append(record)
                    add = record.append
                between = False
        except BaseException as exc:
            if between:
                raise
            raised = failure(exc, node_at(record), frame, deadline)
            raise raised from raised.__cause__
        finally:
            deadline.record = outer

    return run_line


def _plain_tuples(steps: list[RegionStep]) -> tuple[tuple[Any, ...], ...]:
    """Return the steps as plain tuples, which a loop unpacks faster than tuples with names."""
    return tuple(tuple(step) for step in steps)


def repeatable(once: Callable[[Frame], Awaitable[Yield]]) -> Run:
    """Return `once` as a function that can also repeat: it runs again while `follow` gives a frame."""

    async def run(frame: Frame, follow: Follow | None = None) -> Yield:
        while True:
            outcome = await once(frame)
            following = follow(frame, outcome.value) if follow is not None else None
            if following is None:
                return outcome
            frame = following

    return run


def bare_line(steps: list[RegionStep], node_slots: list[NodeSlot], finish: Finish) -> Run:
    """Return the function that runs a line without step records and deadlines, to measure what these cost."""
    table, order = _plain_tuples(steps), tuple(node_slots)

    async def run(frame: Frame) -> Yield:
        slot = FIRST
        try:
            for start, waits, _, write, slot in table:
                value = start(frame)
                frame[slot] = value = await value if waits else value
                if write is not None:
                    write(frame, value)
        except BaseException as exc:  # noqa: BLE001 - raised again as the failure of its node
            raised = failure(exc, next(node_slot for node_slot in order if node_slot.slot == slot), frame)
            raise raised from raised.__cause__
        return finish(frame)

    return repeatable(run)


def graph(
    steps: list[RegionStep],
    node_slots: list[NodeSlot],
    needs: Needs,
    limit: int | None,
    finish: Finish,
    report: ReportReady | None,
    waits: bool,
) -> Run:
    """Return the function that starts each node as soon as the nodes that it needs are done."""

    # The step record is a flat list: the frame, None, then node, start and end in the order of the ends.
    #
    # A node that only waits for the commit of its call is set aside until no other node is ready. So the commits of a
    # hundred calls that return at once are one batch, with one further task at most.
    table = [
        (*step, node_slot, after) for step, node_slot, after in zip(steps, node_slots, _dependents(needs), strict=True)
    ]
    need_counts = [len(before) for before in needs]
    compiled = CompiledGraph(
        table=table,
        need_counts=need_counts,
        roots=[index for index, count in enumerate(need_counts) if not count],
        limit=limit,
        max_commits=limit or len(steps),
        uses_deadline=uses_task_deadline(steps),
        finish=finish,
        report=report,
        waits=waits,
    )
    return repeatable(partial(_run_graph, compiled))


async def _run_graph(compiled: CompiledGraph, frame: Frame) -> Yield:
    """Run one instance of a graph to its end."""
    table, need_counts, roots, limit, max_commits, uses_deadline, finish, report, waits = compiled
    run, caller_deadline, record = frame[RUN], frame[TASK_DEADLINE], list[Any]((frame, None))
    run.records.append(record)
    add, missing_counts, ready = record.extend, need_counts.copy(), deque(roots)
    commits: deque[tuple[PendingCommit, Any, ApplyWrites | None, int, NodeSlot, float]] = deque()
    pop, push = ready.popleft, ready.append if report is None else _reporting_push(report, frame, ready)

    async def drain(deadline: TaskDeadline) -> None:
        if (helps := deadline is not caller_deadline) and uses_deadline:  # the task of a helper
            group.join(deadline)
        node_slot: Any = None
        outer, outer_frame, deadline.record, deadline.frame = deadline.record, deadline.frame, None, frame
        try:
            while (ready or commits) and not group.closing:
                if ready and len(commits) < max_commits:
                    start, waits, take, write, slot, node_slot, after = table[pop()]
                    if (ready or commits) and group.handle is None:
                        group.offer()  # helpers start only if this node suspends
                    deadline.node_slot, deadline.since = node_slot, (began := clock())
                    value = start(frame)
                    if waits:
                        value = await value
                        if deadline.late is not None or ((run.ending or group.closing) and deadline.cancelled()):
                            raise asyncio.CancelledError  # the tool swallowed the first
                        if take is not None:
                            raw, value = value, take(value)
                            value = settled(frame, node_slot, raw) if value is NOT_JSON else value
                        elif type(value) is PendingCommit:
                            commits.append((value, after, write, slot, node_slot, began))
                            continue
                else:  # finish the oldest call that only has to be committed
                    commit, after, write, slot, node_slot, began = commits.popleft()
                    deadline.node_slot, deadline.since = node_slot, began
                    value = commit.result() if commit.committed.done() else await commit
                frame[slot] = value
                if write is not None:
                    write(frame, value)
                add((node_slot, began, now := clock()))
                if now >= run.turn:
                    deadline.node_slot = None
                    await run.give_way()
                for index in after:
                    missing_counts[index] = count = missing_counts[index] - 1
                    if not count:
                        push(index)
        except BaseException as exc:  # noqa: BLE001 - raised again as the failure of its node
            raised = failure(exc, node_slot, frame, deadline)
            if helps and group.fail(raised, deadline):
                return  # the caller raises it
            raise raised from raised.__cause__
        finally:
            deadline.node_slot, deadline.record, deadline.frame = None, outer, outer_frame
            if helps:
                group.leave(deadline)

    group = _task_group(run, waits)(drain, lambda: len(ready) + bool(commits), limit, caller_deadline, uses_deadline)
    await group.run()
    return finish(frame)


def _task_group(run: Any, waits: bool) -> Callable[..., LazyTaskGroup]:
    """Return the class of task groups for a run; a flow with waits counts its tasks, to know when all of them wait."""
    if not waits:
        return LazyTaskGroup
    from .waits import Counted

    return partial(Counted, run.waits)


def _reporting_push(report: Callable[[Frame, int], None], frame: Frame, ready: deque[int]) -> Callable[[int], None]:
    """Report the ready nodes, and return the function that adds one more and reports it."""
    for index in ready:
        report(frame, index)

    def push(index: int) -> None:
        report(frame, index)
        ready.append(index)

    return push


def _dependents(needs: Needs) -> list[tuple[int, ...]]:
    """Return for each node the nodes that need it."""
    dependents: Needs = [[] for _ in needs]
    for index, before in enumerate(needs):
        for need in before:
            dependents[need].append(index)
    return [tuple(after) for after in dependents]


def uses_task_deadline(steps: list[RegionStep]) -> bool:
    """Return True if a step may look up the deadline of its task, as any step that awaits more than a tool may."""
    return any(step.waits and step.take is None for step in steps)


def many(
    open_: Callable[[Frame, int, Json, TaskDeadline], Frame],
    run: Run,
    limit: int | None,
    uses_deadline: bool,
    waits: bool = False,
) -> Callable[[Frame, list[Json]], Awaitable[list[Yield]]]:
    """Return the function that runs a body once per item, and gives the results in item order."""

    async def each(frame: Frame, items: list[Json]) -> list[Yield]:
        count = len(items)
        out: list[Any] = [None] * count
        claimed = 0  # items before this index are running or done
        alone, caller_deadline = limit == 1 or count == 1, deadline_of_task()

        async def drain(deadline: TaskDeadline) -> None:
            nonlocal claimed
            helps = deadline is not caller_deadline  # this is the task of a helper, not of the caller
            if helps and uses_deadline:
                group.join(deadline)
            try:
                while claimed < count and not group.closing:
                    index = claimed
                    claimed = index + 1
                    # Helpers start only if this item suspends.
                    if group.handle is None and claimed < count and not alone:
                        group.offer()
                    out[index] = await run(open_(frame, index, items[index], deadline))
            except BaseException as exc:
                if helps and group.fail(exc, deadline):
                    return  # the caller raises it
                raise
            finally:
                if helps:
                    group.leave(deadline)

        group = _task_group(frame[RUN], waits)(drain, lambda: count - claimed, limit, caller_deadline, uses_deadline)
        if count:
            await group.run()
        return out

    return each
