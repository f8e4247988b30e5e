"""Every error this package raises on purpose. They carry data; the text is made from it.

RopewalkError
├── InvalidFlow          the definition is wrong: `.problems` holds every Problem found
│   └── UnresolvedReference      a `$` expression of a strict composite means nothing
├── ExpressionError      an expression cannot be read or evaluated: `.text .line .column`
├── InvalidValue         a value is not JSON or is past a limit: `.place`
│   ├── SchemaMismatch           it does not fit a schema: `.problems`
│   └── Unfinished               a run came to an end, and not to what it was for
├── UnsupportedSchema    a JSON Schema of another draft, or one that cannot be compiled
├── ConfigError          `ropewalk.toml` or a tool module is wrong
├── InvalidTool          a tool definition is wrong, or differs from the registered one
├── InvalidCursor        a page cursor is stale or garbled
├── ToolError            a tool call failed: `.tool_id .backend .op`, the cause chained
│   ├── InvalidToolId
│   ├── ToolNotFound
│   │   └── ToolNotApproved      it is not what was approved: `ropewalk tools pin` shows how
│   ├── NoBackends
│   ├── ValidationFailed         arguments: `.problems`
│   ├── ExecutionFailed
│   │   └── ToolTimeout          no answer in time: `.seconds`
│   ├── OutputValidationFailed   result: `.problems`
│   └── StreamNotSupported
├── NodeFailed           a node of a flow gave up: `.path .node .tool .attempts`
├── RunTimeout           a run took longer than it may
├── RunStopped           somebody stopped the run
├── RunBusy              another live process owns the run: `.owner`
├── RunEnded             nothing can be sent to a run that has ended: `.status`
├── NotWaiting           the run waits for nothing of this name: `.waits`
├── Rejected             somebody has not approved: `.by .note`
├── PartOfRun            a run that is part of another is not resumed by itself: `.parent`
├── NothingToRetry       an ended run has nothing that could be done again as asked
├── FlowFailed           a flow called as a tool did not reach its end: `.result`
├── ModelError           the model could not be asked, or did not come to an end: `.status .retryable`
├── CompletionFailed     a conversation has no result: `.run_id .completion`
├── NoExecutor           a run cannot go on without the tool executor it was started with
├── JournalConflict      the record of a run does not fit what the flow does now
│   ├── RunExists                an id is taken, by a run that was started otherwise
│   └── DefinitionChanged        it is to go on under another definition: `.problems` lists what differs
├── NotFound             no chain, run or the like has this id
└── StoreError           the store cannot be read or written
    └── Fenced           another process has taken the run over: `.run_id`
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .frozen import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a file: 1-based line and column, and the text of that line for the caret."""

    file: str
    line: int
    column: int
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong with a definition or a value. `path` says where in the document (`nodes[2].tool`);
    `column` is the 1-based position inside an expression at that path; `place` is where in a file."""

    path: str
    message: str
    suggestion: str | None = None
    column: int | None = None
    place: Place | None = None
    keyword: str | None = None

    def __str__(self) -> str:
        text = f"{self.path}: {self.message}" if self.path else self.message
        return f"{text}; did you mean {self.suggestion}?" if self.suggestion else text


class RopewalkError(Exception):
    """Base class: catch this to catch everything raised on purpose."""


class InvalidFlow(RopewalkError):
    """The definition is wrong; nothing of it has run. `flow` is what could be made of it, `file` its document."""

    retryable = False
    file: Any = None
    warnings: tuple[Problem, ...] = ()

    def __init__(self, problems: Iterable[Problem], flow: Any = None) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        self.flow = flow
        super().__init__("\n".join(map(str, self.problems)))


class UnresolvedReference(InvalidFlow):
    """A `$` expression of a strict composite means nothing; the text is that of the problem or problems."""

    def __str__(self) -> str:
        return self.problems[0].message if len(self.problems) == 1 else "\n".join(map(str, self.problems))


class InvalidInput(RopewalkError):
    """The input of a run does not fit the definition's input schema: `.problems` lists each."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class ExpressionError(RopewalkError):
    """An expression cannot be read (at parse time) or evaluated (at run time)."""

    def __init__(
        self, message: str, *, text: str = "", line: int = 1, column: int = 1, suggestion: str | None = None
    ) -> None:
        self.message, self.text, self.line, self.column, self.suggestion = message, text, line, column, suggestion
        shown = text if len(text) <= 80 else text[:79] + "…"
        where = f" (line {line}, column {column} of {shown!r})" if text else ""
        hint = f"; did you mean {suggestion}?" if suggestion else ""
        super().__init__(f"{message}{hint}{where}")


class InvalidValue(RopewalkError):
    """A value is not JSON or is past a limit; `place` names it (`result.rows[3].price`)."""

    def __init__(self, place: str, message: str) -> None:
        self.place, self.message = place, message
        super().__init__(f"{place}: {message}" if place else message)


