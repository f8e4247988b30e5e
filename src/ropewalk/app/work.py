"""The workers of a store, and the queues that they serve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..config.settings import Queue
from ..errors import StoreError
from ..fast_dataclass import dataclass

if TYPE_CHECKING:
    from ..journal.postgres.worker_registry import WorkerRow
    from .app import App


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """The runs of a queue: how many wait in it, how many are in progress, and its limits."""

    name: str
    waiting: int
    running: int
    limits: Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The queues of a store and the workers that serve them; `workers` is None where a store has none."""

    queues: Sequence[QueueState]
    workers: Sequence[WorkerRow] | None


def read_work(app: App) -> Work:
    """Read the workers and the queues of the store of an app."""

    # Blocking.
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
