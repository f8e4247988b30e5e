"""The standard streams of a command: there, also when the shell closed them, and with an end for what cannot be
written to standard output."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import IO, Any, Final

UNDELIVERED: Final = 141
_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


class Unwritten(Exception):
    """Standard output does not take the answer: a full disk, for one."""


def open_closed() -> None:
    """Put the null device where a standard stream is closed. A file that is opened later would get its descriptor,
    and what is printed."""
    for descriptor, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(descriptor)
        except OSError:
            _nowhere(descriptor)
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - it stays


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Around what writes to standard output, so that a fault of that is told from all others."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritten(error.strerror or str(error)) from error


def put(text: str) -> None:
    """Write to standard output, at once."""
    with writing():
        sys.stdout.write(text)
        sys.stdout.flush()


def show(text: str) -> int:
    """Print a page, and give the exit code."""
    try:
        put(text)
    except (BrokenPipeError, Unwritten) as error:
        return undelivered(error, sys.stdout)
    return 0


def close_full() -> None:
    """Let go of what standard error does not take: the interpreter would end with a code of its own for it."""
    try:
        sys.stderr.flush()
    except OSError:
        _nowhere(sys.stderr.fileno())


def undelivered(error: BrokenPipeError | Unwritten, out: IO[Any], recorded: str = "") -> int:
    """Say why the answer is not there, unless its reader has gone, and give the exit code; `recorded` is the command
    that shows it."""
    # What `out` has in its buffer is written again while the interpreter ends, which would complain.
    _nowhere(out.fileno())
    if isinstance(error, Unwritten):
        from .logs import tell

        there = f"; the run is recorded: {recorded}" if recorded else ""
        with contextlib.suppress(OSError):  # standard error may be on the same disk: the exit code is what is left
            tell(f"error: the result could not be written: {error}{there}", logging.ERROR)
    return UNDELIVERED


def _nowhere(descriptor: int) -> None:
    opened = os.open(os.devnull, os.O_RDWR)
    if opened != descriptor:
        os.dup2(opened, descriptor)
        os.close(opened)
    os.set_inheritable(descriptor, descriptor < len(_STREAMS))
