"""What one event loop wants written, gathered for one turn of the loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import Fenced, StoreError

if TYPE_CHECKING:
    from .connection import Connection
    from .sql_log import SqlLog
    from .writer import Writer

Item: TypeAlias = "tuple[asyncio.Future[Any] | None, SqlLog | None, Any]"
"""Who waits, on whose behalf, and an entry's row; or instead of the row (a tuple) work to be done
in the transaction: what it returns or raises is for who waits. A tuple, being made per entry."""

Outcomes: TypeAlias = list[Any] | None
"""One per item, an exception for a failure; None when all are entries and all are written."""


class Inbox:
    """Used on its loop only, but for `settle_soon`, `later` and `take`."""

    def __init__(self, writer: Writer, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.items: list[Item] = []
        self.big = False  # Whether a big value is among them: those are never written here.
        self._writer = writer
        self._under_way = 0  # batches that the thread has
        self._sent = False  # whether the writer has one without the thread
        self._scheduled = False

    def add(self, item: Item) -> None:
        self.items.append(item)
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._flush)

    def do(self, work: Callable[[Connection], Any], log: SqlLog | None = None) -> asyncio.Future[Any]:
        """Have `work` done in a transaction, after everything added before it."""
        future = self.loop.create_future()
        self.add((future, log, work))
        return future

    def take(self) -> list[Item]:
        items, self.items = self.items, []
        return items

    def _flush(self) -> None:
        self._scheduled = False
        if self._sent or not self.items:
            return  # What is under way is answered first: entries are written in order.
        items, big = self.take(), self.big
        self.big = False
        if self._under_way or big or not self._writer.commit_here(self, items):
            self._hand_over(items)

    def _hand_over(self, items: list[Item]) -> None:
        self._under_way += 1
        self._writer.put(self, items)

    # --- for a writer that commits without the thread -------------------------------------

    def settle(self, items: list[Item], outcomes: Outcomes) -> None:
        """Tell those who wait, at once."""
        _settle(items, outcomes)

    def sending(self) -> None:
        """A batch is under way: nothing more until `sent` or `not_sent`."""
        self._sent = True

    def sent(self, items: list[Item]) -> None:
        """It is committed."""
        self._sent = False
        _settle(items, None)
        self._go_on()

    def not_sent(self, items: list[Item]) -> None:
        """Whether it is committed is not known: the thread finds out."""
        self._sent = False
        self._hand_over(items)
        self._go_on()

    def _go_on(self) -> None:
        if self.items and not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._flush)  # After those who were just told: what they add comes along.

    # --- from any thread ------------------------------------------------------------------

    def settle_soon(self, items: list[Item], outcomes: Outcomes) -> None:
        """From the writer: tell those who wait, in one wake-up of the loop."""
        try:
            self.loop.call_soon_threadsafe(self._arrived, items, outcomes)
        except RuntimeError:  # The loop is closed: nobody waits.
            for (_, _, work), outcome in zip(items, outcomes or (), strict=False):
                _return_unclaimed(work, outcome)

    def later(self, callback: Callable[[], None]) -> None:
        """From any thread: have it called on the loop."""
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody waits.
            self.loop.call_soon_threadsafe(callback)

    def _arrived(self, items: list[Item], outcomes: Outcomes) -> None:
        self._under_way -= 1
        _settle(items, outcomes)


def _settle(items: list[Item], outcomes: Outcomes) -> None:
    if outcomes is None:
        for future, _, _ in items:
            if future is not None and not future.done():  # Done: whoever waited was cancelled.
                future.set_result(None)
        return
    for (future, log, row), outcome in zip(items, outcomes, strict=True):
        failed = isinstance(outcome, Exception)
        if log is not None and isinstance(outcome, StoreError) and type(row) is tuple:
            log.not_written(row, lost=isinstance(outcome, Fenced))
        if future is None or future.done():
            _return_unclaimed(row, outcome)
            continue
        if failed:
            future.set_exception(_own(outcome))
            future.exception()  # Looked at: not awaiting an append is allowed.
        else:
            future.set_result(outcome)


def _return_unclaimed(work: Any, outcome: Any) -> None:
    """Hand a committed outcome back to its work when the caller was cancelled and nobody receives it."""
    give_back = getattr(work, "give_back", None)
    if give_back is not None and not isinstance(outcome, Exception):
        give_back(outcome)


def _own(error: Exception) -> Exception:
    """One failure may be told to many: each gets its own exception, and so its own traceback."""
    if type(error) is not StoreError:
        return error
    own = StoreError(*error.args)
    own.__cause__ = error.__cause__
    return own
