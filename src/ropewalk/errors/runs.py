"""A run, one of its nodes or its record did not come to what was wanted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .given import InvalidValue, Problem, RopewalkError


class Unfinished(InvalidValue):
    """A run came to an end, and not to what it was for: an agent to a limit."""


class NodeFailed(RopewalkError):
    """A node gave up. `path` names it (`each[3]/fetch`); `problems` lists what does not fit a schema.

    `retryable` is False if another attempt cannot help or would repeat effects. `ran` is True if a tool ran and only
    its result was rejected.
    """

    def __init__(
        self,
        path: str,
        message: str,
        *,
        node: str,
        tool: str | None,
        kind: str,
        attempts: int = 1,
        problems: Iterable[Problem] = (),
        retryable: bool = True,
        ran: bool = False,
    ) -> None:
        self.path, self.message, self.node, self.tool, self.kind = path, message, node, tool, kind
        self.attempts, self.problems = attempts, tuple(problems)
        self.retryable, self.ran = retryable, ran
        super().__init__(f"{path}: {message}")


class RunTimeout(RopewalkError):
    """The run took longer than its timeout of `seconds`."""

    def __init__(self, run_id: str, seconds: float) -> None:
        self.run_id, self.seconds = run_id, seconds
        super().__init__(f"run {run_id} took longer than its timeout of {seconds:g} s (`timeout` of the definition)")


class RunStopped(RopewalkError):
    """Somebody stopped the run."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id} was stopped")


class RunBusy(RopewalkError):
    """Another live process owns the run; `owner` names it (host and pid)."""

    def __init__(self, run_id: str, owner: str) -> None:
        self.run_id, self.owner = run_id, owner
        super().__init__(f"run {run_id} is being executed by {owner}; stop it there, or wait for it to end")


class RunEnded(RopewalkError):
    """The run has ended: nothing waits there any more."""

    def __init__(self, run_id: str, status: str) -> None:
        self.run_id, self.status = run_id, status
        super().__init__(f"run {run_id} has ended ({status}); nothing waits there any more")


class NotWaiting(RopewalkError):
    """The run does not wait for this; `waits` tells, in words, what it waits for."""

    def __init__(self, run_id: str, what: str, waits: Iterable[str] = (), why: str = "") -> None:
        self.run_id, self.what, self.waits = run_id, what, tuple(waits)
        instead = "it waits for " + ", ".join(self.waits) if self.waits else "it waits for nothing now"
        super().__init__(f"run {run_id} does not wait for {what}; {why or instead}")


class Rejected(RopewalkError):
    """Somebody was asked for an approval and has not given it."""

    retryable = False

    def __init__(self, by: str | None, note: str | None) -> None:
        self.by, self.note = by, note
        super().__init__("not approved" + (f" by {by}" if by else "") + (f": {note}" if note else ""))


class PartOfRun(RopewalkError):
    """The run is part of another one, which calls it as a tool; that one is to be resumed."""

    def __init__(self, run_id: str, parent: str) -> None:
        self.run_id, self.parent = run_id, parent
        super().__init__(f"run {run_id} is part of run {parent} and goes on with it; resume that one")


class NothingToRetry(RopewalkError):
    """A run cannot go on as was asked; the text says why, and what would be right."""

    def __init__(self, run_id: str, message: str) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id}: {message}")


class FlowFailed(RopewalkError):
    """A flow called as a tool did not reach its end; `result` is what its notation says of that."""

    def __init__(self, message: str, *, run_id: str, status: str, result: dict[str, Any]) -> None:
        self.run_id, self.status, self.result = run_id, status, result
        self.ran = any(_is_after_effects(error) for error in _listed(result))
        self.retryable = status != "stopped" and not self.ran
        super().__init__(message)


def _is_after_effects(error: Any) -> bool:
    """Return True if the calls of the flow took effect, and what came of them was rejected: by a tool's schema, by
    the flow's own output schema, or by the expression of its result."""
    if not isinstance(error, dict):
        return False
    kind, path = error.get("kind"), str(error.get("path") or "")
    of_flow = error.get("nodeId") is None and kind == "ExpressionError"
    return error.get("ran") is True or of_flow or (kind == "SchemaMismatch" and path.partition(".")[0] == "output")


def _listed(result: dict[str, Any]) -> list[Any]:
    """The errors of a result, in whatever notation it is written."""
    errors = result.get("errors")
    return [*(errors if isinstance(errors, list) else ()), result.get("error")]


class CompletionFailed(RopewalkError):
    """A conversation came to no result. `completion` is what there is of it, where the model was heard at all."""

    def __init__(self, message: str, *, run_id: str, completion: Any = None) -> None:
        self.run_id, self.completion = run_id, completion
        super().__init__(message)


class NoExecutor(RopewalkError):
    """The run was started with a tool executor of its own, and none is given to go on with."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id} was started with a tool executor of its own; give it again to go on")


class JournalConflict(RopewalkError):
    """What the flow does now does not fit what the journal recorded."""

    def __init__(self, run_id: str, path: str, message: str) -> None:
        self.run_id, self.path = run_id, path
        super().__init__(f"run {run_id}: {path + ': ' if path else ''}{message}")


class RunExists(JournalConflict):
    """An id is to be used again, for something else than the run that has it."""

    def __init__(self, run_id: str, otherwise: str | None = None) -> None:
        started = "" if otherwise is None else f", started with {otherwise}"
        super().__init__(run_id, "", f"there is one of this id{started}; give the new one another id")


class DefinitionChanged(JournalConflict):
    """A run pins the definition it was started with, and this is another one; `problems` are the differences."""

    def __init__(self, run_id: str, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        names = ", ".join(p.path for p in self.problems[:5]) + (", ..." if len(self.problems) > 5 else "")
        message = f"the run was started with another definition{names and ', which differs in '}{names}"
        super().__init__(run_id, "", f"{message}; to go on under this one: ropewalk resume {run_id} --upgrade FILE")


class StoreError(RopewalkError):
    """The store cannot be read or written; the text says what to do."""


class Fenced(StoreError):
    """Another process has taken the run over; nothing more of this one's is written."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id} has been taken over by another process; this one must give it up")
