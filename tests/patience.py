"""Wait for what must happen. No test fails because others are busy: the bound only ends what never happens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
BOUND = 120.0  # seconds; less than the timeout of a test, so that the failure names the condition
_PAUSE = 0.005


def wait_until(holds: Callable[[], T], failure: Callable[[], object] = lambda: "it did not happen") -> T:
    """Wait until `holds` returns something true, and return it."""
    end = time.monotonic() + BOUND
    while not (result := holds()):
        assert time.monotonic() < end, failure()
        time.sleep(_PAUSE)
    return result


async def until(holds: Callable[[], T], failure: Callable[[], object] = lambda: "it did not happen") -> T:
    """Wait on the loop until `holds` returns something true, and return it."""
    end = time.monotonic() + BOUND
    while not (result := holds()):
        assert time.monotonic() < end, failure()
        await asyncio.sleep(_PAUSE)
    return result
