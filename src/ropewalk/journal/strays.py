"""Runs that a process other than a worker began and left unfinished when it died: `ropewalk run`, a program.

A worker that dies is missed at its heartbeat (`fleet.py`), and its runs with it. Who else owns a run is judged as
whoever reopens it by hand would: on this host at once, elsewhere when its lease has been still for as long as it lasts.
Refused: runs of tools that only their own process had.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from .connection import fetch
from .lease import Owner, judge
from .postgres_session import Session
from .sql_rows import load

_OWNED: Final = """
    SELECT seq, owner, epoch, beat, context, parent IS NULL FROM run JOIN lease ON lease.run = seq
    WHERE status = 'running' AND owner IS NOT NULL AND owner NOT IN (SELECT owner FROM worker)
    ORDER BY seq LIMIT 1000
"""
_FREE: Final = "UPDATE lease SET owner = NULL WHERE run = ? AND epoch = ? AND beat = ? RETURNING run"


class Strays:
    """Looks after them for one worker. `lease` is how long, in seconds, an owner on another host may be silent."""

    def __init__(self, lease: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease, self._clock = lease, clock
        self._silent: dict[int, tuple[int, float, float]] = {}  # of a run: its epoch and beat, and since when

    def free(self, session: Session) -> dict[Owner, list[int]]:
        """Have nobody own those whose process is gone: who that was, and the runs that are left to others."""
        found: dict[Owner, list[int]] = {}
        before, self._silent = self._silent, {}
        for run, text, epoch, beat, context, whole in fetch(session, _OWNED):
            owner = Owner.load(text)
            if not self._is_gone(run, owner, epoch, beat, before) or (whole and not anybodys(load(session, context))):
                continue
            if fetch(session, _FREE, (run, epoch, beat)):
                found.setdefault(owner, []).append(run)
        return found

    def _is_gone(self, run: int, owner: Owner, epoch: int, beat: float, before: Mapping[int, Any]) -> bool:
        verdict = judge(owner)
        if verdict != "unknown":
            return verdict == "dead"
        known = before.get(run)
        since = known[2] if known is not None and known[:2] == (epoch, beat) else self._clock()
        self._silent[run] = (epoch, beat, since)
        return self._clock() - since > self._lease


def anybodys(context: Any) -> bool:
    """Whether a worker can have the tools of a run: it was put in line for one, or it came from a project, and no
    function of the process that began it calls its tools."""
    about = context if isinstance(context, dict) else {}
    return not about.get("executor") and bool(about.get("project") or "queue" in about)
