"""Tasks, time limits and groups of `asyncio`, each wake-up and cancellation in the same turn as there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...expr.python.failures import CancelledError
from .futures import Coroutine, Future, Turn
from .machine import Machine, Task
from .queues import Queue
from .shared import Shared
from .suspending import result_of


def coroutine_function(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the language that gives a coroutine of `run`."""
    return lambda evaluation, *values, **named: Coroutine(name, lambda: run(evaluation.machine, *values, **named))


# --- tasks -----------------------------------------------------------------------------------------


def create_task(evaluation: Any, coroutine: Any, *, name: Any = None, context: Any = None) -> Task:
    """Make a task, which begins when its maker next waits."""
    if not isinstance(coroutine, Coroutine):
        raise TypeError(f"a coroutine was expected, got {coroutine!r}")
    task = evaluation.machine.spawn(coroutine.start())
    if name is not None:
        task.name = str(name)
    return task  # type: ignore[no-any-return]


def ensure_future(evaluation: Any, value: Any) -> Future:
    """Return a task for an awaitable."""
    future: Future = evaluation.machine.task_of(value)
    return future


async def sleep(machine: Machine, delay: Any, result: Any = None) -> Any:
    """Wait for some seconds; without any, one turn."""
    if delay <= 0:
        await Turn()
    else:
        await machine.timer("sleep", float(delay), f"{machine.evaluation.line}:sleep")
    return result


class Gathering(Future):
    """The result of several futures."""

    __slots__ = ("_cancel_requested", "_count", "_futures", "_keeps_errors", "_listed")

    def __init__(self, machine: Machine, listed: list[Future], *, keeps_errors: bool) -> None:
        super().__init__(machine)
        self._listed, self._keeps_errors = listed, keeps_errors
        self._futures = list(dict.fromkeys(listed))
        self._count, self._cancel_requested = 0, False
        for future in self._futures:
            future.add_callback(self._ended)
        if not listed:
            self.set_result([])

    def cancel(self) -> bool:
        """Cancel the futures."""
        if self.done:
            return False
        cancelled = [future.cancel() for future in self._futures]  # all of them, so not in any()
        self._cancel_requested = any(cancelled) or self._cancel_requested
        return any(cancelled)

    def _ended(self, future: Future) -> None:
        self._count += 1
        if self.done:
            return
        error = CancelledError() if future.cancelled else future.exception()
        if error is not None and not self._keeps_errors:
            self.set_error(error)
        elif self._count == len(self._futures):
            if self._cancel_requested:
                self.set_error(CancelledError())
            else:
                self.set_result([_outcome(part) for part in self._listed])


def _outcome(future: Future) -> Any:
    if future.cancelled:
        return CancelledError()
    error = future.exception()
    return future.result() if error is None else error


def gather(evaluation: Any, *awaitables: Any, return_exceptions: Any = False) -> Future:
    """Run awaitables at the same time."""
    known: dict[int, Future] = {}
    listed: list[Future] = []
    for awaitable in awaitables:
        future = known.get(id(awaitable))
        if future is None:
            future = known[id(awaitable)] = evaluation.machine.task_of(awaitable)
        listed.append(future)
    return Gathering(evaluation.machine, listed, keeps_errors=bool(return_exceptions))


def shield(evaluation: Any, awaitable: Any) -> Future:
    """Protect an awaitable from the cancellation of the one who waits for it."""
    machine = evaluation.machine
    inner = machine.task_of(awaitable)
    if inner.done:
        return inner  # type: ignore[no-any-return]
    outer = Future(machine)

    def ended(future: Future) -> None:
        if outer.done:
            return
        if future.cancelled:
            outer.cancel()
        elif (error := future.exception()) is not None:
            outer.set_error(error)
        else:
            outer.set_result(future.result())

    inner.add_callback(ended)
    return outer


class Loop(Shared):
    """`asyncio.get_running_loop()`: its clock, and its way to make tasks."""

    functions = ("create_task", "time")

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def time(self) -> float:
        """Return the seconds that the clock of the loop shows, which are recorded."""
        return self._machine.read_clock("monotonic")

    def create_task(self, coroutine: Any, *, name: Any = None, context: Any = None) -> Task:
        """Make a task."""
        return create_task(self._machine.evaluation, coroutine, name=name)


