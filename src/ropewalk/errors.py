"""Every error that Ropewalk raises on purpose. An error carries data; its text is made from that data.

RopewalkError
├── InvalidFlow          the definition is wrong: `.problems` lists everything that is
│   └── UnresolvedReference      a `$` expression of a strict composite refers to nothing
├── InvalidInput         the input of a run does not fit the definition: `.problems`
├── ExpressionError      an expression cannot be read or evaluated: `.text .at .line .column`
├── InvalidValue         a value is not JSON or exceeds a limit: `.place`
│   ├── SchemaMismatch           the value does not fit a schema: `.problems`
│   └── Unfinished               an agent reached a limit before it had a result
├── UnsupportedSchema    a JSON Schema has an unsupported draft or does not compile
├── ConfigError          `ropewalk.toml` or a tool module is wrong: `.problems .place`
├── InvalidTool          a tool definition is wrong, or differs from the registered one
├── InvalidCursor        a page cursor is out of date or malformed
├── ToolError            a tool call failed: `.tool_id .backend .op`, the cause chained
│   ├── InvalidToolId
│   ├── ToolNotFound
│   │   └── ToolNotApproved      the tool differs from the approved one: `.differs`
│   ├── NoBackends
│   ├── ValidationFailed         the arguments do not fit the input schema: `.problems`
│   ├── ExecutionFailed
│   │   └── ToolTimeout          the tool did not answer in time: `.seconds`
│   ├── OutputValidationFailed   the tool ran, but its result is not usable: `.problems .result`
│   └── StreamNotSupported
├── NodeFailed           a node of a flow failed: `.path .node .tool .attempts`
├── RunTimeout           a run took longer than its timeout: `.seconds`
├── RunStopped           somebody stopped the run
├── RunBusy              another live process executes the run: `.owner`
├── RunEnded             nothing can be sent to an ended run: `.status`
├── NotWaiting           the run does not wait for this event or approval: `.waits`
├── Rejected             somebody rejected an approval: `.by .note`
├── PartOfRun            the run is part of another run, which must be resumed instead: `.parent`
├── NothingToRetry       the run has nothing to retry in the requested way
├── NothingToUndo        the run has nothing to undo, or has not ended
├── RunUndone            the run is undone, so it is not continued: `.undo`
├── FlowFailed           a flow that was called as a tool failed: `.result`
├── ModelError           the model gave no usable answer: `.status .retryable`
├── CompletionFailed     a conversation has no result: `.run_id .completion`
├── NoExecutor           a run needs the tool executor it was started with
├── UnknownLanguage      a program was recorded in another version of its language: `.language`
├── JournalConflict      the flow does something else than the journal recorded: `.path`
│   ├── RunExists                another run has this id
│   └── DefinitionChanged        the run was started with another definition: `.problems`
├── NotFound             no chain, run or other object has this id: `.what .id .suggestion`
└── StoreError           the store cannot be read or written
    └── Fenced           another process has taken the run over: `.run_id`

To add an error, write a class here and add it to this list. If it needs its own exit code or HTTP status, also add it
to the tables `ERRORS` of `doors/cli/dispatch.py` and `doors/http/errors.py`.

The functions at the end turn exceptions of other people's code into text that every store can keep.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Any, Final, Self

from .fast_dataclass import dataclass


def install_command(extra: str) -> str:
    """Return the command that installs an optional extra, such as `http`."""
    return f'pip install "ropewalk[{extra}]"'


def display_path(file: str | os.PathLike[str]) -> str:
    """Return the path of a file for messages: relative to the working directory if the file is below it."""
    name = os.fspath(file)
    try:
        return name.removeprefix(os.path.join(os.getcwd(), ""))
    except FileNotFoundError:  # the working directory was deleted
        return name


def relative_paths(text: str) -> str:
    """Return a message in which every path below the working directory is relative to it."""
    try:
        here = os.getcwd()
    except FileNotFoundError:  # the working directory was deleted
        return text
    if here not in text or here == os.sep:
        return text
    path = rf"(?<![\w./-]){re.escape(here)}(?:{re.escape(os.sep)}(?=[\w.@-])|(?![\w./-]))"
    return re.sub(path, lambda match: "" if match[0].endswith(os.sep) else ".", text)


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a file.

    `line` and `column` count from 1. `text` is the content of that line, for the caret.
    """

    file: str
    line: int
    column: int
    text: str = ""

    @property
    def spot(self) -> str:
        """The name of the file with the line: `report.py:12`."""
        return f"{os.path.basename(self.file)}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong with a definition or a value.

    `path` is the position in the document (`nodes[2].tool`). `column` counts characters from 1 in the text there.
    `place` is the position in the file, `keyword` the violated JSON Schema keyword, `remedy` an action that can help.
    """

    path: str
    message: str
    suggestion: str | None = None
    column: int | None = None
    place: Place | None = None
    keyword: str | None = None
    remedy: Remedy | None = field(default=None, hash=False)

    def __str__(self) -> str:
        text = f"{self.path}: {self.message}" if self.path else self.message
        text = f"{text}; did you mean {self.suggestion}?" if self.suggestion else text
        return text if self.remedy is None else f"{text}; {self.remedy}"


class Action(Enum):
    """An action that can resolve an error."""

    # The value describes it for a Python program.

    RESUME = "to resume it: await app.resume({run_id})"
    CONTINUE = "to continue it: await app.runs.retry({run_id})"
    SHOW_WAITS = "to see what it waits for: app.runs.waiting({run_id})"
    UPGRADE = "to use the new definition: await app.resume({run_id}, {file}, upgrade=True)"
    RETRY_CHANGED = "to use the new definition: await app.runs.retry({run_id}, definition={file}, upgrade=True)"
    FORK_CHANGED = "to use the new definition: await app.runs.fork({run_id}, definition={file})"
    RETRY = "to retry what failed: await app.runs.retry({run_id})"
    RETRY_WITH_FILE = "to use the tools of its file: await app.runs.retry({run_id}, definition=Path({file}))"
    RESUME_WITH_FILE = "to use the tools of its file: await app.resume({run_id}, Path({file}))"
    RETRY_FROM = "to run it again: await app.runs.retry({run_id}, [{node}])"
    RETRY_UPGRADED = "to run it again: await app.runs.retry({run_id}, [{node}], definition={file}, upgrade=True)"
    CHOOSE_NODE = "name the node to run from: await app.runs.retry({run_id}, [NODE])"
    FORK = "to start again from it: await app.runs.fork({run_id})"
    STOP = "to stop it: app.runs.stop({run_id})"
    ADD_NODE = "to run it again as well, add {node} to from_nodes"
    EXECUTE_HERE = 'to execute runs in this process: App(engine="local")'
    CHOOSE_STORE = "to use another store: App(store)"
    START_SCHEDULED = "to start another run: await app.schedules.run({name})"
    EXAMINE_STORE = "examine the store to see what else is damaged"
    APPROVE_TOOL = "to use it: review {tool} and approve it in ropewalk.lock"
    LOG_IN = "to log in: await toolbox.mcp.log_in({server}, show)"
    LOG_IN_SCOPE = "to log in with more rights: await toolbox.mcp.log_in({server}, show, scope={scope})"
    TRUST = "to agree to them: set import = true under [mcp] in ropewalk.toml, or ROPEWALK_TRUST=all"
    APPROVE_TOOLS = "to use the tools again: review each one and approve it in ropewalk.lock"


@dataclass(frozen=True, slots=True)
class Remedy:
    """An action with its arguments (`run_id`, `node`, `name`, `tool`)."""

    # Each interface words it in its own way.

    action: Action
    arguments: Mapping[str, str]

    def __str__(self) -> str:
        return self.action.value.format_map({name: repr(value) for name, value in self.arguments.items()})


@dataclass(frozen=True, slots=True)
class StackTrace:
    """Where an exception was raised: `at` is the last place in the user's code or an address, `text` the stack."""

    at: str | None
    text: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of a failure that show it."""
        return {name: value for name, value in (("at", self.at), ("stack", self.text)) if value}


def trace_in(error: Any) -> StackTrace | None:
    """Return the stack trace in a recorded failure or in an error of a result."""
    if not isinstance(error, Mapping) or not (error.get("at") or error.get("stack")):
        return None
    return StackTrace(error.get("at"), error.get("stack"))


def raised_at(error: Any) -> str:
    """Return ` (FILE:LINE in FUNCTION, called at FILE:LINE)` for a failure, without what its message says already."""
    if not isinstance(error, Mapping):
        return ""
    at, message = str(error.get("at") or ""), str(error.get("message"))
    # The stack of a call that a program in a Python file made begins with the line of the program.
    call = re.match(r'  File "([^"\n]+)", line (\d+)\n', str(error.get("stack") or ""))
    called = f"{call[1]}:{call[2]}" if call is not None else ""
    place = re.sub(r" in \S+$", "", at)  # without the function
    places = [at] if at and place not in message else []
    if called and called != place and called not in message:
        places.append(f"called at {called}")
    return f" ({', '.join(places)})" if places else ""


class RopewalkError(Exception):
    """Base class of all errors that Ropewalk raises on purpose.

    `remedy` is an action that can help. The text ends with it, in words of Python; other interfaces have their own.
    """

    remedy: Remedy | None = None

    def with_remedy(self, action: Action, **arguments: str) -> Self:
        """Set the remedy, an action with the fields that it names, such as `run_id`; return this error."""
        self.remedy = Remedy(action, arguments)
        return self

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.remedy is None else f"{text}; {self.remedy}"


class InvalidFlow(RopewalkError):
    """The definition is wrong; no part of it has run.

    `problems` lists everything that is wrong. `flow` is the part of the flow that could be compiled, `file` the
    document. `unlisted` are ids of tools that a plan names, on servers that have not listed their tools yet; `unknown`
    are other names in it that nothing has.
    """

    # `kind`: Its notation, where `flow` is set.

    retryable = False
    kind: str = "flow"
    file: Any = None
    unlisted: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    warnings: tuple[Problem, ...] = ()

    def __init__(self, problems: Iterable[Problem], flow: Any = None) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        self.flow = flow
        super().__init__("\n".join(map(str, self.problems)))


class UnresolvedReference(InvalidFlow):
    """A `$` expression of a strict composite refers to nothing. The text has no path when there is one problem."""

    def __str__(self) -> str:
        return self.problems[0].message if len(self.problems) == 1 else "\n".join(map(str, self.problems))


class InvalidInput(RopewalkError):
    """The input of a run does not fit the definition's input schema; `problems` lists each mismatch."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class ExpressionError(RopewalkError):
    """An expression cannot be read (at parse time) or evaluated (at run time).

    `at` is the offset in `text`, from 0; `line` and `column` count from 1. `others` are further errors in the same
    text of a document.
    """

    others: tuple[ExpressionError, ...] = ()
    is_of_text = False  # True if the whole text may be meant as text

    def __init__(
        self,
        message: str,
        *,
        text: str = "",
        at: int | None = None,
        line: int = 1,
        column: int = 1,
        suggestion: str | None = None,
    ) -> None:
        self.message, self.text, self.line, self.column, self.suggestion = message, text, line, column, suggestion
        self.at = column - 1 if at is None else at
        excerpt = text if len(text) <= 80 else text[:79] + "…"
        where = f" (line {line}, column {column} of {excerpt!r})" if text else ""
        hint = f"; did you mean {suggestion}?" if suggestion else ""
        super().__init__(f"{message}{hint}{where}")


