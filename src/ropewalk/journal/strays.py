"""Runs that a process other than a worker began and left unfinished when it died: `ropewalk run`, a program.

A worker that dies is missed at its heartbeat (`fleet.py`), and its runs with it. Any other process is judged as
whoever reopens its run by hand would: on this host at once, elsewhere when all its leases have been still for as long
as they last. Refused: runs of tools that only their own process had.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .boottime import boottime
from .connection import fetch
from .lease import Owner, judge
from .postgres_session import Session
from .silence import Silence
from .sql_rows import load

# By process, of which there are few, and not by run.
_OWNERS: Final = """
    SELECT owner, max(beat) FROM run JOIN lease ON lease.run = seq
    WHERE status = 'running' AND owner IS NOT NULL AND owner NOT IN (SELECT owner FROM worker)
    GROUP BY owner
"""
_OWNED: Final = """
    SELECT seq, context, parent IS NULL FROM run JOIN lease ON lease.run = seq
    WHERE status = 'running' AND owner = ? AND beat <= ?
"""
_FREE: Final = "UPDATE lease SET owner = NULL WHERE run = ? AND owner = ? AND beat <= ? RETURNING run"


class Strays:
    """Looks after them for one worker. `lease` is how long, in seconds, an owner on another host may be silent."""

    def __init__(self, lease: float, clock: Callable[[], float] = boottime) -> None:
        self._lease = lease
        self._silence = Silence(gap=2 * lease, clock=clock)
        self._done: dict[str, float] = {}  # of owners that are gone and have left nothing to others: their last beat

    def free(self, session: Session, connection: int = 0) -> dict[Owner, list[int]]:
        """Release the runs of processes that are gone.

        Args:
            session: Where to read and write, within a transaction.
            connection: Number of the session's connection; silence on an earlier one does not count.

        Returns:
            Each process that is gone, with its runs that workers may have.
        """
        found: dict[Owner, list[int]] = {}
        owners: dict[str, float] = dict(fetch(session, _OWNERS))
        silent = self._silence.observe(owners, connection)
        self._done = {owner: beat for owner, beat in self._done.items() if owners.get(owner) == beat}
        for text, beat in owners.items():
            owner = Owner.load(text)
            if text in self._done or not self._is_gone(owner, silent[text]):
                continue
            owned = fetch(session, _OWNED, (text, beat))
            left = [run for run, context, whole in owned if not whole or anybodys(load(session, context))]
            freed = [run for run in left if fetch(session, _FREE, (run, text, beat))]
            if freed:
                found[owner] = freed
            else:  # else at the next look: this transaction may come to nothing
                self._done[text] = beat
        return found

    def _is_gone(self, owner: Owner, silent: float) -> bool:
        verdict = judge(owner)
        return verdict == "dead" or (verdict == "unknown" and silent > self._lease)


def anybodys(context: Any) -> bool:
    """Whether a worker can have the tools of a run: it was put in line for one, or it came from a project, and no
    function of the process that began it calls its tools."""
    about = context if isinstance(context, dict) else {}
    return not about.get("executor") and bool(about.get("project") or "queue" in about)
