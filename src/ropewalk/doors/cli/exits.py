"""Exit codes and error texts: one table from an error, and one from a run's status, to a code."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any, Final

from ...errors import (
    ConfigError,
    DefinitionChanged,
    ExpressionError,
    InvalidCursor,
    InvalidFlow,
    InvalidInput,
    InvalidTool,
    InvalidToolId,
    InvalidValue,
    NotFound,
    NotWaiting,
    Problem,
    RopewalkError,
    RunExists,
    RunStopped,
    RunTimeout,
    ToolNotFound,
    ToolTimeout,
    UnsupportedSchema,
    ValidationFailed,
)
from ...source import render, shortened, visible
from ...told import RAN, error_data, has_run, problem_data, problems_of, said

DONE, FAILED, USAGE, INVALID, WAITING, TIMEOUT, INTERRUPTED = 0, 1, 2, 3, 4, 124, 130

STATUS: Final = {
    "completed": DONE,
    "partial": DONE,
    "failed": FAILED,
    "waiting": WAITING,
    "timeout": TIMEOUT,
    "stopped": INTERRUPTED,
    "parked": FAILED,
}


def ended(result: Mapping[str, Any]) -> int:
    """The code of a run's result."""
    return STATUS.get(str(result.get("status")), FAILED)


class UsageError(RopewalkError):
    """The command line is wrong."""

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        self.problems = tuple(problems)
        super().__init__(message)


class Interrupted(KeyboardInterrupt):
    """A signal came; the run that was waited for, where there is one, may go on elsewhere."""

    def __init__(self, run_id: str = "") -> None:
        self.run_id = run_id
        super().__init__()


class BrokenOff(RopewalkError):
    """A tool has ended what runs all of this; the run that was waited for, where there is one, has not ended."""

    def __init__(self, what: str, run_id: str = "", *, kept: bool = True) -> None:
        self.run_id = run_id
        on = f": `ropewalk resume {quote(run_id)}` goes on with it" if kept else ", and is lost: it was kept in memory"
        super().__init__(f"a tool has {what}" + (f"; run {run_id} was broken off{on}" if run_id else ""))


_INPUT: Final = "the input does not fit the input schema that"
_GIVEN: Final = {"state": "the state does not fit what", "variables": "the variables do not fit what"}
ERRORS: Final[tuple[tuple[type[BaseException], int], ...]] = (
    # The first line that fits decides, so the narrower kinds stand first.
    (UsageError, USAGE),
    (InvalidFlow, INVALID),
    (ExpressionError, INVALID),
    (UnsupportedSchema, INVALID),
    (InvalidTool, INVALID),
    (ConfigError, USAGE),
    (NotFound, USAGE),
    (NotWaiting, USAGE),
    (InvalidCursor, USAGE),
    (InvalidInput, USAGE),
    (InvalidValue, USAGE),
    (InvalidToolId, USAGE),
    (ToolNotFound, USAGE),
    (ValidationFailed, USAGE),
    (ToolTimeout, TIMEOUT),
    (RunTimeout, TIMEOUT),
    (RunStopped, INTERRUPTED),
    (KeyboardInterrupt, INTERRUPTED),
    (asyncio.CancelledError, INTERRUPTED),
    (RunExists, USAGE),
    (DefinitionChanged, USAGE),
    (RopewalkError, FAILED),
)


def exit_code(error: BaseException) -> int:
    """The code this error ends the process with."""
    return next((code for kind, code in ERRORS if isinstance(error, kind)), FAILED)


def explain(error: BaseException) -> str:
    """The error for people: each problem at its place with a caret, or one line."""
    if isinstance(error, (KeyboardInterrupt, asyncio.CancelledError)):
        return "interrupted"
    note = [f"note: {RAN}"] if has_run(error) else []
    problems = problems_of(error)
    if not problems:
        return "\n".join([f"error: {visible(shortened(said(error)))}", *note])
    shown = [render(p) for p in problems]
    if isinstance(error, InvalidInput):
        parts = {problem.path.partition(".")[0] for problem in problems}
        what = _GIVEN.get(parts.pop(), _INPUT) if len(parts) == 1 else _INPUT
        shown.insert(0, f"error: {what} the definition declares")
    elif not isinstance(error, (InvalidFlow, ConfigError, ExpressionError)):
        text = str(error)
        shown = [f"error: {visible(shortened(text))}", *(render(p) for p in problems if p.message not in text)]
    elif len(problems) > 1:
        shown.append(f"{len(problems)} problems; nothing has run")
    shown += [f"warning: {render(p)}" for p in getattr(error, "warnings", ())] + note
    return "\n".join(shown)


def failure(error: BaseException) -> dict[str, Any]:
    """The error for `--json`."""
    data = error_data(error, None if str(error) or exit_code(error) != INTERRUPTED else "interrupted")
    if exit_code(error) == INTERRUPTED and not isinstance(error, RopewalkError):
        data["error"]["kind"] = "Interrupted"
    if isinstance(error, (Interrupted, BrokenOff)) and error.run_id:
        data["runId"] = error.run_id
    if isinstance(error, InvalidFlow) and error.warnings:
        data["error"]["warnings"] = [problem_data(p) for p in error.warnings]
    return data
