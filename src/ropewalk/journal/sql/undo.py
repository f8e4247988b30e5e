"""The mark of an undone run in a SQL store: which run undoes it, and which runs wait for that.

The mark is set in the transaction that creates the undoing run. So a run is marked if and only if the run that undoes
it exists, with every step to undo in its input.
"""

from __future__ import annotations

import time
from typing import Final

from ...errors import NotFound, RunBusy, RunUndone
from ..protocol import ENDS, NewRun
from ..undo import UNSUCCESSFUL
from .leases import stored_owner_state
from .rows import Connection, fetch

_TARGET: Final = """
    SELECT seq, status, undo, owner, epoch, beat, result IS NULL FROM run JOIN lease ON run = seq WHERE id = ?
"""
_DUE: Final = f"""
    SELECT id FROM run WHERE undo_policy IS NOT NULL AND undo IS NULL
    AND status IN ({", ".join(f"'{status}'" for status in UNSUCCESSFUL)}) AND parent IS NULL ORDER BY seq LIMIT ?
"""


def begin_undo(connection: Connection, run: NewRun, lease: float) -> None:
    """Mark the run that a new run undoes, and take it from its owner.

    Args:
        connection: The transaction that creates `run`.
        run: The run with `undoes`.
        lease: Seconds that an owner on another host may be silent.

    Raises:
        NotFound: There is no run to undo.
        RunBusy: A living process executes it, or it was continued since its journal was read.
        RunUndone: Another run undoes it already.
    """
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
    connection.execute("UPDATE lease SET owner = NULL, epoch = epoch + 1 WHERE run = ?", (seq,))
    connection.execute("UPDATE run SET undo = ? WHERE seq = ?", (run.id, seq))


def undo_due(connection: Connection, limit: int) -> list[str]:
    """Return the ids of the runs that are to be undone by their policy, oldest first."""
    return [id for (id,) in fetch(connection, _DUE, (limit,))]


def skip_undo(connection: Connection, run_id: str) -> None:
    """Record that nothing of a run is to undo."""
    connection.execute("UPDATE run SET undo = '' WHERE id = ? AND undo IS NULL AND ended_at IS NOT NULL", (run_id,))
