"""A query of a SQLite file, as rows. The file is opened for reading, and the query may do nothing but read it.

Refused: other statements than SELECT (no ATTACH either, which would reach files elsewhere), several statements, values
that are no JSON.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import apsw

from ..errors import InvalidValue
from ..values import MAX_BYTES, Json, check_json
from .rows import DatasetFailed

_READING: Final = frozenset(
    (apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, getattr(apsw, "SQLITE_RECURSIVE", 33))
)
_BUSY_MS: Final = 5000


class Query:
    """One query, to be run in a thread; `stop` from another one ends it."""

    def __init__(self, file: Path, shown: str, sql: str) -> None:
        self._file, self._shown, self._sql = file, shown, sql
        self._connection: apsw.Connection | None = None
        self._statements = 0
        self._stopped = False

    def stop(self) -> None:
        """End the query if it runs; harmless otherwise."""
        self._stopped = True
        if self._connection is not None:
            self._connection.interrupt()

    def rows(self) -> Json:
        """The rows as objects by column; DatasetFailed says what is wrong."""
        try:
            # Links were followed already: one that was put there since is not.
            flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOFOLLOW
            connection = apsw.Connection(str(self._file), flags=flags)
            try:
                connection.set_busy_timeout(_BUSY_MS)
                connection.authorizer = _only_reading
                connection.exec_trace = self._one_statement
                self._connection = connection
                return check_json(self._collected(connection), self._shown)
            finally:
                self._connection = None
                connection.close()
        except InvalidValue as error:
            raise DatasetFailed(str(error)) from error
        except apsw.AuthError as error:
            raise DatasetFailed(f"{self._shown}: the query may only read this file: {error}") from error
        except apsw.BusyError as error:
            raise DatasetFailed(f"{self._shown}: {error}", retryable=True) from error
        except apsw.Error as error:
            raise DatasetFailed(f"{self._shown}: {error}") from error

    def _one_statement(self, cursor: Any, sql: str, bindings: Any) -> bool:
        self._statements += 1
        if self._statements > 1:
            raise DatasetFailed(f"{self._shown}: the query has several statements; a dataset is one SELECT")
        if self._stopped:
            raise DatasetFailed(f"{self._shown}: stopped")
        return True

    def _collected(self, connection: apsw.Connection) -> list[Json]:
        rows: list[Json] = []
        names: list[str] | None = None
        size = 0
        cursor = connection.cursor()
        for row in cursor.execute(self._sql):
            if names is None:
                names = _columns([str(one[0]) for one in cursor.get_description()], self._shown)
            for name, value in zip(names, row, strict=True):
                if type(value) is bytes:
                    raise DatasetFailed(f"{self._shown}: column {name} holds a blob; select hex({name})")
                size += len(value) if type(value) is str else 8
            if size > MAX_BYTES:
                raise DatasetFailed(f"{self._shown}: the rows hold more than {MAX_BYTES:,} bytes; select fewer")
            rows.append(dict(zip(names, row, strict=True)))
        return rows


def _columns(names: list[str], shown: str) -> list[str]:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise DatasetFailed(f"{shown}: two columns of the query are named {name!r}; rename one with AS")
    return names


def _only_reading(operation: int, *_: str | None) -> int:
    return apsw.SQLITE_OK if operation in _READING else apsw.SQLITE_DENY
