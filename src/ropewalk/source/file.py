"""Files that somebody names, read without waiting for what may never come, and what stands there instead of one."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

_READ: Final = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY"))


def is_file(path: Path) -> bool:
    """Whether a regular file stands there; FileExistsError says what it is where it is something else."""
    if path.is_file():
        return True
    if os.path.lexists(path):  # somebody means a file, which nobody can read
        raise FileExistsError(f"must be a file; it is {instead_of_one(path)}")
    return False


def instead_of_one(path: Path) -> str:
    """What stands there, which is no file."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "a link that leads to itself"
        return "a link that leads nowhere" if path.is_symlink() else f"nothing ({error.strerror})"
    for found, what in ((stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket")):
        if found(mode):
            return what
    return "a device"


def read_bytes(path: Path, most: int) -> bytes:
    """At most `most` bytes, also from a pipe that somebody writes to; OSError where it cannot be read."""
    try:
        handle = os.open(path, _READ)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(error.errno, f"it is {instead_of_one(path)}") from error
        raise
    with open(handle, "rb") as file:
        begun, mode = b"", os.fstat(handle).st_mode
        if stat.S_ISFIFO(mode):
            try:
                begun = os.read(handle, most)
            except BlockingIOError:
                pass  # who writes to it has not begun
            else:
                if not begun:
                    raise OSError(errno.EPIPE, "it is a pipe that nobody writes to")
        if not stat.S_ISREG(mode):
            os.set_blocking(handle, True)
        return begun + file.read(most - len(begun))
