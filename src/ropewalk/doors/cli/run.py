"""`run` and `resume`: execute, show progress, print the result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from cyclopts import Parameter, validators

from ...check import UNKNOWN_TOOL
from ...dialects.agent_flow import MODEL
from ...dialects.binding import UNSET
from ...dialects.notation import VALUE_NAMES
from ...errors import InvalidInput, Problem, RopewalkError
from ...events import Event
from ...journal.memory import MemoryStore
from ...source import render, shortened, visible
from .answer import Answer
from .exits import ended
from .given import read_input, read_pairs, read_state
from .interrupts import Interrupts
from .logs import tell
from .options import Engine, Input, Json, Log, LogLevel, Project, Queue, StoreAddress, Upgrade, Watch
from .progress import progress
from .resume_all import resume_all
from .session import unknown_run, with_app
from .table import duration, moment
from .waiting import Stay, Wait, again, waits

if TYPE_CHECKING:
    from ...app import App
    from ...definitions import Source

_RESULTS = (*sorted(VALUE_NAMES), "result", "variables")
_HERE = "is learnt from when the run ends here; leave out --no-wait, --queue and --priority"
_MARK = {"completed": "✓", "partial": "~", "waiting": "…"}


def run(
    source: Path,
    /,
    *,
    input: Input = None,
    var: Annotated[
        tuple[str, ...], Parameter(name="--var", negative=(), help="name=value, a variable; repeatable.")
    ] = (),
    json: Json = False,
    store: StoreAddress = None,
    concurrency: Annotated[
        int | None,
        Parameter(validator=validators.Number(gte=1), help="How many nodes of one graph run at once, at most."),
    ] = None,
    id: Annotated[str | None, Parameter(name="--id", help="The run's id; the same id twice runs once.")] = None,
    state: Annotated[
        Path | None, Parameter(name="--state", help="A JSON or YAML file; an experience begins with this state.")
    ] = None,
    keep_state: Annotated[
        bool, Parameter(name="--keep-state", negative=(), help="Begin with the final state of the last run.")
    ] = False,
    request: Annotated[str | None, Parameter(help="What it is run for; `tools select` learns from it.")] = None,
    watch: Watch = False,
    log: Log = "text",
    log_level: LogLevel = None,
    engine: Engine = None,
    wait: Stay = None,
    queue: Queue = None,
    priority: Annotated[
        int, Parameter(validator=validators.Number(gte=1), help="From 1, taken first, upward (--engine dbos).")
    ] = 100,
    project: Project = None,
) -> Answer:
    """Run a definition (a FILE, or a DIR with an experience.yaml) and print its result."""
    given, variables, seed = read_input(input), read_pairs(var), read_state(state)
    if request is not None and (wait is False or queue is not None or priority != 100):
        raise InvalidInput([Problem(path="--request", message=_HERE)])

    async def put(app: App, definition: Source, on_event: Callable[[Event], None] | None) -> str:
        return await app.submit(
            definition, given, run_id=id, variables=variables or None, on_event=on_event, concurrency=concurrency,
            queue=queue, priority=priority,
        )  # fmt: skip

    async def start(definition: Source, app: App, on_event: Callable[[Event], None]) -> Any:
        if queue is not None or priority != 100:
            return await app.wait(await put(app, definition, on_event), on_event=on_event, park=not wait)
        return await app.run(
            definition, given, run_id=id, variables=variables or None, on_event=on_event, request=request,
            concurrency=concurrency, state=seed, keep_state=keep_state, park=not wait,
        )  # fmt: skip

    async def work(app: App, breaks: Interrupts) -> Answer:
        definition = await _warned(app, source, variables)
        if wait is False:
            return await _put(app, await put(app, definition, None))
        told: dict[str, Any] = {"quiet": json, "watch": watch, "silent": log == "json", "again": again(store, project)}
        return await followed(partial(start, definition), source=source, engine=engine, run_id=id, **told)(app, breaks)

    return with_app(work, near=source, project=project, store=store, engine=engine, log=log, log_level=log_level)


async def _warned(app: App, source: Path, given: Collection[str]) -> Source:
    """The definition, read, after what is doubtful in it is said on standard error. What is wrong is told by who runs
    it, and so is a tool that is not there; variables that are `given` are not missed."""
    try:
        loaded = await app.definitions.connected(app.load_async(source), app.connect_for)
        checked = app.definitions.check(loaded, unknown_tools="certain")
        app.jobs.checked(loaded, checked)
    except RopewalkError:
        return source  # whoever runs it meets this again, and tells
    if not checked.problems:
        for warning in checked.warnings:
            if warning.keyword != UNKNOWN_TOOL and warning.keyword not in {f"{UNSET} {name}" for name in given}:
                tell(f"warning: {render(warning)}", logging.WARNING)
    return loaded


async def _put(app: App, run_id: str) -> Answer:
    """What is said of a run that is in line now."""
    said = await asyncio.to_thread(app.workers.unattended, run_id)
    if said is not None:
        tell(f"run {run_id} is {said}", logging.WARNING)
    return Answer(data={"runId": run_id}, text=run_id)


def resume(
    run_id: str | None = None,
    source: Path | None = None,
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
    """Go on with a run after a crash, or with one that waits; what is recorded is not called again. With a changed
    definition as SOURCE, or with --upgrade alone as it is now where the run came from: see --upgrade. Of a run that has
    ended it prints the result and runs nothing: `ropewalk runs retry RUN` tries again."""

    if all and run_id is None:
        return resume_all(project=project, store=store, engine=engine, log=log, log_level=log_level)
    if all or run_id is None:
        message = "give either a run or --all"
        raise InvalidInput([Problem(path="RUN", message=message)])

    async def start(app: App, on_event: Callable[[Event], None]) -> Any:
        if app.store.get_run(run_id) is None:
            raise unknown_run(app, run_id)
        return await app.resume(run_id, source, upgrade=upgrade, on_event=on_event, park=not wait)

    shown: dict[str, Any] = {"quiet": json, "watch": watch, "silent": log == "json", "again": again(store, project)}
    work = followed(start, source=source, engine=engine, run_id=run_id, **shown)
    return with_app(work, run=run_id, project=project, store=store, engine=engine, log=log, log_level=log_level)


def followed(
    start: Callable[[App, Callable[[Event], None]], Awaitable[Any]],
    *,
    quiet: bool,
    watch: bool,
    silent: bool = False,
    source: Path | None = None,
    again: str = "",
    engine: str | None = None,
    run_id: str | None = None,
) -> Callable[[App, Interrupts], Awaitable[Answer]]:
    """Start a run, or go on with one, and show it; of the one with the id `run_id` it is told if it was over before."""

    async def work(app: App, interrupts: Interrupts) -> Answer:
        shown = progress(quiet or (silent and not watch), watch)

        def take(event: Event) -> None:
            if not event.run_id.startswith(f"{interrupts.run_id}/"):  # a part is stopped and resumed with its run
                interrupts.running(event.run_id)
            shown.take(event)

        over = _over(app, run_id, again)
        with shown:
            outcome = await start(app, take)
        if over is not None:
            tell(over)
        data = outcome.to_dict()
        where: Mapping[str, str] = {}
        if data.get("errors") and not quiet:
            where = _places(app, outcome.run_id, source)
        by = None
        if data.get("waitingFor") and engine != "local":
            row = app.runs.row(outcome.run_id)
            by = "a worker" if row is not None and app.runs.attended(row) else None
        kept = "" if isinstance(app.store, MemoryStore) else f"ropewalk runs show {quote(outcome.run_id)}{again}"
        text = "\n".join([summary(data, where, again, engine, by=by), *rejected(data, again if kept else None)])
        return Answer(exit=ended(data), data=data, text=text, recorded=kept)

    return work


def _over(app: App, run_id: str | None, where: str) -> str | None:
    """That a run had ended before it was to be gone on with, and how it is tried again."""
    row = app.runs.row(run_id) if run_id is not None else None
    if row is None or row.ended_at is None:
        return None
    said = f"run {row.id} had ended before ({row.status}, {moment(row.ended_at)}); nothing was run now"
    if row.parent is not None or row.status in ("completed", "parked") or not app.store.durable:
        return said
    return f"{said}; to try again: ropewalk runs retry {quote(row.id)}{where}"


def _places(app: App, run_id: str, source: Path | None) -> Mapping[str, str]:
    """Where the nodes of a run stand in the file that it is run from; without a `source` in the one that it was
    started from, if that is still there and the same."""
    from ...definitions import places  # only where there is something to find
    from ...runs.upgrade import current

    row = app.runs.row(run_id)
    try:
        if source is not None:
            return places(app.load(source))
        loaded = None if row is None else current(app, row)
    except RopewalkError:  # a run that has ended does not need it
        return {}
    return places(loaded) if row is not None and loaded is not None and loaded.fingerprint == row.fingerprint else {}


def summary(
    data: dict[str, Any],
    where: Mapping[str, str],
    options: str = "",
    engine: str | None = None,
    *,
    by: str | None = None,
) -> str:
    """The result for people: status, errors, what it waits for, then each part of the result under its name;
    `where` has the places of nodes, `options`, `engine` and `by` are as in `waits`."""
    status = str(data.get("status"))
    took = f" in {duration(data['duration'] / 1000)}" if isinstance(data.get("duration"), (int, float)) else ""
    lines = [f"{_MARK.get(status, '✗')} {status}{took}  (run {data.get('runId') or data.get('executionId')})"]
    errors = data.get("errors") or ([data["error"]] if data.get("error") else [])
    lines += [f"  {_error(e, where)}" for e in errors]
    lines += [visible(f"  warning: {said}") for said in data.get("warnings") or ()]
    if data.get("metrics"):
        lines.append("  " + ", ".join(f"{name} {amount:,}" for name, amount in data["metrics"].items()))
    for name in _RESULTS:
        if name == "result" and not VALUE_NAMES.isdisjoint(data):
            continue  # the notation's own name for the value is there
        if (name == "finalState" and name in data) or data.get(name) not in ({}, None):
            lines.append(f"{name}: {_shown(data[name])}")
    lines += waits(data, options, engine, by=by)  # the last thing, however long the results are
    return "\n".join(lines)


def rejected(data: Mapping[str, Any], options: str | None) -> list[str]:
    """Say how to continue after a tool ran and its result was rejected; `options` is None if the run cannot."""
    lines: list[str] = []
    for error in data.get("errors") or ():
        if not isinstance(error, dict) or error.get("ran") is not True:
            continue
        node = str(error.get("nodeId") or error.get("path") or "")
        said = f"{node}: the tool ran, so the call was not repeated"
        if options is not None:
            run = quote(str(data.get("runId")))
            said += f"; look at its result: ropewalk runs show {run}{options}"
            said += f"\n  and use it: ropewalk runs retry {run} --accept {quote(node)}{options}"
        lines += [visible(f"  {line.strip()}") for line in said.split("\n")]
    return lines


def _error(error: Any, where: Mapping[str, str]) -> str:
    if not isinstance(error, dict):
        return visible(shortened(str(error)))
    node = error.get("nodeId") or error.get("node") or error.get("path") or ""
    place = f"{where[node]}: " if node in where else ""
    path = str(error.get("path")).partition("@")[0]
    tool = f" (tool {error['tool']})" if error.get("tool") else ""
    if error.get("tool") == MODEL:  # a name that nobody wrote, as is that of the node in a document that is an agent
        node, tool = ("the model", "") if node == "turn" else (node, " (the model)")
    elif path.endswith(f"]/{node}"):
        node = path  # in this round of the loop
    return visible(place + f"{node}{tool}: {shortened(str(error.get('message', '')))}".removeprefix(": "))


def _shown(value: Any) -> str:
    """One line where it fits in one, indented JSON where not."""
    short = orjson.dumps(value).decode()
    return visible(short if len(short) <= 100 else orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
