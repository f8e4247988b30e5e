"""A virtual clock for the engine: time moves only when nothing is left to do, and then exactly to the next timer.

All clocks of Ropewalk and of the event loop read the same number. Instants and durations that are multiples of
1/1024 second stay exact.
"""

from __future__ import annotations

import asyncio
import selectors
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from types import BuiltinFunctionType, MethodType
from typing import TypeVar

T = TypeVar("T")
START = 1_000_000_000.0  # seconds since the epoch at which every virtual run starts
HANGS = "nothing is left to happen, and the run has not ended"


class VirtualClock:
    """Seconds since the start."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return START + self.now


@contextmanager
def later(seconds: float) -> Iterator[None]:
    """Make Ropewalk believe that so many seconds have passed, as they do while no process runs."""
    real, clock = time.time, VirtualClock()
    clock.now = real() + seconds - START  # it stands still
    _replace({real: clock.wall})
    try:
        yield
    finally:
        _replace({clock.wall: real})


class _Jumping(selectors.DefaultSelector):
    """Instead of waiting for a timer, set the clock to its time."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if found or timeout == 0:
            return found
        if timeout is None:
            raise RuntimeError(HANGS)
        self._clock.now += timeout
        return found


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(_Jumping(clock))
        self._virtual = clock

    def time(self) -> float:
        return self._virtual.now


@contextmanager
def patched_clocks(clock: VirtualClock) -> Iterator[None]:
    """Make Ropewalk read this clock, also where a module holds `time.monotonic` under a name of its own."""
    virtual = {time.monotonic: clock.monotonic, time.time: clock.wall}
    _replace(virtual)
    try:
        yield
    finally:
        # Modules that were first imported meanwhile hold the virtual clock, too.
        _replace({new: old for old, new in virtual.items()})


def _replace(functions: Mapping[Callable[[], float], Callable[[], float]]) -> None:
    for key, module in list(sys.modules.items()):
        if key.partition(".")[0] in ("ropewalk", "time"):
            for name, value in list(vars(module).items()):
                if isinstance(value, (BuiltinFunctionType, MethodType)) and value in functions:
                    setattr(module, name, functions[value])


def run_virtually(work: Callable[[VirtualClock], Awaitable[T]]) -> T:
    """Run a coroutine on a clock of its own, from the instant 0."""
    clock = VirtualClock()

    async def main() -> T:
        return await work(clock)

    with patched_clocks(clock), asyncio.Runner(loop_factory=lambda: _Loop(clock)) as runner:
        return runner.run(main())
