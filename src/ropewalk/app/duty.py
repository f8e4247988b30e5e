"""Read what the person on duty looks at: the overview, the schedules, the workers and the queues. Blocking."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..config.settings import Queue
from ..errors import StoreError
from ..journal.run_counts import RunCount
from .overview import Overview, QueueState, ScheduleList, Work, group_failures
from .runs.liveness import liveness_of, shown_status

if TYPE_CHECKING:
    from ..journal.sql.worker_row import WorkerRow
    from .app import App

_MAX_RUNNING: Final = 1000  # running runs that are looked at


def overview(app: App, since: float, until: float, periods: int) -> Overview:
    """Read the overview of the runs that started in a time."""

    # `since` and `until`: seconds since the epoch.
    waits = app.runs.waiting()
    step = (until - since) / periods
    edges = [*(since + step * number for number in range(periods)), until]
    return Overview(
        edges=edges,
        runs=_with_states(app, edges, app.store.count_runs(edges), {str(wait["runId"]) for wait in waits}),
        failures=group_failures(app.store.count_failures(since, until)),
        waits=waits,
        schedules=list_schedules(app),
        work=read_work(app),
    )


def _with_states(app: App, edges: Sequence[float], counts: Sequence[RunCount], waiting: set[str]) -> list[RunCount]:
    """Count the runs that the store has as running by what they do: wait inside their process, or lack one."""
    if not any(run.status == "running" for run in counts):
        return list(counts)
    rows = app.store.list_runs(status="running", since=edges[0], until=edges[-1], top=True, limit=_MAX_RUNNING)
    liveness = liveness_of(app.context, rows)
    moved: dict[tuple[Any, ...], Counter[str]] = {}
    for row in rows:
        state = liveness.get(row.id)
        status = state or shown_status(row, state, row.id in waiting)
        key = (bisect_right(edges, row.started_at) - 1, row.kind, row.definition_id, row.name)
        if status != row.status:
            moved.setdefault(key, Counter())[status] += 1
    result = []
    for run in counts:
        states = moved.get((run.period, run.kind, run.definition_id, run.name)) if run.status == "running" else None
        left = run.count - sum((states or {}).values())
        result += [replace(run, count=left)] if left > 0 else []
        result += [replace(run, status=status, count=number) for status, number in (states or {}).items()]
    return result


def list_schedules(app: App) -> ScheduleList:
    """Return the schedules of the store of an app."""
    idle = app.workers.idle_schedules()
    try:
        schedules = app.schedules
    except StoreError as error:
        return ScheduleList(rows=(), idle=idle, unavailable=error)
    reason = getattr(app.store, "unwritable", None)  # of a file that this process may only read
    return ScheduleList(rows=schedules.list(), idle=idle, unavailable=StoreError(reason) if reason else None)


def read_work(app: App) -> Work:
    """Read the workers and the queues of the store of an app."""

    workers: Sequence[WorkerRow] | None
    try:
        workers = app.workers.list()
    except StoreError:
        if app.distributed:
            raise
        workers = None
    counts = {count.name: count for count in app.store.count_queues()}
    served = {name for worker in workers or () for name in worker.about.get("queues", ())}
    queues = [
        QueueState(
            name=name,
            waiting=counts[name].waiting if name in counts else 0,
            running=counts[name].running if name in counts else 0,
            limits=app.settings.queues.get(name, Queue()),
        )
        for name in sorted({*counts, *served, *app.settings.queues})
    ]
    return Work(queues=queues, workers=workers)
