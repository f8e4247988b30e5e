"""Runs of plans that an earlier version of Ropewalk recorded, when it compiled programs to graphs.

Their steps are those of nodes that no longer exist, so such a run continues as a correction by its own program: a new
run, which takes the recorded calls, and gets the answers that people and other systems sent to the first one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ..errors import InvalidFlow, JournalConflict, Problem
from ..events import Event
from ..fast_dataclass import dataclass
from ..journal.address import run_sync_in_thread
from ..journal.protocol import APPROVAL, ENDS, Entry, RunRow
from ..notations.plan.flow import PROGRAM
from ..notations.records import Outcome, outcome
from ..values import Json
from .pinned_definition import require_run
from .runs.queries import RunService

if TYPE_CHECKING:
    from .context import Context
    from .plans import Plans

_OF_PROGRAM: Final = re.compile(rf"{PROGRAM}(?:[\[@/].*)?", re.DOTALL)
_OF_RUN: Final = frozenset(("ending", "undo"))


def is_of_first_design(context: Context, row: RunRow) -> bool:
    """Return True for a run of a plan whose record has steps of other nodes than its program."""
    if row.kind != "plan" or row.status == "completed" or "undoes" in (row.context or {}):
        return False
    return any(entry.kind not in _OF_RUN and not _OF_PROGRAM.fullmatch(entry.path) for entry in context.history(row.id))


@dataclass(frozen=True, slots=True, kw_only=True)
class SentAnswer:
    """An answer to a question of a run: what the question was about, and the decision."""

    about: tuple[str, str]
    decision: dict[str, Json]
    by: str | None = None


def sent_answers(context: Context, run_id: str) -> list[SentAnswer]:
    """Return the answers that were sent to a run, in their order."""
    waits = {entry.path: entry for entry in context.history(run_id) if entry.kind == "wait"}
    return [
        answer for signal in context.store.signals(run_id) for answer in _answers(signal.name, signal.payload, waits)
    ]


def _answers(name: str, payload: Any, waits: Mapping[str, Entry]) -> Iterator[SentAnswer]:
    if not name.startswith(APPROVAL):
        yield SentAnswer(about=("event", name), decision={"event": name, "payload": payload})
        return
    wait = waits.get(name.removeprefix(APPROVAL))
    if wait is not None and isinstance(payload, dict) and isinstance(payload.get("approved"), bool):
        decision = {key: payload.get(key) for key in ("approved", "note")}
        yield SentAnswer(about=_about(wait.data), decision=decision, by=payload.get("by"))  # type: ignore[arg-type]


def _about(wait: Any) -> tuple[str, str]:
    """Return what a question is about: a call is known by its digest, so nothing else answers for it."""
    if wait.get("call"):
        return "call", str(wait["call"]["digest"])
    return ("event", str(wait["event"])) if "event" in wait else ("approval", str(wait.get("approval")))


async def continue_as_correction(
    plans: Plans, row: RunRow, new_id: str | None, on_event: Callable[[Event], None] | None
) -> dict[str, Json]:
    """Run the program of a run of the first design in a new run, with the answers that were sent to the old one."""
    answers = await run_sync_in_thread(plans.context.store, lambda: sent_answers(plans.context, row.id))
    answer = await plans.correct(row, None, new_id, on_event)
    while answer["status"] == "waiting":
        waits: Any = answer["waitingFor"]
        found = _match(answers, waits)
        if found is None:
            break
        answers.remove(found[0])
        decision = found[0].decision
        if "event" not in decision:
            decision = {**decision, "node": found[1]["path"]}
        answer = await plans.resume_run(str(answer["runId"]), decision, by=found[0].by, on_event=on_event)
    return {**answer, "corrects": row.id}


def _match(answers: Iterable[SentAnswer], waits: list[Any]) -> tuple[SentAnswer, Any] | None:
    """Return the first answer to one of the questions of a run, and the question."""
    return next(((answer, wait) for answer in answers for wait in waits if _about(wait) == answer.about), None)


async def outcome_of_correction(
    plans: Plans, row: RunRow, on_event: Callable[[Event], None] | None, park: bool
) -> Outcome:
    """Continue a run of the first design in a new run, and return the outcome of that one."""
    answer: dict[str, Any] = await continue_as_correction(plans, row, None, on_event)
    if answer["status"] == "invalid":
        problems = answer["problems"]
        raise InvalidFlow([Problem(path="code", message=str(problem["message"])) for problem in problems])
    if answer["status"] == "conflict":
        raise JournalConflict(row.id, "", str(answer["message"]))
    store = plans.context.store
    new = await run_sync_in_thread(store, lambda: require_run(store, str(answer["runId"])))
    if new.status in ENDS:
        result = await RunService(plans.context, plans.jobs).ended(new)
        return outcome({**(result or {}), "status": new.status, "executionId": new.id}, new.kind)
    job = await plans.jobs.for_existing(new, on_event=on_event)
    job.park = park
    return outcome(await plans.jobs.continue_run(job, await store.reopen(new.id)), new.kind)
