"""How much one of many write transactions does: more while they are quick, less once they take long.

So long work stays out of the way of others, whatever the disk and the size of the rows, and does not spend most of its
time in the pauses between transactions.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from .connection import Connection

if TYPE_CHECKING:
    from .writer import Writer

T = TypeVar("T")

TARGET: Final = 0.02
"""Seconds that a transaction should take at most. One that takes twice as long is an exception."""
PAUSE: Final = 0.005
"""Seconds between two transactions, at least. Writers of other processes ask for their turn every 4 ms."""
MOST: Final = 64
"""Times the first size that a batch may reach."""


class Batches:
    """The transactions of one long piece of work."""

    def __init__(self) -> None:
        self._times = 1

    def size(self, first: int) -> int:
        """How many rows the next transaction takes, where the first one took `first`."""
        return first * self._times

    def do(self, writer: Writer, work: Callable[[Connection], T]) -> T:
        """Do `work` in a transaction of its own, then leave the store to others for a while."""
        began = 0.0

        def timed(connection: Connection) -> T:
            nonlocal began
            began = time.monotonic()  # waiting for other writers says nothing about the size of the batch
            return work(connection)

        result = writer.run_alone(timed)
        self.observe(time.monotonic() - began)
        return result

    def observe(self, took: float) -> None:
        """Fit the size of the next batch to how long this one took, and pause."""
        if took > TARGET:
            self._times = max(1, self._times // 2)
        elif took < TARGET / 3:
            self._times = min(MOST, self._times * 2)
        time.sleep(max(PAUSE, took / 2))
