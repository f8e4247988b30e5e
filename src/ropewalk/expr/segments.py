"""Where a JSONPath query begins and ends in a text. What it means is the business of `query`."""

from __future__ import annotations

import re
from typing import Final

from .faults import fault
from .paths import CALL

_QUERY_SEGMENT: Final = re.compile(r"\.\.|\.\*|\[\s*(?:\*|\?|:|-?[0-9]+\s*[:,]|(?:\"[^\"]*\"|'[^']*')\s*,)")
_SEGMENT: Final = re.compile(r"\.\.(?:\*|[^\W\d]\w*)?|\.\*|\.[^\W\d]\w*")
# A quotation without an end goes to the end: looked for from each of its quotes, it would be gone through as often.
_QUOTED_OR_BRACKET: Final = re.compile(r"""\"(?:[^\"\\]|\\.)*+(\"?)|'(?:[^'\\]|\\.)*+('?)|[\[\]]""", re.DOTALL)


def is_query(text: str, at: int) -> bool:
    """Whether a JSONPath segment with many results begins at `at`."""
    return _QUERY_SEGMENT.match(text, at) is not None


def query_end(text: str, at: int) -> int:
    """The position after the JSONPath segments that begin at `at`; a method call is left out."""
    while True:
        if text.startswith("[", at):
            at = _closing(text, at)
        else:
            found = _SEGMENT.match(text, at)
            if found is None or (not found.group().startswith("..") and CALL.match(text, found.end())):
                return at
            at = found.end()


def _closing(text: str, at: int) -> int:
    start, depth = at, 0
    for found in _QUOTED_OR_BRACKET.finditer(text, at):
        char = found.group()
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if not depth:
                return found.end()
        elif "" in found.groups():
            raise fault(text, found.start(), "the quotation is not closed")
    raise fault(text, start, "the bracket is not closed")