class InvalidValue(RopewalkError):
    """A value is not JSON or exceeds a limit; `place` is the path of the value (`result.rows[3].price`)."""

    def __init__(self, place: str, message: str) -> None:
        self.place, self.message = place, message
        super().__init__(f"{place}: {message}" if place else message)


CORRECTION: Final = "correction"
"""The `needs` of a failure that stays until somebody corrects a setting or the definition."""
RESTART: Final = "restart"
"""The `needs` of a failure with which a step must start over, with a corrected tool, definition or setting."""


class SchemaMismatch(InvalidValue):
    """A value does not fit a JSON Schema; `problems` lists each mismatch with its path and keyword.

    `steps` are the recorded steps of the run whose answers do not fit the schemas of their own tools.
    """

    def __init__(self, place: str, problems: Iterable[Problem], *, steps: tuple[str, ...] = ()) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        self.steps, self.needs = steps, RESTART if steps else None
        super().__init__("", "\n".join(map(str, self.problems)))  # each problem starts with its own path
        self.place = place


class UnsupportedSchema(RopewalkError):
    """A JSON Schema has a draft other than 2020-12 and draft-07, or does not compile."""


class ConfigError(RopewalkError):
    """The configuration is wrong; `problems` lists everything that is, `place` is where the first problem is."""

    key: tuple[str, ...] = ()
    """The setting that is wrong, inside the settings of its server, provider or backend."""

    def at_key(self, *key: str) -> Self:
        """Set the key, unless it is known; return this error."""
        self.key = self.key or key
        return self

    def __init__(self, message: str | Sequence[Problem], *, place: Place | None = None) -> None:
        if isinstance(message, str):
            message = [Problem(path="", message=message, place=place)]
        self.problems: tuple[Problem, ...] = tuple(message)
        self.place = self.problems[0].place if self.problems else None
        lines = []
        for problem in self.problems:
            at = problem.place
            lines.append(f"{at.file}:{at.line}:{at.column}: {problem}" if at else str(problem))
        super().__init__("\n".join(lines))


