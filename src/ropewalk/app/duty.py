"""Read what the person on duty looks at: the overview, the schedules, the workers and the queues. Blocking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..config.settings import Queue
from ..errors import StoreError
from .overview import Overview, QueueState, ScheduleList, Work, group_failures

if TYPE_CHECKING:
    from ..journal.sql.worker_row import WorkerRow
    from .app import App


def overview(app: App, since: float, until: float, periods: int) -> Overview:
    """Read the overview of the runs that started in a time."""

    # `since` and `until`: seconds since the epoch.
    step = (until - since) / periods
    edges = [*(since + step * number for number in range(periods)), until]
    return Overview(
        edges=edges,
        runs=app.store.count_runs(edges),
        failures=group_failures(app.store.count_failures(since, until)),
        waits=_count_waits(app.runs.waiting()),
        schedules=list_schedules(app),
        work=read_work(app),
    )


def _count_waits(waits: Iterable[Mapping[str, Any]]) -> Counter[str]:
    return Counter(
        "questions" if "question" in wait else "approvals" if "approval" in wait else "events" for wait in waits
    )


def list_schedules(app: App) -> ScheduleList:
    """Return the schedules of the store of an app."""
    try:
        schedules = app.schedules
    except StoreError as error:
        return ScheduleList(rows=(), unavailable=error)
    return ScheduleList(rows=schedules.list())


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
