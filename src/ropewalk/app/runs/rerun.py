"""Retry a finished run, or fork it: start a new run from its record.

A retry repeats the failed steps, or the nodes that the caller names, with all that depends on them. Other recorded
results stay, and their tools are not called again. A flow that the run called as a tool is a run of its own, a part of
this one. A failed part is retried in the same way; a part that is repeated starts from the beginning.

A fork has a different input or a different definition. Entries that the change cannot reach are copied. A recorded call
that the change may reach is *offered*: the fork uses it if it makes the call with the same arguments. The earlier run
stays as it is.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ...engine.engine import check_run_id
from ...errors import (
    Action,
    InvalidFlow,
    NotFound,
    NothingToRetry,
    PartOfRun,
    RunBusy,
    RunExists,
    RunUndone,
    StoreError,
)
from ...events import Event
from ...fast_dataclass import dataclass
from ...ir import Flow, nodes_of
from ...journal.address import run_sync_in_thread
from ...journal.protocol import ACCEPTED, LOG, Entry, Key, Log, RunRow, Store
from ...journal.undo import UNDONE
from ...notations.records import Outcome, outcome
from ...ops import Call
from ...plans.rows import step_key
from ...tools.annotations import effect_of
from ...values import Json
from ..part_tools import calls_by_place
from ..preflight import check_input
from ..recorded_run import MOST_PARTS, SAME, outermost, replacement, require_run
from .accept import (
    Accept,
    Accepted,
    find_accepted,
    name_inside,
    names_inside,
    read_accept,
    select_repeated,
    split_names,
)
from .compare import AffectedParts, Change, flow_changes, place_of
from .instances import Attempt, Instances, without_attempts
from .masked_input import unmasked
from .program_rows import first_repeated, row_entries, row_number, row_of, step_in
from .rerun_plan import ENDED, Failure, RerunPlan, failed_questions, instances_of_nodes, latest_failures
from .steps import steps
from .unattended import find_unattended
from .undone import require_not_undone, undone_paths
from .upgrade import find_upgrade, upgraded, upgrading

if TYPE_CHECKING:
    from ...engine.engine import Job
    from ..context import Context
    from ..jobs import Jobs
    from ..prepared import Prepared, Source
    from ..start import OnEvent, Start

_SUCCEEDED = ("completed", "partial")
_Report: TypeAlias = Callable[..., None]
MOST_FAILURES: Final = 1_000
"""Number of failed steps that a run keeps for each retry."""
_WAIT_KINDS = frozenset(("wait", "signal", "attempt"))
"""Kinds of entries that the outermost run records for the waits of its parts."""


@dataclass(frozen=True, slots=True)
class RetryPlan:
    """The plan of a retry."""

    # Entries of the run itself to forget.
    keys: list[Key]
    # Runs that are part of it, and whether each starts from nothing.
    parts: list[tuple[RunRow, bool]]
    # Results to record instead of calling a tool again.
    accepted: tuple[Accepted, ...] = ()
    inside: Mapping[str, Any] = field(default_factory=dict)
    """Accepted results of nodes that must be in runs inside this one."""
    missing: Mapping[str, NotFound] = field(default_factory=dict)
    """For each name in `inside` the error to raise if no run inside this one has it."""
    repeated: tuple[Attempt, ...] = ()
    """Calls that took effect before, and are made again."""
    offers: tuple[Entry, ...] = ()
    """Results that programs of the run may take again."""


async def retry(
    jobs: Jobs,
    run_id: str,
    nodes: Sequence[str],
    source: Source | None,
    upgrade: bool,
    start: Start,
    accept: Accept = (),
) -> Outcome:
    """Retry a finished run; `RunService.retry` describes the arguments."""
    context = jobs.context
    store, accepted_results = context.store, read_accept(accept)
    row = await run_sync_in_thread(store, lambda: require_retryable(context, run_id, nodes))
    await run_sync_in_thread(store, lambda: require_not_undone(context, row))
    to = await find_upgrade(context, row, source, upgrade)
    job = await jobs.for_existing(row, upgraded(start, to))
    # Check everything before the journal changes, so that a rejected retry leaves the run as it is.
    preview_plan = await run_sync_in_thread(
        store, lambda: plan_retry(job.flow, row, store.history(run_id), store, nodes, accepted_results, to is not None)
    )
    await run_sync_in_thread(store, lambda: _check_inside(context, row, preview_plan))
    restarted = {part.id for part, restarts in preview_plan.parts if restarts}
    job = await jobs.for_existing(row, upgraded(start, to), set(preview_plan.keys), restarted)
    log = await store.reopen(run_id, again=True)
    async with upgrading(store, log, to):
        try:
            past_entries = list(log.past.values())
            plan = await run_sync_in_thread(
                store, lambda: plan_retry(job.flow, row, past_entries, store, nodes, accepted_results, to is not None)
            )
            report = functools.partial(_report_repeated, run_id=run_id, on_event=start.on_event)
            report(plan, inside="")
            await _forget_steps(context, row, log, plan, report)
        except BaseException:
            await log.release()
            raise
        return outcome(await context.engine.drive(job, log), row.kind)


def require_retryable(context: Context, run_id: str, nodes: Sequence[str]) -> RunRow:
    """Return a run that can be retried, or raise the error that says what to do instead."""

    # It must be finished, and part of no other run. An interrupted run can be retried if the caller names nodes.
    store = context.store
    row = require_run(store, run_id)
    if row.parent is not None:
        raise PartOfRun(run_id, outermost(store, row).id)
    if row.undo:
        raise RunUndone(run_id, row.undo)
    if not store.durable:
        raise StoreError("a store in memory records no steps; keep runs in a file or in Postgres to retry them")
    if row.status == "waiting":
        waiting = NothingToRetry(run_id, "it waits for an event, an approval or a time, and then continues")
        raise waiting.with_remedy(Action.SHOW_WAITS, run_id=run_id)
    if row.ended_at is None:
        state = find_unattended(context, [row]).get(run_id)
        if state is None:
            raise RunBusy(run_id, row.owner)
        if nodes:
            return row
        if state == "queued":
            raise NothingToRetry(run_id, "it has not ended; it is queued, and a worker takes it")
        error = NothingToRetry(run_id, "its process ended before the run did")
        raise error.with_remedy(Action.RESUME, run_id=run_id)
    return row


def plan_retry(
    flow: Flow,
    row: RunRow,
    history: Iterable[Entry],
    store: Store,
    nodes: Sequence[str],
    accept: Mapping[str, Any] | None = None,
    is_changed: bool = False,
) -> RetryPlan:
    """Plan a retry: decide which entries of a finished run to forget."""
    # is_changed: Whether the run continues with another definition, in which a program may fail no more.
    entries = list(history)
    result = Instances(flow.body, entries)
    parts = {part.id.removeprefix(f"{row.id}/"): part for part in store.list_runs(parent=row.id, limit=MOST_PARTS)}
    accept_here, inside, missing = split_names(result, flow, accept or {})
    # An accepted call is no failure any more; its node continues behind the call.
    accepted_calls = find_accepted(row, result, flow, accept_here)
    accepted_paths = {item.attempt.path for item in accepted_calls}
    failed_steps = [item for item in latest_failures(result) if item.attempt.path not in accepted_paths]
    if not nodes and not accept and row.status == "completed":
        raise NothingToRetry(row.id, "it has completed").with_remedy(Action.CHOOSE_NODE, run_id=row.id)
    plan = RerunPlan()
    if not nodes and not failed_steps:
        for attempt in _failed_programs(result):
            if not is_changed:
                raise NothingToRetry(row.id, _own_failure(attempt))
            plan.continue_attempt(attempt)
    for entry in accepted_calls:
        plan.continue_attempt(entry.attempt)
    # Named nodes run again with all that depends on them; without names, the failed steps do.
    for instance in instances_of_nodes(result, flow, nodes):
        plan.rerun(instance)
    if not nodes:
        _add_failed(plan, failed_steps, parts)
        for program, step in failed_questions(result):
            plan.ask_again(program, step)
    keys, offers = plan.changes(entries)
    keys = [key for key in keys if key[1] != LOG]  # the next attempt adds its lines
    if nodes:
        _require_fatal_covered(row, plan, keys, [item for item in failed_steps if item.fatal])
    if any(plan.holds(path) for path in accepted_paths):
        raise NothingToRetry(row.id, "a node cannot be accepted and run again; leave it out of one of the two")
    repeated_attempts = [item.last for item in result.current() if plan.holds(item.last.path)]
    return RetryPlan(
        keys,
        [
            (part, from_start)
            for path, part in parts.items()
            if (from_start := _starts_over(path, part, result, plan)) is not None
        ],
        tuple(accepted_calls),
        inside,
        missing,
        tuple(select_repeated(repeated_attempts)),
        tuple(offers),
    )


def _failed_programs(instances: Instances) -> Iterator[Attempt]:
    """Yield the programs that failed by themselves."""
    for instance in instances.current():
        end = instance.last.facts.get("row")
        if end is not None and not end.data["failed"]:
            yield instance.last


def would_fail_again(history: Iterable[Entry], failed: Iterable[str]) -> bool:
    """Return True if all failed steps of a run, given by path, are programs that failed by themselves."""
    ends: dict[str, Any] = {entry.path: entry.data for entry in history if entry.kind == "row"}
    paths = set(failed)
    return bool(paths) and all(path in ends and not ends[path]["failed"] for path in paths)


def _own_failure(program: Attempt) -> str:
    """Say that a retry cannot help, because a program failed by itself."""
    end: Any = program.facts["row"].data
    place = f"{end['error']}, line {end['line']}"
    return f"the failure is its own program's ({place}), so a retry would fail again; correct the code"


def _check_inside(context: Context, row: RunRow, plan: RetryPlan) -> None:
    """Raise NotFound unless every accepted node that this run does not have is in a run inside it."""
    for error in _missing_inside(context, row, plan).values():
        raise error


def _missing_inside(context: Context, row: RunRow, plan: RetryPlan) -> dict[str, NotFound]:
    """Return the accepted names that no run inside this one has, with the error for each."""
    missing = dict(plan.missing)
    for part, from_start in plan.parts:
        if from_start or not missing:
            continue
        path = part.id.removeprefix(f"{row.id}/")
        inner_row = require_run(context.store, part.id)  # lists have no large values
        flow = context.definitions.get(inner_row).flow
        history = context.store.history(part.id)
        inner = plan_retry(flow, inner_row, history, context.store, (), names_inside(path, plan.inside))
        unplanned = _missing_inside(context, inner_row, inner)
        missing = {
            name: _more_helpful(path, name, error, unplanned[name_inside(path, name)])
            for name, error in missing.items()
            if name_inside(path, name) in unplanned
        }
    return missing


def _more_helpful(path: str, name: str, outer: NotFound, inner: NotFound) -> NotFound:
    """Return the more helpful of two errors for a name: that of the run, or that of the part at `path`."""
    if name_inside(path, name) == name:
        return inner if inner.suggestion and outer.suggestion is None else outer
    # The name begins with the path of the part, so no other part can have it.
    return NotFound("node", name, suggestion=inner.suggestion and f"{path}/{inner.suggestion}", why=inner.why)


def _report_repeated(plan: RetryPlan, inside: str, *, run_id: str, on_event: OnEvent) -> None:
    """Report every call that took effect before and is made again, of the part at `inside` with its path."""
    if on_event is None:
        return
    for attempt in plan.repeated:
        path, node = inside + attempt.path, attempt.instance.node
        name = node.meta.name or node.id
        data = {"tool": getattr(node.op, "tool", "")}
        if inside:
            data["accept"] = without_attempts(path)
        on_event(Event(run_id=run_id, kind="call.repeated", at=time.time(), path=path, node=name, data=data))


def _add_failed(plan: RerunPlan, failed_steps: list[Failure], parts: dict[str, RunRow]) -> None:
    """Add the failed steps to the plan."""

    # A step with steps inside continues its last attempt and keeps their results.
    for failure in failed_steps:
        last = failure.attempt
        part = parts.get(last.path)
        has_parts_inside = any(path.startswith(f"{last.path}/") for path in parts)
        own = "call_failed" not in last.facts and last.inside
        if own or has_parts_inside or (part is not None and part.status not in _SUCCEEDED):
            plan.continue_attempt(last)
        else:
            plan.rerun(last.instance)


def _require_fatal_covered(row: RunRow, plan: RerunPlan, keys: Iterable[Key], fatal: list[Failure]) -> None:
    forgotten_paths = {path for path, _ in keys} | plan.ended
    unplanned = [
        item.attempt for item in fatal if not (plan.holds(item.attempt.path) or item.attempt.path in forgotten_paths)
    ]
    if unplanned:
        names = ", ".join(dict.fromkeys(item.instance.base for item in unplanned[:3]))
        error = NothingToRetry(
            row.id, f"the run would fail again at {names}, which does not depend on the nodes to rerun"
        )
        raise error.with_remedy(Action.ADD_NODE, node=unplanned[0].instance.node.id)


def _starts_over(path: str, part: RunRow, instances: Instances, plan: RerunPlan) -> bool | None:
    """Return True if a part starts from nothing, False if it continues, None if it stays as it is."""
    if plan.holds(path):
        return True
    attempt = instances.at(path)
    facts = attempt.facts if attempt is not None else {}
    is_settled = "call" in facts or ("call_failed" in facts and path not in plan.ended)
    return None if is_settled or part.status in _SUCCEEDED else False


async def _forget_steps(
    context: Context, row: RunRow, log: Log, plan: RetryPlan, warn: _Report, around: str = ""
) -> list[Key]:
    """Forget the planned entries in this run and its parts, and return their keys with paths of this run."""
    forgotten_keys = list(plan.keys)
    for part, from_start in plan.parts:
        inside = part.id.removeprefix(f"{log.run.id}/")
        removed_keys = await _rerun_part(
            context, part, from_start, names_inside(inside, plan.inside), warn, f"{around}{inside}/"
        )
        forgotten_keys += [(f"{inside}/{path}", kind) for path, kind in removed_keys if kind in _WAIT_KINDS]
    # Recorded first: if the process dies here, the run fails as before, and nothing is called again.
    past: Any = log.past  # a dict, which `forget` changes as well
    accepted = [item.entry for item in plan.accepted if item.entry is not None]
    accepted += [replace(entry, kind=ACCEPTED, data=None) for entry in accepted]
    for entry in (*accepted, *ending_with_failures(row, past, plan.keys)):
        await log.append(entry)
        past[entry.path, entry.kind] = entry
    # A call that is repeated has taken effect before, so that effect keeps its undo.
    undos = [past[key] for key in plan.keys if key[1] == "undo" and key in past and "#" not in key[0]]
    epoch = log.run.epoch
    kept = [replace(undo, path=f"{undo.path}#{epoch}") for undo in undos]
    # If the process dies here, a result is both offered and recorded at its step. It counts once, because a recorded
    # step takes the offer for it.
    kept += [replace(offer, data=[*offer.data, epoch]) for offer in plan.offers]
    for entry in kept:
        await log.append(entry)
        past[entry.path, entry.kind] = entry
    await log.forget(forgotten_keys)
    return forgotten_keys


def ending_with_failures(row: RunRow, past: Mapping[Key, Entry], keys: Iterable[Key]) -> list[Entry]:
    """Return the run's latest `ending` with the failed steps that a retry forgets, so that people can still see
    them."""
    latest = past.get((f"#{row.epoch}", "ending"))
    if latest is None:
        return []
    forgotten_keys = set(keys)
    failed = [
        {name: item[name] for name in ("path", "node", "status", "started", "ended", "error")}
        for item in steps(past.values(), row)
        if item["error"] is not None and _is_forgotten((str(item["path"]), str(item["kind"])), past, forgotten_keys)
    ]
    for item in failed[:MOST_FAILURES]:
        if isinstance(item["error"], dict):  # rejected results may be large
            item["error"] = {name: value for name, value in item["error"].items() if name != "result"}
    data: Any = latest.data
    fields: Json = {**data, "failed": failed[:MOST_FAILURES], "failedCount": len(failed)}
    return [replace(latest, data=fields)] if failed else []


def _is_forgotten(key: Key, past: Mapping[Key, Entry], forgotten_keys: Container[Key]) -> bool:
    """Return True if a retry forgets a step's entry, or if the step failed without an entry."""
    return key in forgotten_keys or key not in past


