"""The text of a program as a tree that nobody changes, and the places of problems in the text."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ...errors import InvalidFlow, Problem
from ...plans.read.problems import Problem as ProgramProblem
from ...plans.read.problems import Unreadable
from ...plans.read.source import read


def parse(code: str) -> ast.Module:
    """Return the tree of a program, which nobody changes."""
    try:
        return read(code)
    except Unreadable as error:
        raise InvalidFlow(located(code, error.problems)) from None


def located(code: str, problems: Iterable[ProgramProblem]) -> list[Problem]:
    """Return problems of a program with their columns in the whole text."""
    return [problem_at(code, found.line, found.column, found.message, found.suggestion) for found in problems]


def problem_at(code: str, line: int, column: int, message: str, suggestion: str | None = None) -> Problem:
    """Return a problem at a line and column of a program, both from 1."""
    lines = code.split("\n")
    before = sum(len(text) + 1 for text in lines[: line - 1])
    if 0 < line <= len(lines):  # ast counts bytes, places count characters
        column = len(lines[line - 1].encode()[: column - 1].decode(errors="ignore")) + 1
    return Problem(path="code", message=f"line {line}: {message}", suggestion=suggestion, column=before + column)
