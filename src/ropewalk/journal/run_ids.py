"""Ids of runs: UUIDs of version 7, which sort by the time at which they were made.

Python has them from version 3.14 on. Ids of one process always grow, also within a millisecond and when the clock is
set back. They begin with 48 bits of milliseconds, then 42 bits of a counter that starts at random, then 32 random bits.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Final

_COUNTER_BITS: Final = 42
_lock = threading.Lock()
_last = 0  # the milliseconds of the latest id
_counter = 0


def new_run_id() -> str:
    """Return a new id, greater than every one that this process returned before."""
    global _last, _counter
    random = int.from_bytes(os.urandom(10))
    with _lock:
        now = time.time_ns() // 1_000_000
        if now > _last:
            # The highest bit is 0, so that there is room to count.
            _last, _counter = now, random >> 39
        else:
            _counter += 1
            if _counter >> _COUNTER_BITS:
                _last, _counter = _last + 1, random >> 39
        milliseconds, counter = _last, _counter
    high = milliseconds << 16 | 0x7000 | counter >> 30
    low = 0b10 << 62 | (counter & 0x3FFF_FFFF) << 32 | (random & 0xFFFF_FFFF)
    text = f"{high:016x}{low:016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _forget() -> None:
    """Start a counter of its own in a forked process, so that two processes do not count alike."""
    global _lock, _last
    _lock, _last = threading.Lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
