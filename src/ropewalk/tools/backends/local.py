"""Local handlers: Python callables run as tools.

Plain functions run in daemon threads of our own. A function that hangs is abandoned at its timeout and delays neither
the next call nor the exit of the interpreter; it cannot be killed. Coroutine
functions run in the event loop; async generators stream. Any callable can be a handler.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from ...errors import describe_exception
from ..listener import Listener
from ..output import context_of_step
from ..tool import ProgressEvent, StreamEvent

MAX_THREADS: Final = 64
_IDLE_SECONDS: Final = 10.0
Call: TypeAlias = Callable[[], Any]


class _Job:
    __slots__ = ("abandoned", "call", "context", "future", "loop")

    def __init__(self, call: Call) -> None:
        self.call = call
        self.context = context_of_step()
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[tuple[bool, Any]] = self.loop.create_future()
        self.abandoned = False

    def run(self) -> None:
        try:
            outcome = True, self.context.run(self.call)
        except BaseException as error:  # noqa: BLE001 - SystemExit in a tool must not end a thread silently
            outcome = False, error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for the result
            self.loop.call_soon_threadsafe(self._deliver, outcome)

    def _deliver(self, outcome: tuple[bool, Any]) -> None:
        if not self.future.done():
            self.future.set_result(outcome)


class Threads:
    """A pool of daemon threads."""

    # An abandoned thread no longer counts and ends when its call does.

    def __init__(self, max_threads: int = MAX_THREADS) -> None:
        self._max_threads = max_threads
        self.calls: dict[int, Any] = {}  # the current function, by native thread id
        self._reset()

    def _reset(self) -> None:
        self._wake = threading.Condition()
        self._queue: deque[_Job] = deque()
        self._idle = self._live = 0
        self._pid = os.getpid()

    async def run(self, call: Call) -> Any:
        """Return the result of `call()` in a thread, with the caller's context variables."""

        # If the caller is cancelled, the thread is abandoned. An exception that would end the event loop (SystemExit,
        # StopIteration, CancelledError) is raised as a RuntimeError.
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
            raise RuntimeError(f"it raised {describe_exception(value)}") from value
        raise value

    def _submit(self, job: _Job) -> None:
        if self._pid != os.getpid():
            self._reset()  # a fork took the counts but not the threads
        with self._wake:
            self._queue.append(job)
            if len(self._queue) > self._idle:
                self._grow()
            self._wake.notify()

    def _grow(self) -> None:
        if self._live < self._max_threads:
            self._live += 1
            threading.Thread(target=self._work, name="ropewalk-tool", daemon=True).start()

    def _abandon(self, job: _Job) -> None:
        with self._wake:
            try:
                self._queue.remove(job)
            except ValueError:
                job.abandoned = True  # it is running: stop counting its thread, so that another can start
                self._live -= 1
                if len(self._queue) > self._idle:
                    self._grow()

    def _work(self) -> None:
        thread_id = threading.get_native_id()
        try:
            self._work_loop(thread_id)
        finally:
            self.calls.pop(thread_id, None)

    def _work_loop(self, thread_id: int) -> None:
        while True:
            with self._wake:
                self._idle += 1
                has_job = self._wake.wait_for(lambda: bool(self._queue), _IDLE_SECONDS)
                self._idle -= 1
                if not has_job:
                    self._live -= 1
                    return
                job = self._queue.popleft()
            self.calls[thread_id] = getattr(job.call, "func", job.call)  # without the arguments
            job.run()
            with self._wake:
                if job.abandoned:
                    return
            del job


threads = Threads()
"""The pool that every runner of this process shares."""


async def maybe_await(value: Any) -> Any:
    """Await a value if it is awaitable."""
    return await value if inspect.isawaitable(value) else value


async def collect(events: Any, on_progress: Callable[[ProgressEvent], None] | None) -> Any:
    """Read a stream to its end and return one result: the data of its `done`, or the list of its chunks."""
    chunks: list[Any] = []
    on_chunk = on_progress.chunk if isinstance(on_progress, Listener) else None
    try:
        async for event in events:
            if not isinstance(event, StreamEvent) or event.kind == "chunk":
                chunk = event.data if isinstance(event, StreamEvent) else event
                chunks.append(chunk)
                if on_chunk is not None:
                    on_chunk(chunk)
            elif event.kind == "error":
                raise stream_failure(event)
            elif event.kind == "done":
                return chunks if event.data is None else event.data
            elif on_progress is not None:
                on_progress(as_progress(event.data))
    finally:
        await aclose(events)
    return chunks


def stream_failure(event: StreamEvent) -> Exception:
    """Return the exception of an error event: its own one, or a RuntimeError with its text or data."""
    error: Any = event.error
    if isinstance(error, Exception):
        return error
    if isinstance(error, BaseException):  # raised directly, it could end the whole program
        failure = RuntimeError(f"it raised {describe_exception(error)}")
        failure.__cause__ = error
        return failure
    message = error or event.data
    if isinstance(message, dict) and isinstance(message.get("message"), str):
        message = message["message"]
    return RuntimeError("the stream ended in an error" if message is None else str(message))


def as_progress(data: Any) -> ProgressEvent:
    """Convert the data of a stream to a ProgressEvent: a ProgressEvent, a number, or an object with its fields."""
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
