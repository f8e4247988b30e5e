"""Find out where every unfinished run is, and repair runs that are nowhere.

A run that has not ended is in exactly one place: queued with a live dispatch, executing at its owner, waiting, or
parked. A run that only its own process or a person can continue is interrupted. Anything else is a violation; workers
repair it (`Dispatches.dispatch_missing`, `Dispatches.cancel_abandoned`, `LostRunRepair`) and log it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from ..fast_dataclass import dataclass
from ..journal.postgres.session import Session, Target
from ..journal.postgres.store import PostgresStore
from ..journal.sql.lease_watch import runnable_by_any_worker
from ..journal.sql.leases import Owner, stored_owner_state
from ..journal.sql.rows import fetch, load
from .dbos_adapter import live_dispatch_condition
from .dispatches import Dispatches

log = logging.getLogger("ropewalk.workers")
PLACES: Final = ("queued", "executing", "waiting", "parked", "interrupted")
_LOOP_TURN: Final = 1.0  # seconds of a running event loop, after which everything that it was given has begun
_OVERDUE: Final = 5.0  # seconds that workers may take to notice that a wait is over


@dataclass(frozen=True, slots=True)
class Violation:
    """A run that is in none of PLACES, and the reason."""

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class Places:
    """The number of unfinished runs in each of PLACES, and the runs that are in none."""

    counts: dict[str, int]
    violations: list[Violation]


def count_places(session: Session, target: Target, patience: float) -> Places:
    """Count the unfinished runs by place."""

    # `session`: A transaction.
    # Parts of other runs are where those are.
    rows = fetch(
        session,
        "SELECT run.id, status, context, lease.owner, EXTRACT(EPOCH FROM clock_timestamp())::float8 - lease.beat,"
        " EXTRACT(EPOCH FROM clock_timestamp())::float8 - due,"
        f" EXISTS (SELECT FROM worker WHERE worker.owner = lease.owner), {live_dispatch_condition(target)}"
        " FROM run JOIN lease ON lease.run = seq WHERE parent IS NULL AND status IN ('running', 'waiting', 'parked')",
    )
    counts: Counter[str] = Counter()
    violations = []
    # Each branch names the place, or "" and why the run is in none.
    for id, status, packed, owner, silent, overdue, is_worker, live in rows:
        if status != "running":
            place = "" if status == "waiting" and overdue is not None and overdue > _OVERDUE and not live else status
            why = "its wait is over, but its entry in a queue was lost"
        elif owner is not None:
            place, why = _place_with_owner(owner, silent, is_worker, patience)
        else:
            place = "queued" if live else "" if runnable_by_any_worker(load(session, packed)) else "interrupted"
            why = "it is queued, but its entry in the queue was lost"
        if place:
            counts[place] += 1
        else:
            violations.append(Violation(id, why))
    return Places({name: counts[name] for name in PLACES}, violations)


def _place_with_owner(text: str, silent: float, is_worker: bool, patience: float) -> tuple[str, str]:
    verdict = stored_owner_state(text)
    if verdict == "live" or is_worker or (verdict == "unknown" and silent <= patience):
        return "executing", ""
    return "", f"its owner {Owner.load(text)} is gone"


class LostRunRepair:
    """Repairs the runs and dispatches of one worker that it has but does not execute."""

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

    def repair(self) -> None:
        """Repair everything that was wrong at two looks in a row."""

        # Blocking; in the thread of the heartbeat.
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._every
        executing = set(self._executing())
        taken = self._dispatches.taken_dispatches(self._worker, self._every)
        idle = [dispatch for dispatch in taken if dispatch.id not in executing]
        not_open = self._store.owned_but_not_open()
        confirmed = self._seen_twice([*idle, *not_open])
        if lost := [dispatch for dispatch in idle if dispatch in confirmed]:
            ids = ", ".join(dispatch.id for dispatch in lost)
            log.warning("cancelled queue entries that this worker had taken but does not execute: %s", ids)
            self._dispatches.cancel_lost(lost)
        for run in not_open:
            if run in confirmed:
                log.warning("run %s: released, because this worker owned it but does not execute it", run.id)
                self._store.give_back(run.seq, run.epoch)

    def _seen_twice(self, suspects: list[Any]) -> set[Any]:
        """Return the suspects that were already suspects one turn of the event loop ago."""

        # Whatever was only on its way to the event loop at the last look has arrived there by now.
        before, self._suspects = self._suspects, {}
        for suspect in suspects:
            self._suspects[suspect] = before.get(suspect) or self._next_turn()
        return {suspect for suspect in suspects if suspect in before and before[suspect].is_set()}

    def _next_turn(self) -> threading.Event:
        """Return an event that is set when the event loop has run for a while."""
        over = threading.Event()
        self._loop.call_soon_threadsafe(self._loop.call_later, _LOOP_TURN, over.set)
        return over
