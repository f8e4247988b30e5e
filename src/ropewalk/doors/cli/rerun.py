"""`runs retry`: going on with what has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ...events import Event
from .answer import Answer
from .options import Json, Project, StoreAddress, Watch
from .run import followed
from .session import unknown_run, with_app

if TYPE_CHECKING:
    from ...app import App


def retry(
    run_id: str,
    /,
    *,
    from_: Annotated[
        tuple[str, ...],
        Parameter(
            name="--from", negative=(), help="Run this node again, and what depends on it: an id or a path; repeatable."
        ),
    ] = (),
    json: Json = False,
    store: StoreAddress = None,
    watch: Watch = False,
    project: Project = None,
) -> Answer:
    """Go on with a run that failed, was stopped or ran out of time: what failed runs again, the rest is kept."""

    async def start(app: App, on_event: Callable[[Event], None]) -> Any:
        if app.store.get_run(run_id) is None:
            raise unknown_run(app, run_id)
        return await app.runs.retry(run_id, from_, on_event=on_event)

    return with_app(followed(start, quiet=json, watch=watch), run=run_id, project=project, store=store)
