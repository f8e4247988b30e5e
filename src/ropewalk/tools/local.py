"""Local handlers: Python callables run as tools.

Plain functions run in daemon threads of our own, so that one that hangs is abandoned at its timeout
and delays neither the next call nor the exit of the interpreter; it cannot be killed. Coroutine
functions run in the loop; async generators stream. Refused: nothing, a callable is a handler.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from ..errors.foreign import with_type
from .listener import Listener
from .result import ProgressEvent, StreamEvent

MOST_THREADS: Final = 64
_IDLE_SECONDS: Final = 10.0
Call: TypeAlias = Callable[[], Any]


class _Job:
    __slots__ = ("abandoned", "call", "context", "future", "loop")

    def __init__(self, call: Call) -> None:
        self.call = call
        self.context = contextvars.copy_context()
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[tuple[bool, Any]] = self.loop.create_future()
        self.abandoned = False

    def run(self) -> None:
        try:
            outcome = True, self.context.run(self.call)
        except BaseException as error:  # noqa: BLE001 - SystemExit in a tool must not end a thread silently
            outcome = False, error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self.loop.call_soon_threadsafe(self._deliver, outcome)

    def _deliver(self, outcome: tuple[bool, Any]) -> None:
        if not self.future.done():
            self.future.set_result(outcome)


class Threads:
    """At most `most` daemon threads; an abandoned one no longer counts and ends when its call does."""

    def __init__(self, most: int = MOST_THREADS) -> None:
        self._most = most
        self.calls: dict[int, Any] = {}  # by the system's number of a thread: the function it called last
        self._reset()

    def _reset(self) -> None:
        self._wake = threading.Condition()
        self._waiting: deque[_Job] = deque()
        self._idle = self._live = 0
        self._pid = os.getpid()

    async def run(self, call: Call) -> Any:
        """The result of `call()` in a thread, with the caller's context variables.

        When the caller is cancelled the thread is left behind. An exception that would end the
        loop (SystemExit, StopIteration, CancelledError) arrives as a RuntimeError.
        """
        job = _Job(call)
        self._submit(job)
        try:
            succeeded, value = await job.future
        except asyncio.CancelledError:
            self._abandon(job)
            raise
        if succeeded:
            return value
        if not isinstance(value, Exception) or isinstance(value, (StopIteration, StopAsyncIteration)):
            raise RuntimeError(f"it raised {with_type(value)}") from value
        raise value

    def _submit(self, job: _Job) -> None:
        if self._pid != os.getpid():
            self._reset()  # a fork took the counts but not the threads
        with self._wake:
            self._waiting.append(job)
            if len(self._waiting) > self._idle:
                self._grow()
            self._wake.notify()

    def _grow(self) -> None:
        if self._live < self._most:
            self._live += 1
            threading.Thread(target=self._work, name="ropewalk-tool", daemon=True).start()

    def _abandon(self, job: _Job) -> None:
        with self._wake:
            try:
                self._waiting.remove(job)
            except ValueError:
                job.abandoned = True  # it runs: write the thread off and let another take its place
                self._live -= 1
                if len(self._waiting) > self._idle:
                    self._grow()

    def _work(self) -> None:
        me = threading.get_native_id()
        try:
            self._work_as(me)
        finally:
            self.calls.pop(me, None)

    def _work_as(self, me: int) -> None:
        while True:
            with self._wake:
                self._idle += 1
                found = self._wake.wait_for(lambda: bool(self._waiting), _IDLE_SECONDS)
                self._idle -= 1
                if not found:
                    self._live -= 1
                    return
                job = self._waiting.popleft()
            self.calls[me] = getattr(job.call, "func", job.call)  # without the arguments
            job.run()
            with self._wake:
                if job.abandoned:
                    return
            del job


threads = Threads()
"""The pool that every runner of this process shares."""


async def maybe_await(value: Any) -> Any:
    """`value`, awaited when it is awaitable: what is given to us may be sync or async."""
    return await value if inspect.isawaitable(value) else value


async def collect(events: Any, on_progress: Callable[[ProgressEvent], None] | None) -> Any:
    """A stream as one result: what its `done` carried, else the list of its chunks.

    Progress events go to `on_progress`, and chunks, too, if it is a Listener; an error event raises its error.
    """
    chunks: list[Any] = []
    hear = on_progress.chunk if isinstance(on_progress, Listener) else None
    try:
        async for event in events:
            if not isinstance(event, StreamEvent) or event.kind == "chunk":
                chunk = event.data if isinstance(event, StreamEvent) else event
                chunks.append(chunk)
                if hear is not None:
                    hear(chunk)
            elif event.kind == "error":
                raise failure_of(event)
            elif event.kind == "done":
                return chunks if event.data is None else event.data
            elif on_progress is not None:
                on_progress(as_progress(event.data))
    finally:
        await aclose(events)
    return chunks


def failure_of(event: StreamEvent) -> Exception:
    """What an error event tells, as an exception: that in it, else one of its text, else one of its data."""
    error: Any = event.error
    if isinstance(error, Exception):
        return error
    if isinstance(error, BaseException):  # raised as it is, it would end more than this call
        made = RuntimeError(f"it raised {with_type(error)}")
        made.__cause__ = error
        return made
    said = error or event.data
    if isinstance(said, dict) and isinstance(said.get("message"), str):
        said = said["message"]
    return RuntimeError("the stream ended in an error" if said is None else str(said))


def as_progress(data: Any) -> ProgressEvent:
    """A progress event from what a stream sent: a ProgressEvent, a number, or an object with its fields."""
    if isinstance(data, ProgressEvent):
        return data
    if isinstance(data, dict):
        done, total, message = data.get("progress"), data.get("total"), data.get("message")
        return ProgressEvent(
            float(done) if isinstance(done, (int, float)) else 0.0,
            float(total) if isinstance(total, (int, float)) else None,
            str(message) if message is not None else None,
        )
    return ProgressEvent(float(data)) if isinstance(data, (int, float)) else ProgressEvent(0.0, None, str(data))


async def aclose(events: Any) -> None:
    """Close an async iterator that can be closed."""
    close = getattr(events, "aclose", None)
    if close is not None:
        await close()
