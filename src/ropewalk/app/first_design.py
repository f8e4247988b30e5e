"""Runs of plans that an earlier version of Ropewalk recorded, when it compiled programs to graphs.

Their steps are those of nodes that no longer exist, so such a run continues as a correction by its own program: a new
run, which takes the recorded calls, and gets the answers that people and other systems sent to the first one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..fast_dataclass import dataclass
from ..journal.protocol import APPROVAL, Entry, RunRow
from ..values import Json
from .recorded_calls import is_compiled

if TYPE_CHECKING:
    from .context import Context


def is_of_first_design(context: Context, row: RunRow) -> bool:
    """Return True for a run of a plan that an earlier version recorded, and that has not completed."""
    return row.kind == "plan" and row.status != "completed" and is_compiled(context.store, row.id)


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
        yield SentAnswer(about=_about(wait.data), decision=decision, by=payload.get("by"))


def _about(wait: Any) -> tuple[str, str]:
    """Return what a question is about: a call with its tool's version and its arguments, so no other answer fits it."""
    if wait.get("call"):
        return "call", " ".join(str(wait["call"].get(name)) for name in ("tool", "version", "digest"))
    return ("event", str(wait["event"])) if "event" in wait else ("approval", str(wait.get("approval")))


def find_answer(answers: Iterable[SentAnswer], waits: list[Any]) -> tuple[SentAnswer, Any] | None:
    """Return the first answer to one of the questions of a run, and the question."""
    return next(((answer, wait) for answer in answers for wait in waits if _about(wait) == answer.about), None)