async def _rerun_part(
    context: Context, part: RunRow, from_start: bool, accept: Mapping[str, Any], warn: _Report, around: str
) -> list[Key]:
    """Set a part running, so that its run continues it, and return the forgotten keys."""

    # With `from_start`, forget the record of the part and of all its own parts.
    store = context.store
    row = await run_sync_in_thread(store, lambda: store.get_run(part.id))
    if row is None or (row.ended_at is None and not from_start):
        return []
    result = await run_sync_in_thread(store, lambda: store.list_runs(parent=part.id, limit=MOST_PARTS))
    inner = {item.id: item for item in result}
    log = await store.reopen(part.id, again=True)
    try:
        if from_start:
            entries = [entry for entry in log.past.values() if entry.kind != "ending"]
            plan = RetryPlan([(e.path, e.kind) for e in entries], [(item, True) for item in inner.values()])
        else:
            past = list(log.past.values())
            plan = await run_sync_in_thread(
                store, lambda: plan_retry(context.definitions.get(row).flow, row, past, store, (), accept)
            )
        warn(plan, inside=around)
        return await _forget_steps(context, row, log, plan, warn, around)
    finally:
        await log.release()


async def fork(jobs: Jobs, run_id: str, definition: Source | None, at: Sequence[str], start: Start) -> Outcome:
    """Start a new run from an earlier one; `RunService.fork` describes the arguments."""
    context = jobs.context
    store = context.store
    row = await run_sync_in_thread(store, lambda: require_run(store, run_id))
    if not store.durable:
        raise StoreError("a store in memory records no steps; keep runs in a file or in Postgres to fork them")
    new_id = start.run_id
    check_run_id(new_id)
    if new_id is not None and await run_sync_in_thread(store, lambda: store.get_run(new_id)) is not None:
        raise RunExists(new_id)
    old = context.definitions.get(row)
    new = old if definition is None else replacement(context, row, await context.definitions.find_async(definition))
    started_with = row.context or {}
    forked = replace(
        start,
        definition=new,
        definition_id=await run_sync_in_thread(store, lambda: _definition_id(context, row, old, new)),
        input=row.input if start.input is SAME else unmasked(start.input, row.input),
        variables=started_with.get("variables"),
        executor=jobs.executor_for(row, start.executor),
    )
    # Copy what the change cannot reach; offer the other recorded calls.
    created = [] if new is old else flow_changes(old.flow, new.flow)
    history = await run_sync_in_thread(store, lambda: store.history(run_id))
    undone = await run_sync_in_thread(store, lambda: undone_paths(context, row))
    is_other_input = check_input(new.flow, forked.input) != row.input
    copies = copied_entries(new.flow, history, created, is_other_input, at, undone)
    kept = {of for of, to in copies.items() if of == to}
    if forked.executor is None:
        try:
            await jobs.prepare(new)
        except InvalidFlow as error:
            copied = [entry for entry in history if (entry.path, entry.kind) in kept]
            await jobs.flows_of_parts(error, calls_by_place(new.flow), lambda: (copied, {}))
    job = await jobs.new(forked, is_prepared=forked.executor is None)
    if at and start.on_event is not None:
        for event in _repeated_writes(context, job, run_id, history, copies):
            start.on_event(event)
    run_context = {**(job.new.context or {}), **_fork_context(started_with, new is old)}
    job.new = replace(job.new, forked_from=run_id, copies=copies, context=run_context)
    return outcome(await context.engine.run(job), new.kind)


