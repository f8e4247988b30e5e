"""Runs that are gone on with over HTTP: retry, resume, fork, and the answers to what they wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from ...app import App
from ...errors import RunExists
from ...journal import ENDS
from ...journal.journal import RunRow
from ...journal.offloop import off_loop
from ...runs import LEFT
from ...values import Json, check_json
from . import shapes
from .answers import Answer, Files, Route, Served, patiently
from .given import Asked, Definition, Document, loaded_of, size_of
from .live import Live
from .runs import EXECUTED, Awaited, Going, RunId, ended, known, own_id, set_going


class Again(Awaited):
    nodes: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list, max_length=1000, description="Ids or paths, such as each[3]/fetch."
    )


class Retried(Again):
    """`accept` uses rejected results instead of calling their tools again."""

    accept: list[Annotated[str, Field(min_length=1)]] | dict[str, Any] = Field(
        default_factory=list, max_length=1000, description="Nodes whose recorded results to use, or results by node."
    )


class Forked(Again):
    """Only what is given differs from the run of before."""

    input: Any = None
    definition: Definition | None = None
    document: Document | None = None
    run_id: str | None = Field(None, alias="runId", min_length=1, max_length=500, description="The id of the fork.")


class Approval(Asked):
    """`node` (an id or a path) says which, where there is more than one."""

    node: str | None = Field(None, max_length=2000)
    approved: bool = True
    by: str | None = Field(None, max_length=500)
    note: str | None = Field(None, max_length=10_000)


class Sent(Asked):
    event: str = Field(min_length=1, max_length=500)
    payload: Any = None
    id: str | None = Field(None, min_length=1, max_length=500, description="The same id is sent once.")
    early: bool = Field(True, description="Keep it for a wait that has not begun yet.")


# Of a request without a body.
_AWAITED, _RETRIED, _FORKED = Awaited.model_validate({}), Retried.model_validate({}), Forked.model_validate({})
router = APIRouter(prefix="/api", tags=["runs"], route_class=Route, default_response_class=Answer)


@router.get("/waiting", summary="List waits", response_model=shapes.Waits)
def all_waiting(app: Served) -> Answer:
    """The events and approvals that any run waits for, each with the run's name."""
    return Answer({"waiting": _named(app, app.runs.waiting())})


@router.post("/runs/{run_id:path}/retry", summary="Retry a run", **EXECUTED)
async def retry(run_id: RunId, app: Served, live: Going, given: Retried = _RETRIED) -> Answer:
    """Retry an ended run: repeat what failed, or `nodes` and what depends on them. Nodes in `accept` are not called
    again: their rejected results are used, or the values given for them."""
    known(app, run_id)
    nodes, accept = check_json(given.nodes, "nodes"), check_json(given.accept, "accept")
    return await set_going(
        live, run_id, given.wait, lambda take: app.runs.retry(run_id, nodes, on_event=take, accept=accept)
    )


@router.post("/runs/{run_id:path}/resume", summary="Resume a run", **EXECUTED)
async def resume(run_id: RunId, app: Served, live: Going, given: Awaited = _AWAITED) -> Answer:
    """Go on with a run whose process is gone, or that waits without one."""
    if known(app, run_id).status in ENDS:
        return Answer({"runId": run_id, **ended(await app.resume(run_id))}, 200)
    return await set_going(live, run_id, given.wait, lambda take: app.resume(run_id, on_event=take))


@router.post("/runs/{run_id:path}/fork", summary="Fork a run", **EXECUTED)
async def fork(run_id: RunId, app: Served, files: Files, live: Going, given: Forked = _FORKED) -> Answer:
    """Start a new run from this one, with another input or definition; what was recorded is used where it fits."""
    known(app, run_id)
    how: dict[str, Any] = {"at": check_json(given.nodes, "nodes")}
    if "input" in given.model_fields_set:
        how["input"] = check_json(given.input, "input")
    if given.definition is not None or given.document is not None:
        size = size_of(given.document)
        loaded, _ = await patiently(size, lambda: loaded_of(app, files, given.definition, given.document))
        how["definition"] = {**loaded.document, "kind": loaded.kind}
    id = own_id(given.run_id)
    if live.holds(id):  # before its row is there
        raise RunExists(id)
    return await set_going(
        live, id, given.wait, lambda take: app.runs.fork(run_id, new_id=id, on_event=take, **how), forkedFrom=run_id
    )


@router.get("/runs/{run_id:path}/waiting", summary="List the waits of a run", response_model=shapes.Waits)
def waiting(run_id: RunId, app: Served) -> Answer:
    """The events and approvals that it waits for."""
    known(app, run_id)
    return Answer({"waiting": _named(app, app.runs.waiting(run_id))})


@router.post("/runs/{run_id:path}/approve", summary="Answer an approval", response_model=shapes.Answered)
async def approve(run_id: RunId, given: Approval, app: Served, live: Going) -> Answer:
    """`approved` or not. A run that waits for it without a process goes on here."""
    before = _outermost(app, run_id)
    said = check_json(given.model_dump(include={"node", "approved", "by", "note"}), "body")
    name = said.pop("node")
    answered = await off_loop(app.store, lambda: app.runs.approve(run_id, name, **said))
    return await _gone_on(app, live, before, {"answered": answered})


@router.post("/runs/{run_id:path}/send", summary="Send an event", response_model=shapes.Delivered)
async def send(run_id: RunId, given: Sent, app: Served, live: Going) -> Answer:
    """A run that waits for it without a process goes on here."""
    before = _outermost(app, run_id)
    said = check_json(given.model_dump(include={"event", "payload", "id", "early"}), "body")
    event, payload = said.pop("event"), said.pop("payload")
    sent = await off_loop(app.store, lambda: app.runs.send(run_id, event, payload, **said))
    return await _gone_on(app, live, before, {"sent": sent})


@router.get("/runs/{run_id:path}/diff", summary="Compare two runs", response_model=shapes.Difference)
def diff(
    run_id: RunId, app: Served, other: Annotated[str, Query(alias="with", max_length=500, description="Another run.")]
) -> Answer:
    """What differs between two runs: definition, input, node by node status, value and error, result."""
    known(app, run_id)
    known(app, other)
    return Answer(app.runs.diff(run_id, other))


def _outermost(app: App, run_id: str) -> RunRow:
    """The run that continues once this one, which may be a part of it, has its answer."""
    known(app, run_id)
    return known(app, app.runs.outermost(run_id))


async def _gone_on(app: App, live: Live, before: RunRow, told: dict[str, Any]) -> Answer:
    """What was answered; a run that was parked `before`, or whose process is gone, goes on in this one, unless workers
    have it."""
    alone = before.status == "waiting"
    if before.status == "running" and not live.holds(before.id):
        alone = (await off_loop(app.store, lambda: app.runs.standing([before]))).get(before.id) in LEFT
    if alone and not app.distributed and not live.holds(before.id):
        await live.start(before.id, lambda take: app.resume(before.id, on_event=take))
    return Answer({"runId": before.id, "status": known(app, before.id).status, **told})


def _named(app: App, waiting: Sequence[Mapping[str, Json]]) -> list[dict[str, Json]]:
    """Waits with the names of their runs, for people."""
    rows: dict[str, RunRow | None] = {}
    for one in waiting:
        id = str(one["runId"])
        rows[id] = rows[id] if id in rows else app.runs.row(id)
    return [{**one, "name": row.name if (row := rows[str(one["runId"])]) else ""} for one in waiting]
