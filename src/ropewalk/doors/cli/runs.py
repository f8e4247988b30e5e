"""The commands `runs ls|show|watch|stop|diff|export`: what the store knows about runs.

The services of `app.runs` answer; this module turns their answers into text, and every command also gives
the same data for `--json`. Text is cut where a run is long (`_STEP_LIMIT`, `_TEXT_LIMIT`), JSON never is.
No tool module is imported here, so that runs can be looked at and stopped when a project is broken.
To add a command, write a function that returns an `Answer` and name it in `commands.COMMANDS`.
"""

from __future__ import annotations

import asyncio
import math
import os
import shlex
import sys
import time
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
from cyclopts import Parameter, validators

from ...app.facts import approval_text
from ...app.recorded_run import require_run
from ...app.runs.liveness import error_of
from ...app.runs.pages import is_long, read_ends
from ...errors import StoreError, errors_in, raised_at
from ...events import Event
from ...journal.address import MissingStore
from ...journal.protocol import ENDS, SCHEDULE
from ...source.document import escape_invisible, json_text, shorten
from ...values import did_you_mean
from ..remedies import given_options
from .agents import Transcript
from .arguments import saved
from .dispatch import FAILED, JSON_HINT, Answer, UsageError, run_exit_code
from .options import Json, Project, StoreAddress
from .output import columns, duration, first_line, moment, notify, time_of_day, with_place
from .progress_counts import MARKS, REUSED, RunCounts, attempt_failed_line, awaited, is_new_wait, node_line, wait_line
from .rerun import case_text, in_quick_time
from .session import Interrupts, facts_with_tools, no_project_note, store_options, with_app, without_tools
from .signals import wait_lines, who_continues
from .store import instant
from .streams import write_stdout
from .undo import undo_lines

if TYPE_CHECKING:
    from ...app.app import App
    from ...journal.protocol import RunRow

_STEP_LIMIT = 100  # at the beginning and at the end, and of those that failed
_MIN_IDLE = 0.5  # seconds in which a run was not executed that are worth saying
_FOLLOW_SECONDS = 0.2  # between two looks
_TEXT_LIMIT = 10_000  # characters of a result
_STACK_LIMIT = 3  # stacks of failed steps
_EARLIER_LIMIT = 5  # failed steps that a retry repeated, of each retry
_STEP_MARKS = {"ok": "✓", "recovered": "~", "failed": "✗", "skipped": "-"}