class InvalidCursor(RopewalkError):
    """A page cursor is out of date or malformed: start again from the first page."""


class NotFound(RopewalkError):
    """No object of the kind `what` has this id; `why` explains it, `suggestion` is the closest id that exists."""

    def __init__(self, what: str, id: str, *, suggestion: str | None = None, why: str | None = None) -> None:
        self.what, self.id, self.suggestion, self.why = what, id, suggestion, why
        hint = f"; did you mean {suggestion!r}?" if suggestion else ""
        super().__init__(f"no {what} {id!r}{hint}" + (f": {why}" if why else ""))


class Unfinished(InvalidValue):
    """An agent reached a limit before it had a result."""

    needs: Final = RESTART


class NodeFailed(RopewalkError):
    """A node failed.

    `path` names the node instance (`each[3]/fetch`). `problems` lists the mismatches with a schema. `retryable` is
    False if another attempt cannot help or would repeat effects. `ran` is True if a tool ran and only its result was
    rejected. `ran_at` has the paths of these tools (`call/pay`) if they ran in a flow that the node called; it is None
    for a tool of the node itself. `classes` names the classes of the exception that a Python function raised. `budgets`
    has the budget that is used up, with `account`, `limits` and `used`. `trace` is where the tool raised its exception.
    `retry_after` has the seconds after which the provider of the tool wants the next attempt. `needs` is what must come
    before a retry: CORRECTION, RESTART, or None if the same call can succeed later. `steps` are the steps that a retry
    must repeat, if their recorded answers are at fault.
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
        ran_at: Sequence[str] | None = None,
        classes: Iterable[str] = (),
        budgets: Iterable[dict[str, Any]] = (),
        trace: StackTrace | None = None,
        needs: str | None = None,
    ) -> None:
        self.needs = needs
        self.classes, self.budgets, self.trace = tuple(classes), tuple(budgets), trace
        self.path, self.message, self.node, self.tool, self.kind = path, message, node, tool, kind
        self.attempts, self.problems = attempts, tuple(problems)
        self.retryable, self.ran = retryable, ran
        self.ran_at = None if ran_at is None else tuple(ran_at)
        self.retry_after: float | None = None
        self.steps: tuple[str, ...] = ()
        super().__init__(f"{path}: {message}")

    def event_data(self) -> dict[str, Any]:
        """Return what an event says of the failure."""
        trace = {} if self.trace is None else self.trace.to_dict()
        return {
            "message": self.message,
            "kind": self.kind,
            **({"classes": list(self.classes)} if self.classes else {}),
            **trace,
        }


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
        super().__init__(f"run {run_id} is being executed by {owner}; wait for it to end")
        self.with_remedy(Action.STOP, run_id=run_id)


class RunEnded(RopewalkError):
    """The run has ended, so nothing can be sent to it."""

    def __init__(self, run_id: str, status: str) -> None:
        self.run_id, self.status = run_id, status
        super().__init__(f"run {run_id} has ended ({status}) and no longer receives events or approvals")


class NotWaiting(RopewalkError):
    """The run does not wait for this event or approval; `waits` describes what it waits for."""

    def __init__(self, run_id: str, what: str, waits: Iterable[str] = (), why: str = "") -> None:
        self.run_id, self.what, self.waits = run_id, what, tuple(waits)
        instead = "it waits for " + (", ".join(self.waits) or "nothing now")
        super().__init__(f"run {run_id} does not wait for {what}; {why or instead}")


class Rejected(RopewalkError):
    """Somebody rejected an approval: `by` is who, `note` is why. Both can be None."""

    retryable = False

    def __init__(self, by: str | None, note: str | None) -> None:
        self.by, self.note = by, note
        super().__init__("rejected" + (f" by {by}" if by else "") + (f": {note}" if note else ""))


class PartOfRun(RopewalkError):
    """The run is part of the run `parent`, which called it as a tool; resume that run instead."""

    def __init__(self, run_id: str, parent: str) -> None:
        self.run_id, self.parent = run_id, parent
        super().__init__(f"run {run_id} is part of run {parent} and continues with it; resume {parent}")


class NothingToRetry(RopewalkError):
    """The run has nothing to retry in the requested way; the text says why and what to do instead."""

    def __init__(self, run_id: str, message: str) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id}: {message}")


class RunNotBegun(NothingToRetry):
    """The run of a schedule could not begin, so it has neither a definition nor steps."""


class NothingToUndo(RopewalkError):
    """The run has nothing to undo, or cannot be undone now; the text says why and what to do instead."""

    def __init__(self, run_id: str, message: str) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id}: {message}")


class RunUndone(RopewalkError):
    """The run is undone, so its recorded results no longer hold; `undo` is the id of the run that undoes it."""

    def __init__(self, run_id: str, undo: str) -> None:
        self.run_id, self.undo = run_id, undo
        super().__init__(f"run {run_id} is undone by run {undo}, so it cannot be continued or retried")
        self.with_remedy(Action.FORK, run_id=run_id)


class FlowFailed(RopewalkError):
    """A run did not complete, or a flow that was called as a tool failed; `result` is its result in its notation.

    `ran` is True if its calls took effect and only a result was rejected. `ran_at` has the rejected results that a
    retry can accept, as `RUN/PATH`. `__cause__` is the exception of the tool that failed, if this process executed the
    run.
    """

    def __init__(self, message: str, *, run_id: str, status: str, result: dict[str, Any]) -> None:
        self.run_id, self.status, self.result = run_id, status, result
        if isinstance(result, FailedResult):
            self.__cause__ = result.cause
        self.ran = any(_is_after_effects(error) for error in errors_in(result))
        self.ran_at = tuple(f"{run_id}/{path}" for error in errors_in(result) for path in rejected_paths(error))
        self.retryable = status != "stopped" and not self.ran
        self.needs = needs_in(errors_in(result))
        super().__init__(message)

    @property
    def trace(self) -> StackTrace | None:
        """The stack trace of the failure that ended the run, from the line of the flow on."""
        error: dict[str, Any] = next(reversed(errors_in(self.result)), {})
        trace, (file, _, line) = trace_in(error), str(error.get("place", "")).rpartition(":")
        frame = f'  File "{file}", line {line}'
        if not file or (trace is not None and str(trace.text).startswith(f"{frame}\n")):
            return trace
        text = None if trace is None else trace.text
        return StackTrace((trace and trace.at) or error["place"], f"{frame}\n{text or error.get('message', '')}")


class FailedResult(dict[str, Any]):
    """The result of a run that failed in this process; `cause` is the exception of the tool that failed."""

    def __init__(self, result: Mapping[str, Any], cause: BaseException | None) -> None:
        super().__init__(result)
        self.cause = cause


def needs_in(errors: Iterable[Any]) -> str | None:
    """Return what the errors of a result need before a retry: RESTART if one needs it, else CORRECTION, else None."""
    needs = {error.get("needs") for error in errors if isinstance(error, dict)}
    return next((need for need in (RESTART, CORRECTION) if need in needs), None)


def failure_data(failed: NodeFailed, path: str | None = None) -> dict[str, Any]:
    """Return the fields that only some failures have: stack trace, needs, used budgets, and tools that ran."""
    data: dict[str, Any] = {} if failed.trace is None else failed.trace.to_dict()
    data |= retry_data(failed)
    if failed.budgets:
        data["budgets"] = list(failed.budgets)
    if not failed.ran:
        return data
    data["ran"] = True
    if failed.ran_at is not None or path != failed.path:
        data["ranAt"] = [failed.path] if failed.ran_at is None else list(failed.ran_at)
    return data


def retry_data(error: BaseException | None) -> dict[str, Any]:
    """Return the fields that say what must come before a retry, and which steps it must repeat."""
    needs, steps = getattr(error, "needs", None), getattr(error, "steps", ())
    return {**({} if needs is None else {"needs": needs}), **({"steps": list(steps)} if steps else {})}


def is_of_result(error: Mapping[str, Any]) -> bool:
    """Return True if the steps of a run completed, and only its result does not fit its definition."""
    if error.get("nodeId") is not None:
        return False
    path, message = error.get("path"), str(error.get("message"))
    is_mismatch = error.get("kind") == "SchemaMismatch" and re.match(r"output\b", str(path)) is not None
    return is_mismatch or (path is None and message.startswith("result: "))


def rejected_paths(error: Any) -> list[str]:
    """Return the paths of the rejected results in an error of a result, as `runs.retry` accepts them."""
    if not isinstance(error, dict) or error.get("ran") is not True:
        return []
    places = error.get("ranAt")
    if isinstance(places, list):
        return [str(path) for path in places]
    path = error.get("path") or error.get("nodeId")
    return [str(path)] if path else []


def _is_after_effects(error: Any) -> bool:
    """Return True if the calls of the flow took effect and only a result was rejected."""

    # A tool's schema can reject it, the output schema of the flow, or the expression of the flow's result.
    if not isinstance(error, dict):
        return False
    kind, path = error.get("kind"), str(error.get("path") or "")
    of_flow = error.get("nodeId") is None and kind == "ExpressionError"
    return error.get("ran") is True or of_flow or (kind == "SchemaMismatch" and path.partition(".")[0] == "output")


def errors_in(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the errors of a result, whatever notation it is written in; agents have one."""
    errors = result.get("errors")
    listed = [*(errors if isinstance(errors, list) else ()), result.get("error")]
    return [error for error in listed if isinstance(error, dict)]


