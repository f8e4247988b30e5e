"""Wall-clock limits for work that is all computing: reading, checking, evaluating.

A thread cannot be ended from outside, so the work looks at the clock itself, where it goes from one part to the next.
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
"""How long reading and checking one definition may take in a server."""

_THREADS: Final = 2  # more would only share the interpreter's lock, and slow down the event loop
_here = threading.local()


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Limit the work of this thread, within the block, to a number of seconds."""
    before = getattr(_here, "ends", None)
    _here.ends, _here.seconds = time.monotonic() + seconds, seconds
    try:
        yield
    finally:
        _here.ends = before


def look_at_clock() -> None:
    """Raise InvalidFlow when the time of this thread's work is over; without a limit return at once."""
    ends = getattr(_here, "ends", None)
    if ends is not None and time.monotonic() > ends:
        said = f"reading and checking it takes longer than {_here.seconds:g} seconds; split the definition"
        raise InvalidFlow([Problem(path="", message=said)])


@functools.cache
def threads() -> ThreadPoolExecutor:
    """Return the threads of work that would keep an event loop from everything else."""
    from concurrent.futures import ThreadPoolExecutor  # most processes need none

    return ThreadPoolExecutor(_THREADS, thread_name_prefix="ropewalk-work")


async def in_thread(work: Callable[[], R], seconds: float | None = None) -> R:
    """Do some work in a thread of its own, with the caller's context variables.

    Args:
        work: What is done; it must look at the clock to be ended.
        seconds: How long it may take, from when it begins. None: it has limits of its own.

    Returns:
        What `work` returns.

    Raises:
        InvalidFlow: It took longer.
    """

    def run() -> R:
        if seconds is None:
            return work()
        with limited(seconds):
            return work()

    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(threads(), lambda: context.run(run))
