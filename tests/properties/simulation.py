"""A small discrete-event simulation: tasks are generators, time is a number, and nothing waits.

A task yields a request, a function that is given `wake` and calls it when the task may continue. What happens at the
same instant happens in the order in which it was asked for, or in a random order with a `seed`. An outcome that
differs between such orders is decided by nothing that a flow says.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Generator
from typing import Any

Request = Callable[[Callable[..., None]], None]
Steps = Generator[Request, Any, Any]


class Cancelled(BaseException):
    """Thrown into a task that has to end."""


class Task:
    """One generator in progress; `reasons` says for whose sake it was cancelled and has not ended yet."""

    def __init__(self, steps: Steps, ended: Callable[[Task], None]) -> None:
        self.steps, self.ended = steps, ended
        self.turn, self.done = 0, False
        self.value: Any = None
        self.error: BaseException | None = None
        self.reasons: list[object] = []


class Simulation:
    """The clock, what is due, and how long the tasks have done something else than wait for outside."""

    def __init__(self, seed: int | None = None) -> None:
        self.now, self.own = 0.0, 0.0
        self.waiting, self.busy = 0, 0
        self.current: Task
        self._due: list[tuple[float, float, int, Callable[[], None]]] = []
        self._count, self._random = 0, None if seed is None else random.Random(seed)

    def at(self, when: float, act: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._due, (when, self._rank(), self._count, act))

    def _rank(self) -> float:
        return 0.0 if self._random is None else self._random.random()

    def task(self, steps: Steps, ended: Callable[[Task], None]) -> Task:
        made = Task(steps, ended)
        self.at(self.now, lambda: self._resume(made))
        return made

    def cancel(self, task: Task, reason: object) -> None:
        self.at(self.now, lambda: self._throw(task, reason))

    def _throw(self, task: Task, reason: object) -> None:
        if not task.done:
            task.reasons.append(reason)
            self._resume(task, error=Cancelled())

    def _resume(self, task: Task, value: Any = None, error: BaseException | None = None) -> None:
        task.turn += 1
        turn, self.current = task.turn, task

        def wake(value: Any = None) -> None:
            self.at(self.now, lambda: self._resume(task, value) if task.turn == turn else None)

        try:
            request = task.steps.throw(error) if error is not None else task.steps.send(value)
        except StopIteration as stop:
            task.done, task.value = True, stop.value
        except (Cancelled, Exception) as exc:  # noqa: BLE001 - whoever waits for the task raises it
            task.done, task.error = True, exc
        else:
            request(wake)
            return
        task.ended(task)

    def play(self, root: Task, limit: float | None, expire: Callable[[], None]) -> None:
        """Until the root has ended; `expire` is called once `limit` seconds of its own time are over."""
        while not root.done:
            first = heapq.heappop(self._due)
            when, act = first[0], first[-1]
            idle = self.waiting > 0 and not self.busy
            if when > self.now and not idle:
                left = None if limit is None else limit - self.own
                if left is not None and (self.now + left < when or (self.now + left == when and self._rank() < 0.5)):
                    heapq.heappush(self._due, first)
                    self.now, self.own, limit = self.now + left, self.own + left, None
                    expire()
                    continue
                self.own += when - self.now
            self.now = max(self.now, when)
            act()

    # --- requests ---------------------------------------------------------------------------------

    def pause(self, seconds: float) -> Steps:
        """Be busy for so long."""
        self.busy += 1
        try:
            yield lambda wake: self.at(self.now + seconds, wake)
        finally:
            self.busy -= 1

    def within(self, seconds: float | None, steps: Steps, late: Callable[[], Exception]) -> Steps:
        """The same steps; what `late` gives is raised if they take longer."""
        if seconds is None:
            return (yield from steps)
        task, timer, over = self.current, object(), []
        self.at(self.now + seconds, lambda: None if over else self._throw(task, timer))
        try:
            value = yield from steps
        except (Cancelled, Exception):
            if timer not in task.reasons:
                raise
            task.reasons.remove(timer)
            if task.reasons:
                raise Cancelled from None  # somebody further out ends it, too
            raise late() from None
        finally:
            over.append(True)
        return value

    def together(self, start: Callable[[], Steps | None], ended: Callable[[Task], None]) -> Steps:
        """Tasks side by side: `start` gives the steps of the next one that may begin, or None; `ended` is told of
        each that is done. The first failure cancels the others, and is raised when all have ended."""
        me, running, inbox = self.current, set[Task](), list[Task]()
        waker: list[Callable[..., None]] = []

        def finished(task: Task) -> None:
            running.discard(task)
            inbox.append(task)
            for wake in waker:
                wake()

        def news(wake: Callable[..., None]) -> None:
            waker[:] = [wake]
            if inbox:
                wake()

        failed: BaseException | None = None
        try:
            while True:
                while failed is None and (steps := start()) is not None:
                    running.add(self.task(steps, finished))
                if not running and not inbox:
                    break
                while not inbox:
                    yield news
                task = inbox.pop(0)
                if task.error is None:
                    ended(task)
                elif failed is None:
                    failed = task.error
                    break
        except Cancelled as exc:
            failed = exc
        yield from self._end(running, inbox, news)
        if me.reasons:
            raise Cancelled
        if failed is not None:
            raise failed

    def _end(self, running: set[Task], inbox: list[Task], news: Request) -> Steps:
        for task in list(running):
            self.cancel(task, "the others")
        while running:
            inbox.clear()
            try:
                yield news
            except Cancelled:
                for task in list(running):
                    self.cancel(task, "the others")
