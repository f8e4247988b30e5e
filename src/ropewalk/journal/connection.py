"""What the SQL that stores share is run on: a connection to SQLite, or a session with Postgres.

Shared statements are written for both: `?` or `?1` for values, `ON CONFLICT` with its columns,
`among` for a list. A statement that only one of them understands belongs into that one's files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

import orjson

AMONG: Final = "IN (SELECT CAST(value AS BIGINT) FROM json_each(?))"
"""Whether a number is among those of one value, which `numbers` makes."""


class Rows(Protocol):
    """What came back."""

    def fetchall(self) -> list[Any]: ...


class Connection(Protocol):
    def execute(self, query: str, values: Sequence[Any] = ..., /) -> Rows: ...

    def executemany(self, query: str, rows: Iterable[Sequence[Any]], /) -> object: ...


def fetch(connection: Connection, query: str, values: Sequence[Any] = ()) -> list[Any]:
    """All rows of a query, as tuples."""
    return connection.execute(query, values).fetchall()


def numbers(some: Iterable[int]) -> str:
    """A value for `AMONG`."""
    return orjson.dumps(list(some)).decode()
