"""Timeouts that cost nothing until a tool suspends.

A `TaskDeadline` (a *lane*) belongs to one task and knows which node the task executes, and since
when. In a line of nodes it reads this from the step record, whose last clock reading is the start
of the current node; elsewhere it costs two stores per node. One `DeadlineTimer` per event loop
looks at all lanes at the earliest moment at which one of them can be late. `Deadline` and `timed`
are exact deadlines, for journaled calls and for policies.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from .frame import CLOCKS, NODES, ROUNDS, NodeSlot, node_at

RECANCEL_AFTER = 0.5  # seconds for a tool to clean up before it is cancelled again
clock = time.monotonic  # what event loops use, so a reading here can be a loop deadline
CUT: Final[Any] = object()
"""The `late` of a lane whose work was interrupted: by the failure of a sibling, a timeout around it, or a stop."""


class TaskGroup(Protocol):
    """Tasks that share the work of one task, as the code that interrupts them sees it."""

    closing: bool

    @property
    def helpers(self) -> list[TaskDeadline]: ...

    @property
    def outer(self) -> TaskGroup | None: ...


class TaskDeadline:
    """The node that one task executes, and since when; or the step record (`track`) of its line of nodes."""

    __slots__ = ("before", "helpers", "late", "late_since", "least", "outer", "since", "spill", "spot", "task", "track")

    task: asyncio.Task[Any]

    def __init__(self, task: asyncio.Task[Any] | None = None) -> None:
        self.before = 0  # cancellations of the task that are older than this lane
        if task is not None:  # otherwise whoever creates the task sets it
            self.task = task
            self.before = task.cancelling()
        self.outer: TaskDeadline | None = None  # the lane of the run that calls this run in the same task
        self.helpers: list[TaskDeadline] | None = None  # lanes of helpers that are not registered by task
        self.since = 0.0
        self.spot: NodeSlot | None = None
        self.track: list[Any] | None = None
        # The innermost task group that the task has begun and not ended.
        self.spill: TaskGroup | None = None
        self.late: NodeSlot | None = None  # the node whose timeout cancelled the task, or CUT
        self.late_since = 0.0
        self.least: float | None = None  # the shortest timeout of any node of the program, in seconds

    def cancelled(self) -> bool:
        """Return True if the task was cancelled since the lane began."""
        return self.task.cancelling() > self.before

    def forgive(self) -> None:
        """Take back the cancellation for a late node, because its tool swallowed it."""
        if self.late is not None and self.late is not CUT:
            self.late = None
            self.task.uncancel()

    def interrupt(self) -> None:
        """Cancel the task. No further node of it starts, even if a tool swallows the cancellation."""
        if self.late is None:
            self.late = CUT
        self.task.cancel()

    def uncut(self) -> None:
        """Let nodes start again after `interrupt`."""
        if self.late is CUT:
            self.late = None

    def at(self) -> tuple[NodeSlot | None, float]:
        """Return the node that runs, or None between nodes, and the clock reading at its start."""
        track = self.track
        if track is None:
            return self.spot, self.since
        finished_count, nodes = len(track) - CLOCKS - 1, len(track[NODES])
        # Only a record of iterations starts again after the last node.
        finished = not nodes or (finished_count and not finished_count % nodes and track[ROUNDS] is None)
        if finished:
            return None, track[-1]
        return node_at(track), track[-1]


class Timer(Protocol):
    """Something to do at the loop time `when`, and again every RECANCEL_AFTER seconds until it is unset."""

    when: float

    def expire(self) -> None:
        """Act on the deadline, which has passed."""
        ...


class DeadlineTimer:
    """The timer of an event loop, one for all its lanes and exact deadlines."""

    __slots__ = ("by_task", "counting", "handle", "loop", "rounds", "timers", "when")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.by_task: dict[asyncio.Task[Any], TaskDeadline] = {}
        self.timers: dict[Timer, None] = {}
        self.handle: asyncio.TimerHandle | None = None
        self.when = float("inf")
        self.rounds, self.counting = 0, False

    def round(self) -> int:
        """Return a number that changes when the event loop has run since the last call."""
        if not self.counting:
            self.counting = True
            self.loop.call_soon(self._count_round)
        return self.rounds

    def _count_round(self) -> None:
        self.counting, self.rounds = False, self.rounds + 1

    def add(self, lane: TaskDeadline, limit: float | None, now: float) -> None:
        """Watch a lane.

        Args:
            limit: The shortest timeout of its nodes in seconds; None if no node has one.
            now: A reading of `clock`.
        """
        task = lane.task
        if task in self.by_task:
            lane.outer = self.by_task[task]
        self.by_task[task] = lane
        lane.least = limit
        if limit is not None and now + limit < self.when:
            self.arm(now + limit)

    def remove(self, lane: TaskDeadline) -> None:
        """Stop watching a lane."""
        if lane.outer is None:
            del self.by_task[lane.task]
        else:
            self.by_task[lane.task] = lane.outer

    def _lanes(self) -> list[TaskDeadline]:
        lanes = list(self.by_task.values())
        for lane in lanes:  # the list grows during the loop
            if lane.outer is not None:
                lanes.append(lane.outer)
            if lane.helpers is not None:
                lanes += lane.helpers
        return lanes

    def set(self, timer: Timer) -> None:
        """Start a deadline."""
        self.timers[timer] = None
        if timer.when < self.when:
            self.arm(timer.when)

    def unset(self, timer: Timer) -> None:
        """Remove a deadline whose work has ended."""
        del self.timers[timer]

    def arm(self, when: float) -> None:
        """Call `look` at `when`, which is earlier than the next call that is due."""
        if self.handle is not None:
            self.handle.cancel()
        self.when = when
        self.handle = self.loop.call_at(when, self.look)

    def look(self) -> None:
        """Cancel what is late, and arm the timer again. Runs in which no tool suspends call it, too."""
        if self.handle is not None:
            self.handle.cancel()
        now, self.handle, self.when = clock(), None, float("inf")
        earliest = float("inf")
        for lane in self._lanes():
            spot, since = lane.at()
            limit = spot.limit if spot is not None and lane.late is not CUT else None
            if lane.least is not None:
                # The node with the shortest timeout may start right now, so look again when it can be late.
                earliest = min(earliest, now + lane.least)
            if limit is None:
                continue
            if since + limit > now:
                earliest = min(earliest, since + limit)
            elif lane.late is not spot or lane.late_since != since:
                # Late, and not cancelled for it yet.
                lane.forgive()
                lane.late, lane.late_since = spot, since
                lane.task.cancel()
        for timer in list(self.timers):
            if timer.when <= now:
                timer.expire()
                timer.when = now + RECANCEL_AFTER
            earliest = min(earliest, timer.when)
        if earliest != float("inf"):
            self.arm(earliest)


_watches: dict[int, DeadlineTimer] = {}


def watch_of(loop: asyncio.AbstractEventLoop) -> DeadlineTimer:
    """Return the timer of an event loop, created on first use.

    Every run calls this, so the timers are kept by id: a weak dictionary is slower. A new loop removes
    the timers of closed loops.
    """
    watch = _watches.get(id(loop))
    if watch is None or watch.loop is not loop:
        for key in [key for key, timer in _watches.items() if timer.loop.is_closed()]:
            _watches.pop(key, None)
        watch = _watches[id(loop)] = DeadlineTimer(loop)
    return watch


def lane_of_task() -> TaskDeadline:
    """Return the lane of the current task, which its run or its task group has registered."""
    task = asyncio.current_task()
    assert task is not None
    return watch_of(task.get_loop()).by_task[task]


async def arrived() -> asyncio.CancelledError | None:
    """Return the cancellation of the current task that is requested and not delivered yet; None if there is none."""
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError as exc:
        return exc
    return None


class Deadline:
    """An exact deadline of the current task, from its creation until `over`.

    When it passes it cancels the task, and again every RECANCEL_AFTER seconds while the task continues.
    """

    __slots__ = ("before", "late", "task", "watch", "when")

    def __init__(self, when: float, watch: DeadlineTimer | None = None) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task, self.when = task, when
        self.before = task.cancelling()
        self.late = 0  # how often this deadline has cancelled the task
        if watch is None:
            watch = watch_of(task.get_loop())
        self.watch = watch
        watch.timers[self] = None  # `set` inlined: every call of a durable run creates one
        if when < watch.when:
            watch.arm(when)

    def expire(self) -> None:
        """Cancel the task."""
        self.late += 1
        self.task.cancel()

    def alone(self) -> bool:
        """Return True if nobody else has cancelled the task since the deadline began."""
        return self.task.cancelling() - self.late <= self.before

    def over(self) -> None:
        """End the deadline, and take its own cancellations off the task."""
        del self.watch.timers[self]
        if self.late:
            for _ in range(self.late):
                self.task.uncancel()


def interrupt_inside(lane: TaskDeadline, outer: TaskGroup | None = None) -> None:
    """Cancel the work in progress of a lane: its own task and, at the same moment, all helpers.

    Args:
        lane: The lane in which the cancelled work began. Runs that are called in its task are cancelled, too.
        outer: The task group around the cancelled work, which continues; None cancels everything.
    """
    inner: TaskDeadline | None = watch_of(lane.task.get_loop()).by_task.get(lane.task, lane)
    while inner is not None and inner is not lane:
        _interrupt_helpers(inner.spill, None)
        inner.late = CUT if inner.late is None else inner.late
        inner = inner.outer
    _interrupt_helpers(lane.spill, outer)
    lane.interrupt()


def _interrupt_helpers(spill: TaskGroup | None, outer: TaskGroup | None) -> None:
    while spill is not None and spill is not outer:
        spill.closing = True
        for helper in spill.helpers:
            if not helper.task.done():
                interrupt_inside(helper)
        spill = spill.outer


class PolicyDeadline(Deadline):
    """The deadline of a node and of everything inside it: it reaches the tasks that the node has started."""

    __slots__ = ("lane", "spill")

    def __init__(self, when: float) -> None:
        self.lane = lane_of_task()
        self.spill = self.lane.spill
        super().__init__(when)

    def expire(self) -> None:
        self.late += 1
        interrupt_inside(self.lane, self.spill)

    def over(self) -> None:
        if self.late:
            self.lane.uncut()
        super().over()


class TimedOut(Exception):
    """A deadline passed. Internal: `ToolTimeout` replaces it where the tool is known."""


def timed(run: Callable[[Any], Awaitable[Any]], seconds: float) -> Callable[[Any], Awaitable[Any]]:
    """Return a step that raises TimedOut when `run` takes longer than `seconds`."""

    async def with_deadline(value: Any) -> Any:
        timer = PolicyDeadline(clock() + seconds)
        try:
            result = await run(value)
            if timer.late:
                raise asyncio.CancelledError  # the step swallowed the first: its result comes too late
            if clock() >= timer.when:
                raise TimedOut  # the step blocked the loop, so the timer could not cancel it
            return result
        except asyncio.CancelledError:
            # An outer cancellation at the same moment wins over the timeout.
            if timer.late and timer.alone():
                raise TimedOut from None
            raise
        finally:
            timer.over()  # also after a step that swallowed the cancellation and ended in its own way

    return with_deadline
