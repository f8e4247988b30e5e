"""The clock that leases are measured with: monotonic, and it runs while the machine is suspended.

A laptop that sleeps for an hour must wake up without its leases. `time.monotonic` stands still during the sleep
on Linux and macOS, so a lease measured with it would look fresh.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Final


def _clock() -> Callable[[], float]:
    if hasattr(time, "CLOCK_BOOTTIME"):
        return functools.partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":
        return functools.partial(time.clock_gettime, time.CLOCK_MONOTONIC)  # counts sleep there, unlike time.monotonic
    return time.monotonic


boottime: Final = _clock()
"""Return seconds since the machine booted, suspended time included."""
