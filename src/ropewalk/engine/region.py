"""Running a region: one line of nodes in order, or a graph of nodes as their needs are met.

A node is a pair (start, slot): `frame[slot] = await start(frame)`, without the await for what
needs none. A plain tool call is made by the loop itself: no coroutine of ours stands around
the tool's. Everything else (retry, conditions, state, journal) was wrapped around the
triple when the program was built, so what a flow does not use is not even an `if` here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from ..ir import Getter, Yield
from ..values import NOT_JSON, Json
from .durable import Pledge
from .failure import failure
from .frame import FIRST, LANE, RUN, Frame, Spot, node_at
from .lane import Lane, clock, lane_of_task
from .spill import Spill

Hook = Callable[[Frame, Json], None]
Cell = tuple[Callable[[Any], Any], bool, Callable[[Any], Any] | None, Hook | None, int]
"""start, waits, take, write, slot: `start(frame)` is the value or, where the node waits, what to
await; `take` checks and copies the result of a direct tool call, `write` folds in what the node
writes; None where there is no such thing."""
Follow = Callable[[Frame, Json], Frame | None]
Run = Callable[..., Awaitable[Yield]]
"""`run(frame)`, or for rounds `run(frame, follow)`: see `ir.Body.run`."""
Finish = Callable[[Frame], Yield]
Tell = Callable[[Frame, int], None] | None
Needs = list[list[int]]
Made = Callable[..., Spill]
_Work = tuple[list[Any], list[int], list[int], int | None, int, bool, Finish, Tell, bool]
"""A graph as it was compiled: its nodes with those that wait for each, how many each waits for, those
that wait for none, how many at once, how many may wait for their commits, and so on."""


def line(cells: list[Cell], spots: list[Spot], result: Getter, finish: Finish, flat: bool) -> Run:
    """Run the nodes one after another in the caller's task.

    The step record of a line is a flat list: the frame, the nodes, the values of rounds or None, then
    clock readings, one before the first node and one after each. That is one reading and one append
    per node, nothing that the garbage collector tracks, and the lane's watch reads off it which
    node runs since when. The rounds of a `flat` line (no regions inside) go on in the same frame and
    the same record.
    """
    table, order = tuple(cells), tuple(spots)

    async def run(frame: Frame, follow: Follow | None = None) -> Yield:
        lane: Lane = frame[LANE]
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
                            raise asyncio.CancelledError  # the tool kept its own to itself: this comes too late
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
                between = True
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
    """The same for what knows of no rounds."""

    async def run(frame: Frame, follow: Follow | None = None) -> Yield:
        while True:
            done = await once(frame)
            following = follow(frame, done.value) if follow is not None else None
            if following is None:
                return done
            frame = following

    return run


def bare_line(cells: list[Cell], spots: list[Spot], finish: Finish) -> Run:
    """The same without records and without the lane's watch: for measuring what those cost."""
    table, order = tuple(cells), tuple(spots)

    async def run(frame: Frame) -> Yield:
        slot = FIRST
        try:
            for start, waits, _, write, slot in table:
                value = start(frame)
                frame[slot] = value = await value if waits else value
                if write is not None:
                    write(frame, value)
        except BaseException as exc:  # noqa: BLE001 - it goes on
            raised = failure(exc, next(s for s in order if s.slot == slot), frame)
            raise raised from raised.__cause__
        return finish(frame)

    return in_rounds(run)


def graph(
    cells: list[Cell], spots: list[Spot], needs: Needs, limit: int | None, finish: Finish, tell: Tell, waits: bool
) -> Run:
    """Start each node as soon as the nodes it needs are done, at most `limit` at once. The step
    record is a flat list too: the frame, None, then node, start, end in the order they ended.

    A node whose call has come to its end and only has to be committed is left aside until nothing
    else is ready: so a hundred that return at once are one batch, for which there is one more task at most."""
    table = [(*cell, spot, after) for cell, spot, after in zip(cells, spots, _waiting(needs), strict=True)]
    counts, found, most = [len(before) for before in needs], searched(cells), limit or len(cells)
    roots = [index for index, left in enumerate(counts) if not left]

    return in_rounds(partial(_play, (table, counts, roots, limit, most, found, finish, tell, waits)))


