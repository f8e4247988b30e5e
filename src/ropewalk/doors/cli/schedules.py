"""`schedules ls|run|pause|resume`: runs that the clock starts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from .answer import Answer
from .interrupts import Interrupts
from .options import Json, Project, StoreAddress
from .session import with_app
from .table import columns

if TYPE_CHECKING:
    from pathlib import Path

    from ...app import App
    from ...workers.schedules import Schedules


def ls(*, json: Json = False, store: StoreAddress = None, project: Project = None) -> Answer:
    """List the schedules of a store."""

    async def work(app: App, _: Interrupts) -> Answer:
        rows = await asyncio.to_thread(lambda: app.schedules.list())
        data = [
            {
                "name": row.name,
                "cron": row.cron,
                "timezone": row.timezone,
                "flow": row.flow,
                "input": row.input,
                "paused": row.paused,
                "last": row.last.isoformat() if row.last else None,
                "status": row.status,
                "next": row.next.isoformat() if row.next else None,
                "catchUp": row.catch_up,
                "missed": [{"due": _time(one.due), "became": one.became, "run": one.run} for one in row.missed],
            }
            for row in rows
        ]
        table = [
            (
                d["name"],
                d["cron"],
                d["timezone"],
                d["flow"],
                d["last"] or "-",
                _became(d),
                d["next"] or "paused",
                _missed(d),
            )
            for d in data
        ]
        head = ("NAME", "CRON", "TIMEZONE", "FLOW", "LAST DUE", "ITS RUN", "NEXT", "MISSED")
        return Answer(data=data, text=columns(head, table) if rows else "no schedules")

    return with_app(work, project=project, store=store, tools=False)


def _became(told: dict[str, Any]) -> str:
    """What became of it when it was last due."""
    return told["status"] or ("no run" if told["last"] else "-")


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _missed(schedule: dict[str, Any]) -> str:
    """Count the missed due times by what became of them, with the latest one."""
    missed = schedule["missed"]
    if not missed:
        return "-"
    counts = Counter(one["became"] for one in missed)
    return f"{', '.join(f'{n} {became}' for became, n in counts.items())}; last {missed[-1]['due']}"


def run(name: str, /, *, json: Json = False, store: StoreAddress = None, project: Project = None) -> Answer:
    """Put the run of a schedule in line now, also when it is paused, and print its id."""

    async def work(app: App, _: Interrupts) -> Answer:
        run_id = await app.schedules.run(name)
        said = await asyncio.to_thread(app.workers.unattended, run_id)
        lines = [f"started {run_id}", *([f"it is {said}"] if said else [])]
        return Answer(data={"schedule": name, "done": "started", "runId": run_id}, text="\n".join(lines))

    return with_app(work, project=project, store=store, engine="dbos")


def pause(name: str, /, *, json: Json = False, store: StoreAddress = None, project: Project = None) -> Answer:
    """Start nothing by this schedule for now."""
    return _done(name, "paused", lambda schedules: schedules.pause, store, project)


def resume(name: str, /, *, json: Json = False, store: StoreAddress = None, project: Project = None) -> Answer:
    """Go on with a schedule, from its next time on."""
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