def ls(
    *,
    status: Annotated[tuple[str, ...], Parameter(negative=(), help="Only runs with this status; repeatable.")] = (),
    flow: Annotated[str | None, Parameter(help="Only runs of the definition with this id or name.")] = None,
    since: Annotated[
        str | None, Parameter(help="Only runs started since then: 2h or 30d (ago), 2026-11-01, 2026-11-01T12:30.")
    ] = None,
    until: Annotated[
        str | None, Parameter(help="Only runs started before then, in the same formats as --since.")
    ] = None,
    after: Annotated[
        str | None, Parameter(help="Only runs listed after the run with this id, for the next page.")
    ] = None,
    kind: Annotated[str | None, Parameter(help="Only runs of this kind of definition, such as chain.")] = None,
    search: Annotated[str | None, Parameter(help="Only runs whose id, name or error contains this text.")] = None,
    all: Annotated[bool, Parameter(negative=(), help="Also list runs that are part of another run.")] = False,
    limit: Annotated[int, Parameter(validator=validators.Number(gte=1), help="Maximum number of runs.")] = 50,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """List runs, newest first."""
    from ...app.presenters import run_lines
    from ...app.runs.liveness import LIVENESS_STATES

    since_time, until_time = instant(since, "--since"), instant(until, "--until")

    async def work(app: App, _: Interrupts) -> Answer:
        if after is not None:
            require_run(app.store, after)
        rows = app.runs.list(
            status=status, kind=kind, flow=flow, text=search, since=since_time, until=until_time, after=after, all=all,
            limit=limit,
        )  # fmt: skip
        is_noted = isinstance(app.store, MissingStore) and _note_missing(app.store, project)
        _warn_damaged(rows)
        now = time.time()
        data, table = run_lines(app.context, rows), []
        for row, line in zip(rows, data, strict=True):
            state = next((name for name in LIVENESS_STATES if line[name]), None)
            status_text = "damaged" if row.damaged else state or row.status
            status_text += _UNDO_WORDS.get(line["undoStatus"], "")
            # The row of a crashed run lacks the steps that were recorded after its last summary.
            timed = _with_progress(app, row) if state == "interrupted" else row
            took = _execution_time(timed, now, state, app.runs.earlier_seconds(row))
            started = moment(row.started_at)
            table.append((row.id, row.name, row.kind, status_text, started, took, row.result_count, row.error_count))
        head = ("RUN", "NAME", "KIND", "STATUS", "STARTED", "TOOK", "RESULTS", "ERRORS")
        if rows or is_noted:
            return Answer(data=data, text=columns(head, table) if rows else "no runs")
        is_filtered = any((status, kind, flow, search, since, until, after)) and bool(app.runs.list(limit=1))
        options = store_options(store, project)
        return Answer(data=data, text=f"no runs {_NEXT_STEP[is_filtered]}{options}")

    return with_app(work, project=project, store=store, tools=False)


_NEXT_STEP: Final = {
    True: "match; to list all of them: ropewalk runs ls",
    False: "yet; to start one: ropewalk run FILE",
}
"""What to do without a run in the list, by whether filters hide some."""


def _note_missing(store: MissingStore, project: Path | None) -> bool:
    """Say where no store is yet, if the user chose the place or if there is no project; return True then."""
    note = None if store.is_explicit else no_project_note(project)
    if store.is_explicit:
        notify(f"there is no store at {store.path} yet; the first run creates it: ropewalk run FILE")
    elif note is not None:
        notify(f"there is no store at {store.path}: {note}")
    return store.is_explicit or note is not None


_UNDO_WORDS: Final = {"undone": ", undone", "undoing": ", being undone", "incomplete": ", undo incomplete"}


def _warn_damaged(rows: Iterable[RunRow]) -> None:
    for row in rows:
        if row.damaged:
            notify(row.damaged)


def _with_progress(app: App, row: RunRow) -> RunRow:
    """Return the row with everything that the run had executed when its process died."""
    try:
        return app.store.get_run(row.id, so_far=True) or row
    except StoreError as error:  # one unreadable run must not keep the others from the list
        notify(str(error))
        return row


def _execution_time(row: RunRow, now: float, state: str | None, earlier: float) -> str:
    """Return how long the run executed, without the time that it was queued, interrupted or waiting."""

    # For a run that a process executes now, return the time since its start. `earlier` is the time in seconds of
    # executions before a retry.
    if state is not None or row.status == "waiting":
        return duration(row.spent + earlier) if state != "queued" and row.spent + earlier else "-"
    if row.ended_at and row.spent:
        return duration(row.spent + earlier)
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
            help=(
                "Number of steps per page. [default: all; for more than 5,000 steps without --json, only the failed "
                "ones and the last 100]"
            ),
        ),
    ] = None,
    after: Annotated[
        int, Parameter(validator=validators.Number(gte=0), help="Start of the page: the `next` of the previous page.")
    ] = 0,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Show one run: every recorded step with its duration, result or error."""

    async def work(app: App, _: Interrupts) -> Answer:
        page_size = limit
        if page_size is None and not json and (after or is_long(app.context, run_id)):
            page_size = 2 * _STEP_LIMIT
        row = require_run(app.store, run_id)
        details = app.runs.get(run_id, after=after, limit=page_size) or {}
        if details["facts"]:
            details["facts"] = facts_with_tools(app, run_id, project)
        # Without a request for a page, a long run shows its failed and its last steps.
        abridged = page_size is not None and limit is None and not after

        # Who continues the run, and what a person can do about it.
        queue_note = await asyncio.to_thread(app.workers.unattended, run_id) if details["queued"] else None
        resumer = _resumer(app, row) if not _is_abandoned(details) else None
        transcript = Transcript(details["kind"], row.document)
        root = app.runs.outermost(run_id)
        options = store_options(store, project)
        if abridged:
            details["nodes"] = read_ends(app.context, row, _STEP_LIMIT)
        command = f"ropewalk runs show {shlex.quote(run_id)}"
        if after:  # everything but the steps is on the first page
            text = _page_text(details, root, transcript)
        else:
            entire = page_size is not None
            text = _details_text(details, root, transcript, queue_note, resumer, options, entire=entire)
            text += _next_step(app, row, details, options)

        # How to see the steps that are missing here.
        if abridged:
            all_steps = f"{command} --limit {page_size}{options}"
            text += f"\n\nthese are the steps that failed and the last ones; all steps: {all_steps}"
        elif details["next"] is not None:
            limit_option = "" if limit is None else f" --limit {limit}"
            text += f"\n\nmore steps: {command}{limit_option} --after {details['next']}{options}"
        return Answer(data=details, text=text)

    return with_app(work, project=project, store=store, tools=False)


def _next_step(app: App, row: RunRow, run: Mapping[str, Any], options: str) -> str:
    """Say how to retry or to continue a run that has ended."""
    from .run import retry_advice  # only a run that has ended needs it

    if row.ended_at is None or row.kind == SCHEDULE:
        return ""
    errors = run.get("errors") or (errors_in(row.result) if isinstance(row.result, dict) else [])
    errors = errors or [node["error"] for node in run["nodes"] if node["status"] == "failed"]
    if not errors and row.status in ("failed", "partial"):
        return ""
    return "".join(f"\n\n{line}" for line in retry_advice(app, row, {"errors": errors}, options))


def _is_abandoned(run: dict[str, Any]) -> bool:
    """Return True if no process executes the run, and none will without a command."""
    return bool(run["interrupted"] or run["answered"])


def _resumer(app: App, row: RunRow) -> str | None:
    """Return who resumes the run by itself when its event arrives; None if nobody does."""
    if row.status == "running" and not app.runs.has_worker(row):
        return "its process"
    return who_continues(app, row)


def _details_text(
    run: dict[str, Any],
    root: str,
    transcript: Transcript,
    queue_note: str | None,
    resumer: str | None,
    options: str,
    *,
    entire: bool,
) -> str:
    """Render a run as text."""
    status = _status_text(run, root, queue_note, options)
    # Facts that every run has, then those that only some have.
    lines = [f"{run['name'] or run['kind']}  {run['runId']}", f"  status   {status}", f"  started  {run['startTime']}"]
    if run.get("forkedFrom"):
        lines.append(f"  fork of  {run['forkedFrom']}")
    if run.get("version"):
        lines.append(f"  version  {run['version']} of {run['definitionId']} ({run['fingerprint']})")
    if run.get("endTime"):
        lines.append(f"  ended    {run['endTime']}")
        lines.append(f"  took     {_time_spent(run)}")
    if run["currentNode"] is not None and run["status"] == "running":
        lines.append(f"  at       {run['currentNode']}")
    if run.get("owner") and run["status"] in ("running", "waiting"):
        lines.append(f"  owner    {run['owner']}")
    if run["resumed"]:
        last = f", last by {run['owner']}" if run["owner"] else ""
        lines.append(f"  resumed  {run['resumed']} time{'' if run['resumed'] == 1 else 's'}{last}")
    if run.get("input") is not None:
        lines.append(f"  input    {_short_text(run['input'])}")
    for budget in run["budgets"]:
        used = ", ".join(
            f"{name} {budget['used'][name]:,.10g} of {most:,.10g}" for name, most in budget["limits"].items()
        )
        lines.append(f"  budget   {budget['account']}: {used}")
    for ending in run["endings"]:
        lines += _ending_lines(ending, entire=entire)

    # What the run waits for, its steps, and how it ended.
    lines += _waiting_lines(run, options, resumer)
    lines += ["", *_step_lines(run, root, transcript, entire=entire)]
    lines += _stack_lines(run["nodes"])
    if run.get("undo") is not None:
        lines += ["", *undo_lines(run["undo"], run["runId"], options)]
    if run.get("error") is not None:
        lines += ["", f"error: {with_place(transcript.error(_cause_text(run)), run['error'])}"]
    if run["kind"] == SCHEDULE:
        start = f"ropewalk schedules run {shlex.quote(run['name'])}{options}"
        lines += ["", f"the run could not begin; correct the cause, then start another one: {start}"]
    result = _result_text(run)
    if result is not None:
        lines += ["", f"result: {_truncate(result)}"]
    return escape_invisible("\n".join(lines))


def _status_text(run: dict[str, Any], root: str, queue_note: str | None, options: str) -> str:
    """Render the status of a run; of one without a process also who continues it."""
    resume = f"ropewalk resume {shlex.quote(root)}{options}"
    if run["queued"]:
        first = _correction(run["error"])
        return f"queued: {queue_note or 'a worker takes it'}{f'; {first} first' if first else ''}"
    if run["interrupted"]:
        return f"{run['status']}, but its process is gone; {_resume_advice(run['error'])}: {resume}"
    return f"answered; to continue it: {resume}" if run["answered"] else str(run["status"])


def _waiting_lines(run: dict[str, Any], options: str, resumer: str | None) -> list[str]:
    """Render what a run waits for; for an approval also what its flows may do, which the person decides about."""
    if not run["waitingFor"]:
        return []
    lines = ["", *wait_lines(run, options, resumer=resumer)]
    return [*lines, "", *approval_text(run["facts"]).splitlines()] if run["facts"] else lines


def _page_text(run: dict[str, Any], root: str, transcript: Transcript) -> str:
    """Render a page after the first one: only its steps."""
    heading = f"{run['name'] or run['kind']}  {run['runId']}"
    steps = _step_lines(run, root, transcript, entire=True)
    return escape_invisible("\n".join([heading, "", *steps, *_stack_lines(run["nodes"])]))


def _step_lines(run: dict[str, Any], root: str, transcript: Transcript, *, entire: bool) -> Iterable[str]:
    # The waits of a part have paths that begin at its outermost run.
    prefix = f"{run['runId'].removeprefix(f'{root}/')}/"
    pending = {wait["path"].removeprefix(prefix) if "runId" in wait else wait["path"] for wait in run["waitingFor"]}
    steps = list(transcript.lines(run["nodes"]))
    now = math.inf if run.get("endTime") else time.time()
    return _abridged_lines(steps, now, pending, entire=entire)


def _stack_lines(nodes: list[dict[str, Any]]) -> Iterable[str]:
    """Render the stacks of the last failed steps, each stack once."""
    stacks = _stacks_of(nodes)
    for stack, path in list(stacks.items())[-_STACK_LIMIT:]:
        yield f"\nstack of {path}:"
        yield from (f"  {line}" for line in stack.splitlines())
    if len(stacks) > _STACK_LIMIT:
        yield f"… {len(stacks) - _STACK_LIMIT:,} more stacks; --json has all"


def _stacks_of(nodes: list[dict[str, Any]]) -> dict[str, str]:
    """Return the name of a failed step for each stack."""
    return {
        node["error"]["stack"]: node.get("words", node["path"])
        for node in nodes
        if isinstance(node["error"], dict) and node["error"].get("stack")
    }


def _cause_text(run: dict[str, Any]) -> str:
    """Render the error of a run: all lines of its message, unless a stack has them."""
    error = run["error"]
    message = str(error["message"]) if isinstance(error, dict) and "message" in error else _short_text(error, 1000)
    last_line = message.rstrip().rpartition("\n")[2]
    is_in_stack = any(last_line in stack for stack in _stacks_of(run["nodes"]))
    return _short_text(message, 1000) if is_in_stack else shorten(message, hint=JSON_HINT)


def _result_text(run: dict[str, Any]) -> str | None:
    """Render the result of a run, and its warnings."""
    result = run["result"]
    text = result if isinstance(result, str) else json_text(result)
    warned = "".join(f"\nwarning: {warning}" for warning in run.get("warnings") or ())
    return text + warned if result not in (None, "") or warned else None


def _time_spent(run: dict[str, Any]) -> str:
    """Render the time of all executions, and the time that the run was queued, waiting or without a process."""
    took = run["duration"] / 1000 + sum(ending.get("spent", 0.0) for ending in run["endings"])
    idle = run["elapsed"] / 1000 - took
    reason = "queued, waiting, interrupted or not yet retried" if run["endings"] else "queued, waiting or interrupted"
    return duration(took) + (f", and {duration(idle)} {reason}" if idle >= _MIN_IDLE else "")


def _abridged_lines(nodes: list[dict[str, Any]], now: float, pending: Container[str], *, entire: bool) -> Iterable[str]:
    """Render one line per step; for a long run only the first, the failed and the last steps."""
    if entire or len(nodes) <= 2 * _STEP_LIMIT:
        return (_step_line(node, now, pending) for node in nodes)
    first, middle, last = nodes[:_STEP_LIMIT], nodes[_STEP_LIMIT:-_STEP_LIMIT], nodes[-_STEP_LIMIT:]
    failed = [node for node in middle if node["status"] == "failed"][:_STEP_LIMIT]
    note = f"… {len(middle) - len(failed):,} steps are left out here; --json has all"
    head = [_step_line(node, now, pending) for node in first]
    return [*head, note, *(_step_line(node, now, pending) for node in [*failed, *last])]


def _step_line(node: dict[str, Any], now: float, pending: Container[str]) -> str:
    name = node.get("words", node["path"])
    if node["status"] == "decided":
        return f"· {name}  {_decision_text(node, now, pending)}"
    took = duration((node["ms"] or 0) / 1000)
    is_reused = node.get("replayed") and node["status"] == "ok"
    mark = MARKS[REUSED] if is_reused else _STEP_MARKS.get(node["status"], " ")
    outcome = node["says"] if "says" in node else _outcome_text(node)
    line = f"{mark} {name}  {took}  {outcome}".rstrip()
    return "\n".join([line, *_repetition_lines(node), *_rejected_lines(node)])


def _repetition_lines(node: dict[str, Any]) -> Iterable[str]:
    """Say that a step ran more than once, as far as its lines show it."""
    if "earlierStart" in node:
        yield f"    ran before: it had begun by {node['earlierStart']}, without a recorded result"


def _rejected_lines(node: dict[str, Any]) -> Iterable[str]:
    """Render the rejected results of tools that ran in a failed step, or in the flow that it called."""
    error = node["error"]
    if isinstance(error, dict) and isinstance(error.get("result"), dict):
        yield f"    rejected result: {_tool_result_text(error['result'])}"
    for item in node.get("rejected", ()):
        yield f"    rejected result of {item['path']}: {_tool_result_text(item['result'])}"


def _tool_result_text(result: dict[str, Any]) -> str:
    return _short_text(result["value"] if "value" in result else result.get("text"), 1000)


def _outcome_text(node: dict[str, Any]) -> str:
    """Render the error, the reason or the value of a step; "" if its value was not kept."""
    if node["error"] is not None or node["reason"]:
        error = node["error"]
        text = _short_text(node["reason"]) if error is None else with_place(_short_text(error), error)
        return text + (raised_at({**error, "message": text}) if isinstance(error, dict) else "")
    return _short_text(node["value"]) if "value" in node else ""


def _truncate(text: str) -> str:
    excess = len(text) - _TEXT_LIMIT
    return text if excess <= 0 else f"{text[:_TEXT_LIMIT]}\n… {excess:,} more characters; --json has all"


def _ending_lines(ending: dict[str, Any], *, entire: bool) -> Iterable[str]:
    """Render how the run ended before a retry, and the failed steps that the retry repeated."""
    failed = ending["failed"]
    error = "" if ending["error"] is None or failed else f": {_short_text(ending['error'])}"
    yield f"  retried  after {ending['status']} at {ending['endTime']}{error}"
    shown = failed if entire else failed[:_EARLIER_LIMIT]
    yield from (
        f"    {MARKS['failed']} {step['path']}  {step['ended']}  {_short_text(step['error'])}" for step in shown
    )
    if ending["failedCount"] > len(shown) > 0:
        yield f"    … {ending['failedCount'] - len(shown):,} more failed steps"


def _decision_text(node: dict[str, Any], now: float, pending: Container[str]) -> str:
    """Say what a node decided first; the steps inside of it say how it ended."""
    decision = node["decision"]
    if node["kind"] == "items":
        return f"iterates over {len(decision)} item{'' if len(decision) == 1 else 's'}"
    if node["kind"] == "timer":
        return f"{'waits' if decision > now else 'waited'} until {moment(decision)}"
    if node["kind"] == "wait":
        due_at = decision["due"] and moment(decision["due"])
        what = awaited(decision)
        if node["path"] in pending:
            return f"waits{f' until {due_at}' if due_at else ''} for {what}"
        return f"waited for {what}{f' (at most until {due_at})' if due_at else ''}"
    if node["kind"] == "signal":
        if "late" in decision:
            return "nothing came in time"
        return f"got {_short_text(decision['value'])}, {moment(decision['sent'])}"
    if decision < 0:
        return f"no condition is true: takes {node['path']}[else]"
    return f"takes {node['path']}[{decision}]"


def _short_text(value: Any, limit: int = 80) -> str:
    if isinstance(value, dict) and "message" in value:
        value = value["message"]
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return first_line(text, limit)


def watch(run_id: str, /, *, json: Json = False, store: StoreAddress = None, project: Project = None) -> Answer:
    """Follow a run until it ends or waits. With --json, print one event per line."""

    async def work(app: App, _: Interrupts) -> Answer:
        require_run(app.store, run_id)
        from .dispatch import json_line

        counts, status, options = RunCounts(), "", store_options(store, project)
        resume = f"ropewalk resume {shlex.quote(app.runs.outermost(run_id))}{options}"
        async for event in app.runs.watch(run_id):
            # What a person must know goes to standard error; the events themselves to standard output.
            if event.kind == "run.finished":
                status = str((event.data or {}).get("status"))
            if event.kind == "run.interrupted":
                error = await asyncio.to_thread(_death, app, run_id)
                gone = "its process is gone" if error is None else _death_text(error)
                sys.stderr.write(f"{gone}; {_resume_advice(error)}: {resume}\n")
            if event.kind == "run.queued":
                message = await asyncio.to_thread(app.workers.unattended, run_id)
                sys.stderr.write(f"{message or 'queued: a worker takes it'}\n")
            if event.kind == "run.waiting":
                status = "waiting"
                answered = (event.data or {}).get("answered")
                message = "it waits, and no process executes it:"
                if answered:
                    message = f"it was answered; to continue it: {resume}"
                sys.stderr.write("\n".join([message, *_wait_lines(app, run_id, options)]) + "\n")
            if json:
                json_line(event.to_dict())
            else:
                for text in _event_lines(event, counts):
                    write_stdout(text + "\n")
        return Answer(exit=run_exit_code({"status": status}))

    return with_app(work, project=project, store=store, tools=False)


def logs(
    run_id: str,
    node: str | None = None,
    /,
    *,
    follow: Annotated[
        bool, Parameter(name=("--follow", "-f"), negative=(), help="Print new lines until the run ends or waits.")
    ] = False,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Show what the tools of a run have printed and logged; of NODE only, if given. With --follow --json, print one
    line as one object."""

    async def work(app: App, _: Interrupts) -> Answer:
        if not follow:
            lines = app.runs.logs(run_id, node)
            if not lines:
                notify(_no_lines(app, run_id, node))
            if (error := _death(app, run_id)) is not None:
                notify(_death_text(error))
            return Answer(data={"lines": lines}, text="\n".join(map(_log_line, lines)))
        from .dispatch import json_line

        seen: dict[str, int] = {}
        over = False
        while not over:
            row = require_run(app.store, run_id)
            over = row.status != "running" or bool(app.runs.liveness_of([row]))
            for line in unseen_lines(await asyncio.to_thread(app.runs.logs, run_id, node), seen):
                if json:
                    json_line(line)
                else:
                    write_stdout(escape_invisible(_log_line(line)) + "\n")
            await asyncio.sleep(0 if over else _FOLLOW_SECONDS)
        return Answer()

    return with_app(work, project=project, store=store, tools=False)


