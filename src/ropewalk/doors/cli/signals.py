"""Commands that answer waits: `runs send` and `runs approve`, and how waits are shown.

A wait is shown with the command that answers it, which every other command reuses (`wait_lines`).
"""

from __future__ import annotations

import getpass
import re
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
from cyclopts import Parameter

from ...journal.protocol import iso
from ...source.document import escape_invisible
from .arguments import read_input
from .dispatch import Answer
from .options import Json, Project, StoreAddress
from .questions import example_answer, form_lines
from .session import Interrupts, store_options, with_app

if TYPE_CHECKING:
    from ...app.app import App
    from ...events import Event
    from ...journal.protocol import RunRow

_ASKED: Final = re.compile(r"(?:.*/)?([^/]+)\[(\d+)\]/(?:\1\.)?calls\[\d+\]/(?:\1\.)?use\[\d+\]/(?:\1\.)?approval\..+")
Wait = Annotated[
    bool,
    Parameter(
        name="--wait", negative=(), help="Keep the process running while the run waits for events and approvals."
    ),
]

Stay = Annotated[
    bool | None,
    Parameter(
        name="--wait",
        negative="--no-wait",
        help="--wait: keep the process running while the run waits for events and approvals. --no-wait: print the id of"
        " the queued run and exit.",
    ),
]


def send(
    run_id: str,
    event: str,
    /,
    *,
    payload: Annotated[
        str | None,
        Parameter(
            allow_leading_hyphen=True, help="Payload as JSON, or @FILE with JSON or YAML; @- reads standard input."
        ),
    ] = None,
    id: Annotated[
        str | None, Parameter(name="--id", help="Idempotency key: an event with this id is delivered only once.")
    ] = None,
    early: Annotated[bool, Parameter(negative=(), help="Store the event if no step waits for it yet.")] = False,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Send an event to a waiting run, or the answer to a question of an MCP server."""
    arguments = read_input(payload, "--payload")

    async def work(app: App, _: Interrupts) -> Answer:
        sent = app.runs.send(run_id, event, arguments, id=id, early=early)
        data = {"event": event, "sent": sent, "payload": arguments}
        before = f"{event} was sent to {run_id} before" + (f", with the id {id}" if id is not None else "")
        message = f"sent {event} to {run_id}" if sent else before
        return _continue_answer(app, run_id, data, message, store, project)

    return with_app(work, project=project, store=store, tools=False)


def approve(
    run_id: str,
    node: str | None = None,
    /,
    *,
    reject: Annotated[bool, Parameter(negative=(), help="Reject instead of approving.")] = False,
    note: Annotated[str | None, Parameter(name=["--note", "--comment"], help="Comment on the decision.")] = None,
    by: Annotated[str | None, Parameter(help="Name of the person who decides (default: your user name).")] = None,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Approve or reject a step of a waiting run.

    NODE is the id or the path of the step. It is needed only if several steps wait for an approval.
    """

    async def work(app: App, _: Interrupts) -> Answer:
        wait = app.runs.approve(run_id, node, approved=not reject, by=by or _user(), note=note)
        message = f"{'rejected' if reject else 'approved'} {wait['path']} of {wait['runId']}: {wait['approval']}"
        return _continue_answer(app, run_id, {"answered": wait}, message, store, project)

    return with_app(work, project=project, store=store, tools=False)


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        return None


def who_continues(app: App, row: RunRow) -> str | None:
    """Return what continues a run by itself once it is answered; None if nothing does."""
    if app.runs.has_worker(row):
        return "a worker"
    return "a server or a worker of its project" if app.workers.resumes(row) else None


def _continue_answer(
    app: App, run_id: str, data: dict[str, Any], message: str, store: str | None, project: Path | None
) -> Answer:
    """Answer with a message, and say who continues the run: its process, a worker or a command."""
    from ...app.presenters import run_state
    from ...app.recorded_run import require_run
    from ...app.runs.liveness import RESUMABLE

    # The run to resume is the outermost one, if the answer was for a part of it.
    row = require_run(app.store, app.runs.outermost(run_id))
    run_id = row.id
    state = app.runs.liveness_of([row]).get(run_id)
    resumer = who_continues(app, row) if state == "answered" else None  # an interrupted run is left to people
    must_resume = state in RESUMABLE and resumer is None
    command = f"ropewalk resume {shlex.quote(run_id)}{store_options(store, project)}"
    lines = [message, f"next: {command}"] if must_resume else [message]
    if state == "queued":
        lines.append(app.workers.unattended(run_id) or "a worker continues it")
    elif resumer is not None:
        lines.append(f"{resumer} continues it")
    data = {**run_state(app.context, row, **data), "resume": command if must_resume else None}
    return Answer(data=data, text=escape_invisible("\n".join(lines)))


def wait_lines(
    data: dict[str, Any], options: str, engine: str | None = None, *, resumer: str | None = None
) -> list[str]:
    """Render what a run waits for, each wait with the command that answers it, and how the run continues."""
    waiting = data.get("waitingFor") or []
    if not waiting:
        return []
    root = waiting[0].get("runId") or data["runId"]
    run = shlex.quote(str(root))  # the outermost run, which takes the answer for its parts
    lines = []
    nodes = [wait.get("node") for wait in waiting]
    for wait in waiting:
        lines.append(f"  {wait_text(wait)}")
        if _is_overdue(wait):
            continue
        is_unique = asker(wait["path"]) is not None and nodes.count(wait.get("node")) == 1
        if "question" in wait:
            lines += [f"    {line}" for line in form_lines(wait["question"])]
        lines.append(f"    {command(run, {**wait, 'path': wait['node']} if is_unique else wait)}{options}")
    if resumer is not None:
        lines.append(f"  then {resumer} continues it")
    else:
        lines.append(f"  then: ropewalk resume {run}{options}" + (f" --engine {engine}" if engine else ""))
    return [escape_invisible(line) for line in lines]


def wait_text(wait: dict[str, Any]) -> str:
    """Describe a wait in one line."""
    until = f", until {wait['due']}" if wait["due"] else ""
    if _is_overdue(wait):
        until = f", but its timeout ended at {wait['due']}"
    if "approval" in wait:
        return f"{asker(wait['path']) or wait['path']} waits for an approval{until}: {wait['approval']}"
    if "question" in wait:
        server, message = wait["question"]["server"], wait["question"]["message"]
        return f"{wait['path']} waits for an answer{until}: {server} asks: {message}"
    return f"{wait['path']} waits for the event {wait['event']!r}{until}"


def _is_overdue(wait: dict[str, Any]) -> bool:
    """Return True if the timeout of the wait has passed."""
    return bool(wait["due"]) and wait["due"] < (iso(time.time()) or "")


def command(run: str, wait: dict[str, Any]) -> str:
    """Return the command that answers a wait."""
    if "approval" in wait:
        return f"ropewalk runs approve {run} {shlex.quote(wait['path'])}"
    send = f"ropewalk runs send {run} {shlex.quote(wait['event'])}"
    if "question" not in wait:
        return send
    return f"{send} --payload {shlex.quote(orjson.dumps(example_answer(wait['question'])).decode())}"


def answer_command(event: Event, options: str) -> str:
    """Return the command that answers the wait that an event reports, indented below its line."""
    wait = {**(event.data or {}), "path": event.path}
    return escape_invisible(f"    {command(shlex.quote(event.run_id), wait)}{options}")


def asker(path: str) -> str | None:
    """`agent turn 2` of the path of an approval that an agent asks for; None of every other one."""
    result = _ASKED.fullmatch(path)
    return f"{result[1]} turn {int(result[2]) + 1}" if result else None
