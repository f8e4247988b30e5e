"""Faults of texts: the error at a position, and the length above which a text is refused."""

from __future__ import annotations

from typing import Final

from ..errors import ExpressionError

MAX_TEXT: Final = 10_000


def fault(text: str, at: int, message: str, suggestion: str | None = None) -> ExpressionError:
    """Return an error at a position of the text; its line and column count from 1."""
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    return ExpressionError(message, text=text, at=at, line=line, column=column, suggestion=suggestion)
