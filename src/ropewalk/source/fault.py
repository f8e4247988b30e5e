"""What a reader finds wrong, by offset; `load` turns it into problems with places."""

from __future__ import annotations

from typing import Final

from ..frozen import dataclass

SYNTAX: Final = "syntax"
"""The `keyword` of a problem that means: this is no text of its form at all."""
MOST_FAULTS: Final = 50
"""A reader gives up after this many: nobody reads more, and a bomb may have millions."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`offset` in the text, what is wrong there, and where its `first` sibling stood; `keyword` is SYNTAX or None."""

    offset: int
    message: str
    first: int | None = None
    suggestion: str | None = None
    keyword: str | None = None


class Refused(Exception):
    """The text is no document: every fault found."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = faults
        super().__init__("; ".join(f.message for f in faults))
