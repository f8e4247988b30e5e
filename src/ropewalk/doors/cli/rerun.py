"""`runs retry` and `runs fork`: going on with what has ended, and beginning anew from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ...events import Event
from .answer import Answer
from .given import read_input, read_pairs
from .options import Engine, Input, Json, Project, StoreAddress, Upgrade, Watch
from .run import followed
from .session import unknown_run, with_app
from .waiting import Wait, again

if TYPE_CHECKING:
    from ...app import App


def accepted_results(given: tuple[str, ...]) -> dict[str, Any]:
    """Read `--accept NODE` and `--accept NODE=JSON`: by node the result to use, or RECORDED."""
    from ...runs.accept import RECORDED

    values = read_pairs([one for one in given if "=" in one], "--accept")
    return {**dict.fromkeys((one for one in given if "=" not in one), RECORDED), **values}


def retry(
    run_id: str,
    source: Path | None = None,
    /,
    *,
    upgrade: Upgrade = False,
    from_: Annotated[
        tuple[str, ...],
        Parameter(
            name="--from", negative=(), help="Run this node again, and what depends on it: an id or a path; repeatable."
        ),
    ] = (),
    accept: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(),
            help="Use this node's rejected result instead of calling its tool again: NODE, or NODE=JSON; repeatable.",
        ),
    ] = (),
    json: Json = False,
    store: StoreAddress = None,
    watch: Watch = False,
    engine: Engine = None,
    wait: Wait = False,
    project: Project = None,
) -> Answer:
    """Go on with a run that failed, was stopped or ran out of time: what failed runs again, the rest is kept.

    A tool that ran, but whose result was rejected, is called again unless you accept its result: --accept NODE."""
    taken = accepted_results(accept)

    async def start(app: App, on_event: Callable[[Event], None]) -> Any:
        if app.store.get_run(run_id) is None:
            raise unknown_run(app, run_id)
        return await app.runs.retry(
            run_id, from_, definition=source, upgrade=upgrade, on_event=on_event, park=not wait, accept=taken
        )

    work = followed(start, source=source, quiet=json, watch=watch, again=again(store, project), engine=engine)
    return with_app(work, run=run_id, project=project, store=store, engine=engine)


def fork(
    run_id: str,
    /,
    *,
    input: Input = None,
    definition: Annotated[Path | None, Parameter(help="A changed definition to run.")] = None,
    at: Annotated[
        tuple[str, ...],
        Parameter(negative=(), help="Run this node in any case, and what depends on it: an id or a path; repeatable."),
    ] = (),
    id: Annotated[str | None, Parameter(name="--id", help="The id of the new run.")] = None,
    json: Json = False,
    store: StoreAddress = None,
    watch: Watch = False,
    engine: Engine = None,
    wait: Wait = False,
    project: Project = None,
) -> Answer:
    """Start a new run from one of before. A recorded call is reused where it would have the same arguments."""
    given = {} if input is None else {"input": read_input(input)}

    async def start(app: App, on_event: Callable[[Event], None]) -> Any:
        if app.store.get_run(run_id) is None:
            raise unknown_run(app, run_id)
        return await app.runs.fork(
            run_id, **given, definition=definition, at=at, new_id=id, on_event=on_event, park=not wait
        )

    work = followed(start, source=definition, quiet=json, watch=watch, again=again(store, project), engine=engine)
    return with_app(work, run=run_id, project=project, store=store, engine=engine)
