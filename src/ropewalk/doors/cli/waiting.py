"""`runs send|approve`: what a run waits for, and sending it."""

from __future__ import annotations

import getpass
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ...journal.waiting import iso
from ...source import visible
from .answer import Answer
from .given import read_input
from .interrupts import Interrupts
from .options import Json, Project, StoreAddress
from .session import unknown_run, with_app
from .talks import asker

if TYPE_CHECKING:
    from ...app import App

Wait = Annotated[
    bool,
    Parameter(
        name="--wait", negative=(), help="Stay while the run only waits for events and approvals, and go on with it."
    ),
]

Stay = Annotated[
    bool | None,
    Parameter(
        name="--wait",
        negative="--no-wait",
        help="Stay also while it only waits for events and approvals; or only print the id (--engine dbos).",
    ),
]


def send(
    run_id: str,
    event: str,
    /,
    *,
    payload: Annotated[
        str | None, Parameter(allow_leading_hyphen=True, help="JSON, or @FILE (JSON or YAML; @- reads standard input).")
    ] = None,
    id: Annotated[str | None, Parameter(name="--id", help="The same id is sent once, however often.")] = None,
    early: Annotated[bool, Parameter(negative=(), help="Also when no wait for it is under way: it is kept.")] = False,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Send an event to a run that waits for it."""
    given = read_input(payload, "--payload")

    async def work(app: App, _: Interrupts) -> Answer:
        if app.runs.row(run_id) is None:
            raise unknown_run(app, run_id)
        sent = app.runs.send(run_id, event, given, id=id, early=early)
        data = {"id": app.runs.outermost(run_id), "event": event, "sent": sent, "payload": given}
        said = f"sent {event} to {run_id}" if sent else f"{event} was sent to {run_id} before, with the id {id}"
        return _gone_on(app, run_id, data, said, store, project)

    return with_app(work, project=project, store=store, tools=False)


def approve(
    run_id: str,
    node: str | None = None,
    /,
    *,
    reject: Annotated[bool, Parameter(negative=(), help="Do not approve.")] = False,
    note: Annotated[str | None, Parameter(name=["--note", "--comment"], help="What is to be said about it.")] = None,
    by: Annotated[str | None, Parameter(help="Who says so (default: the user of this machine).")] = None,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Approve what a run asks (by the id of its NODE or its path, where it asks more than one thing), or reject it."""

    async def work(app: App, _: Interrupts) -> Answer:
        if app.runs.row(run_id) is None:
            raise unknown_run(app, run_id)
        data = app.runs.approve(run_id, node, approved=not reject, by=by or _user(), note=note)
        run = data["runId"]
        said = f"{'rejected' if reject else 'approved'} {data['path']} of {run}: {data['approval']}"
        return _gone_on(app, run_id, {**data, "id": run}, said, store, project)

    return with_app(work, project=project, store=store, tools=False)


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        return None


def _gone_on(app: App, run_id: str, data: dict[str, Any], said: str, store: str | None, project: Path | None) -> Answer:
    """Who goes on with the run: its process, or whoever resumes it."""
    from ...runs import LEFT

    run_id = app.runs.outermost(run_id)  # the run to resume, where the answer was for a part of it
    row = app.runs.row(run_id)
    standing = app.runs.standing([row] if row is not None else ()).get(run_id)
    alone = standing in LEFT
    command = f"ropewalk resume {shlex.quote(run_id)}{again(store, project)}"
    lines = [said, f"go on with: {command}"] if alone else [said]
    if standing == "queued":
        lines.append(app.workers.unattended(run_id) or "a worker goes on with it")
    return Answer(data={**data, "resume": command if alone else None}, text=visible("\n".join(lines)))


def again(store: str | None, project: Path | None) -> str:
    """The options that name the same store once more."""
    given = (("--store", store), ("-C", str(project) if project is not None else None))
    return "".join(f" {option} {shlex.quote(value)}" for option, value in given if value)


def waits(data: dict[str, Any], where: str, engine: str | None = None, *, by: str | None = None) -> list[str]:
    """What a run waits for, each with the command that answers it, and how it goes on; `where` are the options that
    name its store, `engine` is who is to execute it if not who is configured; `by` is who goes on with it by itself."""
    waiting = data.get("waitingFor") or []
    if not waiting:
        return []
    own = waiting[0].get("runId") or data.get("runId") or data.get("executionId") or data.get("id")
    run = shlex.quote(str(own))  # of a part the outermost run, which is the one to answer and to resume
    lines = []
    nodes = [wait.get("node") for wait in waiting]
    for wait in waiting:
        lines.append(f"  {asked(wait)}")
        if _over(wait):
            continue
        alone = asker(wait["path"]) is not None and nodes.count(wait.get("node")) == 1
        lines.append(f"    {command(run, {**wait, 'path': wait['node']} if alone else wait)}{where}")
    if by is not None:
        lines.append(f"  then {by} goes on with it")
    else:
        lines.append(f"  then: ropewalk resume {run}{where}" + (f" --engine {engine}" if engine else ""))
    return [visible(line) for line in lines]


def asked(wait: dict[str, Any]) -> str:
    """What is waited for, in a line."""
    until = f", until {wait['due']}" if wait["due"] else ""
    if _over(wait):
        until = f", but its time was over at {wait['due']}"
    if "approval" in wait:
        return f"{asker(wait['path']) or wait['path']} waits for an approval{until}: {wait['approval']}"
    return f"{wait['path']} waits for the event {wait['event']!r}{until}"


def _over(wait: dict[str, Any]) -> bool:
    """Whether nothing that came now would be in time."""
    return bool(wait["due"]) and wait["due"] < (iso(time.time()) or "")


def command(run: str, wait: dict[str, Any]) -> str:
    if "approval" in wait:
        return f"ropewalk runs approve {run} {shlex.quote(wait['path'])}"
    return f"ropewalk runs send {run} {shlex.quote(wait['event'])}"