class CompletionFailed(RopewalkError):
    """A conversation has no result. `completion` is the part that exists; None if the model never answered."""

    def __init__(self, message: str, *, run_id: str, completion: Any = None) -> None:
        self.run_id, self.completion = run_id, completion
        super().__init__(message)


class NoExecutor(RopewalkError):
    """The run was started with its own tool executor, which is missing now."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id} was started with its own tool executor; pass the executor again to resume it")


class UnknownLanguage(RopewalkError):
    """The journal of a program was written in another version of the language of plans: `language`."""

    def __init__(self, language: int, known: int) -> None:
        self.language = language
        super().__init__(
            f"the run was written in version {language} of the language of plans, and this process has {known}; "
            "resume it where that version is installed"
        )


class JournalConflict(RopewalkError):
    """The flow does something else than the journal of the run recorded at `path`."""

    def __init__(self, run_id: str, path: str, message: str) -> None:
        self.run_id, self.path = run_id, path
        super().__init__(f"run {run_id}: {path + ': ' if path else ''}{message}")


class RunExists(JournalConflict):
    """Another run has this id; `difference` says what it was started with, such as "another input"."""

    def __init__(self, run_id: str, difference: str | None = None) -> None:
        detail = "" if difference is None else f" by a run that was started with {difference}"
        super().__init__(run_id, "", f"this id is already used{detail}; choose another id")


class DefinitionChanged(JournalConflict):
    """The run was started with another definition; `problems` lists the differences."""

    def __init__(self, run_id: str, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        paths = ", ".join(problem.path for problem in self.problems[:5]) + (", ..." if len(self.problems) > 5 else "")
        message = f"the run was started with another definition{paths and ', which differs in '}{paths}"
        super().__init__(run_id, "", message)
        self.with_remedy(Action.UPGRADE, run_id=run_id, file="FILE")


class StoreError(RopewalkError):
    """The store cannot be read or written; the text says what to do."""


class Fenced(StoreError):
    """Another process has taken the run over, so this process writes nothing more."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id} was taken over by another process; this process must stop executing it")


