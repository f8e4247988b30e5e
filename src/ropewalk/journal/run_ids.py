"""Ids of runs: UUIDs of version 7, which sort by the time at which they were made.

Python has them from version 3.14 on. Ids of one process always grow, also within a millisecond and when the clock is
set back. They begin with 48 bits of milliseconds, then 42 bits of a counter that starts at random, then 32 random bits.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Final

_COUNTER_BITS: Final = 42
_lock = threading.Lock()
_last = 0  # the milliseconds of the latest id
_counter = 0
_BYTES: Final = 10  # random ones per id
_random: Iterator[bytes] = iter(())  # for the ids that follow: a system call for each costs more than all else


def _draw() -> bytes:
    """Return the random bytes of one id."""
    global _random
    drawn = next(_random, b"")
    if drawn:
        return drawn
    pool = os.urandom(64 * _BYTES)
    _random = iter([pool[at : at + _BYTES] for at in range(0, len(pool), _BYTES)])
    return next(_random)


def new_run_id() -> str:
    """Return a new id, greater than every one that this process returned before."""
    global _last, _counter
    with _lock:
        random = int.from_bytes(_draw())
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
    """Start a counter and random bytes of its own in a forked process, so that no two processes make one id."""
    global _lock, _last, _random
    _lock, _last, _random = threading.Lock(), 0, iter(())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
