"""Errors as data, the same through every door."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from ..errors import (
    ExpressionError,
    OutputValidationFailed,
    Problem,
    RopewalkError,
    ToolError,
    ToolNotApproved,
    display_path,
    message_of,
    relative_paths,
)
from ..source.locations import Lines
from ..tools.mcp.login_errors import Reason
from .remedies import Door, word_remedy


def problems_of(error: BaseException) -> tuple[Problem, ...]:
    """Return the problems of an error, each with its place, in the order of the file."""
    result = getattr(error, "problems", ())
    if result:
        return tuple(sorted(result, key=_position))
    if isinstance(error, ExpressionError) and error.text:
        place = Lines("<expression>", error.text).place(error.at)
        return (Problem(path="", message=error.message, suggestion=error.suggestion, column=error.at + 1, place=place),)
    return ()


def _position(problem: Problem) -> tuple[str, int, int]:
    """Sort by place in the file; problems without a place come first, in their own order."""
    place = problem.place
    return (place.file, place.line, place.column) if place else ("", 0, 0)


def error_message(error: BaseException, door: Door) -> str:
    """Return the error as one text, with its remedy in the words of the interface."""
    text = _message(error, door)
    return relative_paths(text) if door is Door.CLI else text


def _message(error: BaseException, door: Door) -> str:

    # For operators the text says how a refused tool differs from the approved one. Models do not see that text.
    if isinstance(error, ToolNotApproved) and door in (Door.CLI, Door.HTTP):
        text = f"tool {error.tool_id}" if door is Door.HTTP else message_of(error)
        return f"{text}: {describe_difference(error, door)}"
    if isinstance(error, ToolError) and door is Door.HTTP:
        end = "" if error.remedy is None else f"; {word_remedy(error.remedy, door)}"
        return f"tool {error.tool_id}: {error.reason}{end}"
    if isinstance(error, ToolNotApproved):
        return message_of(error)
    remedy = error.remedy if isinstance(error, RopewalkError) else None
    if remedy is None:
        return message_of(error)
    return f"{Exception.__str__(error)}; {word_remedy(remedy, door)}"


def failure_text(reason: str, door: Door) -> str:
    """Return why a server cannot be used, with the remedy in the words of the interface."""
    remedy = reason.remedy if isinstance(reason, Reason) else None
    return reason if remedy is None else f"{reason}; {word_remedy(remedy, door)}"


def describe_difference(error: ToolNotApproved, door: Door) -> str:
    """Return how a refused tool differs from the approved one, and its remedy."""

    # For operators, never for models.
    return error.differs if error.remedy is None else f"{error.differs}; {word_remedy(error.remedy, door)}"


def word_problem(problem: Problem, door: Door) -> Problem:
    """Return a problem whose message contains its remedy in the words of the interface."""
    message = problem.message
    if problem.remedy is not None:
        message = f"{message}; {word_remedy(problem.remedy, door)}"
    if door is Door.CLI:
        message = relative_paths(message)
    return problem if message == problem.message else replace(problem, message=message, remedy=None)


RAN: Final = "The tool did run, and only its result was rejected: calling it again repeats its effects."


def has_run(error: BaseException) -> bool:
    """Return True if a tool took effect although the call failed."""
    return getattr(error, "ran", False) is True


def error_payload(error: BaseException, door: Door, message: str | None = None) -> dict[str, Any]:
    """Present an error as JSON."""
    data: dict[str, Any] = {
        "kind": type(error).__name__,
        "message": message or error_message(error, door) or type(error).__name__,
        "problems": [problem_payload(p, door) for p in problems_of(error)],
    }
    if has_run(error):
        data["ran"] = True
    if isinstance(error, ToolError) and error.trace is not None and door is Door.HTTP:
        data |= error.trace.to_dict()
    if isinstance(error, OutputValidationFailed) and error.result is not None:
        data["result"] = error.result.to_dict()
    return {"error": data}


def validity_payload(problems: Iterable[Problem], warnings: Iterable[Problem], door: Door) -> dict[str, Any]:
    """Present the check of a definition as JSON."""
    wrong, doubtful = ([problem_payload(item, door) for item in group] for group in (problems, warnings))
    return {"valid": not wrong, "problems": wrong, "warnings": doubtful}


def problem_payload(problem: Problem, door: Door) -> dict[str, Any]:
    """Return a problem as `{file, line, column, path, message, suggestion}`, with its remedy in the message."""
    problem = word_problem(problem, door)
    place = problem.place
    return {
        "file": display_path(place.file) if place else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
        "path": problem.path,
        "message": problem.message,
        "suggestion": problem.suggestion,
    }
