"""Errors as data, the same through every door."""

from __future__ import annotations

from typing import Any, Final

from .errors import ExpressionError, OutputValidationFailed, Problem, ToolNotApproved
from .source.spot import Lines


def problems_of(error: BaseException) -> tuple[Problem, ...]:
    """What an error has to say, as problems with their places."""
    found = getattr(error, "problems", ())
    if found:
        return tuple(sorted(found, key=_position))
    if isinstance(error, ExpressionError) and error.text:
        place = Lines("<expression>", error.text).place(error.at)
        return (Problem(path="", message=error.message, suggestion=error.suggestion, column=error.at + 1, place=place),)
    return ()


def _position(problem: Problem) -> tuple[str, int, int]:
    """As they stand in the file; those without a place first, in their own order."""
    place = problem.place
    return (place.file, place.line, place.column) if place else ("", 0, 0)


def said(error: BaseException) -> str:
    """An error in one text, for the operator: of a tool that is refused also what differs."""
    return f"{error}: {error.differs}" if isinstance(error, ToolNotApproved) else str(error)


RAN: Final = "The tool did run, and only its result was rejected: calling it again repeats its effects."


def has_run(error: BaseException) -> bool:
    """Return True if a tool took effect although the call failed."""
    return getattr(error, "ran", False) is True


def error_data(error: BaseException, message: str | None = None) -> dict[str, Any]:
    """An error as `{error: {kind, message, problems}}`; of a tool that ran also `ran`, and its rejected `result`."""
    data: dict[str, Any] = {
        "kind": type(error).__name__,
        "message": message or said(error) or type(error).__name__,
        "problems": [problem_data(p) for p in problems_of(error)],
    }
    if has_run(error):
        data["ran"] = True
    if isinstance(error, OutputValidationFailed) and error.result is not None:
        data["result"] = error.result.to_dict()
    return {"error": data}


def problem_data(problem: Problem) -> dict[str, Any]:
    """One problem as `{file, line, column, path, message, suggestion}`."""
    place = problem.place
    return {
        "file": place.file if place else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
        "path": problem.path,
        "message": problem.message,
        "suggestion": problem.suggestion,
    }
