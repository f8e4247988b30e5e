"""Problems in the text of a program, each with its place and what to write instead."""

from __future__ import annotations

import ast
from typing import Any

from ...fast_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in the text: line and column from 1, and a message with advice."""

    line: int
    column: int
    message: str
    suggestion: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the problem as JSON."""
        named = {} if self.suggestion is None else {"suggestion": self.suggestion}
        return {"line": self.line, "column": self.column, "message": self.message, **named}

    def __str__(self) -> str:
        advice = "" if self.suggestion is None else f"; did you mean {self.suggestion}?"
        return f"{self.line}:{self.column}: {self.message}{advice}"


class Unreadable(Exception):
    """The text of a program has problems."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("; ".join(map(str, problems)))


def problem_at(node: ast.AST, message: str, suggestion: str | None = None) -> Problem:
    """Return a problem at the place of a node."""
    return Problem(getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1, message, suggestion)