async def _play(work: _Work, frame: Frame) -> Yield:
    """Run one instance of a graph to its end."""
    table, counts, roots, limit, most, found, finish, tell, waits = work
    run_, home, track = frame[RUN], frame[LANE], list[Any]((frame, None))
    run_.records.append(track)
    add, left, ready = track.extend, counts.copy(), deque(roots)
    pledged: deque[tuple[Pledge, Any, Hook | None, int, Spot, float]] = deque()
    pop, push = ready.popleft, ready.append if tell is None else _told(tell, frame, ready)

    async def drain(lane: Lane) -> None:
        if (helps := lane is not home) and found:
            spill.join(lane)
        spot: Any = None
        outer, lane.track = lane.track, None
        try:
            while (ready or pledged) and not spill.closing:
                if ready and len(pledged) < most:
                    start, waits, take, write, slot, spot, after = table[pop()]
                    if (ready or pledged) and spill.handle is None:
                        spill.offer()
                    lane.spot, lane.since = spot, (began := clock())
                    value = start(frame)
                    if waits:
                        value = await value
                        if lane.late is not None or ((run_.ending or spill.closing) and lane.cancelled()):
                            raise asyncio.CancelledError
                        if take is not None:
                            raw, value = value, take(value)
                            value = spot.direct.settle(raw) if value is NOT_JSON else value
                        elif type(value) is Pledge:
                            pledged.append((value, after, write, slot, spot, began))
                            continue
                else:
                    pledge, after, write, slot, spot, began = pledged.popleft()
                    lane.spot, lane.since = spot, began
                    value = pledge.kept() if pledge.committed.done() else await pledge
                frame[slot] = value
                if write is not None:
                    write(frame, value)
                add((spot, began, now := clock()))
                if now >= run_.turn:
                    lane.spot = None
                    await run_.give_way()
                for index in after:
                    left[index] = now = left[index] - 1
                    if not now:
                        push(index)
        except BaseException as exc:  # noqa: BLE001 - it goes on
            raised = failure(exc, spot, frame, lane)
            if helps and spill.fail(raised, lane):
                return
            raise raised from raised.__cause__
        finally:
            lane.spot, lane.track = None, outer
            if helps:
                spill.leave(lane)

    spill = _spill(run_, waits)(drain, lambda: len(ready) + bool(pledged), limit, home, found)
    await spill.run()
    return finish(frame)


def _spill(run: Any, waits: bool) -> Made:
    """What runs things at once; in a flow that has waits, it is known when they are all that is left."""
    if not waits:
        return Spill
    from .waits import Counted

    return partial(Counted, run.waits)


def _told(tell: Callable[[Frame, int], None], frame: Frame, ready: deque[int]) -> Callable[[int], None]:
    """Tell which nodes are ready, and which become so."""
    for index in ready:
        tell(frame, index)

    def push(index: int) -> None:
        tell(frame, index)
        ready.append(index)

    return push


def _waiting(needs: list[list[int]]) -> list[tuple[int, ...]]:
    """For each node the nodes that wait for it."""
    then: list[list[int]] = [[] for _ in needs]
    for index, before in enumerate(needs):
        for need in before:
            then[need].append(index)
    return [tuple(after) for after in then]


def searched(cells: list[Cell]) -> bool:
    """Whether a node may look for its lane: those that wait for more than a tool may."""
    return any(waits and take is None for _, waits, take, _, _ in cells)


def many(
    open_: Callable[[Frame, int, Json, Lane], Frame], run: Run, limit: int | None, found: bool, waits: bool = False
) -> Callable[[Frame, list[Json]], Awaitable[list[Yield]]]:
    """Run a body once per item, at most `limit` at once; results in item order."""

    async def each(frame: Frame, items: list[Json]) -> list[Yield]:
        count = len(items)
        out: list[Any] = [None] * count
        claimed = 0
        alone, home = limit == 1 or count == 1, lane_of_task()

        async def drain(lane: Lane) -> None:
            nonlocal claimed
            helps = lane is not home
            if helps and found:
                spill.join(lane)
            try:
                while claimed < count and not spill.closing:
                    index = claimed
                    claimed = index + 1
                    if spill.handle is None and claimed < count and not alone:
                        spill.offer()
                    out[index] = await run(open_(frame, index, items[index], lane))
            except BaseException as exc:
                if helps and spill.fail(exc, lane):
                    return
                raise
            finally:
                if helps:
                    spill.leave(lane)

        spill = _spill(frame[RUN], waits)(drain, lambda: count - claimed, limit, home, found)
        if count:
            await spill.run()
        return out

    return each
