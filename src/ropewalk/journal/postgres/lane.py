"""Send entries from an event loop to Postgres without another thread.

A change of threads costs as much as the server's work on one entry. A lane is one connection that belongs to one event
loop. It sends one batch at a time as one statement; later entries wait for the next batch. A lane handles only success.
After a refused entry, an error or a lost connection the batch goes to the thread of the writer, which sends it again.
Sending entries twice is safe, because entries are unique.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..sql.rows import ENTRY_COLUMNS, UPSERT, Row
from .session import to_postgres_dialect

if TYPE_CHECKING:
    from ..sql.write_batch import Item, WriteBatch
    from .session import Session

# FOR SHARE waits for a process that is taking the run over, and then sees the new epoch.
INSERT: Final = f"""
    WITH given AS (
        SELECT * FROM unnest(
            CAST(? AS bigint[]), CAST(? AS text[]), CAST(? AS text[]), CAST(? AS text[]), CAST(? AS bytea[]),
            CAST(? AS text[]), CAST(? AS float8[]), CAST(? AS float8[]), CAST(? AS integer[])
        ) WITH ORDINALITY AS these (run, path, kind, node, data, digest, started, ended, epoch, nth)
    ), mine AS (
        SELECT run, epoch FROM lease WHERE run IN (SELECT run FROM given) ORDER BY run FOR SHARE
    )
    INSERT INTO entry (run, path, kind, node, data, digest, started, ended)
    SELECT run, path, kind, node, data, digest, started, ended FROM given JOIN mine USING (run, epoch) ORDER BY nth
    {UPSERT}
"""
# Entries of chunks belong to the run, and are fenced by the lease of the chunk.
INSERT_CHUNKS: Final = f"""
    WITH given AS (
        SELECT * FROM unnest(
            CAST(? AS bigint[]), CAST(? AS text[]), CAST(? AS text[]), CAST(? AS text[]), CAST(? AS bytea[]),
            CAST(? AS text[]), CAST(? AS float8[]), CAST(? AS float8[]), CAST(? AS integer[]), CAST(? AS bigint[])
        ) WITH ORDINALITY AS these (run, path, kind, node, data, digest, started, ended, epoch, chunk, nth)
    ), mine AS (
        SELECT run AS chunk, epoch FROM lease WHERE run IN (SELECT chunk FROM given) ORDER BY run FOR SHARE
    )
    INSERT INTO entry (run, path, kind, node, data, digest, started, ended)
    SELECT run, path, kind, node, data, digest, started, ended FROM given JOIN mine USING (chunk, epoch) ORDER BY nth
    {UPSERT}
"""
INSERT_ONE: Final = f"""
    WITH mine AS (SELECT run FROM lease WHERE run = ?1 AND epoch = ?9 FOR SHARE)
    INSERT INTO entry (run, path, kind, node, data, digest, started, ended)
    SELECT run, ?2, ?3, ?4, CAST(?5 AS bytea), ?6, CAST(?7 AS float8), CAST(?8 AS float8) FROM mine
    {UPSERT}
