"""Semaphores, locks and events, in the order of asyncio."""

from __future__ import annotations

from collections import deque

from ...expr.python.failures import CancelledError
from .futures import Future
from .machine import Machine
from .shared import Shared


class _Waiters(Shared):
    """A value that tasks wait for in a line."""

    is_async: bool | None = True

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._waiters: deque[Future] = deque()

    async def _wait(self) -> Future:
        waiter = Future(self._machine)
        self._waiters.append(waiter)
        try:
            await waiter
        except CancelledError as error:
            error.__dict__["was_woken"] = not waiter.cancelled
            raise
        finally:
            self._waiters.remove(waiter)
        return waiter


class Semaphore(_Waiters):
    """`asyncio.Semaphore(n)`."""

    functions = ("release", "locked")
    coroutines = ("acquire",)

    def __init__(self, machine: Machine, value: int = 1, *, limit: int | None = None) -> None:
        super().__init__(machine)
        if value < 0:
            raise ValueError("Semaphore initial value must be >= 0")
        self._value, self._limit = value, limit

    def locked(self) -> bool:
        """Return True if `acquire` would wait."""
        return self._value == 0 or any(not waiter.cancelled for waiter in self._waiters)

    async def acquire(self) -> bool:
        """Take one of the places."""
        if not self.locked():
            self._value -= 1
            return True
        try:
            await self._wait()
        except CancelledError as error:
            if error.__dict__.get("was_woken"):
                self._value += 1
                self._wake_next()
            raise
        if self._value > 0:
            self._wake_next()
        return True

    def release(self) -> None:
        """Give a place back."""
        if self._limit is not None and self._value >= self._limit:
            raise ValueError("BoundedSemaphore released too many times")
        self._value += 1
        self._wake_next()

    def _wake_next(self) -> None:
        for waiter in self._waiters:
            if not waiter.done:
                self._value -= 1
                waiter.set_result(True)
                return

    async def enter(self) -> None:
        """Take a place."""
        await self.acquire()

    async def leave(self, error: BaseException | None) -> bool:
        """Give the place back."""
        self.release()
        return False


class Lock(_Waiters):
    """`asyncio.Lock()`."""

    functions = ("release", "locked")
    coroutines = ("acquire",)
    _is_locked = False

    def locked(self) -> bool:
        """Return True if a task holds it."""
        return self._is_locked

    async def acquire(self) -> bool:
        """Take the lock."""
        if self._is_locked or not all(waiter.cancelled for waiter in self._waiters):
            try:
                await self._wait()
            except CancelledError:
                if not self._is_locked:
                    self._wake_first()
                raise
        self._is_locked = True
        return True

    def release(self) -> None:
        """Give the lock back."""
        if not self._is_locked:
            raise RuntimeError("Lock is not acquired.")
        self._is_locked = False
        self._wake_first()

    def _wake_first(self) -> None:
        if self._waiters and not self._waiters[0].done:
            self._waiters[0].set_result(True)

    async def enter(self) -> None:
        """Take the lock."""
        await self.acquire()

    async def leave(self, error: BaseException | None) -> bool:
        """Give the lock back."""
        self.release()
        return False


class Event(_Waiters):
    """`asyncio.Event()`."""

    is_async = None
    functions = ("set", "clear", "is_set")
    coroutines = ("wait",)
    _is_set = False

    def is_set(self) -> bool:
        """Return True if it is set."""
        return self._is_set

    def set(self) -> None:
        """Wake everybody who waits."""
        if not self._is_set:
            self._is_set = True
            for waiter in self._waiters:
                if not waiter.done:
                    waiter.set_result(True)

    def clear(self) -> None:
        """Let tasks wait again."""
        self._is_set = False

    async def wait(self) -> bool:
        """Wait until it is set."""
        if not self._is_set:
            await self._wait()
        return True
