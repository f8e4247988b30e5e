"""The lines in which runs wait: the queues of the settings, as DBOS is told of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..config.workplace import Queue, Workplace
from ..errors import NotFound
from ..journal.fleet import Fleet, WorkerRow
from ..journal.journal import Store
from ..values import closest
from .dbos_adapter import APPLICATION, CHUNKS, QUEUE, code_version


def lines(place: Workplace) -> dict[str, dict[str, Any]]:
    """Every queue with its limits; there is always the default one."""
    queues = {QUEUE: Queue(), **place.queues}
    return {name: _limits(queue) for name, queue in queues.items()}


def all_lines(place: Workplace) -> dict[str, dict[str, Any]]:
    """Those, and the one of chunks, which every worker takes beside its runs: a run that waits for its chunks has a
    worker's place, and must not keep them from theirs."""
    return {**lines(place), CHUNKS: {"worker_concurrency": 2}}


def queue_named(name: str | None, place: Workplace) -> str:
    """The queue, when there is one of that name; the default one for None."""
    known = list(lines(place))
    if name is None or name in known:
        return name or QUEUE
    there = f"there {'is' if len(known) == 1 else 'are'} {', '.join(known)}"
    code = f'App(settings=Workplace(queues={{"{name}": Queue()}}))'
    how = f"another is named by [queues.{name}] in ropewalk.toml, in Python by {code}"
    raise NotFound("queue", name, suggestion=closest(name, known), why=f"{there}; {how}")


def unattended(store: Store, fleet: Fleet, run_id: str) -> str | None:
    """Why nobody takes a run that waits in line; None when somebody does. Blocking."""
    row = store.get_run(run_id)
    if row is None or row.status != "running":
        return None
    queue, workers = str((row.context or {}).get("queue") or QUEUE), fleet.alive()
    takers = [worker for worker in workers if queue in worker.about["queues"]]
    if any(is_of_this_version(worker) for worker in takers):
        return None
    if takers:
        return f"in line (queue {queue}), but {of_other_versions(takers)}"
    there = "no worker is there to take it" if not workers else f"none of the {len(workers)} workers takes this queue"
    return f"in line (queue {queue}), but {there}; start one with: ropewalk worker"


def is_of_this_version(worker: WorkerRow) -> bool:
    """Return True if the worker takes runs that this version of Ropewalk has queued."""
    return bool(worker.about.get("version") == code_version())


def of_other_versions(workers: Iterable[WorkerRow]) -> str:
    """Say that these workers belong to other major versions, and what to do about it."""
    versions = sorted({str(worker.about.get("version")).removeprefix(f"{APPLICATION}-") for worker in workers})
    ours = code_version().removeprefix(f"{APPLICATION}-")
    return (
        f"its workers run Ropewalk {', '.join(f'{version}.x' for version in versions)} and this is {ours}.x:"
        " workers take only runs of their own major version; start workers of this version"
    )


def _limits(queue: Queue) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if queue.concurrency is not None:
        found["global_concurrency"] = queue.concurrency
    if queue.worker_concurrency is not None:
        found["worker_concurrency"] = queue.worker_concurrency
    if queue.limit is not None:
        found["limiter"] = {"limit": queue.limit, "period": queue.period}
    return found
