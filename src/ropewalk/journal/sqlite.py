"""The store in one SQLite file: survives kill -9 (and, with sync="full", a power cut).

Several processes may use one file. Refused: a damaged file, a file of another program or of a
newer version.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ..errors import StoreError
from .sql_store import SqlStore
from .sqlite_reader import SqliteReader, unwritable
from .sqlite_writer import SqliteWriter


class SqliteStore(SqlStore):
    """Definitions and runs in the file at `path`, made on demand in an existing directory.

    `sync`: "normal" survives the death of the process, "full" that of the machine. `lease` is
    how long, in seconds, an owner on another host may be silent; `poll` how often stop requests
    of other processes are looked for.

    Where this process may not write to the file it is only read: `unwritable` says why, and so does whatever writes.
    """

    def __init__(
        self, path: str | Path, sync: Literal["normal", "full"] = "normal", *, lease: float = 10.0, poll: float = 0.2
    ) -> None:
        if sync not in ("normal", "full"):
            raise StoreError(f"sync={sync!r} is unknown; right are 'normal' and 'full'")
        self.path = Path(path).absolute()
        try:
            str(self.path).encode()
        except UnicodeEncodeError:
            raise StoreError(
                f"{self.path}: SQLite takes no path that is not UTF-8; choose another (ROPEWALK_STORE, --store)"
            ) from None
        self.unwritable = unwritable(self.path)
        made = SqliteReader(self.path, self.unwritable, lease, poll) if self.unwritable else None
        super().__init__(made or SqliteWriter(self.path, sync, lease, poll), lease, poll)
