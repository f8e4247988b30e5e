"""The overview and the schedules over HTTP."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

from fastapi import APIRouter, Path, Query

from ...app.duty import list_schedules, overview
from ...app.presenters import overview_data, schedule_line
from ...errors import InvalidValue
from ..errors import error_payload
from ..remedies import Door
from . import models
from .errors import Answer, Route, Served

_DAY = 86_400.0  # seconds
_MAX_PERIODS = 366

router = APIRouter(prefix="/api", route_class=Route, default_response_class=Answer)
ScheduleName = Annotated[str, Path(max_length=500, description="The name of the schedule.")]


@router.get("/overview", tags=["runs"], summary="Get an overview", response_model=models.Overview)
def get_overview(
    app: Served,
    since: models.Since = None,
    until: models.Until = None,
    periods: Annotated[int, Query(ge=1, le=_MAX_PERIODS, description="Number of periods of equal length.")] = 24,
) -> Answer:
    """Return the runs of a time by period, status and definition, their failures, and what is in progress now.

    Default: the last 24 hours. Runs that are part of another run do not count.
    """
    end = models.instant("until", until)
    end = time.time() if end is None else end
    start = models.instant("since", since)
    start = end - _DAY if start is None else start
    if start >= end:
        raise InvalidValue("query.since", "must be before `until`")
    return Answer(overview_data(overview(app, start, end, periods)))


@router.get("/schedules", tags=["schedules"], summary="List schedules", response_model=models.ScheduleList)
def ls(app: Served) -> Answer:
    """List the schedules of the store, by name. `unavailable` is the reason if this server cannot change them."""
    found = list_schedules(app)
    reason = None if found.unavailable is None else error_payload(found.unavailable, Door.HTTP)["error"]["message"]
    return Answer({"schedules": list(map(schedule_line, found.rows)), "idle": list(found.idle), "unavailable": reason})


@router.post(
    "/schedules/{name:path}/run", tags=["schedules"], summary="Start a schedule", response_model=models.ScheduleChanged
)
async def run(name: ScheduleName, app: Served) -> Answer:
    """Queue a run of a schedule now, also while the schedule is paused."""
    run_id = await app.schedules.run(name)
    unattended = await asyncio.to_thread(app.workers.unattended, run_id)
    return Answer({"schedule": name, "done": "started", "runId": run_id, "unattended": unattended})


@router.post(
    "/schedules/{name:path}/pause",
    tags=["schedules"],
    summary="Pause a schedule",
    response_model=models.ScheduleChanged,
)
def pause(name: ScheduleName, app: Served) -> Answer:
    """Pause a schedule: it starts no runs until it is resumed."""
    app.schedules.pause(name)
    return Answer({"schedule": name, "done": "paused"})


@router.post(
    "/schedules/{name:path}/resume",
    tags=["schedules"],
    summary="Resume a schedule",
    response_model=models.ScheduleChanged,
)
def resume(name: ScheduleName, app: Served) -> Answer:
    """Resume a paused schedule from its next due time."""
    app.schedules.resume(name)
    return Answer({"schedule": name, "done": "resumed"})
