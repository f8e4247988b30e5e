"""Capture of what tools print and log: standard streams, loggers, and the streams that child processes inherit.

`capture` replaces `sys.stdout` and `sys.stderr`, the call of a logger's handlers, and the start of threads and of child
processes, for the whole process. Outside of steps everything goes where it went before. Inside a step, text is added to
the output of the step, which writes its lines to `echo` without secrets, each with its run and its path.
"""

from __future__ import annotations

import codecs
import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import thread as thread_pools
from functools import partial, partialmethod
from typing import Any, Final, Protocol, TextIO

from .output import CURRENT, ECHO, SETTLE, Output, context_of_step, current_output

_PIECE: Final = 65_536  # bytes that a pipe holds

_call_handlers = logging.Logger.callHandlers
if hasattr(os, "register_at_fork"):  # a copy of this process keeps nothing: what it prints goes to the real streams
    os.register_at_fork(after_in_child=lambda: CURRENT.set(None))

_start_process = subprocess.Popen.__init__
_start_thread = threading.Thread.start
_submit = ThreadPoolExecutor.submit
_pool_worker = thread_pools._worker


class Writable(Protocol):
    """Takes text, as a file does."""

    def write(self, text: str, /) -> object:
        """Write a text."""


@contextlib.contextmanager
def capture(echo: Writable | None) -> Iterator[None]:
    """Keep what tools print and log inside of this context, and write the lines of steps to `echo`, too."""
    if isinstance(sys.stdout, CapturedStream):
        yield
        return
    root, streams = logging.getLogger(), (sys.stdout, sys.stderr)
    level = root.level
    pipes = Pipes()
    sys.stdout = CapturedStream(sys.stdout, "stdout")
    sys.stderr = CapturedStream(sys.stderr, "stderr")

    def write(lines: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody reads it, but the tool goes on
            echo.write(lines)  # type: ignore[union-attr]

    if echo is not None:
        ECHO.append(write)
    handle = partialmethod(_keep_and_call_handlers, level)
    logging.Logger.callHandlers = handle  # type: ignore[method-assign, assignment]
    subprocess.Popen.__init__ = partialmethod(_start_with_pipes, pipes)  # type: ignore[method-assign, assignment]
    threading.Thread.start = _start_in_context  # type: ignore[method-assign, assignment]
    ThreadPoolExecutor.submit = _submit_in_context  # type: ignore[method-assign, assignment]
    root.setLevel(min(level or logging.INFO, logging.INFO))
    SETTLE.append(pipes.read_all)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
        logging.Logger.callHandlers = _call_handlers  # type: ignore[method-assign]
        subprocess.Popen.__init__ = _start_process  # type: ignore[method-assign]
        threading.Thread.start = _start_thread  # type: ignore[method-assign]
        ThreadPoolExecutor.submit = _submit  # type: ignore[method-assign]
        root.setLevel(level)
        SETTLE.remove(pipes.read_all)
        if echo is not None:
            ECHO.remove(write)


def stream_of_prints() -> Any:
    """Return the stream for what a module prints: standard output belongs to the program, unless a step keeps it."""
    return sys.stdout if isinstance(sys.stdout, CapturedStream) and current_output() is not None else sys.stderr


class CapturedStream:
    """A standard stream whose text belongs to the step that writes it."""

    def __init__(self, real: TextIO, name: str) -> None:
        self._real, self._name = real, name

    def write(self, text: str) -> int:
        """Write a text."""
        output = current_output()
        if output is None:
            return self._real.write(text)
        output.write(self._name, text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _keep_and_call_handlers(logger: logging.Logger, root_level: int, record: logging.LogRecord) -> None:
    """Add a record to the output of its step; handlers get the records that they got without the capture."""
    output = current_output()
    if output is None:
        return _call_handlers(logger, record) if _is_enabled(logger, root_level, record) else None
    output.add("log", _text_of(record), record.levelname.lower())
    if not _is_enabled(logger, root_level, record):
        return None
    token = CURRENT.set(None)  # a handler that writes to a standard stream would add the record a second time
    try:
        return _call_handlers(logger, record)
    finally:
        CURRENT.reset(token)


def _is_enabled(logger: logging.Logger | None, root_level: int, record: logging.LogRecord) -> bool:
    """Return True if a record had come to its handlers with this level of the root logger."""
    while logger is not None and logger.parent is not None:
        if logger.level:
            return True
        logger = logger.parent
    return record.levelno >= root_level


def _text_of(record: logging.LogRecord) -> str:
    """Return the text of a record; a wrong one is the problem of its handlers, which report it."""
    try:
        text = record.getMessage()
    except Exception:  # noqa: BLE001 - any object may be among the arguments
        return str(record.msg)
    return f"{text}\n{logging.Formatter().formatException(record.exc_info)}" if record.exc_info else text


class Pipes:
    """The pipes that stand for the standard streams of child processes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, tuple[Output, str, codecs.IncrementalDecoder]] = {}

    def open(self, output: Output, stream: str) -> int:
        """Return the end of a new pipe for a child; what it writes is added to the output."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        with self._lock:
            self._open[reading] = output, stream, codecs.getincrementaldecoder("utf-8")("replace")
        _start_thread(threading.Thread(target=self._follow, args=(reading,), name="ropewalk-output", daemon=True))
        return writing

    def read_all(self) -> None:
        """Read what has arrived, which is at most what a pipe holds."""
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
        """Read a piece from a pipe; return False after its end."""
        output, stream, decoder = self._open[reading]
        try:
            data = os.read(reading, _PIECE)
        except BlockingIOError:
            return True
        text = decoder.decode(data, final=not data)
        output.write(stream, text)
        if not data:
            del self._open[reading]
            os.close(reading)
        return bool(data)


def _start_with_pipes(process: Any, pipes: Pipes, *args: Any, **named: Any) -> None:
    """Start a child process; a stream that it would inherit from a step becomes a pipe."""
    output = current_output()
    # stdin, stdout and stderr are the 4th to 6th parameters, but nobody passes so many by position.
    # A child with a session of its own may outlive this process, so it keeps the streams of the process.
    if output is None or len(args) > 3 or named.get("start_new_session"):
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
    if CURRENT.get() is not None and getattr(thread, "_target", None) is not _pool_worker:
        thread.run = partial(context_of_step().run, _run_of_step, thread.run)  # type: ignore[method-assign]
    _start_thread(thread)


def _run_of_step(run: Callable[[], None]) -> None:
    """Run a thread; print an exception while the thread still belongs to its step."""
    try:
        run()
    except BaseException:  # noqa: BLE001 - printed as Python does it after the thread
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


def _submit_in_context(pool: ThreadPoolExecutor, call: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
    """Give work to a pool, whose threads serve many steps; what the work prints belongs to the step that gives it."""
    if CURRENT.get() is not None:
        call = partial(context_of_step().run, call)
    return _submit(pool, call, *args, **named)
