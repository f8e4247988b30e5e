"""Resume a run that exists: with its own definition, or with a changed one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import PartOfRun
from ..journal.address import run_sync_in_thread
from ..journal.protocol import ENDS
from ..notations.records import Outcome, outcome
from .first_design import is_of_first_design
from .recorded_run import require_run

if TYPE_CHECKING:
    from .app import App
    from .prepared import Source
    from .start import Start


async def resume_run(app: App, run_id: str, source: Source | None, upgrade: bool, start: Start) -> Outcome:
    """Resume a run as `App.resume` documents it."""
    row = await run_sync_in_thread(app.store, lambda: require_run(app.store, run_id))
    if row.parent is not None and row.status not in ENDS:
        raise PartOfRun(run_id, await run_sync_in_thread(app.store, lambda: app.runs.outermost(run_id)))
    if row.status in ENDS:
        result = await app.runs.ended(row)
        return outcome({**(result or {}), "status": row.status, "executionId": run_id}, row.kind)
    if await run_sync_in_thread(app.store, lambda: is_of_first_design(app.context, row)):
        return await app.plans.outcome_of_correction(row, start)
    if source is not None or upgrade:
        from .runs.upgrade import resume

        return outcome(await resume(app.jobs, row, source, upgrade, start), row.kind)
    job = await app.jobs.for_existing(row, start)
    return outcome(await app.jobs.continue_run(job, await app.store.reopen(run_id)), row.kind)
