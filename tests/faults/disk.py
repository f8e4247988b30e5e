"""A disk that fails: a VFS below SQLite."""

from __future__ import annotations

from typing import Any

import apsw


class Disk(apsw.VFS):
    """Fails once the `left` operations of kind `what` are used up, until it is `mended`."""

    def __init__(self) -> None:
        self.error: type[apsw.Error] = apsw.FullError
        self.what = "write"
        self.left = 10**9
        self.used = 0
        self.times = 10**9  # How often it fails before it works again by itself.
        self.most: int | None = None  # A write beyond this offset fails as well.
        self.torn = False  # Whether half of what is written is still there.
        super().__init__("faulty", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: Any) -> File:
        return File(self, name, flags)

    def due(self, what: str) -> bool:
        """Count an operation: whether it is one that fails."""
        if what != self.what:
            return False
        self.used += 1
        if self.used <= self.left or not self.times:
            return False
        self.times -= 1
        return True

    def strike(self) -> None:
        raise self.error("injected")

    def mend(self) -> None:
        self.left, self.times, self.most = 10**9, 10**9, None


class File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: Any) -> None:
        self.disk = disk
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        if self.disk.due("write"):
            if self.disk.torn:
                super().xWrite(data[: len(data) // 2], offset)
            self.disk.strike()
        if self.disk.most is not None and offset > self.disk.most:
            raise apsw.FullError("injected")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        # Nothing is synced: these tests cut no power, and would wait for the disk.
        if self.disk.due("sync"):
            self.disk.strike()