_MAX_MEMBERS: Final = 5  # exceptions of a group in its text
_MAX_MEMBER_CHARACTERS: Final = 300
_UNSTORABLE = "[\0\ud800-\udfff]"  # characters that not every store can keep


def is_interruption(error: BaseException) -> bool:
    """Return True if the code that raised `error` was interrupted and has not failed itself."""

    # Python raises KeyboardInterrupt wherever the process is, and GeneratorExit in a coroutine that is closed.
    # Everything else is a failure, SystemExit too: a tool does not end the process. CancelledError needs its own check.
    if not isinstance(error, GeneratorExit):
        return isinstance(error, KeyboardInterrupt)
    # Closing a coroutine raises a GeneratorExit in it directly. One that passed other frames was raised by the code.
    first = trace = error.__traceback__
    while first is not None and trace is not None:
        if trace.tb_frame is not first.tb_frame:
            return False
        trace = trace.tb_next
    return True


def message_of(error: BaseException | str) -> str:
    """Return the text of an error for people and models: that of a ToolError as `tool ID: what is wrong`."""
    return error.message if isinstance(error, ToolError) else str(error)


def exception_text(error: BaseException | str) -> str:
    """Return the text of any exception, with its members if it is a group; "" if it has no text."""
    try:
        text = message_of(error).strip()
    except Exception:  # noqa: BLE001 - its `__str__` is wrong; callers fall back to its type
        return ""
    if isinstance(error, BaseExceptionGroup):
        text = f"{text}: {_members(error)}"
    return storable_text(text)