def _death(app: App, run_id: str) -> dict[str, Any] | None:
    """Return the error of a run that lost its process or is parked; None for another run, or if nothing is known."""
    row = require_run(app.store, run_id)
    if row.ended_at is not None and row.status != "parked":
        return None
    error: dict[str, Any] | None = error_of(app.context, row, app.runs.liveness_of([row]).get(run_id))
    return error


def _death_text(error: Mapping[str, Any]) -> str:
    return escape_invisible(with_place(str(error["message"]), error))


def _correction(error: Any) -> str | None:
    """Say what to do about the tool of a step in which the process of a run died; None if no step is known."""
    calls = error.get("calls") if isinstance(error, dict) else None
    if not calls:
        return None
    # One death may be the fault of another run in the same process.
    return "correct the tool" if any(call["deaths"] > 1 for call in calls) else "check the tool"


def _resume_advice(error: Any) -> str:
    first = _correction(error)
    return f"{first}, then resume it" if first else "to resume it"


def _no_lines(app: App, run_id: str, node: str | None) -> str:
    """Say that there are no lines, with the recorded node of a similar name."""
    text = f"no tool of {'the run' if node is None else f'a node {node!r}'} has printed or logged anything"
    if node is None:
        return text
    names = {name for entry in app.context.history(run_id) for name in (entry.node, entry.path)}
    near = None if node in names else did_you_mean(node, sorted(filter(None, names)))
    return text if near is None else escape_invisible(f"{text}; did you mean {near}?")


