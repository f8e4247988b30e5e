"""Signals: which may be sent, what is recorded of them, and how the stores on SQL keep them.

The first half holds for every store. In the second half the transaction is the caller's. Whoever sends to a run, takes
from it or parks it has locked its row first, so that none of them misses what another one did.

Refused: a signal that is not JSON, or is larger than MAX_PAYLOAD_BYTES.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from ...errors import InvalidValue, JournalConflict, NotFound, RunEnded
from ...values import Json, check_json
from ..open_waits import match_signals, signal_name
from ..protocol import ENDS, Entry, OpenWait, Signal
from .blobs import Packed, dump, pack
from .rows import AMONG, UPSERT, Connection, fetch, json_list, keep, load

MAX_PAYLOAD_BYTES: Final = 1_000_000
MAX_NAME_LENGTH: Final = 1_000


def new_signal(name: str, payload: Json, id: str | None) -> Signal:
    """Return a signal to send, with a random id if `id` is None."""
    _check_text("the name of a signal", name)
    if id is not None:
        _check_text("the id of a signal", id)
    payload = check_json(payload, "payload")
    size = len(dump(payload, "payload") or b"")
    if size > MAX_PAYLOAD_BYTES:
        message = f"{size:,} bytes of JSON; at most {MAX_PAYLOAD_BYTES:,} are allowed; send a reference to larger data"
        raise InvalidValue("payload", message)
    return Signal(id=id or uuid.uuid4().hex, name=name, payload=payload, sent=time.time())


def _check_text(place: str, text: str) -> None:
    check_json(text, place)
    if not isinstance(text, str) or not text.strip():
        raise InvalidValue(place, "must be a text that is not empty")
    if len(text) > MAX_NAME_LENGTH:
        raise InvalidValue(place, f"has {len(text):,} characters; at most {MAX_NAME_LENGTH:,} are allowed")


def check_same_signal(run_id: str, old: Signal, new: Signal) -> None:
    """Raise JournalConflict if the id of a signal was used for a different one."""
    if (old.name, old.payload) != (new.name, new.payload):
        raise JournalConflict(run_id, "", f"another signal was sent with the id {new.id!r}: {old.name}")


def wakes_run(name: str, waits: Iterable[Entry]) -> bool:
    """Return True if a waiting run continues for a signal of this name."""

    # A run that has recorded no waits wakes for any signal: another process knows what it waits for.
    names = {signal_name(wait) for wait in waits}
    return not names or name in names


def signal_entry(wait: OpenWait, signal: Signal) -> Entry:
    """Return the entry that records the delivery of a signal to a wait."""
    data = {"value": signal.payload, "sent": signal.sent}
    return Entry(wait.path, "signal", wait.node, data, signal.id, signal.sent, time.time())


_LOCK: Final = "UPDATE run SET stop_requested = stop_requested WHERE {} = ? RETURNING seq, status"
_SIGNALS: Final = "SELECT id, name, payload, sent, taken FROM signal WHERE run = ? {} ORDER BY seq"
_PENDING: Final = """
    SELECT run.id, signal.id, signal.name, sent FROM signal JOIN run ON run.seq = signal.run
    WHERE taken IS NULL AND status IN ('running', 'waiting'){among} ORDER BY signal.seq
"""
_SIGNALLED: Final = """
    SELECT DISTINCT run.seq FROM signal JOIN run ON run.seq = signal.run
    WHERE taken IS NULL AND status IN ('running', 'waiting')
"""
_ENTRY: Final = f"""
    INSERT INTO entry (run, path, kind, node, data, digest, started, ended) VALUES (?, ?, ?, ?, ?, ?, ?, ?) {UPSERT}
