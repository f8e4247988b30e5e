"""The journal of one run in a SQL store: claiming the run, writing its entries, and reading a long past in pages.

A run is claimed in one transaction, so that of several processes that try exactly one succeeds. `SqlLog` implements
`Log`: appends are gathered per turn of the event loop and written by the writer (`writer.py`) in one commit. A fork
copies entries from row to row, and large values by their hash alone. Whatever writes for a run must renew its lease in
the same transaction, as `SqlLog._write_lease` does.

Refused: a run that a living process owns (RunBusy), and writes of an owner that was replaced (Fenced).
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
import threading
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, MutableMapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final

import orjson

from ...content import MARK, hashes_in
from ...errors import Fenced, NotFound, RunBusy, RunUndone, StoreError
from ...fast_dataclass import dataclass
from ...values import Json
from ..news import News
from ..past import LONG, PAGE, PagedPast
from ..protocol import BEGUN, BEGUN_PATH, ENDS, Entry, Key, Live, NewRun, OpenWait, RunRow, ending
from .blobs import INLINE, Blob, Packed, dump, encode, pack
from .endings import INLINE_RESULT, SHARED, PackedResult, RecordedValues, held_by, pack_result
from .lease_watch import BEAT, RELEASE
from .leases import Owner, boottime, owner_state, this_process
from .rows import (
    AMONG,
    SPENT,
    Connection,
    Row,
    by_key,
    contents_in,
    entries,
    entries_of,
    fetch,
    forget_chunks,
    json_list,
    keep,
    keep_contents,
    load,
)
from .signals import deliver_signals, set_waiting
from .undo import begin_undo, undone_calls
from .writer import Writer

_COPY: Final = """
    INSERT INTO entry (run, path, kind, node, data, digest, started, ended)
    SELECT ?, ?, ?, node, data, digest, started, ended FROM entry WHERE run = ? AND path = ? AND kind = ?
    ON CONFLICT DO NOTHING
