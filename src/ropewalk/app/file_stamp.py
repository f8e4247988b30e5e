"""Stamps of definitions in files, which show whether one has changed."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Final, NamedTuple

from ..config.project import EXPERIENCE_DOCUMENTS
from .python_file import python_place

_REALTIME_COARSE: Final = 5  # the clock that Linux has for files; the module time has no name for it


class Stamp(NamedTuple):
    """A state of a definition's file."""

    changed: tuple[int, int]
    """When its content and anything of it was changed, in nanoseconds since the epoch; tools can set only the first."""
    size: int
    number: tuple[int, int]
    content: bytes | None
    """A hash of its content, if another change could leave everything else as it is."""

    def still_fits(self, path: Path) -> bool:
        """Return True if a definition is as it was when it had this stamp."""
        found = _document(path)
        if found is None or self[:3] != _identity(found[1]):
            return False
        return self.content is None or self.content == _hash(*found)


def stamp_of(path: Path) -> Stamp | None:
    """Return the stamp of a definition, or None if there is no such file."""
    found = _document(path)
    if found is None:
        return None
    # The clock of files ticks slowly. A file that was written within the present tick can be written again without
    # another time.
    now = time.clock_gettime_ns(_REALTIME_COARSE) if sys.platform == "linux" else time.time_ns()
    identity = _identity(found[1])
    return Stamp(*identity, _hash(*found) if max(identity[0]) >= now else None)


def _document(path: Path) -> tuple[Path, os.stat_result] | None:
    """Return the file that a definition is read from: that of `FILE.py:NAME`, or the document in a directory."""
    place = python_place(path)
    path = path if place is None else place[0]
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    if not S_ISDIR(status.st_mode):
        return path, status
    return next((found for name in EXPERIENCE_DOCUMENTS if (found := _document(path / name)) is not None), None)


def _identity(status: os.stat_result) -> tuple[tuple[int, int], int, tuple[int, int]]:
    return (status.st_mtime_ns, status.st_ctime_ns), status.st_size, (status.st_dev, status.st_ino)


def _hash(path: Path, status: os.stat_result) -> bytes:
    content = b""
    if S_ISREG(status.st_mode):  # a pipe can be read only once
        with suppress(OSError):  # which the reader of the definition reports
            content = path.read_bytes()
    return hashlib.blake2b(content, digest_size=16).digest()