def unseen_lines(lines: Iterable[dict[str, Any]], seen: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Yield the lines that are new since the last look, and remember their numbers in `seen`, by path."""

    # The lines are in the order of their times, in which those of one step may be out of the order of their numbers.
    before = dict(seen)
    for line in lines:
        path, number = line["path"], line["number"]
        unseen = number - before.get(path, 0)
        if unseen > 0:
            seen[path] = max(number, seen.get(path, 0))
            # Some of the lines that are left out now were there at the last look.
            yield {**line, "leftOut": min(line["leftOut"], unseen)} if "leftOut" in line else line


def _log_line(line: Mapping[str, Any]) -> str:
    time, stream = time_of_day(line["at"]), line.get("level") or line.get("stream", "")
    if "leftOut" in line:
        return f"{time}  {line['path']}  … {line['leftOut']:,} lines are left out"
    return f"{time}  {line['path']}  {stream}: {line['text']}"


def _wait_lines(app: App, run_id: str, options: str) -> list[str]:
    resumer = who_continues(app, require_run(app.store, run_id))
    return wait_lines(app.runs.get(run_id, events=False) or {}, options, resumer=resumer)


def _event_lines(event: Event, counts: RunCounts) -> Iterable[str]:
    step = counts.take(event)
    if step is not None:
        yield node_line(step)
    elif event.kind == "run.finished":
        yield f"run {(event.data or {}).get('status')}"
    elif is_new_wait(event):
        yield wait_line(event)
    elif event.kind == "attempt.failed":
        yield attempt_failed_line(event)


def stop(run_id: str, /, *, json: Json = False, store: StoreAddress = None, project: Project = None) -> Answer:
    """Stop a run, in any process. Cancels the steps that are running and keeps the results of finished steps."""

    from ...app.presenters import run_lines, run_state

    async def work(app: App, _: Interrupts) -> Answer:
        before = require_run(app.store, run_id)
        [line] = run_lines(app.context, [before])
        stopped = app.runs.stop(run_id)
        data = run_state(app.context, require_run(app.store, run_id), stopped=stopped)
        if not stopped:
            return Answer(exit=FAILED, data=data, text=f"{run_id} is not running: {data['status']}")
        # A process that executes the run has yet to cancel the steps in progress.
        is_executing = before.status == "running" and not _is_abandoned(line)
        return Answer(data=data, text=f"{'stopping' if is_executing else 'stopped'} {run_id}")

    return with_app(work, project=project, store=store, tools=False)


_CHANGE_MARKS = {"added": "+", "removed": "-", "changed": "~"}


def diff(a: str, b: str, /, *, json: Json = False, store: StoreAddress = None, project: Project = None) -> Answer:
    """Compare two runs: definition, input, result, and every node with a different outcome."""

    async def work(app: App, _: Interrupts) -> Answer:
        changes = app.runs.diff(a, b)
        return Answer(data=changes, text=escape_invisible("\n".join(_diff_lines(changes))))

    return with_app(work, project=project, store=store, tools=False)


def _diff_lines(changes: dict[str, Any]) -> list[str]:
    """Render the differences of two runs: what changed, the two runs, and each difference."""
    lines = [_diff_summary(changes)]
    for side in "ab":
        run = changes[side]
        lines.append(f"{side}  {run['runId']}  {run['status']}  {_milliseconds(run['ms'])}")
    for change in changes["definition"]:
        fields = f" in {', '.join(change['fields'])}" if change["fields"] else ""
        lines.append(f"definition: {change['path'] or 'settings'} {change['what']}{fields}")
    lines += _value_lines(changes["input"], "input")

    # Nodes: one line each, and under it what differs inside of it.
    for node in changes["nodes"]:
        if node["what"] != "changed":
            lines.append(f"{_CHANGE_MARKS[node['what']]} {node['path']}  {node['status']}  {_milliseconds(node['ms'])}")
            continue
        status_a, status_b = node["status"]
        status = status_a if status_a == status_b else f"{status_a} -> {status_b}"
        lines.append(f"~ {node['path']}  {status}  {_milliseconds(node['ms'][0])} -> {_milliseconds(node['ms'][1])}")
        lines += [f"    {line}" for line in _value_lines(node["value"], "value")]
        if node["error"]:
            lines.append(f"    error: {node['error'][0] or '(none)'} -> {node['error'][1] or '(none)'}")
    if changes["nodesLeftOff"]:
        lines.append(f"... and {changes['nodesLeftOff']} more nodes")
    lines += _value_lines(changes["result"], "result")
    if changes["error"]:
        lines.append(f"error: {changes['error'][0] or '(none)'} -> {changes['error'][1] or '(none)'}")
    return lines


def _diff_summary(changes: dict[str, Any]) -> str:
    """Say in one line which parts of two runs differ, and how many nodes are equal."""
    nodes = len(changes["nodes"]) + changes["nodesLeftOff"]
    parts = [part for part in ("definition", "input") if changes[part]]
    parts += [f"{nodes:,} {'node' if nodes == 1 else 'nodes'}"] if nodes else []
    parts += [part for part in ("result", "error") if changes[part]]
    same = f"{changes['same']:,} {'node is' if changes['same'] == 1 else 'nodes are'} equal"
    return f"changed: {', '.join(parts) or 'nothing'}; {same}"


def _value_lines(changes: list[dict[str, Any]], name: str) -> list[str]:
    lines = []
    for change in changes:
        if "more" in change:
            lines.append(f"{name}: and {change['more']} more differences")
            continue
        path = change["path"]
        place = name + (path if path.startswith("[") or not path else f".{path}")
        lines.append(f"{place}: {_side_text(change, 'a')} -> {_side_text(change, 'b')}")
    return lines


def _side_text(change: dict[str, Any], side: str) -> str:
    return orjson.dumps(change[side]).decode() if side in change else "(not there)"


def _milliseconds(ms: float | None) -> str:
    return "-" if ms is None else duration(ms / 1000)


_EXTERNAL_STATUSES: Final = ("stopped", "parked")


def export(
    run_id: str,
    /,
    *,
    as_test: Annotated[
        bool,
        Parameter(
            negative=(), help="Export a test for `ropewalk test`: the results of all tool calls, and the outcome."
        ),
    ] = False,
    flow: Annotated[
        Path | None,
        Parameter(help="With --as-test: file of the definition (default: include the definition in the test)."),
    ] = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="Output file.")] = None,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Export everything recorded of a run as one JSON object. It names secrets and holds no value of one."""
    if as_test:
        return _export_case(run_id, flow=flow, output=output, store=store, project=project)
    if flow is not None:
        raise UsageError("--flow goes with --as-test")

    async def work(app: App, _: Interrupts) -> Answer:
        data = app.runs.export(run_id)
        text = json_text(data)
        return Answer(data=data, text=text if output is None else saved(output, text + "\n"))

    return with_app(work, project=project, store=store, tools=False)


def _export_case(
    run_id: str, *, flow: Path | None, output: Path | None, store: str | None, project: Path | None
) -> Answer:
    """Export a run as a case for `ropewalk test`."""
    # The case names the definition by a path relative to the file that it is written to.
    folder = output.parent if output is not None else Path()
    if flow is not None and not (flow.is_file() or ":" in flow.name):
        raise UsageError(f"--flow: no file {str(flow)!r}")
    flow_path = os.path.relpath(flow, folder) if flow is not None else None

    async def work(app: App) -> dict[str, Any]:
        from ...testing.recording import make_case

        row = require_run(app.store, run_id)
        if row.status not in ENDS:
            raise UsageError(f"run {run_id} is {row.status}; only a run that has ended can become a test")
        if row.status in _EXTERNAL_STATUSES:
            why = f"run {run_id} cannot become a test: it was ended from outside ({row.status})"
            retry = f"; to let it end by itself: `ropewalk runs retry {quote(run_id)}{given_options()}`"
            raise UsageError(why + (retry if row.status == "stopped" else ""))
        loaded = app.definitions.get(row)
        return await make_case(row, app.runs.history(run_id), loaded, flow_path or {"kind": row.kind, **row.document})

    case = in_quick_time(work, lambda: without_tools(project, store))
    text = case_text(output or Path("case.yaml"), case)
    return Answer(data=case, text=text if output is None else saved(output, text))
