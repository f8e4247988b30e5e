"""Structured concurrency that makes tasks only when something suspends.

Concurrent work runs inline in the caller's task, one piece after another. Before the first await
a callback is put on the loop; the loop gets control only if a tool really suspended, and then
the callback makes a task for each other piece that is ready. So tools that return at once never
pay for a task, and those that wait overlap fully. Fail-fast: the first failure cancels the rest,
and `run` leaves no task behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from .lane import Lane, clock, watch_of

Drain = Callable[..., Coroutine[Any, Any, None]]


class Spill:
    """Runs `drain` in the caller's task and in as many further tasks as there is work.

    `drain(lane)` claims pieces of work until there are none left or `closing` is set; `pending()`
    counts those unclaimed; at most `limit` drains run at once, the caller's included. In a helper's
    task, which has another lane than the caller's, it accounts for itself by `join`, `fail` and `leave`: a
    coroutine of ours around it, or a done-callback, would cost as much as the rest. `found`: whether
    anything in there looks for its lane by its task.
    """

    __slots__ = (
        "closing", "cut", "drain", "error", "found", "handle", "helpers", "lane", "limit", "live", "loop", "pending",
        "waiter",
    )  # fmt: skip

    def __init__(self, drain: Drain, pending: Callable[[], int], limit: int | None, lane: Lane, found: bool) -> None:
        self.loop = asyncio.get_running_loop()
        self.drain, self.pending, self.limit, self.lane, self.found = drain, pending, limit, lane, found
        self.handle: asyncio.Handle | None = None
        self.helpers: list[Lane] = []
        self.live = 0
        self.waiter: asyncio.Future[None] | None = None  # set while the caller has nothing to do
        self.error: BaseException | None = None
        self.closing = False
        self.cut = False  # whether we cancelled the caller, who was busy with a piece of its own

    def offer(self) -> None:
        """Ask for help with what is pending, should the loop get control before it is done."""
        self.handle = self.loop.call_soon(self._spread)

    def _spread(self) -> None:
        self.handle = None
        more = self.pending()
        if not more or self.closing:
            return
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)  # the caller takes a share again
            more -= 1
        if self.limit is not None:
            more = min(more, self.limit - 1 - self.live)
        if more > 0:
            self.live += more
            create, drain = self.loop.create_task, self.drain
            lanes = [Lane() for _ in range(more)]
            for lane in lanes:
                lane.task = create(drain(lane))
            self.helpers += lanes
            if not self.found:
                self.lane.helpers = self.helpers

    def join(self, lane: Lane) -> None:
        """A helper begins, whose task this is; only where its lane is `found`."""
        watch_of(self.loop).add(lane, self.lane.least, clock())

    def leave(self, lane: Lane) -> None:
        """The helper is done."""
        if self.found:
            watch_of(self.loop).remove(lane)
        self.live -= 1
        waiter = self.waiter
        if waiter is not None and not waiter.done() and (not self.live or self.error is not None):
            waiter.set_result(None)

    def fail(self, exc: BaseException, lane: Lane) -> bool:
        """A helper has failed: the others are cancelled, and `run` raises it if it is the first. Whether
        that is all that is to be done about it: what is no Exception goes on in the helper's task, too."""
        if self.error is None and not self.closing:
            self.error, self.closing = exc, True
            for other in self.helpers:
                if other is not lane:
                    other.task.cancel()
            if self.waiter is None:
                self.cut = True
                self.lane.task.cancel()
        return isinstance(exc, Exception)

    async def run(self) -> None:
        """Drain to the end in this task and its helpers; raise the first failure."""
        lane = self.lane
        parent, outer = lane.task, lane.track
        before = parent.cancelling()
        try:
            await self.drain(lane)
            while self.live and self.error is None:
                lane.spot = lane.track = None  # others are at work, not this lane
                self.waiter = self.loop.create_future()
                await self.waiter
                self.waiter = None
                if self.error is None and self.pending():
                    await self.drain(lane)
            if self.error is not None:
                raise self.error
        except BaseException as exc:
            self.closing = True
            await self._cancel_rest()
            if self.cut:
                self.cut = False
                if parent.uncancel() <= before and isinstance(exc, asyncio.CancelledError):
                    assert self.error is not None
                    raise self.error from self.error.__cause__
            raise
        finally:
            lane.track, lane.helpers = outer, None
            if self.cut:
                parent.uncancel()
            if self.handle is not None:
                self.handle.cancel()
                self.handle = None

    async def _cancel_rest(self) -> None:
        tasks = [lane.task for lane in self.helpers]
        for task in tasks:
            task.cancel()
        again: asyncio.CancelledError | None = None
        while left := [task for task in tasks if not task.done()]:
            try:
                await asyncio.wait(left)
            except asyncio.CancelledError as exc:
                again = exc  # cancelled once more meanwhile: told when no tool is left behind
                for task in left:
                    task.cancel()
        if again is not None:
            raise again
