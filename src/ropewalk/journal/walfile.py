"""Looks at SQLite's write-ahead log before it is trusted.

After a crash SQLite reads the log up to the first frame whose checksum is wrong, and silently
drops the rest. That is right for a torn tail, which was never acknowledged. Were it damage in
the middle, acknowledged commits would vanish. The difference can be proved: a frame that
continues the checksum of a commit frame was written after that commit had succeeded.

After a kill most of a store may be in its log. One whose database is gone is deleted by SQLite
as soon as a new database is made in that place; `orphan` tells of it before.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO, Final

from ..frozen import dataclass

_HEADER: Final = 32
_FRAME: Final = 24
_STRANGE: Final = 8  # Frames of another use of the log in a row, roughly, before it is believed.
_MAGIC: Final = 0x377F0682  # The lowest bit says big-endian checksums.


@dataclass(frozen=True, slots=True)
class _Frame:
    commits: bool
    salts: bytes
    sums: tuple[int, int]
    summed: bytes


def beside(path: Path) -> Path:
    """Where SQLite keeps the log of the database at `path`: with the file that a link leads to."""
    return Path(os.path.realpath(path) + "-wal")


def orphan(path: Path) -> str | None:
    """What to do about the log that lies beside `path`, where there is no database or an empty file; None when there
    is none. The first page of a store is in its file before anything is in its log, so that looking at the log first
    finds no orphan where another process is making a store."""
    wal = beside(path)
    if not filled(wal) or filled(path):
        return None
    return (
        f"there is the log of another database beside it, {wal.name}, with what was recorded there; a new store would"
        " delete it. Bring the database back that belongs to it, or move the log away"
    )


def filled(path: Path) -> bool:
    """Whether there is a file with something in it."""
    try:
        return path.stat().st_size > 0
    except (FileNotFoundError, NotADirectoryError):  # `.ropewalk` may be a file
        return False


def damage(wal: Path, valid: int) -> str | None:
    """What is wrong with the log, of whose frames SQLite accepted the first `valid`; None when
    nothing acknowledged can be missing. Nobody may write meanwhile."""
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


def sound(wal: Path) -> int:
    """How many frames of the log SQLite accepts, found without it: all up to the last commit in front of the first that
    does not continue the one before."""
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
    before = [sums]  # What a frame may continue: the checksums as stored, or as they should have been.
    bad = strange = 0
    number = valid
    while strange < _STRANGE and (frame := _read(file, number, page)) is not None:
        computed = [_sums(frame.summed, start, big) for start in before]
        follows = frame.sums in computed
        number += 1
        if frame.salts != salts:  # Of the log's earlier use, most likely; or its header is hit too.
            strange += 1
            bad = bad or number
        elif not follows:
            bad = bad or number
        elif not bad and frame.commits:
            return None  # A sound commit: one that failed at the last moment, or has been copied back.
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
    """The log's running checksum: two 32-bit sums over pairs of words."""
    first, second = start
    words = struct.unpack(f"{'>' if big else '<'}{len(data) // 4}I", data)
    for i in range(0, len(words), 2):
        first = (first + words[i] + second) & 0xFFFFFFFF
        second = (second + words[i + 1] + first) & 0xFFFFFFFF
    return first, second
