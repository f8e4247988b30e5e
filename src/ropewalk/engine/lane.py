"""Timeouts that cost nothing until something suspends.

A Lane belongs to one task and says which node it is at and since when. In a line of nodes that is
read off the step record, whose last clock reading is the start of the node that runs; elsewhere it
is two stores per node. One timer per event loop looks at all lanes at the earliest moment one of
them could be late. `timed` is the exact form for policies.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from .frame import CLOCKS, NODES, ROUNDS, Spot, node_at

INSIST = 0.5  # seconds for a tool to clean up before it is cancelled again
clock = time.monotonic  # what event loops use, so a reading here can be a loop deadline


class Lane:
    """Where one task is: the node it runs and since when, or the `track` of the line it is in.

    `late` is the node for whose sake the task is being cancelled; `before` counts the cancellations that were under
    way already.
    """

    __slots__ = ("before", "helpers", "late", "late_since", "least", "outer", "since", "spot", "task", "track")

    task: asyncio.Task[Any]

    def __init__(self, task: asyncio.Task[Any] | None = None) -> None:
        if task is not None:  # else it is still to be made, and will be told its lane
            self.task = task
        self.before = task.cancelling() if task is not None else 0
        self.outer: Lane | None = None  # the lane of the run that has called us in its task
        self.helpers: list[Lane] | None = None  # those of tasks that share its work and are not looked up
        self.since = 0.0
        self.spot: Spot | None = None
        self.track: list[Any] | None = None
        self.late: Spot | None = None
        self.late_since = 0.0
        self.least: float | None = None  # seconds that the strictest node of the program may take

    def cancelled(self) -> bool:
        """Whether its task has been told to end."""
        return self.task.cancelling() > self.before

    def forgive(self) -> None:
        """Take back a cancellation that the tool it was meant for did not let through."""
        if self.late is not None:
            self.late = None
            self.task.uncancel()

    def at(self) -> tuple[Spot | None, float]:
        """The node that runs, None between nodes, and since when."""
        track = self.track
        if track is None:
            return self.spot, self.since
        done, nodes = len(track) - CLOCKS - 1, len(track[NODES])
        over = not nodes or (done and not done % nodes and track[ROUNDS] is None)
        return (None if over else node_at(track)), track[-1]


class Timer(Protocol):
    """Something to do at `when`, a time of the event loop, and again every INSIST seconds."""

    when: float

    def expire(self) -> None: ...


class Watch:
    """The one timer of an event loop for all its lanes and exact deadlines."""

    __slots__ = ("asked", "by_task", "handle", "loop", "rounds", "timers", "when")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.by_task: dict[asyncio.Task[Any], Lane] = {}
        self.timers: dict[Timer, None] = {}
        self.handle: asyncio.TimerHandle | None = None
        self.when = float("inf")
        self.rounds, self.asked = 0, False

    def round(self) -> int:
        """A number that is another one when the loop has come round since it was last asked for."""
        if not self.asked:
            self.asked = True
            self.loop.call_soon(self._comes_round)
        return self.rounds

    def _comes_round(self) -> None:
        self.asked, self.rounds = False, self.rounds + 1

    def add(self, lane: Lane, limit: float | None, now: float) -> None:
        """Watch the lane of its task; no node of it is late before `limit` seconds are over."""
        task = lane.task
        if task in self.by_task:
            lane.outer = self.by_task[task]
        self.by_task[task] = lane
        lane.least = limit
        if limit is not None and now + limit < self.when:
            self.arm(now + limit)

    def remove(self, lane: Lane) -> None:
        if lane.outer is None:
            del self.by_task[lane.task]
        else:
            self.by_task[lane.task] = lane.outer

    def _lanes(self) -> list[Lane]:
        found = list(self.by_task.values())
        for lane in found:  # which grows as we go
            if lane.outer is not None:
                found.append(lane.outer)
            if lane.helpers is not None:
                found += lane.helpers
        return found

    def set(self, timer: Timer) -> None:
        self.timers[timer] = None
        if timer.when < self.when:
            self.arm(timer.when)

    def unset(self, timer: Timer) -> None:
        """Forget a deadline: what it watched is over."""
        del self.timers[timer]

    def arm(self, when: float) -> None:
        """Look at `when`, which is sooner than the next look that is due."""
        if self.handle is not None:
            self.handle.cancel()
        self.when = when
        self.handle = self.loop.call_at(when, self.look)

    def look(self) -> None:
        """See to what is late; called by its timer, and by runs in which nothing suspends."""
        if self.handle is not None:
            self.handle.cancel()
        now, self.handle, self.when = clock(), None, float("inf")
        earliest = float("inf")
        for lane in self._lanes():
            spot, since = lane.at()
            limit = spot.limit if spot is not None else None
            if lane.least is not None:
                # The strictest node may start right now, so nothing can be late before this.
                earliest = min(earliest, now + lane.least)
            if limit is None:
                continue
            if since + limit > now:
                earliest = min(earliest, since + limit)
            elif lane.late is not spot or lane.late_since != since:
                lane.forgive()
                lane.late, lane.late_since = spot, since
                lane.task.cancel()
        for timer in list(self.timers):
            if timer.when <= now:
                timer.expire()
                timer.when = now + INSIST
            earliest = min(earliest, timer.when)
        if earliest != float("inf"):
            self.arm(earliest)


_watches: dict[int, Watch] = {}


def watch_of(loop: asyncio.AbstractEventLoop) -> Watch:
    """The watch of a loop. By its id, since a weak dictionary is dear and every run comes by; what
    belongs to closed loops goes when a new loop comes."""
    found = _watches.get(id(loop))
    if found is None or found.loop is not loop:
        for key in [key for key, watch in _watches.items() if watch.loop.is_closed()]:
            _watches.pop(key, None)
        found = _watches[id(loop)] = Watch(loop)
    return found


def lane_of_task() -> Lane:
    """The lane of the current task; workers and runs register theirs."""
    task = asyncio.current_task()
    assert task is not None
    return watch_of(task.get_loop()).by_task[task]


async def arrived() -> asyncio.CancelledError | None:
    """A cancellation of the current task that nothing has waited for yet."""
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError as exc:
        return exc
    return None


class Deadline:
    """An exact deadline of the current task, until it is `over`: cancels it when it passes, and again every
    INSIST seconds while the task goes on all the same."""

    __slots__ = ("before", "late", "task", "watch", "when")

    def __init__(self, when: float, watch: Watch | None = None) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task, self.when = task, when
        self.before = task.cancelling()
        self.late = 0  # how often it was cancelled here
        if watch is None:
            watch = watch_of(task.get_loop())
        self.watch = watch
        watch.timers[self] = None  # as `set` does: this is made for every call of a durable run
        if when < watch.when:
            watch.arm(when)

    def expire(self) -> None:
        self.late += 1
        self.task.cancel()

    def alone(self) -> bool:
        """Whether nobody else has cancelled the task meanwhile."""
        return self.task.cancelling() - self.late <= self.before

    def over(self) -> None:
        """Forget it, and leave the task without the cancellations that were ours."""
        del self.watch.timers[self]
        if self.late:
            for _ in range(self.late):
                self.task.uncancel()


class Late(Exception):
    """A deadline passed; internal, turned into ToolTimeout where the tool is known."""


def timed(run: Callable[[Any], Awaitable[Any]], seconds: float) -> Callable[[Any], Awaitable[Any]]:
    """The same step, with Late raised when it takes longer than `seconds`."""

    async def with_deadline(value: Any) -> Any:
        timer = Deadline(clock() + seconds)
        try:
            found = await run(value)
            if timer.late:
                raise asyncio.CancelledError  # it kept its own to itself: what it gives comes too late
            if clock() >= timer.when:
                raise Late  # so does what comes from one that kept the loop to itself: nobody could tell it
            return found
        except asyncio.CancelledError:
            # Ours alone: an outer cancellation that came at the same moment goes on.
            if timer.late and timer.alone():
                raise Late from None
            raise
        finally:
            timer.over()  # also where the step did not let it through and ended in its own way

    return with_deadline