"""

_INT4, _INT8, _TEXT, _BYTEA, _FLOAT8 = 23, 20, 25, 17, 701
_OIDS: Final = (_INT8, _TEXT, _TEXT, _TEXT, _BYTEA, _TEXT, _FLOAT8, _FLOAT8, _INT4)
_ARRAYS: Final = {_INT4: 1007, _INT8: 1016, _TEXT: 1009, _BYTEA: 1001, _FLOAT8: 1022}
_ARRAY_OIDS: Final = tuple(_ARRAYS[oid] for oid in _OIDS)
_FIXED: Final = {_INT4: ("i", 4), _INT8: ("q", 8), _FLOAT8: ("d", 8)}
_BINARY: Final = [1] * len(_OIDS)
_CHUNK_OIDS: Final = (*_OIDS, _INT8)
_CHUNK_ARRAYS: Final = (*_ARRAY_OIDS, 1016)

_LENGTH: Final = struct.Struct("!i").pack
_ARRAY_HEADER: Final = struct.Struct("!iiIii").pack
_PACKERS: Final = {oid: struct.Struct(f"!{code}").pack for oid, (code, _) in _FIXED.items()}
_NULL: Final = _LENGTH(-1)
_COMMAND_OK: Final = 1


class LaneOwner(Protocol):
    """The writer that owns lanes."""

    # `failures` are the exceptions of the database driver.

    failures: tuple[type[Exception], ...]

    def remove_lane(self, lane: Lane, /, *, permanently: bool) -> None:
        """Note that a lane has ended."""
        ...


class Lane:
    """A connection of one event loop."""

    # Only `end` is safe from other threads.

    def __init__(self, batch: WriteBatch, session: Session, writer: LaneOwner) -> None:
        self.batch, self.session, self._writer, self._failures = batch, session, writer, writer.failures
        self.items: list[Item] = []  # the batch in progress
        self._confirmed_count = 0  # number of entries that the server has written
        self._pg: Any = session.raw
        self._pg.prepare(b"one", to_postgres_dialect(INSERT_ONE).encode(), _OIDS)
        self._insert_many, self._chunks = (
            to_postgres_dialect(INSERT).encode(),
            to_postgres_dialect(INSERT_CHUNKS).encode(),
        )
        self._pg.nonblocking = 1
        self._socket = self._pg.socket
        self._open, self._reads, self._writes = True, False, False
        self._lock = threading.Lock()  # `end` may be called from another thread

    def send(self, items: list[Item]) -> bool:
        """Send a batch of entries; return False if the lane cannot."""

        # The lane confirms the items to its `batch`, or hands them back to it for the thread of the writer.
        with self._lock:
            if not self._open:
                return False
            try:
                if not self._reads:
                    self.batch.loop.add_reader(self._socket, self._on_readable)
                    self._reads = True
                self._send_query([row for _, _, row in items])
                self._flush()
            except self._failures:
                self._close_broken()
                return False
            except NotImplementedError:  # an event loop without support for sockets
                self._close_broken(permanently=True)
                return False
            self.items, self._confirmed_count = items, 0
            return True

    def end(self) -> list[Item]:
        """End the lane and return the batch in progress."""

        # Safe from any thread.
        with self._lock:
            items, self.items = self.items, []
            if self._open:
                self._open = False
                if asyncio._get_running_loop() is self.batch.loop:
                    self._disconnect()
                    return items
                try:
                    self.batch.loop.call_soon_threadsafe(self._disconnect)
                except RuntimeError:  # the loop is closed, so nothing reads the socket
                    self.session.close()
            return items

    # --- on the loop ----------------------------------------------------------------------

    def _send_query(self, rows: list[Row]) -> None:
        if len(rows[0]) > ENTRY_COLUMNS:
            columns = zip(_CHUNK_OIDS, zip(*rows, strict=True), strict=True)
            self._pg.send_query_params(
                self._chunks,
                [_encode_array(oid, column) for oid, column in columns],
                _CHUNK_ARRAYS,
                [1] * len(_CHUNK_OIDS),
            )
        elif len(rows) == 1:
            values: list[Any] = [_encode_value(oid, value) for oid, value in zip(_OIDS, rows[0], strict=True)]
            self._pg.send_query_prepared(b"one", values, _BINARY)
        else:
            values = [_encode_array(oid, column) for oid, column in zip(_OIDS, zip(*rows, strict=True), strict=True)]
            self._pg.send_query_params(self._insert_many, values, _ARRAY_OIDS, _BINARY)

    def _flush(self) -> None:
        has_more = bool(self._pg.flush())
        if has_more != self._writes:
            self._writes = has_more
            if has_more:
                self.batch.loop.add_writer(self._socket, self._on_writable)
            else:
                self.batch.loop.remove_writer(self._socket)

    def _on_writable(self) -> None:
        with self._lock:
            if not self._open:
                return
            try:
                self._flush()
            except self._failures:
                self._close_broken()
        self._hand_over()

    def _on_readable(self) -> None:
        with self._lock:
            if not self._open:
                return
            try:
                is_confirmed = self._all_confirmed()
            except self._failures:
                self._close_broken()
                is_confirmed = False
            if is_confirmed:
                items, self.items = self.items, []
        if is_confirmed:
            self.batch.confirm(items)
        else:
            self._hand_over()

    def _all_confirmed(self) -> bool:
        """Return True if all entries have been written."""

        # End the lane after any other answer.
        pg = self._pg
        pg.consume_input()
        while self.items and not pg.is_busy():
            result = pg.get_result()
            if result is not None:
                self._confirmed_count = result.command_tuples if result.status == _COMMAND_OK else 0
            elif self._confirmed_count == len(self.items):
                return True
            else:
                self._close_broken()
                break
        return False

    def _hand_over(self) -> None:
        """Pass the batch of an ended lane to the thread of the writer."""
        if not self._open and self.items:
            items, self.items = self.items, []
            self.batch.hand_over(items)

    def _close_broken(self, *, permanently: bool = False) -> None:
        self._open = False
        self._disconnect()
        self._writer.remove_lane(self, permanently=permanently)

    def _disconnect(self) -> None:
        with contextlib.suppress(NotImplementedError):
            self.batch.loop.remove_reader(self._socket)
            self.batch.loop.remove_writer(self._socket)
        self.session.close()


def _encode_value(oid: int, value: Any) -> bytes | None:
    """A value as Postgres sends it."""
    if value is None or oid == _BYTEA:
        return value  # type: ignore[no-any-return]
    return value.encode() if oid == _TEXT else _PACKERS[oid](value)


def _encode_array(oid: int, column: tuple[Any, ...]) -> bytes:
    """An array as Postgres sends it: each element after its length."""
    count, nulls = len(column), 0
    if oid in _FIXED:
        code, size = _FIXED[oid]
        body = struct.pack("!" + f"i{code}" * count, *chain.from_iterable(zip(repeat(size, count), column)))  # noqa: B905
    else:
        parts: list[bytes] = []
        for value in column:
            if value is None:
                nulls = 1
                parts.append(_NULL)
                continue
            raw = value.encode() if oid == _TEXT else value
            parts += (_LENGTH(len(raw)), raw)
        body = b"".join(parts)
    return _ARRAY_HEADER(1, nulls, oid, count, 1) + body
