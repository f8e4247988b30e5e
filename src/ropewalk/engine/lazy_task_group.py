"""Structured concurrency that creates tasks only when a tool suspends.

Concurrent work starts in the task of the caller, one item after another. Before the first await, a
callback is scheduled on the event loop. The loop runs it only if a tool really suspends, and then
the callback creates a task (a helper) for each other item that is ready. So tools that return at
once never pay for a task, and tools that wait overlap fully. The first failure cancels the rest,
and `run` leaves no task behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any

from ..tools.output import CURRENT
from .timeouts import INTERRUPTED, TaskDeadline, TaskGroup, clock, deadline_timer_of, interrupt_inside

Drain = Callable[..., Coroutine[Any, Any, None]]


class LazyTaskGroup:
    """Runs `drain` in the task of the caller, and in as many helpers as there is work."""

    # In the task of a helper, `drain` must call `join` (only where `needs_deadline`), `fail` and `leave` itself: a
    # coroutine around it, or a done-callback, would cost as much as everything else here.

    __slots__ = (
        "closing",
        "cut",
        "drain",
        "error",
        "handle",
        "helpers",
        "limit",
        "live",
        "loop",
        "needs_deadline",
        "outer",
        "pending",
        "task_deadline",
        "waiter",
    )  # fmt: skip

    def __init__(
        self,
        drain: Drain,
        pending: Callable[[], int],
        limit: int | None,
        task_deadline: TaskDeadline,
        needs_deadline: bool,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.drain, self.pending, self.limit, self.task_deadline, self.needs_deadline = (
            drain,
            pending,
            limit,
            task_deadline,
            needs_deadline,
        )
        self.handle: asyncio.Handle | None = None
        self.helpers: list[TaskDeadline] = []
        self.outer: TaskGroup | None = None  # the group around this one in the caller's task
        self.live = 0  # helpers that have not left
        self.waiter: asyncio.Future[None] | None = None  # set while the caller has nothing to do
        self.error: BaseException | None = None
        self.closing = False
        self.cut = False  # True: `fail` has cancelled the caller, which was executing an item

    def offer(self) -> None:
        """Ask for helpers, which start if the event loop runs before the pending items are done."""
        self.handle = self.loop.call_soon(self._start_helpers)

    def _start_helpers(self) -> None:
        self.handle = None
        more = self.pending()
        if not more or self.closing:
            return
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)  # the caller drains again, too
            more -= 1
        if self.limit is not None:
            more = min(more, self.limit - 1 - self.live)
        if more > 0:
            self.live += more
            create, drain = self.loop.create_task, self.drain
            task_deadlines = [TaskDeadline() for _ in range(more)]
            for task_deadline in task_deadlines:
                context = copy_context()
                context.run(CURRENT.set, task_deadline)
                task_deadline.task = create(drain(task_deadline), context=context)
            self.helpers += task_deadlines
            if not self.needs_deadline:
                self.task_deadline.helpers = self.helpers

    def join(self, task_deadline: TaskDeadline) -> None:
        """Register the deadline of a helper, at the start of its task."""

        # Only where `needs_deadline` is true.
        deadline_timer_of(self.loop).add(task_deadline, self.task_deadline.least, clock())

    def leave(self, task_deadline: TaskDeadline) -> None:
        """Count a helper as done, and wake the caller after the last one or after a failure."""
        if self.needs_deadline:
            deadline_timer_of(self.loop).remove(task_deadline)
        self.live -= 1
        waiter = self.waiter
        if waiter is not None and not waiter.done() and (not self.live or self.error is not None):
            waiter.set_result(None)

    def fail(self, exc: BaseException, task_deadline: TaskDeadline) -> bool:
        """Report the failure of a helper."""

        # The first failure cancels all other work, and `run` raises it.
        if self.error is None and not self.closing:
            self.error, self.closing = exc, True
            for helper in self.helpers:
                if helper is not task_deadline and not helper.task.done():
                    interrupt_inside(helper)
            if self.waiter is None:
                self.cut = True
                interrupt_inside(self.task_deadline, self)
        return isinstance(exc, Exception)

    async def run(self) -> None:
        """Drain to the end in this task and its helpers."""
        task_deadline = self.task_deadline
        parent, outer = task_deadline.task, task_deadline.record
        before = parent.cancelling()
        self.outer, task_deadline.task_group = task_deadline.task_group, self
        try:
            await self.drain(task_deadline)
            while self.live and self.error is None:
                task_deadline.node_slot = task_deadline.record = None  # only helpers execute nodes now
                self.waiter = self.loop.create_future()
                await self.waiter
                self.waiter = None
                if self.error is None and self.pending():
                    await self.drain(task_deadline)
            if self.error is not None:
                raise self.error
            if self.closing:
                raise asyncio.CancelledError  # the work around this group was cancelled, and a tool swallowed it
        except BaseException as exc:
            self.closing = True
            await self._cancel_rest()
            if self.cut:
                # This group cancelled the caller. Raise the failure instead, unless somebody else cancelled it, too.
                self.cut = False
                task_deadline.clear_interruption()
                if parent.uncancel() <= before and isinstance(exc, (asyncio.CancelledError, Exception)):
                    assert self.error is not None
                    raise self.error from self.error.__cause__
            raise
        finally:
            task_deadline.record, task_deadline.helpers, task_deadline.task_group = outer, None, self.outer
            if self.cut:
                parent.uncancel()
            if self.handle is not None:
                self.handle.cancel()
                self.handle = None

    async def _cancel_rest(self) -> None:
        """Cancel all helpers and wait until they have ended, also if the caller is cancelled meanwhile."""
        tasks = [task_deadline.task for task_deadline in self.helpers]
        for task_deadline in self.helpers:
            if (
                task_deadline.late is not INTERRUPTED and not task_deadline.task.done()
            ):  # otherwise it is cleaning up already
                interrupt_inside(task_deadline)
        cancellation: asyncio.CancelledError | None = None
        while unfinished := [task for task in tasks if not task.done()]:
            try:
                await asyncio.wait(unfinished)
            except asyncio.CancelledError as exc:
                cancellation = exc  # raised below, when no tool is left behind
                for task in unfinished:
                    task.cancel()
        if cancellation is not None:
            raise cancellation
