"""`worker`, `workers ls`, `runs release`: executing what waits in the store, and looking after it.

`schedules ls|run|pause|resume`: runs that the clock starts.
"""

from __future__ import annotations

import asyncio
import shlex
import signal
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter, validators

from ...app.presenters import run_state, schedule_line, worker_line
from ...app.recorded_run import require_run
from ...app.runs.recovery import recovering
from ...config.project import read_config
from ...journal.address import MissingStore, is_postgres
from .dispatch import Answer
from .options import Json, Log, LogLevel, Project, StoreAddress, read_seconds
from .output import columns, configure_logging, duration, moment, notify, notify_failed_runs
from .session import Interrupts, directory, store_options, with_app

if TYPE_CHECKING:
    from pathlib import Path

    from ...app.app import App
    from ...workers.local_worker import LocalWorker
    from ...workers.schedules import ScheduleRow, Schedules
    from ...workers.worker import Worker


def worker(
    *,
    concurrency: Annotated[
        int | None,
        Parameter(
            validator=validators.Number(gte=1), help="Maximum number of runs at once (default: [workers] concurrency)."
        ),
    ] = None,
    queue: Annotated[
        tuple[str, ...],
        Parameter(consume_multiple=1, negative=(), help="Execute only runs of these queues (default: all)."),
    ] = (),
    grace: Annotated[
        float | None,
        Parameter(
            converter=read_seconds,
            validator=validators.Number(gte=0),
            help="Seconds, or a duration such as 1m, that runs get to finish after SIGTERM (default: 30).",
        ),
    ] = None,
    log: Log = "text",
    log_level: LogLevel = None,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Start a worker: execute queued runs, and start those of schedules, until SIGTERM or Ctrl-C.

    After the first signal the worker takes no more runs. It exits when its runs have finished, or after --grace
    seconds; other workers then continue them. A second signal ends it at once.
    """

    async def work(app: App, interrupts: Interrupts) -> Answer:
        interrupts.remove()
        notify_failed_runs(app)

        def started(worker: Worker | LocalWorker) -> None:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, worker.stop)
            notify(f"worker {worker.id} takes runs")

        from .unusable_parts import UnusableParts  # its imports are for this command only

        async with recovering(app), UnusableParts(app).watching(connect=True):
            await app.workers.serve(concurrency=concurrency, queues=queue, grace=grace, started=started)
        return Answer()

    configure_logging(log, log_level)
    return with_app(work, project=project, store=store, engine=_queueing_engine(project, store))


def _queueing_engine(project: Path | None, store: str | None) -> Literal["dbos"] | None:
    """Return the engine that executes queued runs: DBOS in a store on Postgres, whatever the settings say."""
    address = store or read_config(directory(None, project)).store
    return "dbos" if isinstance(address, str) and is_postgres(address) else None


def ls(*, json: Json = False, store: StoreAddress = None, project: Project = None) -> Answer:
    """List the workers of a store, oldest first."""

    async def work(app: App, _: Interrupts) -> Answer:
        data = [] if _is_not_made(app) else list(map(worker_line, await asyncio.to_thread(app.workers.list)))
        table = [
            (d["id"], moment(d["began"]), duration(d["silent"]), d["concurrency"], ", ".join(d["queues"])) for d in data
        ]
        head = ("ID", "SINCE", "SILENT FOR", "RUNS AT ONCE", "QUEUES")
        return Answer(data=data, text=columns(head, table) if data else _NO_WORKERS)

    return with_app(work, project=project, store=store, tools=False)


def release(run_id: str, /, *, json: Json = False, store: StoreAddress = None, project: Project = None) -> Answer:
    """Release a parked run so that a worker can continue it."""

    async def work(app: App, _: Interrupts) -> Answer:
        row = require_run(app.store, run_id)
        await asyncio.to_thread(app.workers.release, run_id)
        return Answer(data=run_state(app.context, row, status="running"), text=f"released {run_id}")

    return with_app(work, project=project, store=store, tools=False)


def list_schedules(*, json: Json = False, store: StoreAddress = None, project: Project = None) -> Answer:
    """List the schedules of a store, and those of ropewalk.toml that no worker has stored yet."""

    async def work(app: App, _: Interrupts) -> Answer:
        data = list(map(schedule_line, await asyncio.to_thread(_all_schedules, app, project)))
        has_errors = any(d["error"] for d in data)
        # The table is made of the same objects as --json, so that the two agree.
        table = [
            (
                d["name"],
                d["cron"],
                d["timezone"],
                d["flow"],
                d["last"] or "-",
                _run_text(d),
                d["next"] or ("paused" if d["paused"] else "-"),
                _missed(d),
                *([(d["error"] or "-").partition("\n")[0]] if has_errors else []),
            )
            for d in data
        ]
        head = ("NAME", "CRON", "TIMEZONE", "FLOW", "LAST DUE", "ITS RUN", "NEXT", "MISSED", *["ERROR"] * has_errors)
        return Answer(data=data, text=columns(head, table) if data else _NO_SCHEDULES)

    return with_app(work, project=project, store=store, tools=False)


_NO_WORKERS: Final = "no workers; to start one: ropewalk worker (or ropewalk serve, which also executes queued runs)"
_NO_SCHEDULES: Final = (
    'no schedules; to add one, write [schedules.NAME] with cron = "0 9 * * *" and flow in ropewalk.toml'
)


def _is_not_made(app: App) -> bool:
    """Return True if the store of the project does not exist yet; a store that the user names must exist."""
    return isinstance(app.store, MissingStore) and not app.store.is_explicit


def _all_schedules(app: App, project: Path | None) -> list[ScheduleRow]:
    """Return the schedules of the store and of ropewalk.toml, by name."""
    from ...workers.schedules import configured_row, with_faults

    configured = read_config(directory(None, project)).worker_settings.schedules
    stored = (
        {}
        if _is_not_made(app) or (configured and isinstance(app.store, MissingStore))
        else {row.name: row for row in app.schedules.list()}
    )
    new = {name: configured_row(name, schedule) for name, schedule in configured.items()}
    # No worker stores those whose times are wrong.
    return sorted({**new, **with_faults({}, configured), **stored}.values(), key=lambda row: row.name)


def _run_text(report: dict[str, Any]) -> str:
    """Return the status of the run that was last due."""
    return report["status"] or ("no run" if report["last"] else "-")


def _missed(schedule: dict[str, Any]) -> str:
    """Count the missed due times by what became of them, with the latest one."""
    missed = schedule["missed"]
    if not missed:
        return "-"
    counts = Counter(item["became"] for item in missed)
    return f"{', '.join(f'{n} {became}' for became, n in counts.items())}; last {missed[-1]['due']}"


def run(name: str, /, *, json: Json = False, store: StoreAddress = None, project: Project = None) -> Answer:
    """Queue the run of a schedule now, even if the schedule is paused, and print its id."""

    async def work(app: App, _: Interrupts) -> Answer:
        run_id = await app.schedules.run(name)
        message = await asyncio.to_thread(app.workers.unattended, run_id)
        watch = f"to follow it: ropewalk runs watch {shlex.quote(run_id)}{store_options(store, project)}"
        lines = [f"started {run_id}", f"it is {message}" if message else watch]
        return Answer(data={"schedule": name, "done": "started", "runId": run_id}, text="\n".join(lines))

    return with_app(work, project=project, store=store, engine=_queueing_engine(project, store))


def pause(name: str, /, *, json: Json = False, store: StoreAddress = None, project: Project = None) -> Answer:
    """Pause a schedule."""
    return _done(name, "paused", lambda schedules: schedules.pause, store, project)


def resume(name: str, /, *, json: Json = False, store: StoreAddress = None, project: Project = None) -> Answer:
    """Resume a paused schedule from its next due time."""
    return _done(name, "resumed", lambda schedules: schedules.resume, store, project)


def _done(
    name: str,
    what: str,
    way: Callable[[Schedules], Callable[[str], None]],
    store: str | None,
    project: Path | None,
) -> Answer:
    async def work(app: App, _: Interrupts) -> Answer:
        await asyncio.to_thread(lambda: way(app.schedules)(name))
        return Answer(data={"schedule": name, "done": what}, text=f"{what} {name}")

    return with_app(work, project=project, store=store, tools=False)