"""


def signals(connection: Connection, seq: int, where: str = "", *values: str | float) -> list[Signal]:
    """Return the signals of a run in the order of sending."""
    return [
        Signal(id=id, name=name, payload=load(connection, payload, f"the signal {id} ({name})"), sent=sent, taken=taken)
        for id, name, payload, sent, taken in fetch(connection, _SIGNALS.format(where), (seq, *values))
    ]


def pending_signals(connection: Connection, among: Iterable[int] | None = None) -> dict[str, list[Signal]]:
    """Return the signals that no wait has taken, by run, for runs that have not ended; without the payloads."""

    # `among`: The numbers of the runs. Default: all.
    query = _PENDING.format(among="" if among is None else f" AND signal.run {AMONG}")
    values = () if among is None else (json_list(among),)
    by_run: dict[str, list[Signal]] = {}
    for run_id, id, name, sent in fetch(connection, query, values):
        by_run.setdefault(run_id, []).append(Signal(id=id, name=name, sent=sent))
    return by_run


def signalled_runs(connection: Connection) -> list[int]:
    """Return the numbers of the runs that have not ended and have a signal that no wait has taken."""
    return [seq for (seq,) in fetch(connection, _SIGNALLED)]


def store_signal(connection: Connection, run_id: str, signal: Signal, payload: Packed) -> tuple[int, bool]:
    """Keep a signal for a run, and set the run running if it waits for it."""
    rows = fetch(connection, _LOCK.format("id"), (run_id,))
    if not rows:
        raise NotFound("run", run_id)
    seq, status = rows[0]
    for old in signals(connection, seq, "AND id = ?", signal.id):
        check_same_signal(run_id, old, signal)
        # With the same time it is this very signal, whose transaction is repeated because the answer was lost.
        return seq, old.sent == signal.sent
    if status in ENDS:
        raise RunEnded(run_id, status)
    connection.execute(
        "INSERT INTO signal (run, id, name, payload, sent) VALUES (?, ?, ?, ?, ?)",
        (seq, signal.id, signal.name, keep(connection, payload, seq), signal.sent),
    )
    if status == "waiting" and wakes_run(signal.name, _recorded_waits(connection, seq)):
        connection.execute("UPDATE run SET status = 'running', due = NULL WHERE seq = ?", (seq,))
    return seq, True


def _recorded_waits(connection: Connection, seq: int) -> list[Entry]:
    rows = fetch(connection, "SELECT path, data FROM entry WHERE run = ? AND kind = 'wait'", (seq,))
    return [Entry(path, "wait", data=load(connection, data, path)) for path, data in rows]


def deliver_signals(connection: Connection, seq: int, waits: Sequence[OpenWait], taken_at: float) -> list[Entry]:
    """Deliver kept signals to waits and record them."""

    # `connection`: A transaction that holds the run's lease.
    # `taken_at`: Marks the signals that one call takes, in seconds since the epoch.
    # The answer of an earlier transaction of this very call was lost.
    already_taken = {signal.taken: signal for signal in signals(connection, seq, "AND mark = ?", taken_at)}
    if already_taken:
        return [signal_entry(wait, already_taken[wait.path]) for wait in waits if wait.path in already_taken]
    # Names are cheap to read; payloads are read only when one of them is waited for.
    if not _has_pending(connection, seq, {wait.name for wait in waits}):
        return []
    entries = []
    for wait, signal in match_signals(waits, signals(connection, seq, "AND mark IS NULL")):
        connection.execute(
            "UPDATE signal SET taken = ?, mark = ? WHERE run = ? AND id = ?", (wait.path, taken_at, seq, signal.id)
        )
        entry = signal_entry(wait, signal)
        data = keep(connection, pack(dump(entry.data, entry.path)), seq)
        values = (seq, entry.path, entry.kind, entry.node, data, entry.digest, entry.started, entry.ended)
        connection.execute(_ENTRY, values)
        entries.append(entry)
    return entries


def set_waiting(connection: Connection, seq: int, due: float | None, names: Collection[str]) -> bool:
    """Set a run waiting unless a signal with one of these names is kept; the caller clears the lease."""
    status = fetch(connection, _LOCK.format("seq"), (seq,))[0][1]
    if status != "running":
        return bool(status == "waiting")  # Parked by this very call, sent again.
    if _has_pending(connection, seq, names):
        return False
    connection.execute("UPDATE run SET status = 'waiting', due = ? WHERE seq = ?", (due, seq))
    return True


def _has_pending(connection: Connection, seq: int, names: Collection[str]) -> bool:
    pending = fetch(connection, "SELECT DISTINCT name FROM signal WHERE run = ? AND mark IS NULL", (seq,))
    return any(name in names for (name,) in pending)
