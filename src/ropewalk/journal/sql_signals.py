"""Signals in the stores on SQL. The transaction is the caller's; whoever sends to a run, takes from it or
parks it has locked its row first, so that none of them misses what another one did."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from ..errors import NotFound, RunEnded
from .blobs import Packed, dump, pack
from .connection import Connection, fetch
from .journal import ENDS, Entry, Signal, Wanted
from .signal import arrival, given, same, wakes
from .sql_rows import UPSERT, keep, load

_LOCK: Final = "UPDATE run SET stop_requested = stop_requested WHERE {} = ? RETURNING seq, status"
_SIGNALS: Final = "SELECT id, name, payload, sent, taken FROM signal WHERE run = ? {} ORDER BY seq"
_KEPT: Final = """
    SELECT run.id, signal.id, signal.name, sent FROM signal JOIN run ON run.seq = signal.run
    WHERE taken IS NULL AND status IN ('running', 'waiting') ORDER BY signal.seq
"""
_ENTRY: Final = f"""
    INSERT INTO entry (run, path, kind, node, data, digest, started, ended) VALUES (?, ?, ?, ?, ?, ?, ?, ?) {UPSERT}
"""


def signals(connection: Connection, seq: int, where: str = "", *values: str | float) -> list[Signal]:
    """The signals of a run in order."""
    return [
        Signal(id=id, name=name, payload=load(connection, payload, f"the signal {id} ({name})"), sent=sent, taken=taken)
        for id, name, payload, sent, taken in fetch(connection, _SIGNALS.format(where), (seq, *values))
    ]


def kept(connection: Connection) -> dict[str, list[Signal]]:
    """What was sent to runs that go on and no wait has taken, by run, in order; without the payloads."""
    found: dict[str, list[Signal]] = {}
    for run_id, id, name, sent in fetch(connection, _KEPT, ()):
        found.setdefault(run_id, []).append(Signal(id=id, name=name, sent=sent))
    return found


def send(connection: Connection, run_id: str, signal: Signal, payload: Packed) -> tuple[int, bool]:
    """Keep a signal for a run, and set it running when it waits; gives its row and whether the signal is new."""
    found = fetch(connection, _LOCK.format("id"), (run_id,))
    if not found:
        raise NotFound("run", run_id)
    seq, status = found[0]
    for old in signals(connection, seq, "AND id = ?", signal.id):
        same(run_id, old, signal)
        return seq, old.sent == signal.sent  # This very one, sent again, or one of before.
    if status in ENDS:
        raise RunEnded(run_id, status)
    connection.execute(
        "INSERT INTO signal (run, id, name, payload, sent) VALUES (?, ?, ?, ?, ?)",
        (seq, signal.id, signal.name, keep(connection, payload, seq), signal.sent),
    )
    if status == "waiting" and wakes(signal.name, _waits(connection, seq)):
        connection.execute("UPDATE run SET status = 'running', due = NULL WHERE seq = ?", (seq,))
    return seq, True


def _waits(connection: Connection, seq: int) -> list[Entry]:
    found = fetch(connection, "SELECT path, data FROM entry WHERE run = ? AND kind = 'wait'", (seq,))
    return [Entry(path, "wait", data=load(connection, data, path)) for path, data in found]


def take(connection: Connection, seq: int, waits: Sequence[Wanted], moment: float) -> list[Entry]:
    """See `Log.take`. `moment` marks what one call has taken: it may be made again."""
    before = {signal.taken: signal for signal in signals(connection, seq, "AND mark = ?", moment)}
    if before:
        return [arrival(wait, before[wait.path]) for wait in waits if wait.path in before]
    waited = {wait.name for wait in waits}
    kept = fetch(connection, "SELECT DISTINCT name FROM signal WHERE run = ? AND mark IS NULL", (seq,))
    if not any(name in waited for (name,) in kept):
        return []
    found = []
    for wait, signal in given(waits, signals(connection, seq, "AND mark IS NULL")):
        connection.execute(
            "UPDATE signal SET taken = ?, mark = ? WHERE run = ? AND id = ?", (wait.path, moment, seq, signal.id)
        )
        entry = arrival(wait, signal)
        data = keep(connection, pack(dump(entry.data, entry.path)), seq)
        values = (seq, entry.path, entry.kind, entry.node, data, entry.digest, entry.started, entry.ended)
        connection.execute(_ENTRY, values)
        found.append(entry)
    return found


def park(connection: Connection, seq: int, due: float | None, names: Collection[str]) -> bool:
    """See `Log.park`; the lease is the caller's."""
    status = fetch(connection, _LOCK.format("seq"), (seq,))[0][1]
    if status != "running":
        return bool(status == "waiting")  # Parked by this very call, sent again.
    kept = fetch(connection, "SELECT DISTINCT name FROM signal WHERE run = ? AND mark IS NULL", (seq,))
    if any(name in names for (name,) in kept):
        return False
    connection.execute("UPDATE run SET status = 'waiting', due = ? WHERE seq = ?", (due, seq))
    return True
