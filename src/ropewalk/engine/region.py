"""Running a region: one line of nodes in order, or a graph of nodes as their needs are met.

A node is the triple (get, go, slot): `frame[slot] = await go(get(frame))`, without `go` for what
needs no await. Everything else (retry, conditions, state, journal) was wrapped around the
triple when the program was built, so what a flow does not use is not even an `if` here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from ..ir import Yield
from ..values import Json
from .failure import failure
from .frame import LANE, RUN, Frame, Spot
from .lane import Lane, clock, lane_of_task
from .spill import Spill

Cell = tuple[Callable[[Any], Any], Callable[[Any], Awaitable[Any]] | None, int, Spot]
Run = Callable[[Frame], Awaitable[Yield]]
Finish = Callable[[Frame], Yield]


def line(cells: list[Cell], finish: Finish) -> Run:
    """Run the nodes one after another in the caller's task; each leaves a step record."""
    table = tuple(cells)

    async def run(frame: Frame) -> Yield:
        lane: Lane = frame[LANE]
        add = frame[RUN].records.append
        start = clock()
        spot: Any = None
        try:
            for get, go, slot, spot in table:
                lane.since = start
                lane.spot = spot
                value = get(frame)
                if go is not None:
                    value = await go(value)
                frame[slot] = value
                # The end of one step is the start of the next: one clock reading per step.
                end = clock()
                add((spot, frame, start, end))
                start = end
        except BaseException as exc:
            raised = failure(exc, spot, frame, lane)
            if raised is exc:
                raise
            raise raised from raised.__cause__
        finally:
            lane.spot = None  # nothing here is late any more
        return finish(frame)

    return run


def bare_line(cells: list[Cell], finish: Finish) -> Run:
    """The same without records and the watch's clock: for measuring what those cost."""
    table = tuple(cells)

    async def run(frame: Frame) -> Yield:
        spot: Any = None
        try:
            for get, go, slot, spot in table:  # noqa: B007
                value = get(frame)
                frame[slot] = value if go is None else await go(value)
        except BaseException as exc:
            raised = failure(exc, spot, frame)
            if raised is exc:
                raise
            raise raised from raised.__cause__
        return finish(frame)

    return run


def graph(cells: list[Cell], needs: list[list[int]], limit: int | None, finish: Finish) -> Run:
    """Start each node as soon as the nodes it needs are done, at most `limit` at once."""
    then: list[list[int]] = [[] for _ in cells]
    for index, before in enumerate(needs):
        for need in before:
            then[need].append(index)
    table = [(*cell, tuple(after)) for cell, after in zip(cells, then, strict=True)]
    counts = [len(before) for before in needs]
    roots = [index for index, left in enumerate(counts) if not left]

    async def run(frame: Frame) -> Yield:
        add = frame[RUN].records.append
        left = counts.copy()
        ready = deque(roots)
        pop, push = ready.popleft, ready.append

        async def drain(lane: Lane) -> None:
            spot: Any = None
            try:
                while ready:
                    get, go, slot, spot, after = table[pop()]
                    if ready and spill.handle is None:
                        spill.offer()
                    start = lane.since = clock()
                    lane.spot = spot
                    value = get(frame)
                    if go is not None:
                        value = await go(value)
                    frame[slot] = value
                    add((spot, frame, start, clock()))
                    for index in after:
                        now = left[index] - 1
                        left[index] = now
                        if not now:
                            push(index)
            except BaseException as exc:
                raised = failure(exc, spot, frame, lane)
                if raised is exc:
                    raise
                raise raised from raised.__cause__

        spill = Spill(drain, lambda: len(ready), limit)
        await spill.run(frame[LANE])
        return finish(frame)

    return run


def many(
    open_: Callable[[Frame, int, Json], Frame], run: Run, limit: int | None
) -> Callable[[Frame, list[Json]], Awaitable[list[Yield]]]:
    """Run a body once per item, at most `limit` at once; results in item order."""

    async def each(frame: Frame, items: list[Json]) -> list[Yield]:
        count = len(items)
        out: list[Any] = [None] * count
        claimed = 0
        alone = limit == 1 or count == 1

        async def drain(lane: Lane) -> None:
            nonlocal claimed
            while claimed < count:
                index = claimed
                claimed = index + 1
                if spill.handle is None and claimed < count and not alone:
                    spill.offer()
                inner = open_(frame, index, items[index])
                inner[LANE] = lane
                out[index] = await run(inner)

        spill = Spill(drain, lambda: count - claimed, limit)
        if count:
            await spill.run(lane_of_task())
        return out

    return each
