"""Dispatches: the DBOS workflows that carry runs to workers.

A dispatch is used once. Its id is `RUN@EPOCH`, and the epoch moves whenever a process claims the run, or here when a
dispatch ends although nobody has claimed the run. DBOS takes an id only once, so several processes that find the same
run without a dispatch make only one.

Only the lease of a run says who owns it. DBOS says where a dispatch is. A dispatch whose worker the store does not know
any more is dead, and is cancelled.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ..config.settings import WorkerSettings
from ..fast_dataclass import dataclass
from ..journal.postgres.session import Session, Target
from ..journal.postgres.worker_registry import WorkerRegistry
from ..journal.sql.lease_watch import runnable_by_any_worker
from ..journal.sql.rows import fetch, load
from .dbos_adapter import (
    CHUNK_QUEUE,
    CHUNK_WORKFLOW,
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    RUN_WORKFLOW,
    Client,
    Dispatch,
    any_dispatch_condition,
    find_abandoned_dispatches,
    find_taken_dispatches,
    live_dispatch_condition,
)

log = logging.getLogger("ropewalk.workers")
_MAX_DISPATCHES: Final = 500  # runs dispatched at once
_FIRST_PAUSE: Final = 1.0  # seconds from the second lost dispatch of a run to the third, doubled each time
_MAX_PAUSE: Final = 60.0
_LOGGED_IDS: Final = 5
RETRY_DELAY: Final = 1.0
"""Seconds until a run that a worker gave back is offered to another one."""

_IS_DUE: Final = (
    "(run.status = 'running' OR (run.status = 'waiting' AND due <= EXTRACT(EPOCH FROM clock_timestamp())::float8))"
)
_ADVANCE_EPOCH: Final = (
    "UPDATE lease SET epoch = epoch + 1 WHERE run = ? AND epoch = ? AND owner IS NULL RETURNING epoch"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndispatchedRun:
    """A run without an owner and without a live dispatch."""

    # `epoch` is the epoch for its next dispatch. `was_lost` says that an earlier dispatch ended although nobody claimed
    # the run.

    id: str
    epoch: int
    context: dict[str, Any]
    was_lost: bool


def dispatch_id(run_id: str, epoch: int) -> str:
    """Return the id of the dispatch of a run at an epoch, equal in every process."""
    return f"{run_id}@{epoch}"


def find_undispatched(
    session: Session,
    target: Target,
    chunks: Iterable[str] | None = None,
    is_early: Callable[[str], bool] = lambda run_id: False,
) -> list[UndispatchedRun]:
    """Find the runs that need a dispatch, and move the epoch of those whose dispatch was lost."""

    # `session`: A transaction.
    condition = "parent IS NULL" if chunks is None else "run.id = ANY(?)"
    query = (
        f"SELECT seq, run.id, epoch, context, {any_dispatch_condition(target)} FROM run JOIN lease ON lease.run = seq"
        f" WHERE seq > ? AND {condition} AND {_IS_DUE} AND owner IS NULL AND NOT ({live_dispatch_condition(target)})"
        f" ORDER BY seq LIMIT {_MAX_DISPATCHES}"
    )
    runs: list[UndispatchedRun] = []
    for seq, id, epoch, packed, was_used in _pages(session, query, () if chunks is None else (list(chunks),)):
        if len(runs) == _MAX_DISPATCHES:
            break
        context = load(session, packed)
        context = context if isinstance(context, dict) else {}
        if chunks is None and not runnable_by_any_worker(context):
            continue
        if was_used:
            if is_early(id):
                continue
            moved = fetch(session, _ADVANCE_EPOCH, (seq, epoch))
            if not moved:  # another process has claimed or dispatched it meanwhile
                continue
            epoch = moved[0][0]
        runs.append(UndispatchedRun(id=id, epoch=int(epoch), context=context, was_lost=bool(was_used)))
    return runs


def _pages(session: Session, query: str, values: Sequence[Any]) -> Iterator[Any]:
    """Yield the rows of a query, whose first value is the number of the run before, page by page."""
    last = 0
    while rows := fetch(session, query, (last, *values)):
        yield from rows
        last = rows[-1][0]


class _Retry(NamedTuple):
    """When a run whose dispatch was lost is dispatched again."""

    # `due`: The earliest time, by `time.monotonic`.
    # `pause`: The seconds that it waits until then; the next pause is twice as long.

    due: float
    pause: float


class Dispatches:
    """Dispatches runs for a worker, or for somebody who repairs a store."""

    # Blocking; safe from any thread.

    def __init__(self, registry: WorkerRegistry, client: Client, settings: WorkerSettings) -> None:
        self._registry, self._client, self._settings = registry, client, settings
        self._retries: dict[str, _Retry] = {}  # by the id of a run whose dispatch was lost

    def queue_run(
        self, run_id: str, epoch: int, context: Mapping[str, Any], refusers: Iterable[str] | None = None
    ) -> None:
        """Queue a run; with `refusers`, the workers that cannot do it, after a short delay."""
        queue = str(context.get("queue"))
        self._client.enqueue(
            dispatch_id(run_id, epoch),
            RUN_WORKFLOW,
            queue if queue in self._settings.queues else DEFAULT_QUEUE,
            [run_id] if refusers is None else [run_id, list(refusers)],
            priority=int(context.get("priority") or DEFAULT_PRIORITY),
            delay=RETRY_DELAY if refusers is not None else 0,
        )

    def queue_chunk(self, id: str, epoch: int) -> None:
        """Queue a chunk again after a short delay."""
        self._client.enqueue(dispatch_id(id, epoch), CHUNK_WORKFLOW, CHUNK_QUEUE, [id], delay=RETRY_DELAY)

    def dispatch_missing(self) -> list[str]:
        """Dispatch every run that nobody owns and no live dispatch leads to."""

        # The log names the runs whose earlier dispatch was lost. If that happens to one again and again, because its
        # row cannot be read, the pauses between its dispatches grow.
        target = self._registry.target
        runs = self._registry.run_in_transaction(
            lambda session: find_undispatched(session, target, None, self._is_too_early)
        )
        for run in runs:
            self.queue_run(run.id, run.epoch, run.context)
            if run.was_lost:
                self._lengthen_pause(run.id)
        lost = [run.id for run in runs if run.was_lost]
        if lost:
            more = f" and {len(lost) - _LOGGED_IDS} more" if len(lost) > _LOGGED_IDS else ""
            ids = ", ".join(lost[:_LOGGED_IDS])
            log.warning("queued runs again, because no worker has claimed them: %s%s", ids, more)
        return [run.id for run in runs]

    def _is_too_early(self, run_id: str) -> bool:
        retry = self._retries.get(run_id)
        return retry is not None and time.monotonic() < retry.due

    def _lengthen_pause(self, run_id: str) -> None:
        now = time.monotonic()
        # A run that was not lost again for a while starts from the shortest pause.
        self._retries = {id: retry for id, retry in self._retries.items() if now < retry.due + 2 * retry.pause}
        previous = self._retries.get(run_id)
        pause = _FIRST_PAUSE if previous is None else min(2 * previous.pause, _MAX_PAUSE)
        self._retries[run_id] = _Retry(now + pause, pause)

    def cancel_abandoned(self) -> list[str]:
        """Cancel the dispatches of workers that are gone; `renew` dispatches their runs again."""

        target = self._registry.target
        return self._cancel(
            self._registry.run_in_transaction(lambda session: find_abandoned_dispatches(session, target))
        )

    def taken_dispatches(self, worker: str, since: float) -> list[Dispatch]:
        """Return the dispatches that this worker took more than `since` seconds ago and has not ended."""
        target = self._registry.target
        return self._registry.run_in_transaction(lambda session: find_taken_dispatches(session, target, worker, since))

    def cancel_lost(self, lost: list[Dispatch]) -> None:
        """Cancel dispatches that their worker does not execute."""
        self._cancel(lost)

    def _cancel(self, dispatches: list[Dispatch]) -> list[str]:
        dead = [dispatch.id for dispatch in dispatches]
        if dead:
            self._client.client.cancel_workflows(dead)
        return dead
