"""The items that one event loop writes together, and the delivery of their results.

A caller may be gone when its result comes: cancelled, or with its event loop closed. The result of a claim must not be
lost then. So work with the methods `hand_over` and `give_back` learns that its committed result is on its way to a
loop, and that nobody receives it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

from ...errors import StoreError
from .blobs import INLINE
from .ports import OpenRun
from .rows import Connection, Row

Item: TypeAlias = "tuple[asyncio.Future[Any] | None, OpenRun | None, Any]"
"""The future of the caller, the run, and the row of an entry (a tuple) or a function to call in the transaction, whose
result is that of the future. It is a tuple because one is made per entry."""

Outcomes: TypeAlias = list[Any] | None
"""One per item, an exception for a failure; None when all are entries and all are written."""


_MOST_EARLY: Final = 4
"""Early writes in one turn of the loop: a task that never waits must let others run."""


class BatchWriter(Protocol):
    """The writer of a store, as its batches use it."""

    def commit_on_loop(self, batch: WriteBatch, items: list[Item]) -> bool:
        """Write a batch on the thread of its event loop if that is quick."""
        ...

    def put(self, batch: WriteBatch, items: list[Item]) -> None:
        """Queue items for the thread that writes."""
        ...


class WriteBatch:
    """The items that one event loop wants to write."""

    # Used on its loop only, except for `set_results_soon`, `call_soon` and `take`.

    def __init__(self, writer: BatchWriter, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.items: list[Item] = []
        self.big = False  # whether an item has a big value, which only the thread writes
        self._writer = writer
        self._batches_in_thread = 0  # batches that the thread has
        self._is_sending = False  # whether the writer is sending a batch without the thread
        self._scheduled = False
        # Of this turn of the loop: the task that added the first item, whether others added some, and the early writes.
        self._task: asyncio.Task[Any] | None = None
        self._is_shared = self._was_shared = False
        self._early = 0

    def add(self, item: Item) -> None:
        """Add an item; it is written with others in the next turn of the loop."""
        self.items.append(item)
        task = asyncio.current_task(self.loop)
        if not self._scheduled:
            self._task = task
            self._schedule()
        elif task is not self._task:
            self._is_shared = True

    def write_early(self) -> None:
        """Write the items now, if the task that calls is the only one that writes in this turn of the loop."""

        # Nobody can know whether the loop has more to do. So of tasks that write in the same turn the first one writes
        # early, and none of them in the next turn.
        is_shared = self._is_shared or self._was_shared
        if not (is_shared or self._batches_in_thread or self._early >= _MOST_EARLY):
            self._early += 1
            self._write()

    def submit(self, work: Callable[[Connection], Any], log: OpenRun | None = None) -> asyncio.Future[Any]:
        """Call a function in a transaction, after everything that was added before it."""

        # `log`: The open run that it belongs to, whose lease must still be valid.
        future = self.loop.create_future()
        self.add((future, log, work))
        return future

    def take_back(self, log: OpenRun, future: asyncio.Future[None]) -> list[Row] | None:
        """Remove and return the entry of a future with all entries of its run behind it; None if it is too late."""
        for index in range(len(self.items) - 1, -1, -1):
            item_future, item_log, work = self.items[index]
            if item_log is not log or type(work) is not tuple or len(work[4] or b"") > INLINE:
                return None
            if item_future is future:
                rows = [row for _, _, row in self.items[index:]]
                del self.items[index:]
                return rows
        return None

    def take(self) -> list[Item]:
        """Remove and return the items."""
        items, self.items = self.items, []
        return items

    def _schedule(self) -> None:
        self._scheduled = True
        self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._was_shared, self._is_shared = self._is_shared, False
        self._scheduled, self._early, self._task = False, 0, None
        self._write()

    def _write(self) -> None:
        if self._is_sending or not self.items:
            return  # entries are written in order, so the batch in progress comes first
        items, big = self.take(), self.big
        self.big = False
        if self._batches_in_thread or big or not self._writer.commit_on_loop(self, items):
            self._hand_over(items)

    def _hand_over(self, items: list[Item]) -> None:
        self._batches_in_thread += 1
        self._writer.put(self, items)

    # --- for a writer that commits without the thread -------------------------------------

    def set_results(self, items: list[Item], outcomes: Outcomes) -> None:
        """Set the results of items at once."""
        _hand_over_results(items, outcomes, self.loop)
        _set_results(items, outcomes)

    def hold_back(self) -> None:
        """Hold further batches back until `confirm` or `hand_over`."""
        self._is_sending = True

    def confirm(self, items: list[Item]) -> None:
        """Set the results of a committed batch."""
        self._is_sending = False
        _set_results(items, None)
        self._schedule_rest()

    def hand_over(self, items: list[Item]) -> None:
        """Hand a batch to the thread, because it is not known whether it was committed."""
        self._is_sending = False
        self._hand_over(items)
        self._schedule_rest()

    def _schedule_rest(self) -> None:
        if self.items and not self._scheduled:
            self._schedule()  # after the callers that were just woken, so that their items come along

    # --- from any thread ------------------------------------------------------------------

    def set_results_soon(self, items: list[Item], outcomes: Outcomes) -> None:
        """Set the results of items in one wake-up of the loop."""

        # Called by the writer's thread.
        # A loop that is closed before its next turn drops the call, and with it the results.
        _hand_over_results(items, outcomes, self.loop)
        try:
            self.loop.call_soon_threadsafe(self._receive_results, items, outcomes)
        except RuntimeError:  # the loop is closed: no caller waits
            for (_, _, work), outcome in zip(items, outcomes or (), strict=False):
                _return_unclaimed(work, outcome)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call a function on the loop."""

        # Safe from any thread.
        with contextlib.suppress(RuntimeError):  # the loop is closed: no caller waits
            self.loop.call_soon_threadsafe(callback)

    def _receive_results(self, items: list[Item], outcomes: Outcomes) -> None:
        self._batches_in_thread -= 1
        _set_results(items, outcomes)


def _set_results(items: list[Item], outcomes: Outcomes) -> None:
    if outcomes is None:
        for future, _, _ in items:
            if future is not None and not future.done():  # it is done if the caller was cancelled
                future.set_result(None)
        return
    for (future, log, row), outcome in zip(items, outcomes, strict=True):
        failed = isinstance(outcome, Exception)
        if log is not None and failed and type(row) is tuple:
            log.not_written(row, outcome)
        if future is None or future.done():
            _return_unclaimed(row, outcome)
            continue
        if failed:
            future.set_exception(_copy_error(outcome))
            future.exception()  # mark it as retrieved: nobody has to await an append
        else:
            future.set_result(outcome)


def _hand_over_results(items: list[Item], outcomes: Outcomes, loop: asyncio.AbstractEventLoop) -> None:
    """Tell the work of each committed item that its outcome is on the way to a caller on `loop`."""
    for (_, _, work), outcome in zip(items, outcomes or (), strict=False):
        hand_over = getattr(work, "hand_over", None)
        if hand_over is not None and not isinstance(outcome, Exception):
            hand_over(outcome, loop)


def _return_unclaimed(work: Any, outcome: Any) -> None:
    """Hand a committed outcome back to its work when the caller was cancelled and nobody receives it."""
    give_back = getattr(work, "give_back", None)
    if give_back is not None and not isinstance(outcome, Exception):
        give_back(outcome)


def _copy_error(error: Exception) -> Exception:
    """Return a copy of a StoreError for each caller, so that each has its own traceback."""
    if type(error) is not StoreError:
        return error
    copy = StoreError(*error.args)
    copy.__cause__, copy.remedy = error.__cause__, error.remedy
    return copy