"""
_COPY_BLOB_REFERENCES: Final = (
    "INSERT INTO held (blob, run) SELECT blob, ? FROM held WHERE run = ? ON CONFLICT DO NOTHING"
)


def fork_entries(connection: Connection, run: NewRun, seq: int) -> None:
    """Copy the entries of a fork into the run with row number `seq`; none if its source is gone."""
    sources = fetch(connection, "SELECT seq FROM run WHERE id = ?", (run.forked_from,))
    if sources and run.copies:
        source = sources[0][0]
        rows = [(seq, *new_key, source, *old_key) for old_key, new_key in run.copies.items()]
        connection.executemany(_COPY, rows)
        connection.execute(_COPY_BLOB_REFERENCES, (seq, source))


_CREATE: Final = """
    INSERT INTO run (id, kind, definition_id, name, status, fingerprint, started_at, parent, forked_from, undo_policy,
        input, context, document)
    VALUES (?, ?, ?, ?, 'running', ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING seq
"""

# The last column: whether a process died on the run. A release forgets the deaths, but not the calls that began.
_CLAIMED: Final = f"""
    SELECT seq, status, owner, epoch, beat, undo,
        EXISTS (SELECT 1 FROM mishap WHERE mishap.run = seq AND deaths > 0)
        OR EXISTS (SELECT 1 FROM entry WHERE entry.run = seq AND path = '{BEGUN_PATH}' AND entry.kind = '{BEGUN}')
    FROM run JOIN lease ON lease.run = seq WHERE id = ?
"""
_OUTCOME: Final = """
    SELECT status, ended_at, error, result_count, error_count, spent FROM run JOIN lease ON run = seq WHERE seq = ?
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A run that this process owns now; or one that has ended, which nobody owns."""

    seq: int
    # The epoch of the lease, which each claim increases by 1.
    epoch: int
    # Whether this claim created the run.
    is_new: bool = False
    # Whether the run had ended before.
    has_ended: bool = False
    # Whether a process has died while it executed the run.
    after_death: bool = False


@dataclass(frozen=True, slots=True)
class UncertainOwner:
    """An owner on another host that may be alive: it is as long as its heartbeat changes."""

    # The process, for messages.
    owner: str
    # The epoch of its lease.
    epoch: int
    # Its last heartbeat, in seconds since the epoch by its own clock.
    beat: float
    # Whether that heartbeat is within the lease by the wall clock of this host.
    is_recent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedValues:
    """The values of a new run that may be large: each as the bytes of its JSON, or as a blob."""

    input: Packed
    context: Packed
    document: Packed


class Timestamps:
    """Wall-clock times of which no two in this process are equal."""

    # A claim is recognized by the heartbeat that it writes when it is sent again because its answer was lost.

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0.0

    def next(self) -> float:
        with self._lock:
            now = time.time()
            # Follow a clock that was set back; else take the next number, as several claims may see the same time.
            is_taken = self._last - 1 <= now <= self._last
            self._last = math.nextafter(self._last, math.inf) if is_taken else now
            return self._last


timestamps: Final = Timestamps()


def create_run(
    connection: Connection, run: NewRun, large: PackedValues, beat_at: float, lease: float, started_at: float
) -> Claim | None:
    """Create a run and own it; return None if its id is taken."""

    # `connection`: A transaction.
    if run.undoes is not None:
        begin_undo(connection, run, lease)
    values: tuple[Any, ...] = (run.id, run.kind, run.definition_id, run.name, run.fingerprint, started_at)
    values += (run.parent, run.forked_from, run.undo_policy)
    packed = (large.input, large.context, large.document)
    references = [value.ref if isinstance(value, Blob) else value for value in packed]
    rows = fetch(connection, _CREATE, (*values, *references))
    if not rows:
        return None
    seq = int(rows[0][0])
    # Blobs name the run that holds them, so they come after it.
    for value in packed:
        keep(connection, value, seq)
    connection.execute(
        "INSERT INTO lease (run, owner, epoch, beat) VALUES (?, ?, 1, ?)", (seq, this_process().dump(), beat_at)
    )
    if run.definition_id is not None:
        connection.execute(
            "UPDATE definition SET run_count = run_count + 1 WHERE kind = ? AND id = ?", (run.kind, run.definition_id)
        )
    if run.copies:
        fork_entries(connection, run, seq)
    return Claim(seq=seq, epoch=1, is_new=True)


def claim_run(
    connection: Connection, id: str, lease: float, restart: bool, silent_owner: UncertainOwner | None, beat_at: float
) -> Claim | UncertainOwner:
    """Own an existing run."""

    # `connection`: A transaction.
    rows = fetch(connection, _CLAIMED, (id,))
    if not rows:
        raise NotFound("run", id)
    seq, status, owner_text, epoch, beat, undo, has_died = rows[0]
    if owner_text == this_process().dump() and beat == beat_at:
        return Claim(seq=seq, epoch=epoch, is_new=epoch == 1)  # This very claim, sent again.
    if status in ENDS:
        if not restart:
            return Claim(seq=seq, epoch=epoch, has_ended=True)
        if undo or (undo := next(iter(undone_calls(connection, seq).values()), None)):
            raise RunUndone(id, undo)
    elif status == "running":
        owner = Owner.load(owner_text, f"run {id}") if owner_text else None
        verdict = owner_state(owner)
        if verdict == "live":
            raise RunBusy(id, str(owner))
        if verdict == "unknown":
            uncertain = UncertainOwner(str(owner), epoch, beat, 0 <= time.time() - beat <= lease)
            if silent_owner is None or (silent_owner.epoch, silent_owner.beat) != (epoch, beat):
                return uncertain
    # An interrupted owner did not write what it spent last.
    spent = SPENT if status == "running" else "spent"
    claimed = fetch(
        connection,
        f"UPDATE lease SET owner = ?, epoch = epoch + 1, beat = ?, spent = {spent}"
        " WHERE run = ? AND epoch = ? RETURNING 1",
        (this_process().dump(), beat_at, seq, epoch),
    )
    if not claimed:  # Somebody else took it a moment ago.
        return claim_run(connection, id, lease, restart, silent_owner, beat_at)
    if status in ENDS:
        _set_running(connection, seq, epoch)
    elif status != "running":
        connection.execute("UPDATE run SET status = 'running', due = NULL WHERE seq = ?", (seq,))
    # An owner that has released the run has not died.
    after_death = bool(has_died) or (status == "running" and owner_text is not None)
    return Claim(seq=seq, epoch=epoch + 1, after_death=after_death)


def _set_running(connection: Connection, seq: int, epoch: int) -> None:
    """Set an ended run running again with all its time; an `ending` entry keeps how it had ended."""
    [(status, at, error, results, errors, seconds)] = fetch(connection, _OUTCOME, (seq,))
    entry = ending(epoch, status, at, load(connection, error, "how a run had ended"), results, errors, seconds)
    connection.execute(
        "INSERT INTO entry (run, path, kind, node, data, digest, started, ended) VALUES (?, ?, ?, '', ?, '', ?, ?)"
        " ON CONFLICT DO NOTHING",
        (seq, entry.path, entry.kind, dump(entry.data, "ending"), entry.started, entry.ended),
    )
    connection.execute(
        "UPDATE run SET status = 'running', ended_at = NULL, stop_requested = 0, result = NULL, error = NULL,"
        " result_count = 0, error_count = 0, undo = NULL WHERE seq = ?",
        (seq,),
    )
    connection.execute("UPDATE lease SET spent = 0 WHERE run = ?", (seq,))


_RENEW_LEASE: Final = f"{BEAT} RETURNING 1"
_FINISH: Final = """
    UPDATE run SET status = CASE status WHEN 'running' THEN ? ELSE status END, ended_at = coalesce(ended_at, ?),
        result = ?, error = ?, result_count = ?, error_count = ?
    WHERE seq = ? RETURNING status
"""


class SqlLog:
    """The log of a run in a SQL store; implements `Log` and `OpenRun`."""

    def __init__(
        self,
        store: object,
        writer: Writer,
        seq: int,
        run: RunRow,
        past: MutableMapping[Key, Entry],
        finished: RunRow | None = None,
        *,
        after_death: bool = False,
    ) -> None:
        self.run, self.finished, self.after_death = run, finished, after_death
        self.past: MutableMapping[Key, Entry] = past
        self.seq, self.epoch = seq, run.epoch
        self.target_seq = seq  # the run that entries are written to: another one for a chunk
        self.fence: tuple[int, ...] = ()  # the run under whose lease entries of another run are written
        self.node, self.spent = run.current_node, run.spent
        self.touched, self.beaten_at = False, 0.0
        self._live: Live | None = None
        self.renewed_at = 0.0  # When, by `boottime`, the last confirmed lease renewal was sent.
        self._store = store  # Dropping the last reference to it closes the writer.
        self._writer = writer
        self._batch = writer.batch_of_loop()
        self.failure: StoreError | None = None  # Set by the writer: nothing is written past it.
        self._unwritten: list[Row] = []
        self._recorded = RecordedValues()
        self._last_commit: asyncio.Future[None] | None = None
        self._closed_because = "" if finished is None else "the run has ended"
        self._owned_elsewhere = self._stop_seen = self._dropped = False
        self._on_stop: Callable[[], None] | None = None
        self.on_signal: Callable[[], None] | None = None
        self.last_signal = 0  # Number of the last signal that the run was notified of.

    @property
    def resumed(self) -> bool:
        return self.epoch > 1

    @property
    def abandoned(self) -> bool:
        """Whether nobody can release the run any more: its event loop is closed, or its release failed."""
        return self._dropped or self._batch.loop.is_closed()

    def write_into(self, seq: int, past: dict[Key, Entry]) -> None:
        """Append from now on to another run, under the lease of this one."""
        self.target_seq, self.fence, self.past = seq, (self.seq,), past

    @property
    def on_stop(self) -> Callable[[], None] | None:
        return self._on_stop

    @on_stop.setter
    def on_stop(self, callback: Callable[[], None] | None) -> None:
        self._on_stop = callback
        if self._stop_seen:
            self._call_on_stop()

    def append(self, entry: Entry) -> asyncio.Future[None]:
        batch = self._batch
        future: asyncio.Future[None] = batch.loop.create_future()
        if self._closed_because or self._owned_elsewhere or self._writer.refusal:
            future.set_exception(self._closed_error())
            future.exception()  # Retrieved, because not awaiting it is allowed.
            return future
        data = entry.data
        raw = None
        if data is not None:
            try:
                raw = orjson.dumps(data)  # `dump` below costs more, and explains what is wrong
            except orjson.JSONEncodeError:
                raw = None
            if raw is None or len(raw) > INLINE:
                raw = dump(data, f"{entry.path} ({entry.kind})")
        if self._unwritten:
            self._send_again()
        if raw is not None and len(raw) > INLINE:
            batch.big = True
        if raw is not None and MARK in raw:
            self._keep_contents(raw)
        if raw is not None and len(raw) >= SHARED and not self.fence:
            self._recorded.note(entry, raw)
        row: Row = (
            self.target_seq, entry.path, entry.kind, entry.node, raw,
            entry.digest, entry.started, entry.ended, self.epoch,
        )  # fmt: skip
        batch.add((future, self, row + self.fence if self.fence else row))
        return future

    def write_early(self, *, is_urgent: bool = False) -> None:
        """Write what was appended now, if nothing else of this event loop would be written with it."""
        if is_urgent or self.run.parent is None:  # the parts of a run may run at once
            self._batch.write_early()

    def finish_after(self, committed: asyncio.Future[None]) -> None:
        """Have `finish` commit an entry together with the ending, because nobody else awaits it."""
        self._last_commit = committed

    async def forget(self, keys: Iterable[Key]) -> None:
        removed = list(keys)
        rows = [(self.seq, *key) for key in removed]

        def work(connection: Connection) -> None:
            self._write_lease(connection)
            connection.executemany("DELETE FROM entry WHERE run = ? AND path = ? AND kind = ?", rows)
            forget_chunks(connection, self.run.id)

        await self._run_in_transaction(work)
        for key in removed:
            self.past.pop(key, None)
            self._recorded.forget(key)

    async def take(self, waits: Sequence[OpenWait]) -> list[Entry]:
        taken_at = timestamps.next()

        def work(connection: Connection) -> list[Entry]:
            self._write_lease(connection)
            return deliver_signals(connection, self.seq, waits, taken_at)

        entries: list[Entry] = await self._run_in_transaction(work)
        return entries

    async def park(self, due: float | None, names: Collection[str] = ()) -> bool:
        def work(connection: Connection) -> bool:
            self._write_lease(connection)
            parked = set_waiting(connection, self.seq, due, names)
            if parked:
                connection.execute("UPDATE lease SET owner = NULL WHERE run = ?", (self.seq,))
            return parked

        parked = bool(await self._run_in_transaction(work))
        if parked:
            self._close("the run was parked")
        return parked

    async def pin(self, document: Json, fingerprint: str) -> None:
        packed = await packed_value(document, "document")

        def work(connection: Connection) -> None:
            self._write_lease(connection)
            connection.execute(
                "UPDATE run SET document = ?, fingerprint = ? WHERE seq = ?",
                (keep(connection, packed, self.seq), fingerprint, self.seq),
            )

        await self._run_in_transaction(work)
        self.run = dataclasses.replace(self.run, document=document, fingerprint=fingerprint)

    async def finish(self, status: str, result: Json, error: Json = None, *, results: int = 0, errors: int = 0) -> str:
        if status not in ENDS:
            raise ValueError(f"{status!r} is not the status of an ended run; use one of {', '.join(ENDS)}")
        packed, failure = await self._packed_result(result), await packed_value(error, "error")
        ended_at = time.time()
        last = await self._take_last_entries()
        self._writer.check_location()  # A run ends as completed only where somebody will find it.

        def work(connection: Connection) -> str:
            self._write_lease(connection)
            for refusal in self._writer.insert(last) or ():
                if refusal is not None:
                    raise refusal
            values = (packed.keep(connection, self.seq), keep(connection, failure, self.seq))
            rows = fetch(connection, _FINISH, (status, ended_at, *values, results, errors, self.seq))
            return str(rows[0][0])

        try:
            recorded = str(await self._run_in_transaction(work))
        except asyncio.CancelledError:
            self._dropped = True  # the transaction ends the run all the same, or the watcher releases it
            raise
        except StoreError:
            self._unwritten += last
            raise
        self._close("the run has ended")
        self._writer.announce_soon(News("end", self.seq, self.run.id))
        return recorded

    async def renew(self) -> None:
        """Renew the lease now; raise Fenced if another process has taken the run over."""
        before = boottime()
        await self._run_in_transaction(self._write_lease)
        self.renewed_at = before

    async def release(self) -> None:
        if self._closed_because or self._owned_elsewhere or self._writer.refusal or self._batch.loop.is_closed():
            return  # the watcher releases a log whose loop is closed
        try:
            await self._run_in_transaction(lambda connection: connection.execute(RELEASE, self.lease_values()))
        except BaseException:
            self._dropped = True  # cancelled, or the store is away: the watcher repeats it until it succeeds
            raise
        self._close("the log was released")

    def touch(self, current_node: str, spent: float) -> None:
        self.node, self.spent, self.touched = current_node, spent, True

    def attach(self, live: Live) -> None:
        self._live = live

    def elapsed(self) -> float:
        return self.spent if self._live is None else self._live.elapsed()

    # --- for the writer -------------------------------------------------------------------

    def lease_values(self) -> tuple[float | str, ...]:
        """Return the values of the statements BEAT and RELEASE: the time, where the run is and what it has spent."""
        return time.time(), self.node, self.elapsed(), self.seq, self.epoch

    def stop_soon(self) -> None:
        """Have `on_stop` called once on the event loop."""

        # Safe from any thread.
        if not self._stop_seen:
            self._stop_seen = True
            self._batch.call_soon(self._call_on_stop)

    def signal_soon(self) -> None:
        """Have `on_signal` called on the event loop."""

        # Safe from any thread.
        self._batch.call_soon(lambda: self.on_signal() if self.on_signal is not None else None)

    def not_written(self, row: Row, error: Exception) -> None:
        """Keep an entry that could not be written, to send it again."""

        # Called on the loop.
        # When another process owns the run, the entry is dropped and the run stops.
        if isinstance(error, Fenced):
            self._owned_elsewhere = True
            self._writer.watch.remove(self)
            self.stop_soon()
        elif isinstance(error, StoreError):
            self._unwritten.append(row)
        else:
            self._recorded.forget(row[1:3])

    # --- inside ---------------------------------------------------------------------------

    async def _take_last_entries(self) -> list[Row]:
        """Return the entries to commit together with the ending; [] if they are committed already."""
        committed, self._last_commit = self._last_commit, None
        if committed is None:
            return []
        rows = self._batch.take_back(self, committed)
        if rows is None:
            await committed
        return rows or []

    async def _packed_result(self, result: Json) -> PackedResult:
        """Return the result with references to the values that the run has recorded."""
        if self._recorded.total <= INLINE:
            raw = None if result is None else encode(result, "result")
            if raw is None or len(raw) <= INLINE_RESULT:
                return PackedResult(raw)
            if len(raw) <= INLINE and not self.past:
                return pack_result(result, self._recorded, ())
        return await asyncio.to_thread(self._pack_large_result, result)

    def _pack_large_result(self, result: Json) -> PackedResult:
        if isinstance(self.past, dict) and not self.fence:
            self._recorded.note_entries(self.past.values())
        return pack_result(result, self._recorded, self._writer.read(lambda c: held_by(c, self.seq)))

    async def _run_in_transaction(self, work: Callable[[Connection], Any]) -> Any:
        if self._closed_because or self._owned_elsewhere or self._writer.refusal:
            raise self._closed_error()
        if self._unwritten:
            self._send_again()
        committed = self._batch.submit(work, self)
        self.write_early()
        try:
            return await committed
        except Fenced:
            self._owned_elsewhere = True
            self._writer.watch.remove(self)
            raise

    def _send_again(self) -> None:
        """Add what could not be written, so that it goes first, in the same commit as what comes now."""
        rows, self._unwritten, self.failure = self._unwritten, [], None
        for row in rows:
            if row[4] is not None and len(row[4]) > INLINE:
                self._batch.big = True
            if row[4] is not None and MARK in row[4]:
                self._keep_contents(row[4])
            self._batch.add((None, self, row))

    def _keep_contents(self, raw: bytes) -> None:
        """Add the content in an entry, so that it goes first, in the same commit."""
        items, target_seq = contents_in(hashes_in(raw)), self.target_seq
        self._batch.add((None, self, lambda connection: keep_contents(connection, items, target_seq)))

    def _write_lease(self, connection: Connection) -> None:
        """Renew the lease, which also locks it: nobody takes the run over until the transaction has ended."""
        if not fetch(connection, _RENEW_LEASE, self.lease_values()):
            raise Fenced(self.run.id)

    def _closed_error(self) -> StoreError:
        if self._owned_elsewhere:
            return Fenced(self.run.id)
        reason = self._closed_because or self._writer.refusal
        return StoreError(f"run {self.run.id}: {reason}; nothing more can be recorded by this log")

    def _close(self, reason: str) -> None:
        self.spent, self._live, self._closed_because = self.elapsed(), None, reason
        self._writer.watch.remove(self)

    def _call_on_stop(self) -> None:
        if self._on_stop is not None:
            callback, self._on_stop = self._on_stop, None
            callback()


async def packed_value(value: Json, place: str, inline: int = INLINE) -> Packed:
    """Return a value ready for its row."""

    # A large one is compressed in another thread.
    raw = dump(value, place)
    if raw is None or len(raw) <= inline:
        return raw
    if len(raw) <= INLINE:
        return pack(raw, inline)
    return await asyncio.to_thread(pack, raw)


KEYS_AT_ONCE: Final = 10_000
_COUNT: Final = "SELECT count(*) FROM (SELECT 1 FROM entry WHERE run = ? LIMIT ?) AS found"
_KEYS: Final = """
    SELECT path, kind, rowid FROM entry WHERE run = ? AND (path, kind) > (?, ?) ORDER BY path, kind LIMIT ?
"""
_LATEST: Final = "SELECT max(started) FROM entry WHERE run = ?"
_FIELDS: Final = "path, kind, node, data, digest, started, ended"
_FIND: Final = f"SELECT rowid, {_FIELDS} FROM entry WHERE run = ? AND path = ? AND kind = ?"
_FIND_AT_PATH: Final = f"SELECT rowid, {_FIELDS} FROM entry WHERE run = ? AND path = ?"
_PLACES: Final = "SELECT rowid FROM entry WHERE run = ? AND rowid > ? ORDER BY rowid LIMIT ?"
_ENTRIES_AT_PLACES: Final = f"SELECT {_FIELDS} FROM entry WHERE {{run}} = ? AND rowid {AMONG} ORDER BY rowid"


class SqlEntries:
    """The entries of one run in a SQL store; implements `EntrySource`."""

    def __init__(self, writer: Writer, seq: int, remote: bool) -> None:
        self._writer, self._seq, self.remote = writer, seq, remote

    def all_keys(self) -> Iterator[list[tuple[str, str, int]]]:
        path = kind = ""
        while True:
            after = (self._seq, path, kind, KEYS_AT_ONCE)
            keys: list[tuple[str, str, int]] = self._writer.read(partial(fetch, query=_KEYS, values=after))
            if keys:
                yield keys
                path, kind, _ = keys[-1]
            if len(keys) < KEYS_AT_ONCE:
                return

    def latest(self) -> float:
        return float(self._writer.read(lambda c: fetch(c, _LATEST, (self._seq,)))[0][0] or 0.0)

    def page(self, places: Iterable[int]) -> list[Entry]:
        return self._writer.read(lambda c: _entries_at(self._writer, c, self._seq, places))

    def find(self, key: Key) -> tuple[int, Entry] | None:
        def read(connection: Connection) -> list[tuple[int, Entry]]:
            rows = fetch(connection, _FIND, (self._seq, *key))
            entries = entries_of(connection, self._seq, [row[1:] for row in rows])
            return [(row[0], entry) for row, entry in zip(rows, entries, strict=True)]

        matches = self._writer.read(read)
        return matches[0] if matches else None


def read_past(writer: Writer, connection: Connection, seq: int, remote: bool) -> dict[Key, Entry] | PagedPast:
    """Return the entries of a run: all of them, or a mapping that reads pages if they are more than `LONG`."""
    [(count,)] = fetch(connection, _COUNT, (seq, LONG + 1))
    if count <= LONG:
        return by_key(entries(connection, seq))
    return PagedPast(SqlEntries(writer, seq, remote))


def entry_page(
    writer: Writer, connection: Connection, seq: int, after: int, limit: int
) -> tuple[list[Entry], int | None]:
    """Return the entries behind a place in order, and the place for the next page; None if these are the last."""
    # One place more than asked for shows whether another page follows.
    places = [place for (place,) in fetch(connection, _PLACES, (seq, after, limit + 1))]
    page = _entries_at(writer, connection, seq, places[:limit])
    return page, places[limit - 1] if len(places) > limit else None


def entries_at(connection: Connection, seq: int, paths: Sequence[str]) -> list[Entry]:
    """Return the entries at these paths, in the order of recording."""
    placed: list[tuple[int, Entry]] = []
    for path in dict.fromkeys(paths):
        rows = fetch(connection, _FIND_AT_PATH, (seq, path))
        items = entries_of(connection, seq, [row[1:] for row in rows])
        placed += zip([row[0] for row in rows], items, strict=True)
    placed.sort(key=itemgetter(0))
    return [entry for _, entry in placed]


def each_entry(writer: Writer, seq: int) -> Iterator[list[Entry]]:
    """Iterate over the entries of a run in the order of recording, in pages."""
    source = SqlEntries(writer, seq, remote=False)
    # Places alone, 8 bytes each: the entries of a long run may not fit in memory.
    places = array("q")
    for keys in source.all_keys():
        places.extend([place for _, _, place in keys])
    order = array("q", sorted(places))
    for first in range(0, len(order), PAGE):
        yield source.page(order[first : first + PAGE])


def _entries_at(writer: Writer, connection: Connection, seq: int, places: Iterable[int]) -> list[Entry]:
    query = _ENTRIES_AT_PLACES.format(run=writer.run_column)
    return entries_of(connection, seq, fetch(connection, query, (seq, json_list(places))))
