"""Numbered SQL files that make a store what this version expects, and the table that says how far it is.

To change the schema, add `NNNN_what.sql` with the next number to the database's folder under
`migrations/`; never edit one that was released. Refused: a store written by a newer version.
"""

from __future__ import annotations

import time
from pathlib import Path

from ..errors import StoreError
from .connection import Connection, fetch


class Migrations:
    """The files of one `folder`."""

    def __init__(self, folder: Path) -> None:
        self._files = {int(file.name[:4]): file for file in sorted(folder.glob("*.sql"))}
        self.newest = max(self._files)

    def version(self, connection: Connection) -> int:
        """The number of the last one applied; 0 for none. The table is there."""
        return int(fetch(connection, "SELECT max(number) FROM migration")[0][0] or 0)

    def check(self, connection: Connection, name: str) -> int:
        """The same of the store called `name`; raises StoreError for a newer one than is known here."""
        version = self.version(connection)
        if version > self.newest:
            raise StoreError(
                f"{name} was written by a newer Ropewalk (store version {version}, this one knows {self.newest});"
                f" upgrade Ropewalk to one that knows {version}, or choose another store"
            )
        return version

    def apply(self, connection: Connection, name: str) -> None:
        """Apply what is missing to the store called `name`. The caller's transaction keeps others out."""
        version = self.check(connection, name)
        for number in range(version + 1, self.newest + 1):
            file = self._files[number]
            connection.execute(file.read_text())
            connection.execute("INSERT INTO migration VALUES (?, ?, ?)", (number, file.stem, time.time()))
