"""Call one tool, read the ending of an earlier run, and undo a run that has failed.

`App.run` and `App.call_tool` delegate to these functions. Refused here: reading definitions, and the queues of workers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..events import Event
from ..journal.address import run_sync_in_thread
from ..journal.protocol import Store
from ..tools.bound_call import checked_args
from ..values import Json
from .start import Start

if TYPE_CHECKING:
    from ..tools.runner import Runner
    from .jobs import Jobs


async def call_tool(
    jobs: Jobs,
    runner: Runner,
    tool_id: str,
    args: dict[str, Json] | None,
    on_progress: Any,
    request: str | None,
) -> Json:
    """Call one tool as `App.call_tool` documents it."""
    await jobs.connect_tool(tool_id)
    bound = runner.bind(tool_id)
    with runner.teaching(tool_id, request):
        return await bound.call(checked_args(tool_id, bound, args), None, None, on_progress)


async def recorded_ending(store: Store, run_id: str) -> dict[str, Any]:
    """Return the result of an earlier run that ended without one: its id and its status."""
    row = await run_sync_in_thread(store, lambda: store.get_run(run_id))
    return {"executionId": run_id, "success": False, "status": row.status if row else "stopped"}


async def after_run(jobs: Jobs, run_id: str, watcher: Callable[[Event], None] | None) -> Json:
    """Undo a run that has ended without success, if its policy is "on_failure"."""
    from .runs.undo import undo_by_policy  # only runs with a policy need it

    return await undo_by_policy(jobs, run_id, Start(on_event=watcher))
