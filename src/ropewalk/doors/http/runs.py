"""Runs over HTTP: start, list, look at, follow, stop."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
from fastapi import APIRouter, Depends, Header, Path, Query, Request
from pydantic import Field
from sse_starlette import EventSourceResponse, ServerSentEvent

from ...app import App
from ...dialects.notation import VALUE_NAMES
from ...draw import graph_data
from ...engine.again import check_same
from ...engine.engine import check_run_id, new_run_id
from ...errors import InvalidValue, NotFound
from ...fitting import check_input, check_variables
from ...journal.journal import ENDS, RunRow
from ...journal.journal import NewRun as Begun
from ...runs import summary, told
from ...values import Json, check_json, closest
from . import shapes
from .answers import Answer, Files, Route, Served, patiently
from .flow_files import FILE, FlowFiles
from .given import Asked, Definition, Document, loaded_of, size_of
from .live import Live, Start

if TYPE_CHECKING:
    from ...app import App


def _going(request: Request) -> Live:
    return request.app.state.live  # type: ignore[no-any-return]


Going = Annotated[Live, Depends(_going)]
RunId = Annotated[str, Path(max_length=500, description="The run's id.")]
_ALIKE = 200
_MOST_MESSAGE = 300


class Awaited(Asked):
    """What is started here goes on by itself; its result may be waited for."""

    wait: float = Field(0, ge=0, le=60, description="Seconds to wait for the result.")


class NewRun(Awaited):
    """What to run, and with what: a stored definition, or a document."""

    definition: Definition | None = None
    document: Document | None = None
    input: Any = None
    variables: dict[str, Any] | None = None
    run_id: str | None = Field(None, alias="runId", min_length=1, max_length=500, description="The same id runs once.")


EXECUTED: Final[dict[str, Any]] = {
    "status_code": 202,
    "response_model": shapes.Begun,
    "response_description": "It has begun",
    "responses": {200: {"model": shapes.Result, "description": "How it ended, or how it stands"}},
}
"""What a route answers that has a run executed."""
STREAM: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"text/event-stream": {}}}}

router = APIRouter(prefix="/api/runs", tags=["runs"], route_class=Route, default_response_class=Answer)


def own_id(given: str | None) -> str:
    """The id of a new run: the one that is given, or a new one."""
    check_run_id(given, "body.runId")
    return given or new_run_id()


def known(app: App, run_id: str) -> RunRow:
    row = app.runs.row(run_id)
    if row is None:
        raise NotFound("run", run_id, suggestion=closest(run_id, (r.id for r in app.runs.list(limit=_ALIKE))))
    return row


@router.post("", summary="Start a run", **EXECUTED)
async def start(given: NewRun, app: Served, files: Files, live: Going) -> Answer:
    """202 as soon as it has begun; 200 with its result when it ends within `wait` seconds. An id that has run is
    answered 200, with the result of before."""
    size = size_of(given.document)
    loaded, id = await patiently(size, lambda: loaded_of(app, files, given.definition, given.document))
    run_id = own_id(given.run_id)
    variables = check_json(given.variables, "variables") if given.variables is not None else None
    check_variables(loaded.flow, variables or {})
    row = app.runs.row(run_id)
    while row is None and live.holds(run_id):  # somebody else has just sent the same
        await live.begun(run_id)
        row = app.runs.row(run_id)
    if row is not None:
        about = {"input": check_input(loaded.flow, given.input), "context": {"variables": variables}}
        check_same(row, Begun(id=run_id, kind=loaded.kind, fingerprint=loaded.fingerprint, **about))
        return Answer(await _again(app, live, row, given.wait), 200)
    work = {"definition_id": id, "run_id": run_id, "input": given.input, "variables": variables}
    return await set_going(live, run_id, given.wait, lambda take: app.execute(loaded, **work, on_event=take), new=True)


async def _again(app: App, live: Live, row: RunRow, wait: float) -> dict[str, Json]:
    """A run that is there already; with its result where it has ended, or does so within `wait` seconds."""
    if wait and row.status not in ENDS:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                async for _ in live.follow(row.id):
                    pass
        row = known(app, row.id)
    result = ended(row.result) if row.status in ENDS and isinstance(row.result, dict) else {}
    return {**result, "runId": row.id, "status": row.status, "new": False}


async def set_going(live: Live, run_id: str, wait: float, start: Start, **told: Json) -> Answer:
    """Have a run executed here: 202 as soon as it has begun, 200 with its result when it ends within `wait` seconds."""
    task = await live.start(run_id, start)
    if wait:
        done, _ = await asyncio.wait({task}, timeout=wait)
        if done:
            return Answer({"runId": run_id, **told, **ended(task.result())}, 200)
    return Answer({"runId": run_id, "status": "running", **told}, 202)


def ended(result: Mapping[str, Json]) -> dict[str, Json]:
    """Return a result in the words of its notation, without a second copy of the value as `result`."""
    return {name: result[name] for name in result if name != "result" or VALUE_NAMES.isdisjoint(result)}


@router.get("", summary="List runs", response_model=shapes.RunList)
def ls(
    app: Served,
    status: Annotated[str | None, Query(max_length=50)] = None,
    kind: Annotated[str | None, Query(max_length=50)] = None,
    definition: Annotated[str | None, Query(max_length=500, description="The id of a definition.")] = None,
    text: Annotated[str | None, Query(max_length=500, description="In id, name, definition or error.")] = None,
    since: Annotated[
        str | None, Query(max_length=50, description="Seconds since the epoch, or 2026-11-01T12:30:00Z (else UTC).")
    ] = None,
    all: Annotated[bool, Query(description="Also those that are part of another.")] = False,
    after: Annotated[
        str | None, Query(max_length=500, description="The id of a run: the list goes on behind it.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> Answer:
    """Runs, newest first, without their results."""
    given = {"status": status, "kind": kind, "definition_id": definition, "text": text, "after": after}
    for name, value in given.items():
        check_json(value, name)
    if after is not None:
        known(app, after)
    rows = app.runs.list(
        status=status,
        kind=kind,
        definition_id=definition,
        text=text,
        since=_instant(since),
        after=after,
        all=all,
        limit=limit,
    )
    standing = app.runs.standing(rows)
    lines = []
    for row in rows:
        about = {**told(standing.get(row.id)), "errorMessage": _message(row)}
        lines.append({**summary(row, app.runs.current(row)), **about})
    return Answer({"runs": lines})


def _message(row: RunRow) -> str | None:
    """What its error says, as much of it as fits into a line of a list."""
    said = row.error.get("message") if isinstance(row.error, dict) else row.error
    return None if said is None else str(said)[:_MOST_MESSAGE]


@router.get("/{run_id:path}/graph", summary="Get the graph of a run", response_model=shapes.Graph)
def graph(run_id: RunId, app: Served) -> Answer:
    """The graph of the definition that the run was started with."""
    row = known(app, run_id)
    return Answer(graph_data(app.definitions.loaded({**(row.document or {}), "kind": row.kind}).flow))


@router.get("/{run_id:path}/arguments", summary="Get the arguments of calls", response_model=shapes.CallArguments)
async def arguments(
    run_id: RunId, app: Served, node: Annotated[str, Query(max_length=2000, description="Its path, with rounds.")] = ""
) -> Answer:
    """What calls of a run were given, by path: that of one node, or all. No tool is called to find out."""
    # In a loop of its own: a large run takes a moment.
    found = await asyncio.to_thread(lambda: asyncio.run(_arguments(app, run_id)))
    return Answer({"arguments": {path: args for path, args in found.items() if node in ("", path)}})


@router.get("/{run_id:path}/events", summary="Follow a run", response_class=EventSourceResponse, responses=STREAM)
async def events(
    run_id: RunId,
    app: Served,
    live: Going,
    last_event_id: Annotated[str, Header(max_length=50)] = "",
    after: Annotated[str, Query(max_length=50)] = "",
) -> EventSourceResponse:
    """Its events so far and as they come, as server-sent events; `Last-Event-ID` (or `after`) goes on
    behind an event."""
    known(app, run_id)
    return EventSourceResponse(_sent(live, run_id, last_event_id or after), ping=15)


@router.post("/{run_id:path}/stop", summary="Stop a run", response_model=shapes.Stopped)
def stop(run_id: RunId, app: Served) -> Answer:
    """Stop it, in whatever process it runs."""
    known(app, run_id)
    stopped = app.runs.stop(run_id)
    return Answer({"runId": run_id, "stopped": stopped, "status": known(app, run_id).status})


# The last, as an id may have slashes in it: that of a part of another run has.
@router.get("/{run_id:path}", summary="Get a run", response_model=shapes.Run)
def get(
    run_id: RunId,
    app: Served,
    files: Files,
    events: Annotated[bool, Query(description="Its events, too, which say the same as `nodes`.")] = True,
    limit: Annotated[int | None, Query(ge=1, le=10_000, description="Steps of a page (default: all).")] = None,
    after: Annotated[int, Query(ge=0, le=2**63 - 1, description="The next page: `next` of the page before it.")] = 0,
) -> Answer:
    """One run with every recorded step, or with one page of them."""
    row = known(app, run_id)
    told = app.runs.get(run_id, events=events, after=after, limit=limit)
    return Answer({**told, "definition": _definition(row, files)} if told is not None else known(app, run_id))


def _definition(row: RunRow, files: FlowFiles) -> dict[str, Json] | None:
    """Under which kind and id the definition of a run is listed."""
    context = row.context or {}
    file = files.id_of(context.get("root") or context.get("file"))
    if file is not None:
        return {"kind": FILE, "id": file}
    stored = row.definition_id is not None and "file" not in context
    return {"kind": row.kind, "id": row.definition_id} if stored else None


def _instant(since: str | None) -> float | None:
    if since is None:
        return None
    try:
        at = float(since)
    except ValueError:
        try:
            at = (time if (time := datetime.fromisoformat(since)).tzinfo else time.replace(tzinfo=UTC)).timestamp()
        except ValueError:
            at = math.nan
    if not math.isfinite(at):
        raise InvalidValue("query.since", f"{since!r} is no time: seconds since the epoch, or 2026-11-01T12:30:00Z")
    return at


async def _arguments(app: App, run_id: str) -> Mapping[str, Json]:
    return await app.runs.arguments(run_id)


async def _sent(live: Live, run_id: str, last: str) -> AsyncIterator[ServerSentEvent]:
    async for id, event in live.follow(run_id, last):
        yield ServerSentEvent(data=orjson.dumps(event.to_dict()).decode(), event=event.kind, id=id)
    yield ServerSentEvent(data="{}", event="end")
