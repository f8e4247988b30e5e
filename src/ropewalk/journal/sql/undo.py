"""The mark of an undone run in a SQL store: which run undoes it, and which runs wait for that.

The mark is set in the transaction that creates the undoing run. So a run is marked if and only if the run that undoes
it exists, with every step to undo in its input. The same transaction marks each call in the journal of the run that
made it: several runs may use the result of a call, and one of them undoes it.
"""

from __future__ import annotations

import time
from typing import Any, Final

from ...errors import NotFound, RunBusy, RunUndone
from ..protocol import ENDS, NewRun
from ..undo import UNDONE, UNSUCCESSFUL, UndoneCalls
from .blobs import dump
from .leases import stored_owner_state
from .rows import Connection, fetch, load

_TARGET: Final = """
    SELECT seq, status, undo, owner, epoch, beat, result IS NULL FROM run JOIN lease ON run = seq WHERE id = ?
"""
_DUE: Final = f"""
    SELECT id FROM run WHERE undo_policy IS NOT NULL AND undo IS NULL
    AND status IN ({", ".join(f"'{status}'" for status in UNSUCCESSFUL)}) AND parent IS NULL ORDER BY seq LIMIT ?
"""


def begin_undo(connection: Connection, run: NewRun, lease: float) -> None:
    """Mark the run that a new run undoes, and take it from its owner."""

    # `connection`: The transaction that creates `run`.
    id = str(run.undoes)
    rows = fetch(connection, _TARGET, (id,))
    if not rows:
        raise NotFound("run", id)
    seq, status, undo, owner, epoch, beat, unrecorded = rows[0]
    if undo == run.id:
        return  # created before, or this transaction is repeated because its answer was lost
    if undo and undo != run.forked_from:
        raise RunUndone(id, undo)
    if status not in ENDS or epoch != run.undoes_epoch:
        raise RunBusy(id, "another process")
    # The process of a stopped run records the result when the last call has ended.
    if status == "stopped" and unrecorded and owner:
        verdict = stored_owner_state(owner)
        if verdict == "live" or (verdict == "unknown" and 0 <= time.time() - beat <= lease):
            raise RunBusy(id, "the process that is stopping it")
    # A refusal does not take back what this transaction wrote, so every check comes before the first change.
    makers = [(_require_unmarked(connection, run, calls), calls.paths) for calls in run.undoes_calls]
    # Always in the same order, so that two undos do not wait for each other.
    for maker in sorted({seq, *(maker for maker, _ in makers)}):
        connection.execute("UPDATE lease SET owner = NULL, epoch = epoch + 1 WHERE run = ?", (maker,))
    connection.execute("UPDATE run SET undo = ? WHERE seq = ?", (run.id, seq))
    now, data = time.time(), dump({"run": id, "undo": run.id}, UNDONE)
    connection.executemany(_MARK, [(maker, path, data, now, now) for maker, paths in makers for path in paths])


_MAKER: Final = "SELECT seq, status, epoch, parent FROM run JOIN lease ON run = seq WHERE id = ?"
_MARK: Final = f"""
    INSERT INTO entry (run, path, kind, node, data, digest, started, ended) VALUES (?, ?, '{UNDONE}', '', ?, '', ?, ?)
    ON CONFLICT DO NOTHING
"""


def _require_unmarked(connection: Connection, run: NewRun, calls: UndoneCalls) -> int:
    """Return the row number of the run that made some calls to undo."""
    rows = fetch(connection, _MAKER, (calls.run,))
    if not rows:
        raise NotFound("run", calls.run)
    seq, status, epoch, parent = rows[0]
    # `begin_undo` has checked the undone run itself. Of a part, the outermost run says whether it has ended.
    if calls.run != run.undoes and ((parent is None and status not in ENDS) or epoch != calls.epoch):
        raise RunBusy(calls.run, "another process")
    undos = undone_calls(connection, seq)
    other = next((undo for path in calls.paths if (undo := undos.get(path)) not in (None, run.forked_from)), None)
    if other is not None:
        raise RunUndone(calls.run, other)
    return int(seq)


def undone_calls(connection: Connection, seq: int) -> dict[str, str]:
    """Return which run undoes each undone call of a run, by the path of the call."""
    rows = fetch(connection, f"SELECT path, data FROM entry WHERE run = ? AND kind = '{UNDONE}'", (seq,))
    marks: dict[str, Any] = {path: load(connection, data, f"the mark of the undone {path}") for path, data in rows}
    return {path: str(mark["undo"]) for path, mark in marks.items()}


def undo_due(connection: Connection, limit: int) -> list[str]:
    """Return the ids of the runs that are to be undone by their policy, oldest first."""
    return [id for (id,) in fetch(connection, _DUE, (limit,))]


def skip_undo(connection: Connection, run_id: str) -> None:
    """Record that nothing of a run is to undo."""
    connection.execute("UPDATE run SET undo = '' WHERE id = ? AND undo IS NULL AND ended_at IS NOT NULL", (run_id,))