def _repeated_writes(
    context: Context, job: Job, of: str, history: Iterable[Entry], copies: Mapping[Key, Key]
) -> Iterator[Event]:
    """Yield an event for each recorded call that may have changed something, and that a fork makes again."""
    nodes = {node.id: node for node in nodes_of(job.flow.body) if isinstance(node.op, Call)}
    for entry in history:
        node = nodes.get(entry.node)
        if entry.kind != "call" or node is None or (entry.path, "call") in copies:
            continue
        tool = str(getattr(node.op, "tool", ""))
        if effect_of(context.toolbox.get(tool), context.plans.effects, id=tool) != "read":
            name = node.meta.name or node.id
            yield Event(
                run_id=job.new.id,
                kind="call.repeated",
                at=time.time(),
                path=entry.path,
                node=name,
                data={"tool": tool, "of": of},
            )


def _fork_context(started_with: Mapping[str, Json], same_definition: bool) -> dict[str, Json]:
    """Return what a fork takes over from how its run was started: its queue, and the file of the same definition."""
    stays = ("queue", "priority", "file") if same_definition else ("queue", "priority")
    return {name: started_with[name] for name in stays if name in started_with}


def _attempt_around(instances: Instances, path: str) -> Attempt | None:
    """Return the attempt at a path, or the one that contains it: a call of a flow, for a path inside that flow."""
    while path:
        attempt = instances.at(path)
        if attempt is not None:
            return attempt
        path = path.rpartition("/")[0]
    return None