def attribute_of(error: BaseException, name: str, default: Any = None) -> Any:
    """Return an attribute of any exception; the default if it is missing, or is a property that raises."""
    try:
        return getattr(error, name, default)
    except Exception:  # noqa: BLE001 - code of its class; the failure of the tool must not become this one
        return default


def storable_text(text: str) -> str:
    """Return a text with U+FFFD in place of what not every store can keep: NUL and lone surrogates."""
    return text if text.isascii() and "\0" not in text else re.sub(_UNSTORABLE, "\ufffd", text)


def describe_exception(error: BaseException) -> str:
    """Return the type of any exception and its text, as `TypeError: text`."""
    text = exception_text(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _members(group: BaseExceptionGroup[BaseException]) -> str:
    """Return the texts of the first members that are not groups themselves, each shortened."""
    texts = list(map(describe_exception, _leaves(group)))
    limit = _MAX_MEMBER_CHARACTERS
    shortened = [text if len(text) <= limit else f"{text[:limit]}…" for text in texts[:_MAX_MEMBERS]]
    more = len(texts) - len(shortened)
    return "; ".join(shortened) + (f"; and {more} more" if more else "")


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    # A stack, since a group may be nested deeper than Python can recurse.
    stack = [*reversed(group.exceptions)]
    while stack:
        error = stack.pop()
        if isinstance(error, BaseExceptionGroup):
            stack += reversed(error.exceptions)
        else:
            yield error


NOT_APPROVED: Final = "refused: the tool is not approved, or has changed since; an operator must review it"


class InvalidTool(RopewalkError):
    """A tool definition is wrong, or differs from the one registered under the same id."""


class ToolError(RopewalkError):
    """A tool call failed at a known stage.

    `op` is one of validate_tool_id, resolve, select_backend, validate_input, execute, validate_output, stream.
    `backend` is the ToolBackend of the call, None if the call failed before one was selected. `reason` is the text of
    the cause, and `problems` lists the mismatches with a schema. The original exception is `__cause__`.
    """

    retryable = True
    ran = False
    """True if the tool ran and repeating the call would repeat its effects."""
    ran_at: tuple[str, ...] | None = None
    """The rejected results inside the flow, as `RUN/PATH`; None if the tool is not a flow."""
    recorded_classes: tuple[str, ...] = ()
    """What `classes` was in the process of the call, for a failure read back from a journal."""
    trace: StackTrace | None = None
    """Where the tool raised its exception, once a run has recorded the failure."""
    is_recorded = False
    """True for a failure read back from a journal."""
    kind: str | None = None
    """The kind of a failure read back from a journal; otherwise the name of the class is its kind."""

    def __init__(
        self, tool_id: str, op: str = "", cause: BaseException | str = "", *, backend: Any = None, problems: Any = ()
    ) -> None:
        # A resolver, an executor or a handler may raise one with its message alone: the Runner adds the rest.
        self.is_bare = not op and not cause
        if self.is_bare:
            tool_id, cause = "", tool_id
        self.tool_id, self.op, self.backend = tool_id, op, backend
        self.problems: tuple[Problem, ...] = tuple(problems)
        self.steps: list[Any] = []  # filled by Runner.run_chain: every StepResult so far
        self.reason = exception_text(cause) or type(cause).__name__
        super().__init__(self.reason if self.is_bare else f"tool {tool_id}: {self.reason}")
        if isinstance(cause, BaseException):
            self.__cause__ = cause

    def __str__(self) -> str:
        text = self._text()
        return text if self.remedy is None else f"{text}; {self.remedy}"

    def _text(self) -> str:
        if self.is_bare:
            return Exception.__str__(self)
        kind = getattr(self.backend, "kind", None)
        return f"run: {self.op} {self.tool_id}{f' [{kind}]' if kind else ''}: {self.reason}"

    @property
    def message(self) -> str:
        """The text for people and models, `tool ID: what is wrong`; `str()` also names the stage and the backend."""
        return super().__str__()

    @property
    def cause(self) -> BaseException | str:
        """The original exception, or the reason as text if there is none."""
        return self.reason if self.__cause__ is None else self.__cause__

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes by which `except` catches what a Python function raised."""
        return self.recorded_classes or _class_names(self.__cause__)

    def matches(self, kind: type[BaseException]) -> bool:
        """Return True if this error, or any error in its chain of causes, is a `kind`."""
        error: BaseException | None = self
        while error is not None and not isinstance(error, kind):
            error = error.__cause__
        return error is not None


def _class_names(error: BaseException | None) -> tuple[str, ...]:
    """Return the names of the classes that `except` catches the exception by; none for errors of Ropewalk itself."""
    if error is None or isinstance(error, RopewalkError):
        return ()
    return tuple(kind.__name__ for kind in type(error).__mro__ if kind not in (object, BaseException, Exception))


class BudgetExceeded(ToolError):
    """A budget is used up, so the call was not made; `account` says whose budget, `amount` which limit."""

    retryable = False

    def __init__(self, tool_id: str, reason: str, account: str, amount: str, limit: float, used: float) -> None:
        self.account, self.amount, self.limit, self.used = account, amount, limit, used
        super().__init__(tool_id, "execute", reason)
        if not tool_id:  # the time of the run is over, whichever call was in progress
            self.args, self.is_bare = (reason,), True

    @property
    def budgets(self) -> tuple[dict[str, Any], ...]:
        """The limit that is reached, as the budgets of a run are shown."""
        return ({"account": self.account, "limits": {self.amount: self.limit}, "used": {self.amount: self.used}},)


class InvalidToolId(ToolError):
    """The tool id does not have the form `name` or `namespace:name`."""

    retryable = False


class ToolNotFound(ToolError):
    """No tool has this id."""

    retryable = False


class ToolNotApproved(ToolNotFound):
    """The tool differs from the approved one.

    `reason` and the text go to models, so they contain no text from the server and no remedy. Interfaces show
    `differs`, how the tool differs, and the remedy to operators only.
    """

    def __init__(self, tool_id: str, op: str, differs: str, *, reason: str = NOT_APPROVED, backend: Any = None) -> None:
        self.differs = differs
        super().__init__(tool_id, op, reason, backend=backend)
        self.with_remedy(Action.APPROVE_TOOL, tool=tool_id)

    def __str__(self) -> str:
        return self._text()

    @property
    def message(self) -> str:
        """The text for people and models, without the remedy."""
        return Exception.__str__(self)


class NoBackends(ToolError):
    """The tool has no backend that could execute it."""

    retryable = False


class ValidationFailed(ToolError):
    """The arguments do not fit the tool's input schema; `problems` lists each mismatch with its path."""

    retryable = False


class ExecutionFailed(ToolError):
    """The tool ran and failed, or could not be reached."""


class ToolTimeout(ExecutionFailed):
    """The tool did not answer within `seconds`; `reason` replaces the default text."""

    def __init__(self, tool_id: str, seconds: float, *, backend: Any = None, reason: str = "") -> None:
        self.seconds = seconds
        super().__init__(tool_id, "execute", reason or f"no answer within {seconds:g} s", backend=backend)


class OutputValidationFailed(ToolError):
    """The tool ran, but its result cannot be used: it does not fit the output schema, or is not JSON.

    A retry would repeat the effects of the call. So `retryable` is False unless trusted annotations say that repeating
    the tool is safe. `result` is the rejected result (a RawResult), or None if the tool did not run.
    """

    retryable = False
    result: Any = None


class StreamNotSupported(ToolError):
    """The tool's backend cannot stream."""

    retryable = False


def wrap_error(tool_id: str, op: str, error: BaseException | None, *, backend: Any = None) -> ToolError | None:
    """Wrap an error of your own executor or backend in the ToolError of a call."""
    if error is None:
        return None
    if isinstance(error, ToolError) and error.tool_id == tool_id:
        return error
    kinds = {"execute": ExecutionFailed, "validate_input": ValidationFailed, "validate_output": OutputValidationFailed}
    wrapped = kinds.get(op, ToolError)(tool_id, op, error, backend=backend)
    wrapped.retryable = getattr(error, "retryable", wrapped.retryable)
    return wrapped


REFUSAL_STATUSES: Final = (400, 413, 422)
"""The statuses with which the API of a model refuses what a request says."""
_LATER: Final = (408, 409, 425, 429)  # of requests that can succeed as they are


class ModelError(RopewalkError):
    """The model gave no usable answer.

    `status` is the HTTP status, if any. `retryable` is True if asking again may help. `part` names the part of the
    request that the model's API refused: `{"tool": name}`, `{"block": digest}` or `{"schema": digest}`. It is
    `{"request": digest}` if the refusal names no part that can be left out, and None for other errors. `problems` has
    the place of a model that a definition names and that is not available. `needs` is what must come before the next
    attempt, by default as `status` and `part` say: CORRECTION, RESTART, or "" if the same request can succeed later.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        part: dict[str, str] | None = None,
        problems: tuple[Problem, ...] = (),
        needs: str | None = None,
    ) -> None:
        self.status, self.retryable, self.part, self.problems = status, retryable, part, problems
        self.needs = _needs_of_status(status, part) if needs is None else needs
        super().__init__(message)


def _needs_of_status(status: int | None, part: Mapping[str, str] | None) -> str:
    # The refusal of a part is recorded, so the same conversation gets it again.
    if part is not None or status in REFUSAL_STATUSES:
        return RESTART
    is_fault_of_client = status is not None and 400 <= status < 500 and status not in _LATER
    return CORRECTION if is_fault_of_client else ""


class PriceUnknown(ModelError):
    """A budget in US dollars needs the price of a model, and it is not known; no other model is asked instead."""
