"""Run a region: `line` runs nodes in order, `graph` runs each node as soon as its needs are met.

A node is a `RegionStep`: a tuple that the loops below unpack and execute. The loop awaits the
coroutine of a plain tool call itself, without a coroutine of ours around it. Everything else (retry,
conditions, state, journal) is wrapped around `start` when the program is built, so a feature that
a flow does not use is not even an `if` here. To add a feature of nodes, wrap the step in
`compile/program.py`; do not add to these loops, which run once per node.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from ..ir import Getter, Yield
from ..values import NOT_JSON, Json
from .compile.durable import PendingCommit
from .compile.failures import failure
from .frame import FIRST, LANE, RUN, Frame, NodeSlot, node_at
from .lazy_task_group import LazyTaskGroup
from .timeouts import TaskDeadline, clock, lane_of_task

Hook = Callable[[Frame, Json], None]
RegionStep = tuple[Callable[[Any], Any], bool, Callable[[Any], Any] | None, Hook | None, int]
"""A node as (start, waits, take, write, slot).

`start(frame)` gives the value, or an awaitable of it where `waits` is true. `take` checks and copies
the result of a direct tool call. `write` folds in what the node writes. Both may be None. The value
goes to `frame[slot]`.
"""
Follow = Callable[[Frame, Json], Frame | None]
Run = Callable[..., Awaitable[Yield]]
"""`run(frame)`, or `run(frame, follow)` for a loop: see `ir.Body.run`."""
Finish = Callable[[Frame], Yield]
Tell = Callable[[Frame, int], None] | None
Needs = list[list[int]]
_Work = tuple[list[Any], list[int], list[int], int | None, int, bool, Finish, Tell, bool]
"""A compiled graph: its nodes, each with the nodes that need it; how many nodes each needs; the nodes that
need none; the limit of nodes at once, and of pending commits; then the arguments of `graph`."""


def line(cells: list[RegionStep], spots: list[NodeSlot], result: Getter, finish: Finish, flat: bool) -> Run:
    """Return the function that runs nodes one after another in the task of the caller.

    The step record is a flat list that costs one clock reading and one append per node: the frame, the
    nodes, the values of iterations or None, then clock readings, before the first node and after each.
    The deadline timer reads from it which node runs, and since when. The iterations of a `flat` line (no
    node has a region inside) share one frame and one record. From `result`, a loop decides if it continues.
    """
    table, order = tuple(cells), tuple(spots)

    async def run(frame: Frame, follow: Follow | None = None) -> Yield:
        lane: TaskDeadline = frame[LANE]
        run_, outer = frame[RUN], lane.track
        values: list[Any] = []
        track: list[Any] = [frame, order, values if flat and follow is not None else None, clock()]
        lane.track = track
        run_.records.append(track)
        add, between = track.append, False
        try:
            while True:
                for start, waits, take, write, slot in table:
                    value = start(frame)
                    if waits:
                        value = await value
                        if lane.late is not None or (run_.ending and lane.cancelled()):
                            raise asyncio.CancelledError  # the tool swallowed the first: its value comes too late
                        if take is not None:
                            raw, value = value, take(value)
                            if value is NOT_JSON:
                                value = node_at(track).direct.settle(raw)
                    frame[slot] = value
                    if write is not None:
                        write(frame, value)
                    add(now := clock())
                    if now >= run_.turn:
                        await run_.give_way()
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
                    lane.track = track = [frame, order, None, clock()]
                    run_.records.append(track)
                    add = track.append
                between = False
        except BaseException as exc:
            if between:
                raise
            raised = failure(exc, node_at(track), frame, lane)
            raise raised from raised.__cause__
        finally:
            lane.track = outer

    return run


def in_rounds(once: Callable[[Frame], Awaitable[Yield]]) -> Run:
    """Return `once` as a function that can also repeat: it runs again while `follow` gives a frame."""

    async def run(frame: Frame, follow: Follow | None = None) -> Yield:
        while True:
            outcome = await once(frame)
            following = follow(frame, outcome.value) if follow is not None else None
            if following is None:
                return outcome
            frame = following

    return run


def bare_line(cells: list[RegionStep], spots: list[NodeSlot], finish: Finish) -> Run:
    """Return the function that runs a line without step records and deadlines, to measure what these cost."""
    table, order = tuple(cells), tuple(spots)

    async def run(frame: Frame) -> Yield:
        slot = FIRST
        try:
            for start, waits, _, write, slot in table:
                value = start(frame)
                frame[slot] = value = await value if waits else value
                if write is not None:
                    write(frame, value)
        except BaseException as exc:  # noqa: BLE001 - raised again as the failure of its node
            raised = failure(exc, next(s for s in order if s.slot == slot), frame)
            raise raised from raised.__cause__
        return finish(frame)

    return in_rounds(run)


def graph(
    cells: list[RegionStep],
    spots: list[NodeSlot],
    needs: Needs,
    limit: int | None,
    finish: Finish,
    report: Tell,
    waits: bool,
) -> Run:
    """Return the function that starts each node as soon as the nodes that it needs are done.

    The step record is a flat list: the frame, None, then node, start and end in the order of the ends.

    A node that only waits for the commit of its call is set aside until no other node is ready. So
    the commits of a hundred calls that return at once are one batch, with one further task at most.

    Args:
        cells: The steps.
        spots: The slots of the same nodes.
        needs: For each node the positions of the nodes that it needs.
        limit: The largest number of nodes that run at once; None for no limit.
        finish: Makes the result and the writes of the region at its end.
        report: Reports a node that has become ready; None where nobody watches.
        waits: Whether the flow has waits, so that the tasks of its runs are counted.
    """
    table = [(*cell, spot, after) for cell, spot, after in zip(cells, spots, _dependents(needs), strict=True)]
    counts = [len(before) for before in needs]
    roots = [index for index, count in enumerate(counts) if not count]
    max_commits = limit or len(cells)
    work = (table, counts, roots, limit, max_commits, searched(cells), finish, report, waits)
    return in_rounds(partial(_play, work))


async def _play(work: _Work, frame: Frame) -> Yield:
    """Run one instance of a graph to its end."""
    table, counts, roots, limit, max_commits, uses_lane, finish, report, waits = work
    run_, home, track = frame[RUN], frame[LANE], list[Any]((frame, None))
    run_.records.append(track)
    add, missing_counts, ready = track.extend, counts.copy(), deque(roots)
    commits: deque[tuple[PendingCommit, Any, Hook | None, int, NodeSlot, float]] = deque()
    pop, push = ready.popleft, ready.append if report is None else _reporting_push(report, frame, ready)

    async def drain(lane: TaskDeadline) -> None:
        if (helps := lane is not home) and uses_lane:  # the task of a helper
            group.join(lane)
        spot: Any = None
        outer, lane.track = lane.track, None
        try:
            while (ready or commits) and not group.closing:
                if ready and len(commits) < max_commits:
                    start, waits, take, write, slot, spot, after = table[pop()]
                    if (ready or commits) and group.handle is None:
                        group.offer()  # helpers start only if this node suspends
                    lane.spot, lane.since = spot, (began := clock())
                    value = start(frame)
                    if waits:
                        value = await value
                        if lane.late is not None or ((run_.ending or group.closing) and lane.cancelled()):
                            raise asyncio.CancelledError  # the tool swallowed the first
                        if take is not None:
                            raw, value = value, take(value)
                            value = spot.direct.settle(raw) if value is NOT_JSON else value
                        elif type(value) is PendingCommit:
                            commits.append((value, after, write, slot, spot, began))
                            continue
                else:  # finish the oldest call that only has to be committed
                    commit, after, write, slot, spot, began = commits.popleft()
                    lane.spot, lane.since = spot, began
                    value = commit.result() if commit.committed.done() else await commit
                frame[slot] = value
                if write is not None:
                    write(frame, value)
                add((spot, began, now := clock()))
                if now >= run_.turn:
                    lane.spot = None
                    await run_.give_way()
                for index in after:
                    missing_counts[index] = count = missing_counts[index] - 1
                    if not count:
                        push(index)
        except BaseException as exc:  # noqa: BLE001 - raised again as the failure of its node
            raised = failure(exc, spot, frame, lane)
            if helps and group.fail(raised, lane):
                return  # the caller raises it
            raise raised from raised.__cause__
        finally:
            lane.spot, lane.track = None, outer
            if helps:
                group.leave(lane)

    group = _task_group(run_, waits)(drain, lambda: len(ready) + bool(commits), limit, home, uses_lane)
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


def searched(cells: list[RegionStep]) -> bool:
    """Return True if a step may look up the deadline of its task, as any step that awaits more than a tool may."""
    return any(waits and take is None for _, waits, take, _, _ in cells)


def many(
    open_: Callable[[Frame, int, Json, TaskDeadline], Frame],
    run: Run,
    limit: int | None,
    uses_lane: bool,
    waits: bool = False,
) -> Callable[[Frame, list[Json]], Awaitable[list[Yield]]]:
    """Return the function that runs a body once per item, and gives the results in item order.

    Args:
        open_: Makes the frame of an item: `open_(outer frame, index, item, lane)`.
        run: Runs the body in that frame.
        limit: The largest number of items that run at once; None for no limit.
        uses_lane: Whether anything in the body looks up the deadline of its task.
        waits: Whether the flow has waits, so that the tasks of its runs are counted.
    """

    async def each(frame: Frame, items: list[Json]) -> list[Yield]:
        count = len(items)
        out: list[Any] = [None] * count
        claimed = 0  # items before this index are running or done
        alone, home = limit == 1 or count == 1, lane_of_task()

        async def drain(lane: TaskDeadline) -> None:
            nonlocal claimed
            helps = lane is not home  # this is the task of a helper, not of the caller
            if helps and uses_lane:
                group.join(lane)
            try:
                while claimed < count and not group.closing:
                    index = claimed
                    claimed = index + 1
                    # Helpers start only if this item suspends.
                    if group.handle is None and claimed < count and not alone:
                        group.offer()
                    out[index] = await run(open_(frame, index, items[index], lane))
            except BaseException as exc:
                if helps and group.fail(exc, lane):
                    return  # the caller raises it
                raise
            finally:
                if helps:
                    group.leave(lane)

        group = _task_group(frame[RUN], waits)(drain, lambda: count - claimed, limit, home, uses_lane)
        if count:
            await group.run()
        return out

    return each
