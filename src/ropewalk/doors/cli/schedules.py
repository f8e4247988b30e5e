"""`schedules ls|run|pause|resume`: runs that the clock starts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

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
                "next": row.next.isoformat() if row.next else None,
            }
            for row in rows
        ]
        table = [
            (d["name"], d["cron"], d["timezone"], d["flow"], d["last"] or "-", d["next"] or "paused") for d in data
        ]
        head = ("NAME", "CRON", "TIMEZONE", "FLOW", "LAST", "NEXT")
        return Answer(data=data, text=columns(head, table) if rows else "no schedules")

    return with_app(work, project=project, store=store, tools=False)


def run(name: str, /, *, json: Json = False, store: StoreAddress = None, project: Project = None) -> Answer:
    """Start what a schedule starts, now, also when it is paused."""
    return _done(name, "started", lambda schedules: schedules.run, store, project)


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
