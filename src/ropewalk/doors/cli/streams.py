"""The standard streams: usable when the shell closed them, when nobody reads them, or when their disk is full.

`--help` needs this file, so it imports little.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import IO, Any, Final

INTERRUPTED: Final = 130
UNDELIVERED: Final = 141
_STANDARD_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


class OutputError(Exception):
    """The answer could not be written to standard output, for example because the disk is full."""


def open_standard_streams() -> None:
    """Open the null device for every standard stream that the shell closed."""

    # Otherwise the next file that is opened would get the descriptor of that stream, and with it everything that is
    # printed.
    for fd, (name, mode) in enumerate(_STANDARD_STREAMS):
        try:
            os.fstat(fd)
        except OSError:
            _open_null_device(fd)
        if getattr(sys, name) is None:
            setattr(sys, name, open(fd, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - it stays


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Raise OutputError for a failed write inside, to tell it from every other OSError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error.strerror or str(error)) from error


def write_stdout(text: str) -> None:
    """Write text to standard output and flush it."""
    with writing():
        sys.stdout.write(text)
        sys.stdout.flush()


def print_page(text: str) -> int:
    """Print a help page and return the exit code."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal of another encoding still shows the rest
    try:
        write_stdout(text)
    except (BrokenPipeError, OutputError) as error:
        return report_undelivered(error, sys.stdout)
    return 0


def close_unwritable_stderr() -> None:
    """Discard what standard error cannot take; otherwise the interpreter would end with its own exit code."""
    try:
        sys.stderr.flush()
    except OSError:
        _open_null_device(sys.stderr.fileno())


def report_undelivered(error: BrokenPipeError | OutputError, out: IO[Any], recorded: str = "") -> int:
    """Report that the answer could not be written."""
    # The interpreter flushes the buffer of `out` once more as it ends, and would complain.
    _open_null_device(out.fileno())
    if isinstance(error, OutputError):
        note = f"; the run is recorded: {recorded}" if recorded else ""
        with contextlib.suppress(OSError):  # standard error may be on the same full disk; the exit code remains
            import logging

            from .output import notify

            notify(f"error: the result could not be written: {error}{note}", logging.ERROR)
    return UNDELIVERED


def report_interruption() -> int:
    """Report that Ctrl-C came before the command began, and return the exit code."""
    with contextlib.suppress(OSError):  # standard error may be closed; the exit code remains
        os.write(2, b"interrupted; nothing has run\n")
    return INTERRUPTED


def _open_null_device(fd: int) -> None:
    null_fd = os.open(os.devnull, os.O_RDWR)
    if null_fd != fd:
        os.dup2(null_fd, fd)
        os.close(null_fd)
    os.set_inheritable(fd, fd < len(_STANDARD_STREAMS))
