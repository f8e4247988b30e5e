"""Resume a run that exists: with its own definition, or with a changed one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import PartOfRun
from ..journal.address import run_sync_in_thread
from ..journal.protocol import ENDS
from ..notations.records import Outcome, outcome
from .first_design import is_of_first_design
from .recorded_run import outermost, require_run

if TYPE_CHECKING:
    from .jobs import Jobs
    from .prepared import Source
    from .start import Start


async def resume_run(jobs: Jobs, run_id: str, source: Source | None, upgrade: bool, start: Start) -> Outcome:
    """Resume a run as `App.resume` documents it."""
    context, store = jobs.context, jobs.context.store
    row = await run_sync_in_thread(store, lambda: require_run(store, run_id))
    if row.parent is not None and row.status not in ENDS:
        raise PartOfRun(run_id, (await run_sync_in_thread(store, lambda: outermost(store, row))).id)
    if row.status in ENDS:
        from .runs.simulate import ended_result

        result: Any = await ended_result(jobs, row)
        return outcome({**(result or {}), "status": row.status, "executionId": run_id}, row.kind)
    if await run_sync_in_thread(store, lambda: is_of_first_design(context, row)):
        return await jobs.correct(row, start)
    if source is not None or upgrade:
        from .runs.upgrade import resume

        return outcome(await resume(jobs, row, source, upgrade, start), row.kind)
    job = await jobs.for_existing(row, start)
    return outcome(await jobs.continue_run(job, await store.reopen(run_id)), row.kind)
