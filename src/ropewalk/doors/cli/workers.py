"""`worker`, `workers ls`, `runs release`: executing what waits in the store, and looking after it."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from .answer import Answer
from .interrupts import Interrupts
from .logs import tell
from .options import Json, Log, LogLevel, Project, StoreAddress
from .session import unknown_run, with_app
from .table import columns, duration, moment

if TYPE_CHECKING:
    from ...app import App
    from ...workers.worker import Worker


def worker(
    *,
    concurrency: Annotated[
        int | None,
        Parameter(validator=validators.Number(gte=1), help="Runs at once, at most (default: [workers] concurrency)."),
    ] = None,
    queues: Annotated[
        tuple[str, ...],
        Parameter(name="--queues", consume_multiple=True, negative=(), help="Only runs of these queues."),
    ] = (),
    grace: Annotated[
        float | None,
        Parameter(validator=validators.Number(gte=0), help="Seconds for runs to end in after SIGTERM (default: 30)."),
    ] = None,
    log: Log = "text",
    log_level: LogLevel = None,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Take runs from the queues of a store in Postgres and execute them, until SIGTERM or Ctrl-C.

    The first signal ends it when its runs have ended, or after the grace, when others go on with them; a second one
    at once.
    """

    async def work(app: App, interrupts: Interrupts) -> Answer:
        interrupts.remove()

        def started(made: Worker) -> None:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, made.stop)
            tell(f"worker {made.id} takes runs")

        await app.workers.serve(concurrency=concurrency, queues=queues, grace=grace, started=started)
        return Answer()

    return with_app(work, project=project, store=store, engine="dbos", log=log, log_level=log_level)


def ls(*, json: Json = False, store: StoreAddress = None, project: Project = None) -> Answer:
    """List the workers of a store, the oldest first."""

    async def work(app: App, _: Interrupts) -> Answer:
        rows = await asyncio.to_thread(app.workers.list)
        table = [
            (r.id, moment(r.began), duration(r.silent), r.about["concurrency"], ", ".join(r.about["queues"]))
            for r in rows
        ]
        data = [{"id": r.id, "began": r.began, "silent": r.silent, **r.about} for r in rows]
        head = ("ID", "SINCE", "SILENT FOR", "RUNS AT ONCE", "QUEUES")
        return Answer(data=data, text=columns(head, table) if rows else "no workers")

    return with_app(work, project=project, store=store, tools=False)


def release(run_id: str, /, *, json: Json = False, store: StoreAddress = None, project: Project = None) -> Answer:
    """Set a parked run free: workers take it from where it was."""

    async def work(app: App, _: Interrupts) -> Answer:
        if app.store.get_run(run_id) is None:
            raise unknown_run(app, run_id)
        await asyncio.to_thread(app.workers.release, run_id)
        return Answer(data={"runId": run_id, "status": "running"}, text=f"released {run_id}")

    return with_app(work, project=project, store=store, tools=False)
