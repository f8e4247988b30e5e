"""Clocks that skip idle time, so that tests of flows with waits end at once."""

from __future__ import annotations

import asyncio
import selectors
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class _SkippingSelector(selectors.DefaultSelector):
    """A selector that skips the time that it would have waited."""

    def __init__(self, skip: Callable[[float], None]) -> None:
        super().__init__()
        self._skip = skip

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        ready = super().select(0)
        if not ready:
            self._skip(timeout)
        return ready


@contextmanager
def fake_clock() -> Iterator[Callable[[], asyncio.AbstractEventLoop]]:
    """Replace the clocks of this process; event loops skip every idle wait instead of sleeping."""

    # Enter it in a process of its own, as `ropewalk test` does: it sets `time.time` and `time.monotonic`, also where
    # modules that are loaded already have them under a name of their own.
    real_time, real_monotonic, offset = time.time, time.monotonic, 0.0

    def skip(seconds: float) -> None:
        nonlocal offset
        offset += seconds

    def fake_time() -> float:
        return real_time() + offset

    def fake_monotonic() -> float:
        return real_monotonic() + offset

    _replace_clocks({real_time: fake_time, real_monotonic: fake_monotonic})
    try:
        yield lambda: asyncio.SelectorEventLoop(_SkippingSelector(skip))
    finally:
        _replace_clocks({fake_time: real_time, fake_monotonic: real_monotonic})


def _replace_clocks(replacements: dict[Any, Any]) -> None:
    """Replace the clocks in the module `time` and in every loaded module of Ropewalk that names one of them."""
    for name, module in list(sys.modules.items()):
        if name == "time" or name.partition(".")[0] == "ropewalk":
            for attribute, value in list(vars(module).items()):
                if callable(value) and any(value is clock for clock in replacements):
                    setattr(module, attribute, replacements[value])
