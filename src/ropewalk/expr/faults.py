"""An error at a position of a text, and how long a text may be."""

from __future__ import annotations

from typing import Final

from ..errors import ExpressionError

MAX_TEXT: Final = 10_000


def fault(text: str, at: int, message: str, suggestion: str | None = None) -> ExpressionError:
    """An error at a position of the text, with line and column counted from 1."""
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    return ExpressionError(message, text=text, at=at, line=line, column=column, suggestion=suggestion)
