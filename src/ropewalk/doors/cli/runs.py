"""`runs ls|show|watch|stop`: what the store knows about runs."""

from __future__ import annotations

import asyncio
import math
import shlex
import sys
import time
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from cyclopts import Parameter, validators

from ...errors import StoreError
from ...events import Event
from ...journal.address import Unmade
from ...runs.pages import is_long
from ...source import visible
from .answer import Answer
from .exits import FAILED, ended
from .interrupts import Interrupts
from .keep import instant
from .logs import tell
from .options import Json, Project, StoreAddress
from .session import unknown_run, with_app
from .streams import put
from .table import columns, duration, first_line, moment
from .talks import Talks
from .tally import Tally, attempt_failed, is_new_wait, line, waits_for
from .waiting import again, waits

if TYPE_CHECKING:
    from ...app import App
    from ...journal.journal import RunRow

_MOST_STEPS = 100  # at the beginning and at the end, and of those that failed
_IDLE = 0.5  # seconds in which a run was not executed that are worth saying
_MOST_TEXT = 10_000  # characters of a result
_MARKS = {"ok": "✓", "recovered": "~", "failed": "✗", "skipped": "-"}


def ls(
    *,
    status: Annotated[
        tuple[str, ...], Parameter(negative=(), help="Only runs with this status, as it is listed; repeatable.")
    ] = (),
    flow: Annotated[str | None, Parameter(help="Only runs of the definition with this id or name.")] = None,
    since: Annotated[str | None, Parameter(help="Started since: 2h (ago), 2026-11-01, 2026-11-01T12:30.")] = None,
    until: Annotated[str | None, Parameter(help="Started before.")] = None,
    after: Annotated[str | None, Parameter(help="The next page: runs behind the run with this id.")] = None,
    kind: Annotated[str | None, Parameter(help="Only runs of this kind of definition.")] = None,
    search: Annotated[str | None, Parameter(help="Only runs whose id, name or error holds this text.")] = None,
    all: Annotated[bool, Parameter(negative=(), help="Also flows that another run called as tools.")] = False,
    limit: Annotated[int, Parameter(validator=validators.Number(gte=1), help="At most so many.")] = 50,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """List runs, newest first."""
    begin, end = instant(since, "--since"), instant(until, "--until")

    async def work(app: App, _: Interrupts) -> Answer:
        if after is not None and app.runs.row(after) is None:
            raise unknown_run(app, after)
        rows = app.runs.list(
            status=status,
            kind=kind,
            flow=flow,
            text=search,
            since=begin,
            until=end,
            after=after,
            all=all,
            limit=limit,
        )
        if isinstance(app.store, Unmade) and app.store.given:
            tell(f"there is no store at {app.store.path} yet")
        _tell_damage(rows)
        now = time.time()
        standing = app.runs.standing(rows)
        table = [
            (
                r.id,
                r.name,
                r.kind,
                "damaged" if r.damaged else standing.get(r.id, r.status),
                moment(r.started_at),
                _took(_so_far(app, r) if standing.get(r.id) == "interrupted" else r, now, standing.get(r.id)),
                *_counts(r),
            )
            for r in rows
        ]
        head = ("ID", "NAME", "KIND", "STATUS", "STARTED", "TOOK", "RESULTS", "ERRORS")
        data = [_listed(r, standing.get(r.id)) for r in rows]
        return Answer(data=data, text=columns(head, table) if rows else "no runs")

    return with_app(work, project=project, store=store, tools=False)


def _tell_damage(rows: Iterable[RunRow]) -> None:
    for row in rows:
        if row.damaged:
            tell(row.damaged)


def _listed(row: RunRow, standing: str | None) -> dict[str, Any]:
    from ...runs import summary, told

    damaged = {"damaged": row.damaged} if row.damaged else {}
    return {**summary(row), **told(standing), **damaged}


def _so_far(app: App, row: RunRow) -> RunRow:
    """The row with all that the run had executed when its process died."""
    try:
        return app.store.get_run(row.id, so_far=True) or row
    except StoreError as error:  # The other runs are listed all the same.
        tell(str(error))
        return row


def _counts(row: Any) -> tuple[int, int]:
    return row.result_count, row.error_count


def _took(row: RunRow, now: float, standing: str | None) -> str:
    """The time of its execution, without that in line, between owners and waiting: of one that nobody executes now what
    it had taken by then. While a process has it, the time since it was started."""
    if standing is not None or row.status == "waiting":
        return duration(row.spent) if standing != "queued" and row.spent else "-"
    if row.ended_at and row.spent:
        return duration(row.spent)
    end = row.ended_at or (now if row.status == "running" else None)
    return duration(end - row.started_at) if end else "-"


def show(
    run_id: str,
    /,
    *,
    limit: Annotated[
        int | None,
        Parameter(
            validator=validators.Number(gte=1),
            help="Steps of a page. [default: all; 200 of a run with more than 5,000 without --json]",
        ),
    ] = None,
    after: Annotated[
        int, Parameter(validator=validators.Number(gte=0), help="The next page: `next` of the page before it.")
    ] = 0,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Show one run: every recorded step with its time, result or error."""

    async def work(app: App, _: Interrupts) -> Answer:
        page = limit
        if page is None and not json and (after or is_long(app.runs, run_id)):
            page = 2 * _MOST_STEPS
        details = app.runs.get(run_id, after=after, limit=page)
        if details is None:
            raise unknown_run(app, run_id)
        lonely = await asyncio.to_thread(app.workers.unattended, run_id) if details["queued"] else None
        row = _row(app, run_id)
        by = _goes_on(details["status"], app.runs.attended(row)) if not _left(details) else None
        talks = Talks(details["kind"], row.document)
        root = app.runs.outermost(run_id)
        where = again(store, project)
        text = _details(details, root, talks, lonely, by, where)
        if details["next"] is not None:
            size = "" if limit is None else f" --limit {limit}"
            more = f"ropewalk runs show {shlex.quote(run_id)}{size} --after {details['next']}{where}"
            text += f"\n\nmore steps: {more}"
        return Answer(data=details, text=text)

    return with_app(work, project=project, store=store, tools=False)


def _left(run: dict[str, Any]) -> bool:
    """Whether nobody executes it, nor will by himself."""
    return bool(run["interrupted"] or run["answered"])


def _goes_on(status: str, attended: bool) -> str | None:
    """Who goes on with a run by himself when what it waits for has come."""
    if attended:
        return "a worker"
    return "its process" if status == "running" else None


def _details(run: dict[str, Any], root: str, talks: Talks, lonely: str | None, by: str | None, where: str) -> str:
    """The run as text; `root` is the run to resume, which this one may be a part of."""
    resume = f"ropewalk resume {shlex.quote(root)}{where}"
    status = run["status"]
    if run["queued"]:
        status = f"queued: {lonely or 'a worker takes it'}"
    elif run["interrupted"]:
        status = f"{status}, but its process is gone: {resume}"
    elif run["answered"]:
        status = f"answered, and goes on with: {resume}"
    lines = [f"{run['name'] or run['kind']}  {run['id']}", f"  status   {status}", f"  started  {run['startTime']}"]
    if run.get("forkedFrom"):
        lines.append(f"  fork of  {run['forkedFrom']}")
    if run.get("version"):
        lines.append(f"  version  {run['version']} of {run['definitionId']} ({run['fingerprint']})")
    if run.get("endTime"):
        lines.append(f"  ended    {run['endTime']}")
        lines.append(f"  took     {_stretches(run)}")
    if run["currentNode"] is not None and run["status"] == "running":
        lines.append(f"  at       {run['currentNode']}")
    if run.get("owner") and run["status"] == "running":
        lines.append(f"  owner    {run['owner']}")
    if run.get("input") is not None:
        lines.append(f"  input    {_short(run['input'])}")
    lines += [f"  before   {_ending(one)}" for one in run["endings"]]
    if run["waitingFor"]:
        lines += ["", *waits(run, where, by=by)]
    lines.append("")
    inside = f"{run['id'].removeprefix(f'{root}/')}/"  # the waits of a part have paths of its outermost run
    under_way = {wait["path"].removeprefix(inside) if "runId" in wait else wait["path"] for wait in run["waitingFor"]}
    told = list(talks.told(run["nodes"]))
    lines += _steps(told, time.time() if not run.get("endTime") else math.inf, under_way)
    if run.get("error") is not None:
        lines += ["", f"error: {talks.error(_short(run['error'], 1000))}"]
    said = _result(run)
    if said is not None:
        lines += ["", f"result: {_cut(said)}"]
    return visible("\n".join(lines))


def _result(run: dict[str, Any]) -> str | None:
    """The result as the notation has it; of an agent what it answered, and the warnings."""
    result = run["result"]
    if result is None:
        return None
    if run["kind"] != "agent" or "conversation" not in result:
        return orjson.dumps(result, option=orjson.OPT_INDENT_2).decode()
    answer = result.get("result")
    text = answer if isinstance(answer, str) else orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode()
    warned = "".join(f"\nwarning: {warning}" for warning in result.get("warnings") or ())
    return text + warned if answer or warned else None


def _stretches(run: dict[str, Any]) -> str:
    """The time of execution, and what passed beside it: in line, waiting, without a process."""
    took, since = run["duration"] / 1000, run["elapsed"] / 1000
    beside = f", and {duration(since - took)} in line, waiting or interrupted" if since - took >= _IDLE else ""
    return duration(took) + beside


def _steps(nodes: list[dict[str, Any]], now: float, under_way: Container[str]) -> Iterable[str]:
    """A line for each; of very many the first and the last, and between them those that failed. `now` is infinite in a
    run that has ended, `under_way` are the paths of waits that nothing has answered."""
    if len(nodes) <= 2 * _MOST_STEPS:
        return (_step(node, now, under_way) for node in nodes)
    first, between, last = nodes[:_MOST_STEPS], nodes[_MOST_STEPS:-_MOST_STEPS], nodes[-_MOST_STEPS:]
    failed = [node for node in between if node["status"] == "failed"][:_MOST_STEPS]
    left = f"… {len(between) - len(failed):,} steps are left out here; --json has all"
    told, rest = ([_step(node, now, under_way) for node in some] for some in (first, [*failed, *last]))
    return [*told, left, *rest]


def _step(node: dict[str, Any], now: float, under_way: Container[str]) -> str:
    name = node.get("words", node["path"])
    if node["status"] == "decided":
        return f"· {name}  {_decision(node, now, under_way)}"
    took = duration((node["ms"] or 0) / 1000)
    again = " (recorded before)" if node.get("replayed") else ""
    told = node["says"] if "says" in node else _said(node)
    return f"{_MARKS.get(node['status'], ' ')} {name}  {took}{again}  {told}".rstrip()


def _said(node: dict[str, Any]) -> str:
    """What became of it; nothing of one whose value is not kept."""
    if node["error"] is not None or node["reason"]:
        return _short(node["error"] if node["error"] is not None else node["reason"])
    return _short(node["value"]) if "value" in node else ""


def _cut(text: str) -> str:
    left = len(text) - _MOST_TEXT
    return text if left <= 0 else f"{text[:_MOST_TEXT]}\n… {left:,} more characters; --json has all"


def _ending(one: dict[str, Any]) -> str:
    """How a run had ended before it was retried."""
    return f"{one['status']} {one['endTime']}" + (f": {_short(one['error'])}" if one["error"] is not None else "")


def _decision(node: dict[str, Any], now: float, under_way: Container[str]) -> str:
    """What a node did before anything else; how it ended is told by the steps inside of it."""
    made = node["decision"]
    if node["kind"] == "items":
        return f"goes over {len(made)} item{'' if len(made) == 1 else 's'}"
    if node["kind"] == "timer":
        return f"{'waits' if made > now else 'waited'} until {moment(made)}"
    if node["kind"] == "wait":
        due = made["due"] and moment(made["due"])
        what = f"an approval: {made['approval']}" if "approval" in made else f"the event {made['event']!r}"
        if node["path"] in under_way:
            return f"waits{f' until {due}' if due else ''} for {what}"
        return f"waited for {what}{f' (at most until {due})' if due else ''}"
    if node["kind"] == "signal":
        return "nothing came in time" if "late" in made else f"got {_short(made['value'])}, {moment(made['sent'])}"
    return f"takes branch {made + 1}" if made >= 0 else "takes the branch for all else, if there is one"


def _short(value: Any, most: int = 80) -> str:
    if isinstance(value, dict) and "message" in value:
        value = value["message"]
    return first_line(value if isinstance(value, str) else orjson.dumps(value).decode(), most)


def watch(run_id: str, /, *, json: Json = False, store: StoreAddress = None, project: Project = None) -> Answer:
    """Follow a run until it has ended. With --json one event per line."""

    async def work(app: App, _: Interrupts) -> Answer:
        if app.runs.get(run_id) is None:
            raise unknown_run(app, run_id)
        from .dispatch import json_line

        tally, status, where = Tally(), "", again(store, project)
        resume = f"ropewalk resume {shlex.quote(app.runs.outermost(run_id))}{where}"
        async for event in app.runs.watch(run_id):
            if event.kind == "run.finished":
                status = str((event.data or {}).get("status"))
            if event.kind == "run.interrupted":
                sys.stderr.write(f"its process is gone; go on with: {resume}\n")
            if event.kind == "run.queued":
                said = await asyncio.to_thread(app.workers.unattended, run_id)
                sys.stderr.write(f"{said or 'in line: a worker takes it'}\n")
            if event.kind == "run.waiting":
                status = "waiting"
                come = (event.data or {}).get("answered")
                said = f"what it waited for has come; go on with: {resume}" if come else "it waits without a process:"
                sys.stderr.write("\n".join([said, *_asks(app, run_id, where)]) + "\n")
            if json:
                json_line(event.to_dict())
            else:
                _say(_followed(event, tally))
        found = app.runs.get(run_id) or {}
        return Answer(exit=ended({**(found.get("result") or {}), "status": status}))

    return with_app(work, project=project, store=store, tools=False)


def _asks(app: App, run_id: str, where: str) -> list[str]:
    attended = app.runs.attended(_row(app, run_id))
    return waits(app.runs.get(run_id, events=False) or {}, where, by="a worker" if attended else None)


def _row(app: App, run_id: str) -> RunRow:
    row = app.runs.row(run_id)
    if row is None:
        raise unknown_run(app, run_id)
    return row


def _followed(event: Event, tally: Tally) -> Iterable[str]:
    ended = tally.take(event)
    if ended is not None:
        yield line(ended)
    elif event.kind == "run.finished":
        yield f"run {(event.data or {}).get('status')}"
    elif is_new_wait(event):
        yield waits_for(event)
    elif event.kind == "attempt.failed":
        yield attempt_failed(event)


def _say(lines: Iterable[str]) -> None:
    for text in lines:
        put(text + "\n")


def stop(run_id: str, /, *, json: Json = False, store: StoreAddress = None, project: Project = None) -> Answer:
    """Stop a run, also one of another process: its tools are cancelled, what finished is kept."""

    async def work(app: App, _: Interrupts) -> Answer:
        row = app.runs.get(run_id)
        if row is None:
            raise unknown_run(app, run_id)
        stopped = app.runs.stop(run_id)
        status = _row(app, run_id).status
        had = row["status"] == "running" and not _left(row)  # its process has still to cancel what is under way
        text = f"{'stopping' if had else 'stopped'} {run_id}" if stopped else f"{run_id} is not running: {status}"
        return Answer(
            exit=0 if stopped else FAILED, data={"id": run_id, "stopped": stopped, "status": status}, text=text
        )

    return with_app(work, project=project, store=store, tools=False)
