"""Undo a run: call the undo of each finished step, in reverse order of completion.

The undo of a run is a run of its own, with the id `RUN~undo`. Its input lists the steps to undo, its flow is a loop
that makes one call per step. So everything that holds for a run holds for an undo: each call is journaled under its
own idempotency key, a crashed undo is resumed, a failed one is retried from the call that failed.

The store creates that run and marks the undone one in one transaction. From then on nobody resumes, retries or
releases the undone run, and a fork makes its undone calls again. The steps of flows that the run called as tools are
undone with it, unless the call of that flow has an undo itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orjson

from ...codec import flow_to_json
from ...engine.engine import Job
from ...errors import (
    Action,
    NothingToUndo,
    PartOfRun,
    RunBusy,
    RunUndone,
)
from ...expr.ast import Fn, Lit, Obj, Ref
from ...ir import Flow, Graph, Meta, Node, Policy, Retry
from ...journal.address import run_sync_in_thread
from ...journal.protocol import ENDS, RunRow, Store
from ...journal.undo import UNSUCCESSFUL
from ...notations.records import Outcome, outcome
from ...ops import Branch, Call, Loop, Wait
from ...values import Json
from ..corrections import Corrections
from ..recorded_run import outermost, require_run
from .rerun import retry
from .undo_plan import LOOP, UndoPlan, UndoStep, plan_undo, steps_of
from .undone import APPROVAL, rejection_of, undo_report

if TYPE_CHECKING:
    from ..jobs import Jobs
    from ..start import Start

_SUFFIX: Final = "~undo"
_PATIENCE: Final = 10.0  # seconds for the calls of a stopped run to end
_POLL: Final = 0.05
_ATTEMPTS: Final = 10  # of planning an undo while undos of other runs take calls that both use
_KEPT: Final = ("queue", "priority", "executor", "root", "project")
"""What an undo takes from the context of its run: it needs the same tools, in the same place."""


# --- the run that undoes ----------------------------------------------------------------------


def undo_flow(name: str, tools: Iterable[str], attempts: int, delay: float, question: str | None = None) -> Flow:
    """Return the flow that undoes the steps in its input, one call after another."""
    policy = Policy(retry=Retry(attempts=attempts, delay=delay, factor=2.0))
    arms = []
    for number, tool in enumerate(sorted(set(tools))):
        call = Call(tool=tool, args=Ref("item", ("args",)))
        node = Node(id=f"call{number}", op=call, policy=policy, meta=Meta(name=f"undo with {tool}"))
        body = Graph(nodes=(node,), result=Ref("out", (node.id,)), ordered=True)
        arms.append((Fn("==", (Ref("item", ("tool",)), Lit(tool))), body))
    step = Node(id="step", op=Branch(arms=tuple(arms)))
    made = Obj((("path", Ref("item", ("path",))), ("tool", Ref("item", ("tool",))), ("result", Ref("out", ("step",)))))
    loop = Loop(items=Ref("input", ("steps",)), body=Graph(nodes=(step,), result=made, ordered=True))
    approval = () if question is None else (Node(id=APPROVAL, op=Wait(approval=Lit(question))),)
    return Flow(
        name=name,
        body=Graph(nodes=(*approval, Node(id=LOOP, op=loop)), result=Ref("out", (LOOP,)), ordered=True),
    )


async def undo(
    jobs: Jobs,
    run_id: str,
    start: Start,
    needs_approval: Callable[[str], bool] | None = None,
    shared: bool = True,
    renew: bool = True,
) -> Outcome:
    """Undo a run, or continue its undo; `RunService.undo` describes the arguments."""

    # With `needs_approval`, a person first approves the calls if one of their tools needs it, and this returns while
    # the undo waits. Without `shared`, calls that a fork took from its run are left to that run. Without `renew`, an
    # undo that a person rejected stays as it is. Otherwise this is a new request, and the calls may need a new
    # approval.
    context = jobs.context
    store = context.store
    for attempt in range(_ATTEMPTS):
        row = await run_sync_in_thread(store, lambda: require_undoable(store, run_id))
        if row.undo:
            return await _continue(jobs, row, start, needs_approval, renew)
        if row.kind == "plan":  # a run that executes may be about to use the calls of another one of its chain
            chain = await run_sync_in_thread(store, partial(Corrections, context, row))
            await run_sync_in_thread(store, chain.require_idle)
        plan = await run_sync_in_thread(store, partial(plan_undo, context, row, shared=shared))
        if not plan.steps:
            raise _nothing_to_undo(run_id, plan)
        question = _question(run_id, plan.steps, needs_approval)
        job = await _job(jobs, row, plan.steps, replace(start, run_id=f"{row.id}{_SUFFIX}"), question=question)
        job.new = replace(job.new, undoes_calls=plan.calls())
        try:
            return await _begin(jobs, row, job)
        except (RunBusy, RunUndone) as error:
            # If another run has taken a call that both use, or was continued, the plan is made again.
            now = await run_sync_in_thread(store, lambda: require_run(store, run_id))
            is_same = isinstance(error, RunUndone) or now.epoch == row.epoch
            if (error.run_id == run_id and is_same) or attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def _nothing_to_undo(run_id: str, plan: UndoPlan) -> NothingToUndo:
    """Return the error for a run without a step to undo."""
    elsewhere = [step for step in (*plan.undone, *plan.left) if "undoRun" in step]
    if not elsewhere:
        return NothingToUndo(run_id, "none of its finished steps has an undo")
    reasons = "; ".join(dict.fromkeys(str(step["reason"]) for step in elsewhere))
    return NothingToUndo(run_id, f"its calls are {reasons}")


def _question(run_id: str, steps: list[UndoStep], needs_approval: Callable[[str], bool] | None) -> str | None:
    """Return the question that names every call of an undo; None if they need no approval."""
    if needs_approval is None or not any(needs_approval(step.tool) for step in steps):
        return None
    calls = (f"{step.tool} {orjson.dumps(step.args).decode()}" for step in steps)
    return f"Undo run {run_id} with {', '.join(calls)}?"


def require_undoable(store: Store, run_id: str) -> RunRow:
    """Return a run that can be undone, or raise the error that says what to do instead."""
    row = require_run(store, run_id)
    if row.parent is not None:
        raise PartOfRun(run_id, outermost(store, row).id)
    if isinstance(row.context, dict) and "undoes" in row.context:
        raise NothingToUndo(run_id, f"it is the undo of run {row.context['undoes']}")
    if row.status not in ENDS:
        error = NothingToUndo(run_id, f"it has not ended ({row.status})")
        raise error.with_remedy(Action.STOP, run_id=run_id)
    return row


async def _job(
    jobs: Jobs,
    row: RunRow,
    steps: list[UndoStep],
    start: Start,
    after: str | None = None,
    question: str | None = None,
) -> Job:
    context = jobs.context
    started_with: dict[str, Any] = row.context if isinstance(row.context, dict) else {}
    settings = context.undo
    name, tools = f"undo of {row.name or row.id}", {step.tool for step in steps}
    # The undo is a run of its own. It loads from the directory of the first run, to find the same tools.
    flow = undo_flow(name, tools, settings.attempts, settings.delay, question)
    document = {"kind": "flow", **flow_to_json(flow)}
    loaded = context.definitions.get(document, root=started_with.get("root"))
    listed: list[Json] = [step.to_dict() for step in steps]
    job = await jobs.new(
        replace(start, definition=loaded, input={"steps": listed}, executor=jobs.executor_for(row, start.executor))
    )
    kept = {name: started_with[name] for name in _KEPT if started_with.get(name) is not None}
    # The context names the undone run too: an undo is recognized by it, and cannot be undone.
    job.new = replace(
        job.new,
        undoes=row.id,
        undoes_epoch=row.epoch,
        forked_from=after,
        context={**(job.new.context or {}), **kept, "undoes": row.id},
    )
    return job


async def _begin(jobs: Jobs, row: RunRow, job: Job) -> Outcome:
    """Create the undo of a run and execute it."""
    context = jobs.context
    end = asyncio.get_running_loop().time() + _PATIENCE
    while True:
        try:
            opened = await context.store.open(job.new)
            break
        except RunBusy as error:
            # The calls of a run that was just stopped may still be ending.
            if row.status != "stopped" or error.run_id != row.id or asyncio.get_running_loop().time() > end:
                raise
            await asyncio.sleep(_POLL)
    return outcome(await context.engine.drive(job, opened), job.new.kind)


async def _continue(
    jobs: Jobs,
    row: RunRow,
    start: Start,
    needs_approval: Callable[[str], bool] | None,
    renew: bool,
) -> Outcome:
    """Continue the undo of a run where it is, or return its recorded outcome."""
    context = jobs.context
    store, undo_id = context.store, str(row.undo)
    undoing = await run_sync_in_thread(store, lambda: store.get_run(undo_id))
    if undoing is None:
        raise NothingToUndo(row.id, f"it was undone, and the record of that ({undo_id}) was deleted")
    if undoing.status not in ENDS:
        job = await jobs.for_existing(undoing, start)
        return outcome(await jobs.continue_run(job, await store.reopen(undo_id)), undoing.kind)
    is_rejected = await run_sync_in_thread(store, lambda: rejection_of(context, undoing) is not None)
    if undoing.status == "completed" or (is_rejected and not renew):
        result: Any = undoing.result or {}
        return outcome({**result, "status": undoing.status, "executionId": undo_id}, undoing.kind)
    if store.durable and not is_rejected:
        return await retry(jobs, undo_id, (), None, False, start)
    # A rejected undo stays rejected, and a store without a journal cannot continue a run. So another run takes the
    # steps that are left.
    left = [
        UndoStep(
            path=item["path"],
            of=item["of"],
            tool=item["tool"],
            args=item["args"],
            ended=0.0,
            taken_from=item.get("madeBy"),
        )
        for item in steps_of(context, undoing)
        if item["status"] != "undone"
    ]
    number = int(undo_id.rpartition("~")[2].removeprefix("undo") or 1) + 1
    question = _question(row.id, left, needs_approval) if is_rejected else None
    job = await _job(jobs, row, left, replace(start, run_id=f"{row.id}{_SUFFIX}{number}"), undo_id, question)
    return await _begin(jobs, row, job)


# --- without a request ------------------------------------------------------------------------


async def undo_by_policy(jobs: Jobs, run_id: str, start: Start) -> Json:
    """Undo a run that did not complete, if its policy is "on_failure"."""
    context = jobs.context
    store = context.store
    row = await run_sync_in_thread(store, lambda: store.get_run(run_id))
    if row is None or row.undo_policy is None or row.undo is not None or row.status not in UNSUCCESSFUL:
        return None
    try:
        await undo(jobs, run_id, start, shared=False)
    except NothingToUndo:
        await run_sync_in_thread(store, lambda: store.skip_undo(run_id))
        return None
    except (RunBusy, RunUndone):  # another process was faster
        return None
    return await run_sync_in_thread(store, lambda: undo_report(context, require_run(store, run_id)))
