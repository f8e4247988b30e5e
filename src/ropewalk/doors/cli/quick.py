"""Time that passes at once: for runs whose tools are scripted, so that nothing happens but what they do.

Inside `quick_time` no clock stands still and none is waited for: when an event loop has nothing to do until some
time, it is that time. It sets the clocks of the process (`time.time`, `time.monotonic`), so it is for a process of
its own, entered before the engine is imported; `ropewalk test` is one.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class _Skipping(selectors.DefaultSelector):
    """Looks whether anything has come, and lets the time pass that it would have waited."""

    def __init__(self, skip: Callable[[float], None]) -> None:
        super().__init__()
        self._skip = skip

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        found = super().select(0)
        if not found:
            self._skip(timeout)
        return found


@contextmanager
def quick_time() -> Iterator[Callable[[], asyncio.AbstractEventLoop]]:
    """Gives what makes event loops on which time passes at once."""
    wall, mono, ahead = time.time, time.monotonic, 0.0

    def skip(seconds: float) -> None:
        nonlocal ahead
        ahead += seconds

    clocks: Any = time
    clocks.time, clocks.monotonic = lambda: wall() + ahead, lambda: mono() + ahead
    try:
        yield lambda: asyncio.SelectorEventLoop(_Skipping(skip))
    finally:
        clocks.time, clocks.monotonic = wall, mono
