"""Dispatches: the DBOS workflows that carry runs to workers.

A dispatch is used once. Its id, `RUN@EPOCH`, is another one each time, because the epoch of a run moves: whenever a
process claims the run, and here when a dispatch is over though nobody has claimed it. DBOS takes an id only once, so
that several processes that find the same run without a dispatch give it one.

Who owns a run is said by its lease alone. DBOS says where a dispatch is: one that is with a worker which the store
does not know (any more) is dead, and is cancelled.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ..config.workplace import Workplace
from ..frozen import dataclass
from ..journal.connection import fetch
from ..journal.fleet import Fleet
from ..journal.postgres_session import Session, Target
from ..journal.sql_rows import load
from ..journal.strays import anybodys
from .dbos_adapter import CHUNKS, PLAY, PRIORITY, QUEUE, RUN, TICK, Client, find_abandoned, find_taken, is_live, is_used

log = logging.getLogger("ropewalk.workers")
_MOST: Final = 500  # runs dispatched at once
_PAUSE: Final = 1.0  # seconds from the second dispatch that came to nothing to the third, doubled each time
_LONGEST_PAUSE: Final = 60.0
_SHOWN: Final = 5  # ids named in a log line
AGAIN: Final = 1.0
"""Seconds until a run that a worker gave back is offered to another one."""

_IS_DUE: Final = (
    "(run.status = 'running' OR (run.status = 'waiting' AND due <= EXTRACT(EPOCH FROM clock_timestamp())::float8))"
)
_ADVANCE: Final = "UPDATE lease SET epoch = epoch + 1 WHERE run = ? AND epoch = ? AND owner IS NULL RETURNING epoch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undispatched:
    """A run that nobody owns and no live dispatch leads to. `was_lost` says that an earlier dispatch came to nothing,
    `epoch` is the one to dispatch it at."""

    id: str
    epoch: int
    context: dict[str, Any]
    was_lost: bool


def dispatch_id(run_id: str, epoch: int) -> str:
    """Return the id of the dispatch of a run at an epoch, the same for whoever makes it."""
    return f"{run_id}@{epoch}"


def undispatched(
    session: Session,
    where: Target,
    chunks: Iterable[str] | None = None,
    is_early: Callable[[str], bool] = lambda run_id: False,
) -> list[Undispatched]:
    """Find runs to be dispatched, and move the epoch of those whose dispatch came to nothing.

    Args:
        session: A transaction.
        where: The store.
        chunks: Ids of chunks to look at. Default: all runs but chunks and other parts of runs.
        is_early: Says of a run whose dispatch came to nothing whether it is too early for another one.

    Returns:
        The runs, oldest first, each with the epoch at which it is to be dispatched.
    """
    which = "parent IS NULL" if chunks is None else "run.id = ANY(?)"
    rows = fetch(
        session,
        f"SELECT seq, run.id, epoch, context, {is_used(where)} FROM run JOIN lease ON lease.run = seq"
        f" WHERE {which} AND {_IS_DUE} AND owner IS NULL AND NOT ({is_live(where)}) ORDER BY seq LIMIT {_MOST}",
        () if chunks is None else (list(chunks),),
    )
    found = []
    for seq, id, epoch, packed, was_used in rows:
        context = load(session, packed)
        context = context if isinstance(context, dict) else {}
        if chunks is None and not anybodys(context):
            continue
        if was_used:
            if is_early(id):
                continue
            moved = fetch(session, _ADVANCE, (seq, epoch))
            if not moved:  # somebody has claimed or dispatched it a moment ago
                continue
            epoch = moved[0][0]
        found.append(Undispatched(id=id, epoch=int(epoch), context=context, was_lost=bool(was_used)))
    return found


class Dispatches:
    """Dispatches runs for one worker, or for whoever repairs a store. Blocking; safe from any thread."""

    def __init__(self, fleet: Fleet, client: Client, place: Workplace) -> None:
        self._fleet, self._client, self._place = fleet, client, place
        self._again: dict[str, tuple[float, float]] = {}  # of lost runs: when another dispatch may come, and the pause

    def put(self, run_id: str, epoch: int, context: Mapping[str, Any], refusers: Iterable[str] | None = None) -> None:
        """Queue a run; with `refusers`, the workers that cannot do it, after a short delay."""
        queue = str(context.get("queue"))
        self._client.enqueue(
            dispatch_id(run_id, epoch),
            RUN,
            queue if queue in self._place.queues else QUEUE,
            [run_id] if refusers is None else [run_id, list(refusers)],
            priority=int(context.get("priority") or PRIORITY),
            delay=AGAIN if refusers is not None else 0,
        )

    def put_chunk(self, id: str, epoch: int) -> None:
        """Queue a chunk again after a short delay."""
        self._client.enqueue(dispatch_id(id, epoch), PLAY, CHUNKS, [id], delay=AGAIN)

    def renew(self) -> list[str]:
        """Dispatch every run that nobody owns and no live dispatch leads to; returns their ids.

        Those whose earlier dispatch came to nothing are named in the log. One to which that happens again and again, as
        its row cannot be read, is dispatched ever more seldom.
        """
        where = self._fleet.where
        found = self._fleet.do(lambda session: undispatched(session, where, None, self._is_early))
        for one in found:
            self.put(one.id, one.epoch, one.context)
            if one.was_lost:
                self._wait(one.id)
        lost = [one.id for one in found if one.was_lost]
        if lost:
            more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
            log.warning("dispatched again, since no worker has claimed them: %s%s", ", ".join(lost[:_SHOWN]), more)
        return [one.id for one in found]

    def _is_early(self, run_id: str) -> bool:
        return time.monotonic() < self._again.get(run_id, (0.0, 0.0))[0]

    def _wait(self, run_id: str) -> None:
        now = time.monotonic()
        self._again = {id: (due, pause) for id, (due, pause) in self._again.items() if now < due + 2 * pause}
        pause = min(2 * self._again.get(run_id, (0.0, _PAUSE / 2))[1], _LONGEST_PAUSE)
        self._again[run_id] = (now + pause, pause)

    def discard(self) -> list[str]:
        """Cancel the dispatches that workers had taken which are gone; returns their ids.

        What they were for is dispatched again by `renew`. A due time of a schedule is queued again as it is: the id of
        its run follows from the time.
        """
        where = self._fleet.where
        return self._end(self._fleet.do(lambda session: find_abandoned(session, where)))

    def taken(self, worker: str, since: float) -> list[tuple[str, str]]:
        """Return the dispatches, each an id and a name, that this worker took more than `since` seconds ago."""
        where = self._fleet.where
        return self._fleet.do(lambda session: find_taken(session, where, worker, since))

    def end(self, lost: list[tuple[str, str]]) -> None:
        """Cancel dispatches that their worker does not execute."""
        self._end(lost)

    def _end(self, found: list[tuple[str, str]]) -> list[str]:
        due = [str(id) for id, name in found if name == TICK]
        dead = [str(id) for id, name in found if name != TICK]
        if due:
            self._client.client.resume_workflows(due)
        if dead:
            self._client.client.cancel_workflows(dead)
        return due + dead


__all__ = ["AGAIN", "Dispatches", "Undispatched", "dispatch_id", "undispatched"]
