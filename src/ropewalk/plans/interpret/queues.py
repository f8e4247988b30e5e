"""Queues, in the order of asyncio."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Any

from ...expr.python.failures import CancelledError
from .futures import Future
from .locks import Event
from .machine import Machine
from .shared import Shared


class QueueEmpty(Exception):
    """The queue is empty."""


class QueueFull(Exception):
    """The queue is full."""


class Queue(Shared):
    """`asyncio.Queue()`."""

    functions = ("put_nowait", "get_nowait", "task_done", "qsize", "empty", "full")
    coroutines = ("put", "get", "join")

    def __init__(self, machine: Machine, maxsize: int = 0) -> None:
        self._machine, self.maxsize = machine, maxsize
        self._items: Any = deque()
        self._getters: deque[Future] = deque()
        self._putters: deque[Future] = deque()
        self._unfinished = 0
        self._finished = Event(machine)
        self._finished.set()

    def qsize(self) -> int:
        """Return the number of items."""
        return len(self._items)

    def empty(self) -> bool:
        """Return True if there is no item."""
        return not self._items

    def full(self) -> bool:
        """Return True if `put` would wait."""
        return 0 < self.maxsize <= len(self._items)

    def _add(self, item: Any) -> None:
        self._items.append(item)

    def _take(self) -> Any:
        return self._items.popleft()

    async def put(self, item: Any) -> None:
        """Add an item, after waiting for room."""
        while self.full():
            await self._wait_in(self._putters, lambda: not self.full())
        self.put_nowait(item)

    async def get(self) -> Any:
        """Take an item, after waiting for one."""
        while self.empty():
            await self._wait_in(self._getters, lambda: not self.empty())
        return self.get_nowait()

    async def _wait_in(self, line: deque[Future], is_ready: Callable[[], bool]) -> None:
        waiter = Future(self._machine)
        line.append(waiter)
        try:
            await waiter
        except CancelledError:
            was_cancelled = waiter.cancelled
            waiter.cancel()
            if waiter in line:
                line.remove(waiter)
            if is_ready() and not was_cancelled:
                _wake_next(line)
            raise

    def put_nowait(self, item: Any) -> None:
        """Add an item."""
        # Raises QueueFull.
        if self.full():
            raise QueueFull
        self._machine.evaluation.stored(item)
        self._add(item)
        self._unfinished += 1
        self._finished.clear()
        _wake_next(self._getters)

    def get_nowait(self) -> Any:
        """Take an item."""
        # Raises QueueEmpty.
        if self.empty():
            raise QueueEmpty
        item = self._take()
        _wake_next(self._putters)
        return item

    def task_done(self) -> None:
        """Note that the work for an item is done."""
        if self._unfinished <= 0:
            raise ValueError("task_done() called too many times")
        self._unfinished -= 1
        if not self._unfinished:
            self._finished.set()

    async def join(self) -> None:
        """Wait until the work for every item is done."""
        if self._unfinished:
            await self._finished.wait()


def _wake_next(line: deque[Future]) -> None:
    while line:
        waiter = line.popleft()
        if not waiter.done:
            waiter.set_result(None)
            return


class LifoQueue(Queue):
    """`asyncio.LifoQueue()`."""

    def _take(self) -> Any:
        return self._items.pop()


class PriorityQueue(Queue):
    """`asyncio.PriorityQueue()`."""

    def __init__(self, machine: Machine, maxsize: int = 0) -> None:
        super().__init__(machine, maxsize)
        self._items = []

    def _add(self, item: Any) -> None:
        heapq.heappush(self._items, item)

    def _take(self) -> Any:
        return heapq.heappop(self._items)
