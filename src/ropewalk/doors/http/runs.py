"""Runs over HTTP: start, list, show, follow, stop, retry, resume, fork and answer them.

The content of runs: browsers show images and audio, and save everything else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

import orjson
from fastapi import APIRouter, Depends, Header, Path, Query, Request
from fastapi.responses import Response
from pydantic import Field
from sse_starlette import EventSourceResponse, ServerSentEvent

from ...app.app import App
from ...app.preflight import check_input, check_variables
from ...app.presenters import named_waits, run_lines, run_state
from ...app.recorded_run import require_run
from ...app.run_budget import read_budget
from ...app.runs.liveness import RESUMABLE, status_of
from ...app.runs.unattended import is_queued
from ...app.start import Start
from ...draw import graph_data
from ...engine.engine import check_run_id, check_same_run, new_run_id
from ...errors import Action, Remedy, RopewalkError, RunBusy, RunExists
from ...journal.address import run_sync_in_thread
from ...journal.protocol import ENDS, SCHEDULE, RunRow
from ...journal.protocol import NewRun as Begun
from ...notations.records import Outcome, outcome
from ...values import Json, check_json
from ..errors import error_payload
from ..remedies import Door, changed_file_note, word_remedy
from . import models
from .errors import Answer, Files, Route, Served, load_patiently
from .flow_files import FILE_KIND, FlowFiles
from .live_runs import LiveRuns, StartRun
from .models import Definition, Document, RequestBody, Seconds, Since, Until, instant, loaded_of, size_of


async def _going(request: Request) -> LiveRuns:
    return request.app.state.live  # type: ignore[no-any-return]


Going = Annotated[LiveRuns, Depends(_going)]
RunId = Annotated[str, Path(max_length=500, description="The run's id.")]


class WaitBody(RequestBody):
    """A run that continues by itself; the request may wait for its result."""

    wait: Seconds = Field(0, ge=0, le=60, description="Seconds to wait for the result, or a duration such as 10s.")


class NewRun(WaitBody):
    """The definition to run (a stored one or a document), its input and its options."""

    definition: Definition | None = None
    document: Document | None = None
    input: Any = None
    variables: dict[str, Any] | None = None
    run_id: str | None = Field(None, alias="runId", min_length=1, max_length=500, description="The same id runs once.")
    undo: Literal["on_request", "on_failure"] | None = Field(
        None, description="When its finished steps are undone. Default: as the definition or the project says."
    )
    budget: dict[str, Any] | None = Field(None, description="The limits: calls, seconds, tokens, cost in US dollars.")
    queue: str | None = Field(None, description="Queue the run here, for a worker or a server that executes it.")
    priority: int | None = Field(None, ge=1, le=2**31 - 1, description="Priority in the queue; 1 is the highest.")


EXECUTED: Final[dict[str, Any]] = {
    "status_code": 202,
    "response_model": models.Begun,
    "response_description": "The run has begun",
    "responses": {200: {"model": models.Result, "description": "The result of the run, or its current status"}},
}
"""What a route answers that has a run executed."""
STREAM: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"text/event-stream": {}}}}

router = APIRouter(prefix="/api/runs", tags=["runs"], route_class=Route, default_response_class=Answer)


def own_id(run_id: str | None) -> str:
    """Return the id of a new run."""
    check_run_id(run_id, "body.runId")
    return run_id or new_run_id()


@router.post("", summary="Start a run", **EXECUTED)
async def start(body: NewRun, app: Served, files: Files, live: Going) -> Answer:
    """Start a run: 202 as soon as it has begun, 200 with its result if it ends within `wait` seconds.

    An id that has run before is answered with 200 and the earlier result.
    """
    size = size_of(body.document)
    loaded, id = await load_patiently(app, size, lambda: loaded_of(app, files, body.definition, body.document))
    run_id, budget = own_id(body.run_id), read_budget(body.budget)
    variables = check_json(body.variables, "variables") if body.variables is not None else None
    check_variables(loaded.flow, variables or {})
    row = app.runs.row(run_id)
    while row is None and live.executes(run_id):  # somebody else has just sent the same
        await live.wait_until_begun(run_id)
        row = app.runs.row(run_id)
    if row is not None:
        identity = {"input": check_input(loaded.flow, body.input), "context": {"variables": variables}}
        check_same_run(row, Begun(id=run_id, kind=loaded.kind, fingerprint=loaded.fingerprint, **identity))
        return Answer(await _existing_run(app, live, row, body.wait), 200)
    new = Start(
        definition=loaded, definition_id=id, run_id=run_id, input=body.input, variables=variables, undo=body.undo,
        budget=budget,
    )  # fmt: skip

    async def run(take: Any) -> Outcome:
        if body.queue is None and body.priority is None:
            return outcome(await app.jobs.run(new.watched(take)), loaded.kind)
        await app.workers.enqueue(await app.jobs.new(new.watched(take)), body.queue, body.priority)
        return await app.wait(run_id, on_event=take)

    return await start_run(live, run_id, body.wait, run, new=True)


async def _existing_run(app: App, live: LiveRuns, row: RunRow, wait: float) -> dict[str, Json]:
    """Present a run that exists already; with its result if it ends within `wait` seconds."""
    if wait and row.status not in ENDS:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                async for _ in live.follow(row.id):
                    pass
        row = require_run(app.store, row.id)
    result = outcome(row.result, row.kind).to_answer() if row.status in ENDS and isinstance(row.result, dict) else {}
    return {**result, "runId": row.id, "status": status_of(app.context, row), "new": False}


async def start_run(live: LiveRuns, run_id: str, wait: float, start: StartRun, **fields: Json) -> Answer:
    """Have a run executed here."""
    task = await live.start(run_id, start)
    if wait:
        done, _ = await asyncio.wait({task}, timeout=wait)
        if done:
            return Answer({"runId": run_id, **fields, **task.result().to_answer()}, 200)
    status = live.status_of(run_id) if wait else "running"
    return Answer({"runId": run_id, "status": status, **fields}, 202)


@router.get("", summary="List runs", response_model=models.RunList)
def ls(
    app: Served,
    status: Annotated[str | None, Query(max_length=50)] = None,
    kind: Annotated[str | None, Query(max_length=50)] = None,
    definition: Annotated[str | None, Query(max_length=500, description="The id of a definition.")] = None,
    flow: Annotated[str | None, Query(max_length=500, description="The id or the name of a definition.")] = None,
    text: Annotated[str | None, Query(max_length=500, description="Text in the id, name, definition or error.")] = None,
    since: Since = None,
    until: Until = None,
    all: Annotated[bool, Query(description="Also list runs that are part of another run.")] = False,
    after: Annotated[
        str | None, Query(max_length=500, description="The id of a run; the list continues after it.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> Answer:
    """List runs, newest first, without their results."""
    values = {"status": status, "kind": kind, "definition_id": definition, "flow": flow, "text": text}
    values["after"] = after
    for name, value in values.items():
        check_json(value, name)
    if after is not None:
        require_run(app.store, after)
    filters: dict[str, Any] = {"kind": kind, "definition_id": definition, "flow": flow, "text": text, "all": all}
    filters |= {"since": instant("since", since), "until": instant("until", until)}
    rows = app.runs.list(status=status, after=after, limit=limit, **filters)
    return Answer({"runs": run_lines(app.context, rows)})


@router.get("/{run_id:path}/graph", summary="Get the graph of a run", response_model=models.Graph)
def graph(run_id: RunId, app: Served) -> Answer:
    """Return the graph of the definition that the run was started with."""
    row = require_run(app.store, run_id)
    return Answer(graph_data(app.definitions.get(row).flow))


@router.get("/{run_id:path}/logs", summary="Get what the tools of a run have printed", response_model=models.Logs)
def logs(
    run_id: RunId,
    app: Served,
    node: Annotated[str | None, Query(max_length=2000, description="Only this node, by its id or path.")] = None,
) -> Answer:
    """Return what the tools of the run have printed and logged, in the order of time."""
    return Answer({"lines": app.runs.logs(run_id, node)})


@router.get("/{run_id:path}/actions", summary="List the actions of a run", response_model=models.Actions)
def actions(
    run_id: RunId,
    app: Served,
    node: Annotated[str | None, Query(max_length=2000, description="A node, by its id or path.")] = None,
) -> Answer:
    """Return what the run accepts now; with `node`, whether it can be retried or forked from there."""
    row = require_run(app.store, run_id)
    start = Remedy(Action.START_SCHEDULED, {"name": row.name}) if row.kind == SCHEDULE else None
    return Answer({"actions": app.runs.actions(run_id, node), "next": start and word_remedy(start, Door.HTTP)})


@router.get("/{run_id:path}/arguments", summary="Get the arguments of calls", response_model=models.CallArguments)
async def arguments(
    run_id: RunId,
    app: Served,
    node: Annotated[str, Query(max_length=2000, description="The path of the node, with iterations.")] = "",
) -> Answer:
    """Return the arguments of the recorded calls by path, of one node or of all. No tool is called."""
    # In a loop of its own: a large run takes a moment.
    result = await asyncio.to_thread(lambda: asyncio.run(_arguments(app, run_id)))
    return Answer({"arguments": {path: args for path, args in result.items() if node in ("", path)}})


@router.get("/{run_id:path}/events", summary="Follow a run", response_class=EventSourceResponse, responses=STREAM)
async def events(
    run_id: RunId,
    app: Served,
    live: Going,
    last_event_id: Annotated[str, Header(max_length=50)] = "",
    after: Annotated[str, Query(max_length=50)] = "",
) -> EventSourceResponse:
    """Stream the events of a run so far and as they come, as server-sent events.

    `Last-Event-ID` (or `after`) continues a stream.
    """
    require_run(app.store, run_id)
    return EventSourceResponse(_sent(live, run_id, last_event_id or after), ping=15)


@router.post("/{run_id:path}/stop", summary="Stop a run", response_model=models.Stopped)
def stop(run_id: RunId, app: Served) -> Answer:
    """Stop a run, in whatever process it runs."""
    require_run(app.store, run_id)
    stopped = app.runs.stop(run_id)
    return Answer(run_state(app.context, require_run(app.store, run_id), stopped=stopped))


# The last, as an id may have slashes in it: that of a part of another run has.
@router.get("/{run_id:path}", summary="Get a run", response_model=models.Run)
def get(
    run_id: RunId,
    app: Served,
    files: Files,
    events: Annotated[
        bool, Query(description="Whether to include the events; they contain the same information as `nodes`.")
    ] = True,
    limit: Annotated[int | None, Query(ge=1, le=10_000, description="Number of steps per page (default: all).")] = None,
    after: Annotated[
        int, Query(ge=0, le=2**63 - 1, description="The start of the page: `next` of the previous page.")
    ] = 0,
) -> Answer:
    """Return one run with all recorded steps, or with one page of them."""
    row = require_run(app.store, run_id)
    details = app.runs.get(run_id, events=events, after=after, limit=limit) or {}
    return Answer({**details, "definition": _definition(row, files)})


def _definition(row: RunRow, files: FlowFiles) -> dict[str, Json] | None:
    """Return the kind and id under which the definition of a run is listed."""
    context = row.context or {}
    file = files.id_of(context.get("root") or context.get("file"))
    if file is not None:
        return {"kind": FILE_KIND, "id": file}
    stored = row.definition_id is not None and "file" not in context
    return {"kind": row.kind, "id": row.definition_id} if stored else None


async def _arguments(app: App, run_id: str) -> Mapping[str, Json]:
    return await app.runs.arguments(run_id)


async def _sent(live: LiveRuns, run_id: str, last: str) -> AsyncIterator[ServerSentEvent]:
    async for id, event in live.follow(run_id, last):
        yield ServerSentEvent(data=orjson.dumps(event.to_dict()).decode(), event=event.kind, id=id)
    yield ServerSentEvent(data="{}", event="end")


class RerunBody(WaitBody):
    nodes: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list, max_length=1000, description="Ids or paths, such as each[3]/fetch."
    )


class RetryBody(RerunBody):
    """`accept` uses rejected results instead of calling their tools again."""

    accept: list[Annotated[str, Field(min_length=1)]] | dict[str, Any] = Field(
        default_factory=list,
        max_length=1000,
        description="Nodes whose recorded results are used, or an object with a result for each node.",
    )


class ForkBody(RerunBody):
    """The fork differs from the earlier run only in the given fields."""

    input: Any = None
    definition: Definition | None = None
    document: Document | None = None
    run_id: str | None = Field(None, alias="runId", min_length=1, max_length=500, description="The id of the fork.")


class Approval(RequestBody):
    """`node` (an id or a path) says which, where there is more than one."""

    node: str | None = Field(None, max_length=2000)
    approved: bool = True
    by: str | None = Field(None, max_length=500)
    note: str | None = Field(None, max_length=10_000)


class EventBody(RequestBody):
    event: str = Field(min_length=1, max_length=500)
    payload: Any = None
    id: str | None = Field(None, min_length=1, max_length=500, description="Idempotency key of the event.")
    early: bool = Field(True, description="Keep the event for a wait that has not begun yet; false refuses it.")


# Of a request without a body.
_AWAITED, _RETRIED, _FORKED = WaitBody.model_validate({}), RetryBody.model_validate({}), ForkBody.model_validate({})
actions_router = APIRouter(prefix="/api", tags=["runs"], route_class=Route, default_response_class=Answer)


@actions_router.get("/waiting", summary="List waits", response_model=models.Waits)
def all_waiting(app: Served) -> Answer:
    """Return the events and approvals that any run waits for, each with the name of the run."""
    return Answer({"waiting": named_waits(app.context, app.runs.waiting())})


@actions_router.post("/runs/{run_id:path}/retry", summary="Retry a run", **EXECUTED)
async def retry(run_id: RunId, app: Served, live: Going, body: RetryBody = _RETRIED) -> Answer:
    """Retry an ended run: repeat what failed, or `nodes` and what depends on them. Nodes in `accept` are not called
    again: their rejected results are used, or the values given for them."""
    require_run(app.store, run_id)
    nodes, accept = check_json(body.nodes, "nodes"), check_json(body.accept, "accept")
    note = await run_sync_in_thread(app.store, lambda: changed_file_note(app.context, run_id, Door.HTTP))
    fields: dict[str, Json] = {} if note is None else {"note": note}
    return await start_run(
        live, run_id, body.wait, lambda take: app.runs.retry(run_id, nodes, on_event=take, accept=accept), **fields
    )


@actions_router.post(
    "/runs/{run_id:path}/undo", summary="Undo a run", status_code=202, response_model=models.UndoReport,
    responses={200: {"model": models.UndoReport, "description": "The undo has ended."}},
)  # fmt: skip
async def undo(run_id: RunId, app: Served, live: Going, body: WaitBody = _AWAITED) -> Answer:
    """Undo the finished steps of an ended run, the last one first. Where an undo failed, this continues there.

    An undo that has completed is answered with 200 and its report.
    """
    row = require_run(app.store, run_id)
    undo_run = row.undo or f"{run_id}~undo"
    undoing = app.runs.row(undo_run)
    if row.undo and undoing is not None and undoing.status == "completed":
        return Answer(app.runs.undo_report(run_id), 200)
    task = await live.start(undo_run, lambda take: app.runs.undo(run_id, on_event=take))
    if body.wait:
        done, _ = await asyncio.wait({task}, timeout=body.wait)
        if done:
            return Answer(task.result(), 200)
    return Answer({"runId": run_id, "undoRun": undo_run, "status": "undoing"}, 202)


@actions_router.post("/runs/{run_id:path}/resume", summary="Resume a run", **EXECUTED)
async def resume(run_id: RunId, app: Served, live: Going, body: WaitBody = _AWAITED) -> Answer:
    """Resume a run whose process is gone, or that waits without a process."""
    row = require_run(app.store, run_id)
    if row.status in ENDS:
        report = app.runs.undo_report(run_id) if row.undo else None
        undo = {} if report is None else {"undo": report}
        return Answer({"runId": run_id, **(await app.resume(run_id)).to_answer(), **undo}, 200)
    return await start_run(live, run_id, body.wait, lambda take: app.resume(run_id, on_event=take))


@actions_router.post("/runs/{run_id:path}/fork", summary="Fork a run", **EXECUTED)
async def fork(run_id: RunId, app: Served, files: Files, live: Going, body: ForkBody = _FORKED) -> Answer:
    """Start a new run from this one, with another input or definition; what was recorded is used where it fits."""
    require_run(app.store, run_id)
    how: dict[str, Any] = {"at": check_json(body.nodes, "nodes")}
    if "input" in body.model_fields_set:
        how["input"] = check_json(body.input, "input")
    if body.definition is not None or body.document is not None:
        size = size_of(body.document)
        loaded, _ = await load_patiently(app, size, lambda: loaded_of(app, files, body.definition, body.document))
        how["definition"] = {**loaded.document, "kind": loaded.kind}
    id = own_id(body.run_id)
    if live.executes(id):  # before its row is there
        raise RunExists(id)
    return await start_run(
        live, id, body.wait, lambda take: app.runs.fork(run_id, new_id=id, on_event=take, **how), forkedFrom=run_id
    )


@actions_router.get("/runs/{run_id:path}/waiting", summary="List the waits of a run", response_model=models.RunWaits)
def waiting(run_id: RunId, app: Served) -> Answer:
    """Return the events and approvals that the run waits for, and what its flows may do that ask for an approval."""
    waits = app.runs.waiting(run_id)
    return Answer({"waiting": named_waits(app.context, waits), "facts": app.runs.facts(run_id, waits)})


@actions_router.post("/runs/{run_id:path}/approve", summary="Answer an approval", response_model=models.Answered)
async def approve(run_id: RunId, body: Approval, app: Served, live: Going) -> Answer:
    """Approve or refuse. A run that waits without a process continues in this server."""
    before = _outermost(app, run_id)
    payload = check_json(body.model_dump(include={"node", "approved", "by", "note"}), "body")
    name = payload.pop("node")
    answered = await run_sync_in_thread(app.store, lambda: app.runs.approve(run_id, name, **payload))
    return await _continue_here(app, live, before, answered=answered)


@actions_router.post("/runs/{run_id:path}/send", summary="Send an event", response_model=models.Delivered)
async def send(run_id: RunId, body: EventBody, app: Served, live: Going) -> Answer:
    """Send an event, or the answer to a question. A run that waits for it without a process continues here."""
    before = _outermost(app, run_id)
    fields = check_json(body.model_dump(include={"event", "payload", "id", "early"}), "body")
    event, payload = fields.pop("event"), fields.pop("payload")
    sent = await run_sync_in_thread(app.store, lambda: app.runs.send(run_id, event, payload, **fields))
    return await _continue_here(app, live, before, sent=sent)


@actions_router.get("/runs/{run_id:path}/diff", summary="Compare two runs", response_model=models.Difference)
def diff(
    run_id: RunId, app: Served, other: Annotated[str, Query(alias="with", max_length=500, description="Another run.")]
) -> Answer:
    """Compare two runs: definition, input, result, and status, value and error of each node."""
    return Answer(app.runs.diff(run_id, other))


def _outermost(app: App, run_id: str) -> RunRow:
    """Return the run that continues once this one, which may be a part of it, has its answer."""
    return require_run(app.store, app.runs.outermost(run_id))


async def _continue_here(app: App, live: LiveRuns, before: RunRow, **answer: Json) -> Answer:
    """Return the answer, and continue in this process a run that was parked or whose process is gone."""
    alone = before.status == "waiting"
    if before.status == "running" and not live.executes(before.id):
        liveness = await run_sync_in_thread(app.store, lambda: app.runs.liveness_of([before]))
        alone = liveness.get(before.id) in RESUMABLE
    if alone and not (app.distributed or live.executes(before.id) or is_queued(app.context, before.id)):
        try:
            await live.start(before.id, lambda take: app.resume(before.id, on_event=take))
        except RunBusy:
            pass  # a process that took the run meanwhile, such as this server's recovery, meets the answer
        except RopewalkError as error:
            answer |= error_payload(error, Door.HTTP)  # the answer is recorded, whatever keeps the run from continuing
    return Answer(run_state(app.context, require_run(app.store, before.id), **answer))


contents_router = APIRouter(prefix="/api/runs", tags=["runs"], route_class=Route)
_SHOWN: Final = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"))
"""Images that hold no script: SVG does."""


@contents_router.get(
    "/{run_id:path}/content/{hash}",
    summary="Get content of a run",
    response_class=Response,
    responses={200: {"content": {"*/*": {}}, "description": "The bytes, with their media type."}},
)
def content(
    run_id: RunId,
    hash: Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="The SHA-256 of the bytes: `$content.blob`.")],
    app: Served,
) -> Response:
    """Return an image, audio or a file that a value of the run refers to."""
    result = app.runs.content(run_id, hash)
    mime = result.mime_type.partition(";")[0].strip().lower()
    is_inline = mime in _SHOWN or (mime.startswith("audio/") and mime.isascii())
    headers = {
        "x-content-type-options": "nosniff",
        "content-security-policy": "default-src 'none'; sandbox",
        "cache-control": "private, max-age=31536000, immutable",
    }
    if not is_inline:
        name = quote(result.name or hash[:16], safe="")
        headers["content-disposition"] = f"attachment; filename*=UTF-8''{name}"
    return Response(result.data, media_type=mime if is_inline else "application/octet-stream", headers=headers)
