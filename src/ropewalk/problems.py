"""Lists that collect the problems of one definition, up to a limit.

A definition of a few megabytes may have a million problems. Each one costs a search for suggestions and for its place,
so a full list ends the check at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, SupportsIndex

from .errors import InvalidFlow, Problem

MOST_PROBLEMS: Final = 200
"""Maximum number of problems that are reported for one definition."""
MOST_TEXT: Final = 1_000_000
"""Maximum number of characters in the paths and messages of one list: a key, and so a path, may have megabytes."""
_MAX_JOINED: Final = 20  # problems in one line of text


def join_problems(problems: Sequence[Problem]) -> str:
    """Return the first 20 problems in one line, and how many more there are."""
    text = "; ".join(map(str, problems[:_MAX_JOINED]))
    return text if len(problems) <= _MAX_JOINED else f"{text}; and {len(problems) - _MAX_JOINED} more"


class Problems(list[Problem]):
    """The problems of one definition; a full list ends the check."""

    # `append`, `extend` and `+=` then raise InvalidFlow with all problems, and a last one that says that there may be
    # more.

    def __init__(self, problems: Iterable[Problem] = ()) -> None:
        super().__init__()
        self._size = 0
        self.extend(problems)

    def append(self, problem: Problem) -> None:
        """Add a problem."""
        super().append(problem)
        self._size += len(problem.path) + len(problem.message)
        if len(self) >= MOST_PROBLEMS or self._size > MOST_TEXT:
            raise InvalidFlow([*self, more_problems(len(self))])

    def extend(self, problems: Iterable[Problem]) -> None:
        """Add problems one by one."""
        for problem in problems:
            self.append(problem)

    def __iadd__(self, problems: Iterable[Problem]) -> Problems:  # type: ignore[override, misc]
        self.extend(problems)
        return self

    def insert(self, index: SupportsIndex, problem: Problem) -> None:
        """Refuse: problems are in the order of the document."""
        raise TypeError("problems are only added at the end")


class Warnings(list[Problem]):
    """The warnings of one definition; a full list drops further ones, because the definition may still be valid."""

    def append(self, problem: Problem) -> None:
        """Add a warning; drop it if there are too many."""
        if len(self) < MOST_PROBLEMS:
            super().append(problem)

    def extend(self, problems: Iterable[Problem]) -> None:
        """Add warnings; drop those that are too many."""
        for problem in problems:
            self.append(problem)

    def __iadd__(self, problems: Iterable[Problem]) -> Warnings:  # type: ignore[override, misc]
        self.extend(problems)
        return self


def more_problems(count: int) -> Problem:
    """Return the last problem of a list that was cut off after `count`."""
    return Problem(path="", message=f"the check stopped after {count} problems; fix these first")