def _definition_id(context: Context, row: RunRow, old: Prepared, new: Prepared) -> str | None:
    """Return the id of the definition of a fork: that of the run, unless the definition is another one."""
    if new is old:
        return row.definition_id
    id = new.compiled.id
    if id in (row.definition_id, old.compiled.id):
        return row.definition_id
    stored = None if id is None else context.store.get_definition(new.kind, id)
    same = stored is not None and context.definitions.get(stored).fingerprint == new.fingerprint
    return id if same else new.root


def copied_entries(
    flow: Flow,
    history: Iterable[Entry],
    changes_made: list[Change],
    new_input: bool,
    at: Sequence[str],
    undone: Iterable[str] = (),
) -> Mapping[Key, Key]:
    """Select the recorded entries that a fork starts with."""

    # The undo of a call stays with the run that made the call.
    entries = [entry for entry in history if entry.kind not in ("ending", "undo", UNDONE)]
    result = Instances(flow.body, entries)
    reach = AffectedParts(flow)
    reach.add_changes(changes_made)
    if new_input:
        reach.add_input()
    failed_plan, requested = RerunPlan(), RerunPlan()
    for failure in latest_failures(result):
        failed_plan.rerun(failure.attempt.instance)
    for instance in instances_of_nodes(result, flow, at):
        requested.rerun(instance)
    for path in undone:
        attempt = _attempt_around(result, path)
        if attempt is not None:
            requested.rerun(attempt.instance)
    programs = [
        _ForkedProgram(path, rows, requested, failed_plan)
        for path, rows in row_entries(entries).items()
        if not reach.plan.holds(without_attempts(path))
    ]
    copies: dict[Key, Key] = {}
    for entry in entries:
        if any(program.keeps_row(entry) for program in programs):
            copies[entry.path, entry.kind] = (entry.path, entry.kind)
        attempt = result.at(entry.path)
        if attempt is None or requested.holds(entry.path) or entry.kind == "scope":  # chunks are planned again
            continue
        if any(program.repeats(entry) for program in programs):
            continue
        place = place_of(attempt.instance)
        is_offered = any(program.offers(entry) for program in programs)
        if is_offered or reach.plan.holds(place) or failed_plan.holds(entry.path):
            op = attempt.instance.node.op
            if entry.kind == "call" and isinstance(op, Call) and op.also is None:
                copies[without_attempts(entry.path), "offer"] = (
                    entry.path,
                    entry.kind,
                )  # a later attempt replaces an earlier one
        elif entry.kind not in ENDED or not (
            place in reach.plan.ended or entry.path in failed_plan.ended or entry.path in requested.ended
        ):
            copies[entry.path, entry.kind] = (entry.path, entry.kind)
    return {of: to for to, of in copies.items()}


class _ForkedProgram:
    """Which rows of a program a fork keeps, and what becomes of the steps of the others."""

    def __init__(self, path: str, rows: list[Entry], requested: RerunPlan, failed: RerunPlan) -> None:
        self._path = path
        ends = [first_repeated(rows, plan.steps_of(path)) for plan in (requested, failed)]
        self._is_requested = ends[0] is not None and (ends[1] is None or ends[0] <= ends[1])
        self._end = min((end for end in ends if end is not None), default=len(rows))
        self._later = {step_key(row_of(entry).path) for entry in rows[self._end :]}

    def keeps_row(self, entry: Entry) -> bool:
        """Return True for a row before the first one that is repeated."""
        row = row_number(entry)
        return row is not None and row[0] == self._path and row[1] < self._end

    def repeats(self, entry: Entry) -> bool:
        """Return True for an entry of a step after the one that the caller named."""
        return self._is_requested and step_in(self._path, entry.path) in self._later

    def offers(self, entry: Entry) -> bool:
        """Return True for an entry of a step after a failed one, whose result may be used again."""
        return step_in(self._path, entry.path) in self._later
