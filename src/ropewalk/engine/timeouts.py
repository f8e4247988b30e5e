"""Timeouts that cost nothing until a tool suspends.

A `TaskDeadline` belongs to one task and knows which node the task executes, and since
when. In a line of nodes it reads this from the step record, whose last clock reading is the start
of the current node; elsewhere it costs two stores per node. One `DeadlineTimer` per event loop
looks at all task deadlines at the earliest moment at which one of them can be late. `Deadline` and `timed`
are exact deadlines, for journaled calls and for policies.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from .frame import RECORD_CLOCKS, RECORD_FRAME, RECORD_ITERATIONS, RECORD_NODES, RUN, Frame, NodeSlot, node_at, path_of

if TYPE_CHECKING:
    from ..tools.output import Output, RunOutput

RECANCEL_AFTER = 0.5  # seconds for a tool to clean up before it is cancelled again
clock = time.monotonic  # what event loops use, so a reading here can be a loop deadline
INTERRUPTED: Final[Any] = object()
"""The `late` of a task deadline whose work was interrupted by the failure of a sibling, an outer timeout or a stop."""


class TaskGroup(Protocol):
    """Tasks that share the work of one task, as the code that interrupts them sees it."""

    closing: bool

    @property
    def helpers(self) -> list[TaskDeadline]: ...

    @property
    def outer(self) -> TaskGroup | None: ...


class TaskDeadline:
    """The node that one task executes, and since when; or the step record (`record`) of its line of nodes."""

    __slots__ = (
        "before",
        "frame",
        "helpers",
        "late",
        "late_since",
        "least",
        "node_slot",
        "outer",
        "record",
        "since",
        "task",
        "task_group",
    )

    task: asyncio.Task[Any]

    def __init__(self, task: asyncio.Task[Any] | None = None) -> None:
        self.before = 0  # cancellations of the task that are older than this task deadline
        if task is not None:  # otherwise whoever creates the task sets it
            self.task = task
            self.before = task.cancelling()
        self.outer: TaskDeadline | None = None  # the task deadline of the run that calls this run in the same task
        self.helpers: list[TaskDeadline] | None = None  # task deadlines of helpers that are not registered by task
        self.since = 0.0
        self.node_slot: NodeSlot | None = None
        self.frame: Frame | None = None  # of `node_slot`, the node of a graph
        self.record: list[Any] | None = None
        # The innermost task group that the task has begun and not ended.
        self.task_group: TaskGroup | None = None
        self.late: NodeSlot | None = None  # the node whose timeout cancelled the task, or INTERRUPTED
        self.late_since = 0.0
        self.least: float | None = None  # the shortest timeout of any node of the program, in seconds

    def cancelled(self) -> bool:
        """Return True if the task was cancelled since the task deadline began."""
        return self.task.cancelling() > self.before

    def forgive(self) -> None:
        """Take back the cancellation for a late node, because its tool swallowed it."""
        if self.late is not None and self.late is not INTERRUPTED:
            self.late = None
            self.task.uncancel()

    def interrupt(self) -> None:
        """Cancel the task."""

        # No further node of it starts, even if a tool swallows the cancellation.
        if self.late is None:
            self.late = INTERRUPTED
        self.task.cancel()

    def clear_interruption(self) -> None:
        """Let nodes start again after `interrupt`."""
        if self.late is INTERRUPTED:
            self.late = None

    def at(self) -> tuple[NodeSlot | None, float]:
        """Return the node that runs, or None between nodes, and the clock reading at its start."""
        record = self.record
        if record is None:
            return self.node_slot, self.since
        finished_count, nodes = len(record) - RECORD_CLOCKS - 1, len(record[RECORD_NODES])
        # Only a record of iterations starts again after the last node.
        finished = not nodes or (finished_count and not finished_count % nodes and record[RECORD_ITERATIONS] is None)
        if finished:
            return None, record[-1]
        return node_at(record), record[-1]

    def output(self) -> Output | None:
        """Return the log of the step that runs; None between steps."""
        node_slot, frame = self.at()[0], self.frame if self.record is None else self.record[RECORD_FRAME]
        if node_slot is None or frame is None:
            return None
        output: Output | None = frame[RUN].output_of(path_of(frame, node_slot), node_slot)
        return output

    def pin(self) -> StepOutput | None:
        """Return the source of the step that runs; None between steps."""
        node_slot, frame = self.at()[0], self.frame if self.record is None else self.record[RECORD_FRAME]
        return None if node_slot is None or frame is None else StepOutput(frame[RUN].output_cell, frame, node_slot)

    def warn_of_call(self, tool: str, key: str, warnings: Sequence[str]) -> bool:
        """Record the warnings about the result of a call of the step that runs; return False between steps."""
        frame = self.frame if self.record is None else self.record[RECORD_FRAME]
        return frame is not None and bool(frame[RUN].warn_of_call(tool, key, warnings))


class StepOutput:
    """The output of one step of a run, whatever the task of the step does later."""

    __slots__ = ("_cell", "_node_slot", "_path")

    def __init__(self, cell: RunOutput, frame: Frame, node_slot: NodeSlot) -> None:
        self._cell, self._path, self._node_slot = cell, path_of(frame, node_slot), node_slot

    def output(self) -> Output | None:
        """Return the output of the step; None after the run."""
        run: Any = self._cell.source
        output: Output | None = None if run is None else run.output_of(self._path, self._node_slot)
        return output

    def pin(self) -> StepOutput:
        """Return the same source."""
        return self

    def warn_of_call(self, tool: str, key: str, warnings: Sequence[str]) -> bool:
        """Record warnings about the result of a call; return False after the run."""
        return self._cell.warn_of_call(tool, key, warnings)


class Timer(Protocol):
    """Something to do at the loop time `when`, and again every RECANCEL_AFTER seconds until it is unset."""

    when: float

    def expire(self) -> None:
        """Act on the deadline, which has passed."""
        ...


class DeadlineTimer:
    """The timer of an event loop, one for all its task deadlines and exact deadlines."""

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

    def add(self, task_deadline: TaskDeadline, limit: float | None, now: float) -> None:
        """Watch a task deadline."""

        # `limit`: The shortest timeout of its nodes in seconds; None if no node has one.
        task = task_deadline.task
        if task in self.by_task:
            task_deadline.outer = self.by_task[task]
        self.by_task[task] = task_deadline
        task_deadline.least = limit
        if limit is not None and now + limit < self.when:
            self.arm(now + limit)

    def remove(self, task_deadline: TaskDeadline) -> None:
        """Stop watching a task deadline."""
        if task_deadline.outer is None:
            del self.by_task[task_deadline.task]
        else:
            self.by_task[task_deadline.task] = task_deadline.outer

    def _task_deadlines(self) -> list[TaskDeadline]:
        task_deadlines = list(self.by_task.values())
        for task_deadline in task_deadlines:  # the list grows during the loop
            if task_deadline.outer is not None:
                task_deadlines.append(task_deadline.outer)
            if task_deadline.helpers is not None:
                task_deadlines += task_deadline.helpers
        return task_deadlines

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
        """Cancel what is late, and arm the timer again."""

        # Runs in which no tool suspends call it, too.
        if self.handle is not None:
            self.handle.cancel()
        now, self.handle, self.when = clock(), None, float("inf")
        earliest = float("inf")
        for task_deadline in self._task_deadlines():
            node_slot, since = task_deadline.at()
            limit = node_slot.limit if node_slot is not None and task_deadline.late is not INTERRUPTED else None
            if task_deadline.least is not None:
                # The node with the shortest timeout may start right now, so look again when it can be late.
                earliest = min(earliest, now + task_deadline.least)
            if limit is None:
                continue
            if since + limit > now:
                earliest = min(earliest, since + limit)
            elif task_deadline.late is not node_slot or task_deadline.late_since != since:
                # Late, and not cancelled for it yet.
                task_deadline.forgive()
                task_deadline.late, task_deadline.late_since = node_slot, since
                task_deadline.task.cancel()
        for timer in list(self.timers):
            if timer.when <= now:
                timer.expire()
                timer.when = now + RECANCEL_AFTER
            earliest = min(earliest, timer.when)
        if earliest != float("inf"):
            self.arm(earliest)


_deadline_timers: dict[int, DeadlineTimer] = {}


def deadline_timer_of(loop: asyncio.AbstractEventLoop) -> DeadlineTimer:
    """Return the timer of an event loop, created on first use."""

    # Every run calls this, so the timers are kept by id: a weak dictionary is slower. A new loop removes the timers of
    # closed loops.
    deadline_timer = _deadline_timers.get(id(loop))
    if deadline_timer is None or deadline_timer.loop is not loop:
        for key in [key for key, timer in _deadline_timers.items() if timer.loop.is_closed()]:
            _deadline_timers.pop(key, None)
        deadline_timer = _deadline_timers[id(loop)] = DeadlineTimer(loop)
    return deadline_timer


def deadline_of_task() -> TaskDeadline:
    """Return the task deadline of the current task, which its run or its task group has registered."""
    task = asyncio.current_task()
    assert task is not None
    return deadline_timer_of(task.get_loop()).by_task[task]


async def pending_cancellation() -> asyncio.CancelledError | None:
    """Return the cancellation of the current task that is requested and not delivered yet; None if there is none."""
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError as exc:
        return exc
    return None


class Deadline:
    """An exact deadline of the current task, from its creation until `over`."""

    # When it passes it cancels the task, and again every RECANCEL_AFTER seconds while the task continues.

    __slots__ = ("before", "deadline_timer", "late", "task", "when")

    def __init__(self, when: float, deadline_timer: DeadlineTimer | None = None) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task, self.when = task, when
        self.before = task.cancelling()
        self.late = 0  # how often this deadline has cancelled the task
        if deadline_timer is None:
            deadline_timer = deadline_timer_of(task.get_loop())
        self.deadline_timer = deadline_timer
        deadline_timer.timers[self] = None  # `set` inlined: every call of a durable run creates one
        if when < deadline_timer.when:
            deadline_timer.arm(when)

    def expire(self) -> None:
        """Cancel the task."""
        self.late += 1
        self.task.cancel()

    def alone(self) -> bool:
        """Return True if nobody else has cancelled the task since the deadline began."""
        return self.task.cancelling() - self.late <= self.before

    def over(self) -> None:
        """End the deadline, and take its own cancellations off the task."""
        del self.deadline_timer.timers[self]
        if self.late:
            for _ in range(self.late):
                self.task.uncancel()


def interrupt_inside(task_deadline: TaskDeadline, outer: TaskGroup | None = None) -> None:
    """Cancel the work in progress of a task deadline: its own task and, at the same moment, all helpers."""
    inner: TaskDeadline | None = deadline_timer_of(task_deadline.task.get_loop()).by_task.get(
        task_deadline.task, task_deadline
    )
    while inner is not None and inner is not task_deadline:
        _interrupt_helpers(inner.task_group, None)
        inner.late = INTERRUPTED if inner.late is None else inner.late
        inner = inner.outer
    _interrupt_helpers(task_deadline.task_group, outer)
    task_deadline.interrupt()


def _interrupt_helpers(task_group: TaskGroup | None, outer: TaskGroup | None) -> None:
    while task_group is not None and task_group is not outer:
        task_group.closing = True
        for helper in task_group.helpers:
            if not helper.task.done():
                interrupt_inside(helper)
        task_group = task_group.outer


class PolicyDeadline(Deadline):
    """The deadline of a node and of everything inside it: it reaches the tasks that the node has started."""

    __slots__ = ("task_deadline", "task_group")

    def __init__(self, when: float) -> None:
        self.task_deadline = deadline_of_task()
        self.task_group = self.task_deadline.task_group
        super().__init__(when)

    def expire(self) -> None:
        self.late += 1
        interrupt_inside(self.task_deadline, self.task_group)

    def over(self) -> None:
        if self.late:
            self.task_deadline.clear_interruption()
        super().over()


class TimedOut(Exception):
    """A deadline passed."""

    # Internal: `ToolTimeout` replaces it where the tool is known.


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
