"""The journal of one run in a store on SQL."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Collection, Iterable, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from ..content import MARK, hashes_in
from ..errors import Fenced, StoreError
from ..values import Json
from .blobs import INLINE, Packed, dump, pack
from .boottime import boottime
from .claim import moments
from .connection import Connection, fetch
from .journal import ENDS, Entry, Key, Live, RunRow, Wanted
from .news import News
from .sql_rows import Row, contents_in, forget_chunks, keep, keep_contents
from .sql_signals import park, take
from .watch import BEAT, RELEASE

if TYPE_CHECKING:
    from .sql_store import SqlStore
    from .writer import Writer

_LEASE: Final = f"{BEAT} RETURNING 1"
_FINISH: Final = """
    UPDATE run SET status = CASE status WHEN 'running' THEN ? ELSE status END, ended_at = coalesce(ended_at, ?),
        result = ?, error = ?, result_count = ?, error_count = ?
    WHERE seq = ? RETURNING status
"""


class SqlLog:
    """See `Log`. Appends are gathered per turn of the loop and committed together."""

    def __init__(
        self,
        store: SqlStore,
        writer: Writer,
        seq: int,
        run: RunRow,
        past: MutableMapping[Key, Entry],
        finished: RunRow | None = None,
    ) -> None:
        self.run, self.finished = run, finished
        self.past: MutableMapping[Key, Entry] = past
        self.seq, self.epoch = seq, run.epoch
        self.into = seq
        self.fence: tuple[int, ...] = ()  # the run under whose lease another one's facts are written
        self.node, self.spent = run.current_node, run.spent
        self.touched, self.beaten = False, 0.0
        self._live: Live | None = None
        self.sure = 0.0  # When, by `boottime`, it was last asked for what says that the run is ours.
        self._store = store  # Dropping the last reference to it closes the writer.
        self._writer = writer
        self._inbox = writer.inbox()
        self.failure: StoreError | None = None  # Set by the writer: nothing is written past it.
        self._unsent: list[Row] = []
        self._over = "" if finished is None else "the run has ended"
        self._lost = self._told = self._dropped = False
        self._on_stop: Callable[[], None] | None = None
        self.on_signal: Callable[[], None] | None = None
        self.heard = 0  # The last signal that the watch has told of.

    @property
    def resumed(self) -> bool:
        return self.epoch > 1

    @property
    def abandoned(self) -> bool:
        """Whether its event loop was closed under it, or its release did not come through."""
        return self._dropped or self._inbox.loop.is_closed()

    def write_into(self, seq: int, past: dict[Key, Entry]) -> None:
        """What is appended from now on are facts of another run, while this one is ours; `past` are those it has."""
        self.into, self.fence, self.past = seq, (self.seq,), past

    @property
    def on_stop(self) -> Callable[[], None] | None:
        return self._on_stop

    @on_stop.setter
    def on_stop(self, callback: Callable[[], None] | None) -> None:
        self._on_stop = callback
        if self._told:
            self._tell()

    def append(self, entry: Entry) -> asyncio.Future[None]:
        inbox = self._inbox
        future: asyncio.Future[None] = inbox.loop.create_future()
        if self._over or self._lost or self._writer.refusal:
            future.set_exception(self._why_over())
            future.exception()  # Looked at: not awaiting it is allowed.
            return future
        data = entry.data
        raw = None
        if data is not None:
            try:
                raw = orjson.dumps(data)  # What is small and right needs no words for what is wrong.
            except orjson.JSONEncodeError:
                raw = None
            if raw is None or len(raw) > INLINE:
                raw = dump(data, f"{entry.path} ({entry.kind})")
        if self._unsent:
            self._send_again()
        if raw is not None and len(raw) > INLINE:
            inbox.big = True
        if raw is not None and MARK in raw:
            self._keep_contents(raw)
        row: Row = (
            self.into, entry.path, entry.kind, entry.node, raw, entry.digest, entry.started, entry.ended, self.epoch,
        )  # fmt: skip
        inbox.add((future, self, row + self.fence if self.fence else row))
        return future

    async def forget(self, keys: Iterable[Key]) -> None:
        gone = list(keys)
        rows = [(self.seq, *key) for key in gone]

        def work(connection: Connection) -> None:
            self._write_lease(connection)
            connection.executemany("DELETE FROM entry WHERE run = ? AND path = ? AND kind = ?", rows)
            forget_chunks(connection, self.run.id)

        await self._do(work)
        for key in gone:
            self.past.pop(key, None)

    async def take(self, waits: Sequence[Wanted]) -> list[Entry]:
        moment = moments.next()

        def work(connection: Connection) -> list[Entry]:
            self._write_lease(connection)
            return take(connection, self.seq, waits, moment)

        found: list[Entry] = await self._do(work)
        return found

    async def park(self, due: float | None, names: Collection[str] = ()) -> bool:
        def work(connection: Connection) -> bool:
            self._write_lease(connection)
            parked = park(connection, self.seq, due, names)
            if parked:
                connection.execute("UPDATE lease SET owner = NULL WHERE run = ?", (self.seq,))
            return parked

        parked = bool(await self._do(work))
        if parked:
            self._leave("the run was parked")
        return parked

    async def pin(self, document: Json, fingerprint: str) -> None:
        packed = await packed_value(document, "document")

        def work(connection: Connection) -> None:
            self._write_lease(connection)
            connection.execute(
                "UPDATE run SET document = ?, fingerprint = ? WHERE seq = ?",
                (keep(connection, packed, self.seq), fingerprint, self.seq),
            )

        await self._do(work)
        self.run = dataclasses.replace(self.run, document=document, fingerprint=fingerprint)

    async def finish(self, status: str, result: Json, error: Json = None, *, results: int = 0, errors: int = 0) -> str:
        if status not in ENDS:
            raise ValueError(f"{status!r} does not end a run; one of {', '.join(ENDS)} does")
        packed = [await packed_value(result, "result"), await packed_value(error, "error")]
        ended = time.time()

        self._writer.see_place()  # A run ends as completed only where somebody will find it.

        def work(connection: Connection) -> str:
            self._write_lease(connection)
            values = [keep(connection, value, self.seq) for value in packed]
            stands = fetch(connection, _FINISH, (status, ended, *values, results, errors, self.seq))
            return str(stands[0][0])

        try:
            stands = str(await self._do(work))
        except asyncio.CancelledError:
            self._dropped = True  # it ends all the same, or is anybody's
            raise
        self._leave("the run has ended")
        self._writer.tell_soon(News("end", self.seq, self.run.id))
        return stands

    async def renew(self) -> None:
        """Beat now. Raises Fenced when the run is somebody else's."""
        before = boottime()
        await self._do(self._write_lease)
        self.sure = before

    async def release(self) -> None:
        if self._over or self._lost or self._writer.refusal or self._inbox.loop.is_closed():
            return  # the watch releases a log whose loop is closed

        try:
            await self._do(lambda connection: connection.execute(RELEASE, self.told()))
        except BaseException:
            self._dropped = True  # cancelled, or the store is away: the watch repeats it until it has come through
            raise
        self._leave("the log was released")

    def touch(self, current_node: str, spent: float) -> None:
        self.node, self.spent, self.touched = current_node, spent, True

    def attach(self, live: Live) -> None:
        self._live = live

    def elapsed(self) -> float:
        return self.spent if self._live is None else self._live.elapsed()

    # --- for the writer -------------------------------------------------------------------

    def told(self) -> tuple[float | str, ...]:
        """What BEAT and RELEASE take: by now, where the run is and what it has spent."""
        return time.time(), self.node, self.elapsed(), self.seq, self.epoch

    def stop_soon(self) -> None:
        """From any thread: have `on_stop` called on the loop, once."""
        if not self._told:
            self._told = True
            self._inbox.later(self._tell)

    def signal_soon(self) -> None:
        """From any thread: have `on_signal` called on the loop."""
        self._inbox.later(lambda: self.on_signal() if self.on_signal is not None else None)

    def not_written(self, row: Row, *, lost: bool) -> None:
        """On the loop: an entry could not be written, for good when the run is lost."""
        if lost:
            self._lost = True
            self._writer.watch.remove(self)
            self.stop_soon()
        else:
            self._unsent.append(row)

    # --- inside ---------------------------------------------------------------------------

    async def _do(self, work: Callable[[Connection], Any]) -> Any:
        if self._over or self._lost or self._writer.refusal:
            raise self._why_over()
        if self._unsent:
            self._send_again()
        try:
            return await self._inbox.do(work, self)
        except Fenced:
            self._lost = True
            self._writer.watch.remove(self)
            raise

    def _send_again(self) -> None:
        """What could not be written goes first, in the same commit as what comes now."""
        rows, self._unsent, self.failure = self._unsent, [], None
        for row in rows:
            if row[4] is not None and len(row[4]) > INLINE:
                self._inbox.big = True
            if row[4] is not None and MARK in row[4]:
                self._keep_contents(row[4])
            self._inbox.add((None, self, row))

    def _keep_contents(self, raw: bytes) -> None:
        """The content in an entry goes first, in the same commit."""
        found, into = contents_in(hashes_in(raw)), self.into
        self._inbox.add((None, self, lambda connection: keep_contents(connection, found, into)))

    def _write_lease(self, connection: Connection) -> None:
        """Also keeps anyone else from taking the run until the transaction has ended."""
        if not fetch(connection, _LEASE, self.told()):
            raise Fenced(self.run.id)

    def _why_over(self) -> StoreError:
        if self._lost:
            return Fenced(self.run.id)
        why = self._over or self._writer.refusal
        return StoreError(f"run {self.run.id}: {why}; nothing more can be recorded by this log")

    def _leave(self, why: str) -> None:
        self.spent, self._live, self._over = self.elapsed(), None, why
        self._writer.watch.remove(self)

    def _tell(self) -> None:
        if self._on_stop is not None:
            callback, self._on_stop = self._on_stop, None
            callback()


async def packed_value(value: Json, place: str, inline: int = INLINE) -> Packed:
    """A value ready for its row; the slow part of a big one is done off the loop."""
    raw = dump(value, place)
    if raw is None or len(raw) <= inline:
        return raw
    if len(raw) <= INLINE:
        return pack(raw, inline)
    return await asyncio.to_thread(pack, raw)
