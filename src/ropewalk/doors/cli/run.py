"""The commands `run` and `resume`: execute a definition, show its progress and print its result.

`App` starts and resumes runs; this module reads the options, shows the events while they come
(`progress`) and renders the result (`summary`). `resume --all` resumes every interrupted or answered
run of the project. `followed` is the part that `runs retry` and `runs fork` share.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import orjson
from cyclopts import Parameter, validators

from ...check import UNKNOWN_TOOL
from ...errors import (
    InvalidInput,
    Problem,
    RopewalkError,
    display_path,
    errors_in,
    is_of_result,
    message_of,
    needs_in,
    raised_at,
    rejected_paths,
)
from ...events import Event
from ...journal.memory import MemoryStore
from ...journal.run_ids import new_run_id
from ...notations.binding import UNSET
from ...notations.records import needs_restart, nodes_to_restart
from ...ops import MODEL
from ...source.document import escape_invisible, json_text, render_problem, shorten
from ..errors import word_problem
from ..remedies import Door, changed_file_note
from .arguments import option_of, read_input, read_pairs, read_state, split_pairs, with_arguments
from .dispatch import FAILED, JSON_HINT, Answer, UsageError, run_exit_code
from .options import (
    Arguments,
    Changed,
    Definition,
    Engine,
    Input,
    Json,
    Log,
    LogLevel,
    Project,
    Queue,
    StoreAddress,
    Upgrade,
    Watch,
)
from .output import columns, configure_logging, duration, moment, notify, with_place
from .progress import choose_display
from .progress_counts import REUSED, RunCounts, changes, is_new_wait
from .questions import ask_on_terminal, shown_with
from .session import Interrupts, store_options, warn_of_idle_schedules, with_app
from .signals import Stay, Wait, answer_command, wait_lines, who_continues

if TYPE_CHECKING:
    from ...app.app import App
    from ...app.prepared import Prepared, Source
    from ...app.start import OnEvent
    from ...journal.protocol import RunRow
    from ...notations.records import Outcome
    from .undo import UndoNames


def resume_all(
    *,
    project: Path | None,
    store: str | None,
    engine: Literal["local", "dbos"] | None,
) -> Answer:
    """Resume every run that no process executes and list how each one ended."""

    # The exit code is 1 if a run failed or could not be resumed.

    async def work(app: App, interrupts: Interrupts) -> Answer:
        from ...app.runs.recovery import resume_all as resume_every  # no other run needs it

        interrupts.if_interrupted = f"to continue: ropewalk resume --all{store_options(store, project)}"
        outcomes = await resume_every(app)
        rows = [(outcome.run_id, outcome["status"], outcome.get("error") or "") for outcome in outcomes]
        failed = any(outcome["status"] not in ("completed", "partial", "waiting") for outcome in outcomes)
        return Answer(
            exit=FAILED if failed else 0,
            data=[outcome.to_answer() for outcome in outcomes],
            text=columns(("ID", "STATUS", "ERROR"), rows) if rows else "no run to resume",
        )

    return with_app(work, project=project, store=store, engine=engine)


_STACK_LIMIT = 3  # stacks that are shown
_REQUEST_CONFLICT = "is learnt from when the run ends here; leave out --no-wait, --queue and --priority"
_STATUS_MARKS = {"completed": "✓", "partial": "~", "waiting": "…"}


_Var: TypeAlias = Annotated[
    tuple[str, ...], Parameter(name="--var", negative=(), help="Variable as NAME=VALUE; repeatable.")
]
_Concurrency: TypeAlias = Annotated[
    int | None,
    Parameter(validator=validators.Number(gte=1), help="Maximum number of nodes of one graph that run at once."),
]
_Id: TypeAlias = Annotated[
    str | None,
    Parameter(name="--id", help="Run id and idempotency key: a second run with this id returns the first result."),
]
_State: TypeAlias = Annotated[
    Path | None, Parameter(name="--state", help="JSON or YAML file with the initial state of an experience.")
]
_KeepState: TypeAlias = Annotated[
    bool, Parameter(name="--keep-state", negative=(), help="Start with the final state of the last run.")
]
_Request: TypeAlias = Annotated[
    str | None, Parameter(help="The user's request that this run serves; the tool selection learns which tools fit it.")
]
_Undo: TypeAlias = Annotated[
    Literal["on_request", "on_failure"] | None,
    Parameter(help="When to undo finished steps: on_failure if the run does not complete. [default: the project's]"),
]
_Priority: TypeAlias = Annotated[
    int,
    Parameter(validator=validators.Number(gte=1), help="Priority in the queue; 1 is the highest."),
]


def run(
    source: Definition,
    /,
    *arguments: Arguments,
    input: Input = None,
    var: _Var = (),
    json: Json = False,
    store: StoreAddress = None,
    concurrency: _Concurrency = None,
    id: _Id = None,
    state: _State = None,
    keep_state: _KeepState = False,
    request: _Request = None,
    watch: Watch = False,
    log: Log = "text",
    log_level: LogLevel = None,
    engine: Engine = None,
    wait: Stay = None,
    queue: Queue = None,
    priority: _Priority = 100,
    undo: _Undo = None,
    project: Project = None,
) -> Answer:
    """Run a definition and print its result."""
    value, variables, initial_state = read_input(input), read_pairs(var), read_state(state)
    texts = split_pairs(arguments, "argument")
    # Ropewalk learns from a request when the run ends, so the run must end in this process.
    if request is not None and (wait is False or queue is not None or priority != 100):
        raise InvalidInput([Problem(path="--request", message=_REQUEST_CONFLICT)])
    new_id = new_run_id() if id is None else id  # known before the run is stored, for Ctrl-C
    options: Any = {"run_id": new_id, "variables": variables or None, "concurrency": concurrency, "undo": undo}

    async def submit(app: App, definition: Source, on_event: OnEvent) -> str:
        return await app.submit(definition, value, **options, on_event=on_event, queue=queue, priority=priority)

    async def start(definition: Source, app: App, on_event: OnEvent) -> Any:
        if queue is not None or priority != 100:
            return await app.wait(await submit(app, definition, on_event), on_event=on_event, park=not wait)
        return await app.run(
            definition, value, **options, on_event=on_event, request=request, state=initial_state,
            keep_state=keep_state, park=not wait,
        )  # fmt: skip

    async def work(app: App, interrupts: Interrupts) -> Answer:
        nonlocal value
        interrupts.starting(new_id)
        ask_on_terminal(app)
        await warn_of_idle_schedules(app)
        definition = await _load_with_warnings(app, source, variables)
        schema = None if isinstance(definition, Path) else definition.flow.input_schema
        value = with_arguments(value, texts, schema, option_of(input))
        if wait is False:
            return await _queued_answer(app, await submit(app, definition, None))
        return await followed(
            partial(start, definition), source=source, engine=engine, run_id=id,
            quiet=json, watch=watch, silent=log == "json", options=store_options(store, project), stays=wait,
        )(app, interrupts)  # fmt: skip

    configure_logging(log, log_level)
    return with_app(work, near=source, project=project, store=store, engine=engine)


async def _load_with_warnings(app: App, source: Path, variables: Collection[str]) -> Path | Prepared:
    """Load the definition and print its warnings to standard error."""

    # Problems and unknown tools are left to the run, which reports them again. `variables` are those of the command
    # line: a warning that one of them has no value is not printed.
    try:
        loaded = await app.definitions.find_async(source, connect=True)
        checked = app.definitions.check(loaded, unknown_tools="certain")
    except RopewalkError:
        return source  # the run raises this error again
    if checked.problems:
        return loaded
    ignored = {UNKNOWN_TOOL, *(f"{UNSET} {name}" for name in variables)}
    for warning in (*checked.warnings, *app.jobs.fallback_warnings(loaded)):
        if warning.keyword not in ignored:
            notify(f"warning: {render_problem(word_problem(warning, Door.CLI))}", logging.WARNING)
    return loaded


async def _queued_answer(app: App, run_id: str) -> Answer:
    """Answer with the id of a queued run, after a warning if no worker takes it."""
    note = await asyncio.to_thread(app.workers.unattended, run_id)
    if note is not None:
        notify(f"run {run_id} is {note}", logging.WARNING)
    return Answer(data={"runId": run_id}, text=run_id)


def resume(
    run_id: str | None = None,
    source: Changed = None,
    /,
    *,
    all: Annotated[
        bool, Parameter(negative=(), help="Resume every interrupted or answered run of this project.")
    ] = False,
    upgrade: Upgrade = False,
    json: Json = False,
    store: StoreAddress = None,
    watch: Watch = False,
    log: Log = "text",
    log_level: LogLevel = None,
    engine: Engine = None,
    wait: Wait = False,
    project: Project = None,
) -> Answer:
    """Resume a crashed or waiting run. Recorded steps are not repeated.

    SOURCE is a changed definition; --upgrade alone uses the file that the run was started from. A finished run is
    not rerun: its result is printed. To rerun it, use `ropewalk runs retry`.
    """

    configure_logging(log, log_level)
    if all and run_id is None:
        return resume_all(project=project, store=store, engine=engine)
    if all or run_id is None:
        raise UsageError("give either a run or --all: `ropewalk resume RUN`, or `ropewalk resume --all` for every one")

    async def start(app: App, on_event: Callable[[Event], None]) -> Any:
        if source is None and not upgrade:
            await warn_of_changed_file(app, run_id)
        return await app.resume(run_id, source, upgrade=upgrade, on_event=on_event, park=not wait)

    work = followed(
        start, source=source, engine=engine, run_id=run_id,
        quiet=json, watch=watch, silent=log == "json", options=store_options(store, project), stays=wait,
    )  # fmt: skip
    return with_app(work, run=run_id, project=project, store=store, engine=engine)


async def warn_of_changed_file(app: App, run_id: str) -> None:
    """Warn if the file of a run that executes now has changed, because the run keeps its definition."""
    row = app.runs.row(run_id)
    if row is not None and row.status == "completed":  # nothing executes again
        return
    note = await asyncio.to_thread(changed_file_note, app.context, run_id, Door.CLI)
    if note is not None:
        notify(escape_invisible(f"warning: {note}"), logging.WARNING)


def followed(
    start: Callable[[App, Callable[[Event], None]], Awaitable[Any]],
    *,
    quiet: bool,
    watch: bool,
    silent: bool = False,
    source: Path | None = None,
    options: str = "",
    engine: str | None = None,
    run_id: str | None = None,
    stays: bool | None = False,
) -> Callable[[App, Interrupts], Awaitable[Answer]]:
    """Return the work of a command that starts or resumes a run and shows it until it ends or waits."""

    async def work(app: App, interrupts: Interrupts) -> Answer:
        # Show the events while the run goes on; Ctrl-C stops the run that they name.
        display = choose_display(quiet or (silent and not watch), watch)
        names = None if quiet else _undo_names(app)

        def on_event(event: Event) -> None:
            if not event.run_id.startswith(f"{interrupts.run_id}/"):  # a part is stopped and resumed with its run
                interrupts.running(event.run_id)
            if (named := event if names is None else names.of(event)) is not None:
                display.take(named)
            if stays and not quiet and is_new_wait(event):
                with display.paused():  # the result comes only after the answer, so the command is shown now
                    notify(answer_command(event, options))

        ended_note = _already_ended_note(app, run_id, options, source)
        with display, shown_with(app, display):
            outcome = await start(app, on_event)
        if ended_note is not None:
            notify(ended_note)
        if (printed := outcome.get("printed")) and not quiet:
            # The text of a plan's `print` goes where progress goes, so that pipes get the result alone.
            notify(escape_invisible(str(printed).removesuffix("\n")))
        return _result_answer(app, outcome, display.tally, source, options, engine, quiet=quiet)

    return work


def _undo_names(app: App) -> UndoNames:
    from .undo import UndoNames  # programs that read the result get no progress

    return UndoNames(app)


def _result_answer(
    app: App,
    outcome: Outcome,
    counts: RunCounts,
    source: Path | None,
    options: str,
    engine: str | None,
    *,
    quiet: bool,
) -> Answer:
    """Return the answer for the result of a run, with what the result does not hold."""
    data = payload = outcome.to_answer()
    recorded = not isinstance(app.store, MemoryStore)
    show_command = f"ropewalk runs show {quote(outcome.run_id)}{options}" if recorded else ""
    if quiet:
        return Answer(exit=run_exit_code(data), data=data, recorded=show_command)
    row = app.runs.row(outcome.run_id)
    resumer = None
    if data.get("waitingFor") and engine != "local":
        resumer = None if row is None else who_continues(app, row)
    if counts.counts[REUSED] and row is not None and isinstance(data.get("duration"), (int, float)):
        # The result holds the time of its own execution; people ask for that of the whole run.
        payload = {**data, "duration": data["duration"] + app.runs.earlier_seconds(row) * 1000}
    lines = [
        summary(payload, options, engine, resumer=resumer, changes=changes(counts)),
        *rejected(data, options if recorded else None),
        *_stacks(data, show_command),
        *(retry_advice(app, row, data, options, counts) if recorded and row is not None else []),
    ]
    return Answer(exit=run_exit_code(data), data=data, text="\n".join(lines), recorded=show_command)


def retry_advice(
    app: App, row: RunRow, data: Mapping[str, Any], options: str, counts: RunCounts | None = None
) -> list[str]:
    """Say how to retry the failed steps of a run, or to continue a stopped one, and what is reused."""
    errors = errors_in(data)
    # A call that took effect is not to be repeated (see `rejected`).
    is_advised = any(error.get("ran") is True for error in errors)
    if row.status == "parked" and row.parent is None:
        return [f"correct the cause, then release the run: ropewalk runs release {quote(row.id)}{options}"]
    is_retryable = row.status in ("failed", "partial", "timeout", "stopped")
    if not is_retryable or row.parent is not None or row.undo or is_advised:
        return []
    # `--upgrade` changes nothing if the correction is one of a setting.
    command, started_with = f"ropewalk runs retry {quote(row.id)}", row.context or {}
    file = started_with.get("root") or started_with.get("file")
    upgraded = f" --upgrade {quote(display_path(file))}{options}" if file else options
    if needs_restart(errors):
        starts = "".join(f" --from {quote(node)}" for node in nodes_to_restart(errors, row.kind))
        is_of_tool = all(error.get("steps") for error in errors)
        first = "correct the tool or the definition, then" if is_of_tool else "correct the cause, then start over"
        return [f"{first}: {command}{starts}{upgraded}"]
    if needs_in(errors) is not None:
        return [f"correct the cause, then: {command}{upgraded}"]
    # A result that does not fit stays as it is until the definition changes.
    if errors and all(map(is_of_result, errors)):
        return [f"correct the definition, then: {command}{upgraded if file else f' --upgrade FILE{options}'}"]
    # A program's own failure has no tool, so the steps of other runs are not read.
    own = [str(error.get("path")) for error in errors if error.get("tool") is None]
    if errors and len(own) == len(errors):
        from ...app.runs.rerun import would_fail_again  # few runs need it

        if would_fail_again(app.context.history(row.id), own):
            return [f"correct the code, then: {command}{upgraded}"] if file else []
    kept = sum(counts.counts[how] for how in ("finished", "recovered", REUSED)) if counts else 0
    reuse = f" (reuses {kept:,} finished step{'s' * (kept != 1)})" if kept else ""
    if counts and row.epoch > 1 and not counts.counts[REUSED]:  # an earlier process finished some, too
        reuse = " (reuses the finished steps)"
    purpose = "to continue it" if row.status == "stopped" else "to retry what failed"
    return [f"{purpose}: {command}{options}{reuse}"]


def _already_ended_note(app: App, run_id: str | None, options: str, source: Path | None) -> str | None:
    """Say that the run had ended before this command, and how to retry or fork it; None if it had not."""
    row = app.runs.row(run_id) if run_id is not None else None
    if row is None or row.ended_at is None:
        return None
    from ...app.runs.undone import undone_by  # only a run that has ended needs it

    note = f"run {row.id} had ended before ({row.status}, {moment(row.ended_at)}); nothing was executed now"
    if row.parent is None and app.store.durable and (undo := undone_by(app.context, row)) is not None:
        return f"{note}; it is undone by run {undo}; to start again: ropewalk runs fork {quote(row.id)}{options}"
    if row.parent is not None or row.status in ("completed", "parked") or not app.store.durable:
        return note
    if isinstance(row.result, dict) and needs_in(errors_in(row.result)) is not None:
        return note  # the result says what to correct first
    changed = "" if source is None else f" --upgrade {quote(str(source))}"
    return f"{note}; to retry it: ropewalk runs retry {quote(row.id)}{changed}{options}"


def summary(
    data: dict[str, Any],
    options: str = "",
    engine: str | None = None,
    *,
    resumer: str | None = None,
    changes: Sequence[str] = (),
) -> str:
    """Render a result for people: status, errors, warnings, the parts of the result, and what the run waits for."""
    status = str(data.get("status"))
    preposition = "after" if status == "waiting" else "in"
    took = (
        f" {preposition} {duration(data['duration'] / 1000)}" if isinstance(data.get("duration"), (int, float)) else ""
    )
    lines = [
        f"{_STATUS_MARKS.get(status, '✗')} {status}{took}  (run {data['runId']})",
        *changes,
    ]
    errors = data.get("errors") or ([data["error"]] if data.get("error") else [])
    lines += [f"  {_error_line(e)}" for e in errors]
    lines += [escape_invisible(f"  warning: {warning}") for warning in data.get("warnings") or ()]
    if data.get("metrics"):
        lines.append("  " + ", ".join(f"{name} {amount:,}" for name, amount in data["metrics"].items()))
    if data.get("success") or data.get("result") not in ({}, None):
        lines.append(f"result: {_value_text(data.get('result'))}")
    if data.get("variables"):
        lines.append(f"variables: {_value_text(data['variables'])}")
    lines += wait_lines(data, options, engine, resumer=resumer)  # last, so that long results do not hide it
    return "\n".join(lines)


def rejected(data: Mapping[str, Any], options: str | None) -> list[str]:
    """Say how to continue after a tool ran and its result was rejected."""
    lines: list[str] = []
    for error in data.get("errors") or ():
        if not isinstance(error, dict) or error.get("ran") is not True:
            continue
        node = str(error.get("nodeId") or error.get("path") or "")
        paths = rejected_paths(error) if "ranAt" in error else [node]  # of several flows inside it there may be none
        text = f"{node}: the tool ran, so the call was not repeated"
        if options is not None:
            from ...app.runs.instances import without_attempts  # few results need it

            run = quote(str(data.get("runId")))
            text += f"; look at its result: ropewalk runs show {run}{options}"
            accept_options = "".join(f" --accept {quote(without_attempts(path))}" for path in paths)
            if accept_options:
                text += f"\n  and use it: ropewalk runs retry {run}{accept_options}{options}"
        lines += [escape_invisible(f"  {line.strip()}") for line in text.split("\n")]
    return lines


def _error_line(error: Any) -> str:
    if not isinstance(error, dict):
        return escape_invisible(shorten(message_of(error), hint=JSON_HINT))
    node = error.get("nodeId") or error.get("node") or error.get("path") or ""
    path = str(error.get("path")).partition("@")[0]
    tool = f" (tool {error['tool']})" if error.get("tool") else ""
    if error.get("tool") == MODEL:  # our own name of the tool; nobody wrote it in a definition
        node, tool = ("the model", "") if node == "turn" else (node, " (the model)")
    elif path.endswith(f"]/{node}"):
        node = path  # which names the iteration of the loop
    text = f"{node}{tool}: {shorten(str(error.get('message', '')), hint=JSON_HINT)}".removeprefix(": ")
    text = with_place(text, error)
    return escape_invisible(text + raised_at({**error, "message": text}))


def _stacks(data: Mapping[str, Any], show_command: str) -> list[str]:
    """Return how to see the stacks of the errors; the stacks themselves, each once, if no store keeps the run."""
    errors = errors_in(data)
    stacks = dict.fromkeys(str(error["stack"]) for error in errors if error.get("stack"))
    if stacks and show_command:
        return [f"to see the stack: {show_command}"]
    return [escape_invisible(f"\n{stack}") for stack in list(stacks)[:_STACK_LIMIT]]


def _value_text(value: Any) -> str:
    """Render a value in one line if it is short, else as indented JSON."""
    text = orjson.dumps(value).decode()
    if len(text) > 100:
        text = json_text(value)
    return escape_invisible(text)
