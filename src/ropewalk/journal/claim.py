"""Making a run one's own: in one transaction, so that of several who try exactly one succeeds."""

from __future__ import annotations

import threading
import time
from typing import Final

from ..errors import NotFound, RunBusy
from ..frozen import dataclass
from .blobs import Blob, Packed, dump
from .connection import Connection, fetch
from .copies import copy
from .journal import ENDS, NewRun, ending
from .lease import Owner, judge, me
from .sql_rows import SPENT, keep, load

_CREATE: Final = """
    INSERT INTO run (id, kind, definition_id, name, status, fingerprint, started_at, parent, forked_from,
        input, context, document)
    VALUES (?, ?, ?, ?, 'running', ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING seq
"""

_ENDED: Final = """
    SELECT status, ended_at, error, result_count, error_count, spent FROM run JOIN lease ON run = seq WHERE seq = ?
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A run that is now ours; or one that had `ended`, which is nobody's."""

    seq: int
    epoch: int
    fresh: bool = False
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Doubt:
    """The owner lives elsewhere, if it does: as long as its beat changes. `recent` tells whether
    the last one is within the lease by the wall clock."""

    owner: str
    epoch: int
    beat: float
    recent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Large:
    """The large values of a new run, packed."""

    input: Packed
    context: Packed
    document: Packed


class Moments:
    """Times by the wall clock, no two of this process alike: a claim is known by the beat it writes,
    when it is sent again because its answer was lost."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0.0

    def next(self) -> float:
        with self._lock:
            now = time.time()
            self._last = now if now != self._last else now + 1e-6
            return self._last


moments: Final = Moments()


def create(connection: Connection, run: NewRun, large: Large, moment: float) -> Claim | None:
    """A new run, or None when its id is taken."""
    started = run.started_at or time.time()
    values = (run.id, run.kind, run.definition_id, run.name, run.fingerprint, started, run.parent, run.forked_from)
    packed = (large.input, large.context, large.document)
    made = fetch(connection, _CREATE, (*values, *[one.ref if isinstance(one, Blob) else one for one in packed]))
    if not made:
        return None
    seq = int(made[0][0])
    for one in packed:
        keep(connection, one, seq)
    connection.execute("INSERT INTO lease (run, owner, epoch, beat) VALUES (?, ?, 1, ?)", (seq, me().dump(), moment))
    if run.definition_id is not None:
        connection.execute(
            "UPDATE definition SET run_count = run_count + 1 WHERE kind = ? AND id = ?", (run.kind, run.definition_id)
        )
    if run.copies:
        copy(connection, run, seq)
    return Claim(seq=seq, epoch=1, fresh=True)


def take(
    connection: Connection, id: str, lease: float, again: bool, settled: Doubt | None, moment: float
) -> Claim | Doubt:
    """Take an existing run over. `settled` is a doubt about its owner that time has resolved:
    nothing has been heard of it for a whole lease."""
    found = fetch(
        connection, "SELECT seq, status, owner, epoch, beat FROM run JOIN lease ON run = seq WHERE id = ?", (id,)
    )
    if not found:
        raise NotFound("run", id)
    seq, status, text, epoch, beat = found[0]
    if text == me().dump() and beat == moment:
        return Claim(seq=seq, epoch=epoch, fresh=epoch == 1)  # This very claim, sent again.
    if status in ENDS:
        if not again:
            return Claim(seq=seq, epoch=epoch, ended=True)
    elif status == "running":
        owner = Owner.load(text, f"run {id}") if text else None
        verdict = judge(owner)
        if verdict == "live":
            raise RunBusy(id, str(owner))
        if verdict == "unknown":
            doubt = Doubt(str(owner), epoch, beat, 0 <= time.time() - beat <= lease)
            if settled is None or (settled.epoch, settled.beat) != (epoch, beat):
                return doubt
    mine = fetch(
        connection,
        f"UPDATE lease SET owner = ?, epoch = epoch + 1, beat = ?, spent = {SPENT if status == 'running' else 'spent'}"
        " WHERE run = ? AND epoch = ? RETURNING 1",
        (me().dump(), moment, seq, epoch),
    )
    if not mine:  # Somebody else took it a moment ago.
        return take(connection, id, lease, again, settled, moment)
    if status != "running":
        if status in ENDS:
            _set_running(connection, seq, epoch)
        else:
            connection.execute("UPDATE run SET status = 'running', due = NULL WHERE seq = ?", (seq,))
    return Claim(seq=seq, epoch=epoch + 1)


def _set_running(connection: Connection, seq: int, epoch: int) -> None:
    """An ended run runs again, with its time before it; how it had ended stays among its facts."""
    [(status, at, error, results, errors, spent)] = fetch(connection, _ENDED, (seq,))
    entry = ending(epoch, status, at, load(connection, error, "how a run had ended"), results, errors, spent)
    connection.execute(
        "INSERT INTO entry (run, path, kind, node, data, digest, started, ended) VALUES (?, ?, ?, '', ?, '', ?, ?)"
        " ON CONFLICT DO NOTHING",
        (seq, entry.path, entry.kind, dump(entry.data, "ending"), entry.started, entry.ended),
    )
    connection.execute(
        "UPDATE run SET status = 'running', ended_at = NULL, stop_requested = 0, result = NULL, error = NULL,"
        " result_count = 0, error_count = 0 WHERE seq = ?",
        (seq,),
    )
    connection.execute("UPDATE lease SET spent = 0 WHERE run = ?", (seq,))
