"""Check SQLite's write-ahead log before SQLite reads it.

After a crash SQLite reads the log up to the first frame with a wrong checksum, and silently drops the rest. That is
right for a torn tail, which was never acknowledged. With damage in the middle, acknowledged commits would vanish. The
difference can be proved: a frame that continues the checksum of a commit frame was written after that commit had
succeeded.

After a kill most of a store may be in its log. If the database of a log is missing, SQLite deletes the log as soon as
a new database is created at that path. `orphan_wal` reports such a log first.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO, Final

from ...fast_dataclass import dataclass

_HEADER: Final = 32
_FRAME: Final = 24
_STRANGE: Final = 8  # frames of another use of the log in a row that end the search
_MAGIC: Final = 0x377F0682  # The lowest bit says big-endian checksums.


@dataclass(frozen=True, slots=True)
class _Frame:
    commits: bool
    salts: bytes
    sums: tuple[int, int]
    summed: bytes


def wal_path(path: Path) -> Path:
    """Return the path of the log of a database."""

    # It is next to the target of a link.
    return Path(os.path.realpath(path) + "-wal")


def orphan_wal(path: Path) -> str | None:
    """Return what to do about a log at `path` without a database; None if there is no such log."""

    # A new store writes its first page to the database before it writes to the log. Looking at the log first therefore
    # reports no orphan while another process creates a store.
    wal = wal_path(path)
    if not is_non_empty(wal) or is_non_empty(path):
        return None
    return (
        f"the log of another database, {wal.name}, is next to it and contains recorded data; a new store would"
        " delete it. Restore the database that belongs to it, or move the log away"
    )


def is_non_empty(path: Path) -> bool:
    """Return True if the file exists and is not empty."""
    try:
        return path.stat().st_size > 0
    except (FileNotFoundError, NotADirectoryError):  # `.ropewalk` may be a file
        return False


def wal_damage(wal: Path, valid: int) -> str | None:
    """Return the damage of a log that can lose acknowledged commits; None if there is none."""
    try:
        file = wal.open("rb")
    except FileNotFoundError:
        return None
    with file:
        header = file.read(_HEADER)
        if len(header) < _HEADER:
            return None
        magic, _version, page = struct.unpack(">III", header[:12])
        big = bool(magic & 1)
        if magic & ~1 != _MAGIC or _sums(header[:24], (0, 0), big) != struct.unpack(">II", header[24:32]):
            return "its header is damaged" if file.read(_FRAME) else None
        before = _read(file, valid - 1, page) if valid else None
        sums = before.sums if before else struct.unpack(">II", header[24:32])
        return _after(file, valid, page, header[16:24], sums, big)


def valid_frames(wal: Path) -> int:
    """Return the number of frames that SQLite accepts, without using SQLite."""

    # These are the frames up to the last commit before the first frame that does not continue its predecessor.
    with wal.open("rb") as file:
        header = file.read(_HEADER)
        if len(header) < _HEADER:
            return 0
        magic, _version, page, *_, first, second = struct.unpack(">8I", header)
        sums = (first, second)
        number = valid = 0
        while (frame := _read(file, number, page)) is not None and frame.salts == header[16:24]:
            if frame.sums != _sums(frame.summed, sums, bool(magic & 1)):
                break
            number, sums = number + 1, frame.sums
            valid = number if frame.commits else valid
        return valid


def _after(file: BinaryIO, valid: int, page: int, salts: bytes, sums: tuple[int, int], big: bool) -> str | None:
    """Search the frames SQLite dropped for one written after a commit among them."""
    previous: _Frame | None = None
    before = [sums]  # checksums that a frame may continue: the stored and the correct ones
    bad = strange = 0
    number = valid
    while strange < _STRANGE and (frame := _read(file, number, page)) is not None:
        computed = [_sums(frame.summed, start, big) for start in before]
        follows = frame.sums in computed
        number += 1
        if frame.salts != salts:  # Most likely from an earlier use of the log, or its header is damaged too.
            strange += 1
            bad = bad or number
        elif not follows:
            bad = bad or number
        elif not bad and frame.commits:
            return None  # A valid commit that failed at the last moment, or was copied back.
        elif bad and previous and previous.commits:
            return f"frame {bad} is damaged, and commits that were acknowledged follow it"
        previous, before = frame, [frame.sums] if follows else [frame.sums, computed[0]]
    return None


def _read(file: BinaryIO, number: int, page: int) -> _Frame | None:
    file.seek(_HEADER + number * (_FRAME + page))
    data = file.read(_FRAME + page)
    if len(data) < _FRAME + page:
        return None
    size, *sums = struct.unpack(">4xI8xII", data[:_FRAME])
    return _Frame(size != 0, data[8:16], (sums[0], sums[1]), data[:8] + data[_FRAME:])


def _sums(data: bytes, start: tuple[int, int], big: bool) -> tuple[int, int]:
    """Return the running checksum of the log: two 32-bit sums over pairs of words."""
    first, second = start
    words = struct.unpack(f"{'>' if big else '<'}{len(data) // 4}I", data)
    for i in range(0, len(words), 2):
        first = (first + words[i] + second) & 0xFFFFFFFF
        second = (second + words[i + 1] + first) & 0xFFFFFFFF
    return first, second
