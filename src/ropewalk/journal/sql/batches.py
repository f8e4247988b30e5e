"""Long pieces of work in short transactions, so that other writers are never held up for long."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from .rows import Connection
from .writer import Writer

T = TypeVar("T")

TARGET_SECONDS: Final = 0.02
"""Seconds that a transaction should take at most. One that takes twice as long is an exception."""
PAUSE: Final = 0.005
"""Seconds between two transactions, at least. Writers of other processes ask for their turn every 4 ms."""
MAX_FACTOR: Final = 64
"""Times the first size that a batch may reach."""


class Batches:
    """The transactions of one long piece of work."""

    def __init__(self) -> None:
        self._times = 1

    def size(self, first: int) -> int:
        """Return how many rows the next transaction takes."""

        # `first`: Rows of the first transaction.
        return first * self._times

    def run(self, writer: Writer, work: Callable[[Connection], T]) -> T:
        """Call a function in a transaction of its own, then leave the store to others for a while."""
        began = 0.0

        def timed(connection: Connection) -> T:
            nonlocal began
            began = time.monotonic()  # waiting for other writers says nothing about the size of the batch
            return work(connection)

        result = writer.run_exclusive(timed)
        self.observe(time.monotonic() - began)
        return result

    def observe(self, seconds: float) -> None:
        """Adapt the size of the next batch, and pause."""

        # `seconds`: Duration of the last transaction.
        if seconds > TARGET_SECONDS:
            self._times = max(1, self._times // 2)
        elif seconds < TARGET_SECONDS / 3:
            self._times = min(MAX_FACTOR, self._times * 2)
        time.sleep(max(PAUSE, seconds / 2))
