"""Read what the person on duty looks at: the overview, the schedules, the workers and the queues. Blocking."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..config.settings import Queue
from ..errors import StoreError
from ..journal.run_counts import RunCount
from .overview import Overview, QueueState, ScheduleList, Work, group_failures

if TYPE_CHECKING:
    from ..journal.sql.worker_row import WorkerRow
    from .app import App

_MAX_WAITING: Final = 1000  # running runs that are looked at


def overview(app: App, since: float, until: float, periods: int) -> Overview:
    """Read the overview of the runs that started in a time."""

    # `since` and `until`: seconds since the epoch.
    waits = app.runs.waiting()
    step = (until - since) / periods
    edges = [*(since + step * number for number in range(periods)), until]
    return Overview(
        edges=edges,
        runs=_with_waiting(app, edges, app.store.count_runs(edges), {str(wait["runId"]) for wait in waits}),
        failures=group_failures(app.store.count_failures(since, until)),
        waits=_count_waits(waits),
        schedules=list_schedules(app),
        work=read_work(app),
    )


def _with_waiting(app: App, edges: Sequence[float], counts: Sequence[RunCount], waiting: set[str]) -> list[RunCount]:
    """Count the runs that wait inside their process as waiting, although the store has them as running."""
    if not waiting:
        return list(counts)
    rows = app.store.list_runs(status="running", since=edges[0], until=edges[-1], top=True, limit=_MAX_WAITING)
    moved = Counter(
        (bisect_right(edges, row.started_at) - 1, row.kind, row.definition_id, row.name)
        for row in rows
        if row.id in waiting
    )
    result = []
    for run in counts:
        number = moved[run.period, run.kind, run.definition_id, run.name] if run.status == "running" else 0
        result += [replace(run, count=run.count - number)] if run.count > number else []
        result += [replace(run, status="waiting", count=number)] if number else []
    return result


def _count_waits(waits: Iterable[Mapping[str, Any]]) -> Counter[str]:
    return Counter(
        "questions" if "question" in wait else "approvals" if "approval" in wait else "events" for wait in waits
    )


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
