"""Lists that collect what is wrong with one definition, and stop where nobody would read on.

A definition of a few megabytes may hold a million faults. Each costs a search for what was meant and a place in the
text, so the lists end the check where the last problem is found, not where the answer is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, SupportsIndex

from .given import InvalidFlow, Problem

MOST_PROBLEMS: Final = 200
"""How many problems of one definition are reported."""
MOST_TEXT: Final = 1_000_000
"""How many characters the paths and messages of one list have: a key, and so a path, may have megabytes."""


class Problems(list[Problem]):
    """The problems of one definition; the last that fits ends the check.

    `append`, `extend` and `+=` raise InvalidFlow with all problems, and a last one that says that there may be more.
    """

    def __init__(self, problems: Iterable[Problem] = ()) -> None:
        super().__init__()
        self._size = 0
        self.extend(problems)

    def append(self, problem: Problem) -> None:
        super().append(problem)
        self._size += len(problem.path) + len(problem.message)
        if len(self) >= MOST_PROBLEMS or self._size > MOST_TEXT:
            raise InvalidFlow([*self, more_problems(len(self))])

    def extend(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self.append(problem)

    def __iadd__(self, problems: Iterable[Problem]) -> Problems:  # type: ignore[override, misc]
        self.extend(problems)
        return self

    def insert(self, index: SupportsIndex, problem: Problem) -> None:
        """Refuse: problems are found in the order of the document."""
        raise TypeError("problems are only added at the end")


class Warnings(list[Problem]):
    """The warnings of one definition; those past the limit are dropped, since the definition may still be right."""

    def append(self, problem: Problem) -> None:
        if len(self) < MOST_PROBLEMS:
            super().append(problem)

    def extend(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self.append(problem)

    def __iadd__(self, problems: Iterable[Problem]) -> Warnings:  # type: ignore[override, misc]
        self.extend(problems)
        return self


def more_problems(count: int) -> Problem:
    """Return the problem at the end of a list that was cut off after `count`."""
    return Problem(path="", message=f"{count} problems are listed, and the check ended there; fix these first")