class SchemaMismatch(InvalidValue):
    """A value does not fit the schema it is held against: `.problems` lists each place and keyword."""

    def __init__(self, place: str, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("", "\n".join(map(str, self.problems)))  # each of which says where
        self.place = place


class Unfinished(InvalidValue):
    """A run came to an end, and not to what it was for: an agent to a limit."""


class UnsupportedSchema(RopewalkError):
    """A JSON Schema of another draft than 2020-12 or draft-07, or one that does not compile."""


class ConfigError(RopewalkError):
    """The configuration is wrong; `place` says where when it is in a file."""

    def __init__(self, message: str, *, place: Place | None = None) -> None:
        self.place = place
        super().__init__(f"{place.file}:{place.line}:{place.column}: {message}" if place else message)


class InvalidTool(RopewalkError):
    """A tool definition is wrong, or differs from the one registered under the same id."""


class InvalidCursor(RopewalkError):
    """A page cursor is stale or garbled: start again from the first page."""


class ToolError(RopewalkError):
    """A tool call failed at a known stage.

    `op` is one of validate_tool_id, resolve, select_backend, validate_input, execute, validate_output, stream;
    `backend` is the ToolBackend chosen, or None before that. The original exception is `__cause__`.
    """

    retryable = True

    def __init__(
        self, tool_id: str, op: str, cause: BaseException | str, *, backend: Any = None, problems: Any = ()
    ) -> None:
        self.tool_id, self.op, self.backend = tool_id, op, backend
        self.problems: tuple[Problem, ...] = tuple(problems)
        self.steps: list[Any] = []  # filled by Runner.run_chain: every StepResult so far
        self.reason = str(cause) or type(cause).__name__
        kind = getattr(backend, "kind", None)
        bracket = f" [{kind}]" if kind else ""
        super().__init__(f"run: {op} {tool_id}{bracket}: {self.reason}")
        if isinstance(cause, BaseException):
            self.__cause__ = cause

    def matches(self, kind: type[BaseException]) -> bool:
        """Whether this error, or anything in its chain of causes, is a `kind`."""
        seen: BaseException | None = self
        while seen is not None and not isinstance(seen, kind):
            seen = seen.__cause__
        return seen is not None


class InvalidToolId(ToolError):
    retryable = False


class ToolNotFound(ToolError):
    retryable = False


class ToolNotApproved(ToolNotFound):
    """The tool is not the one that is pinned; `.reason` says what differs, and which command approves it."""


class NoBackends(ToolError):
    retryable = False


class ValidationFailed(ToolError):
    """The arguments do not fit the tool's input schema; `.problems` lists each with its path."""

    retryable = False


class ExecutionFailed(ToolError):
    """The tool ran and failed, or could not be reached."""


class ToolTimeout(ExecutionFailed):
    """The tool gave no answer within `seconds`; `said` is what there is to tell beyond that."""

    def __init__(self, tool_id: str, seconds: float, *, backend: Any = None, said: str = "") -> None:
        self.seconds = seconds
        super().__init__(tool_id, "execute", said or f"no answer within {seconds:g} s", backend=backend)


class OutputValidationFailed(ToolError):
    """The result does not fit the tool's output schema, or is not JSON."""


class StreamNotSupported(ToolError):
    retryable = False


class NodeFailed(RopewalkError):
    """A node gave up. `path` names it (`each[3]/fetch`); `problems` lists what does not fit a schema."""

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
    ) -> None:
        self.path, self.message, self.node, self.tool, self.kind = path, message, node, tool, kind
        self.attempts, self.problems = attempts, tuple(problems)
        super().__init__(f"{path}: {message}")


class RunTimeout(RopewalkError):
    """The run took longer than its timeout of `seconds`."""

    def __init__(self, run_id: str, seconds: float) -> None:
        self.run_id, self.seconds = run_id, seconds
        super().__init__(f"run {run_id} took longer than its timeout of {seconds:g} s")


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
        self.retryable = status != "stopped"
        super().__init__(message)


class ModelError(RopewalkError):
    """The model gave no answer of use. `status` is that of HTTP, if any; `retryable`: asking again may help."""

    def __init__(self, message: str, *, status: int | None = None, retryable: bool = False) -> None:
        self.status, self.retryable = status, retryable
        super().__init__(message)


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

    def __init__(self, run_id: str, otherwise: str) -> None:
        super().__init__(run_id, "", f"there is one of this id, started with {otherwise}; give the new one another id")


class DefinitionChanged(JournalConflict):
    """A run pins the definition it was started with, and this is another one; `problems` are the differences."""

    def __init__(self, run_id: str, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        names = ", ".join(p.path for p in self.problems[:5]) + (", ..." if len(self.problems) > 5 else "")
        message = f"the run was started with another definition{names and ', which differs in '}{names}"
        super().__init__(run_id, "", f"{message}; to go on under this one: ropewalk resume {run_id} --upgrade FILE")


class NotFound(RopewalkError):
    """Nothing of this kind has this id."""

    def __init__(self, what: str, id: str, *, suggestion: str | None = None, why: str | None = None) -> None:
        self.what, self.id, self.suggestion, self.why = what, id, suggestion, why
        hint = f"; did you mean {suggestion!r}?" if suggestion else ""
        super().__init__(f"no {what} {id!r}{hint}" + (f": {why}" if why else ""))


class StoreError(RopewalkError):
    """The store cannot be read or written; the text says what to do."""


class Fenced(StoreError):
    """Another process has taken the run over; nothing more of this one's is written."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id} has been taken over by another process; this one must give it up")
