"""Capture of what tools print and log: standard streams, loggers, and the streams that child processes inherit.

`capture` replaces `sys.stdout` and `sys.stderr`, the call of a logger's handlers, and the start of threads and of child
processes, for the whole process. Outside of steps everything goes where it went before. Inside a step, text is added to
the output of the step and passed on to `echo`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextvars import copy_context
from functools import partial, partialmethod
from typing import Any, Final, TextIO

from .output import CURRENT, SETTLE, Output, current_output

_PIECE: Final = 65_536  # bytes read from a pipe at once

_call_handlers = logging.Logger.callHandlers
_start_process = subprocess.Popen.__init__
_start_thread = threading.Thread.start


@contextlib.contextmanager
def capture(echo: TextIO | None) -> Iterator[None]:
    """Keep what tools print and log inside of this context, and write the text of steps to `echo`, too."""
    if isinstance(sys.stdout, CapturedStream):
        yield
        return
    root, streams = logging.getLogger(), (sys.stdout, sys.stderr)
    level = root.level
    pipes = Pipes(echo)
    sys.stdout = CapturedStream(sys.stdout, "stdout", echo)
    sys.stderr = CapturedStream(sys.stderr, "stderr", echo)
    logging.Logger.callHandlers = _keep_and_call_handlers  # type: ignore[method-assign, assignment]
    subprocess.Popen.__init__ = partialmethod(_start_with_pipes, pipes)  # type: ignore[method-assign, assignment]
    threading.Thread.start = _start_in_context  # type: ignore[method-assign, assignment]
    root.setLevel(min(level or logging.INFO, logging.INFO))
    SETTLE.append(pipes.read_all)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
        logging.Logger.callHandlers = _call_handlers  # type: ignore[method-assign]
        subprocess.Popen.__init__ = _start_process  # type: ignore[method-assign]
        threading.Thread.start = _start_thread  # type: ignore[method-assign]
        root.setLevel(level)
        SETTLE.remove(pipes.read_all)


class CapturedStream:
    """A standard stream whose text belongs to the step that writes it."""

    def __init__(self, real: TextIO, name: str, echo: TextIO | None) -> None:
        self._real, self._name, self._echo = real, name, echo

    def write(self, text: str) -> int:
        """Write a text."""
        output = current_output()
        if output is None:
            return self._real.write(text)
        output.write(self._name, text)
        if self._echo is not None:
            self._echo.write(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _keep_and_call_handlers(logger: logging.Logger, record: logging.LogRecord) -> None:
    output = current_output()
    if output is None:
        return _call_handlers(logger, record)
    text = record.getMessage()
    if record.exc_info:
        text = f"{text}\n{logging.Formatter().formatException(record.exc_info)}"
    output.add("log", text, record.levelname.lower())
    token = CURRENT.set(None)  # a handler that writes to a standard stream would add the record a second time
    try:
        return _call_handlers(logger, record)
    finally:
        CURRENT.reset(token)


class Pipes:
    """The pipes that stand for the standard streams of child processes."""

    def __init__(self, echo: TextIO | None) -> None:
        self._echo, self._lock = echo, threading.Lock()
        self._open: dict[int, tuple[Output, str]] = {}

    def open(self, output: Output, stream: str) -> int:
        """Return the end of a new pipe for a child; what it writes is added to the output."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        with self._lock:
            self._open[reading] = output, stream
        _start_thread(threading.Thread(target=self._follow, args=(reading,), name="ropewalk-output", daemon=True))
        return writing

    def read_all(self) -> None:
        """Read what has arrived."""
        with self._lock:
            for reading in list(self._open):
                self._read(reading)

    def _follow(self, reading: int) -> None:
        import select

        poll = select.poll()
        poll.register(reading, select.POLLIN | select.POLLHUP)
        while True:
            poll.poll()
            with self._lock:
                if reading not in self._open or not self._read(reading):
                    return

    def _read(self, reading: int) -> bool:
        """Read from a pipe until nothing is left; return False after its end."""
        output, stream = self._open[reading]
        while True:
            try:
                data = os.read(reading, _PIECE)
            except BlockingIOError:
                return True
            if not data:
                del self._open[reading]
                os.close(reading)
                return False
            text = data.decode(errors="replace")
            output.write(stream, text)
            if self._echo is not None:
                self._echo.write(text)


def _start_with_pipes(process: Any, pipes: Pipes, *args: Any, **named: Any) -> None:
    """Start a child process; a stream that it would inherit from a step becomes a pipe."""
    output = current_output()
    # stdin, stdout and stderr are the 4th to 6th parameters, but nobody passes so many by position.
    if output is None or len(args) > 3:
        return _start_process(process, *args, **named)
    ends = {name: pipes.open(output, name) for name in ("stdout", "stderr") if named.get(name) is None}
    try:
        return _start_process(process, *args, **{**named, **ends})
    finally:
        for end in ends.values():
            with contextlib.suppress(OSError):
                os.close(end)


def _start_in_context(thread: threading.Thread) -> None:
    """Start a thread; one that a step starts belongs to the step."""
    if CURRENT.get() is not None:
        thread.run = partial(copy_context().run, thread.run)  # type: ignore[method-assign]
    _start_thread(thread)
