"""Where every unfinished run is: the invariant of the fleet, what keeps it, and what is told of it.

A run that has not ended is in exactly one place: queued with a live dispatch, executed by its owner, waiting, or
parked. One that only its own process or a person can continue is interrupted. Anything else is a violation: workers
repair it (`Dispatches.renew`, `Dispatches.discard`, `Census`) and log it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from ..frozen import dataclass
from ..journal.connection import fetch
from ..journal.lease import Owner, judge_text
from ..journal.postgres import PostgresStore
from ..journal.postgres_session import Session, Target
from ..journal.sql_rows import load
from ..journal.strays import anybodys
from .dbos_adapter import is_live
from .dispatches import Dispatches

log = logging.getLogger("ropewalk.workers")
PLACES: Final = ("queued", "executing", "waiting", "parked", "interrupted")
_TURN: Final = 1.0  # seconds of a running event loop: what it had been given has begun by then
_OVERDUE: Final = 5.0  # seconds that workers may take to notice that a wait is over


@dataclass(frozen=True, slots=True)
class Violation:
    """A run that is in none of PLACES, and why."""

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class Places:
    """How many unfinished runs are in each of PLACES, and those that are in none."""

    counts: dict[str, int]
    violations: list[Violation]


def places(session: Session, where: Target, patience: float) -> Places:
    """Say of every unfinished run where it is.

    Args:
        session: A transaction.
        where: The store.
        patience: Seconds that an owner on another host may be silent.

    Returns:
        The counts, and the runs in no place. Between two looks a run may pass from one place to the next: only one
        that is a violation twice in a row is one.
    """
    # Parts of other runs go where those go.
    rows = fetch(
        session,
        "SELECT run.id, status, context, lease.owner, EXTRACT(EPOCH FROM clock_timestamp())::float8 - lease.beat,"
        " EXTRACT(EPOCH FROM clock_timestamp())::float8 - due,"
        f" EXISTS (SELECT FROM worker WHERE worker.owner = lease.owner), {is_live(where)}"
        " FROM run JOIN lease ON lease.run = seq WHERE parent IS NULL AND status IN ('running', 'waiting', 'parked')",
    )
    counts: Counter[str] = Counter()
    violations = []
    for id, status, packed, owner, silent, overdue, is_worker, live in rows:
        if status != "running":
            place = "" if status == "waiting" and overdue is not None and overdue > _OVERDUE and not live else status
            why = "its wait is over, and no live dispatch leads to it"
        elif owner is not None:
            place, why = _with_owner(owner, silent, is_worker, patience)
        else:
            place = "queued" if live else "" if anybodys(load(session, packed)) else "interrupted"
            why = "it is queued, and no live dispatch leads to it"
        if place:
            counts[place] += 1
        else:
            violations.append(Violation(id, why))
    return Places({name: counts[name] for name in PLACES}, violations)


def _with_owner(text: str, silent: float, is_worker: bool, patience: float) -> tuple[str, str]:
    verdict = judge_text(text)
    if verdict == "live" or is_worker or (verdict == "unknown" and silent <= patience):
        return "executing", ""
    return "", f"its owner {Owner.load(text)} is gone"


class Census:
    """Looks after what one worker has: dispatches that it does not execute, and runs that it owns though it has not
    got them open. `executing` gives the ids of the dispatches that it executes."""

    def __init__(
        self,
        store: PostgresStore,
        dispatches: Dispatches,
        worker: str,
        every: float,
        executing: Callable[[], Iterable[str]],
    ) -> None:
        self._store, self._dispatches, self._worker, self._executing = store, dispatches, worker, executing
        self._every, self._next = every, 0.0
        self._loop = asyncio.get_running_loop()
        self._suspects: dict[Any, threading.Event] = {}

    def look(self) -> None:
        """Look, every now and then, and repair what was wrong twice. Blocking; in the thread of the heartbeat."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._every
        begun = set(self._executing())
        idle = [one for one in self._dispatches.taken(self._worker, self._every) if one[0] not in begun]
        unheld = self._store.unheld()
        wrong = self._twice([*idle, *unheld])
        if lost := [one for one in idle if one in wrong]:
            log.warning("dispatches that came to nothing here are ended: %s", ", ".join(id for id, _ in lost))
            self._dispatches.end(lost)
        for seq, id, epoch in unheld:
            if (seq, id, epoch) in wrong:
                log.warning("run %s was owned by this worker, which does not execute it: it is given back", id)
                self._store.give_back(seq, epoch)

    def _twice(self, found: list[Any]) -> set[Any]:
        """Those that were there before, with a turn of the event loop since: what was on its way has come."""
        before, self._suspects = self._suspects, {}
        for one in found:
            self._suspects[one] = before.get(one) or self._turn()
        return {one for one in found if one in before and before[one].is_set()}

    def _turn(self) -> threading.Event:
        over = threading.Event()
        self._loop.call_soon_threadsafe(self._loop.call_later, _TURN, over.set)
        return over
