"""Entries straight from an event loop to Postgres and back, with no thread in between: a change of
threads costs as much as the server's whole work on one entry.

A lane is one connection that belongs to one event loop; one batch at a time is under way on it, as
one statement, and what comes meanwhile waits for the next. It knows only success. Whatever else
happens (a refused entry, an error, a lost connection), the batch goes to the writer's thread, which
sends it again, finds out and is patient: sent twice is the same as sent once.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final, Protocol

from .postgres_session import words
from .sql_rows import OWN, UPSERT, Row

if TYPE_CHECKING:
    from .inbox import Inbox, Item
    from .postgres_session import Session

# FOR SHARE waits for whoever is just taking a run over, and then sees the new epoch.
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
# Facts of chunks: they are the run's, and fenced by the lease of the chunk.
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
_HEAD: Final = struct.Struct("!iiIii").pack
_ONE: Final = {oid: struct.Struct(f"!{code}").pack for oid, (code, _) in _FIXED.items()}
_NULL: Final = _LENGTH(-1)
_COMMAND_OK: Final = 1


class Laned(Protocol):
    """Who has lanes: what their driver raises, and how to say that one has ended."""

    failures: tuple[type[Exception], ...]

    def without(self, lane: Lane, /, *, never: bool) -> None: ...


class Lane:
    """Used on the inbox's loop only, but for `end`."""

    def __init__(self, inbox: Inbox, session: Session, writer: Laned) -> None:
        self.inbox, self.session, self._writer, self._failures = inbox, session, writer, writer.failures
        self.items: list[Item] = []  # under way
        self._written = 0  # of them, says the server
        self._pg: Any = session.raw
        self._pg.prepare(b"one", words(INSERT_ONE).encode(), _OIDS)
        self._many, self._chunks = words(INSERT).encode(), words(INSERT_CHUNKS).encode()
        self._pg.nonblocking = 1
        self._socket = self._pg.socket
        self._open, self._reads, self._writes = True, False, False
        self._turn = threading.Lock()  # The end may come from another thread.

    def send(self, items: list[Item]) -> bool:
        """Send a batch off, all of it entries; whether that was done. The inbox is told how it went."""
        with self._turn:
            if not self._open:
                return False
            try:
                if not self._reads:
                    self.inbox.loop.add_reader(self._socket, self._readable)
                    self._reads = True
                self._say([row for _, _, row in items])
                self._push()
            except self._failures:
                self._drop()
                return False
            except NotImplementedError:  # A loop that looks at no sockets of others.
                self._drop(never=True)
                return False
            self.items, self._written = items, 0
            return True

    def end(self) -> list[Item]:
        """From any thread: no more of it; gives what was under way."""
        with self._turn:
            items, self.items = self.items, []
            if self._open:
                self._open = False
                if asyncio._get_running_loop() is self.inbox.loop:
                    self._hang_up()
                    return items
                try:
                    self.inbox.loop.call_soon_threadsafe(self._hang_up)
                except RuntimeError:  # The loop is closed: nobody looks at the socket any more.
                    self.session.close()
            return items

    # --- on the loop ----------------------------------------------------------------------

    def _say(self, rows: list[Row]) -> None:
        if len(rows[0]) > OWN:
            columns = zip(_CHUNK_OIDS, zip(*rows, strict=True), strict=True)
            self._pg.send_query_params(
                self._chunks, [_array(oid, column) for oid, column in columns], _CHUNK_ARRAYS, [1] * len(_CHUNK_OIDS)
            )
        elif len(rows) == 1:
            values: list[Any] = [_single(oid, value) for oid, value in zip(_OIDS, rows[0], strict=True)]
            self._pg.send_query_prepared(b"one", values, _BINARY)
        else:
            values = [_array(oid, column) for oid, column in zip(_OIDS, zip(*rows, strict=True), strict=True)]
            self._pg.send_query_params(self._many, values, _ARRAY_OIDS, _BINARY)

    def _push(self) -> None:
        left = bool(self._pg.flush())
        if left != self._writes:
            self._writes = left
            if left:
                self.inbox.loop.add_writer(self._socket, self._writable)
            else:
                self.inbox.loop.remove_writer(self._socket)

    def _writable(self) -> None:
        with self._turn:
            if not self._open:
                return
            try:
                self._push()
            except self._failures:
                self._drop()
        self._hand_over()

    def _readable(self) -> None:
        with self._turn:
            if not self._open:
                return
            try:
                done = self._answered()
            except self._failures:
                self._drop()
                done = False
            if done:
                items, self.items = self.items, []
        if done:
            self.inbox.sent(items)
        else:
            self._hand_over()

    def _answered(self) -> bool:
        """Whether all entries have been written. Ends the lane when the answer is another one."""
        pg = self._pg
        pg.consume_input()
        while self.items and not pg.is_busy():
            result = pg.get_result()
            if result is not None:
                self._written = result.command_tuples if result.status == _COMMAND_OK else 0
            elif self._written == len(self.items):
                return True
            else:
                self._drop()
                break
        return False

    def _hand_over(self) -> None:
        """What a lane that has ended leaves behind goes to the writer's thread."""
        if not self._open and self.items:
            items, self.items = self.items, []
            self.inbox.not_sent(items)

    def _drop(self, *, never: bool = False) -> None:
        self._open = False
        self._hang_up()
        self._writer.without(self, never=never)

    def _hang_up(self) -> None:
        with contextlib.suppress(NotImplementedError):
            self.inbox.loop.remove_reader(self._socket)
            self.inbox.loop.remove_writer(self._socket)
        self.session.close()


def _single(oid: int, value: Any) -> bytes | None:
    """A value as Postgres sends it."""
    if value is None or oid == _BYTEA:
        return value  # type: ignore[no-any-return]
    return value.encode() if oid == _TEXT else _ONE[oid](value)


def _array(oid: int, column: tuple[Any, ...]) -> bytes:
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
    return _HEAD(1, nulls, oid, count, 1) + body
