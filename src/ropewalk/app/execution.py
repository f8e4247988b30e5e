"""Start a run of a loaded definition or call one tool, and read the ending of an earlier run.

`App.run`, `App.execute` and `App.call_tool` delegate to these functions. Refused here: reading definitions, and the
queues of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from ..errors import DefinitionChanged
from ..events import Event
from ..journal.address import run_sync_in_thread
from ..journal.protocol import Store
from ..tools.bound_call import checked_args
from ..values import Json
from .preflight import check_variables

if TYPE_CHECKING:
    from ..tools.runner import Runner
    from .context import Context
    from .current import JobOptions
    from .jobs import Jobs
    from .prepared import Prepared


async def prepare_run(
    context: Context,
    loaded: Prepared,
    run_id: str | None,
    variables: Mapping[str, Json] | None,
    concurrency: int | None,
    state: Mapping[str, Json] | None,
    keep_state: bool,
) -> tuple[Prepared, Mapping[str, Json] | None]:
    """Apply the options of `App.run` that change the definition or its variables."""
    if concurrency is not None:
        loaded = context.definitions.get(loaded.with_concurrency(concurrency), loaded.file, loaded.root)
    if loaded.compiled.local:
        from .directories import seeded

        variables = await seeded(context.store, loaded, {**(state or {}), **(variables or {})}, keep_state, run_id)
    check_variables(loaded.flow, variables or {})
    return loaded, variables


async def call_tool(
    jobs: Jobs,
    runner: Runner,
    tool_id: str,
    args: dict[str, Json] | None,
    on_progress: Any,
    request: str | None,
) -> Json:
    """Call one tool as `App.call_tool` documents it."""
    toolbox = jobs.context.toolbox
    await jobs.offer_saved_plan(tool_id)
    if toolbox.is_missing(tool_id):
        await toolbox.connect_for([tool_id])
    bound = runner.bind(tool_id)
    with runner.teaching(tool_id, request):
        return await bound.call(checked_args(tool_id, bound, args), None, None, on_progress)


async def execute(
    context: Context, jobs: Jobs, loaded: Prepared, *, park: bool = False, **options: Unpack[JobOptions]
) -> dict[str, Json]:
    """Check and run a definition."""
    job = await jobs.new(loaded, **options)
    job.park = park
    try:
        result = await context.engine.run(job)
    except DefinitionChanged as exc:
        from .runs.upgrade import with_differences

        raise with_differences(context, exc, options.get("run_id"), loaded) from None
    await context.selection.learn(job, result)
    return result


async def recorded_ending(store: Store, run_id: str) -> dict[str, Any]:
    """Return the result of an earlier run that ended without one: its id and its status."""
    row = await run_sync_in_thread(store, lambda: store.get_run(run_id))
    return {"executionId": run_id, "success": False, "status": row.status if row else "stopped"}


async def after_run(jobs: Jobs, run_id: str, watcher: Callable[[Event], None] | None) -> Json:
    """Undo a run that has ended without success, if its policy is "on_failure"."""
    from .runs.undo import undo_by_policy  # only runs with a policy need it

    return await undo_by_policy(jobs, run_id, watcher)