# --- time limits -----------------------------------------------------------------------------------


class Timeout(Shared):
    """`asyncio.timeout(...)`: cancels its task when the time is over."""

    is_async = True
    functions = ("expired", "reschedule")

    def __init__(self, machine: Machine, delay: Any) -> None:
        self._machine, self._delay = machine, delay
        self._timer: Future | None = None
        self._is_over = False
        self._place = f"{machine.evaluation.line}:timeout"

    async def enter(self) -> Timeout:
        """Start the timer."""
        self._task = self._machine.current
        self._requests = self._task.cancel_requests
        self.reschedule_after(self._delay)
        return self

    def reschedule_after(self, delay: Any) -> None:
        """Start the timer again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if delay is None:
            return
        if delay <= 0:
            self._timer = Future(self._machine)
            self._timer.set_result(None)
        else:
            self._timer = self._machine.timer("timeout", float(delay), self._place)
        self._timer.add_callback(self._fire)

    def reschedule(self, when: Any) -> None:
        """End the block earlier or later."""
        self.reschedule_after(None if when is None else when - self._machine.read_clock("monotonic"))

    def expired(self) -> bool:
        """Return True if the time was over."""
        return self._is_over

    def _fire(self, timer: Future) -> None:
        if not timer.cancelled and self._timer is timer:
            self._is_over, self._timer = True, None
            self._task.cancel()

    async def leave(self, error: BaseException | None) -> bool:
        """Stop the timer; raise TimeoutError if it was over."""
        if self._timer is not None:
            timer, self._timer = self._timer, None
            timer.cancel()
        if self._is_over and self._task.uncancel() <= self._requests and isinstance(error, CancelledError):
            raise TimeoutError from error
        return False


def timeout_at(evaluation: Any, when: Any) -> Timeout:
    """Limit a block to an instant of the clock of the loop."""
    return Timeout(evaluation.machine, None if when is None else when - evaluation.machine.read_clock("monotonic"))


async def wait_for(machine: Machine, awaitable: Any, timeout: Any = None) -> Any:
    """Wait for an awaitable at most some seconds."""
    if timeout is None:
        return await result_of(machine.evaluation, awaitable)
    place = f"{machine.evaluation.line}:wait_for"
    if timeout <= 0:
        future = machine.task_of(awaitable)
        if future.done:
            return future.result()
        return await _cancelled_in_time(machine, future)
    waiter = Future(machine)
    timer = machine.timer("timeout", float(timeout), place)
    timer.add_callback(lambda timer: None if timer.cancelled else _release(waiter))
    future = machine.task_of(awaitable)

    def ended(future: Future) -> None:
        _release(waiter)

    future.add_callback(ended)
    try:
        try:
            await waiter
        except CancelledError:
            if future.done:
                return future.result()
            future.remove_callback(ended)
            await _cancel_and_wait(machine, future)
            raise
        if future.done:
            return future.result()
        future.remove_callback(ended)
        return await _cancelled_in_time(machine, future)
    finally:
        timer.cancel()


async def _cancelled_in_time(machine: Machine, future: Future) -> Any:
    await _cancel_and_wait(machine, future)
    try:
        return future.result()
    except CancelledError as error:
        raise TimeoutError from error


async def _cancel_and_wait(machine: Machine, future: Future) -> None:
    waiter = Future(machine)

    def ended(future: Future) -> None:
        _release(waiter)

    future.add_callback(ended)
    try:
        future.cancel()
        await waiter
    finally:
        future.remove_callback(ended)


def _release(waiter: Future) -> None:
    if not waiter.done:
        waiter.set_result(None)


async def wait(machine: Machine, awaitables: Any, *, timeout: Any = None, return_when: Any = "ALL_COMPLETED") -> Any:
    """Wait until some of the tasks are done; return the sets of those that are and are not."""
    evaluation = machine.evaluation
    futures = list(dict.fromkeys(evaluation.iterate(awaitables)))
    if any(isinstance(future, Coroutine) for future in futures):
        raise TypeError("Passing coroutines is forbidden, use tasks explicitly.")
    if not futures:
        raise ValueError("Set of Tasks/Futures is empty.")
    waiter, left = Future(machine), [len(futures)]
    timer = machine.timer("timeout", float(timeout), f"{evaluation.line}:wait") if timeout is not None else None
    if timer is not None:
        timer.add_callback(lambda timer: None if timer.cancelled else _release(waiter))

    def ended(future: Future) -> None:
        left[0] -= 1
        has_failed = not future.cancelled and future.exception() is not None
        if left[0] <= 0 or return_when == "FIRST_COMPLETED" or (return_when == "FIRST_EXCEPTION" and has_failed):
            if timer is not None:
                timer.cancel()
            _release(waiter)

    for future in futures:
        future.add_callback(ended)
    try:
        await waiter
    finally:
        if timer is not None:
            timer.cancel()
        for future in futures:
            future.remove_callback(ended)
    done = evaluation.new_set(future for future in futures if future.done)
    return done, evaluation.new_set(future for future in futures if not future.done)


def as_completed(evaluation: Any, awaitables: Any, *, timeout: Any = None) -> list[Coroutine]:
    """Return coroutines that give the results in the order in which they come."""
    machine = evaluation.machine
    futures = [machine.task_of(awaitable) for awaitable in evaluation.iterate(awaitables)]
    done = Queue(machine)
    for future in futures:
        future.add_callback(done.put_nowait)
    timer = machine.timer("timeout", float(timeout), f"{evaluation.line}:as_completed") if timeout is not None else None
    if timer is not None:
        timer.add_callback(lambda timer: None if timer.cancelled else _all_late(done, futures))
        left = [len(futures)]

        def ended(future: Future) -> None:
            left[0] -= 1
            if not left[0]:
                timer.cancel()

        for future in futures:
            future.add_callback(ended)

    async def next_result() -> Any:
        future = await done.get()
        if future is None:
            raise TimeoutError
        return future.result()

    return [Coroutine("as_completed", next_result) for _ in futures]


def _all_late(done: Queue, futures: list[Future]) -> None:
    for future in futures:
        if not future.done:
            future.remove_callback(done.put_nowait)
            done.put_nowait(None)


class TaskGroup(Shared):
    """`asyncio.TaskGroup()`: the first failure cancels the other tasks and the block."""

    is_async = True
    functions = ("create_task",)

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._tasks: dict[Task, None] = {}
        self._errors: list[Exception] = []
        self._is_aborting = self._has_cancelled_parent = False
        self._completed: Future | None = None

    async def enter(self) -> TaskGroup:
        """Begin the group."""
        self._parent = self._machine.current
        return self

    def create_task(self, coroutine: Any, *, name: Any = None, context: Any = None) -> Task:
        """Make a task of the group."""
        task = create_task(self._machine.evaluation, coroutine, name=name)
        task.add_callback(self._ended)
        self._tasks[task] = None
        return task

    def _abort(self) -> None:
        self._is_aborting = True
        for task in list(self._tasks):
            if not task.done:
                task.cancel()

    def _ended(self, task: Any) -> None:
        del self._tasks[task]
        if self._completed is not None and not self._tasks:
            _release(self._completed)
        error = None if task.cancelled else task.exception()
        if error is None:
            return
        self._errors.append(error)
        if not self._parent.done and not self._is_aborting and not self._has_cancelled_parent:
            self._abort()
            self._has_cancelled_parent = True
            self._parent.cancel()

    async def leave(self, error: BaseException | None) -> bool:
        """Wait for the tasks, and raise what failed as a group."""
        cancelled = error if isinstance(error, CancelledError) else None
        if self._has_cancelled_parent and self._parent.uncancel() == 0:
            cancelled = None
        if error is not None and not self._is_aborting:
            self._abort()
        while self._tasks:
            if self._completed is None:
                self._completed = Future(self._machine)
            try:
                await self._completed
            except CancelledError as late:
                if not self._is_aborting:
                    cancelled = late
                    self._abort()
            self._completed = None
        if cancelled is not None and not self._errors:
            raise cancelled
        if isinstance(error, Exception):
            self._errors.append(error)
        if self._errors:
            errors, self._errors = self._errors, []
            raise ExceptionGroup("unhandled errors in a TaskGroup", errors)
        return False
