"""`runs export`: a run as a file, all that is recorded of it or a case for `ropewalk test`."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
from cyclopts import Parameter

from ...journal.journal import ENDS
from .answer import Answer
from .exits import UsageError
from .files import saved
from .interrupts import Interrupts
from .options import Json, Project, StoreAddress
from .replay import in_quick_time, written
from .session import unknown_run, with_app, without_tools

if TYPE_CHECKING:
    from ...app import App

_FROM_OUTSIDE: Final = ("stopped", "parked")


def export(
    run_id: str,
    /,
    *,
    as_test: Annotated[
        bool, Parameter(negative=(), help="A case for `ropewalk test`: what its tools gave, and how it ended.")
    ] = False,
    flow: Annotated[
        Path | None, Parameter(help="With --as-test: the definition's file; else the case holds the definition itself.")
    ] = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="Write it to this file.")] = None,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Print everything recorded of a run and its parts as one JSON object; of secrets, only their names."""
    if as_test:
        return _case(run_id, flow=flow, output=output, store=store, project=project)
    if flow is not None:
        raise UsageError("--flow goes with --as-test")

    async def work(app: App, _: Interrupts) -> Answer:
        if app.runs.row(run_id) is None:
            raise unknown_run(app, run_id)
        data = app.runs.export(run_id)
        text = orjson.dumps(data, option=orjson.OPT_INDENT_2).decode()
        return Answer(data=data, text=text if output is None else saved(output, text + "\n"))

    return with_app(work, project=project, store=store, tools=False)


def _case(run_id: str, *, flow: Path | None, output: Path | None, store: str | None, project: Path | None) -> Answer:
    """A run of the store as a case."""
    beside = output.parent if output is not None else Path()
    named = os.path.relpath(flow, beside) if flow is not None else None

    async def work(app: App) -> dict[str, Any]:
        from ...testing.recording import case_of

        row = app.runs.row(run_id)
        if row is None:
            raise unknown_run(app, run_id)
        if row.status not in ENDS:
            raise UsageError(f"run {run_id} is {row.status}; a case is made of a run that has ended")
        if row.status in _FROM_OUTSIDE:
            why = f"run {run_id} makes no case: it was ended from outside ({row.status}), which no test does again"
            retry = f"; `ropewalk runs retry {quote(run_id)}` goes on with it to an end of its own"
            raise UsageError(why + (retry if row.status == "stopped" else ""))
        loaded = app.definitions.loaded({**row.document, "kind": row.kind}, root=(row.context or {}).get("root"))
        return await case_of(row, app.runs.history(run_id), loaded, named or {"kind": row.kind, **row.document})

    case = in_quick_time(work, lambda: without_tools(project, store))
    text = written(output or Path("case.yaml"), case)
    return Answer(data=case, text=text if output is None else saved(output, text))
