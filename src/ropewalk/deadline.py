"""Wall-clock limits for pure computation: reading, checking, evaluating.

A thread cannot be ended from outside, so the work itself looks at the clock between its parts.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from .errors import InvalidFlow, Problem

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

R = TypeVar("R")

DEFINITION_SECONDS: Final = 30.0
"""Seconds that reading and checking one definition may take in a server."""

_THREADS: Final = 2  # more threads would share the interpreter's lock and slow down the event loop
_local = threading.local()


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Limit the work of this thread, within the block, to a number of seconds."""
    before = getattr(_local, "ends", None)
    _local.ends, _local.seconds = time.monotonic() + seconds, seconds
    try:
        yield
    finally:
        _local.ends = before


def look_at_clock() -> None:
    """Stop this thread's work if its time is over; without a limit do nothing."""
    ends = getattr(_local, "ends", None)
    if ends is not None and time.monotonic() > ends:
        message = f"reading and checking took longer than {_local.seconds:g} seconds; split the definition"
        raise InvalidFlow([Problem(path="", message=message)])


@functools.cache
def threads() -> ThreadPoolExecutor:
    """Return the pool of threads for work that would block an event loop."""
    from concurrent.futures import ThreadPoolExecutor  # imported only by processes that need threads

    return ThreadPoolExecutor(_THREADS, thread_name_prefix="ropewalk-work")


async def in_thread(work: Callable[[], R], seconds: float | None = None) -> R:
    """Do some work in a thread, with the caller's context variables."""

    # `work`: The work; it must call `look_at_clock` so that the limit can end it.

    def run() -> R:
        if seconds is None:
            return work()
        with limited(seconds):
            return work()

    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(threads(), lambda: context.run(run))
