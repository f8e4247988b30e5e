"""Exit codes and error texts: one table from an error, and one from a run's status, to a code."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from ...errors import (
    ConfigError,
    ExpressionError,
    InvalidCursor,
    InvalidFlow,
    InvalidInput,
    InvalidTool,
    InvalidToolId,
    InvalidValue,
    NotFound,
    Place,
    Problem,
    RopewalkError,
    RunStopped,
    RunTimeout,
    ToolNotFound,
    ToolTimeout,
    UnsupportedSchema,
    ValidationFailed,
)
from ...source import render, visible

DONE, FAILED, USAGE, INVALID, WAITING, TIMEOUT, INTERRUPTED = 0, 1, 2, 3, 4, 124, 130

STATUS: Final = {
    "completed": DONE,
    "partial": DONE,
    "failed": FAILED,
    "waiting": WAITING,
    "timeout": TIMEOUT,
    "stopped": INTERRUPTED,
}


class UsageError(RopewalkError):
    """The command line is wrong."""

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        self.problems = tuple(problems)
        super().__init__(message)


ERRORS: Final[tuple[tuple[type[BaseException], int], ...]] = (
    # The first line that fits decides, so the narrower kinds stand first.
    (UsageError, USAGE),
    (InvalidFlow, INVALID),
    (ExpressionError, INVALID),
    (UnsupportedSchema, INVALID),
    (InvalidTool, INVALID),
    (ConfigError, USAGE),
    (NotFound, USAGE),
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
    (RopewalkError, FAILED),
)


def exit_code(error: BaseException) -> int:
    """The code this error ends the process with."""
    return next((code for kind, code in ERRORS if isinstance(error, kind)), FAILED)


def problems_of(error: BaseException) -> tuple[Problem, ...]:
    """What an error has to say, as problems with their places."""
    found = getattr(error, "problems", ())
    if found:
        return tuple(sorted(found, key=_position))
    if isinstance(error, ConfigError):
        at = error.place
        message = str(error).removeprefix(f"{at.file}:{at.line}:{at.column}: ") if at else str(error)
        return (Problem(path="", message=message, place=at),)
    if isinstance(error, ExpressionError) and error.text:
        line = (error.text.splitlines() or [""])[min(error.line, len(error.text.splitlines())) - 1]
        place = Place("<expression>", error.line, error.column, line)
        return (Problem(path="", message=error.message, suggestion=error.suggestion, column=error.column, place=place),)
    return ()


def _position(problem: Problem) -> tuple[str, int, int]:
    """As they stand in the file; those without a place first, in their own order."""
    place = problem.place
    return (place.file, place.line, place.column) if place else ("", 0, 0)


def explain(error: BaseException) -> str:
    """The error for people: each problem at its place with a caret, or one line."""
    if isinstance(error, (KeyboardInterrupt, asyncio.CancelledError)):
        return "interrupted"
    problems = problems_of(error)
    if not problems:
        return f"error: {visible(str(error))}"
    shown = [render(p) for p in problems]
    if isinstance(error, InvalidInput):
        state = all(problem.path.startswith("state.") for problem in problems)
        what = "the state does not fit what" if state else "the input does not fit the input schema that"
        shown.insert(0, f"error: {what} the definition declares")
    elif not isinstance(error, (InvalidFlow, ConfigError, ExpressionError)):
        said = str(error)
        shown = [f"error: {visible(said)}", *(render(p) for p in problems if p.message not in said)]
    elif len(problems) > 1:
        shown.append(f"{len(problems)} problems; nothing has run")
    return "\n".join(shown)


def error_data(error: BaseException) -> dict[str, Any]:
    """The error for `--json`."""
    message = str(error) or ("interrupted" if exit_code(error) == INTERRUPTED else type(error).__name__)
    return {
        "error": {
            "kind": type(error).__name__,
            "message": message,
            "problems": [problem_data(p) for p in problems_of(error)],
        }
    }


def problem_data(problem: Problem) -> dict[str, Any]:
    """One problem for `--json`."""
    place = problem.place
    return {
        "file": place.file if place else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
        "path": problem.path,
        "message": problem.message,
        "suggestion": problem.suggestion,
    }
