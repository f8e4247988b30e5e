"""Names the tool that has held the Python interpreter, so that nothing else in the process could run."""

from __future__ import annotations

import sys
import threading
import time
from types import FrameType
from typing import Final

from ..engine.durable import call_of
from ..journal.boottime import boottime as clock
from ..tools.local import threads

_OWN: Final = 0.5  # of the time must be processor time, if no thread is known; otherwise the machine stood still


class Blocked:
    """Notice that the thread which calls `look` several times a second could not run for `limit` seconds.

    `thread` is the thread that kept the process busy, by its number in the system, as the heartbeat process saw it.
    """

    def __init__(self, limit: float) -> None:
        self.thread: int | None = None
        self._limit = limit
        self._looked, self._used = clock(), time.process_time()

    def look(self) -> str | None:
        """Return a message about the block that has just ended, or None if there was none."""
        now, used = clock(), time.process_time()
        held, busy = now - self._looked, used - self._used
        self._looked, self._used = now, used
        thread, self.thread = self.thread, None
        if held <= self._limit or (thread is None and busy < _OWN * held):
            return None
        name = culprit(thread) if thread is not None else None
        return (
            f"{name or 'a tool'} held the Python interpreter for {held:.1f} s: nothing else in this worker could run;"
            " a tool that computes for long belongs into a process of its own"
        )


def culprit(thread: int) -> str | None:
    """Return the name of the tool that runs in a thread, or has just run there; None if that cannot be told.

    Args:
        thread: Number of the thread in the system.
    """
    if (known := threads.calls.get(thread)) is not None:
        return _shown(known)
    for one in threading.enumerate():
        if one.native_id == thread and one.ident is not None:
            frame = sys._current_frames().get(one.ident)
            return _in_loop(frame)
    return None


def _shown(call: object) -> str | None:
    function = getattr(call, "func", call)
    code = getattr(function, "__code__", None)
    name = getattr(function, "__name__", None)
    return f"tool {name} ({code.co_filename}:{code.co_firstlineno})" if code is not None else name and f"tool {name}"


def _in_loop(frame: FrameType | None) -> str | None:
    while frame is not None:
        if (tool := call_of(frame)) is not None:
            return f"tool {tool}"
        frame = frame.f_back
    return None
